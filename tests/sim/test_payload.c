/* SPDX-License-Identifier: BSD-3-Clause */
/* The gain of smaller payloads where the network is the bottleneck, every invariant checked. */
#include "hd_cluster.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Eight workers that compute next to nothing, 256 KiB of fp32 through 100 Mbit/s: how many are applied. */
static uint64_t applied_with(uint8_t payload, uint8_t pull_payload) {
	struct hd_cluster_result result;
	struct hd_cluster_config config = {.seed = 1};
	struct hd_scenario scenario;
	struct hd_cluster *cluster;
	char error[256] = "";

	hd_scenario_init(&scenario);
	scenario.workers = 8;
	scenario.link_mbps = 200;
	scenario.server_link_mbps = 100;
	scenario.latency_us = 50;
	scenario.duration_s = 4;
	scenario.job.update_bytes = 262144;
	scenario.job.compute_ms = 1;
	scenario.job.tau_max = 32;
	scenario.job.payload = payload;
	scenario.job.pull_payload = pull_payload;
	config.scenario = &scenario;
	if (hd_cluster_create(&config, &cluster, error, sizeof error) < 0)
		fail_msg("%s", error);
	if (hd_cluster_run(cluster) == -EILSEQ)
		fail_msg("%s", hd_cluster_failure(cluster));
	hd_cluster_result(cluster, &result);
	hd_cluster_destroy(cluster);
	return result.pushes.applied;
}

static void test_half_payloads_double_the_rate(void **state) {
	uint64_t fp32 = applied_with(HD_DTYPE_FP32, HD_DTYPE_FP32);
	uint64_t fp16 = applied_with(HD_DTYPE_FP16, HD_DTYPE_FP16);
	uint64_t bf16 = applied_with(HD_DTYPE_BF16, HD_DTYPE_BF16);

	print_message(
		"applied: %llu in fp32, %llu in fp16, %llu in bf16\n",
		(unsigned long long)fp32,
		(unsigned long long)fp16,
		(unsigned long long)bf16
	);
	assert_true(fp16 > fp32 * 17 / 10);
	assert_true(bf16 > fp32 * 17 / 10);
}

/* Fixed point is as big as fp32, and as exact where it can be. */
static void test_fixed_payloads(void **state) {
	uint64_t fp32 = applied_with(HD_DTYPE_FP32, HD_DTYPE_FP32);
	uint64_t fixed = applied_with(HD_DTYPE_FIXED32, HD_DTYPE_FP32);

	print_message(
		"applied: %llu in fp32, %llu in fixed point\n",
		(unsigned long long)fp32,
		(unsigned long long)fixed
	);
	assert_in_range(fixed, fp32 * 95 / 100, fp32 * 105 / 100);
}

/* Sparse updates leave the pulls' direction as the only limit. */
static void test_sparse_payloads(void **state) {
	uint64_t dense = applied_with(HD_DTYPE_FP32, HD_DTYPE_BF16);
	uint64_t sparse = applied_with(HD_DTYPE_SPARSE32, HD_DTYPE_BF16);

	print_message(
		"applied: %llu dense, %llu sparse\n",
		(unsigned long long)dense,
		(unsigned long long)sparse
	);
	assert_true(sparse > dense * 15 / 10);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_half_payloads_double_the_rate),
		cmocka_unit_test(test_fixed_payloads),
		cmocka_unit_test(test_sparse_payloads),
	};

	return cmocka_run_group_tests_name("payload", tests, NULL, NULL);
}
