/* SPDX-License-Identifier: BSD-3-Clause */
/* The server without a controller: joining, direct pushes, commits, duplicates, hostile chunks. */
#include "hd_kernels.h"
#include "server_job.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The model that the server must have: every COMMITTED event replayed with the scalar kernel. */
static void assert_replays(struct fixture *f, uint32_t job) {
	float *w = malloc(BYTES), *h = calloc(VALUES, sizeof(float)), *g = malloc(BYTES);
	const struct hd_sgd sgd = {f->spec.learning_rate, f->spec.momentum, f->spec.weight_decay};
	uint64_t values = 0;

	hd_jobspec_initialize(&f->spec, w);
	for (size_t i = 0; i < f->net.event_count; i++) {
		const struct hd_event *event = &f->net.events[i];

		if (event->kind != HD_EVENT_COMMITTED || event->job != job)
			continue;
		job_update(g, event->worker, event->round);
		hd_sgd_apply_scalar(w, h, g, VALUES, &sgd);
	}
	assert_memory_equal(hd_server_model(f->net.server, job, &values), w, BYTES);
	assert_memory_equal(hd_server_momentum(f->net.server, job), h, BYTES);
	assert_int_equal(values, VALUES);
	free(w);
	free(h);
	free(g);
}

static void test_join_creates_and_compares(void **state) {
	struct fixture *f = *state;
	struct fake *one = fake_worker(&f->net, 0), *two = fake_worker(&f->net, 1);
	const struct hd_msg_joined *joined = fake_joined(one, &f->spec);
	float initial[VALUES];
	uint64_t values;

	assert_int_equal(hd_version_counter(joined->version), 0);
	assert_true(hd_version_incarnation(joined->version) > 0);
	assert_int_equal(joined->tau_max, 16);
	assert_int_equal(joined->last_round, 0);
	hd_jobspec_initialize(&f->spec, initial);
	assert_memory_equal(hd_server_model(f->net.server, one->job, &values), initial, BYTES);
	/* Another learning rate is refused in words, and the job goes on. */
	f->spec.learning_rate = 0.1F;
	fake_join(two, &f->spec);
	fake_wait(two, HD_MSG_REFUSE, 0);
	assert_non_null(strstr(two->refused, "learning_rate"));
	f->spec.learning_rate = 0.05F;
	assert_int_equal(fake_joined(two, &f->spec)->version, joined->version);
	/* One session is one worker of one job. */
	hd_text_copy(f->spec.name, sizeof f->spec.name, "other");
	fake_join(two, &f->spec);
	fake_wait(two, HD_MSG_REFUSE, 1);
	assert_non_null(strstr(two->refused, "session"));
	fake_close(one);
	fake_close(two);
}

static void test_join_beyond_memory_is_refused(void **state) {
	struct fixture *f = *state;
	struct fake *one;

	f->config.memory_bytes = 3 * BYTES;
	net_server(&f->net, &f->config);
	one = fake_worker(&f->net, 0);
	fake_join(one, &f->spec);
	fake_wait(one, HD_MSG_REFUSE, 0);
	assert_non_null(strstr(one->refused, "memory"));
	assert_non_null(strstr(one->refused, "12004")); /* the model */
	assert_non_null(strstr(one->refused, "48016")); /* four of them */
	assert_non_null(strstr(one->refused, "36012")); /* what there is */
	assert_int_equal(hd_server_stats(f->net.server)->memory_bytes, 0);
	fake_close(one);
}

static void test_direct_push_is_applied(void **state) {
	struct fixture *f = *state;
	struct fake *one = fake_worker(&f->net, 3);
	const struct hd_msg_joined *joined = fake_joined(one, &f->spec);
	const struct hd_msg_outcome *outcome;
	const struct hd_event *event;
	struct hd_commit commit;
	float g[VALUES];

	job_update(g, 3, 1);
	outcome = fake_push_direct(one, 1, joined->version, g, VALUES);
	assert_int_equal(outcome->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(outcome->delay, 1);
	assert_int_equal(outcome->version, joined->version + 1);
	assert_int_equal(hd_server_version(f->net.server, one->job), joined->version + 1);
	assert_replays(f, one->job);
	event = net_event(&f->net, HD_EVENT_COMMITTED, 0);
	assert_int_equal(event->worker, 3);
	assert_int_equal(event->base, joined->version);
	assert_int_equal(event->aux, 1);
	assert_int_equal(hd_server_log(f->net.server, one->job, &commit, 1), 1);
	assert_int_equal(commit.round, 1);
	assert_int_equal(commit.position, 0);
	assert_int_equal(commit.bytes, BYTES);
	fake_close(one);
}

static bool lose_some(struct net *net, const struct net_packet *packet) {
	/* Every 7th packet of any kind, the same in each run. */
	return net->sent % 7 == 3;
}

static void test_many_pushes_replay_under_loss(void **state) {
	struct fixture *f = *state;
	struct fake *workers[4];
	hd_version base[4];
	float g[4][VALUES];

	f->net.lose = lose_some;
	for (uint16_t i = 0; i < 4; i++) {
		workers[i] = fake_worker(&f->net, i);
		base[i] = fake_joined(workers[i], &f->spec)->version;
	}
	for (uint32_t round = 1; round <= 12; round++) {
		size_t grants[4];

		for (uint16_t i = 0; i < 4; i++) {
			grants[i] = fake_count(workers[i], HD_MSG_GRANT);
			fake_request_push(workers[i], round, 1, base[i], BYTES);
			job_update(g[i], i, round);
		}
		for (uint16_t i = 0; i < 4; i++) {
			uint64_t token
				= fake_wait(workers[i], HD_MSG_GRANT, grants[i])->grant.token;

			fake_push(workers[i], token, round, 1, g[i], VALUES);
		}
		for (uint16_t i = 0; i < 4; i++) {
			const struct hd_msg_outcome *outcome = fake_outcome(workers[i], round);

			assert_int_equal(outcome->outcome, HD_OUTCOME_APPLIED);
			assert_in_range(outcome->delay, 1, 16);
			base[i] = outcome->version;
		}
	}
	assert_true(f->net.lost > 50);
	assert_int_equal(hd_server_stats(f->net.server)->committed, 48);
	assert_int_equal(hd_version_counter(hd_server_version(f->net.server, workers[0]->job)), 48);
	assert_replays(f, workers[0]->job);
	for (uint16_t i = 0; i < 4; i++)
		fake_close(workers[i]);
}

static void test_a_round_is_applied_once(void **state) {
	struct fixture *f = *state;
	struct fake *one = fake_worker(&f->net, 0);
	hd_version base = fake_joined(one, &f->spec)->version;
	const struct hd_msg_outcome *again;
	struct hd_msg_outcome first;
	float g[VALUES];

	job_update(g, 0, 1);
	first = *fake_push_direct(one, 1, base, g, VALUES);
	/* Asked again: the recorded outcome, no grant. */
	fake_request_push(one, 1, 2, base, BYTES);
	again = &fake_wait(one, HD_MSG_OUTCOME, 1)->outcome;
	assert_int_equal(again->outcome, first.outcome);
	assert_int_equal(again->version, first.version);
	assert_int_equal(again->delay, first.delay);
	assert_int_equal(fake_count(one, HD_MSG_GRANT), 1);
	/* A later one first, then the one before it: both are applied, each once. */
	job_update(g, 0, 3);
	fake_push_direct(one, 3, base, g, VALUES);
	job_update(g, 0, 2);
	assert_int_equal(fake_push_direct(one, 2, base, g, VALUES)->outcome, HD_OUTCOME_APPLIED);
	fake_request_push(one, 3, 2, base, BYTES);
	assert_int_equal(fake_wait(one, HD_MSG_OUTCOME, 4)->outcome.round, 3);
	assert_int_equal(net_events(&f->net, HD_EVENT_COMMITTED), 3);
	assert_replays(f, one->job);
	fake_close(one);
}

/* A restarted worker counted its rounds at a server that was cut off: they are not the rounds of these numbers here. */
static void test_a_round_of_another_history(void **state) {
	struct fixture *f = *state;
	struct fake *one = fake_worker(&f->net, 0);
	hd_version base = fake_joined(one, &f->spec)->version, other;
	const struct hd_msg_outcome *outcome;
	float g[VALUES];

	other = hd_version_make((uint16_t)(hd_version_incarnation(base) + 1), 0);
	job_update(g, 0, 1);
	assert_int_equal(fake_push_direct(one, 1, base, g, VALUES)->outcome, HD_OUTCOME_APPLIED);
	fake_request_push(one, 1, 1, other, BYTES);
	outcome = &fake_wait(one, HD_MSG_OUTCOME, 1)->outcome;
	assert_int_equal(outcome->outcome, HD_OUTCOME_DROPPED);
	assert_int_equal(outcome->reason, HD_REASON_LOST_BASE);
	/* The outcome of the first one stays. */
	fake_request_push(one, 1, 2, base, BYTES);
	outcome = &fake_wait(one, HD_MSG_OUTCOME, 2)->outcome;
	assert_int_equal(outcome->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(net_events(&f->net, HD_EVENT_COMMITTED), 1);
	assert_replays(f, one->job);
	fake_close(one);
}

static void test_forgotten_rounds_are_duplicates(void **state) {
	struct fixture *f = *state;
	struct fake *one = fake_worker(&f->net, 0);
	hd_version base = fake_joined(one, &f->spec)->version;
	const struct hd_msg_outcome *outcome;
	float g[VALUES];

	job_update(g, 0, 100);
	fake_push_direct(one, 100, base, g, VALUES);
	fake_request_push(one, 100 - HD_ROUNDS_KEPT, 1, base, BYTES);
	outcome = fake_outcome(one, 100 - HD_ROUNDS_KEPT);
	assert_int_equal(outcome->outcome, HD_OUTCOME_FAILED);
	assert_int_equal(outcome->reason, HD_REASON_DUPLICATE);
	/* One round later is still in the window, and was not applied. */
	job_update(g, 0, 101 - HD_ROUNDS_KEPT);
	assert_int_equal(
		fake_push_direct(one, 101 - HD_ROUNDS_KEPT, base, g, VALUES)->outcome,
		HD_OUTCOME_APPLIED
	);
	assert_int_equal(fake_joined(one, &f->spec)->last_round, 100);
	fake_close(one);
}

static void test_late_at_request_and_at_commit(void **state) {
	struct fixture *f = *state;
	struct fake *one, *two;
	hd_version base;
	const struct hd_msg_outcome *outcome;
	uint64_t token;
	float g[VALUES], slow[VALUES];

	f->spec.tau_max = 2;
	one = fake_worker(&f->net, 0);
	two = fake_worker(&f->net, 1);
	base = fake_joined(one, &f->spec)->version;
	fake_joined(two, &f->spec);
	/* Granted in time, but two others are committed before it is there. */
	fake_request_push(two, 1, 1, base, BYTES);
	token = fake_wait(two, HD_MSG_GRANT, 0)->grant.token;
	for (uint32_t round = 1; round <= 2; round++) {
		job_update(g, 0, round);
		fake_push_direct(one, round, base, g, VALUES);
	}
	outcome = fake_outcome(two, 1);
	assert_int_equal(outcome->outcome, HD_OUTCOME_DROPPED);
	assert_int_equal(outcome->reason, HD_REASON_LATE);
	job_update(slow, 1, 1);
	fake_push(two, token, 1, 1, slow, VALUES);
	net_run(&f->net, 100 * HD_MS);
	assert_int_equal(net_events(&f->net, HD_EVENT_COMMITTED), 2);
	/* Too old already: no grant at all. */
	fake_request_push(two, 2, 1, base, BYTES);
	assert_int_equal(fake_outcome(two, 2)->reason, HD_REASON_LATE);
	assert_int_equal(fake_count(two, HD_MSG_GRANT), 1);
	/* And its word stands when it is asked again. */
	fake_request_push(two, 1, 2, base, BYTES);
	assert_int_equal(fake_wait(two, HD_MSG_OUTCOME, 2)->outcome.reason, HD_REASON_LATE);
	assert_int_equal(net_events(&f->net, HD_EVENT_DROPPED), 2);
	assert_replays(f, one->job);
	fake_close(one);
	fake_close(two);
}

static void test_bases_of_other_histories(void **state) {
	struct fixture *f = *state;
	struct fake *one = fake_worker(&f->net, 0);
	hd_version base = fake_joined(one, &f->spec)->version;
	uint16_t incarnation = hd_version_incarnation(base);

	fake_request_push(one, 1, 1, hd_version_make((uint16_t)(incarnation + 1), 0), BYTES);
	assert_int_equal(fake_outcome(one, 1)->reason, HD_REASON_LOST_BASE);
	fake_request_push(one, 2, 1, hd_version_make(incarnation, 5), BYTES);
	assert_int_equal(fake_outcome(one, 2)->reason, HD_REASON_LOST_BASE);
	fake_request_push(one, 3, 1, base, BYTES - 4);
	assert_int_equal(fake_outcome(one, 3)->reason, HD_REASON_REFUSED);
	assert_int_equal(fake_count(one, HD_MSG_GRANT), 0);
	fake_close(one);
}

static void test_not_finite_is_refused_unless_allowed(void **state) {
	struct fixture *f = *state;
	struct fake *one = fake_worker(&f->net, 0), *two = fake_worker(&f->net, 0x40);
	hd_version base = fake_joined(one, &f->spec)->version;
	const struct hd_msg_outcome *outcome;
	float g[VALUES];
	uint64_t values;

	job_update(g, 0, 1);
	g[VALUES - 1] = NAN;
	outcome = fake_push_direct(one, 1, base, g, VALUES);
	assert_int_equal(outcome->outcome, HD_OUTCOME_FAILED);
	assert_int_equal(outcome->reason, HD_REASON_NOT_FINITE);
	assert_int_equal(hd_server_version(f->net.server, one->job), base);
	assert_replays(f, one->job);
	hd_text_copy(f->spec.name, sizeof f->spec.name, "wild");
	f->spec.allow_not_finite = true;
	base = fake_joined(two, &f->spec)->version;
	outcome = fake_push_direct(two, 1, base, g, VALUES);
	assert_int_equal(outcome->outcome, HD_OUTCOME_APPLIED);
	assert_true(isnan(hd_server_model(f->net.server, two->job, &values)[VALUES - 1]));
	fake_close(one);
	fake_close(two);
}

/* One chunk, made by hand. */
static void chunk_send(struct fake *fake, const struct hd_chunk_header *header) {
	struct hd_sink *sink = &fake->node.sink;
	uint8_t head[HD_CHUNK_HEADER_BYTES + HD_SEAL_BYTES];
	static const float payload[HD_CHUNK_BYTES_DEFAULT / 4];
	struct hd_chunk_header keyed = *header;
	struct hd_seal seal = {0};

	keyed.slot = 7;
	hd_chunk_encode(&keyed, head);
	assert_int_equal(
		hd_seal_derive(&seal, &fake->node.net->keys, 7, keyed.job, keyed.token), 0
	);
	hd_seal_sign(
		&seal,
		head,
		(const uint8_t *)payload,
		header->count * sizeof(float),
		head + HD_CHUNK_HEADER_BYTES
	);
	sink->send(
		sink,
		fake->node.net->server_node.addr,
		head,
		sizeof head,
		payload,
		header->count * sizeof(float)
	);
}

static void test_hostile_chunks_are_counted_only(void **state) {
	struct fixture *f = *state;
	struct fake *one = fake_worker(&f->net, 0);
	const struct hd_server_stats *stats = hd_server_stats(f->net.server);
	hd_version base = fake_joined(one, &f->spec)->version;
	struct hd_chunk_header good, header;
	static const uint8_t junk[40] = {0x48, 0x44, 0x11};
	float g[VALUES];

	fake_request_push(one, 1, 1, base, BYTES);
	good = (struct hd_chunk_header){
		.job = one->job,
		.round = 1,
		.attempt = 1,
		.count = HD_CHUNK_BYTES_DEFAULT / 4,
		.token = fake_wait(one, HD_MSG_GRANT, 0)->grant.token,
	};
	header = good;
	header.token ^= 1; /* forged */
	chunk_send(one, &header);
	header = good;
	header.job ^= 1; /* foreign job */
	chunk_send(one, &header);
	header = good;
	header.worker = 9;
	chunk_send(one, &header);
	header = good;
	header.round = 2;
	chunk_send(one, &header);
	header = good;
	header.attempt = 2;
	chunk_send(one, &header);
	header = good;
	header.chunk = 9; /* beyond the end */
	chunk_send(one, &header);
	header = good;
	header.chunk = 0xffffffff;
	chunk_send(one, &header);
	header = good;
	header.count = 0;
	chunk_send(one, &header);
	one->node.sink.send(&one->node.sink, f->net.server_node.addr, junk, sizeof junk, NULL, 0);
	one->node.sink.send(&one->node.sink, f->net.server_node.addr, junk, 2, NULL, 0);
	net_run(&f->net, 10 * HD_MS);
	assert_int_equal(stats->drop_token, 1);
	assert_int_equal(stats->drop_mismatch + stats->drop_malformed, 9);
	assert_int_equal(net_events(&f->net, HD_EVENT_RECV_START), 0);
	job_update(g, 0, 1);
	fake_push(one, good.token, 1, 1, g, VALUES);
	assert_int_equal(fake_outcome(one, 1)->outcome, HD_OUTCOME_APPLIED);
	assert_replays(f, one->job);
	/* After the end a copy is answered, and changes nothing. */
	one->sacks = 0;
	chunk_send(one, &good);
	net_run(&f->net, 10 * HD_MS);
	assert_int_equal(one->sacks, 1);
	assert_int_equal(stats->duplicates, 1);
	assert_replays(f, one->job);
	fake_close(one);
}

static void test_two_jobs_are_apart(void **state) {
	struct fixture *f = *state;
	struct fake *one = fake_worker(&f->net, 0), *two = fake_worker(&f->net, 0x40);
	hd_version base_one = fake_joined(one, &f->spec)->version, base_two;
	struct hd_message message = {.kind = HD_MSG_REQUEST};
	float g[VALUES];

	hd_text_copy(f->spec.name, sizeof f->spec.name, "second");
	f->spec.seed = 77;
	base_two = fake_joined(two, &f->spec)->version;
	assert_int_not_equal(one->job, two->job);
	job_update(g, 0x40, 1);
	fake_push_direct(two, 1, base_two, g, VALUES);
	assert_replays(f, two->job);
	assert_int_equal(hd_server_version(f->net.server, one->job), base_one);
	/* A worker cannot speak for another job, nor for another rank. */
	message.request = (struct hd_msg_request){
		.job = one->job,
		.worker = 0x40,
		.round = 9,
		.attempt = 1,
		.bytes = BYTES,
		.base = base_one,
	};
	fake_send(two, &message);
	message.request.job = two->job;
	message.request.worker = 0;
	fake_send(two, &message);
	net_run(&f->net, 10 * HD_MS);
	assert_int_equal(hd_server_stats(f->net.server)->refused_messages, 2);
	assert_int_equal(fake_count(two, HD_MSG_GRANT), 1);
	fake_close(one);
	fake_close(two);
}

static void test_updates_wait_for_memory(void **state) {
	struct fixture *f = *state;
	struct fake *workers[4];
	float g[4][VALUES];
	hd_version base;

	f->config.memory_bytes = 4 * (BYTES + 64); /* model, momentum, two more */
	net_server(&f->net, &f->config);
	for (uint16_t i = 0; i < 4; i++) {
		workers[i] = fake_worker(&f->net, i);
		base = fake_joined(workers[i], &f->spec)->version;
		fake_request_push(workers[i], 1, 1, base, BYTES);
	}
	net_run(&f->net, 10 * HD_MS);
	assert_int_equal(net_events(&f->net, HD_EVENT_GRANTED), 2);
	for (uint16_t i = 0; i < 4; i++) {
		uint64_t token = fake_wait(workers[i], HD_MSG_GRANT, 0)->grant.token;

		job_update(g[i], i, 1);
		fake_push(workers[i], token, 1, 1, g[i], VALUES);
		assert_int_equal(fake_outcome(workers[i], 1)->outcome, HD_OUTCOME_APPLIED);
	}
	assert_true(hd_server_stats(f->net.server)->memory_bytes <= f->config.memory_bytes);
	assert_replays(f, workers[0]->job);
	for (uint16_t i = 0; i < 4; i++)
		fake_close(workers[i]);
}

static void test_cancel_attempts_and_death(void **state) {
	struct fixture *f = *state;
	struct fake *one = fake_worker(&f->net, 0), *again;
	hd_version base = fake_joined(one, &f->spec)->version;
	struct hd_message cancel = {.kind = HD_MSG_CANCEL};
	uint64_t first, second;
	float g[VALUES];

	/* A newer attempt has a token of its own; the older one is worth nothing any more. */
	fake_request_push(one, 1, 1, base, BYTES);
	first = fake_wait(one, HD_MSG_GRANT, 0)->grant.token;
	fake_request_push(one, 1, 2, base, BYTES);
	second = fake_wait(one, HD_MSG_GRANT, 1)->grant.token;
	assert_int_not_equal(first, second);
	job_update(g, 0, 1);
	fake_push(one, first, 1, 1, g, VALUES);
	net_run(&f->net, 50 * HD_MS);
	assert_int_equal(net_events(&f->net, HD_EVENT_COMMITTED), 0);
	fake_push(one, second, 1, 2, g, VALUES);
	assert_int_equal(fake_outcome(one, 1)->outcome, HD_OUTCOME_APPLIED);

	fake_request_push(one, 2, 1, base, BYTES);
	fake_wait(one, HD_MSG_GRANT, 2);
	cancel.cancel = (struct hd_msg_cancel){.job = one->job, .round = 2, .attempt = 1};
	fake_send(one, &cancel);
	assert_int_equal(fake_outcome(one, 2)->reason, HD_REASON_CANCELLED);

	/* Granted and gone: forgotten after the lease, and free to be asked for again. */
	fake_request_push(one, 3, 1, base, BYTES);
	fake_wait(one, HD_MSG_GRANT, 3);
	fake_kill(one);
	net_run(&f->net, 4 * HD_SECOND);
	assert_int_equal(net_events(&f->net, HD_EVENT_NODE_DOWN), 1);
	again = fake_worker(&f->net, 0);
	assert_int_equal(fake_joined(again, &f->spec)->last_round, 2);
	job_update(g, 0, 3);
	assert_int_equal(fake_push_direct(again, 3, base, g, VALUES)->outcome, HD_OUTCOME_APPLIED);
	assert_replays(f, again->job);
	fake_close(again);
}

/* 200 idle grants cost nothing while nothing happens: the deadline is the endpoint's own. */
static void test_idle_is_idle(void **state) {
	struct fixture *f = *state;
	struct fake *one = fake_worker(&f->net, 0);
	hd_version base = fake_joined(one, &f->spec)->version;
	const struct hd_core_ops *ops = f->net.server_node.node.ops;

	for (uint32_t round = 1; round <= 60; round++)
		fake_request_push(one, round, 1, base, BYTES);
	net_run(&f->net, 50 * HD_MS);
	assert_int_equal(fake_count(one, HD_MSG_GRANT), 60);
	assert_true(ops->deadline(f->net.server) > f->net.now);
	f->net.sent = 0;
	net_run(&f->net, HD_SECOND);
	assert_true(f->net.sent < 40); /* keepalives of both sides */
	fake_close(one);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_join_creates_and_compares, job_setup, job_teardown
		),
		cmocka_unit_test_setup_teardown(
			test_join_beyond_memory_is_refused, job_setup, job_teardown
		),
		cmocka_unit_test_setup_teardown(
			test_direct_push_is_applied, job_setup, job_teardown
		),
		cmocka_unit_test_setup_teardown(
			test_many_pushes_replay_under_loss, job_setup, job_teardown
		),
		cmocka_unit_test_setup_teardown(
			test_a_round_is_applied_once, job_setup, job_teardown
		),
		cmocka_unit_test_setup_teardown(
			test_a_round_of_another_history, job_setup, job_teardown
		),
		cmocka_unit_test_setup_teardown(
			test_forgotten_rounds_are_duplicates, job_setup, job_teardown
		),
		cmocka_unit_test_setup_teardown(
			test_late_at_request_and_at_commit, job_setup, job_teardown
		),
		cmocka_unit_test_setup_teardown(
			test_bases_of_other_histories, job_setup, job_teardown
		),
		cmocka_unit_test_setup_teardown(
			test_not_finite_is_refused_unless_allowed, job_setup, job_teardown
		),
		cmocka_unit_test_setup_teardown(
			test_hostile_chunks_are_counted_only, job_setup, job_teardown
		),
		cmocka_unit_test_setup_teardown(test_two_jobs_are_apart, job_setup, job_teardown),
		cmocka_unit_test_setup_teardown(
			test_updates_wait_for_memory, job_setup, job_teardown
		),
		cmocka_unit_test_setup_teardown(
			test_cancel_attempts_and_death, job_setup, job_teardown
		),
		cmocka_unit_test_setup_teardown(test_idle_is_idle, job_setup, job_teardown),
	};

	return cmocka_run_group_tests_name("server", tests, NULL, NULL);
}
