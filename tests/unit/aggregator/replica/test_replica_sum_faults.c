/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums at a replica that do not come, or that have no room: each ends, is reported, and leaves nothing. */
#include "sum_stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

/* --- what does not come ---------------------------------------------------------------------------- */

/* The log names it, its aggregator is silent: a second is waited for it, no more. */
static void test_silence(void **state) {
	struct stage t;
	struct sum *sum;

	(void)state;
	stage_open(&t, 0);
	sum = sum_make(&t, HD_DTYPE_FP32);
	tell_server(&t, sum);
	tell_replica(&t, sum);
	send_to_server(&t, sum);
	committed(&t, sum);
	run_for(t.scene, 900 * HD_MS);
	assert_null(report_of(&t, sum));
	assert_int_equal(stats(&t)->copies_lost, 0);
	assert_int_equal(stats(&t)->states_taken, 1);
	run_for(t.scene, 400 * HD_MS);
	assert_ended(&t, sum, HD_REASON_TIMEOUT);
	assert_int_equal(stats(&t)->copies_lost, 1);
	run_until(t.scene, replica_at, t.scene->base);
	assert_int_equal(stats(&t)->states_taken, 2);
	assert_goes_on(&t);
	stage_close(&t);
}

/* One that is never named is kept for ten seconds after its last chunk. */
static void test_never_named(void **state) {
	struct sum *silent, *whole;
	struct stage t;

	(void)state;
	stage_open(&t, 0);
	silent = sum_make(&t, HD_DTYPE_FP32);
	whole = sum_make(&t, HD_DTYPE_FP32);
	tell_replica(&t, silent);
	tell_replica(&t, whole);
	send_to_replica(&t, whole);
	run_for(t.scene, 9900 * HD_MS);
	assert_int_equal(job_of(&t)->replica->sum_count, 2);
	run_for(t.scene, 300 * HD_MS);
	assert_ended(&t, silent, HD_REASON_TIMEOUT);
	assert_forgotten(&t, whole);
	t.position = 1;
	assert_goes_on(&t);
	stage_close(&t);
}

/* Its aggregator gives it up, or is gone: before the log names it, or after. */
static void test_lost_by_its_aggregator(void **state) {
	struct stage t;

	(void)state;
	stage_open(&t, 0);
	for (int i = 0; i < 4; i++) {
		struct sum *sum = sum_make(&t, HD_DTYPE_FP32);
		uint64_t states = stats(&t)->states_taken;

		tell_server(&t, sum);
		tell_replica(&t, sum);
		if (i % 2 == 1) {
			send_to_server(&t, sum);
			committed(&t, sum);
		}
		run_for(t.scene, 20 * HD_MS);
		if (i < 2) {
			send_void(&t, sum);
		} else {
			fake_kill(t.second);
			t.second = NULL;
		}
		if (i % 2 == 0) {
			run_for(t.scene, 20 * HD_MS);
			send_to_server(&t, sum);
			committed(&t, sum);
		}
		run_until(t.scene, replica_at, t.scene->base);
		assert_int_equal(stats(&t)->states_taken, states + 1);
		if (!t.second)
			t.second = aggregator_at(t.scene, 3 + (uint16_t)i, REPLICA_IP);
		assert_int_equal(report_of(&t, sum)->outcome, HD_OUTCOME_FAILED);
	}
	assert_goes_on(&t);
	stage_close(&t);
}

/* The controller takes it back. */
static void test_voided_by_the_controller(void **state) {
	struct hd_message message = {.kind = HD_MSG_VOID};
	struct stage t;
	struct sum *sum;
	uint8_t reason;

	(void)state;
	stage_open(&t, 0);
	sum = sum_make(&t, HD_DTYPE_FP32);
	tell_replica(&t, sum);
	run_for(t.scene, 50 * HD_MS);
	message.void_.job = sum->message.job;
	message.void_.token = sum->copy;
	message.void_.reason = HD_REASON_CLOSED;
	fake_send(t.scene->replica_minds, &message);
	run_for(t.scene, 50 * HD_MS);
	assert_int_equal(voided(&t, sum, &reason), 1);
	t.position -= 2;
	assert_goes_on(&t);
	stage_close(&t);
}

/* --- bounds ---------------------------------------------------------------------------------------- */

static void test_how_many(void **state) {
	struct sum *sums[17];
	struct stage t;
	uint8_t reason;

	(void)state;
	stage_open(&t, 0);
	for (int i = 0; i < 17; i++) {
		sums[i] = sum_make(&t, HD_DTYPE_FP32);
		tell_replica(&t, sums[i]);
	}
	run_for(t.scene, 50 * HD_MS);
	assert_ended(&t, sums[16], HD_REASON_NO_MEMORY);
	for (int i = 0; i < 16; i++)
		assert_int_equal(voided(&t, sums[i], &reason), 0);
	/* A place that comes free is the next one's. */
	send_void(&t, sums[3]);
	run_for(t.scene, 20 * HD_MS);
	sums[3] = sum_make(&t, HD_DTYPE_FP32);
	tell_replica(&t, sums[3]);
	run_for(t.scene, 20 * HD_MS);
	assert_int_equal(voided(&t, sums[3], &reason), 0);
	/* As they do in time. */
	run_for(t.scene, 10500 * HD_MS);
	for (int i = 0; i < 16; i++)
		assert_ended(&t, sums[i], HD_REASON_TIMEOUT);
	assert_int_equal(stats(&t)->states_taken, 1);
	t.position = 1;
	assert_goes_on(&t);
	stage_close(&t);
}

/* With room for two updates beside the state: what is not named gives way, to the entry whose turn it is and to a
 * state; and none of it is kept from being right. */
static void test_little_memory(void **state) {
	struct sum *sums[7], *named;
	uint32_t refused = 0, before;
	struct stage t;
	hd_ns begun;
	uint8_t reason;

	(void)state;
	stage_open(&t, 8 * BUFFER_BYTES);
	for (int i = 0; i < 7; i++) {
		sums[i] = sum_make(&t, HD_DTYPE_FP32);
		sums[i]->message.position += 100; /* never named */
		tell_replica(&t, sums[i]);
		send_to_replica(&t, sums[i]);
	}
	run_for(t.scene, 50 * HD_MS);
	for (int i = 0; i < 7; i++)
		refused += voided(&t, sums[i], &reason) > 0;
	assert_in_range(refused, 1, 6);
	assert_int_equal(job_of(&t)->replica->sum_count, 7 - refused);
	t.position = 1;
	begun = t.scene->net.now;
	for (int i = 0; i < 3; i++) {
		push(t.scene, HD_DTYPE_FP32, 1);
		run_until(t.scene, replica_at, t.scene->base);
	}
	named = sum_make(&t, HD_DTYPE_FP32);
	tell_server(&t, named);
	tell_replica(&t, named);
	send_to_server(&t, named);
	committed(&t, named);
	send_to_replica(&t, named);
	run_until(t.scene, replica_at, t.scene->base);
	assert_int_equal(stats(&t)->states_taken, 1);
	assert_true(t.scene->net.now - begun < HD_SECOND); /* not when they end by themselves */
	/* A state needs two. */
	for (int i = 0; i < 7; i++) {
		sums[i] = sum_make(&t, HD_DTYPE_FP32);
		sums[i]->message.position += 100;
		tell_replica(&t, sums[i]);
		send_to_replica(&t, sums[i]);
	}
	run_for(t.scene, 50 * HD_MS);
	before = job_of(&t)->replica->sum_count;
	assert_true(before > 0);
	t.position = 3;
	t.scene->lost = true;
	begun = t.scene->net.now;
	push(t.scene, HD_DTYPE_FP32, 1);
	run_until(t.scene, replica_at, t.scene->base);
	assert_int_equal(stats(&t)->states_taken, 2);
	assert_true(t.scene->net.now - begun < 2 * HD_SECOND);
	assert_true(job_of(&t)->replica->sum_count < before);
	assert_true(stats(&t)->memory_bytes <= 8 * BUFFER_BYTES);
	stage_close(&t);
}

/* A new controller may give their positions to others. */
static void test_a_new_epoch(void **state) {
	struct sum *old, *late, *fresh;
	struct stage t;
	uint8_t reason;

	(void)state;
	stage_open(&t, 0);
	old = sum_make(&t, HD_DTYPE_FP32);
	tell_replica(&t, old);
	send_to_replica(&t, old);
	run_for(t.scene, 50 * HD_MS);
	t.position -= 2;
	fresh = sum_make(&t, HD_DTYPE_FP32);
	fresh->message.epoch = 2;
	tell_replica(&t, fresh);
	send_to_replica(&t, fresh);
	run_for(t.scene, 50 * HD_MS);
	assert_int_equal(job_of(&t)->replica->sum_count, 1); /* the other one is forgotten */
	assert_int_equal(voided(&t, old, &reason), 0);
	assert_int_equal(voided(&t, fresh, &reason), 0);
	late = sum_make(&t, HD_DTYPE_FP32);
	tell_replica(&t, late); /* of the old one, still in flight */
	run_for(t.scene, 50 * HD_MS);
	assert_ended(&t, late, HD_REASON_EPOCH);
	tell_server(&t, fresh);
	send_to_server(&t, fresh);
	committed(&t, fresh);
	run_until(t.scene, replica_at, t.scene->base);
	assert_int_equal(stats(&t)->states_taken, 1);
	/* Its session ends, and the replica registers again: the same. */
	t.position = 3;
	old = sum_make(&t, HD_DTYPE_FP32);
	old->message.epoch = 2;
	tell_replica(&t, old);
	run_for(t.scene, 50 * HD_MS);
	hd_session_close(
		t.scene->replica_minds->session,
		HD_REASON_CLOSED,
		"over",
		t.scene->net.now,
		&t.scene->replica_minds->node.sink
	);
	run_for(t.scene, 3 * HD_SECOND);
	assert_int_equal(fake_count(t.scene->replica_minds, HD_MSG_REGISTER), 2);
	assert_int_equal(voided(&t, old, &reason), 1);
	assert_int_equal(reason, HD_REASON_EPOCH);
	assert_nothing_held(&t);
	stage_close(&t);
}

static void test_hostile(void **state) {
	uint64_t refused;
	struct stage t;

	(void)state;
	stage_open(&t, 0);
	refused = stats(&t)->refused_messages;
	for (int i = 0; i < 6; i++) {
		struct sum *sum = sum_make(&t, HD_DTYPE_FP32);
		struct hd_msg_members message = sum->message;

		message.token = sum->copy;
		message.peer_ipv4 = fake_address(t.second).ipv4;
		message.position = i == 0 ? 0 : message.position;
		message.bytes += i == 1;
		message.peer_port = i == 2 ? 0 : HD_PORT;
		message.dtype = i == 3 ? HD_DTYPE_FP16 : HD_DTYPE_FP32; /* of as many bytes */
		sum->list[1].worker = i == 4 ? HD_WORKERS_MAX : 2;
		fake_members(t.scene->replica_minds, &message, sum->list, i == 5 ? 1 : 2);
		run_for(t.scene, 20 * HD_MS);
		assert_non_null(report_of(&t, sum));
		assert_int_equal(report_of(&t, sum)->outcome, HD_OUTCOME_FAILED);
	}
	assert_int_equal(stats(&t)->refused_messages, refused + 5);
	t.position = 1;
	assert_goes_on(&t);
	stage_close(&t);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_silence),
		cmocka_unit_test(test_never_named),
		cmocka_unit_test(test_lost_by_its_aggregator),
		cmocka_unit_test(test_voided_by_the_controller),
		cmocka_unit_test(test_how_many),
		cmocka_unit_test(test_little_memory),
		cmocka_unit_test(test_a_new_epoch),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests_name("replica-sum-faults", tests, NULL, NULL);
}
