/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Real training inside the simulation: the trainer's model, minibatches and gradients, between the pulls and pushes of
 * the simulated workers. A gradient is computed when its step ends in virtual time (its model does not change before);
 * evaluations read the server's model.
 *
 *   pulled model --(compute_ms later)--> hd_model_gradient(next minibatch) --> push --> server: SGD
 *   every 250 ms: server's model --> hd_model_evaluate(test set) --> curve
 */
#include "hd_cluster_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVALUATION_ROWS 256 /* at once: as the demo's observer */

static int create_model(struct hd_cluster *cluster, char *error, size_t error_bytes) {
	const struct hd_scenario_job *job = &cluster->scenario.job;
	char text[16 + 8 * HD_SCENARIO_LAYERS_MAX];
	size_t n = (size_t)snprintf(text, sizeof text, "%s", job->model);

	if (strcmp(job->model, "mlp") == 0)
		for (uint32_t i = 0; i < job->hidden_count; i++)
			n += (size_t
			)snprintf(text + n, sizeof text - n, "%c%u", i ? ',' : ':', job->hidden[i]);
	return hd_model_create(
		text,
		cluster->config.training->train,
		job->batch > EVALUATION_ROWS ? job->batch : EVALUATION_ROWS,
		&cluster->training->model,
		error,
		error_bytes
	);
}

/* As heddle-train describes it. */
static void describe_job(struct hd_cluster *cluster) {
	const struct hd_scenario_job *job = &cluster->scenario.job;
	struct hd_model *model = cluster->training->model;
	struct hd_jobspec *spec = &cluster->spec;

	spec->seed = cluster->config.seed;
	spec->learning_rate = (float)job->learning_rate;
	spec->momentum = (float)job->momentum;
	spec->weight_decay = (float)job->weight_decay;
	spec->staleness_rule = job->staleness_rule;
	spec->staleness_c = (float)job->staleness_c;
	spec->tensor_count = hd_model_tensor_count(model);
	spec->tensors = cluster->tensors;
	memcpy(cluster->tensors,
	       hd_model_tensors(model),
	       spec->tensor_count * sizeof *cluster->tensors);
}

/* Checks that the scenario fits model and data. */
static int check_sizes(struct hd_cluster *cluster, char *error, size_t error_bytes) {
	struct hd_scenario_job *job = &cluster->scenario.job;
	uint64_t values = hd_model_values(cluster->training->model);
	uint32_t rows = cluster->config.training->train->rows;

	if (job->payload == HD_DTYPE_FIXED32) {
		(void)snprintf(
			error,
			error_bytes,
			"job.payload: fixed32 cannot be replayed: not with --train"
		);
		return -EINVAL;
	}
	if (rows < cluster->worker_count) {
		(void)snprintf(
			error,
			error_bytes,
			"workers: %u, but the data have %u rows",
			cluster->worker_count,
			rows
		);
		return -EINVAL;
	}
	if (!job->bytes_of_model && job->update_bytes != values * sizeof(float)) {
		(void)snprintf(
			error,
			error_bytes,
			"job.update_bytes: %llu, but the model has %llu (leave it out to train)",
			(unsigned long long)job->update_bytes,
			(unsigned long long)values * sizeof(float)
		);
		return -EINVAL;
	}
	job->update_bytes = values * sizeof(float);
	cluster->values = values;
	return 0;
}

int training_create(struct hd_cluster *cluster, char *error, size_t error_bytes) {
	struct training *training = calloc(1, sizeof *training);
	int code;

	if (!training)
		return -ENOMEM;
	cluster->training = training;
	training->samplers = calloc(cluster->worker_count, sizeof *training->samplers);
	if (!training->samplers)
		return -ENOMEM;
	code = create_model(cluster, error, error_bytes);
	if (code == 0)
		code = check_sizes(cluster, error, error_bytes);
	if (code == 0)
		describe_job(cluster);
	return code == 0 ? filters_create(cluster, error, error_bytes) : code;
}

int training_tell_check(struct hd_cluster *cluster) {
	const struct hd_jobspec *spec = &cluster->spec;
	const struct hd_sgd sgd = {spec->learning_rate, spec->momentum, spec->weight_decay};
	float *initial = malloc(cluster->values * sizeof(float));
	int code;

	if (!initial)
		return -ENOMEM;
	hd_jobspec_initialize(spec, initial);
	code = hd_check_train(cluster->check, initial, &sgd);
	free(initial);
	return code;
}

void training_destroy(struct hd_cluster *cluster) {
	struct training *training = cluster->training;

	if (!training)
		return;
	for (uint32_t i = 0; training->samplers && i < cluster->worker_count; i++)
		hd_sampler_fini(&training->samplers[i]);
	free(training->samplers);
	filters_destroy(cluster);
	hd_curve_fini(&training->curve);
	hd_model_destroy(training->model);
	free(training);
}

int training_start_worker(struct worker_process *worker) {
	struct hd_cluster *cluster = worker->process.cluster;
	struct hd_sampler *sampler = &cluster->training->samplers[worker->rank];

	hd_sampler_fini(sampler);
	return hd_sampler_init(
		sampler,
		cluster->config.training->train,
		worker->rank,
		cluster->worker_count,
		cluster->scenario.job.batch,
		cluster->config.seed
	);
}

void training_gradient(struct worker_process *worker, float *gradient) {
	struct training *training = worker->process.cluster->training;
	struct hd_sampler *sampler = &training->samplers[worker->rank];

	hd_sampler_next(sampler);
	(void)hd_model_gradient(
		training->model, worker->model, sampler->x, sampler->y, sampler->batch, gradient
	);
	filter_step(worker, gradient);
}

static void evaluate(struct hd_cluster *cluster, const float *model) {
	struct training *training = cluster->training;
	struct hd_evaluation now = {
		.at_s = (double)hd_sim_now(cluster->sim) * 1e-9,
		.updates = hd_version_counter(training->version),
	};
	struct hd_curve *curve = &training->curve;
	struct hd_curve last;

	hd_model_evaluate(
		training->model, model, cluster->config.training->test, &now.accuracy, &now.loss
	);
	if (hd_curve_add(curve, &now) < 0) {
		hd_check_fail(cluster->check, "no room for another evaluation");
		return;
	}
	if (curve->count < HD_CURVE_MEAN)
		return;
	last = (struct hd_curve
	){.points = curve->points + curve->count - HD_CURVE_MEAN, .count = HD_CURVE_MEAN};
	if (hd_curve_reached(&last, cluster->scenario.job.target_accuracy))
		training->reached = true;
}

void training_watch(struct hd_cluster *cluster) {
	struct training *training = cluster->training;
	hd_version version;
	const float *model;
	uint64_t values;

	if (!training || hd_sim_now(cluster->sim) < training->next || !cluster->present->core)
		return;
	training->next = hd_sim_now(cluster->sim) + HD_CURVE_EVERY_MS * HD_MS;
	filters_inspect(cluster);
	model = hd_server_model(cluster->present->core, cluster->job, &values);
	version = hd_server_version(cluster->present->core, cluster->job);
	if (!model || (training->evaluated && version == training->version))
		return; /* the observer, too, evaluates new versions only */
	training->evaluated = true;
	training->version = version;
	evaluate(cluster, model);
}
