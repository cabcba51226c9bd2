/* SPDX-License-Identifier: BSD-3-Clause */
/* The server and the types in which updates travel. */
#include "hd_kernels.h"
#include "hd_random.h"
#include "server_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 3001 /* 8 full chunks and a short one */
#define BYTES (VALUES * sizeof(float))

struct fixture {
	struct net net;
	struct hd_server_config config;
	struct hd_jobspec spec;
	struct hd_tensor tensors[2];
};

static int setup(void **state) {
	struct fixture *f = calloc(1, sizeof(*f));

	net_open(&f->net);
	net_server(&f->net, &f->config);
	spec_make(&f->spec, f->tensors, VALUES);
	*state = f;
	return 0;
}

static int teardown(void **state) {
	struct fixture *f = *state;

	net_close(&f->net);
	free(f);
	return 0;
}

/* An update that depends on who and when only. */
static void update(float *g, uint16_t rank, uint32_t round) {
	struct hd_random random;

	hd_random_init(&random, rank * 1000003ULL + round);
	for (size_t i = 0; i < VALUES; i++) {
		g[i] = (float)(hd_random_unit(&random) - 0.5);
	}
}

/* Updates in 16 bits: applied in fp32, checked for NaN and Inf as what they are. */
static void test_half_payloads(void **state) {
	struct fixture *f = *state;
	struct fake *one = fake_worker(&f->net, 0);
	hd_version base = fake_joined(one, &f->spec)->version;
	const struct hd_sgd sgd = {f->spec.learning_rate, f->spec.momentum, f->spec.weight_decay};
	static const uint8_t dtypes[] = {HD_DTYPE_FP16, HD_DTYPE_BF16};
	static const uint16_t infinity[] = {0xfc00, 0x7f80};
	float *w = malloc(BYTES), *h = calloc(VALUES, sizeof(float)), *g = malloc(BYTES);
	uint16_t *half = malloc(VALUES * sizeof(*half));
	const struct hd_msg_outcome *outcome;
	uint64_t values;

	hd_jobspec_initialize(&f->spec, w);
	for (uint32_t i = 0; i < 2; i++) {
		one->dtype = dtypes[i];
		update(g, 0, 2 * i + 1);
		hd_half_from_f32(dtypes[i], half, g, VALUES, 1);
		outcome = fake_push_direct(one, 2 * i + 1, base, half, VALUES);
		assert_int_equal(outcome->outcome, HD_OUTCOME_APPLIED);
		assert_int_equal(net_event(&f->net, HD_EVENT_COMMITTED, i)->bytes, BYTES / 2);
		hd_half_to_f32(dtypes[i], g, half, VALUES);
		hd_sgd_apply_scalar(w, h, g, VALUES, &sgd);
		half[VALUES - 1] = infinity[i];
		outcome = fake_push_direct(one, 2 * i + 2, base, half, VALUES);
		assert_int_equal(outcome->outcome, HD_OUTCOME_FAILED);
		assert_int_equal(outcome->reason, HD_REASON_NOT_FINITE);
	}
	assert_memory_equal(hd_server_model(f->net.server, one->job, &values), w, BYTES);
	assert_memory_equal(hd_server_momentum(f->net.server, one->job), h, BYTES);
	/* A size or a type that is none of a job's updates. */
	fake_request_push(one, 5, 1, base, BYTES);
	assert_int_equal(fake_outcome(one, 5)->reason, HD_REASON_REFUSED);
	one->dtype = HD_DTYPE_FIXED32;
	fake_request_push(one, 6, 1, base, BYTES);
	assert_int_equal(fake_outcome(one, 6)->reason, HD_REASON_REFUSED);
	free(w);
	free(h);
	free(g);
	free(half);
	fake_close(one);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_half_payloads, setup, teardown),
	};

	return cmocka_run_group_tests_name("server-payload", tests, NULL, NULL);
}
