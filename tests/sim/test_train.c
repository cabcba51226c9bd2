/* SPDX-License-Identifier: BSD-3-Clause */
/* Real training in virtual time: what it computes, and that it computes the same again. */
#include "hd_cluster.h"
#include "hd_kernels.h"
#include "hd_message.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct hd_dataset train, test;

struct run {
	struct hd_scenario scenario;
	struct hd_cluster_config config;
	struct hd_cluster_training training;
	struct hd_cluster_result result;
	struct hd_curve curve;
	char failure[512];
	uint64_t trace; /* sum over all events */
	uint64_t many; /* sums of three and more */
};

static uint64_t mix(uint64_t hash, uint64_t word) {
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ (hash >> 31);
}

static void watch(void *owner, const char *node, const struct hd_event *event) {
	struct run *run = owner;

	run->trace = mix(run->trace, event->at);
	run->trace = mix(run->trace, (uint64_t)event->kind << 32 | event->worker);
	run->trace = mix(run->trace, (uint64_t)event->reason << 32 | event->round);
	run->trace = mix(run->trace, event->version);
	run->trace = mix(run->trace, event->token);
	run->many += event->kind == HD_EVENT_COMMITTED && event->more == 2;
}

/* Four workers and a small network: about 100 commits a second. */
static void prepare(struct run *run) {
	memset(run, 0, sizeof *run);
	hd_scenario_init(&run->scenario);
	run->scenario.workers = 4;
	run->scenario.link_mbps = run->scenario.server_link_mbps = 100;
	run->scenario.latency_us = 50;
	run->scenario.duration_s = 5;
	run->scenario.job.hidden_count = 1;
	run->scenario.job.hidden[0] = 32;
	run->scenario.job.bytes_of_model = true;
	run->scenario.job.compute_ms = 30;
	run->scenario.job.tau_max = 16;
	run->scenario.job.learning_rate = 0.02;
	run->scenario.job.target_accuracy = 0.8;
	run->training = (struct hd_cluster_training){.train = &train, .test = &test};
	run->config.seed = 1;
	run->config.event = watch;
	run->config.owner = run;
}

static void go(struct run *run) {
	struct hd_cluster *cluster;
	char error[256] = "";

	run->config.owner = run;
	run->config.scenario = &run->scenario;
	run->config.training = &run->training;
	if (hd_cluster_create(&run->config, &cluster, error, sizeof error) < 0)
		fail_msg("%s", error);
	if (hd_cluster_run(cluster) == -EILSEQ)
		(void
		)snprintf(run->failure, sizeof run->failure, "%s", hd_cluster_failure(cluster));
	hd_cluster_result(cluster, &run->result);
	hd_cluster_take_curve(cluster, &run->curve);
	hd_cluster_destroy(cluster);
}

static void expect(struct run *run, double accuracy) {
	go(run);
	if (*run->failure)
		fail_msg("%s", run->failure);
	if (run->result.final_accuracy < accuracy)
		fail_msg("accuracy %g, %g expected", run->result.final_accuracy, accuracy);
}

static bool same_curve(const struct hd_curve *a, const struct hd_curve *b) {
	return a->count == b->count
		&& memcmp(a->points, b->points, a->count * sizeof *a->points) == 0;
}

static void test_reaches_an_accuracy(void **state) {
	struct run run;

	prepare(&run);
	expect(&run, 0.85);
	assert_true(run.result.pushes.applied > 200);
	assert_int_equal(run.result.pushes.applied, run.result.pushes.pushed);
	assert_true(run.result.time_to_accuracy_s > 0.5);
	assert_true(run.result.time_to_accuracy_s < run.result.duration_s);
	assert_true(run.result.updates_to_accuracy > 20);
	/* It begins with what ten classes give away for nothing. */
	assert_true(run.curve.points[0].accuracy < 0.35);
	assert_int_equal(run.curve.points[0].updates, 0);
	hd_curve_fini(&run.curve);
}

static void test_same_seed_same_curve(void **state) {
	struct run a, b, c;

	prepare(&a);
	a.scenario.duration_s = 2;
	a.scenario.loss = 0.01;
	b = a;
	c = a;
	c.config.seed = 2;
	expect(&a, 0.3);
	expect(&b, 0.3);
	expect(&c, 0.3);
	assert_true(a.trace == b.trace);
	assert_true(a.trace != c.trace);
	assert_true(same_curve(&a.curve, &b.curve));
	assert_false(same_curve(&a.curve, &c.curve));
	hd_curve_fini(&a.curve);
	hd_curve_fini(&b.curve);
	hd_curve_fini(&c.curve);
}

/* Sums of several updates are as many steps of their mean: what aggregators added, the checker adds in the same
 * order, and the model is that, bit for bit. */
static void test_sums_are_replayed(void **state) {
	static const uint8_t types[] = {HD_DTYPE_FP32, HD_DTYPE_BF16, HD_DTYPE_FP16};

	for (size_t i = 0; i < sizeof types; i++) {
		struct run run;

		prepare(&run);
		run.scenario.workers = 12;
		run.scenario.link_mbps = 400;
		run.scenario.server_link_mbps = 50;
		run.scenario.aggregators = 1;
		run.scenario.aggregator_link_mbps = 2000;
		run.scenario.loss = 0.002;
		run.scenario.duration_s = 2;
		run.scenario.job.hidden[0] = 256;
		run.scenario.job.payload = types[i];
		run.scenario.job.compute_ms = 5;
		run.scenario.job.tau_max = 64;
		run.scenario.job.learning_rate = 0.005;
		run.scenario.sim.credit_kb = 0;
		run.scenario.sim.depth = 2;
		run.scenario.sim.conditional = 1;
		expect(&run, 0.1);
		print_message(
			"%llu applied, %llu sums of three and more\n",
			(unsigned long long)run.result.pushes.applied,
			(unsigned long long)run.many
		);
		assert_true(run.many >= 5);
		hd_curve_fini(&run.curve);
	}
}

/* Steps of real gradients, in which the order of adding shows in the last bits: the replica's model is the server's,
 * also where aggregators added some of them up. */
static void test_steps_are_replicated(void **state) {
	static const struct {
		uint8_t sync, type;
		uint32_t aggregators;
	} rows[] = {
		{HD_SYNC_ALL, HD_DTYPE_FP32, 0},
		{HD_SYNC_N_BATCH, HD_DTYPE_SPARSE32, 0},
		{HD_SYNC_N, HD_DTYPE_BF16, 1},
	};
	struct run run;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		prepare(&run);
		run.scenario.duration_s = 3;
		run.scenario.workers = 6;
		run.scenario.replica = 1;
		run.scenario.aggregators = rows[i].aggregators;
		run.scenario.aggregator_link_mbps = 1000;
		run.scenario.job.sync = rows[i].sync;
		run.scenario.job.sync_count = rows[i].sync == HD_SYNC_ALL ? 0 : 4;
		run.scenario.job.payload = rows[i].type;
		run.scenario.job.hidden[0] = rows[i].aggregators > 0 ? 256 : 32;
		run.scenario.loss = 0.002;
		expect(&run, 0.1);
		print_message(
			"%llu steps, %llu of the replica's versions were the server's, %llu sums\n",
			(unsigned long long)run.result.pushes.steps,
			(unsigned long long)run.result.equal,
			(unsigned long long)run.result.aggregation.delivered
		);
		assert_true(run.result.pushes.steps >= 20);
		assert_true(run.result.equal > run.result.pushes.steps / 2);
		assert_true(rows[i].aggregators == 0 || run.result.aggregation.delivered >= 10);
		hd_curve_fini(&run.curve);
	}
}

/* One worker that waits for each of its updates is plain SGD: the same losses, to the last bit. */
static void test_one_worker_is_plain_sgd(void **state) {
	const struct hd_sgd sgd = {0.02f, 0.9f, 1e-4f};
	struct hd_jobspec spec = {.seed = 1};
	struct hd_sampler sampler;
	struct hd_model *model;
	struct run run;
	float *params, *momentum, *gradient;
	char error[256];
	uint64_t steps = 0;

	prepare(&run);
	run.scenario.workers = 1;
	run.scenario.duration_s = 3;
	expect(&run, 0.4);
	assert_int_equal(hd_model_create("mlp:32", &train, 256, &model, error, sizeof error), 0);
	params = malloc(hd_model_values(model) * sizeof(float));
	gradient = malloc(hd_model_values(model) * sizeof(float));
	momentum = calloc(hd_model_values(model), sizeof(float));
	assert_true(params && gradient && momentum);
	spec.tensor_count = hd_model_tensor_count(model);
	spec.tensors = calloc(spec.tensor_count, sizeof *spec.tensors);
	assert_non_null(spec.tensors);
	memcpy(spec.tensors, hd_model_tensors(model), spec.tensor_count * sizeof *spec.tensors);
	hd_jobspec_initialize(&spec, params);
	assert_int_equal(hd_sampler_init(&sampler, &train, 0, 1, 32, 1), 0);
	for (uint32_t i = 0; i < run.curve.count; i++) {
		const struct hd_evaluation *e = &run.curve.points[i];
		double accuracy, loss;

		for (; steps < e->updates; steps++) {
			hd_sampler_next(&sampler);
			(void)hd_model_gradient(model, params, sampler.x, sampler.y, 32, gradient);
			(void
			)hd_sgd_apply(params, momentum, gradient, hd_model_values(model), &sgd);
		}
		hd_model_evaluate(model, params, &test, &accuracy, &loss);
		assert_true(accuracy == e->accuracy);
		assert_true(loss == e->loss);
	}
	assert_true(steps > 40);
	hd_sampler_fini(&sampler);
	hd_model_destroy(model);
	hd_curve_fini(&run.curve);
	free(spec.tensors);
	free(params);
	free(gradient);
	free(momentum);
}

/* Weights of late updates, losses, workers that come and go: the model is still what the log replays. */
static void test_weights_and_faults(void **state) {
	struct run run;

	prepare(&run);
	run.scenario.job.staleness_rule = HD_STALENESS_ADADELAY;
	run.scenario.job.staleness_c = 2;
	run.scenario.loss = 0.02;
	run.scenario.sim.depth = 2;
	run.scenario.sim.cancel = 0.3; /* most have left by then: a few of a hundred count */
	run.scenario.event_count = 3;
	run.scenario.events[0]
		= (struct hd_scenario_event){.at_s = 1, .worker = 1, .what = HD_DO_KILL};
	run.scenario.events[1]
		= (struct hd_scenario_event){.at_s = 2, .worker = 1, .what = HD_DO_JOIN};
	run.scenario.events[2]
		= (struct hd_scenario_event){.at_s = 2.5, .worker = 2, .what = HD_DO_LEAVE};
	expect(&run, 0.15);
	assert_true(run.result.pushes.reasons[HD_REASON_CANCELLED] > 0);
	hd_curve_fini(&run.curve);
}

/* The same in 16 bits: weighted, then rounded, then applied in fp32. */
static void test_half_payloads(void **state) {
	for (int dtype = HD_DTYPE_FP16; dtype <= HD_DTYPE_BF16; dtype++) {
		struct run run;

		prepare(&run);
		run.scenario.job.payload = run.scenario.job.pull_payload = (uint8_t)dtype;
		run.scenario.job.staleness_rule = HD_STALENESS_ADADELAY;
		run.scenario.job.staleness_c = 2;
		run.scenario.loss = 0.01;
		run.scenario.sim.depth = 2;
		expect(&run, 0.15);
		hd_curve_fini(&run.curve);
	}
}

/* A random part of each gradient: the rest of the model and of its momentum stays as it is. */
static void test_sparse_payloads(void **state) {
	struct run run;

	prepare(&run);
	run.scenario.job.payload = HD_DTYPE_SPARSE32;
	run.scenario.job.staleness_rule = HD_STALENESS_ADADELAY;
	run.scenario.job.staleness_c = 2;
	run.scenario.loss = 0.01;
	run.scenario.sim.depth = 2;
	expect(&run, 0.1);
	hd_curve_fini(&run.curve);
}

static void test_server_comes_back(void **state) {
	struct run run;

	prepare(&run);
	run.scenario.sim.checkpoint_commits = 20;
	run.scenario.crash_count = 1;
	run.scenario.crashes[0] = (struct hd_scenario_fault
	){.at_s = 2, .for_s = 0.2, .node = {.kind = HD_PLACE_SERVER}};
	expect(&run, 0.7);
	assert_int_equal(run.result.crashes, 1);
	hd_curve_fini(&run.curve);
}

static void test_until_target(void **state) {
	struct run whole, part;

	prepare(&whole);
	part = whole;
	part.training.until_target = true;
	expect(&whole, 0.8);
	expect(&part, 0.8);
	assert_true(part.result.duration_s < whole.result.duration_s);
	assert_true(part.result.time_to_accuracy_s >= whole.result.time_to_accuracy_s);
	assert_true(part.result.time_to_accuracy_s <= whole.result.time_to_accuracy_s);
	hd_curve_fini(&whole.curve);
	hd_curve_fini(&part.curve);
}

/* A commit whose weight is not the one that was used: the checker's replay differs. */
static void lie_weight(void *owner, struct hd_event *event) {
	if (event->kind == HD_EVENT_COMMITTED && hd_version_counter(event->version) == 30)
		event->value = 0.5;
}

static void test_lies_are_seen(void **state) {
	struct run run;

	prepare(&run);
	run.config.tamper = lie_weight;
	go(&run);
	assert_non_null(strstr(run.failure, "is not the sum of its updates"));
	hd_curve_fini(&run.curve);
}

static void expect_refusal(struct run *run, const char *says) {
	struct hd_cluster *cluster;
	char error[256] = "";

	run->config.scenario = &run->scenario;
	run->config.training = &run->training;
	assert_int_equal(hd_cluster_create(&run->config, &cluster, error, sizeof error), -EINVAL);
	if (!strstr(error, says))
		fail_msg("'%s' does not say '%s'", error, says);
}

static void test_refusals(void **state) {
	struct run run;

	prepare(&run);
	run.scenario.job.bytes_of_model = false;
	run.scenario.job.update_bytes = 65536;
	expect_refusal(&run, "job.update_bytes: 65536, but the model has 9640");
	prepare(&run);
	run.scenario.job.hidden[0] = 1000000;
	expect_refusal(&run, "width of hidden layer 1");
	prepare(&run);
	run.scenario.workers = 2000;
	expect_refusal(&run, "workers: 2000, but the data have 1437 rows");
}

static void test_curve(void **state) {
	static const double accuracies[] = {0.1, 0.9, 0.5, 0.7, 0.8, 0.9, 0.85};
	struct hd_curve curve = {0};

	assert_null(hd_curve_reached(&curve, 0));
	assert_true(hd_curve_final(&curve) < 0);
	for (uint32_t i = 0; i < 7; i++)
		assert_int_equal(
			hd_curve_add(
				&curve,
				&(struct hd_evaluation
				){.at_s = i, .updates = (uint64_t)10 * i, .accuracy = accuracies[i]}
			),
			0
		);
	/* Means of three: 0.5, 0.7, 0.667, 0.8, 0.85. */
	assert_true(hd_curve_reached(&curve, 0.49) == &curve.points[2]);
	assert_true(hd_curve_reached(&curve, 0.69) == &curve.points[3]);
	assert_true(hd_curve_reached(&curve, 0.79) == &curve.points[5]);
	assert_null(hd_curve_reached(&curve, 0.86));
	assert_true(hd_curve_final(&curve) > 0.8499 && hd_curve_final(&curve) < 0.8501);
	hd_curve_fini(&curve);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reaches_an_accuracy),
		cmocka_unit_test(test_same_seed_same_curve),
		cmocka_unit_test(test_sums_are_replayed),
		cmocka_unit_test(test_steps_are_replicated),
		cmocka_unit_test(test_one_worker_is_plain_sgd),
		cmocka_unit_test(test_weights_and_faults),
		cmocka_unit_test(test_half_payloads),
		cmocka_unit_test(test_sparse_payloads),
		cmocka_unit_test(test_server_comes_back),
		cmocka_unit_test(test_until_target),
		cmocka_unit_test(test_lies_are_seen),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_curve),
	};
	char error[256];
	int failed;

	if (hd_dataset_open("digits", &train, &test, error, sizeof error) < 0) {
		(void)fprintf(stderr, "data: %s\n", error);
		return EXIT_FAILURE;
	}
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	hd_dataset_fini(&train);
	hd_dataset_fini(&test);
	return failed;
}
