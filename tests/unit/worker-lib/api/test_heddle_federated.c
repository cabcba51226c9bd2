/* SPDX-License-Identifier: BSD-3-Clause */
/* What libheddle refuses of a federated client, before anything is sent. */
#include "heddle.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define VALUES 4

struct fixture {
	char key_path[64];
	struct heddle *fabric;
	struct heddle_round round;
	struct heddle_work work;
	float w_t[VALUES], w[VALUES];
};

static int setup(void **state) {
	static const char key[]
		= "1 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n";
	struct fixture *fixture = calloc(1, sizeof *fixture);
	struct heddle_federated rounds = HEDDLE_FEDERATED_INIT;
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	uint64_t values = VALUES;
	struct heddle_spec *spec;
	int fd;

	(void)snprintf(fixture->key_path, sizeof fixture->key_path, "/tmp/heddle-key-XXXXXX");
	fd = mkstemp(fixture->key_path);
	assert_int_equal(write(fd, key, sizeof key - 1), sizeof key - 1);
	(void)close(fd);
	options.server = "127.0.0.1:9"; /* no server */
	options.key_file = fixture->key_path;
	options.rank = 0;
	assert_int_equal(heddle_spec_create("tests", "fed", &spec), 0);
	assert_int_equal(heddle_spec_add_tensor(spec, "w", &values, 1, HEDDLE_INIT_ZERO, 0), 0);
	assert_int_equal(heddle_spec_set_federated(spec, &rounds), 0);
	assert_int_equal(heddle_open(spec, &options, &fixture->fabric), 0);
	heddle_spec_destroy(spec);
	fixture->round = (struct heddle_round)HEDDLE_ROUND_INIT;
	fixture->round.round = 1;
	fixture->round.max_epochs = 20;
	fixture->work = (struct heddle_work)HEDDLE_WORK_INIT;
	fixture->work.samples = 100;
	fixture->work.epochs = 20;
	fixture->work.loss = 1;
	*state = fixture;
	return 0;
}

static int teardown(void **state) {
	struct fixture *fixture = *state;

	(void)heddle_close(fixture->fabric, 0);
	(void)unlink(fixture->key_path);
	free(fixture);
	return 0;
}

static int push(struct fixture *f, struct heddle_ticket **ticket) {
	return heddle_round_push_start(f->fabric, &f->round, &f->work, f->w_t, f->w, ticket);
}

/* It is refused with these words, and nothing is in flight. */
static void refused(struct fixture *fixture, int code, const char *words) {
	struct heddle_ticket *ticket = NULL;

	assert_int_equal(push(fixture, &ticket), code);
	if (!strstr(heddle_last_error(), words))
		fail_msg("%s", heddle_last_error());
	assert_null(ticket);
}

static void test_work(void **state) {
	struct fixture *fixture = *state;

	fixture->work.samples = 0;
	refused(fixture, -EDOM, "samples: 0");
	fixture->work.samples = (1U << 24) + 1;
	refused(fixture, -EDOM, "samples: 16777217");
	fixture->work.samples = 100;
	fixture->work.loss = NAN;
	refused(fixture, -EDOM, "loss: nan");
	fixture->work.loss = 1;
	fixture->work.epochs = 65536;
	refused(fixture, -EINVAL, "epochs: 65536");
	fixture->work.epochs = 20;
	fixture->round.round = 0;
	refused(fixture, -EINVAL, "round: none");
}

static void test_values(void **state) {
	struct fixture *fixture = *state;
	struct heddle_ticket *ticket;

	fixture->w[2] = INFINITY;
	refused(fixture, -EDOM, "");
	fixture->w[2] = 656; /* times 100 rows */
	fixture->work.payload = HEDDLE_PAYLOAD_FP16;
	refused(fixture, -EDOM, "payload: value 2 times the weight 100 is beyond fp16");
	fixture->w[2] = 655;
	assert_int_equal(push(fixture, &ticket), 0);
	heddle_ticket_free(ticket);
}

/* Other pushes have no weight, and what a filter holds back would count in another round, with another base. */
static void test_other_pushes(void **state) {
	struct fixture *fixture = *state;
	struct heddle_filter_options options = HEDDLE_FILTER_OPTIONS_INIT;
	struct heddle_range run = {.first = 1, .count = 1};
	struct heddle_sparse sparse = {.ranges = &run, .range_count = 1, .data = fixture->w};
	struct heddle_filter_step step = {fixture->w, fixture->w_t, 1, 0};
	struct heddle_filter *filter;
	struct heddle_ticket *ticket;

	assert_int_equal(heddle_push_start(fixture->fabric, fixture->w, 0, NULL, &ticket), -EINVAL);
	assert_non_null(strstr(heddle_last_error(), "heddle_round_push_start()"));
	assert_int_equal(
		heddle_push_sparse_start(fixture->fabric, &sparse, 0, NULL, &ticket), -EINVAL
	);
	assert_int_equal(heddle_filter_create(VALUES, &options, &filter), 0);
	assert_int_equal(
		heddle_filter_push_start(filter, fixture->fabric, &step, NULL, &ticket), -EINVAL
	);
	assert_non_null(strstr(heddle_last_error(), "unfiltered"));
	heddle_filter_destroy(filter);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_work, setup, teardown),
		cmocka_unit_test_setup_teardown(test_values, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_pushes, setup, teardown),
	};

	return cmocka_run_group_tests_name("heddle federated", tests, NULL, NULL);
}
