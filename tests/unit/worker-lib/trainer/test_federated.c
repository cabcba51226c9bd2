/* SPDX-License-Identifier: BSD-3-Clause */
/* Generated clients, rows by label, LEAF's JSON, inexactness, and the reference of FedProx in double precision. */
#include "hd_federated.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void test_split_known(void **state) {
	struct hd_split split = {42}, published = {1234567};

	assert_true(hd_split_next(&split) == UINT64_C(0xbdd732262feb6e95));
	assert_true(hd_split_next(&split) == UINT64_C(0x28efe333b266f103));
	assert_true(hd_split_next(&split) == UINT64_C(0x47526757130f9f52));
	assert_true(hd_split_next(&split) == UINT64_C(0x581ce1ff0e4ae394));
	assert_true(hd_split_next(&published) == UINT64_C(6457827717110365317));
}

static void generate(double spread, bool iid, struct hd_synthetic *data) {
	struct hd_synthetic_how how
		= {.alpha = spread, .beta = spread, .iid = iid, .seed = 42, .cap = 2000};

	assert_int_equal(hd_synthetic_create(&how, data), 0);
}

static void test_data_known(void **state) {
	static const uint32_t sizes[] = {368, 72, 129, 134, 64, 64, 55, 178};
	static const uint32_t labels[] = {2331, 335, 427, 2523, 617, 538, 100, 439, 287, 406};
	struct hd_dataset train, test;
	struct hd_clients clients;
	struct hd_synthetic data;
	uint32_t count[10] = {0};
	double sum = 0;

	generate(1, false, &data);
	for (int k = 0; k < 8; k++)
		assert_int_equal(data.first[k + 1] - data.first[k], sizes[k]);
	assert_float_equal(data.x[0], 0.75284708784, 1e-10);
	assert_float_equal(data.x[1], 2.33098234560, 1e-10);
	assert_float_equal(data.x[2], 1.40304583850, 1e-10);
	assert_int_equal(hd_synthetic_split(&data, &train, &test, &clients), 0);
	assert_int_equal(train.rows, 8003);
	for (int k = 0; k < HD_SYNTHETIC_CLIENTS; k++)
		for (uint32_t row = 0; row < data.train[k]; row++)
			for (int j = 0; j < HD_SYNTHETIC_FEATURES; j++)
				sum += data
					       .x[(size_t)(data.first[k] + row)
							  * HD_SYNTHETIC_FEATURES
						  + (size_t)j];
	assert_float_equal(sum, -267303.34656776, 1e-5);
	for (uint32_t row = 0; row < train.rows; row++)
		count[train.y[row]]++;
	assert_memory_equal(count, labels, sizeof labels);
	assert_int_equal(clients.count, 30);
	assert_int_equal(clients.start[1] - clients.start[0], data.train[0]);
	hd_dataset_fini(&train);
	hd_dataset_fini(&test);
	hd_clients_fini(&clients);
	hd_synthetic_fini(&data);
}

static void test_data_refused(void **state) {
	struct hd_synthetic data;
	struct hd_synthetic_how how = {.alpha = NAN, .cap = 2000};

	assert_int_equal(hd_synthetic_create(&how, &data), -EINVAL);
	how = (struct hd_synthetic_how){.beta = -1, .cap = 2000};
	assert_int_equal(hd_synthetic_create(&how, &data), -EINVAL);
	how = (struct hd_synthetic_how){.cap = 49};
	assert_int_equal(hd_synthetic_create(&how, &data), -EINVAL);
}

struct expected {
	double spread, stragglers, mu, loss10;
	bool iid, drop;
};

/* Global training loss after 10 rounds; tables with four digits. */
static void test_reference_rounds(void **state) {
	static const struct expected cases[] = {
		{0, 0, 0, .8935, true, false},
		{0, .9, 1, 1.6161, true, false},
		{0, .9, 0, 2.5149, false, true},
		{1, .9, 0, 3.1156, false, true},
		{1, .9, 0, 1.1378, false, false},
		{1, .9, 1, 1.1748, false, false},
		{1, .5, 1, 1.1923, false, false},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const struct expected *c = &cases[i];
		struct hd_reference_how how = {
			.mu = c->mu,
			.rate = 0.01,
			.stragglers = c->stragglers,
			.drop = c->drop,
			.clients = 10,
			.epochs = 20,
			.batch = 10,
		};
		struct hd_reference_state at;
		struct hd_reference reference;
		struct hd_synthetic data;

		generate(c->spread, c->iid, &data);
		hd_reference_init(&reference, &data, &how);
		for (int round = 0; round < 10; round++)
			assert_int_equal(hd_reference_step(&reference), 0);
		hd_reference_evaluate(&reference, &at);
		assert_float_equal(at.loss, c->loss10, 5.1e-5);
		hd_synthetic_fini(&data);
	}
}

/* Three rounds on (1, 1), to all the digits that were written down. */
static void test_reference_exact(void **state) {
	static const struct {
		double stragglers, mu;
		bool drop;
		struct hd_reference_state after[3];
	} cases[] = {
		{0,
		 0,
		 false,
		 {{2.37479965, .17184, 112.241503},
		  {2.5557292, .158537, 123.207707},
		  {1.88551443, .339246, 111.144545}}},
		{.5,
		 0,
		 true,
		 {{2.91993354, .184035, 119.422852},
		  {2.68077378, .117517, 120.876231},
		  {1.94121494, .340355, 115.961598}}},
		{.9,
		 1,
		 false,
		 {{2.25844115, .169623, 109.045917},
		  {2.28324248, .174058, 114.285157},
		  {1.72439207, .37694, 92.110537}}},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct hd_reference_how how = {
			.mu = cases[i].mu,
			.rate = 0.01,
			.stragglers = cases[i].stragglers,
			.drop = cases[i].drop,
			.clients = 10,
			.epochs = 20,
			.batch = 10,
		};
		struct hd_reference_state at;
		struct hd_reference reference;
		struct hd_synthetic data;

		generate(1, false, &data);
		hd_reference_init(&reference, &data, &how);
		for (int round = 0; round < 3; round++) {
			assert_int_equal(hd_reference_step(&reference), 0);
			hd_reference_evaluate(&reference, &at);
			assert_float_equal(at.loss, cases[i].after[round].loss, 1e-6);
			assert_float_equal(at.accuracy, cases[i].after[round].accuracy, 1e-6);
			assert_float_equal(at.variance, cases[i].after[round].variance, 1e-5);
		}
		hd_synthetic_fini(&data);
	}
}

static void test_reference_needs_a_client(void **state) {
	struct hd_reference_how how
		= {.rate = 0.01,
		   .stragglers = 1,
		   .drop = true,
		   .clients = 10,
		   .epochs = 20,
		   .batch = 10};
	struct hd_reference reference;
	struct hd_synthetic data;

	generate(1, false, &data);
	hd_reference_init(&reference, &data, &how);
	assert_int_equal(hd_reference_step(&reference), -ERANGE);
	hd_synthetic_fini(&data);
}

/* --- who has which rows ---------------------------------------------------------------------- */

static void check_dealt(const struct hd_dataset *set, const struct hd_clients *clients) {
	uint8_t *seen = calloc(set->rows, 1);

	assert_int_equal(clients->start[0], 0);
	assert_int_equal(clients->start[clients->count], set->rows);
	for (uint32_t k = 0; k < clients->count; k++)
		assert_true(clients->start[k] < clients->start[k + 1]);
	for (uint32_t i = 0; i < set->rows; i++) {
		assert_in_range(clients->rows[i], 0, set->rows - 1);
		assert_int_equal(seen[clients->rows[i]]++, 0);
	}
	free(seen);
}

static void test_by_label(void **state) {
	struct hd_clients clients, again;
	uint8_t y[600];
	struct hd_dataset set = {.rows = 600, .features = 1, .classes = 10, .y = y};
	uint32_t most = 0;

	for (uint32_t i = 0; i < set.rows; i++)
		y[i] = (uint8_t)(i * 7 % 10);
	assert_int_equal(hd_clients_by_label(&set, 20, 2, 5, &clients), 0);
	assert_int_equal(hd_clients_by_label(&set, 20, 2, 5, &again), 0);
	check_dealt(&set, &clients);
	assert_memory_equal(clients.rows, again.rows, sizeof(uint32_t) * set.rows);
	for (uint32_t k = 0; k < clients.count; k++) {
		bool has[10] = {false};
		uint32_t labels = 0;

		for (uint32_t i = clients.start[k]; i < clients.start[k + 1]; i++)
			has[y[clients.rows[i]]] = true;
		for (int c = 0; c < 10; c++)
			labels += has[c];
		most = labels > most ? labels : most;
	}
	assert_in_range(most, 2, 4); /* of ten: each piece has one, or two where labels meet */
	hd_clients_fini(&clients);
	hd_clients_fini(&again);
	assert_int_equal(hd_clients_by_label(&set, 300, 2, 5, &clients), -EINVAL);
	assert_int_equal(hd_clients_by_label(&set, 0, 2, 5, &clients), -EINVAL);
	assert_int_equal(hd_clients_even(&set, 601, &clients), -EINVAL);
	assert_int_equal(hd_clients_even(&set, 7, &clients), 0);
	check_dealt(&set, &clients);
	hd_clients_fini(&clients);
}

/* --- LEAF ------------------------------------------------------------------------------------ */

static int leaf(const char *text, const struct hd_dataset *like, char error[160]) {
	struct hd_leaf taken = {.set = {.rows = 0}};
	int rc = hd_leaf_decode(text, strlen(text), like, &taken, error, 160);

	hd_dataset_fini(&taken.set);
	hd_clients_fini(&taken.clients);
	return rc;
}

#define ANN "{\"users\": [\"ann\"], \"user_data\": {\"ann\": "

static void test_leaf(void **state) {
	static const char text[]
		= "{\"users\": [\"a\", \"b\"], \"num_samples\": [2, 1], \"hierarchies\": [], \"user_data\":"
		  "{\"b\": {\"x\": [[5, 6]], \"y\": [3]}, \"a\": {\"x\": [[1, 2.5], [3, 4]], \"y\": [0, 1.0]}}}";
	struct hd_leaf taken;
	char error[160];

	assert_int_equal(hd_leaf_decode(text, strlen(text), NULL, &taken, error, sizeof error), 0);
	assert_int_equal(taken.set.rows, 3);
	assert_int_equal(taken.set.features, 2);
	assert_int_equal(taken.set.classes, 4);
	assert_true(taken.set.x[1] == 2.5F && taken.set.x[5] == 6);
	assert_int_equal(taken.set.y[2], 3);
	check_dealt(&taken.set, &taken.clients);
	assert_int_equal(taken.clients.start[1], 2);
	assert_int_equal(leaf(ANN "{\"x\": [[1, 2]], \"y\": [4]}}}", &taken.set, error), -EINVAL);
	assert_string_equal(error, "y: label 4, the training set has 0..3");
	assert_int_equal(leaf(ANN "{\"x\": [[1]], \"y\": [0]}}}", &taken.set, error), -EINVAL);
	hd_dataset_fini(&taken.set);
	hd_clients_fini(&taken.clients);
}

static void test_leaf_refused(void **state) {
	static const char *const wrong[][2] = {
		{"[]", "users: "},
		{"{\"users\": [], \"user_data\": {}}", "users: "},
		{"{\"users\": [3], \"user_data\": {}}", "user 0 (?): users: "},
		{"{\"users\": [\"ann\"", "line 1: "},
		{ANN "{\"x\": [], \"y\": []}}}", "user 0 (ann): x: no row"},
		{ANN "{\"x\": [[1]], \"y\": []}}}", "user 0 (ann): y: "},
		{ANN "{\"x\": [[1], [1, 2]], \"y\": [0, 0]}}}", "user 0 (ann): x: "},
		{ANN "{\"x\": [[1e39]], \"y\": [0]}}}", "user 0 (ann): x: not a finite"},
		{ANN "{\"x\": [[true]], \"y\": [0]}}}", "user 0 (ann): x: not a finite"},
		{ANN "{\"x\": [[1]], \"y\": [256]}}}", "user 0 (ann): y: "},
		{ANN "{\"x\": [[1]], \"y\": [0.5]}}}", "user 0 (ann): y: "},
		{"{\"users\": [\"ann\", \"ann\"], \"user_data\": {\"ann\": {\"x\": [[1]], \"y\": [0]}}}",
		 "user 1 (ann): users: it is in the file twice"},
		{"{\"users\": [\"ann\"], \"num_samples\": [2], \"user_data\": {\"ann\": {\"x\": [[1]], \"y\": [0]}}}",
		 "user 0 (ann): num_samples: "},
	};

	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		char error[160] = "";

		assert_int_equal(leaf(wrong[i][0], NULL, error), -EINVAL);
		if (strncmp(error, wrong[i][1], strlen(wrong[i][1])) != 0)
			fail_msg("case %zu: %s", i, error);
	}
}

static char *leaf_file(const char *text) {
	char *path = strdup("/tmp/heddle-leaf-XXXXXX");
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
	return path;
}

static int leaf_open(const char *train, const char *test, struct hd_leaf *leaf, char error[160]) {
	struct hd_dataset aside = {0};
	char names[200];
	int rc;

	(void)snprintf(names, sizeof names, "%s%s%s", train, test ? "," : "", test ? test : "");
	rc = hd_leaf_open(names, leaf, &aside, error, 160);
	if (rc == 0) {
		assert_int_equal(aside.features, leaf->set.features);
		assert_true(aside.rows > 0 && aside.y[0] == 1);
	}
	hd_dataset_fini(&aside);
	return rc;
}

static void leaf_close(struct hd_leaf *leaf) {
	hd_dataset_fini(&leaf->set);
	hd_clients_fini(&leaf->clients);
}

static void put_file(const char *folder, const char *name, const char *text) {
	char path[200];
	FILE *file;

	(void)snprintf(path, sizeof path, "%s/%s", folder, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void leaf_refused(const char *folder, const char *where, const char *why) {
	char error[160], expected[160];
	struct hd_leaf taken;

	assert_true(leaf_open(folder, NULL, &taken, error) < 0);
	(void)snprintf(expected, sizeof expected, "%s/%s: %s", folder, where, why);
	if (strncmp(error, expected, strlen(expected)) != 0)
		fail_msg("%s", error);
}

/* LEAF's own layout: folders train and test of several files each, read by name; a test user need not train. Errors
 * name the file. */
static void test_leaf_folders(void **state) {
	static const char one[]
		= "{\"users\": [\"b\"], \"user_data\": {\"b\": {\"x\": [[2], [3]], \"y\": [0, 1]}}}";
	char folder[] = "/tmp/heddle-leaf-XXXXXX", path[200], error[160];
	struct hd_leaf taken;

	assert_non_null(mkdtemp(folder));
	for (int i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof path, "%s/%s", folder, i ? "test" : "train");
		assert_int_equal(mkdir(path, 0700), 0);
	}
	leaf_refused(folder, "train", "0 files *.json or *.json.gz (1..HD_LEAF_FILES_MAX 4096)");
	put_file(folder, "train/1.json", one);
	put_file(folder, "train/0.json", ANN "{\"x\": [[1]], \"y\": [0]}}}");
	put_file(folder, "train/README", "no data");
	put_file(
		folder,
		"test/0.json",
		"{\"users\": [\"c\"], \"user_data\": {\"c\": {\"x\": [[4]], \"y\": [1]}}}"
	);
	assert_int_equal(leaf_open(folder, NULL, &taken, error), 0);
	assert_int_equal(taken.clients.count, 2);
	check_dealt(&taken.set, &taken.clients);
	assert_true(taken.set.rows == 3 && taken.set.x[0] == 1 && taken.set.x[2] == 3);
	assert_true(taken.clients.start[1] == 1 && taken.set.classes == 2);
	leaf_close(&taken);
	(void)snprintf(path, sizeof path, "%s/train", folder);
	assert_int_equal(
		leaf_open(path, NULL, &taken, error), 0
	); /* without a test set: b's last row is */
	assert_int_equal(taken.set.rows, 2);
	leaf_close(&taken);

	put_file(folder, "train/2.json", ANN "{\"x\": [[1, 2]], \"y\": [0]}}}");
	leaf_refused(folder, "train/2.json", "user 0 (ann): users: it is in /tmp/heddle-leaf-");
	put_file(
		folder,
		"train/2.json",
		"{\"users\": [\"d\"], \"user_data\": {\"d\": {\"x\": [[1, 2]], \"y\": [0]}}}"
	);
	leaf_refused(folder, "train/2.json", "user 0 (d): x: a row has another number of values");
	put_file(folder, "train/2.json", "{");
	leaf_refused(folder, "train/2.json", "line 1: ");
	put_file(
		folder,
		"train/2.json",
		"{\"users\": [\"d\"], \"user_data\": {\"d\": {\"x\": [[1]], \"y\": [1]}}}"
	);
	put_file(
		folder,
		"test/0.json",
		"{\"users\": [\"c\"], \"user_data\": {\"c\": {\"x\": [[4]], \"y\": [2]}}}"
	);
	leaf_refused(folder, "test/0.json", "y: label 2, the training set has 0..1");
	for (int i = 0; i < 7; i++) {
		static const char *const names[]
			= {"train/0.json",
			   "train/1.json",
			   "train/2.json",
			   "train/README",
			   "test/0.json",
			   "train",
			   "test"};

		(void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
		assert_int_equal(remove(path), 0);
	}
	assert_int_equal(rmdir(folder), 0);
}

/* Two users with 3 and 1 rows: of the first one's, the last is for testing. */
static void test_leaf_files(void **state) {
	char *train = leaf_file(
		"{\"users\": [\"a\", \"b\"], \"user_data\": {\"a\": {\"x\": [[1], [2], [3]], "
		"\"y\": [0, 1, 1]}, \"b\": {\"x\": [[4]], \"y\": [0]}}}"
	);
	char *test = leaf_file(ANN "{\"x\": [[7]], \"y\": [1]}}}");
	char *wrong = leaf_file(ANN "{\"x\": [[7, 8]], \"y\": [1]}}}");
	char error[160], expected[160];
	struct hd_leaf taken;

	assert_int_equal(leaf_open(train, test, &taken, error), 0);
	assert_int_equal(taken.set.rows, 4);
	leaf_close(&taken);
	assert_int_equal(leaf_open(train, NULL, &taken, error), 0);
	assert_int_equal(taken.set.rows, 3);
	check_dealt(&taken.set, &taken.clients);
	assert_int_equal(taken.clients.start[1], 2);
	assert_true(taken.set.x[2] == 4);
	leaf_close(&taken);

	assert_int_equal(leaf_open(train, wrong, &taken, error), -EINVAL);
	(void)snprintf(expected, sizeof expected, "%s: user 0 (ann): x: ", wrong);
	assert_memory_equal(error, expected, strlen(expected));
	assert_int_equal(leaf_open(test, NULL, &taken, error), -EINVAL);
	(void)snprintf(expected, sizeof expected, "%s: user_data: no user has two rows", test);
	assert_memory_equal(error, expected, strlen(expected));
	(void)unlink(train);
	assert_int_equal(leaf_open(train, NULL, &taken, error), -ENOENT);
	(void)unlink(test);
	(void)unlink(wrong);
	free(train);
	free(test);
	free(wrong);
}

/* Five users as two clients: 0, 2, 4 and 1, 3. */
static void test_merge(void **state) {
	struct hd_dataset set = {.rows = 15};
	uint32_t start[] = {0, 1, 3, 6, 10, 15};
	struct hd_clients clients = {
		.count = 5, .start = malloc(sizeof start), .rows = malloc(sizeof(uint32_t) * 15)};

	memcpy(clients.start, start, sizeof start);
	for (uint32_t i = 0; i < 15; i++)
		clients.rows[i] = i;
	assert_int_equal(hd_clients_merge(&clients, 6), -EINVAL);
	assert_int_equal(hd_clients_merge(&clients, 0), -EINVAL);
	assert_int_equal(hd_clients_merge(&clients, 2), 0);
	check_dealt(&set, &clients);
	assert_int_equal(clients.count, 2);
	assert_int_equal(clients.start[1], 1 + 3 + 5);
	assert_int_equal(clients.rows[1], 3);
	assert_int_equal(clients.rows[9], 1);
	hd_clients_fini(&clients);
}

/* F(w) = (w - 3)^2, five steps of rate 0.1 from w_t = 0; then h is (w - 3)^2 + mu/2 w^2. */
static void test_inexactness(void **state) {
	static const double gamma[] = {.32768, .16807};

	for (int mu = 0; mu < 2; mu++) {
		float w = 0, w_t = 0;
		double begin = 2 * (0.0 - 3), end;
		struct hd_local_problem problem = {
			.values = 1,
			.w_t = &w_t,
			.w = &w,
			.grad_w_t = &begin,
			.grad_w = &end,
			.mu = mu,
		};

		for (int step = 0; step < 5; step++)
			w -= 0.1F * (2 * (w - 3) + (float)mu * (w - w_t));
		end = 2 * ((double)w - 3);
		assert_float_equal(hd_inexactness(&problem), gamma[mu], 1e-6);
		problem.w = &w_t, end = begin;
		assert_float_equal(hd_inexactness(&problem), 1, 0);
		begin = 0;
		assert_true(hd_inexactness(&problem) < 0);
		begin = 1, end = NAN;
		assert_true(hd_inexactness(&problem) < 0);
		begin = 1e-100, end = 1; /* beyond a float */
		assert_true(hd_inexactness(&problem) < 0);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split_known),
		cmocka_unit_test(test_data_known),
		cmocka_unit_test(test_data_refused),
		cmocka_unit_test(test_reference_rounds),
		cmocka_unit_test(test_reference_exact),
		cmocka_unit_test(test_reference_needs_a_client),
		cmocka_unit_test(test_by_label),
		cmocka_unit_test(test_leaf),
		cmocka_unit_test(test_leaf_refused),
		cmocka_unit_test(test_leaf_files),
		cmocka_unit_test(test_leaf_folders),
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_inexactness),
	};

	return cmocka_run_group_tests_name("federated", tests, NULL, NULL);
}
