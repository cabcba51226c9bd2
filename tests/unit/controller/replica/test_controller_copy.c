/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums that go to the replica as well: what aggregator, server and replica are told, which sums do not, and how such a
 * copy ends, which its group does not feel. */
#include "group_peers.h"
#include "hd_group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct stage {
	struct scene s;
	struct peer *replica;
	uint64_t version; /* counter of the newest that the server has made */
	uint32_t groups; /* messages of the aggregator's log that were looked at */
	uint32_t seconds; /* groups with a second output */
};

/* --- stage ----------------------------------------------------------------------------------------- */

/* Six workers, a server, an aggregator, and a replica that the server says to follow like that. */
static void
open_stage(struct stage *t, const struct net_config *config, uint8_t sync, uint8_t state) {
	struct hd_message m;

	memset(t, 0, sizeof *t);
	net_open(&t->s.net, config);
	t->s.server = net_server(&t->s.net, "ps");
	t->s.aggregator = net_aggregator(&t->s.net, "a1", MEMORY);
	t->replica = add_replica(&t->s);
	for (uint16_t w = 0; w < WORKERS; w++) {
		struct peer *peer;
		char host[16];

		(void)snprintf(host, sizeof host, "h%u", w + 1u);
		peer = t->s.workers[w] = net_peer(&t->s.net, HD_ROLE_WORKER, host);
		peer->worker = w;
		(void)snprintf(peer->tenant, sizeof peer->tenant, "t");
		(void)snprintf(peer->job, sizeof peer->job, "j");
		m = net_register_worker(peer, 64, 1);
		m.register_.sync = sync;
		post(peer, m);
	}
	net_run(&t->s.net, HD_SECOND);
	send_begun(&t->s);
	send_follow(&t->s, t->replica, state);
}

static const struct ctl_replica *replica_of(const struct stage *t) {
	return &t->s.net.controller->jobs[0]->replica;
}

static uint32_t outputs_of(const struct hd_msg_group *group) {
	return (uint32_t)hd_group_count(&group->outputs, HD_GROUP_OUTPUT_BYTES);
}

/* All workers push, as this type; returns the number of outputs of the newest group. */
static uint32_t outputs_as(struct stage *t, uint8_t dtype) {
	for (uint16_t w = 0; w < WORKERS; w++) {
		struct hd_message m = net_push(t->s.workers[w], 1, MB, 0);

		m.request.dtype = dtype;
		m.request.peak = 1;
		post(t->s.workers[w], m);
	}
	net_run(&t->s.net, 5 * HD_MS);
	assert_non_null(newest_group(&t->s));
	return outputs_of(newest_group(&t->s));
}

/* The newest group's second output: the token of the copy. */
static uint64_t copy_of(const struct stage *t) {
	const struct hd_msg_group *group = newest_group(&t->s);

	assert_non_null(group);
	assert_int_equal(outputs_of(group), 2);
	return hd_group_get_output(&group->outputs, 1).token;
}

/* No copy is in the reservation table. */
static void assert_no_copies(const struct stage *t) {
	const struct hd_controller *c = t->s.net.controller;

	assert_int_equal(replica_of(t)->sums, 0);
	for (uint32_t l = 1; l < hd_controller_link_count(c); l++)
		assert_int_equal(c->link_copies[l], 0);
}

/* --- told ------------------------------------------------------------------------------------------ */

static void test_both_are_notified(void **state) {
	const struct hd_msg_members *first, *second;
	struct hd_group_output sum, copy;
	const struct hd_msg_group *group;
	const struct ctl_transfer *found;
	struct stage t;

	(void)state;
	open_stage(&t, &net_plain, HD_SYNC_NONE, HD_FOLLOW_CAUGHT_UP);
	push_all(&t.s, 1);
	group = newest_group(&t.s);
	assert_int_equal(outputs_of(group), 2);
	sum = hd_group_get_output(&group->outputs, 0);
	copy = hd_group_get_output(&group->outputs, 1);
	assert_int_equal(sum.role, HD_ROLE_SERVER);
	assert_int_equal(copy.role, HD_ROLE_REPLICA);
	assert_int_equal(copy.ipv4, t.replica->addr.ipv4);
	assert_int_equal(copy.port, t.replica->addr.port);
	assert_int_equal(copy.worker, HD_GROUP_WORKER);
	assert_true(copy.token != sum.token && copy.token != group->group);
	/* Beside the plan: not faster than the way is, not slower than the share that it has at least. */
	assert_in_range(copy.rate_bps, 80000000 / 4 - 1, 80000000 + 1);
	assert_int_equal(copy.after, 0);
	assert_non_null(peer_last(t.replica, HD_MSG_MEMBERS));
	first = newest_members(&t.s);
	second = &peer_last(t.replica, HD_MSG_MEMBERS)->members;
	assert_int_equal(first->token, sum.token);
	assert_int_equal(second->token, copy.token);
	assert_int_equal(second->position, first->position);
	assert_int_equal(second->bytes, first->bytes);
	assert_int_equal(second->dtype, first->dtype);
	assert_int_equal(second->epoch, first->epoch);
	assert_memory_equal(&second->weight, &first->weight, sizeof(float));
	assert_int_equal(second->peer_ipv4, t.s.aggregator->addr.ipv4);
	assert_int_equal(second->peer_port, t.s.aggregator->addr.port);
	assert_int_equal(second->members.bytes, first->members.bytes);
	assert_memory_equal(second->members.data, first->members.data, first->members.bytes);
	assert_int_equal(counters(&t.s.net)->sums_copied, counters(&t.s.net)->groups);
	assert_int_equal(replica_of(&t)->sums, counters(&t.s.net)->groups);
	found = ctl_transfer_by_token(t.s.net.controller, copy.token);
	assert_non_null(found);
	assert_int_equal(found->direction, HD_COPY);
	assert_int_equal(found->bytes, MB);
	net_close(&t.s.net);
}

/* --- none ------------------------------------------------------------------------------------------ */

static void test_none(void **state) {
	struct net_config chain = net_plain;
	struct stage t;

	(void)state;
	open_stage(&t, &net_plain, HD_SYNC_NONE, HD_FOLLOW_CAUGHT_UP);
	assert_int_equal(outputs_as(&t, HD_DTYPE_BF16), 2);
	net_close(&t.s.net);
	/* A merged sum, and one of a synchronous job. */
	open_stage(&t, &net_plain, HD_SYNC_NONE, HD_FOLLOW_CAUGHT_UP);
	assert_int_equal(outputs_as(&t, HD_DTYPE_SPARSE32), 2);
	assert_int_equal(peer_last(t.replica, HD_MSG_MEMBERS)->members.dtype, HD_DTYPE_SPARSE32);
	net_close(&t.s.net);
	open_stage(&t, &net_plain, HD_SYNC_ALL, HD_FOLLOW_CAUGHT_UP);
	assert_int_equal(outputs_as(&t, HD_DTYPE_FP32), 2);
	net_close(&t.s.net);
	/* While the replica is not caught up. */
	open_stage(&t, &net_plain, HD_SYNC_NONE, HD_FOLLOW_SEEDING);
	assert_int_equal(outputs_as(&t, HD_DTYPE_FP32), 1);
	assert_null(peer_last(t.replica, HD_MSG_MEMBERS));
	assert_int_equal(counters(&t.s.net)->sums_copied, 0);
	net_close(&t.s.net);
	/* States only. */
	chain.replicate_every = 50;
	open_stage(&t, &chain, HD_SYNC_NONE, HD_FOLLOW_CAUGHT_UP);
	assert_int_equal(peer_last(t.s.server, HD_MSG_REPLICA)->replica.every, 50);
	assert_int_equal(outputs_as(&t, HD_DTYPE_FP32), 1);
	net_close(&t.s.net);
	/* A replica with a state in flight to it, or with missing versions. */
	for (uint8_t f = 0; f < 4; f++) {
		static const uint8_t states[]
			= {HD_FOLLOW_NONE, HD_FOLLOW_SEEDING, HD_FOLLOW_HOLE, HD_FOLLOW_CAUGHT_UP};

		open_stage(&t, &net_plain, HD_SYNC_NONE, states[f]);
		assert_int_equal(
			outputs_as(&t, HD_DTYPE_FP32), states[f] == HD_FOLLOW_CAUGHT_UP ? 2 : 1
		);
		net_close(&t.s.net);
	}
	/* A model that is relayed. */
	open_stage(&t, &net_plain, HD_SYNC_NONE, HD_FOLLOW_CAUGHT_UP);
	for (uint16_t w = 0; w < WORKERS; w++)
		post(t.s.workers[w], net_pull(t.s.workers[w], 1));
	net_run(&t.s.net, 5 * HD_MS);
	assert_non_null(newest_group(&t.s));
	assert_int_equal(counters(&t.s.net)->sums_copied, 0);
	assert_no_copies(&t);
	net_close(&t.s.net);
}

/* All transfers in flight end well: direct updates and sums. Groups with two outputs are counted. */
static void finish(struct stage *t, uint32_t round) {
	const struct peer *aggregator = t->s.aggregator;

	for (uint16_t w = 0; w < WORKERS; w++) {
		const struct hd_msg_grant *grant = peer_grant(t->s.workers[w], w, round);

		if (grant && grant->peer_ipv4 == t->s.server->addr.ipv4)
			post(t->s.server, net_report(grant, ++t->version, 80000000));
	}
	for (; t->groups < aggregator->count; t->groups++) {
		const struct hd_msg_group *group = &aggregator->log[t->groups].group;
		uint32_t count;

		if (aggregator->log[t->groups].kind != HD_MSG_GROUP)
			continue;
		count = (uint32_t)inputs_of(group);
		t->seconds += outputs_of(group) == 2;
		for (uint32_t i = 0; i < count; i++) {
			const struct hd_group_input input = hd_group_get_input(&group->inputs, i);

			send_held(&t->s, &input);
		}
		for (uint32_t i = 0; i < t->s.server->count; i++)
			if (t->s.server->log[i].kind == HD_MSG_MEMBERS
			    && t->s.server->log[i].members.token
				    == hd_group_get_output(&group->outputs, 0).token) {
				t->version += count;
				end_sum(&t->s,
					&t->s.server->log[i].members,
					HD_OUTCOME_APPLIED,
					t->version);
			}
		net_run(&t->s.net, 5 * HD_MS);
	}
}

static void rounds(struct stage *t, uint32_t first, uint32_t count) {
	for (uint32_t round = first; round < first + count; round++) {
		push_all(&t->s, round);
		for (int i = 0; i < 20 && open_count(&t->s) > replica_of(t)->sums; i++) {
			finish(t, round);
			net_run(&t->s.net, 20 * HD_MS);
		}
	}
}

/* A replica that is slower than the sums gets a state rather than ever more of them. */
static void test_how_many(void **state) {
	struct stage t;
	uint64_t copy;

	(void)state;
	open_stage(&t, &net_plain, HD_SYNC_NONE, HD_FOLLOW_CAUGHT_UP);
	rounds(&t, 1, 8);
	assert_true(counters(&t.s.net)->sums > CTL_REPLICA_SUMS_MAX);
	assert_int_equal(t.seconds, CTL_REPLICA_SUMS_MAX);
	assert_int_equal(counters(&t.s.net)->sums_copied, CTL_REPLICA_SUMS_MAX);
	assert_int_equal(replica_of(&t)->sums, CTL_REPLICA_SUMS_MAX);
	assert_int_equal(open_count(&t.s), CTL_REPLICA_SUMS_MAX);
	/* It has one of them: the next one comes again. */
	copy = peer_last(t.replica, HD_MSG_MEMBERS)->members.token;
	send_copy(&t.s, t.replica, copy, HD_OUTCOME_APPLIED);
	assert_int_equal(replica_of(&t)->sums, CTL_REPLICA_SUMS_MAX - 1);
	rounds(&t, 9, 1);
	assert_int_equal(t.seconds, CTL_REPLICA_SUMS_MAX + 1);
	assert_int_equal(replica_of(&t)->sums, CTL_REPLICA_SUMS_MAX);
	net_close(&t.s.net);
}

/* --- ends ------------------------------------------------------------------------------------------ */

/* The replica has it, or not: no other node is notified, and the sum goes on. */
static void test_reported(void **state) {
	static const uint8_t outcomes[] = {HD_OUTCOME_APPLIED, HD_OUTCOME_FAILED};
	struct stage t;
	uint8_t reason;

	(void)state;
	for (int i = 0; i < 2; i++) {
		open_stage(&t, &net_plain, HD_SYNC_NONE, HD_FOLLOW_CAUGHT_UP);
		const struct made made = make_group(&t.s);
		const uint64_t copy = copy_of(&t);
		/* It is the replica's to say. */
		send_copy(&t.s, t.s.server, copy, outcomes[i]);
		send_copy(&t.s, t.s.workers[0], copy, outcomes[i]);
		assert_non_null(ctl_transfer_by_token(t.s.net.controller, copy));
		send_copy(&t.s, t.replica, copy, outcomes[i]);
		assert_null(ctl_transfer_by_token(t.s.net.controller, copy));
		assert_int_equal(replica_of(&t)->copies, outcomes[i] == HD_OUTCOME_APPLIED);
		assert_int_equal(
			replica_of(&t)->copied_bytes, outcomes[i] == HD_OUTCOME_APPLIED ? MB : 0
		);
		assert_int_equal(open_count(&t.s), made.open - 1);
		assert_false(has_void(t.s.aggregator, made.group, &reason));
		assert_false(has_void(t.s.server, made.sum, &reason));
		assert_int_equal(counters(&t.s.net)->groups_voided, 0);
		if (counters(&t.s.net)->groups == 1)
			assert_no_copies(&t);
		send_copy(&t.s, t.replica, copy, outcomes[i]); /* once more */
		assert_int_equal(counters(&t.s.net)->reports_unknown, 1);
		net_close(&t.s.net);
	}
}

/* A replica that knows nothing of the job says of MEMBERS what a server would. */
static void test_reported_as_a_push(void **state) {
	struct hd_message m = {.kind = HD_MSG_REPORT};
	struct stage t;

	(void)state;
	open_stage(&t, &net_plain, HD_SYNC_NONE, HD_FOLLOW_CAUGHT_UP);
	const struct made made = make_group(&t.s);
	m.report.job = net_job(t.s.workers[0]);
	m.report.worker = HD_GROUP_WORKER;
	m.report.direction = HD_PUSH;
	m.report.token = copy_of(&t);
	m.report.outcome = HD_OUTCOME_FAILED;
	m.report.reason = HD_REASON_NO_SERVER;
	post(t.replica, m);
	net_run(&t.s.net, HD_MS);
	assert_null(ctl_transfer_by_token(t.s.net.controller, m.report.token));
	assert_int_equal(open_count(&t.s), made.open - 1);
	assert_int_equal(counters(&t.s.net)->groups_voided, 0);
	net_close(&t.s.net);
}

/* The aggregator gives the replica up: that hears it, the group goes on. Another one's word is nothing. */
static void test_given_up(void **state) {
	struct peer *other;
	struct stage t;
	uint8_t reason;

	(void)state;
	open_stage(&t, &net_plain, HD_SYNC_NONE, HD_FOLLOW_CAUGHT_UP);
	other = net_aggregator(&t.s.net, "a2", 0);
	const struct made made = make_group(&t.s);
	const uint64_t copy = copy_of(&t);
	send_copy(&t.s, other, copy, HD_OUTCOME_FAILED);
	assert_non_null(ctl_transfer_by_token(t.s.net.controller, copy));
	assert_int_equal(counters(&t.s.net)->reports_unknown, 1);
	send_copy(&t.s, t.s.aggregator, copy, HD_OUTCOME_FAILED);
	assert_null(ctl_transfer_by_token(t.s.net.controller, copy));
	assert_true(has_void(t.replica, copy, &reason));
	assert_false(has_void(t.s.aggregator, made.group, &reason));
	assert_int_equal(counters(&t.s.net)->groups_voided, 0);
	assert_int_equal(counters(&t.s.net)->copies_void, 1);
	assert_int_equal(open_count(&t.s), made.open - 1);
	net_close(&t.s.net);
}

/* With its group, whichever node ends that. */
static void test_the_group_ends(void **state) {
	struct stage t;
	uint8_t reason;

	(void)state;
	for (int i = 0; i < 3; i++) {
		open_stage(&t, &net_plain, HD_SYNC_NONE, HD_FOLLOW_CAUGHT_UP);
		const struct made made = make_group(&t.s);
		const uint64_t copy = copy_of(&t);
		if (i == 0) {
			send_group_failed(&t.s, newest_group(&t.s));
		} else if (i == 1) {
			t.s.aggregator->cut = true;
			t.s.aggregator->open = false;
		} else {
			t.s.server->cut = true;
		}
		net_run(&t.s.net, i == 0 ? 5 * HD_MS : 2 * HD_SECOND);
		assert_null(ctl_transfer_by_token(t.s.net.controller, copy));
		assert_null(ctl_transfer_by_token(t.s.net.controller, made.sum));
		assert_true(has_void(t.replica, copy, &reason));
		assert_no_copies(&t);
		net_close(&t.s.net);
	}
}

/* The replica is gone: the sums are the server's alone. */
static void test_the_replica_dies(void **state) {
	struct stage t;
	uint8_t reason;

	(void)state;
	open_stage(&t, &net_plain, HD_SYNC_NONE, HD_FOLLOW_CAUGHT_UP);
	const struct made made = make_group(&t.s);
	const uint64_t copy = copy_of(&t);
	t.replica->cut = true;
	net_run(&t.s.net, 2 * HD_SECOND);
	assert_null(ctl_transfer_by_token(t.s.net.controller, copy));
	assert_non_null(ctl_transfer_by_token(t.s.net.controller, made.sum));
	assert_no_copies(&t);
	assert_int_equal(counters(&t.s.net)->groups_voided, 0);
	assert_false(has_void(t.s.aggregator, made.group, &reason));
	assert_int_equal(peer_last(t.s.server, HD_MSG_REPLICA)->replica.order, HD_REPLICA_ALONE);
	net_close(&t.s.net);
}

static struct hd_message ask_copy(uint32_t job, uint16_t worker) {
	struct hd_message m = {.kind = HD_MSG_REQUEST};

	m.request.job = job;
	m.request.worker = worker;
	m.request.round = 5;
	m.request.direction = HD_COPY;
	m.request.attempt = 2;
	m.request.bytes = 64;
	return m;
}

/* The replica has heard that this one does not come. */
static void
assert_dropped(const struct stage *t, uint32_t job, uint16_t worker, enum hd_reason reason) {
	const struct hd_message *drop = peer_last(t->replica, HD_MSG_DROP);

	assert_non_null(drop);
	assert_int_equal(drop->drop.job, job);
	assert_int_equal(drop->drop.worker, worker);
	assert_int_equal(drop->drop.round, 5);
	assert_int_equal(drop->drop.direction, HD_COPY);
	assert_int_equal(drop->drop.attempt, 2);
	assert_int_equal(drop->drop.reason, reason);
}

/* A copy from an unknown worker, and one that is withdrawn while it waits: the worker's link has a push. */
static void test_none_comes(void **state) {
	struct hd_message withdraw = {.kind = HD_MSG_CANCEL};
	struct stage t;
	uint32_t job;

	(void)state;
	open_stage(&t, &net_plain, HD_SYNC_NONE, HD_FOLLOW_CAUGHT_UP);
	job = net_job(t.s.workers[0]);
	post(t.replica, ask_copy(job, WORKERS));
	net_run(&t.s.net, HD_MS);
	assert_dropped(&t, job, WORKERS, HD_REASON_LEFT);
	assert_int_equal(counters(&t.s.net)->copies, 0);
	post(t.s.workers[3], net_push(t.s.workers[3], 1, MB, 0));
	net_run(&t.s.net, 5 * HD_MS);
	post(t.replica, ask_copy(job, 3));
	net_run(&t.s.net, 5 * HD_MS);
	assert_dropped(&t, job, WORKERS, HD_REASON_LEFT); /* nothing new */
	withdraw.cancel.job = job;
	withdraw.cancel.worker = 3;
	withdraw.cancel.direction = HD_COPY;
	withdraw.cancel.round = 5;
	post(t.s.workers[3], withdraw);
	net_run(&t.s.net, 5 * HD_MS);
	assert_int_equal(counters(&t.s.net)->copies, 1);
	assert_dropped(&t, job, 3, HD_REASON_CANCELLED);
	assert_int_equal(counters(&t.s.net)->copies_void, 0);
	net_close(&t.s.net);
}

/* After a restart a replica may ask before its server has reported it: the replica is notified, and asks again. */
static void test_asked_too_early(void **state) {
	struct stage t;

	(void)state;
	memset(&t, 0, sizeof t);
	net_open(&t.s.net, &net_plain);
	t.replica = add_replica(&t.s);
	post(t.replica, ask_copy(77, 3));
	net_run(&t.s.net, HD_MS);
	assert_dropped(&t, 77, 3, HD_REASON_EPOCH);
	net_close(&t.s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_are_notified),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_how_many),
		cmocka_unit_test(test_reported),
		cmocka_unit_test(test_reported_as_a_push),
		cmocka_unit_test(test_given_up),
		cmocka_unit_test(test_the_group_ends),
		cmocka_unit_test(test_none_comes),
		cmocka_unit_test(test_asked_too_early),
		cmocka_unit_test(test_the_replica_dies),
	};

	return cmocka_run_group_tests_name("controller-copy", tests, NULL, NULL);
}
