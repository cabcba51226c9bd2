/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums that do not come: who hears what, and that nothing of them is in the model. */
#include "hd_kernels.h"
#include "server_sums.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct hd_server_config plain;

static uint64_t counter(const struct sums *s) {
	return hd_version_counter(hd_server_version(s->net.server, s->job));
}

/* The newest REPORT about a token; NULL: none. */
static const struct hd_msg_report *report_of(const struct sums *s, uint64_t token) {
	for (size_t i = s->controller->inbox_count; i > 0; i--) {
		const struct hd_message *message = &s->controller->inbox[i - 1];

		if (message->kind == HD_MSG_REPORT && message->report.token == token)
			return &message->report;
	}
	return NULL;
}

static bool sent_to_aggregator(const struct sums *s, uint64_t token) {
	for (size_t i = 0; i < s->aggregator->inbox_count; i++) {
		const struct hd_message *message = &s->aggregator->inbox[i];

		if (message->kind == HD_MSG_VOID && message->void_.token == token)
			return true;
	}
	return false;
}

/* The sum at `position` has ended and left no trace: its workers were asked to ask again, but for those in
 * `excepted`. */
static void
assert_withdrawn(struct sums *s, const char *workers, uint64_t position, const char *excepted) {
	for (size_t i = 0; workers[i] != '\0'; i++) {
		uint16_t worker = (uint16_t)(workers[i] - '0');

		assert_int_equal(
			sums_withdrawn(s, worker, position + i), !strchr(excepted, workers[i])
		);
	}
	assert_int_equal(hd_server_stats(s->net.server)->sums, 0);
	assert_non_null(report_of(s, SUM_TOKEN + position));
	assert_int_not_equal(report_of(s, SUM_TOKEN + position)->outcome, HD_OUTCOME_APPLIED);
}

/* Sends so much of the sum that something of it is there, but not all. */
static void push_partly(struct sums *s, const char *workers, uint64_t position) {
	size_t ends = net_events(&s->net, HD_EVENT_RECV_END);

	s->aggregator->granted_bps = 20000000;
	sums_push(s, workers, position);
	net_run(&s->net, 3 * HD_MS);
	assert_true(hd_server_stats(s->net.server)->chunks > 2);
	assert_int_equal(net_events(&s->net, HD_EVENT_RECV_END), ends);
}

static void send_void(struct fake *from, uint32_t job, uint64_t token, enum hd_reason reason) {
	struct hd_message message = {.kind = HD_MSG_VOID};

	message.void_.job = job;
	message.void_.token = token;
	message.void_.reason = (uint8_t)reason;
	fake_send(from, &message);
}

/* --- one of them ------------------------------------------------------------------------------- */

static void send_cancel(struct sums *s, uint16_t worker, uint64_t token) {
	struct hd_message cancel = {.kind = HD_MSG_CANCEL};

	cancel.cancel = (struct hd_msg_cancel
	){.job = s->job, .worker = worker, .round = 1, .attempt = 1, .token = token};
	fake_send(s->worker[worker], &cancel);
	sums_run_ms(s, 2);
}

static void test_cancel_of_one(void **state) {
	struct sums *s = sums_open(16, &plain);

	sums_tell(s, "012", 1);
	push_partly(s, "012", 1);
	send_cancel(s, 1, 0x123); /* another transfer */
	assert_int_equal(fake_count(s->worker[1], HD_MSG_OUTCOME), 0);
	send_cancel(s, 1, PART_TOKEN + 2);
	assert_int_equal(fake_outcome(s->worker[1], 1)->reason, HD_REASON_CANCELLED);
	assert_int_equal(fake_outcome(s->worker[1], 1)->outcome, HD_OUTCOME_FAILED);
	assert_withdrawn(s, "012", 1, "1");
	assert_true(sent_to_aggregator(s, SUM_TOKEN + 1));
	/* The rest of the chunks have no transfer. */
	sums_run_ms(s, 20);
	assert_true(hd_server_stats(s->net.server)->drop_token > 0);
	assert_int_equal(counter(s), 0);
	/* The others come again, without it. */
	sums_make(s, "02", 4);
	s->list[0].attempt = s->list[1].attempt = 2;
	sums_send(s, "02");
	s->aggregator->granted_bps = 0;
	sums_push(s, "02", 4);
	assert_int_equal(fake_outcome(s->worker[2], 1)->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(counter(s), 2);
	sums_close(s);
}

/* Too late: it is held whole. */
static void test_cancel_after_the_last_byte(void **state) {
	struct sums *s = sums_open(2, &plain);
	struct hd_msg_expect single = {
		.job = s->job,
		.worker = 3,
		.round = 1,
		.attempt = 1,
		.epoch = 3,
		.token = 0x500,
		.position = 1,
		.base = s->base,
		.bytes = SUM_BYTES,
		.weight = 1,
	};

	fake_expect(s->controller, &single); /* the sum waits for it: it would be third */
	sums_run_ms(s, 1);
	sums_tell(s, "01", 2);
	sums_push_whole(s, "01", 2);
	send_cancel(s, 1, PART_TOKEN + 3);
	send_void(s->controller, s->job, PART_TOKEN + 3, HD_REASON_LEASE);
	send_void(s->aggregator, s->job, SUM_TOKEN + 2, HD_REASON_LEASE);
	sums_run_ms(s, 2);
	sums_assert_order(s, "");
	send_void(s->controller, s->job, 0x500, HD_REASON_LEASE);
	assert_int_equal(fake_outcome(s->worker[1], 1)->outcome, HD_OUTCOME_APPLIED);
	sums_assert_order(s, "01");
	sums_close(s);
}

/* A worker whose session ends may have sent everything: the sum stands, and the round is known when it asks. */
static void test_session_of_one_is_lost(void **state) {
	struct sums *s = sums_open(16, &plain);

	sums_tell(s, "01", 1);
	push_partly(s, "01", 1);
	fake_kill(s->worker[1]);
	s->worker[1] = NULL;
	sums_run_ms(s, 3000);
	assert_int_equal(fake_outcome(s->worker[0], 1)->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(counter(s), 2);
	s->worker[1] = fake_worker(&s->net, 1);
	assert_int_equal(fake_joined(s->worker[1], &s->spec)->last_round, 1);
	fake_request_push(s->worker[1], 1, 2, s->base, SUM_BYTES);
	assert_int_equal(fake_outcome(s->worker[1], 1)->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(fake_outcome(s->worker[1], 1)->version, s->base + 2);
	assert_int_equal(counter(s), 2);
	sums_close(s);
}

/* It asks directly while the sum still comes: it is granted, and in no sum any more. */
static void test_one_asks_again(void **state) {
	struct sums *s = sums_open(16, &plain);
	const struct hd_msg_grant *grant;

	sums_tell(s, "01", 1);
	push_partly(s, "01", 1);
	fake_request_push(s->worker[1], 1, 2, s->base, SUM_BYTES);
	grant = &fake_wait(s->worker[1], HD_MSG_GRANT, 0)->grant;
	assert_int_equal(sums_withdrawn(s, 0, 1), 1);
	assert_true(sent_to_aggregator(s, SUM_TOKEN + 1));
	fake_push(s->worker[1], grant->token, 1, 2, s->g[1], SUM_VALUES);
	assert_int_equal(fake_outcome(s->worker[1], 1)->outcome, HD_OUTCOME_APPLIED);
	sums_run_ms(s, 50);
	assert_int_equal(counter(s), 1);
	assert_int_equal(fake_count(s->worker[0], HD_MSG_OUTCOME), 0);
	/* A word on the older sum, from a slow controller, changes nothing. */
	sums_make(s, "01", 10);
	s->list[0].attempt = 2;
	sums_send(s, "01");
	assert_int_equal(report_of(s, SUM_TOKEN + 10)->reason, HD_REASON_DUPLICATE);
	assert_int_equal(sums_withdrawn(s, 0, 10), 1);
	assert_int_equal(fake_count(s->worker[1], HD_MSG_OUTCOME), 2); /* told again */
	assert_int_equal(counter(s), 1);
	sums_close(s);
}

/* A newer sum with one of the older one's members: the older one ends, its other members ask again. */
static void test_newer_sum(void **state) {
	struct sums *s = sums_open(16, &plain);

	sums_tell(s, "01", 1);
	sums_make(s, "12", 3);
	s->list[0].attempt = 2;
	sums_send(s, "12");
	assert_int_equal(sums_withdrawn(s, 0, 1), 1);
	assert_int_equal(report_of(s, SUM_TOKEN + 1)->outcome, HD_OUTCOME_FAILED);
	sums_push(s, "12", 3);
	assert_int_equal(fake_outcome(s->worker[1], 1)->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(fake_outcome(s->worker[2], 1)->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(counter(s), 2);
	/* An older attempt than what is there does not take its place. */
	sums_make(s, "30", 7);
	s->list[0].round = 5;
	s->list[0].attempt = 2;
	s->list[1].attempt = 2;
	sums_send(s, "30");
	sums_make(s, "3", 9);
	s->list[0].round = 5;
	sums_send(s, "3");
	assert_int_equal(report_of(s, SUM_TOKEN + 9)->reason, HD_REASON_DUPLICATE);
	assert_null(report_of(s, SUM_TOKEN + 7));
	sums_close(s);
}

/* --- the aggregator ---------------------------------------------------------------------------- */

static void test_aggregator_is_lost(void **state) {
	struct sums *s = sums_open(16, &plain);

	sums_tell(s, "23", 3); /* of which nothing comes */
	sums_tell(s, "01", 1);
	push_partly(s, "01", 1);
	fake_kill(s->aggregator);
	s->aggregator = NULL;
	sums_run_ms(s, 3000);
	assert_withdrawn(s, "01", 1, "");
	assert_withdrawn(s, "23", 3, "");
	assert_int_equal(report_of(s, SUM_TOKEN + 3)->reason, HD_REASON_LEASE);
	assert_int_equal(counter(s), 0);
	sums_close(s);
}

static void test_aggregator_gives_up(void **state) {
	struct sums *s = sums_open(16, &plain);
	struct fake *other = fake_aggregator(&s->net, 2);

	sums_tell(s, "01", 1);
	send_void(other, s->job, SUM_TOKEN + 1, HD_REASON_LEASE); /* not its own */
	sums_run_ms(s, 2);
	assert_int_equal(sums_withdrawn(s, 0, 1), 0);
	assert_int_equal(hd_server_stats(s->net.server)->refused_messages, 1);
	send_void(s->aggregator, s->job, SUM_TOKEN + 1, HD_REASON_CANCELLED);
	sums_run_ms(s, 2);
	assert_withdrawn(s, "01", 1, "");
	assert_int_equal(fake_count(s->worker[0], HD_MSG_OUTCOME), 0);
	fake_close(other);
	sums_close(s);
}

/* --- the controller ---------------------------------------------------------------------------- */

static void test_void_of_all_and_of_one(void **state) {
	struct sums *s = sums_open(16, &plain);

	sums_tell(s, "01", 1);
	send_void(s->controller, s->job, SUM_TOKEN + 1, HD_REASON_TIMEOUT);
	sums_run_ms(s, 2);
	assert_withdrawn(s, "01", 1, "");
	sums_tell(s, "01", 3);
	send_void(s->controller, s->job, PART_TOKEN + 3, HD_REASON_CANCELLED);
	assert_int_equal(fake_outcome(s->worker[0], 1)->reason, HD_REASON_CANCELLED);
	sums_run_ms(s, 2);
	assert_withdrawn(s, "01", 3, "0");
	sums_tell(s, "12", 5);
	send_void(s->controller, s->job, PART_TOKEN + 6, HD_REASON_LEASE);
	sums_run_ms(s, 2);
	assert_withdrawn(s, "12", 5, "");
	assert_int_equal(fake_count(s->worker[1], HD_MSG_OUTCOME), 0);
	assert_int_equal(counter(s), 0);
	sums_close(s);
}

/* A silent one that others wait for is given up; its workers lose nothing but time. */
static void test_hold(void **state) {
	struct hd_server_config config = {.hold_us = 100000};
	struct sums *s = sums_open(2, &config);
	struct hd_msg_expect single = {
		.job = s->job,
		.worker = 3,
		.round = 1,
		.attempt = 1,
		.epoch = 3,
		.token = 0x500,
		.position = 9,
		.base = s->base,
		.bytes = SUM_BYTES,
		.weight = 1,
	};

	sums_tell(s, "01", 1);
	fake_expect(s->controller, &single);
	sums_run_ms(s, 1);
	fake_push(s->worker[3], 0x500, 1, 1, s->g[3], SUM_VALUES);
	sums_run_ms(s, 50);
	sums_assert_order(s, ""); /* the sum's second would be third */
	sums_run_ms(s, 100);
	sums_assert_order(s, "3");
	assert_withdrawn(s, "01", 1, "");
	assert_int_equal(report_of(s, SUM_TOKEN + 1)->reason, HD_REASON_HOLD);
	sums_close(s);
}

/* A new controller knows grants, not sums: it is notified of each part, and of its end, but not of its links. */
static void test_new_controller(void **state) {
	struct sums *s = sums_open(16, &plain);
	bool seen[3] = {false};

	sums_tell(s, "012", 5);
	push_partly(s, "012", 5);
	s->aggregator->node.down = true;
	fake_kill(s->controller);
	s->controller = fake_controller(&s->net, 4);
	assert_int_equal(fake_wait(s->controller, HD_MSG_STATE, 0)->state.inflight, 3);
	assert_int_equal(fake_wait(s->controller, HD_MSG_STATE, 0)->state.position, 7);
	for (size_t i = 0; i < 3; i++) {
		const struct hd_msg_inflight *inflight
			= &fake_wait(s->controller, HD_MSG_INFLIGHT, i)->inflight;
		size_t at = inflight->token - PART_TOKEN - 5;

		assert_true(at < 3);
		seen[at] = true;
		assert_int_equal(inflight->worker, at);
		assert_int_equal(inflight->position, 5 + at);
		assert_int_equal(inflight->round, 1);
		assert_int_equal(inflight->base, s->base);
	}
	assert_true(seen[0] && seen[1] && seen[2]);
	/* An older one's word is refused now; what it granted before is still taken. */
	sums_make(s, "3", 20);
	sums_send(s, "3");
	assert_int_equal(report_of(s, SUM_TOKEN + 20)->reason, HD_REASON_EPOCH);
	s->aggregator->node.down = false;
	assert_int_equal(fake_outcome(s->worker[2], 1)->outcome, HD_OUTCOME_APPLIED);
	sums_run_ms(s, 2);
	for (size_t i = 0; i < 3; i++) {
		const struct hd_msg_report *report = report_of(s, PART_TOKEN + 5 + i);

		assert_int_equal(report->outcome, HD_OUTCOME_APPLIED);
		assert_true(report->worker == i && report->position == 5 + i);
		assert_int_equal(report->version, s->base + 1 + i);
		assert_int_equal(report->rate_bps + report->duration_ns, 0);
	}
	assert_null(report_of(s, SUM_TOKEN + 5));
	sums_close(s);
}

/* --- words that fit nothing -------------------------------------------------------------------- */

enum wrong {
	NO_MEMBERS,
	TORN_LIST,
	REPEATED_PUSH,
	REPEATED_TOKEN,
	TOKEN_OF_THE_SUM,
	NO_TOKEN,
	NO_TOKEN_OF_ONE,
	NO_POSITION,
	NO_SENDER,
	OTHER_BYTES,
	UNKNOWN_DTYPE,
	WEIGHT_NAN,
	WRONG_COUNT
};

static void send_wrong(struct sums *s, enum wrong wrong) {
	struct hd_message message = {.kind = HD_MSG_MEMBERS};
	uint8_t data[4 * HD_GROUP_MEMBER_BYTES];
	int bytes;

	sums_make(s, "01", 50);
	switch (wrong) {
	case REPEATED_PUSH:
		s->list[1].worker = 0;
		break;
	case REPEATED_TOKEN:
		s->list[1].token = s->list[0].token;
		break;
	case TOKEN_OF_THE_SUM:
		s->list[1].token = s->message.token;
		break;
	case NO_TOKEN:
		s->message.token = 0;
		break;
	case NO_TOKEN_OF_ONE:
		s->list[1].token = 0;
		break;
	case NO_POSITION:
		s->message.position = 0;
		break;
	case NO_SENDER:
		s->message.peer_port = 0;
		break;
	case OTHER_BYTES:
		s->message.bytes -= 4;
		break;
	case UNKNOWN_DTYPE:
		s->message.dtype = 99;
		break;
	case WEIGHT_NAN:
		s->list[0].weight = NAN;
		break;
	default:
		break;
	}
	bytes = hd_group_put_members(s->list, wrong == NO_MEMBERS ? 0 : 2, data, sizeof data);
	message.members = s->message;
	message.members.members
		= (struct hd_blob){data, (uint32_t)bytes - (wrong == TORN_LIST ? 1 : 0)};
	fake_send(s->controller, &message);
	sums_run_ms(s, 2);
}

static void test_members_that_do_not_fit(void **state) {
	struct sums *s = sums_open(16, &plain);

	for (enum wrong wrong = NO_MEMBERS; wrong < WRONG_COUNT; wrong++) {
		send_wrong(s, wrong);
		assert_int_equal(
			hd_server_stats(s->net.server)->refused_messages, (uint64_t)wrong + 1
		);
		assert_int_equal(
			fake_wait(s->controller, HD_MSG_REPORT, wrong)->report.reason,
			HD_REASON_REFUSED
		);
	}
	sums_make(s, "01", 60);
	s->list[1].worker = 77;
	sums_send(s, "01");
	assert_int_equal(report_of(s, SUM_TOKEN + 60)->reason, HD_REASON_NO_SERVER);
	assert_int_equal(sums_withdrawn(s, 0, 60), 1);
	sums_make(s, "01", 61);
	s->message.job++;
	sums_send(s, "01");
	assert_int_equal(report_of(s, SUM_TOKEN + 61)->reason, HD_REASON_NO_SERVER);
	assert_int_equal(hd_server_stats(s->net.server)->expected, 0);
	/* After all that a good one is taken; told twice, it is one. */
	sums_tell(s, "01", 50);
	sums_send(s, "01");
	sums_make(s, "2", 55);
	s->list[0].token = PART_TOKEN + 50; /* known */
	sums_send(s, "2");
	assert_int_equal(report_of(s, SUM_TOKEN + 55)->reason, HD_REASON_REFUSED);
	assert_int_equal(hd_server_stats(s->net.server)->expected, 2);
	sums_push(s, "01", 50);
	assert_int_equal(fake_outcome(s->worker[1], 1)->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(counter(s), 2);
	sums_close(s);
}

/* Chunks under a part's token belong to the aggregator. */
static void test_chunks_of_a_part(void **state) {
	struct sums *s = sums_open(16, &plain);

	sums_tell(s, "01", 1);
	fake_push(s->worker[0], PART_TOKEN + 1, 1, 1, s->g[0], SUM_VALUES);
	sums_run_ms(s, 5);
	assert_true(hd_server_stats(s->net.server)->drop_token > 0);
	assert_int_equal(hd_server_stats(s->net.server)->chunk_bytes, 0);
	sums_close(s);
}

/* The sum is beyond the range of a float, though no part was: the fault cannot be assigned to a member. */
static void test_not_finite(void **state) {
	struct sums *s = sums_open(16, &plain);

	s->g[0][5] = s->g[1][5] = 3e38F;
	sums_tell(s, "01", 1);
	sums_push(s, "01", 1);
	sums_run_ms(s, 20);
	assert_withdrawn(s, "01", 1, "");
	assert_int_equal(report_of(s, SUM_TOKEN + 1)->reason, HD_REASON_NOT_FINITE);
	assert_int_equal(counter(s), 0);
	sums_close(s);
}

/* --- restart ----------------------------------------------------------------------------------- */

struct disk {
	struct hd_checkpoint saved;
	bool exists;
	struct sums *s;
};

static void *copy_of(const void *data, size_t bytes) {
	void *copy = malloc(bytes + 1);

	memcpy(copy, data, bytes);
	return copy;
}

static void disk_drop(struct disk *disk) {
	if (disk->exists) {
		free(disk->saved.model);
		free(disk->saved.momentum);
		free(disk->saved.rounds);
		free(disk->saved.prior);
	}
	disk->exists = false;
}

static int disk_write(void *owner, const struct hd_checkpoint *checkpoint) {
	struct disk *disk = owner;

	disk_drop(disk);
	disk->saved = *checkpoint;
	disk->saved.model = copy_of(checkpoint->model, SUM_BYTES);
	disk->saved.momentum = copy_of(checkpoint->momentum, SUM_BYTES);
	disk->saved.rounds
		= copy_of(checkpoint->rounds, checkpoint->round_count * sizeof *checkpoint->rounds);
	disk->saved.prior
		= copy_of(checkpoint->prior, checkpoint->prior_count * sizeof *checkpoint->prior);
	disk->exists = true;
	return -EIO; /* the test wants one life's checkpoint only */
}

static int disk_read(void *owner, uint32_t job, struct hd_checkpoint *checkpoint) {
	struct disk *disk = owner;
	uint8_t data[4096];
	int bytes;

	if (!disk->exists)
		return -ENOENT;
	disk->exists = false;
	*checkpoint = disk->saved;
	bytes = hd_jobspec_encode(&disk->s->spec, data, sizeof data);
	assert_int_equal(hd_jobspec_decode(data, (size_t)bytes, &checkpoint->spec), 0);
	return 0;
}

/* Rounds of a sum are in the checkpoint one by one: asked again, each gets the version that was its own. */
static void test_rounds_survive(void **state) {
	struct disk disk = {0};
	const struct hd_server_ops ops = {.checkpoint = disk_write, .restore = disk_read};
	struct hd_server_config config = {.ops = &ops, .owner = &disk, .checkpoint_commits = 2};
	struct sums *s = sums_open(16, &config);

	disk.s = s;
	sums_tell(s, "01", 1);
	sums_push(s, "01", 1);
	assert_int_equal(fake_outcome(s->worker[1], 1)->version, s->base + 2);
	sums_run_ms(s, 2);
	assert_true(disk.exists);
	assert_int_equal(disk.saved.round_count, 2);
	assert_int_equal(disk.saved.version, s->base + 2);
	sums_tell(s, "23", 3);
	push_partly(s, "23", 3);
	net_server(&s->net, &s->config);
	sums_run_ms(s, 3000);
	for (uint16_t i = 0; i < 4; i++)
		(void)fake_joined(s->worker[i], &s->spec);
	fake_request_push(s->worker[0], 1, 2, s->base, SUM_BYTES);
	sums_run_ms(s, 5);
	assert_int_equal(fake_count(s->worker[0], HD_MSG_OUTCOME), 2);
	assert_int_equal(fake_wait(s->worker[0], HD_MSG_OUTCOME, 1)->outcome.version, s->base + 1);
	/* Nothing is left of the sum that was in flight. */
	fake_request_push(s->worker[2], 1, 2, s->base, SUM_BYTES);
	(void)fake_wait(s->worker[2], HD_MSG_GRANT, 0);
	assert_int_equal(counter(s), 2);
	sums_close(s);
	disk_drop(&disk);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cancel_of_one),
		cmocka_unit_test(test_cancel_after_the_last_byte),
		cmocka_unit_test(test_session_of_one_is_lost),
		cmocka_unit_test(test_one_asks_again),
		cmocka_unit_test(test_newer_sum),
		cmocka_unit_test(test_aggregator_is_lost),
		cmocka_unit_test(test_aggregator_gives_up),
		cmocka_unit_test(test_void_of_all_and_of_one),
		cmocka_unit_test(test_hold),
		cmocka_unit_test(test_new_controller),
		cmocka_unit_test(test_members_that_do_not_fit),
		cmocka_unit_test(test_chunks_of_a_part),
		cmocka_unit_test(test_not_finite),
		cmocka_unit_test(test_rounds_survive),
	};

	return cmocka_run_group_tests_name("server-sum-faults", tests, NULL, NULL);
}
