/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints as files: what was written comes back, damage is found, the one before is used. */
#include "hd_checkpoint_file.h"
#include "hd_checkpoint_writer.h"
#include "hd_safetensors.h"
#include "hd_text.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define VALUES 37

struct fixture {
	char directory[64];
	struct hd_tensor tensors[2];
	float model[VALUES], momentum[VALUES];
	struct hd_last_round rounds[4];
	struct hd_incarnation prior[2];
	struct hd_checkpoint checkpoint;
};

static char said[4096];

static void listen_to(void *owner, const char *sentence) {
	(void)owner;
	strncat(said, sentence, sizeof said - strlen(said) - 1);
	strncat(said, "\n", sizeof said - strlen(said) - 1);
}

static int setup(void **state) {
	struct fixture *f = calloc(1, sizeof *f);
	struct hd_jobspec *spec = &f->checkpoint.spec;

	(void)snprintf(f->directory, sizeof f->directory, "/tmp/heddle-checkpoint-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	said[0] = '\0';
	hd_text_copy(f->tensors[0].name, sizeof f->tensors[0].name, "fc1.weight");
	f->tensors[0].dimension_count = 2;
	f->tensors[0].dimension[0] = 4;
	f->tensors[0].dimension[1] = 9;
	/* No dimensions: one value. And a name that JSON must escape. */
	hd_text_copy(f->tensors[1].name, sizeof f->tensors[1].name, "scale \"\xc3\xa9\\");
	*spec = (struct hd_jobspec){
		.seed = UINT64_C(0xfedcba9876543210),
		.learning_rate = 0.05F,
		.momentum = 0.9F,
		.weight_decay = 1e-4F,
		.tau_max = 16,
		.tensor_count = 2,
		.tensors = f->tensors,
	};
	hd_text_copy(spec->tenant, sizeof spec->tenant, "team/a");
	hd_text_copy(spec->name, sizeof spec->name, "digits");
	for (size_t i = 0; i < VALUES; i++) {
		f->model[i] = (float)i * 0.5F;
		f->momentum[i] = -(float)i * 0.25F;
	}
	f->rounds[0] = (struct hd_last_round){0, HD_OUTCOME_APPLIED, 7, 3, hd_version_make(2, 40)};
	f->rounds[1] = (struct hd_last_round){0, HD_OUTCOME_APPLIED, 9, 1, hd_version_make(2, 41)};
	f->rounds[2] = (struct hd_last_round
	){4095, HD_OUTCOME_APPLIED, UINT32_MAX, 16, hd_version_make(1, 12)};
	f->rounds[3] = (struct hd_last_round){4095, HD_OUTCOME_PENDING, UINT32_MAX, 0, 0};
	f->prior[0] = (struct hd_incarnation){1, 20};
	f->prior[1] = (struct hd_incarnation){65534, HD_VERSION_COUNTER_MAX};
	f->checkpoint.job = hd_job_id(spec->tenant, spec->name);
	f->checkpoint.version = hd_version_make(3, 41);
	f->checkpoint.values = VALUES;
	f->checkpoint.model = f->model;
	f->checkpoint.momentum = f->momentum;
	f->checkpoint.round_count = 4;
	f->checkpoint.rounds = f->rounds;
	f->checkpoint.prior_count = 2;
	f->checkpoint.prior = f->prior;
	*state = f;
	return 0;
}

static size_t list(const struct fixture *f, char names[8][400]) {
	DIR *dir = opendir(f->directory);
	struct dirent *entry;
	size_t count = 0;

	while ((entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
			assert_true(count < 8);
			(void)snprintf(
				names[count++],
				sizeof names[0],
				"%s/%s",
				f->directory,
				entry->d_name
			);
		}
	}
	closedir(dir);
	return count;
}

static int teardown(void **state) {
	struct fixture *f = *state;
	char names[8][400];
	size_t count = list(f, names);

	for (size_t i = 0; i < count; i++)
		assert_int_equal(unlink(names[i]), 0);
	assert_int_equal(rmdir(f->directory), 0);
	free(f);
	return 0;
}

static void write_at(struct fixture *f, uint16_t incarnation, uint64_t counter) {
	char error[256] = "";

	f->checkpoint.version = hd_version_make(incarnation, counter);
	assert_int_equal(hd_checkpoint_write(f->directory, &f->checkpoint, error, sizeof error), 0);
}

static void assert_same_checkpoint(const struct hd_checkpoint *a, const struct hd_checkpoint *b) {
	char difference[256];

	assert_int_equal(a->job, b->job);
	assert_int_equal(a->version, b->version);
	assert_int_equal(a->values, b->values);
	assert_memory_equal(a->model, b->model, VALUES * sizeof(float));
	assert_memory_equal(a->momentum, b->momentum, VALUES * sizeof(float));
	assert_true(hd_jobspec_equal(&a->spec, &b->spec, difference, sizeof difference));
	assert_int_equal(a->round_count, b->round_count);
	for (uint32_t i = 0; i < a->round_count; i++) {
		assert_int_equal(a->rounds[i].worker, b->rounds[i].worker);
		assert_int_equal(a->rounds[i].round, b->rounds[i].round);
		assert_int_equal(a->rounds[i].outcome, b->rounds[i].outcome);
		assert_int_equal(a->rounds[i].delay, b->rounds[i].delay);
		assert_int_equal(a->rounds[i].version, b->rounds[i].version);
	}
	assert_int_equal(a->prior_count, b->prior_count);
	for (uint32_t i = 0; i < a->prior_count; i++) {
		assert_int_equal(a->prior[i].incarnation, b->prior[i].incarnation);
		assert_int_equal(a->prior[i].last, b->prior[i].last);
	}
}

static int read_back(struct fixture *f, struct hd_checkpoint *found) {
	return hd_checkpoint_read(f->directory, f->checkpoint.job, found, listen_to, NULL);
}

static void test_round_trip(void **state) {
	struct fixture *f = *state;
	struct hd_checkpoint found;
	char names[8][400];

	assert_int_equal(read_back(f, &found), -ENOENT);
	assert_false(hd_checkpoint_any(f->directory));
	write_at(f, 3, 41);
	assert_true(hd_checkpoint_any(f->directory));
	assert_int_equal(list(f, names), 1); /* no temporary file is left */
	assert_int_equal(read_back(f, &found), 0);
	assert_same_checkpoint(&found, &f->checkpoint);
	assert_int_equal(found.newest_incarnation, 3);
	assert_string_equal(said, "");
	hd_safetensors_free(&found);
	assert_int_equal(
		hd_checkpoint_read(f->directory, f->checkpoint.job ^ 1, &found, listen_to, NULL),
		-ENOENT
	);
	assert_int_equal(hd_checkpoint_read("/nonexistent", 1, &found, listen_to, NULL), -ENOENT);
	assert_false(hd_checkpoint_any("/nonexistent"));
	assert_true(hd_checkpoint_any("/dev/null")); /* not to be read: who knows */
}

static void test_two_are_kept(void **state) {
	struct fixture *f = *state;
	struct hd_checkpoint found;
	char names[8][400];

	write_at(f, 3, 255);
	write_at(f, 3, 4096);
	write_at(f, 10, 5); /* a later incarnation: newer, though its counter is less */
	assert_int_equal(list(f, names), 2);
	assert_int_equal(read_back(f, &found), 0);
	assert_int_equal(found.version, hd_version_make(10, 5));
	hd_safetensors_free(&found);
}

static void flip(const char *path, long at) {
	FILE *file = fopen(path, "r+b");
	int byte;

	assert_non_null(file);
	assert_int_equal(fseek(file, at, SEEK_SET), 0);
	byte = fgetc(file);
	assert_int_equal(fseek(file, at, SEEK_SET), 0);
	assert_true(fputc(byte ^ 1, file) != EOF);
	assert_int_equal(fclose(file), 0);
}

/* Every byte of the file, one after another: a flipped bit is found, wherever it is. */
static void test_a_flipped_bit_anywhere_is_found(void **state) {
	struct fixture *f = *state;
	struct hd_checkpoint found;
	struct stat status;
	char names[8][400];
	long padding = 0;

	write_at(f, 3, 41);
	assert_int_equal(list(f, names), 1);
	assert_int_equal(stat(names[0], &status), 0);
	for (long at = 0; at < status.st_size; at++) {
		int rc;

		flip(names[0], at);
		rc = read_back(f, &found);
		if (rc == 0) {
			/* A blank of the padding became '!': only that could pass, and does not. */
			padding++;
			hd_safetensors_free(&found);
		} else {
			assert_int_equal(rc, -EBADMSG);
		}
		flip(names[0], at);
	}
	assert_int_equal(padding, 0);
	assert_int_equal(read_back(f, &found), 0);
	hd_safetensors_free(&found);
}

static void test_cut_files_are_found(void **state) {
	struct fixture *f = *state;
	struct hd_checkpoint found;
	struct stat status;
	char names[8][400];

	write_at(f, 3, 41);
	assert_int_equal(list(f, names), 1);
	assert_int_equal(stat(names[0], &status), 0);
	for (off_t bytes = status.st_size - 1; bytes >= 0; bytes -= 7) {
		assert_int_equal(truncate(names[0], bytes), 0);
		assert_int_equal(read_back(f, &found), -EBADMSG);
	}
	assert_non_null(strstr(said, "not used"));
}

static void test_the_one_before_is_used_and_said(void **state) {
	struct fixture *f = *state;
	struct hd_checkpoint found;
	struct stat status;
	char names[8][400];
	size_t newest;

	write_at(f, 3, 41);
	f->model[0] = 77;
	write_at(f, 4, 50);
	assert_int_equal(list(f, names), 2);
	newest = strcmp(names[0], names[1]) > 0 ? 0 : 1;
	assert_int_equal(stat(names[newest], &status), 0);
	flip(names[newest], status.st_size - 1); /* of the momentum */
	assert_int_equal(read_back(f, &found), 0);
	assert_int_equal(found.version, hd_version_make(3, 41));
	assert_int_equal(found.newest_incarnation, 4); /* that life is over too */
	assert_true(found.model[0] == 0);
	assert_non_null(strstr(said, names[newest]));
	assert_non_null(strstr(said, "hash"));
	assert_non_null(strstr(said, "used instead"));
	hd_safetensors_free(&found);
}

static void test_errors_in_words(void **state) {
	struct fixture *f = *state;
	char error[256] = "";

	assert_int_equal(
		hd_checkpoint_write("/nonexistent/dir", &f->checkpoint, error, sizeof error),
		-ENOENT
	);
	assert_non_null(strstr(error, "/nonexistent/dir/"));
	assert_non_null(strstr(error, "No such file"));
}

/* A reader of safetensors that knows nothing of ours. */
static void test_python_reads_it(void **state) {
	struct fixture *f = *state;
	const char *script = getenv("SAFETENSORS_READER");
	char command[1024], line[256], names[8][400], expected[256];
	FILE *pipe;

	assert_non_null(script);
	write_at(f, 3, 41);
	assert_int_equal(list(f, names), 1);
	(void)snprintf(command, sizeof command, "python3 '%s' '%s'", script, names[0]);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_non_null(fgets(line, sizeof line, pipe));
	assert_string_equal(line, "model/fc1.weight F32 [4, 9] sum 315.0\n");
	assert_non_null(fgets(line, sizeof line, pipe));
	(void)snprintf(expected, sizeof expected, "model/%s F32 [] sum 18.0\n", f->tensors[1].name);
	assert_string_equal(line, expected);
	assert_non_null(fgets(line, sizeof line, pipe));
	assert_string_equal(line, "momentum/fc1.weight F32 [4, 9] sum -157.5\n");
	assert_non_null(fgets(line, sizeof line, pipe));
	assert_non_null(fgets(line, sizeof line, pipe));
	assert_string_equal(line, "version 3:41 seed 18364758544493064720 name digits\n");
	assert_int_equal(pclose(pipe), 0);
}

static void on_ended(void *owner) {
	atomic_fetch_add((atomic_int *)owner, 1);
}

static void test_writer_thread(void **state) {
	struct fixture *f = *state;
	struct hd_checkpoint_writer *writer;
	atomic_int ended = 0;
	char error[256];
	uint32_t job;
	int status;

	assert_int_equal(
		hd_checkpoint_writer_open(f->directory, NULL, on_ended, &ended, &writer), 0
	);
	assert_false(hd_checkpoint_writer_take(writer, &job, &status, error, sizeof error));
	assert_int_equal(hd_checkpoint_writer_give(writer, &f->checkpoint), 0);
	while (atomic_load(&ended) == 0)
		usleep(1000);
	assert_true(hd_checkpoint_writer_take(writer, &job, &status, error, sizeof error));
	assert_int_equal(job, f->checkpoint.job);
	assert_int_equal(status, 0);
	/* A checkpoint that is given before the end is still written. */
	f->checkpoint.version++;
	assert_int_equal(hd_checkpoint_writer_give(writer, &f->checkpoint), 0);
	hd_checkpoint_writer_close(writer);
	assert_int_equal(atomic_load(&ended), 2);
	assert_int_equal(list(f, (char[8][400]){{0}}), 2);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
		cmocka_unit_test_setup_teardown(test_two_are_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_a_flipped_bit_anywhere_is_found, setup, teardown
		),
		cmocka_unit_test_setup_teardown(test_cut_files_are_found, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_the_one_before_is_used_and_said, setup, teardown
		),
		cmocka_unit_test_setup_teardown(test_errors_in_words, setup, teardown),
		cmocka_unit_test_setup_teardown(test_python_reads_it, setup, teardown),
		cmocka_unit_test_setup_teardown(test_writer_thread, setup, teardown),
	};

	return cmocka_run_group_tests_name("checkpoint", tests, NULL, NULL);
}
