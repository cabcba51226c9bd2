/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *   |<------- duration: pushes, faults ------->|<-- settle: no new pushes, no faults -->|
 *   0                                       stop                           nothing pending
 */
#include "hd_cluster_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETTLE_STEP (10 * HD_MS)
#define FROZEN_STEP HD_MS /* how often the steps of a stopped process are checked */

bool cluster_failed(const struct hd_cluster *cluster) {
	return hd_check_failure(cluster->check);
}

const char *hd_cluster_failure(const struct hd_cluster *cluster) {
	return hd_check_failure(cluster->check);
}

static void run_step(void *owner, hd_ns now) {
	struct step *step = owner;
	struct hd_cluster *cluster = step->cluster;

	if (step->own && hd_sim_node_frozen(cluster->sim, step->process->node))
		cluster_at(cluster, now + FROZEN_STEP, *step);
	else
		step->call(step, now);
	LIST_REMOVE(step, link);
	LIST_INSERT_HEAD(&cluster->spare, step, link);
}

void cluster_at(struct hd_cluster *cluster, hd_ns at, struct step step) {
	struct step *copy = LIST_FIRST(&cluster->spare);

	if (copy)
		LIST_REMOVE(copy, link);
	else
		copy = malloc(sizeof *copy);
	if (!copy) {
		hd_check_fail(cluster->check, "out of memory");
		return;
	}
	*copy = step;
	LIST_INSERT_HEAD(&cluster->steps, copy, link);
	if (hd_sim_at(cluster->sim, at, run_step, copy) < 0)
		hd_check_fail(cluster->check, "out of memory");
}

/* One tensor that is the whole model; with rate 1 the model is minus the sum of its updates. */
static void describe_job(struct hd_cluster *cluster) {
	struct hd_jobspec *spec = &cluster->spec;

	cluster->tensors[0] = (struct hd_tensor){
		.name = "model",
		.dtype = HD_DTYPE_FP32,
		.dimension_count = 1,
		.dimension = {cluster->values},
		.init = HD_INIT_ZERO,
	};
	*spec = (struct hd_jobspec){
		.tenant = "sim",
		.name = "job",
		.seed = 1,
		.optimizer = HD_OPTIMIZER_SGD,
		.learning_rate = 1,
		.staleness_rule = HD_STALENESS_CONSTANT,
		.staleness_c = 1,
		.tau_max = cluster->scenario.job.tau_max,
		.tensor_count = 1,
		.tensors = cluster->tensors,
	};
	spec->div_max = (float)cluster->scenario.div_max;
	spec->sync = cluster->scenario.job.sync;
	spec->sync_count = cluster->scenario.job.sync_count;
	spec->scale_base = cluster->config.scale_base;
	spec->unsealed = cluster->config.unsealed;
	spec->federated = cluster->scenario.job.federated;
	cluster->job = hd_job_id(spec->tenant, spec->name);
}

/* Updates of a step; 0: no limit. */
static uint32_t step_count(const struct hd_scenario_job *job) {
	if (job->sync != HD_SYNC_FEDERATED)
		return job->sync_count;
	return job->federated.late == HD_LATE_DROP ? job->federated.clients : 0;
}

static int create_parts(struct hd_cluster *cluster) {
	const struct hd_scenario *scenario = &cluster->scenario;
	int code = hd_sim_create(cluster->config.seed, &cluster->sim);

	if (code == 0)
		code = hd_check_create(cluster->values, scenario->job.tau_max, &cluster->check);
	if (code == 0)
		hd_check_ranks(cluster->check, cluster->worker_count);
	if (code == 0)
		hd_check_pulls_as(cluster->check, scenario->job.pull_payload);
	if (code == 0 && cluster->training)
		code = training_tell_check(cluster);
	if (code == 0)
		hd_check_scale(cluster->check, cluster->config.scale_base);
	if (code == 0)
		hd_check_steps(
			cluster->check,
			scenario->job.sync,
			step_count(&scenario->job),
			scenario->aggregators == 0 && cluster->config.switch_slots == 0
		);
	if (code == 0 && scenario->job.federated.late == HD_LATE_WEIGHT)
		hd_check_late(
			cluster->check,
			scenario->job.tau_max < HD_LATE_STEPS_MAX ? scenario->job.tau_max :
								    HD_LATE_STEPS_MAX
		);
	if (code == 0)
		code = cluster_add_processes(cluster);
	if (code == 0)
		code = cluster_add_aggregators(cluster);
	if (code == 0)
		code = cluster_add_switch(cluster);
	if (code == 0)
		code = cluster_plan_faults(cluster);
	if (code == 0)
		code = cluster_add_monitors(cluster);
	return code;
}

int hd_cluster_create(
	const struct hd_cluster_config *config,
	struct hd_cluster **cluster,
	char *error,
	size_t error_bytes
) {
	struct hd_cluster *c = calloc(1, sizeof *c);
	int code = 0;

	*error = '\0';
	if (!c)
		return -ENOMEM;
	c->config = *config;
	c->scenario = *config->scenario;
	c->worker_count = c->scenario.workers;
	c->values = c->scenario.job.update_bytes / sizeof(float);
	/* Separate streams, so that one more cancel does not change a link's rate. */
	hd_random_init(&c->random, config->seed ^ UINT64_C(0x636f6d70757465));
	hd_random_init(&c->seeds, config->seed ^ UINT64_C(0x73656564));
	hd_random_init(&c->draws, config->seed ^ UINT64_C(0x6c696e6b73));
	c->key = (struct hd_key){.id = 1, .secret = {1, 2, 3}};
	c->keys = (struct hd_keyring){.count = 1, .keys = &c->key};
	describe_job(c);
	if (config->training)
		code = training_create(c, error, error_bytes);
	if (code == 0)
		code = create_parts(c);
	if (code < 0) {
		const char *why = c->check ? hd_check_failure(c->check) : NULL;

		if (*error == '\0')
			(void)snprintf(error, error_bytes, "%s", why ? why : strerror(-code));
		hd_cluster_destroy(c);
		return code;
	}
	*cluster = c;
	return 0;
}

static void free_steps(struct step_list *list) {
	struct step *step;

	while ((step = LIST_FIRST(list))) {
		LIST_REMOVE(step, link);
		free(step);
	}
}

void hd_cluster_destroy(struct hd_cluster *cluster) {
	if (!cluster)
		return;
	cluster_remove_processes(cluster);
	cluster_remove_aggregators(cluster);
	destroy_switch(&cluster->path_switch);
	cluster_remove_monitors(cluster);
	free_steps(&cluster->steps);
	free_steps(&cluster->spare);
	hd_sim_destroy(cluster->sim);
	hd_check_destroy(cluster->check);
	training_destroy(cluster);
	free(cluster->workers);
	free(cluster->flows);
	free(cluster->link_factor);
	free(cluster->reserved);
	free(cluster);
}

static void run_until(struct hd_cluster *cluster, hd_ns until) {
	while (!cluster_failed(cluster) && hd_sim_advance(cluster->sim, until))
		cluster_inspect(cluster);
	if (hd_sim_failure(cluster->sim))
		hd_check_fail(cluster->check, "%s", hd_sim_failure(cluster->sim));
}

static bool is_enough(const struct hd_cluster *cluster) {
	uint64_t updates = cluster->scenario.sim.updates;

	if (cluster->training && cluster->training->reached
	    && cluster->config.training->until_target)
		return true;
	return updates > 0 && cluster->pushed >= updates;
}

/* Pushes continue for the scenario's time, or until there were enough. */
static void run_busy(struct hd_cluster *cluster) {
	hd_ns end = cluster_ns(cluster->scenario.duration_s);

	while (!cluster_failed(cluster) && !is_enough(cluster) && hd_sim_now(cluster->sim) < end) {
		run_until(cluster, hd_ns_min(end, hd_sim_now(cluster->sim) + SETTLE_STEP));
		training_watch(cluster);
	}
	cluster->stopped_at = hd_sim_now(cluster->sim);
}

/* Workers that wait for a model. */
static uint64_t pulling(const struct hd_cluster *cluster) {
	uint64_t count = 0;

	for (uint32_t i = 0; i < cluster->worker_count; i++)
		count += cluster->workers[i].core && cluster->workers[i].phase == WORKER_PULLING;
	return count;
}

static bool is_settled(const struct hd_cluster *cluster) {
	return hd_check_pending(cluster->check) == 0 && pulling(cluster) == 0;
}

static void run_quiet(struct hd_cluster *cluster) {
	hd_ns end = cluster->stopped_at + cluster_ns(cluster->scenario.sim.settle_s);

	cluster->stopping = true;
	cluster->quiet = true;
	cluster_stop_faults(cluster);
	/* No step waits for a push that will not come. */
	for (uint32_t i = 0; cluster->spec.sync != HD_SYNC_NONE && i < cluster->worker_count; i++)
		app_leave(&cluster->workers[i]);
	while (!cluster_failed(cluster) && !is_settled(cluster) && hd_sim_now(cluster->sim) < end)
		run_until(cluster, hd_sim_now(cluster->sim) + SETTLE_STEP);
	cluster->settled_at = hd_sim_now(cluster->sim);
	hd_check_settled(cluster->check);
	filters_settled(cluster);
	if (pulling(cluster) > 0)
		hd_check_fail(
			cluster->check,
			"%llu pulls have not ended although faults stopped",
			(unsigned long long)pulling(cluster)
		);
}

bool hd_cluster_advance(struct hd_cluster *cluster, hd_ns until) {
	run_until(cluster, until);
	return !cluster_failed(cluster);
}

struct hd_controller *hd_cluster_controller(const struct hd_cluster *cluster) {
	return cluster->controller.core;
}

int hd_cluster_run(struct hd_cluster *cluster) {
	run_busy(cluster);
	run_quiet(cluster);
	if (!cluster_failed(cluster))
		return 0;
	if (cluster->config.explain)
		cluster_explain(cluster);
	return -EILSEQ;
}

static void judge_training(const struct hd_cluster *cluster, struct hd_cluster_result *result) {
	const struct hd_evaluation *hit = NULL;

	result->time_to_accuracy_s = result->final_accuracy = -1;
	if (!cluster->training)
		return;
	hit = hd_curve_reached(&cluster->training->curve, cluster->scenario.job.target_accuracy);
	result->final_accuracy = hd_curve_final(&cluster->training->curve);
	if (!hit)
		return;
	result->time_to_accuracy_s = hit->at_s;
	result->updates_to_accuracy = hit->updates;
}

void hd_cluster_take_curve(struct hd_cluster *cluster, struct hd_curve *curve) {
	*curve = (struct hd_curve){0};
	if (!cluster->training)
		return;
	*curve = cluster->training->curve;
	cluster->training->curve = (struct hd_curve){0};
}

void hd_cluster_result(const struct hd_cluster *cluster, struct hd_cluster_result *result) {
	memset(result, 0, sizeof *result);
	result->duration_s = (double)cluster->stopped_at * 1e-9;
	result->settle_s = (double)(cluster->settled_at - cluster->stopped_at) * 1e-9;
	result->pushes = *hd_check_stats(cluster->check);
	result->estimate_error
		= cluster->error_count ? cluster->error_sum / (double)cluster->error_count : -1;
	result->crashes = cluster->crashes;
	result->lacked = cluster->lacked;
	result->checkpoints = cluster->server.checkpoints;
	result->promotions = cluster->promotions;
	result->followed = cluster->followed;
	result->equal = cluster->equal;
	result->farthest = cluster->farthest;
	if (cluster->scenario.replica && cluster->replica.core)
		result->copies_lost = hd_server_stats(cluster->replica.core)->copies_lost;
	result->network = *hd_sim_stats(cluster->sim);
	cluster_aggregator_stats(cluster, &result->aggregation);
	cluster_switch_stats(cluster, result);
	result->server_link_bytes
		= hd_cluster_link_bytes(cluster, "s1>ps") + hd_cluster_link_bytes(cluster, "ps>s1");
	judge_training(cluster, result);
	filters_result(cluster, result);
	for (uint32_t i = 0; i < cluster->worker_count; i++) {
		const struct worker_process *worker = &cluster->workers[i];

		result->granted_bytes += worker->granted_bytes;
		result->direct_bytes += worker->direct_bytes;
		result->credited_bytes += worker->credited_bytes;
		if (!worker->core)
			continue;
		result->granted_bytes += hd_worker_stats(worker->core)->granted_bytes;
		result->direct_bytes += hd_worker_stats(worker->core)->direct_bytes;
		result->credited_bytes += hd_worker_stats(worker->core)->credited_bytes;
	}
}
