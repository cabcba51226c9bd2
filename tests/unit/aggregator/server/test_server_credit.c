/* SPDX-License-Identifier: BSD-3-Clause */
/* Credits at the server: spent, unspent, taken back, and what their chunks may say. */
#include "hd_kernels.h"
#include "server_net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 3000 /* 8 full chunks and a short one */
#define BYTES (VALUES * sizeof(float))
#define TOKEN 0x77
#define LIFETIME_US 100000
#define WORKERS 3

struct fixture {
	struct net net;
	struct hd_server_config config;
	struct hd_jobspec spec;
	struct hd_tensor tensors[2];
	struct fake *controller, *worker[WORKERS];
	uint16_t workers;
	hd_version base;
	float g[VALUES];
};

static bool is_registered(void *what) {
	return fake_count(what, HD_MSG_REGISTER) > 0;
}

static struct fixture *open_fixture(uint32_t tau_max) {
	struct fixture *f = calloc(1, sizeof *f);

	net_open(&f->net);
	spec_make(&f->spec, f->tensors, VALUES);
	f->spec.tau_max = tau_max;
	f->controller = fake_controller(&f->net, 3);
	f->config.controller = f->controller->node.addr;
	net_server(&f->net, &f->config);
	net_run_until(&f->net, is_registered, f->controller, HD_SECOND);
	for (uint16_t i = 0; i < WORKERS; i++) {
		f->worker[i] = fake_worker(&f->net, i);
		f->base = fake_joined(f->worker[i], &f->spec)->version;
		f->worker[i]->base = f->base;
		f->worker[i]->total = BYTES;
	}
	f->workers = WORKERS;
	for (size_t k = 0; k < VALUES; k++)
		f->g[k] = (float)(k % 17) * 0.125F;
	net_run(&f->net, HD_MS);
	return f;
}

static void close_fixture(struct fixture *f) {
	for (uint16_t i = 0; i < f->workers; i++)
		fake_close(f->worker[i]);
	fake_close(f->controller);
	net_close(&f->net);
	free(f);
}

static struct hd_message
offer(const struct fixture *f, uint16_t worker, uint32_t round, uint64_t position) {
	struct hd_message m = {.kind = HD_MSG_CREDIT};

	m.credit = (struct hd_msg_credit){
		.job = f->worker[0]->job,
		.worker = worker,
		.round = round,
		.attempt = 1,
		.epoch = 3,
		.token = TOKEN + position,
		.position = position,
		.weight = 1,
		.bytes = BYTES,
		.expires_us = LIFETIME_US,
	};
	return m;
}

static void give(struct fixture *f, uint16_t worker, uint32_t round, uint64_t position) {
	struct hd_message m = offer(f, worker, round, position);

	fake_send(f->controller, &m);
	net_run(&f->net, HD_MS);
}

static const struct hd_server_stats *stats(const struct fixture *f) {
	return hd_server_stats(f->net.server);
}

static hd_version version(const struct fixture *f) {
	return hd_server_version(f->net.server, f->worker[0]->job);
}

static const struct hd_msg_report *report(struct fixture *f, size_t index) {
	return &fake_wait(f->controller, HD_MSG_REPORT, index)->report;
}

static void test_spent(void **state) {
	struct fixture *f = open_fixture(16);
	double norm = sqrt(hd_norm2_f32(f->g, VALUES));

	give(f, 1, 1, 1);
	assert_int_equal(stats(f)->credits, 1);
	fake_push(f->worker[1], TOKEN + 1, 1, 1, f->g, VALUES);
	assert_int_equal(fake_outcome(f->worker[1], 1)->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(report(f, 0)->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(report(f, 0)->token, TOKEN + 1);
	assert_int_equal(report(f, 0)->position, 1);
	assert_int_equal(report(f, 0)->base, f->base);
	assert_int_equal(report(f, 0)->bytes, BYTES);
	assert_int_equal(report(f, 0)->credited, 1);
	assert_true(fabs((double)report(f, 0)->norm - norm) < 1e-5 * norm);
	assert_int_equal(net_event(&f->net, HD_EVENT_COMMITTED, 0)->base, f->base);
	assert_int_equal(net_event(&f->net, HD_EVENT_COMMITTED, 0)->position, 1);
	assert_int_equal(stats(f)->credits_spent, 1);
	assert_int_equal(stats(f)->credits_unspent, 0);
	/* It has ended: its time comes to nothing. */
	net_run(&f->net, (hd_ns)2 * LIFETIME_US * HD_US);
	assert_int_equal(stats(f)->credits_unspent, 0);
	assert_int_equal(fake_count(f->worker[1], HD_MSG_VOID), 0);
	close_fixture(f);
}

/* Half as long in 16 bits, and the norm is that of what came. */
static void test_any_type(void **state) {
	struct fixture *f = open_fixture(16);
	double norm = sqrt(hd_norm2_f32(f->g, VALUES));
	static uint16_t half[VALUES];

	hd_half_from_f32(HD_DTYPE_BF16, half, f->g, VALUES, 0.5F);
	f->worker[0]->dtype = HD_DTYPE_BF16;
	f->worker[0]->total = BYTES / 2;
	give(f, 0, 1, 1);
	fake_push(f->worker[0], TOKEN + 1, 1, 1, half, VALUES);
	assert_int_equal(fake_outcome(f->worker[0], 1)->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(report(f, 0)->bytes, BYTES / 2);
	assert_true(fabs((double)report(f, 0)->norm - norm / 2) < 1e-2 * norm);
	close_fixture(f);
}

/* A complete update does not wait for the position of an unspent credit; one that comes later takes its earlier
 * place. */
static void test_unspent_blocks_no_other(void **state) {
	struct fixture *f = open_fixture(16);
	struct hd_msg_expect message = {
		.job = f->worker[0]->job,
		.worker = 0,
		.round = 1,
		.attempt = 1,
		.epoch = 3,
		.token = 0x999,
		.position = 2,
		.base = f->base,
		.bytes = BYTES,
		.weight = 1,
	};

	give(f, 1, 1, 1);
	fake_expect(f->controller, &message);
	net_run(&f->net, HD_MS);
	f->worker[0]->total = 0;
	fake_push(f->worker[0], 0x999, 1, 1, f->g, VALUES);
	assert_int_equal(fake_outcome(f->worker[0], 1)->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(report(f, 0)->credited, 0);
	fake_push(f->worker[1], TOKEN + 1, 1, 1, f->g, VALUES);
	assert_int_equal(fake_outcome(f->worker[1], 1)->delay, 2);
	close_fixture(f);
}

static void test_expires(void **state) {
	struct fixture *f = open_fixture(16);

	give(f, 1, 1, 1);
	net_run(&f->net, LIFETIME_US * HD_US);
	assert_int_equal(
		fake_count(f->worker[1], HD_MSG_VOID), 0
	); /* the worker's time, not yet ours */
	net_run(&f->net, LIFETIME_US * HD_US);
	assert_int_equal(fake_wait(f->worker[1], HD_MSG_VOID, 0)->void_.token, TOKEN + 1);
	assert_int_equal(fake_wait(f->worker[1], HD_MSG_VOID, 0)->void_.reason, HD_REASON_EXPIRED);
	assert_int_equal(report(f, 0)->outcome, HD_OUTCOME_FAILED);
	assert_int_equal(report(f, 0)->reason, HD_REASON_EXPIRED);
	assert_int_equal(report(f, 0)->bytes, 0);
	assert_int_equal(net_event(&f->net, HD_EVENT_VOIDED, 0)->aux, 1);
	assert_int_equal(stats(f)->credits_unspent, 1);
	assert_int_equal(stats(f)->failed, 0);
	/* Spent after all: the chunks find no transfer, and the round can be requested again. */
	fake_push(f->worker[1], TOKEN + 1, 1, 1, f->g, VALUES);
	net_run(&f->net, 5 * HD_MS);
	assert_true(stats(f)->drop_token > 0);
	assert_int_equal(
		fake_push_direct(f->worker[1], 1, f->base, f->g, VALUES)->outcome,
		HD_OUTCOME_APPLIED
	);
	close_fixture(f);
}

static void test_taken_back(void **state) {
	struct fixture *f = open_fixture(16);
	struct hd_message m = {.kind = HD_MSG_VOID};

	m.void_.job = f->worker[0]->job;
	m.void_.reason = HD_REASON_EXPIRED;
	give(f, 0, 1, 1);
	give(f, 1, 1, 2);
	m.void_.token = TOKEN + 1;
	m.void_.position = 1;
	fake_send(f->controller, &m);
	assert_int_equal(fake_wait(f->worker[0], HD_MSG_VOID, 0)->void_.token, TOKEN + 1);
	/* Its first chunk was faster than the word that takes it back: it stays. */
	f->worker[1]->granted_bps = 10000000; /* 10 ms */
	fake_push(f->worker[1], TOKEN + 2, 1, 1, f->g, VALUES);
	net_run(&f->net, 4 * HD_MS);
	assert_int_equal(stats(f)->credits_spent, 1);
	m.void_.token = TOKEN + 2;
	m.void_.position = 2;
	fake_send(f->controller, &m);
	assert_int_equal(fake_outcome(f->worker[1], 1)->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(fake_count(f->worker[1], HD_MSG_VOID), 0);
	/* Withdrawn by its worker, it ends its round as any other. */
	give(f, 2, 1, 3);
	m = (struct hd_message){.kind = HD_MSG_CANCEL};
	m.cancel.job = f->worker[0]->job;
	m.cancel.worker = 2;
	m.cancel.round = 1;
	m.cancel.attempt = 1;
	m.cancel.token = TOKEN + 3;
	fake_send(f->worker[2], &m);
	assert_int_equal(fake_outcome(f->worker[2], 1)->reason, HD_REASON_CANCELLED);
	close_fixture(f);
}

/* Another round that the worker asks for, and sessions that end. */
static void test_ends_with_others(void **state) {
	struct fixture *f = open_fixture(16);

	give(f, 0, 1, 1);
	f->worker[0]->total = 0;
	assert_int_equal(
		fake_push_direct(f->worker[0], 1, f->base, f->g, VALUES)->outcome,
		HD_OUTCOME_APPLIED
	);
	assert_int_equal(report(f, 0)->reason, HD_REASON_CLOSED);
	give(f, 2, 1, 2);
	fake_kill(f->worker[2]);
	f->workers = 2;
	net_run(&f->net, 2 * HD_SECOND);
	assert_int_equal(stats(f)->credits_unspent, 2);
	assert_int_equal(stats(f)->credits_spent, 0);
	close_fixture(f);
}

static void test_refused(void **state) {
	struct fixture *f = open_fixture(16);
	struct hd_message m;
	size_t refused = 0;

#define REFUSED(change, why)                                                                       \
	do {                                                                                       \
		m = offer(f, 1, 1, 1);                                                             \
		change;                                                                            \
		fake_send(f->controller, &m);                                                      \
		assert_int_equal(report(f, refused)->reason, why);                                 \
		assert_int_equal(report(f, refused)->outcome, HD_OUTCOME_FAILED);                  \
		refused++;                                                                         \
	} while (0)
	REFUSED(m.credit.epoch = 2, HD_REASON_EPOCH);
	REFUSED(m.credit.job++, HD_REASON_NO_SERVER);
	REFUSED(m.credit.worker = 9, HD_REASON_LEFT);
	REFUSED(m.credit.token = 0, HD_REASON_REFUSED);
	REFUSED(m.credit.position = 0, HD_REASON_REFUSED);
	REFUSED(m.credit.bytes = 0, HD_REASON_REFUSED);
	REFUSED(m.credit.expires_us = 0, HD_REASON_REFUSED);
	REFUSED(m.credit.weight = 0, HD_REASON_REFUSED);
	REFUSED(m.credit.weight = (float)strtod("nan", NULL), HD_REASON_REFUSED);
	REFUSED(m.credit.round = 0, HD_REASON_DUPLICATE);
	assert_int_equal(stats(f)->credits, 0);
	/* The round is there already. */
	give(f, 1, 1, 1);
	assert_int_equal(stats(f)->credits, 1);
	REFUSED(m.credit.token = 5, HD_REASON_DUPLICATE);
	fake_push(f->worker[1], TOKEN + 1, 1, 1, f->g, VALUES);
	assert_int_equal(fake_outcome(f->worker[1], 1)->outcome, HD_OUTCOME_APPLIED);
	refused = fake_count(f->controller, HD_MSG_REPORT);
	REFUSED(m.credit.token = 6, HD_REASON_DUPLICATE);
#undef REFUSED
	close_fixture(f);
}

/* Fields that a chunk may not have; no such chunk spends the credit. */
static void test_wrong_chunks(void **state) {
	struct fixture *f = open_fixture(16);
	struct fake *w = f->worker[1];
	uint64_t before, memory;

	give(f, 1, 1, 1);
#define WRONG(change, round, attempt, values)                                                      \
	do {                                                                                       \
		w->total = BYTES;                                                                  \
		change;                                                                            \
		before = stats(f)->drop_mismatch;                                                  \
		hd_send_cancel(                                                                    \
			fake_push(w, TOKEN + 1, round, attempt, f->g, values), HD_REASON_CANCELLED \
		);                                                                                 \
		fake_push(w, TOKEN + 1, round, attempt, f->g, values);                             \
		net_run(&f->net, 2 * HD_MS);                                                       \
		assert_true(stats(f)->drop_mismatch > before);                                     \
		assert_int_equal(stats(f)->credits_spent, 0);                                      \
		for (size_t i = 0; i < FAKE_SENDS_MAX; i++) {                                      \
			hd_send_destroy(w->sends[i]);                                              \
			w->sends[i] = NULL;                                                        \
		}                                                                                  \
	} while (0)
	WRONG(w->total = 0, 1, 1, VALUES);
	WRONG(w->total = BYTES + 4, 1, 1, VALUES);
	WRONG(w->total = BYTES - 4, 1, 1, VALUES - 1);
	WRONG((void)0, 2, 1, VALUES);
	WRONG((void)0, 1, 2, VALUES);
	WRONG((void)0, 1, 1, 10); /* a first chunk that cannot be one of so long an update */
	memory = stats(f)->memory_bytes;
#undef WRONG
	w->total = BYTES;
	fake_push(w, TOKEN + 1, 1, 1, f->g, VALUES);
	assert_int_equal(fake_outcome(w, 1)->outcome, HD_OUTCOME_APPLIED);
	assert_true(stats(f)->memory_bytes <= memory); /* nothing was left behind */
	close_fixture(f);
}

/* The bound is looked at when the base is known: with the first chunk. */
static void test_late(void **state) {
	struct fixture *f = open_fixture(2);

	give(f, 1, 1, 1);
	for (uint32_t round = 1; round <= 2; round++) {
		f->worker[0]->total = 0;
		assert_int_equal(
			fake_push_direct(f->worker[0], round, version(f), f->g, VALUES)->outcome,
			HD_OUTCOME_APPLIED
		);
	}
	assert_int_equal(stats(f)->credits_unspent, 0); /* no base, no bound */
	fake_push(f->worker[1], TOKEN + 1, 1, 1, f->g, VALUES);
	assert_int_equal(fake_outcome(f->worker[1], 1)->outcome, HD_OUTCOME_DROPPED);
	assert_int_equal(fake_outcome(f->worker[1], 1)->reason, HD_REASON_LATE);
	assert_int_equal(report(f, 2)->reason, HD_REASON_LATE);
	assert_int_equal(report(f, 2)->base, f->base);
	/* A base that no server gave out. */
	f->worker[2]->base = hd_version_make(hd_version_incarnation(f->base), 1000);
	give(f, 2, 1, 2);
	fake_push(f->worker[2], TOKEN + 2, 1, 1, f->g, VALUES);
	assert_int_equal(fake_outcome(f->worker[2], 1)->outcome, HD_OUTCOME_DROPPED);
	close_fixture(f);
}

/* A controller that comes back, itself or another one, knows of no credit. */
static void test_another_epoch(void **state) {
	struct fixture *f = open_fixture(16);
	struct hd_message m = {.kind = HD_MSG_REGISTERED};

	give(f, 1, 1, 1);
	m.registered.epoch = 4;
	m.registered.lease_us = HD_DETECTION_US;
	m.registered.scheduled = 1;
	fake_send(f->controller, &m);
	assert_int_equal(fake_wait(f->worker[1], HD_MSG_VOID, 0)->void_.reason, HD_REASON_EPOCH);
	assert_int_equal(stats(f)->credits_unspent, 1);
	assert_int_equal(fake_wait(f->controller, HD_MSG_STATE, 0)->state.job, f->worker[0]->job);
	assert_int_equal(fake_count(f->controller, HD_MSG_INFLIGHT), 0);
	close_fixture(f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spent),
		cmocka_unit_test(test_any_type),
		cmocka_unit_test(test_unspent_blocks_no_other),
		cmocka_unit_test(test_expires),
		cmocka_unit_test(test_taken_back),
		cmocka_unit_test(test_ends_with_others),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_wrong_chunks),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_another_epoch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
