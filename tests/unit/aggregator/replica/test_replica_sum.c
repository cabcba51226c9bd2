/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums at a replica: whose aggregator sends them there as well, ahead of the log or behind it. The scene checks each
 * step that the replica has the server's bits; here, that it has them of the sum and not of a state where it can, and
 * that what the log does not name ends. */
#include "sum_stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

/* --- as it should go ------------------------------------------------------------------------------- */

static void test_members_then_log(void **state) {
	static const uint8_t dtypes[]
		= {HD_DTYPE_FP32, HD_DTYPE_BF16, HD_DTYPE_FP16, HD_DTYPE_FIXED32};
	const struct hd_msg_report *report;
	struct stage t;
	uint8_t reason;

	(void)state;
	stage_open(&t, 0);
	for (int i = 0; i < 12; i++) {
		struct sum *sum = sum_make(&t, dtypes[i % 4]);

		tell_replica(&t, sum);
		tell_server(&t, sum);
		/* All of it before the log names it, all of it after, or both at once. */
		if (i % 3 != 1)
			send_to_replica(&t, sum);
		if (i % 3 == 0) {
			run_for(t.scene, 50 * HD_MS);
			report = report_of(&t, sum);
			assert_non_null(report);
			assert_int_equal(report->outcome, HD_OUTCOME_APPLIED);
			assert_int_equal(report->direction, HD_COPY);
			assert_int_equal(report->worker, HD_GROUP_WORKER);
			assert_true(
				hd_server_version(t.scene->replica, sum->message.job)
				== t.scene->base
			);
		}
		send_to_server(&t, sum);
		committed(&t, sum);
		if (i % 3 == 1) {
			run_for(t.scene, 50 * HD_MS);
			assert_false(replica_at(t.scene, t.scene->base));
			send_to_replica(&t, sum);
		}
		run_until(t.scene, replica_at, t.scene->base);
		run_for(t.scene, 5 * HD_MS);
		assert_int_equal(voided(&t, sum, &reason), 0);
		assert_int_equal(report_of(&t, sum)->outcome, HD_OUTCOME_APPLIED);
		push(t.scene, HD_DTYPE_FP32, 1); /* and single ones between them */
	}
	run_until(t.scene, sent_durable, t.scene->base);
	assert_int_equal(stats(&t)->replicated, 36);
	assert_int_equal(stats(&t)->copies_asked, 12);
	assert_int_equal(stats(&t)->copies_lost, 0);
	assert_int_equal(stats(&t)->states_taken, 1);
	assert_nothing_held(&t);
	stage_close(&t);
}

/* Several that are not named yet, in any order: each goes to its entry. */
static void test_several_at_once(void **state) {
	struct sum *sums[3];
	struct stage t;

	(void)state;
	stage_open(&t, 0);
	for (int i = 0; i < 3; i++)
		sums[i] = sum_make(&t, HD_DTYPE_FP32);
	for (int i = 3; i-- > 0;)
		tell_replica(&t, sums[i]);
	for (int i = 3; i-- > 0;)
		send_to_replica(&t, sums[i]);
	for (int i = 0; i < 3; i++) {
		tell_server(&t, sums[i]);
		send_to_server(&t, sums[i]);
	}
	for (int i = 0; i < 3; i++)
		committed(&t, sums[i]);
	run_until(t.scene, replica_at, t.scene->base);
	assert_int_equal(stats(&t)->replicated, 6);
	assert_int_equal(stats(&t)->states_taken, 1);
	stage_close(&t);
}

/* --- what the log says instead --------------------------------------------------------------------- */

/* One of the members comes alone: then the sum never will. */
static void test_log_of_a_member(void **state) {
	struct stage t;

	(void)state;
	stage_open(&t, 0);
	for (int sent = 0; sent < 2; sent++) {
		struct sum *sum = sum_make(&t, HD_DTYPE_FP32);

		tell_replica(&t, sum);
		if (sent)
			send_to_replica(&t, sum);
		run_for(t.scene, 50 * HD_MS);
		assert_int_equal(job_of(&t)->replica->sum_count, 1);
		t.position -= 2; /* its places are another's, too */
		t.scene->round--;
		push(t.scene, HD_DTYPE_FP32, 1);
		assert_int_equal(t.scene->round, sum->list[0].round);
		run_until(t.scene, replica_at, t.scene->base);
		run_for(t.scene, 50 * HD_MS);
		if (sent)
			assert_forgotten(&t, sum);
		else
			assert_ended(&t, sum, HD_REASON_CLOSED);
		assert_goes_on(&t);
	}
	assert_int_equal(stats(&t)->states_taken, 1);
	assert_int_equal(stats(&t)->copies_lost, 0);
	stage_close(&t);
}

enum change {
	CHANGE_WEIGHT,
	CHANGE_POSITION,
	CHANGE_ROUND,
	CHANGE_BASE,
	CHANGE_WORKER,
	CHANGE_ORDER,
	CHANGE_DTYPE,
	CHANGES
};

static void change(struct sum *sum, enum change what) {
	struct hd_group_member first = sum->list[0];

	if (what == CHANGE_WEIGHT) {
		sum->list[1].weight *= 2;
	} else if (what == CHANGE_POSITION) {
		sum->message.position++;
	} else if (what == CHANGE_ROUND) {
		sum->list[1].round += 1000;
	} else if (what == CHANGE_BASE) {
		sum->list[1].base--;
	} else if (what == CHANGE_WORKER) {
		sum->list[1].worker = 3;
	} else if (what == CHANGE_ORDER) {
		sum->list[0] = sum->list[1];
		sum->list[1] = first;
	} else {
		sum->message.dtype = HD_DTYPE_FIXED32; /* of as many bytes */
	}
}

/* A sum that differs in any field from the log's entry is not the one that the server applied: a state comes, and the
 * sum ends then, not ten seconds later. */
static void test_log_of_another(void **state) {
	struct stage t;

	(void)state;
	stage_open(&t, 0);
	for (int what = 0; what < CHANGES; what++) {
		uint64_t states = stats(&t)->states_taken;
		struct sum *sum = sum_make(&t, HD_DTYPE_FP32), right = *sum;

		tell_server(&t, sum);
		change(sum, what);
		tell_replica(&t, sum);
		if (what % 2 == 0)
			send_to_replica(&t, sum);
		run_for(t.scene, 50 * HD_MS);
		*sum = right;
		send_to_server(&t, sum);
		committed(&t, sum);
		run_until(t.scene, replica_at, t.scene->base);
		assert_int_equal(stats(&t)->states_taken, states + 1);
		run_for(t.scene, 50 * HD_MS);
		if (what % 2 == 0)
			assert_forgotten(&t, sum);
		else
			assert_ended(&t, sum, HD_REASON_CLOSED);
	}
	assert_goes_on(&t);
	stage_close(&t);
}

/* MEMBERS that comes after the state that the sum is in. */
static void test_notified_too_late(void **state) {
	struct stage t;
	struct sum *sum;

	(void)state;
	stage_open(&t, 0);
	sum = sum_make(&t, HD_DTYPE_FP32);
	tell_server(&t, sum);
	send_to_server(&t, sum);
	committed(&t, sum);
	run_until(t.scene, replica_at, t.scene->base);
	assert_int_equal(stats(&t)->states_taken, 2);
	tell_replica(&t, sum);
	run_for(t.scene, 50 * HD_MS);
	assert_ended(&t, sum, HD_REASON_CLOSED);
	assert_goes_on(&t);
	stage_close(&t);
}

/* --- and as the server ------------------------------------------------------------------------------ */

/* Promoted: what it applied stays, what the log had not named is forgotten, and the worker's push is taken. */
static void test_promotion(void **state) {
	struct stage t;
	struct sum *sum;

	(void)state;
	stage_open(&t, 0);
	sum_whole(&t);
	sum = sum_make(&t, HD_DTYPE_FP32);
	tell_replica(&t, sum);
	send_to_replica(&t, sum);
	run_for(t.scene, 50 * HD_MS);
	t.scene->net.server_node.down = true;
	order(t.scene, t.scene->replica_minds, HD_REPLICA_SERVE, ++t.scene->generation, 0);
	run_for(t.scene, 100 * HD_MS);
	assert_int_equal(stats(&t)->promoted, 1);
	assert_true(
		fake_joined(t.scene->carrier, &t.scene->spec)->last_round == sum->list[0].round - 1
	);
	t.scene->carrier->dtype = HD_DTYPE_FP32;
	assert_int_equal(
		fake_push_direct(
			t.scene->carrier, sum->list[0].round, t.scene->base, sum->values, VALUES
		)
			->outcome,
		HD_OUTCOME_APPLIED
	);
	stage_close(&t);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_members_then_log),
		cmocka_unit_test(test_several_at_once),
		cmocka_unit_test(test_log_of_a_member),
		cmocka_unit_test(test_log_of_another),
		cmocka_unit_test(test_notified_too_late),
		cmocka_unit_test(test_promotion),
	};

	return cmocka_run_group_tests_name("replica-sum", tests, NULL, NULL);
}
