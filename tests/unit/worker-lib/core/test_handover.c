/* SPDX-License-Identifier: BSD-3-Clause */
/* Which collectives a worker calls to get the newest state, and what their ends mean. */
#include "hd_handover.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define BYTES 1000
#define PART 300 /* so there are four, the last of 100 */
#define WORKERS 4

static struct hd_handover_config config_of(uint16_t rank, bool has, uint64_t version) {
	return (struct hd_handover_config){
		.rank = rank,
		.has = has,
		.version = version,
		.layout = {1, 2, 3},
		.items = 5,
		.bytes = BYTES,
		.part_bytes = PART,
	};
}

/* Workers of the same job. */
static struct hd_handover job[WORKERS];

static void open_job(const struct hd_handover_config *configs, int count) {
	for (int i = 0; i < count; i++)
		hd_handover_init(&job[i], &configs[i]);
}

/* All of them call the roll. */
static void call_roll(int count) {
	int64_t maxima[HD_HANDOVER_VALUES];
	struct hd_handover_call call;

	for (int i = 0; i < count; i++) {
		assert_true(hd_handover_next(&job[i], &call));
		assert_true(call.roll);
		for (int k = 0; k < HD_HANDOVER_VALUES; k++)
			if (i == 0 || call.values[k] > maxima[k])
				maxima[k] = call.values[k];
		assert_false(hd_handover_next(&job[i], &call));
	}
	for (int i = 0; i < count; i++)
		hd_handover_rolled(&job[i], maxima, (uint32_t)count);
}

static void check_part(
	struct hd_handover *h,
	enum hd_handover_role role,
	uint16_t source,
	uint64_t first,
	uint64_t bytes
) {
	struct hd_handover_call call;

	assert_true(hd_handover_next(h, &call));
	assert_false(call.roll);
	assert_int_equal(call.role, role);
	assert_int_equal(call.source, source);
	assert_int_equal(call.first, first);
	assert_int_equal(call.bytes, bytes);
}

static void check_ended(const struct hd_handover *h, enum hd_handover_outcome outcome) {
	assert_int_equal(h->stage, HD_HANDOVER_ENDED);
	assert_int_equal(h->outcome, outcome);
}

/* The lowest of the newest gives; the other one of that version keeps its own, and the rest receives. */
static void test_roles(void **state) {
	const struct hd_handover_config configs[WORKERS]
		= {config_of(0, false, 0),
		   config_of(1, true, 9),
		   config_of(2, true, 9),
		   config_of(3, true, 8)};
	const enum hd_handover_role roles[WORKERS]
		= {HD_HANDOVER_TAKES, HD_HANDOVER_GIVES, HD_HANDOVER_HAS, HD_HANDOVER_TAKES};

	(void)state;
	open_job(configs, WORKERS);
	call_roll(WORKERS);
	for (int i = 0; i < WORKERS; i++) {
		struct hd_handover_call call;

		for (uint64_t first = 0; first < BYTES; first += PART)
			check_part(&job[i], roles[i], 1, first, first < 900 ? PART : BYTES - first);
		memset(&call, 0xaa, sizeof call);
		assert_false(hd_handover_next(&job[i], &call)); /* all have begun */
		assert_int_equal(call.source, 0xaaaa);
		for (uint64_t first = 0; first < BYTES; first += PART) {
			assert_int_equal(job[i].stage, HD_HANDOVER_PARTS);
			hd_handover_passed(&job[i], first < 900 ? PART : BYTES - first);
		}
		check_ended(
			&job[i],
			roles[i] == HD_HANDOVER_TAKES ? HD_HANDOVER_RECEIVED : HD_HANDOVER_KEPT
		);
		assert_int_equal(job[i].roll.step, 9);
	}
}

/* A version 0 is initial: the lowest rank's counts, and all others receive it. A late worker's counts after those. */
static void test_less_than_sure(void **state) {
	struct hd_handover_config configs[WORKERS]
		= {config_of(0, true, 0), config_of(1, true, 0), config_of(2, true, 7)};

	(void)state;
	open_job(configs, 2);
	call_roll(2);
	check_part(&job[0], HD_HANDOVER_GIVES, 0, 0, PART);
	check_part(&job[1], HD_HANDOVER_TAKES, 0, 0, PART);
	configs[2].late = true;
	open_job(configs, 3);
	call_roll(3);
	assert_int_equal(job[0].roll.source, 2); /* better than an initial one */
	configs[1].version = 3;
	open_job(configs, 3);
	call_roll(3);
	assert_int_equal(job[0].roll.source, 1);
	check_part(&job[2], HD_HANDOVER_TAKES, 1, 0, PART);
	configs[1].late = true;
	configs[1].version = 7;
	open_job(configs, 3);
	call_roll(3);
	check_part(&job[1], HD_HANDOVER_GIVES, 1, 0, PART);
	check_part(&job[2], HD_HANDOVER_TAKES, 1, 0, PART); /* both are late: they may differ */
}

static void test_nothing_to_give(void **state) {
	struct hd_handover_config configs[WORKERS]
		= {config_of(0, true, 4), config_of(1, true, 4), config_of(2, false, 0)};
	struct hd_handover_call call;

	(void)state;
	open_job(configs, 2);
	call_roll(2);
	check_ended(&job[0], HD_HANDOVER_KEPT);
	check_ended(&job[1], HD_HANDOVER_KEPT);
	assert_false(hd_handover_next(&job[1], &call));
	configs[0].has = configs[1].has = false;
	open_job(configs, 3);
	call_roll(3);
	check_ended(&job[2], HD_HANDOVER_NONE);
	configs[0] = config_of(0, true, 0); /* alone: whatever it has */
	open_job(configs, 1);
	call_roll(1);
	check_ended(&job[0], HD_HANDOVER_KEPT);
}

static void test_layouts(void **state) {
	struct hd_handover_config configs[WORKERS]
		= {config_of(0, true, 4), config_of(1, true, 4), config_of(2, false, 0)};

	(void)state;
	configs[2].layout[31] ^= 1;
	configs[2].items = 6;
	open_job(configs, 3);
	call_roll(3);
	for (int i = 0; i < 3; i++) {
		check_ended(&job[i], HD_HANDOVER_LAYOUT);
		assert_int_equal(job[i].most_items, 6);
	}
}

/* The source dies when one part has come: the roll is called again once the others in flight have ended. */
static void test_source_dies(void **state) {
	const struct hd_handover_config configs[WORKERS]
		= {config_of(0, true, 2), config_of(1, true, 9), config_of(2, true, 9)};
	struct hd_handover_call call;

	(void)state;
	open_job(configs, 3);
	call_roll(3);
	for (uint64_t first = 0; first < BYTES; first += PART)
		assert_true(hd_handover_next(&job[0], &call));
	hd_handover_passed(&job[0], PART);
	hd_handover_failed(&job[0], HD_REASON_ROOT);
	assert_false(hd_handover_next(&job[0], &call));
	hd_handover_passed(&job[0], PART); /* it had come before */
	hd_handover_failed(&job[0], HD_REASON_ROOT);
	assert_true(hd_handover_next(&job[2], &call));
	hd_handover_failed(&job[2], HD_REASON_ROOT);
	job[1] = job[2];
	call_roll(2);
	assert_false(job[0].config.has); /* what it had is overwritten */
	assert_int_equal(job[0].roll.source, 2);
	check_part(&job[0], HD_HANDOVER_TAKES, 2, 0, PART);
	check_part(&job[1], HD_HANDOVER_GIVES, 2, 0, PART);
	/* The last one that has it dies, too. */
	hd_handover_failed(&job[0], HD_REASON_ROOT);
	call_roll(1);
	check_ended(&job[0], HD_HANDOVER_NONE);
}

static void test_late(void **state) {
	const struct hd_handover_config configs[WORKERS] = {config_of(0, true, 4)};
	struct hd_handover_call call;

	(void)state;
	open_job(configs, 1);
	for (int i = 0; i < 10 * HD_HANDOVER_TRIES_MAX;
	     i++) { /* as long as the others do something else */
		assert_true(hd_handover_next(&job[0], &call));
		assert_true(call.roll);
		hd_handover_failed(&job[0], HD_REASON_LATE);
		assert_int_equal(job[0].stage, HD_HANDOVER_ROLL);
	}
	assert_true(job[0].config.late);
}

static void test_failures(void **state) {
	const struct hd_handover_config configs[WORKERS]
		= {config_of(0, false, 0), config_of(1, true, 9)};
	struct hd_handover_call call;

	(void)state;
	open_job(configs, 2);
	assert_true(hd_handover_next(&job[0], &call));
	hd_handover_failed(
		&job[0], HD_REASON_MISMATCH
	); /* another call of this kind, of another size */
	check_ended(&job[0], HD_HANDOVER_FAILED);
	assert_int_equal(job[0].reason, HD_REASON_MISMATCH);
	open_job(configs, 2);
	call_roll(2);
	assert_true(hd_handover_next(&job[0], &call));
	assert_true(hd_handover_next(&job[0], &call));
	hd_handover_failed(&job[0], HD_REASON_MEMBERS);
	check_ended(&job[0], HD_HANDOVER_FAILED);
	hd_handover_failed(&job[0], HD_REASON_ROOT);
	assert_int_equal(job[0].reason, HD_REASON_MEMBERS); /* the first */
}

/* A job in which each source dies at once ends. */
static void test_tries(void **state) {
	const struct hd_handover_config configs[WORKERS]
		= {config_of(0, false, 0), config_of(1, true, 9)};
	struct hd_handover_call call;
	int tries = 0;

	(void)state;
	open_job(configs, 2);
	while (job[0].stage != HD_HANDOVER_ENDED) {
		struct hd_handover other = job[1];

		call_roll(2);
		job[1] = other;
		assert_true(hd_handover_next(&job[0], &call));
		assert_true(hd_handover_next(&job[0], &call));
		hd_handover_failed(&job[0], HD_REASON_ROOT);
		if (job[0].stage != HD_HANDOVER_ENDED)
			hd_handover_failed(&job[0], HD_REASON_ROOT);
		tries++;
	}
	assert_int_equal(tries, HD_HANDOVER_TRIES_MAX);
	assert_int_equal(job[0].reason, HD_REASON_ROOT);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_roles),
		cmocka_unit_test(test_less_than_sure),
		cmocka_unit_test(test_nothing_to_give),
		cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_source_dies),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_tries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
