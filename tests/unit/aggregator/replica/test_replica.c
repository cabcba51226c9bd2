/* SPDX-License-Identifier: BSD-3-Clause */
/* The replica has the server's bits at every version that it says it has, is never further away than div_max, and goes
 * on as the server when it must. */
#include "replica_scene.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* --- tests ----------------------------------------------------------------------------------------- */

static void test_follows(void **state) {
	static const uint8_t dtypes[]
		= {HD_DTYPE_FP32, HD_DTYPE_BF16, HD_DTYPE_SPARSE32, HD_DTYPE_FP16};
	struct scene *s = scene_open(0);

	(void)state;
	push(s, HD_DTYPE_FP32, 1); /* before there is a replica */
	assert_false(sent_durable(s, 1));
	follow(s, -1);
	assert_true(replica_at(s, s->base));
	run_until(s, sent_durable, s->base);
	for (int i = 0; i < 16; i++)
		push(s, dtypes[i % 4], 1);
	run_until(s, sent_durable, s->base);
	assert_true(replica_at(s, s->base));
	assert_int_equal(hd_server_stats(s->replica)->replicated, 16);
	assert_int_equal(hd_server_stats(s->replica)->states_taken, 1);
	assert_int_equal(hd_server_stats(s->replica)->copies_lost, 0);
	run_for(s, HD_SECOND);
	assert_true(last_follow(s)->version == s->base);
	assert_true(fabs(last_follow(s)->divergence) < 1e-12);
	scene_close(s);
}

static bool lose_some(struct net *net, const struct net_packet *packet) {
	(void)packet;
	return net->sent % 13 == 5;
}

static void test_follows_over_a_bad_network(void **state) {
	struct scene *s = scene_open(0);

	(void)state;
	s->net.lose = lose_some;
	follow(s, -1);
	for (int i = 0; i < 12; i++)
		push(s, i % 3 ? HD_DTYPE_FP32 : HD_DTYPE_BF16, 1);
	run_until(s, replica_at, s->base);
	run_until(s, sent_durable, s->base);
	scene_close(s);
}

/* The next commit would lead too far: it waits until the replica has caught up, and not longer. */
static void test_div_max_holds_commits(void **state) {
	struct scene *s = scene_open(0);
	uint64_t held;
	double step;

	(void)state;
	follow(s, 0);
	push(s, HD_DTYPE_FP32, 1);
	run_until(s, replica_at, s->base);
	/* With momentum a step becomes seven times its update: one is within the bound, two are not. */
	step = 3 * distance(s->history->model[0], s->history->model[1]);
	order(s, s->minds, HD_REPLICA_KEEP, s->generation, 4 * step);
	run_for(s, 20 * HD_MS);
	s->farthest = 0;
	for (int i = 0; i < 12; i++)
		push(s, HD_DTYPE_FP32, 1);
	run_until(s, replica_at, s->base);
	assert_true(s->farthest <= 4 * step * (1 + 1e-5));
	assert_true(s->farthest > 0.5 * step);

	/* No copies come: commits stop before the bound, and the controller is notified. */
	s->deaf = true;
	held = hd_server_stats(s->net.server)->commits_held;
	make_update(s, HD_DTYPE_FP32, 1);
	while (hd_server_stats(s->net.server)->commits_held == held) {
		grant_push(s);
		run_for(s, 50 * HD_MS);
		if (has_outcome(s, s->round)) {
			s->base = fake_outcome(s->worker, s->round)->version;
			make_update(s, HD_DTYPE_FP32, 1);
		}
	}
	run_for(s, 2 * HD_SECOND);
	assert_false(has_outcome(s, s->round));
	assert_true(last_follow(s)->held);
	assert_true(last_follow(s)->divergence <= 4 * step);
	assert_true(s->farthest <= 4 * step * (1 + 1e-5));
	s->deaf = false;
	run_until(s, has_outcome, s->round);
	assert_true(s->farthest <= 4 * step * (1 + 1e-5));

	/* A step that is bigger than the bound goes alone, from where both are equal. */
	s->base = fake_outcome(s->worker, s->round)->version;
	run_until(s, replica_at, s->base);
	push(s, HD_DTYPE_FP32, 500);
	run_until(s, replica_at, s->base);
	scene_close(s);
}

static void test_alone_again(void **state) {
	struct scene *s = scene_open(0);
	hd_version durable;

	(void)state;
	follow(s, 1e-6); /* so near that nothing goes without the replica */
	push(s, HD_DTYPE_FP32, 1);
	run_until(s, sent_durable, s->base);
	durable = s->base;
	s->replica_node.down = true;
	push(s, HD_DTYPE_FP32, 1);
	make_update(s, HD_DTYPE_FP32, 1);
	grant_push(s);
	run_for(s, 3 * HD_SECOND);
	assert_false(has_outcome(s, s->round)); /* only the controller's word lets it go on */
	order(s, s->minds, HD_REPLICA_ALONE, s->generation, 0);
	run_until(s, has_outcome, s->round);
	s->base = fake_outcome(s->worker, s->round)->version;
	push(s, HD_DTYPE_FP32, 1);
	assert_false(sent_durable(s, durable + 1));
	/* A word about an assignment that is over changes nothing; a new one begins with a state. */
	s->replica_node.down = false;
	order(s, s->minds, HD_REPLICA_ALONE, s->generation - 1, 0);
	follow(s, 0);
	run_until(s, replica_at, s->base);
	run_until(s, sent_durable, s->base);
	push(s, HD_DTYPE_FP32, 1);
	run_until(s, sent_durable, s->base);
	scene_close(s);
}

/* Updates that no node has any more are replaced by a state, while training goes on. */
static void test_holes(void **state) {
	struct scene *s = scene_open(0);

	(void)state;
	follow(s, 0);
	push(s, HD_DTYPE_FP32, 1);
	run_until(s, replica_at, s->base);
	s->lost = true;
	for (int i = 0; i < 6; i++)
		push(s, HD_DTYPE_FP32, 1);
	run_until(s, replica_at, s->base);
	assert_true(hd_server_stats(s->replica)->states_taken >= 2);
	assert_true(hd_server_stats(s->replica)->copies_lost >= 1);
	s->lost = false;
	for (int i = 0; i < 4; i++)
		push(s, HD_DTYPE_FP32, 1);
	run_until(s, sent_durable, s->base);
	scene_close(s);
}

/* The link between the two breaks: entries are lost with it, a state makes up for them. */
static void test_cut(void **state) {
	struct scene *s = scene_open(0);

	(void)state;
	follow(s, 0);
	push(s, HD_DTYPE_FP32, 1);
	run_until(s, replica_at, s->base);
	s->replica_node.down = true;
	for (int i = 0; i < 5; i++)
		push(s, HD_DTYPE_FP32, 1);
	run_for(s, 3 * HD_SECOND);
	push(s, HD_DTYPE_FP32, 1);
	s->replica_node.down = false;
	run_until(s, replica_at, s->base);
	push(s, HD_DTYPE_FP32, 1);
	run_until(s, sent_durable, s->base);
	scene_close(s);
}

static void replica_restart(struct scene *s) {
	net_remove(&s->net, &s->replica_node);
	hd_server_destroy(s->replica);
	replica_start(s, 0);
}

/* Another process at the replica's place knows nothing: it gets a state. */
static void test_replica_dies(void **state) {
	struct scene *s = scene_open(0);

	(void)state;
	follow(s, 0);
	push(s, HD_DTYPE_FP32, 1);
	run_until(s, replica_at, s->base);
	replica_restart(s);
	push(s, HD_DTYPE_FP32, 1);
	run_until(s, replica_at, s->base);
	push(s, HD_DTYPE_SPARSE32, 1);
	run_until(s, replica_at, s->base);
	scene_close(s);
}

/* The process before it may have been made the server, which only its controller knows: it takes no state before that
 * has registered it, and nothing becomes durable meanwhile. */
static void test_replica_restarts_unheard(void **state) {
	struct scene *s = scene_open(0);

	(void)state;
	follow(s, 0);
	push(s, HD_DTYPE_FP32, 1);
	run_until(s, sent_durable, s->base);
	s->replica_minds->node.down = true;
	replica_restart(s);
	push(s, HD_DTYPE_FP32, 1);
	run_for(s, 2 * HD_SECOND);
	assert_true(hd_server_version(s->replica, s->worker->job) == 0);
	assert_false(sent_durable(s, s->base));
	s->replica_minds->node.down = false;
	run_until(s, sent_durable, s->base);
	assert_true(replica_at(s, s->base));
	scene_close(s);
}

static void test_too_little_memory(void **state) {
	struct scene *s = scene_open((uint64_t)5 * VALUES * sizeof(float));

	(void)state;
	order(s, s->minds, HD_REPLICA_KEEP, ++s->generation, 0);
	for (int i = 0; i < 4; i++)
		push(s, HD_DTYPE_FP32, 1);
	run_for(s, HD_SECOND);
	assert_false(caught_up(s, 0));
	assert_true(hd_server_version(s->replica, s->worker->job) == 0);
	scene_close(s);
}

/* States every `every` commits, and no log: the paper's comparison. */
static void test_chain(void **state) {
	struct scene *s = scene_open(0);
	struct hd_message message = {.kind = HD_MSG_REPLICA};

	(void)state;
	message.replica = (struct hd_msg_replica){
		.job = s->worker->job,
		.generation = ++s->generation,
		.epoch = 1,
		.order = HD_REPLICA_KEEP,
		.peer_ipv4 = REPLICA_IP,
		.peer_port = HD_PORT,
		.every = 4,
	};
	fake_send(s->minds, &message);
	run_until(s, caught_up, 0);
	for (int i = 0; i < 12; i++)
		push(s, HD_DTYPE_FP32, 1);
	run_until(s, replica_at, s->base);
	assert_int_equal(hd_server_stats(s->replica)->states_taken, 4);
	assert_int_equal(hd_server_stats(s->replica)->copies_asked, 0);
	scene_close(s);
}

static bool carrier_joined(struct scene *s, uint64_t number) {
	(void)number;
	return fake_count(s->carrier, HD_MSG_JOINED) > 0;
}

/* The server is gone: what was durable is there, what was not is pushed again, the old one is not heard. */
static void test_promotion(void **state) {
	struct scene *s = scene_open(0);
	const struct hd_msg_joined *joined;
	const struct hd_msg_outcome *outcome;
	uint32_t durable_round;
	hd_version last, before;

	(void)state;
	follow(s, 0);
	fake_join(s->carrier, &s->spec); /* waits until this is the server */
	for (int i = 0; i < 5; i++)
		push(s, HD_DTYPE_FP32, 1);
	run_until(s, sent_durable, s->base);
	last = s->base;
	before = hd_version_make(hd_version_incarnation(last), hd_version_counter(last) - 1);
	durable_round = s->round;
	s->deaf = true;
	push(s, HD_DTYPE_FP32, 1); /* applied, and not durable */
	run_for(s, 50 * HD_MS);
	assert_int_equal(fake_count(s->carrier, HD_MSG_JOINED), 0);
	s->net.server_node.down = true;

	order(s, s->replica_minds, HD_REPLICA_SERVE, ++s->generation, 0);
	run_until(s, carrier_joined, 0);
	joined = &fake_wait(s->carrier, HD_MSG_JOINED, 0)->joined;
	assert_true(hd_version_counter(joined->version) == hd_version_counter(last));
	assert_true(hd_version_incarnation(joined->version) > hd_version_incarnation(last));
	assert_true(joined->durable == last);
	assert_int_equal(joined->last_round, durable_round);
	assert_int_equal(hd_server_stats(s->replica)->promoted, 1);

	/* A round that is in the model is known; one that is not is taken. */
	fake_request_push(s->carrier, durable_round, 2, before, VALUES * sizeof(float));
	outcome = fake_outcome(s->carrier, durable_round);
	assert_int_equal(outcome->outcome, HD_OUTCOME_APPLIED);
	assert_true(outcome->version == last);
	s->carrier->dtype = HD_DTYPE_FP32;
	outcome = fake_push_direct(
		s->carrier, durable_round + 1, last, s->updates[durable_round + 1], VALUES
	);
	assert_int_equal(outcome->outcome, HD_OUTCOME_APPLIED);
	assert_true(
		outcome->version
		== hd_version_make(
			hd_version_incarnation(joined->version), hd_version_counter(last) + 1
		)
	);
	/* An update that was computed on the lost history is not applied. */
	outcome = fake_push_direct(
		s->carrier, durable_round + 2, outcome->version, s->updates[1], VALUES
	);
	assert_int_equal(outcome->outcome, HD_OUTCOME_APPLIED);
	fake_request_push(s->carrier, durable_round + 3, 1, s->base, VALUES * sizeof(float));
	outcome = fake_outcome(s->carrier, durable_round + 3);
	assert_int_equal(outcome->reason, HD_REASON_LOST_BASE);

	/* The old server comes back, and learns that it is none any more. */
	s->net.server_node.down = false;
	run_for(s, 3 * HD_SECOND);
	assert_int_equal(hd_server_stats(s->net.server)->retired, 1);
	assert_true(hd_server_version(s->net.server, s->worker->job) == 0);
	scene_close(s);
}

/* The server is back as well: its restarts, one incarnation each, never have that of who took its place. */
static void test_incarnations(void **state) {
	uint16_t former, mine, restarts = 8;

	(void)state;
	for (scene_seed = 0; scene_seed < 100; scene_seed++) {
		struct scene *s = scene_open(0);

		follow(s, 0);
		push(s, HD_DTYPE_FP32, 1);
		run_until(s, sent_durable, s->base);
		former = hd_version_incarnation(s->base);
		s->net.server_node.down = true;
		order(s, s->replica_minds, HD_REPLICA_SERVE, ++s->generation, 0);
		run_for(s, 50 * HD_MS);
		mine = hd_version_incarnation(hd_server_version(s->replica, s->worker->job));
		assert_int_equal(hd_server_stats(s->replica)->promoted, 1);
		assert_true(mine > former + restarts);
		scene_close(s);
	}
	scene_seed = 0;
}

static bool carrier_closed(struct scene *s, uint64_t number) {
	(void)number;
	return s->carrier->closed > 0;
}

static bool carrier_open(struct scene *s, uint64_t number) {
	(void)number;
	return s->carrier->open;
}

/* A worker may join a replica that has no copy yet, as workers do whose server restarts. It is asked again when the
 * replica has a copy and takes over. */
static void test_joins_before_the_copy(void **state) {
	struct scene *s = scene_open(0);

	(void)state;
	fake_join(s->carrier, &s->spec);
	run_for(s, 10 * HD_MS);
	follow(s, 0);
	push(s, HD_DTYPE_FP32, 1);
	run_until(s, sent_durable, s->base);
	assert_int_equal(s->carrier->closed, 0);
	s->net.server_node.down = true;
	order(s, s->replica_minds, HD_REPLICA_SERVE, ++s->generation, 0);
	run_until(s, carrier_closed, 0);
	run_until(s, carrier_open, 0);
	assert_int_equal(fake_joined(s->carrier, &s->spec)->last_round, s->round);
	scene_close(s);
}

/* The message that names the rounds in the state: the one right after SEED. */
static bool lose_rounds(struct net *net, const struct net_packet *packet) {
	uint8_t version;

	return packet->to.ipv4 == REPLICA_IP && hd_server_stats(net->server)->states_sent == 1
		&& hd_packet_classify(packet->data, packet->bytes, &version) == HD_PACKET_CONTROL;
}

static bool has_state(struct scene *s, uint64_t number) {
	(void)number;
	return hd_server_stats(s->replica)->chunk_bytes >= 2 * sizeof(float) * VALUES;
}

/* A state's chunks may be there before the rounds that are in it: it is taken with them, or a push that is in it would
 * be taken once more. */
static void test_rounds_come_late(void **state) {
	struct scene *s = scene_open(0);
	uint32_t round;

	(void)state;
	push(s, HD_DTYPE_FP32, 1);
	round = s->round;
	s->net.lose = lose_rounds;
	order_to(s, REPLICA_IP, ++s->generation);
	run_until(s, has_state, 0);
	run_for(s, 50 * HD_MS);
	assert_int_equal(hd_server_stats(s->replica)->states_taken, 0);
	s->net.lose = NULL;
	run_until(s, replica_at, s->base);
	s->net.server_node.down = true;
	order(s, s->replica_minds, HD_REPLICA_SERVE, ++s->generation, 0);
	fake_join(s->carrier, &s->spec);
	run_until(s, carrier_joined, 0);
	assert_int_equal(fake_wait(s->carrier, HD_MSG_JOINED, 0)->joined.last_round, round);
	scene_close(s);
}

/* Order SERVE without a copy: the job may start here, as at any server; before the order, no worker may join. */
static void test_begins_when_notified(void **state) {
	struct scene *s = scene_open(0);

	(void)state;
	fake_join(s->carrier, &s->spec);
	run_for(s, 100 * HD_MS);
	assert_int_equal(fake_count(s->carrier, HD_MSG_JOINED), 0);
	order(s, s->replica_minds, HD_REPLICA_SERVE, ++s->generation, 0);
	run_for(s, 100 * HD_MS);
	assert_true(fake_joined(s->carrier, &s->spec)->version != 0);
	scene_close(s);
}

/* A node that was told to serve, and has nothing yet, is no copy of an older server that was cut off: that one retires,
 * whether its state comes after the word or has begun to come before. */
static void test_older_server_seeds(void **state) {
	for (int before = 0; before < 2; before++) {
		struct scene *s = scene_open(0);

		(void)state;
		if (before) {
			order_to(s, REPLICA_IP, ++s->generation);
			while (hd_server_version(s->replica, s->worker->job) == 0
			       && hd_server_stats(s->net.server)->states_sent == 0)
				run_for(s, 50 * HD_US);
		}
		order(s, s->replica_minds, HD_REPLICA_SERVE, 50, 0);
		run_for(s, 5 * HD_MS);
		if (!before)
			order_to(s, REPLICA_IP, ++s->generation);
		run_for(s, 2 * HD_SECOND);
		assert_int_equal(hd_server_stats(s->net.server)->retired, 1);
		if (!before || hd_server_stats(s->replica)->promoted == 0)
			assert_true(fake_joined(s->carrier, &s->spec)->version != 0);
		scene_close(s);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_follows),
		cmocka_unit_test(test_follows_over_a_bad_network),
		cmocka_unit_test(test_div_max_holds_commits),
		cmocka_unit_test(test_alone_again),
		cmocka_unit_test(test_holes),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_replica_dies),
		cmocka_unit_test(test_replica_restarts_unheard),
		cmocka_unit_test(test_too_little_memory),
		cmocka_unit_test(test_chain),
		cmocka_unit_test(test_promotion),
		cmocka_unit_test(test_incarnations),
		cmocka_unit_test(test_joins_before_the_copy),
		cmocka_unit_test(test_rounds_come_late),
		cmocka_unit_test(test_begins_when_notified),
		cmocka_unit_test(test_older_server_seeds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
