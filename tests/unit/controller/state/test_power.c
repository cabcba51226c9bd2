/* SPDX-License-Identifier: BSD-3-Clause */
/* The power fails at each call to the disk, and the disk keeps as little as it may: what was acknowledged is there. */
#include "hd_checkpoint_file.h"
#include "hd_epoch_file.h"
#include "hd_safetensors.h"
#include "hd_text.h"
#include "power_disk.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define VALUES 50
#define CALLS_MAX 64

struct place {
	char disk[64], after[64];
};

static int setup(void **state) {
	struct place *place = calloc(1, sizeof *place);

	(void)snprintf(place->disk, sizeof place->disk, "/tmp/heddle-power-XXXXXX");
	(void)snprintf(place->after, sizeof place->after, "/tmp/heddle-power-XXXXXX");
	assert_non_null(mkdtemp(place->disk));
	assert_non_null(mkdtemp(place->after));
	*state = place;
	return 0;
}

static int teardown(void **state) {
	struct place *place = *state;

	power_clear(place->disk);
	power_clear(place->after);
	assert_int_equal(rmdir(place->disk), 0);
	assert_int_equal(rmdir(place->after), 0);
	free(place);
	return 0;
}

/* --- checkpoints ----------------------------------------------------------------------------- */

static struct hd_tensor tensor = {.name = "w", .dimension_count = 1, .dimension = {VALUES}};

/* Every value of a version says which it is. */
static int write_version(const char *directory, uint64_t counter) {
	float model[VALUES], momentum[VALUES];
	struct hd_checkpoint checkpoint = {
		.version = hd_version_make(1, counter),
		.values = VALUES,
		.model = model,
		.momentum = momentum,
	};
	char error[256];

	checkpoint.spec = (struct hd_jobspec){
		.tenant = "t",
		.name = "j",
		.learning_rate = 1,
		.tau_max = 4,
		.tensor_count = 1,
		.tensors = &tensor,
	};
	checkpoint.job = hd_job_id("t", "j");
	for (int i = 0; i < VALUES; i++) {
		model[i] = (float)counter;
		momentum[i] = -(float)counter;
	}
	return hd_checkpoint_write(directory, &checkpoint, error, sizeof error);
}

static void hush(void *owner, const char *sentence) {
	(void)owner;
	(void)sentence;
}

/* The counter of the checkpoint that a new incarnation finds, every value looked at; or -errno. */
static int64_t restored(const char *directory) {
	struct hd_checkpoint found = {0};
	uint64_t counter;
	int code = hd_checkpoint_read(directory, hd_job_id("t", "j"), &found, hush, NULL);

	if (code < 0)
		return code;
	counter = hd_version_counter(found.version);
	for (int i = 0; i < VALUES; i++) {
		assert_float_equal(found.model[i], (float)counter, 0);
		assert_float_equal(found.momentum[i], -(float)counter, 0);
	}
	hd_safetensors_free(&found);
	return (int64_t)counter;
}

static void prepare(const struct place *place, uint64_t versions) {
	power_clear(place->disk);
	for (uint64_t v = 1; v <= versions; v++)
		assert_int_equal(write_version(place->disk, v), 0);
}

/* With one checkpoint on the disk and with the two that are kept, so that one is removed. */
static void test_checkpoint_survives(void **state) {
	struct place *place = *state;
	unsigned cuts = 0, states = 0;

	for (uint64_t before = 1; before <= 3; before++) {
		unsigned calls = CALLS_MAX;

		/* One past the last call: the power fails after the word was given. */
		for (unsigned cut = 1; cut <= calls + 1; cut++, cuts++) {
			int64_t least;

			prepare(place, before);
			power_watch(place->disk, cut, 0);
			least = (int64_t
			)(write_version(place->disk, before + 1) == 0 ? before + 1 : before);
			calls = power_end() < cut ? power_end() : calls;
			for (unsigned i = 0; power_lay_out(i, place->after); i++, states++) {
				int64_t found = restored(place->after);

				if (found < least || found > (int64_t)before + 1)
					fail_msg(
						"cut %u, state %u: version %lld, acknowledged %lld",
						cut,
						i,
						(long long)found,
						(long long)least
					);
				/* Life goes on from there. */
				assert_int_equal(write_version(place->after, before + 2), 0);
				assert_int_equal(restored(place->after), before + 2);
				power_clear(place->after);
			}
			power_lay_out_whole(place->after);
			assert_in_range(restored(place->after), least, before + 1);
			power_clear(place->after);
		}
		assert_in_range(calls, 8, CALLS_MAX - 1);
	}
	print_message("%u cuts, %u states\n", cuts, states);
}

/* A call fails and the power stays: an error that changes nothing, or a checkpoint. */
static void test_checkpoint_errors(void **state) {
	static const int errors[] = {ENOSPC, EIO};
	struct place *place = *state;

	for (unsigned e = 0; e < 2; e++) {
		unsigned calls;

		prepare(place, 2);
		power_watch(place->disk, 0, 0);
		assert_int_equal(write_version(place->disk, 3), 0);
		calls = power_end();
		assert_in_range(calls, 8, CALLS_MAX);
		for (unsigned call = 1; call <= calls; call++) {
			int code;

			prepare(place, 2);
			power_watch(place->disk, call, errors[e]);
			code = write_version(place->disk, 3);
			(void)power_end();
			assert_true(code == 0 || code == -errors[e]);
			if (code == 0)
				assert_int_equal(restored(place->disk), 3);
			else
				assert_in_range(restored(place->disk), 2, 3);
			/* Tried again, it works. */
			assert_int_equal(write_version(place->disk, 3), 0);
			assert_int_equal(restored(place->disk), 3);
		}
	}
}

/* Unfinished files of killed servers do not fill the disk. */
static void test_unfinished_are_removed(void **state) {
	struct place *place = *state;
	char path[256];

	prepare(place, 2);
	for (unsigned cut = 2; cut <= 4; cut++) {
		power_watch(place->disk, cut, 0);
		assert_true(write_version(place->disk, 2 + cut) < 0);
		(void)power_end();
	}
	(void)snprintf(
		path,
		sizeof path,
		"%s/.%08x-0001-000000000004.safetensors.new",
		place->disk,
		hd_job_id("t", "j")
	);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(restored(place->disk), 2);
	assert_int_equal(access(path, F_OK), -1);
}

/* --- the epoch ------------------------------------------------------------------------------- */

static int next_epoch(const char *directory, uint16_t *epoch) {
	char error[256];

	return hd_epoch_file_next(directory, epoch, error, sizeof error);
}

static void test_epoch_is_never_given_twice(void **state) {
	struct place *place = *state;
	unsigned states = 0;

	for (unsigned before = 0; before <= 9; before += 3) {
		unsigned calls = CALLS_MAX;

		for (unsigned cut = 1; cut <= calls + 1; cut++) {
			uint16_t epoch = 0, given;

			power_clear(place->disk);
			for (unsigned i = 0; i < before; i++)
				assert_int_equal(next_epoch(place->disk, &epoch), 0);
			power_watch(place->disk, cut, 0);
			given = next_epoch(place->disk, &epoch) == 0 ? epoch : (uint16_t)before;
			calls = power_end() < cut ? power_end() : calls;
			for (unsigned i = 0; power_lay_out(i, place->after); i++, states++) {
				assert_int_equal(next_epoch(place->after, &epoch), 0);
				if (epoch <= given)
					fail_msg("cut %u, state %u: %u again", cut, i, epoch);
				power_clear(place->after);
			}
		}
	}
	print_message("%u states\n", states);
}

static void test_epoch_on_a_full_disk(void **state) {
	struct place *place = *state;
	uint16_t epoch = 0;

	assert_int_equal(next_epoch(place->disk, &epoch), 0);
	for (unsigned call = 2; call <= 4; call++) {
		uint16_t was = epoch;

		power_watch(place->disk, call, ENOSPC);
		assert_int_equal(next_epoch(place->disk, &epoch), 0);
		(void)power_end();
		assert_int_equal(epoch, was + 1);
	}
	assert_int_equal(next_epoch(place->disk, &epoch), 0);
	assert_int_equal(epoch, 5);
}

static void test_epoch_errors(void **state) {
	struct place *place = *state;
	char path[256], error[256];
	uint16_t epoch = 77;
	FILE *file;

	static const struct {
		const char *text;
		int code;
	} bad[] = {{"x", -EBADMSG}, {"", -EBADMSG}, {"65536\n", -EBADMSG}, {"65535\n", -ERANGE}};

	(void)snprintf(path, sizeof path, "%s/epoch", place->disk);
	for (unsigned i = 0; i < 4; i++) {
		file = fopen(path, "w");
		assert_non_null(file);
		(void)fputs(bad[i].text, file);
		(void)fclose(file);
		assert_int_equal(
			hd_epoch_file_next(place->disk, &epoch, error, sizeof error), bad[i].code
		);
		assert_non_null(strstr(error, path));
		assert_int_equal(epoch, 77);
	}
	/* As former versions wrote it. */
	file = fopen(path, "w");
	assert_non_null(file);
	(void)fputs("41\n", file);
	(void)fclose(file);
	assert_int_equal(next_epoch(place->disk, &epoch), 0);
	assert_int_equal(epoch, 42);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_checkpoint_survives, setup, teardown),
		cmocka_unit_test_setup_teardown(test_checkpoint_errors, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unfinished_are_removed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_epoch_is_never_given_twice, setup, teardown),
		cmocka_unit_test_setup_teardown(test_epoch_on_a_full_disk, setup, teardown),
		cmocka_unit_test_setup_teardown(test_epoch_errors, setup, teardown),
	};

	return cmocka_run_group_tests_name("power", tests, NULL, NULL);
}
