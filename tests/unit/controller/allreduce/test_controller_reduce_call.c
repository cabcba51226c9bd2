/* SPDX-License-Identifier: BSD-3-Clause */
/* Rounds that cannot be, at the controller: its members call different things, or are not those that it must have. */
#include "hd_text.h"
#include "reduce_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A request of round `round` that differs from the others' as the test wants. */
static struct hd_message request(struct scene *s, uint16_t rank, uint32_t round) {
	struct hd_message m = net_push(s->workers[rank], round, BYTES, 0);

	m.request.direction = HD_REDUCE;
	m.request.attempt = 1;
	m.request.have = round;
	return m;
}

static void set_tag(struct hd_message *m, const char *tag) {
	hd_text_copy(m->request.tag, sizeof m->request.tag, tag);
}

static void send(struct scene *s, uint16_t rank, struct hd_message m) {
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

static const char *words(const struct scene *s, uint16_t rank) {
	const struct hd_message *m = peer_last(s->workers[rank], HD_MSG_DROP);

	return m ? m->drop.text : "";
}

static void ask_exact(struct scene *s, uint16_t rank, uint32_t round, uint16_t exact) {
	struct hd_message m = request(s, rank, round);

	m.request.exact = exact;
	send(s, rank, m);
}

/* All members are told both calls, also the one that asks later, and the next round is as if nothing had been. */
static void check_mismatch(struct hd_message (*other)(struct scene *), const char *said) {
	struct scene s;
	struct hd_message m;

	open_scene(&s);
	m = request(&s, 0, 1);
	set_tag(&m, "layer 3");
	send(&s, 0, m);
	send(&s, 1, other(&s));
	for (uint16_t i = 0; i < 2; i++) {
		assert_int_equal(drops(&s, i, HD_REASON_MISMATCH), 1);
		assert_non_null(strstr(words(&s, i), "call 1: rank 0 calls all-reduce of "));
		assert_non_null(strstr(words(&s, i), ", tag \"layer 3\"; rank 1 calls "));
		assert_non_null(strstr(words(&s, i), said));
	}
	m = request(&s, 2, 1);
	set_tag(&m, "layer 3");
	send(&s, 2, m);
	assert_int_equal(drops(&s, 2, HD_REASON_MISMATCH), 1);
	assert_string_equal(words(&s, 2), words(&s, 0));
	for (uint16_t i = 0; i < WORKERS; i++)
		assert_null(reduce_sent(&s, i));
	assert_int_equal(s.net.controller->jobs[0]->reduce_count, 0);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask_next(&s, i, 2);
	assert_int_equal(reduce_sent(&s, 2)->round, 2);
	assert_int_equal(reduce_sent(&s, 2)->workers, WORKERS);
	net_close(&s.net);
}

static struct hd_message other_count(struct scene *s) {
	struct hd_message m = request(s, 1, 1);

	m.request.bytes = BYTES + 4;
	set_tag(&m, "layer 3");
	return m;
}

static struct hd_message other_tag(struct scene *s) {
	struct hd_message m = request(s, 1, 1);

	set_tag(&m, "layer 4");
	return m;
}

static struct hd_message other_order(struct scene *s) {
	struct hd_message m = request(s, 1, 1);

	m.request.order = HD_GROUP_RANKED;
	set_tag(&m, "layer 3");
	return m;
}

static struct hd_message other_op(struct scene *s) {
	struct hd_message m = request(s, 1, 1);

	m.request.op = HD_REDUCE_OP_MAX;
	(void)snprintf(m.request.tag, sizeof m.request.tag, "layer 3");
	return m;
}

static struct hd_message other_exact(struct scene *s) {
	struct hd_message m = request(s, 1, 1);

	m.request.exact = 3;
	set_tag(&m, "layer 3");
	return m;
}

static void test_mismatch(void **state) {
	(void)state;
	check_mismatch(other_count, "rank 1 calls all-reduce of 2162692 bytes of fp32, tag");
	check_mismatch(other_tag, "tag \"layer 4\"");
	check_mismatch(other_order, "in the order of ranks");
	check_mismatch(other_op, "all-reduce (maximum) of ");
	check_mismatch(other_exact, "exactly 3 members");
}

static struct hd_message
other_collective(struct scene *s, uint16_t rank, uint32_t round, uint16_t root) {
	struct hd_message m = request(s, rank, round);

	m.request.collective = HD_COLLECTIVE_BROADCAST;
	m.request.root = root;
	return m;
}

/* Other collectives and other roots; a barrier with values is no call at all. */
static void test_other_collectives(void **state) {
	struct hd_message m;
	struct scene s;

	(void)state;
	open_scene(&s);
	send(&s, 0, other_collective(&s, 0, 1, 1));
	send(&s, 1, other_collective(&s, 1, 1, 2));
	assert_int_equal(drops(&s, 0, HD_REASON_MISMATCH), 1);
	assert_non_null(strstr(words(&s, 0), "broadcast of"));
	assert_non_null(strstr(words(&s, 0), ", root 2"));
	send(&s, 2, other_collective(&s, 2, 1, 2));
	send(&s, 0, other_collective(&s, 0, 2, 2));
	m = request(&s, 1, 2);
	m.request.collective = HD_COLLECTIVE_BARRIER;
	m.request.bytes = 0;
	send(&s, 1, m);
	assert_int_equal(drops(&s, 1, HD_REASON_MISMATCH), 2);
	assert_non_null(strstr(words(&s, 1), "calls barrier"));
	m = request(&s, 1, 3);
	m.request.collective = HD_COLLECTIVE_BARRIER;
	send(&s, 1, m);
	assert_int_equal(drops(&s, 1, HD_REASON_REFUSED), 3);
	net_close(&s.net);
}

/* A worker that is lost before it is told is not waited for. */
static void test_mismatch_and_loss(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	ask(&s, 0, 1, 1);
	send(&s, 1, other_tag(&s));
	assert_int_equal(s.net.controller->jobs[0]->reduce_count, 1);
	s.workers[2]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	assert_int_equal(s.net.controller->jobs[0]->reduce_count, 0);
	net_close(&s.net);
}

/* As many as there must be; then one is lost: the others that wait have their error at once, and so has the next. */
static void test_exact(void **state) {
	struct scene s;
	hd_ns lost;

	(void)state;
	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask_exact(&s, i, 1, WORKERS);
	assert_int_equal(reduce_sent(&s, 0)->workers, WORKERS);
	for (uint16_t i = 0; i < WORKERS; i++)
		done(&s, i, HD_OUTCOME_APPLIED);
	ask_exact(&s, 0, 2, WORKERS);
	s.workers[2]->cut = true;
	for (lost = 0; s.net.controller->jobs[0]->worker_count == WORKERS; lost++)
		net_run(&s.net, HD_MS);
	assert_true(lost > 0);
	net_run(&s.net, HD_MS);
	assert_int_equal(drops(&s, 0, HD_REASON_MEMBERS), 1);
	assert_string_equal(words(&s, 0), "call 2: 2 of 3 members are left");
	/* Another goes on; the one that is behind is not told to follow it, as its own next call is the third. */
	ask_exact(&s, 0, 3, WORKERS);
	ask_exact(&s, 1, 2, WORKERS);
	assert_int_equal(drops(&s, 1, HD_REASON_MEMBERS), 1);
	assert_int_equal(peer_last(s.workers[1], HD_MSG_DROP)->drop.deadline, 0);
	ask_exact(&s, 1, 3, WORKERS);
	assert_int_equal(drops(&s, 1, HD_REASON_MEMBERS), 2);
	assert_int_equal(s.net.controller->jobs[0]->reduce_count, 0);
	/* Without that condition they go on. */
	ask_next(&s, 0, 4);
	ask_next(&s, 1, 4);
	assert_int_equal(reduce_sent(&s, 0)->round, 4);
	assert_int_equal(reduce_sent(&s, 0)->workers, 2);
	net_close(&s.net);
}

/* The same in the middle of a round: the aggregator says that the values of one are not complete. */
static void test_exact_void(void **state) {
	struct hd_message m = {.kind = HD_MSG_REPORT};
	struct scene s;

	(void)state;
	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask_exact(&s, i, 1, WORKERS);
	s.workers[2]->cut = true;
	net_run(&s.net, (hd_ns)2 * HD_DETECTION_US * HD_US);
	m.report.job = reduce_sent(&s, 0)->job;
	m.report.outcome = HD_OUTCOME_FAILED;
	m.report.reason = HD_REASON_LEASE;
	m.report.token = peer_last(s.aggregators[1], HD_MSG_GROUP)->group.group;
	post(s.aggregators[1], m);
	net_run(&s.net, HD_MS);
	for (uint16_t i = 0; i < 2; i++) {
		m = request(&s, i, 1);
		m.request.attempt = 2;
		m.request.exact = WORKERS;
		send(&s, i, m);
		assert_int_equal(drops(&s, i, HD_REASON_MEMBERS), 1);
	}
	assert_int_equal(counters(&s.net)->reduces, 1);
	net_close(&s.net);
}

/* One that never was there may still come; one more than there must be is an error. */
static void test_exact_waits(void **state) {
	struct scene s;

	(void)state;
	memset(&s, 0, sizeof s);
	net_open(&s.net, &net_plain);
	s.aggregators[0] = aggregator(&s.net, "h9", 100 * MB);
	s.workers[0] = worker(&s.net, 0, 0);
	ask_exact(&s, 0, 1, 2);
	net_run(&s.net, 5 * HD_SECOND);
	assert_null(peer_last(s.workers[0], HD_MSG_DROP));
	s.workers[1] = worker(&s.net, 1, 0);
	ask_exact(&s, 1, 1, 2);
	assert_int_equal(reduce_sent(&s, 0)->workers, 2);
	done(&s, 0, HD_OUTCOME_APPLIED);
	done(&s, 1, HD_OUTCOME_APPLIED);
	s.workers[2] = worker(&s.net, 2, 0);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask_exact(&s, i, 2, 2);
	for (uint16_t i = 0; i < WORKERS; i++) {
		assert_int_equal(drops(&s, i, HD_REASON_MEMBERS), 1);
		assert_string_equal(words(&s, i), "call 2: 3 members call it, not 2");
	}
	net_close(&s.net);
}

/* A job that has made rounds gives a member that never was there two seconds. */
static void test_exact_later(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(&s, i, 1, 1);
	for (uint16_t i = 0; i < WORKERS; i++)
		done(&s, i, HD_OUTCOME_APPLIED);
	for (uint16_t i = 0; i < WORKERS; i++)
		ask_exact(&s, i, 2, WORKERS + 1);
	net_run(&s.net, CTL_REDUCE_MEMBERS_NS - 100 * HD_MS);
	assert_int_equal(drops(&s, 0, HD_REASON_MEMBERS), 0);
	net_run(&s.net, 200 * HD_MS);
	for (uint16_t i = 0; i < WORKERS; i++)
		assert_int_equal(drops(&s, i, HD_REASON_MEMBERS), 1);
	assert_string_equal(words(&s, 0), "call 2: 3 of 4 members are left");
	net_close(&s.net);
}

/* A member that has withdrawn takes no part in this round any more. */
static void test_exact_withdrawn(void **state) {
	struct hd_message m = {.kind = HD_MSG_CANCEL};
	struct scene s;

	(void)state;
	open_scene(&s);
	ask_exact(&s, 0, 1, WORKERS);
	ask_exact(&s, 1, 1, WORKERS);
	m.cancel = (struct hd_msg_cancel
	){.job = request(&s, 1, 1).request.job,
	  .worker = 1,
	  .round = 1,
	  .direction = HD_REDUCE,
	  .attempt = 1,
	  .reason = HD_REASON_CANCELLED};
	send(&s, 1, m);
	assert_int_equal(drops(&s, 0, HD_REASON_MEMBERS), 1);
	assert_string_equal(words(&s, 0), "call 1: 2 of 3 members are left");
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mismatch),
		cmocka_unit_test(test_other_collectives),
		cmocka_unit_test(test_mismatch_and_loss),
		cmocka_unit_test(test_exact),
		cmocka_unit_test(test_exact_void),
		cmocka_unit_test(test_exact_waits),
		cmocka_unit_test(test_exact_later),
		cmocka_unit_test(test_exact_withdrawn),
	};

	return cmocka_run_group_tests_name("controller_reduce_call", tests, NULL, NULL);
}
