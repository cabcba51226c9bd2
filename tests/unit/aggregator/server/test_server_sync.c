/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps of synchronous jobs at the server: their contents, when they are made, and the model that they make, bit for
 * bit. With an argument the server adds and applies that many values a call. */
#include "hd_kernels.h"
#include "server_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 6000
#define BYTES (VALUES * sizeof(float))
#define WORKERS 3

static uint64_t apply_values;

struct fixture {
	struct net net;
	struct hd_server_config config;
	struct hd_jobspec spec;
	struct hd_tensor tensors[2];
	struct fake *worker[WORKERS];
	struct fake *controller; /* NULL: none */
	hd_version base;
	float g[WORKERS][VALUES];
};

static void join(struct fixture *f, uint16_t rank) {
	f->worker[rank] = fake_worker(&f->net, rank);
	f->base = fake_joined(f->worker[rank], &f->spec)->version;
	for (size_t k = 0; k < VALUES; k++)
		f->g[rank][k] = (float)(rank + 1) * 0.3F + (float)(k % 17) * 0.7F;
}

static bool is_registered(void *what) {
	return fake_count(what, HD_MSG_REGISTER) > 0;
}

static struct fixture *
open_as(bool controller, uint8_t sync, uint32_t count, uint16_t workers, uint32_t scale_base) {
	struct fixture *f = calloc(1, sizeof *f);

	net_open(&f->net);
	spec_make(&f->spec, f->tensors, VALUES);
	f->spec.sync = sync;
	f->spec.sync_count = count;
	f->spec.scale_base = scale_base;
	f->spec.staleness_rule = HD_STALENESS_CONSTANT;
	f->config.apply_values = apply_values;
	if (controller) {
		f->controller = fake_controller(&f->net, 3);
		f->config.controller = f->controller->node.addr;
	}
	net_server(&f->net, &f->config);
	if (controller)
		net_run_until(&f->net, is_registered, f->controller, HD_SECOND);
	for (uint16_t i = 0; i < workers; i++)
		join(f, i);
	return f;
}

static struct fixture *open_with(bool controller, uint8_t sync, uint32_t count, uint16_t workers) {
	return open_as(controller, sync, count, workers, 0);
}

static struct fixture *open_fixture(uint8_t sync, uint32_t count, uint16_t workers) {
	return open_with(false, sync, count, workers);
}

static void close_fixture(struct fixture *f) {
	for (uint16_t i = 0; i < WORKERS; i++)
		if (f->worker[i])
			fake_close(f->worker[i]);
	if (f->controller)
		fake_close(f->controller);
	net_close(&f->net);
	free(f);
}

static uint64_t counter(const struct fixture *f) {
	return hd_version_counter(hd_server_version(f->net.server, f->worker[0]->job));
}

/* A worker's round, directly, as far as the server holds it. */
static void contribute(struct fixture *f, uint16_t rank, uint32_t round, hd_version base) {
	struct fake *worker = f->worker[rank];
	size_t grants = fake_count(worker, HD_MSG_GRANT);
	uint64_t token;

	fake_request_push(worker, round, 1, base, BYTES);
	token = fake_wait(worker, HD_MSG_GRANT, grants)->grant.token;
	(void)fake_push(worker, token, round, 1, f->g[rank], VALUES);
	net_run(&f->net, 30 * HD_MS);
}

/* The model after steps of these workers' updates ("012", "01"; NULL after the last), times scales (NULL: 1). */
static void assert_scaled(const struct fixture *f, const char *const *steps, const float *scales) {
	const struct hd_sgd sgd = {f->spec.learning_rate, f->spec.momentum, f->spec.weight_decay};
	float *model = malloc(BYTES), *momentum = calloc(VALUES, sizeof(float)),
	      *sum = malloc(BYTES);
	uint64_t values;

	hd_jobspec_initialize(&f->spec, model);
	for (; *steps; steps++) {
		memcpy(sum, f->g[**steps - '0'], BYTES);
		for (const char *next = *steps + 1; *next; next++)
			hd_add_f32_scalar(sum, f->g[*next - '0'], VALUES);
		hd_scale_f32_scalar(
			sum, sum, VALUES, (scales ? *scales++ : 1) / (float)strlen(*steps)
		);
		hd_sgd_apply_scalar(model, momentum, sum, VALUES, &sgd);
	}
	assert_memory_equal(
		hd_server_model(f->net.server, f->worker[0]->job, &values), model, BYTES
	);
	assert_memory_equal(hd_server_momentum(f->net.server, f->worker[0]->job), momentum, BYTES);
	free(model);
	free(momentum);
	free(sum);
}

static void assert_model(const struct fixture *f, const char *const *steps) {
	assert_scaled(f, steps, NULL);
}

static void assert_outcome(
	struct fixture *f,
	uint16_t rank,
	uint32_t round,
	uint8_t outcome,
	uint64_t version
) {
	const struct hd_msg_outcome *said = fake_outcome(f->worker[rank], round);

	assert_int_equal(said->outcome, outcome);
	assert_int_equal(hd_version_counter(said->version), version);
	assert_int_equal(said->delay, 0);
	if (outcome != HD_OUTCOME_APPLIED)
		assert_int_equal(said->reason, HD_REASON_LATE);
}

static void test_all(void **state) {
	struct fixture *f = open_fixture(HD_SYNC_ALL, 0, 3);

	(void)state;
	contribute(f, 2, 1, f->base);
	contribute(f, 0, 1, f->base);
	assert_int_equal(counter(f), 0);
	contribute(f, 1, 1, f->base);
	assert_outcome(f, 2, 1, HD_OUTCOME_APPLIED, 1);
	assert_outcome(f, 0, 1, HD_OUTCOME_APPLIED, 2);
	assert_outcome(f, 1, 1, HD_OUTCOME_APPLIED, 3);
	assert_int_equal(net_event(&f->net, HD_EVENT_COMMITTED, 0)->more, 2);
	assert_int_equal(net_event(&f->net, HD_EVENT_COMMITTED, 2)->more, 0);
	assert_int_equal(fake_count(f->worker[0], HD_MSG_STEP), 0);
	assert_int_equal(hd_server_stats(f->net.server)->sync_steps, 1);
	assert_model(f, (const char *const[]){"201", NULL});
	for (uint16_t i = 0; i < 3; i++)
		contribute(f, i, 2, f->base + 3);
	assert_int_equal(counter(f), 6);
	assert_model(f, (const char *const[]){"201", "012", NULL});
	close_fixture(f);
}

static void test_first_two(void **state) {
	struct fixture *f = open_fixture(HD_SYNC_N, 2, 3);

	(void)state;
	contribute(f, 1, 1, f->base);
	/* Once more of the same worker: not in this step. */
	contribute(f, 1, 2, f->base);
	assert_int_equal(counter(f), 0);
	assert_outcome(f, 1, 2, HD_OUTCOME_DROPPED, 0);
	contribute(f, 0, 1, f->base);
	assert_int_equal(counter(f), 2);
	assert_outcome(f, 1, 1, HD_OUTCOME_APPLIED, 1);
	assert_int_equal(fake_wait(f->worker[2], HD_MSG_STEP, 0)->step.version, f->base + 2);
	assert_int_equal(fake_count(f->worker[0], HD_MSG_STEP), 0);
	fake_request_push(f->worker[2], 1, 1, f->base, BYTES);
	assert_outcome(f, 2, 1, HD_OUTCOME_DROPPED, 2);
	assert_model(f, (const char *const[]){"10", NULL});
	close_fixture(f);
}

static void test_three_updates(void **state) {
	struct fixture *f = open_fixture(HD_SYNC_N_BATCH, 3, 2);

	(void)state;
	contribute(f, 1, 1, f->base);
	contribute(f, 1, 2, f->base);
	assert_int_equal(counter(f), 0);
	contribute(f, 0, 1, f->base);
	assert_int_equal(counter(f), 3);
	assert_model(f, (const char *const[]){"110", NULL});
	close_fixture(f);
}

/* Contributions of the dead stay; missing ones are not waited for. */
static void test_death(void **state) {
	struct fixture *f = open_fixture(HD_SYNC_ALL, 0, 3);

	(void)state;
	contribute(f, 0, 1, f->base);
	contribute(f, 2, 1, f->base);
	fake_kill(f->worker[1]);
	fake_kill(f->worker[2]);
	net_run(&f->net, HD_DETECTION_US * HD_US);
	assert_int_equal(counter(f), 2);
	assert_model(f, (const char *const[]){"02", NULL});
	f->worker[1] = f->worker[2] = NULL;
	close_fixture(f);
}

/* A worker that reports its last push is not waited for, and a worker that joins is. */
static void test_leaving(void **state) {
	struct fixture *f = open_fixture(HD_SYNC_ALL, 0, 2);
	struct hd_message message = {.kind = HD_MSG_LEAVE};

	(void)state;
	contribute(f, 0, 1, f->base);
	join(f, 2);
	message.leave.job = f->worker[0]->job;
	message.leave.worker = 1;
	fake_send(f->worker[1], &message);
	net_run(&f->net, 30 * HD_MS);
	assert_int_equal(counter(f), 0);
	message.leave.worker = 2;
	fake_send(f->worker[2], &message);
	net_run(&f->net, 30 * HD_MS);
	assert_int_equal(counter(f), 1);
	assert_model(f, (const char *const[]){"0", NULL});
	close_fixture(f);
}

/* A step that waits for long says for whom, now and then. */
static void test_says_that_it_waits(void **state) {
	struct fixture *f = open_fixture(HD_SYNC_ALL, 0, 3);
	const struct hd_event *event;
	const char *error;
	char *table;

	(void)state;
	contribute(f, 1, 1, f->base);
	net_run(&f->net, 900 * HD_MS);
	assert_int_equal(net_events(&f->net, HD_EVENT_STEP_WAITS), 0);
	net_run(&f->net, 8 * HD_SECOND);
	assert_int_equal(net_events(&f->net, HD_EVENT_STEP_WAITS), 1);
	event = net_event(&f->net, HD_EVENT_STEP_WAITS, 0);
	assert_int_equal(event->worker, 0);
	assert_int_equal(event->aux, 2);
	assert_true(event->value >= 1 && event->value < 1.1);
	contribute(f, 0, 1, f->base);
	net_run(&f->net, 3 * HD_SECOND);
	assert_int_equal(net_events(&f->net, HD_EVENT_STEP_WAITS), 2);
	event = net_event(&f->net, HD_EVENT_STEP_WAITS, 1);
	assert_int_equal(event->worker, 2);
	assert_int_equal(event->aux, 1);
	table = hd_server_table(f->net.server, f->net.now, "models", "", &error);
	assert_non_null(table);
	assert_non_null(strstr(table, "\"missing\":1"));
	assert_non_null(strstr(table, "\"missing_first\":2"));
	free(table);
	/* Made: nothing waits, and the next step's second is its own. */
	contribute(f, 2, 1, f->base);
	assert_int_equal(counter(f), 3);
	net_run(&f->net, 20 * HD_SECOND);
	contribute(f, 0, 2, f->base + 3);
	net_run(&f->net, 900 * HD_MS);
	assert_int_equal(net_events(&f->net, HD_EVENT_STEP_WAITS), 2);
	net_run(&f->net, 200 * HD_MS);
	assert_int_equal(net_events(&f->net, HD_EVENT_STEP_WAITS), 3);
	close_fixture(f);
}

/* Three workers are waited for until three were there. */
static void test_formed(void **state) {
	struct fixture *f = open_fixture(HD_SYNC_N, 3, 2);

	(void)state;
	contribute(f, 0, 1, f->base);
	contribute(f, 1, 1, f->base);
	net_run(&f->net, 3 * HD_SECOND);
	assert_int_equal(counter(f), 0);
	join(f, 2);
	contribute(f, 2, 1, f->base);
	assert_int_equal(counter(f), 3);
	fake_kill(f->worker[2]);
	f->worker[2] = NULL;
	contribute(f, 0, 2, f->base + 3);
	contribute(f, 1, 2, f->base + 3);
	net_run(&f->net, HD_DETECTION_US * HD_US);
	assert_int_equal(counter(f), 5);
	assert_model(f, (const char *const[]){"012", "01", NULL});
	close_fixture(f);
}

/* The controller's word: ranks 0 to 2, N and the factor of one change. */
static void send_roster(struct fixture *f, uint64_t change, uint32_t n, float scale) {
	static const uint8_t ranks[] = {7};
	struct hd_message m = {.kind = HD_MSG_ROSTER};

	m.roster = (struct hd_msg_roster){
		.job = f->worker[0]->job,
		.change = change,
		.count = 3,
		.ranks = {ranks, sizeof ranks},
		.sync_count = n,
		.scale = scale,
	};
	fake_send(f->controller, &m);
	net_run(&f->net, 20 * HD_MS);
}

static void assert_stepped(const struct fixture *f, size_t at, uint64_t change, float scale) {
	const struct hd_event *event = net_event(&f->net, HD_EVENT_STEPPED, at);

	assert_int_equal(event->position, change);
	assert_float_equal(event->value, scale, 0);
	assert_int_equal(
		event->version, net_event(&f->net, HD_EVENT_COMMITTED, 0)->version - 1 + counter(f)
	);
}

/* A step keeps N and the factor of the change that it began with; one that lowers N brings its own factor. */
static void test_scale_is_of_the_step(void **state) {
	struct fixture *f = open_with(true, HD_SYNC_N, 2, 3);

	(void)state;
	send_roster(f, 11, 2, 0.5F);
	contribute(f, 0, 1, f->base);
	send_roster(f, 12, 3, 0.75F);
	assert_int_equal(counter(f), 0);
	contribute(f, 1, 1, f->base);
	assert_int_equal(counter(f), 2);
	assert_stepped(f, 0, 11, 0.5F);
	contribute(f, 0, 2, f->base + 2);
	contribute(f, 2, 1, f->base + 2);
	assert_int_equal(counter(f), 2); /* of three now */
	send_roster(f, 13, 2, 1.5F);
	assert_int_equal(counter(f), 4);
	assert_stepped(f, 1, 13, 1.5F);
	contribute(f, 1, 2, f->base + 4);
	contribute(f, 0, 3, f->base + 4);
	assert_stepped(f, 2, 13, 1.5F);
	assert_scaled(
		f, (const char *const[]){"01", "02", "10", NULL}, (const float[]){0.5F, 1.5F, 1.5F}
	);
	close_fixture(f);
}

/* Where all are waited for the newest change holds. */
static void test_scale_of_all(void **state) {
	struct fixture *f = open_with(true, HD_SYNC_ALL, 0, 3);

	(void)state;
	contribute(f, 0, 1, f->base);
	contribute(f, 1, 1, f->base);
	send_roster(f, 11, 0, 0.75F);
	contribute(f, 2, 1, f->base);
	assert_int_equal(counter(f), 3);
	assert_stepped(f, 0, 11, 0.75F);
	assert_scaled(f, (const char *const[]){"012", NULL}, (const float[]){0.75F});
	close_fixture(f);
}

/* No owner sets a scale: the job's applies, with those that take part. An owner that sets one takes it over, and gives
 * it back. */
static void test_scale_of_the_job(void **state) {
	struct fixture *f = open_as(true, HD_SYNC_ALL, 0, 3, 2);

	(void)state;
	send_roster(f, 11, 0, 0);
	contribute(f, 0, 1, f->base);
	contribute(f, 1, 1, f->base);
	contribute(f, 2, 1, f->base);
	assert_stepped(f, 0, 11, 1.5F);
	contribute(f, 0, 2, f->base + 3);
	send_roster(f, 12, 0, 0.25F);
	contribute(f, 1, 2, f->base + 3);
	contribute(f, 2, 2, f->base + 3);
	assert_stepped(f, 1, 12, 0.25F);
	contribute(f, 0, 3, f->base + 6);
	contribute(f, 1, 3, f->base + 6);
	send_roster(f, 13, 0, 0);
	contribute(f, 2, 3, f->base + 6);
	assert_stepped(f, 2, 13, 1.5F);
	assert_int_equal(counter(f), 9);
	assert_scaled(
		f,
		(const char *const[]){"012", "012", "012", NULL},
		(const float[]){1.5F, 0.25F, 1.5F}
	);
	close_fixture(f);
}

/* Without a controller the server itself says who takes part, and goes by it. */
static void test_scale_without_controller(void **state) {
	struct fixture *f = open_as(false, HD_SYNC_ALL, 0, 3, 2);

	(void)state;
	net_run(&f->net, 100 * HD_MS);
	for (uint16_t rank = 0; rank < 3; rank++)
		contribute(f, rank, 1, f->base);
	assert_int_equal(counter(f), 3);
	assert_float_equal(net_event(&f->net, HD_EVENT_STEPPED, 0)->value, 1.5, 0);
	assert_scaled(f, (const char *const[]){"012", NULL}, (const float[]){1.5F});
	close_fixture(f);
}

int main(int argc, char **argv) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_first_two),
		cmocka_unit_test(test_death),
		cmocka_unit_test(test_three_updates),
		cmocka_unit_test(test_leaving),
		cmocka_unit_test(test_says_that_it_waits),
		cmocka_unit_test(test_formed),
		cmocka_unit_test(test_scale_is_of_the_step),
		cmocka_unit_test(test_scale_of_all),
		cmocka_unit_test(test_scale_of_the_job),
		cmocka_unit_test(test_scale_without_controller),
	};

	apply_values = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
