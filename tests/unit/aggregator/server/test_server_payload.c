/* SPDX-License-Identifier: BSD-3-Clause */
/* The server and the types in which updates travel. */
#include "hd_kernels.h"
#include "hd_runs.h"
#include "server_job.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Updates in 16 bits: applied in fp32, checked for NaN and Inf as what they are. */
static void test_half_payloads(void **state) {
	struct fixture *f = *state;
	struct fake *one = fake_worker(&f->net, 0);
	hd_version base = fake_joined(one, &f->spec)->version;
	const struct hd_sgd sgd = {f->spec.learning_rate, f->spec.momentum, f->spec.weight_decay};
	static const uint8_t dtypes[] = {HD_DTYPE_FP16, HD_DTYPE_BF16};
	static const uint16_t infinity[] = {0xfc00, 0x7f80};
	float *w = malloc(BYTES), *h = calloc(VALUES, sizeof(float)), *g = malloc(BYTES);
	uint16_t *half = malloc(VALUES * sizeof *half);
	const struct hd_msg_outcome *outcome;
	uint64_t values;

	hd_jobspec_initialize(&f->spec, w);
	for (uint32_t i = 0; i < 2; i++) {
		one->dtype = dtypes[i];
		job_update(g, 0, 2 * i + 1);
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
	one->dtype = HD_DTYPE_COUNT;
	fake_request_push(one, 6, 1, base, BYTES);
	assert_int_equal(fake_outcome(one, 6)->reason, HD_REASON_REFUSED);
	free(w);
	free(h);
	free(g);
	free(half);
	fake_close(one);
}

/* Lanes become floats as they come; the server chooses the exponent, a chunk names its own. */
static void test_fixed_payloads(void **state) {
	struct fixture *f = *state;
	struct fake *one = fake_worker(&f->net, 0);
	hd_version base = fake_joined(one, &f->spec)->version;
	const struct hd_sgd sgd = {f->spec.learning_rate, f->spec.momentum, f->spec.weight_decay};
	float *w = malloc(BYTES), *h = calloc(VALUES, sizeof(float)), *g = malloc(BYTES);
	uint32_t *lanes = malloc(BYTES);
	const struct hd_msg_grant *grant;
	uint64_t values;
	int exponent;

	hd_jobspec_initialize(&f->spec, w);
	job_update(g, 0, 1);
	one->dtype = HD_DTYPE_FIXED32;
	one->peak = 0.5F;
	fake_request_push(one, 1, 1, base, BYTES);
	grant = &fake_wait(one, HD_MSG_GRANT, 0)->grant;
	exponent = hd_fixed_exponent(0.5 * (double)grant->weight, 1);
	assert_int_equal((int16_t)grant->exponent, exponent);
	assert_true(exponent < -20);
	assert_false(hd_fixed_from_f32(lanes, g, VALUES, 1, exponent));
	one->exponent = (int16_t)exponent;
	fake_push(one, grant->token, 1, 1, lanes, VALUES);
	assert_int_equal(fake_outcome(one, 1)->outcome, HD_OUTCOME_APPLIED);
	hd_fixed_to_f32(g, lanes, VALUES, exponent);
	hd_sgd_apply_scalar(w, h, g, VALUES, &sgd);
	assert_memory_equal(hd_server_model(f->net.server, one->job, &values), w, BYTES);
	/* A lane overflowed in the network, where sums were made; an invalid exponent. */
	one->flags = HD_CHUNK_NOT_FINITE;
	assert_int_equal(
		fake_push_direct(one, 2, base, lanes, VALUES)->reason, HD_REASON_NOT_FINITE
	);
	one->flags = 0;
	one->exponent = HD_FIXED_EXPONENT_MAX + 1;
	assert_int_equal(fake_push_direct(one, 3, base, lanes, VALUES)->reason, HD_REASON_REFUSED);
	assert_memory_equal(hd_server_model(f->net.server, one->job, &values), w, BYTES);
	/* Models do not travel so. */
	one->pull_dtype = HD_DTYPE_FIXED32;
	fake_request_pull(one, 1, 0, false);
	assert_int_equal(
		fake_wait(one, HD_MSG_PULL_STATE, 0)->pull_state.reason, HD_REASON_REFUSED
	);
	free(w);
	free(h);
	free(g);
	free(lanes);
	fake_close(one);
}

/* Touches what its runs name, the momentum included, and nothing else. */
static void test_sparse_payloads(void **state) {
	struct fixture *f = *state;
	struct fake *one = fake_worker(&f->net, 0);
	hd_version base = fake_joined(one, &f->spec)->version;
	const struct hd_sgd sgd = {f->spec.learning_rate, f->spec.momentum, f->spec.weight_decay};
	/* The second is longer than a chunk. */
	static const struct hd_run runs[2][2] = {{{0, 1}, {7, 1000}}, {{5, 2}, {2990, 11}}};
	float *w = malloc(BYTES), *h = calloc(VALUES, sizeof(float)), *g = malloc(BYTES);
	uint8_t *wire = malloc(BYTES);
	uint64_t values;

	one->dtype = HD_DTYPE_SPARSE32;
	hd_jobspec_initialize(&f->spec, w);
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t bytes = hd_runs_bytes(runs[i], 2, HD_CHUNK_BYTES_DEFAULT);
		const float *x = g;

		job_update(g, 0, i + 1);
		hd_runs_encode(runs[i], 2, g, 1, HD_CHUNK_BYTES_DEFAULT, wire);
		assert_int_equal(
			fake_push_direct(one, i + 1, base, wire, bytes / 4)->outcome,
			HD_OUTCOME_APPLIED
		);
		assert_int_equal(net_event(&f->net, HD_EVENT_COMMITTED, i)->bytes, bytes);
		for (size_t k = 0; k < 2; k++) {
			uint64_t first = runs[i][k].first, count = runs[i][k].count;

			hd_sgd_apply_scalar(w + first, h + first, x, count, &sgd);
			x += count;
		}
	}
	assert_memory_equal(hd_server_model(f->net.server, one->job, &values), w, BYTES);
	assert_memory_equal(hd_server_momentum(f->net.server, one->job), h, BYTES);
	free(w);
	free(h);
	free(g);
	free(wire);
	fake_close(one);
}

static void
fails(struct fake *one, uint32_t round, hd_version base, const void *wire, enum hd_reason reason) {
	const struct hd_msg_outcome *outcome;

	one->dtype = HD_DTYPE_SPARSE32;
	outcome = fake_push_direct(one, round, base, wire, 4);
	assert_int_equal(outcome->outcome, HD_OUTCOME_FAILED);
	assert_int_equal(outcome->reason, reason);
}

static void test_broken_sparse_payloads(void **state) {
	struct fixture *f = *state;
	struct fake *one = fake_worker(&f->net, 0);
	hd_version base = fake_joined(one, &f->spec)->version;
	float *initial = malloc(BYTES);
	uint64_t values;
	struct {
		uint64_t header;
		float x[2];
	} wire = {VALUES | UINT64_C(2) << 40, {1, 2}};

	hd_jobspec_initialize(&f->spec, initial);
	fails(one, 1, base, &wire, HD_REASON_REFUSED); /* beyond the model */
	wire.header = 5 | UINT64_C(3) << 40;
	fails(one, 2, base, &wire, HD_REASON_REFUSED); /* more values than there are */
	wire.header = 0;
	fails(one, 3, base, &wire, HD_REASON_REFUSED);
	wire.header = 5 | UINT64_C(2) << 40;
	wire.x[1] = INFINITY;
	fails(one, 4, base, &wire, HD_REASON_NOT_FINITE);
	/* Sizes that no sparse update has. */
	fake_request_push(one, 5, 1, base, 8);
	assert_int_equal(fake_outcome(one, 5)->reason, HD_REASON_REFUSED);
	fake_request_push(one, 6, 1, base, 14);
	assert_int_equal(fake_outcome(one, 6)->reason, HD_REASON_REFUSED);
	fake_request_push(one, 7, 1, base, BYTES + 4);
	assert_int_equal(fake_outcome(one, 7)->reason, HD_REASON_REFUSED);
	assert_memory_equal(hd_server_model(f->net.server, one->job, &values), initial, BYTES);
	assert_int_equal(net_events(&f->net, HD_EVENT_COMMITTED), 0);
	free(initial);
	fake_close(one);
}

/* A pull in 16 bits waits for its buffer without spinning, and gets the one that a push gives back. */
static void test_half_pull_waits_for_memory(void **state) {
	struct fixture *f = *state;
	struct hd_message cancel = {.kind = HD_MSG_CANCEL};
	struct fake *one;
	hd_version base;
	hd_ns began;

	f->config.memory_bytes = 4 * (BYTES + 64); /* model, momentum, two more */
	net_server(&f->net, &f->config);
	one = fake_worker(&f->net, 0);
	base = fake_joined(one, &f->spec)->version;
	one->pull_dtype = HD_DTYPE_BF16;
	fake_request_push(one, 1, 1, base, BYTES);
	(void)fake_wait(one, HD_MSG_GRANT, 0); /* one of the two is the push's now */
	fake_request_pull(one, 1, 0, false);
	net_run(&f->net, 20 * HD_MS);
	assert_int_equal(fake_count(one, HD_MSG_PULL_STATE), 0);
	began = f->net.now;
	assert_true(hd_server_ops.deadline(f->net.server) > began);
	cancel.cancel.job = one->job;
	cancel.cancel.worker = one->rank;
	cancel.cancel.round = 1;
	cancel.cancel.attempt = 1;
	cancel.cancel.direction = HD_PUSH;
	fake_send(one, &cancel);
	assert_int_equal(fake_wait(one, HD_MSG_PULL_STATE, 0)->pull_state.bytes, BYTES / 2);
	/* A type in which no model travels. */
	one->pull_dtype = HD_DTYPE_SPARSE32;
	fake_request_pull(one, 2, 0, false);
	assert_int_equal(
		fake_wait(one, HD_MSG_PULL_STATE, 1)->pull_state.reason, HD_REASON_REFUSED
	);
	fake_close(one);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_half_payloads, job_setup, job_teardown),
		cmocka_unit_test_setup_teardown(test_fixed_payloads, job_setup, job_teardown),
		cmocka_unit_test_setup_teardown(
			test_half_pull_waits_for_memory, job_setup, job_teardown
		),
		cmocka_unit_test_setup_teardown(test_sparse_payloads, job_setup, job_teardown),
		cmocka_unit_test_setup_teardown(
			test_broken_sparse_payloads, job_setup, job_teardown
		),
	};

	return cmocka_run_group_tests_name("server-payload", tests, NULL, NULL);
}
