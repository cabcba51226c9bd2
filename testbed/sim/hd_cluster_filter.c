/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers that train behind a significance filter, and an account of all values that they compute:
 *
 *   computed = applied - twice + held + in flight + lost       each worker, each value, to rounding
 *   server's model = initial - rate sum(applied)
 *
 * applied: by the server's commits; lost: with a process that has ended. When a server comes back, or a replica
 * replaces it, at an older version, values applied since then are in flight again, until their worker has them applied
 * again or returned. The replica may also bring back a history that a server, restarted without it, had lost: its
 * commits are applied again; twice counts values that such a server had returned to its worker, before or after. In the
 * end nothing is in flight except values lost with a server or a worker. Filtered updates are dense on the wire, with
 * zeros between, so the checker replays them like any other.
 */
#include "hd_cluster_private.h"
#include "hd_filter.h"
#include "hd_kernels.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDING 1e-5 /* of the sum of all magnitudes: one rounding of held values in each step */
#define MODEL_ROUNDING 1e-4 /* of the weight: one in each commit */
#define COMMITS_MAX 8 /* of one update: each in another history */
#define HISTORY_BYTES_MAX (UINT64_C(4) << 30) /* of updates that a lost server may undo */

struct commit {
	hd_version version;
	double by; /* multiple of the update that it took from the model */
};

struct sent {
	LIST_ENTRY(sent) link;
	uint32_t round, commit_count;
	struct commit commits[COMMITS_MAX]; /* in the present history or a lost one */
	const struct commit *applied; /* in the present history; NULL: in flight, or returned */
	bool astray; /* its worker has ended, or its commit was undone: it may stay in flight */
	bool former; /* a later process of its worker uses this round now */
	bool returned; /* to its worker, after its commits were lost: held, or in another update */
	float *data;
};

struct sums {
	struct hd_significance filter;
	double *computed, *applied, *twice, *lost, *sizes;
	uint64_t step;
	LIST_HEAD(, sent)
	sent; /* in flight; if a server may lose its history, also committed ones */
};

struct filters {
	struct sums *all_sums; /* by worker */
	double *model; /* the expected model of the server */
	double *sum; /* scratch */
	/* Of the synchronous step whose updates are being reported: by the job's server, by a retired one. */
	uint32_t step_size, lost_step_size;
	bool mortal; /* the job's server may lose applied updates */
	uint64_t history_bytes; /* memory kept for that */
	uint64_t returned, undone, regained, doubled, revived;
};

static struct sums *sums_of(const struct worker_process *worker) {
	const struct training *training = worker->process.cluster->training;

	return training && training->filters ? &training->filters->all_sums[worker->rank] : NULL;
}

static int check_job(const struct hd_cluster *cluster, char *error, size_t error_bytes) {
	const struct hd_jobspec *spec = &cluster->spec;
	const char *wrong = NULL;

	if (spec->sync == HD_SYNC_FEDERATED)
		wrong = "job.sync: must not be federated";
	else if (spec->momentum > 0 || spec->weight_decay > 0)
		wrong = "job.momentum, job.weight_decay: must be 0";
	else if (cluster->scenario.job.payload != HD_DTYPE_FP32)
		wrong = "job.payload: must be fp32";
	if (wrong)
		(void)snprintf(error, error_bytes, "%s with a filter", wrong);
	return wrong ? -EINVAL : 0;
}

/* Whether a fault of this scenario ends or replaces a server. */
static bool servers_end(const struct hd_scenario *scenario) {
	bool end = scenario->replica > 0;

	for (uint32_t i = 0; i < scenario->crash_count; i++)
		end |= scenario->crashes[i].node.kind == HD_PLACE_SERVER;
	for (uint32_t i = 0; i < scenario->node_event_count; i++)
		end |= scenario->node_events[i].node.kind == HD_PLACE_SERVER;
	return end;
}

static int open_sums(const struct hd_cluster *cluster, struct sums *sums) {
	uint32_t of = cluster->spec.sync == HD_SYNC_NONE ? 1 : cluster->worker_count;
	const struct hd_filter_settings how = {
		.v = cluster->config.training->filter,
		.factor = -cluster->spec.learning_rate / (float)of,
		.block = 1,
		.bridge = 2,
		.always = true,
	};

	sums->computed = calloc(cluster->values, sizeof(double));
	sums->applied = calloc(cluster->values, sizeof(double));
	sums->twice = calloc(cluster->values, sizeof(double));
	sums->lost = calloc(cluster->values, sizeof(double));
	sums->sizes = calloc(cluster->values, sizeof(double));
	if (!sums->computed || !sums->applied || !sums->twice || !sums->lost || !sums->sizes)
		return -ENOMEM;
	return hd_filter_init(&sums->filter, cluster->values, &how);
}

static int copy_initial(const struct hd_cluster *cluster, double *model) {
	float *initial = malloc(cluster->values * sizeof(float));

	if (!initial)
		return -ENOMEM;
	hd_jobspec_initialize(&cluster->spec, initial);
	for (uint64_t i = 0; i < cluster->values; i++)
		model[i] = (double)initial[i];
	free(initial);
	return 0;
}

int filters_create(struct hd_cluster *cluster, char *error, size_t error_bytes) {
	struct filters *filters;
	int code;

	if (!(cluster->config.training->filter > 0))
		return 0;
	code = check_job(cluster, error, error_bytes);
	if (code < 0)
		return code;
	filters = calloc(1, sizeof *filters);
	if (!filters)
		return -ENOMEM;
	cluster->training->filters = filters;
	filters->mortal = servers_end(&cluster->scenario);
	filters->all_sums = calloc(cluster->worker_count, sizeof *filters->all_sums);
	filters->model = calloc(cluster->values, sizeof(double));
	filters->sum = calloc(cluster->values, sizeof(double));
	if (!filters->all_sums || !filters->model || !filters->sum)
		return -ENOMEM;
	for (uint32_t i = 0; code == 0 && i < cluster->worker_count; i++)
		code = open_sums(cluster, &filters->all_sums[i]);
	return code < 0 ? code : copy_initial(cluster, filters->model);
}

static void forget(struct sent *sent) {
	LIST_REMOVE(sent, link);
	free(sent->data);
	free(sent);
}

void filters_destroy(struct hd_cluster *cluster) {
	struct filters *filters = cluster->training->filters;

	if (!filters)
		return;
	for (uint32_t i = 0; filters->all_sums && i < cluster->worker_count; i++) {
		struct sums *sums = &filters->all_sums[i];
		struct sent *sent, *next;

		for (sent = LIST_FIRST(&sums->sent); sent; sent = next) {
			next = LIST_NEXT(sent, link);
			free(sent->data);
			free(sent);
		}
		hd_filter_fini(&sums->filter);
		free(sums->computed);
		free(sums->applied);
		free(sums->twice);
		free(sums->lost);
		free(sums->sizes);
	}
	free(filters->all_sums);
	free(filters->model);
	free(filters->sum);
	free(filters);
}

static void add_times(double *sum, double by, const float *x, uint64_t values) {
	for (uint64_t i = 0; i < values; i++)
		sum[i] += by * (double)x[i];
}

static void add(double *sum, const float *x, uint64_t values) {
	add_times(sum, 1, x, values);
}

void filter_gone(struct worker_process *worker) {
	struct sums *sums = sums_of(worker);
	uint64_t values = worker->process.cluster->values;
	struct sent *sent;

	if (!sums)
		return;
	add(sums->lost, sums->filter.held, values);
	if (worker->ready)
		add(sums->lost, worker->ready->data, values);
	LIST_FOREACH (sent, &sums->sent, link)
		sent->astray = true;
	hd_filter_clear(&sums->filter);
	sums->step = 0;
}

void filter_step(struct worker_process *worker, float *gradient) {
	struct sums *sums = sums_of(worker);

	if (!sums)
		return;
	add(sums->computed, gradient, worker->process.cluster->values);
	for (uint64_t i = 0; i < worker->process.cluster->values; i++)
		sums->sizes[i] += fabs((double)gradient[i]);
	/* A machine that is taken away holds nothing back, nor does a worker that leaves. */
	worker->flushed = worker->last;
	(void)hd_filter_step(
		&sums->filter,
		worker->model,
		gradient,
		++sums->step,
		worker->preempted || worker->last
	);
}

void filter_leave(struct worker_process *worker) {
	if (sums_of(worker) && worker->core)
		worker->last = true;
	else
		app_leave(worker);
}

void filter_pulled(struct worker_process *worker) {
	const struct sums *sums = sums_of(worker);

	if (sums)
		hd_filter_reapply(&sums->filter, worker->model);
}

static struct sent *find(const struct sums *sums, uint32_t round) {
	struct sent *sent;

	LIST_FOREACH (sent, &sums->sent, link)
		if (sent->round == round && !sent->former)
			return sent;
	return NULL;
}

void filter_pushed(struct worker_process *worker, uint32_t round, const float *data) {
	struct hd_cluster *cluster = worker->process.cluster;
	struct sums *sums = sums_of(worker);
	struct sent *sent;

	if (!sums)
		return;
	sent = find(sums, round);
	/* Of a former process, which its server does not know. Another server may bring it back. */
	if (sent && sent->commit_count > 0) {
		sent->former = true;
	} else if (sent) {
		if (!sent->returned)
			add(sums->lost, sent->data, cluster->values);
		forget(sent);
	}
	sent = calloc(1, sizeof *sent);
	if (sent)
		sent->data = malloc(cluster->values * sizeof(float));
	if (!sent || !sent->data) {
		free(sent);
		hd_check_fail(cluster->check, "out of memory");
		return;
	}
	sent->round = round;
	memcpy(sent->data, data, cluster->values * sizeof(float));
	LIST_INSERT_HEAD(&sums->sent, sent, link);
}

/* It is in the model, and its worker got it back. */
static void count_twice(struct hd_cluster *cluster, struct sums *sums, const struct sent *sent) {
	struct filters *filters = cluster->training->filters;

	add(sums->twice, sent->data, cluster->values);
	filters->doubled++;
	filters->revived += cluster->revived;
	if (!cluster->begun_alone && !cluster->revived)
		hd_check_fail(
			cluster->check,
			"worker %u round %u: in the model, and was given back by a server that the "
			"controller had answered",
			(unsigned)(sums - filters->all_sums),
			sent->round
		);
}

void filter_returned(struct worker_process *worker, uint32_t round) {
	struct hd_cluster *cluster = worker->process.cluster;
	struct sums *sums = sums_of(worker);
	struct sent *sent = sums ? find(sums, round) : NULL;

	if (!sent)
		return;
	if (sent->returned
	    || (sent->applied && !hd_check_outcome_apart(cluster->check, worker->rank, round))) {
		hd_check_fail(
			cluster->check,
			"worker %u round %u: given back, and it %s",
			worker->rank,
			round,
			sent->returned ? "was before" : "is in the model"
		);
		return;
	}
	hd_filter_put_back(&sums->filter, sent->data);
	cluster->training->filters->returned++;
	sent->returned = true;
	if (sent->applied)
		count_twice(cluster, sums, sent);
	if (sent->commit_count == 0)
		forget(sent);
}

void filter_given_up(struct worker_process *worker) {
	struct sums *sums = sums_of(worker);

	if (sums && worker->ready)
		hd_filter_put_back(&sums->filter, worker->ready->data);
}

void filter_unknown(struct worker_process *worker, uint32_t round) {
	struct sums *sums = sums_of(worker);
	struct sent *sent = sums ? find(sums, round) : NULL;

	if (sent)
		sent->astray = true;
}

static void
apply(struct hd_cluster *cluster, struct sums *sums, struct sent *sent, const struct commit *commit
) {
	struct filters *filters = cluster->training->filters;

	sent->applied = commit;
	add(sums->applied, sent->data, cluster->values);
	add_times(filters->model, -commit->by, sent->data, cluster->values);
	if (sent->returned)
		count_twice(cluster, sums, sent);
}

static void undo(struct hd_cluster *cluster, struct sums *sums, struct sent *sent) {
	struct filters *filters = cluster->training->filters;

	add_times(sums->applied, -1, sent->data, cluster->values);
	add_times(filters->model, sent->applied->by, sent->data, cluster->values);
	if (sent->returned)
		add_times(sums->twice, -1, sent->data, cluster->values);
	sent->applied = NULL;
	sent->astray = true;
	filters->undone++;
}

/* The multiple of the update that a commit takes from the model. step_size: of its step, 0 before the first. */
static double
step_by(const struct hd_cluster *cluster, const struct hd_event *event, uint32_t *step_size) {
	double by = (double)cluster->spec.learning_rate;

	if (*step_size == 0)
		*step_size = event->more + 1u;
	by *= cluster->spec.sync == HD_SYNC_NONE ? event->value : 1.0 / *step_size;
	if (event->more == 0)
		*step_size = 0;
	return by;
}

/* Stores a commit that may be undone, or come back. NULL: too many. */
static const struct commit *
remember(struct hd_cluster *cluster, struct sent *sent, struct commit commit) {
	struct filters *filters = cluster->training->filters;

	if (sent->commit_count == COMMITS_MAX) {
		hd_check_fail(
			cluster->check,
			"round %u: applied in more than %u histories",
			sent->round,
			COMMITS_MAX
		);
		return NULL;
	}
	if (sent->commit_count == 0 && filters->mortal)
		filters->history_bytes += cluster->values * sizeof(float);
	if (filters->history_bytes > HISTORY_BYTES_MAX)
		hd_check_fail(
			cluster->check,
			"filtered updates of a server that may die: more than %llu MiB to remember",
			(unsigned long long)(HISTORY_BYTES_MAX >> 20)
		);
	sent->commits[sent->commit_count] = commit;
	return &sent->commits[sent->commit_count++];
}

void filter_committed(struct hd_cluster *cluster, const struct hd_event *event) {
	struct filters *filters = cluster->training ? cluster->training->filters : NULL;
	const struct commit *commit;
	struct sent *sent;
	double by;

	if (!filters || event->worker >= cluster->worker_count)
		return;
	by = step_by(cluster, event, &filters->step_size);
	sent = find(&filters->all_sums[event->worker], event->round);
	if (!sent || sent->applied || sent->returned) {
		hd_check_fail(
			cluster->check,
			"worker %u round %u: applied, and it was %s",
			event->worker,
			event->round,
			!sent || sent->returned ? "given back, or never sent" : "applied before"
		);
		return;
	}
	commit = remember(cluster, sent, (struct commit){event->version, by});
	if (!commit)
		return;
	apply(cluster, &filters->all_sums[event->worker], sent, commit);
	if (!filters->mortal) /* without undo, the committed update is not needed any more */
		forget(sent);
}

/* That server may come back with it, from a checkpoint. */
void filter_lost(struct hd_cluster *cluster, const struct hd_event *event) {
	struct filters *filters = cluster->training ? cluster->training->filters : NULL;
	struct sent *sent;
	double by;

	if (!filters || event->kind != HD_EVENT_COMMITTED || event->worker >= cluster->worker_count)
		return;
	by = step_by(cluster, event, &filters->lost_step_size);
	sent = find(&filters->all_sums[event->worker], event->round);
	if (!sent)
		return;
	sent->astray = true;
	(void)remember(cluster, sent, (struct commit){event->version, by});
}

/* Its commit in the present history; NULL: it is not in the model. */
static const struct commit *
present_commit(const struct hd_cluster *cluster, const struct sent *sent) {
	for (uint32_t i = 0; i < sent->commit_count; i++)
		if (hd_check_led_to(cluster->check, sent->commits[i].version))
			return &sent->commits[i];
	return NULL;
}

static void restore(struct hd_cluster *cluster, uint32_t worker, struct sent *sent) {
	struct sums *sums = &cluster->training->filters->all_sums[worker];
	const struct commit *commit = present_commit(cluster, sent);

	if (commit == sent->applied)
		return;
	if (sent->applied)
		undo(cluster, sums, sent);
	if (!commit)
		return;
	apply(cluster, sums, sent, commit);
	cluster->training->filters->regained++;
}

void filters_restored(struct hd_cluster *cluster) {
	struct filters *filters = cluster->training ? cluster->training->filters : NULL;
	struct sent *sent;

	for (uint32_t i = 0; filters && i < cluster->worker_count; i++)
		LIST_FOREACH (sent, &filters->all_sums[i].sent, link)
			restore(cluster, i, sent);
	if (filters)
		filters->step_size = filters->lost_step_size = 0;
}

static void check_sums(struct hd_cluster *cluster, uint32_t rank) {
	struct filters *filters = cluster->training->filters;
	const struct sums *sums = &filters->all_sums[rank];
	const struct buffer *ready = cluster->workers[rank].ready;
	const struct sent *sent;

	for (uint64_t i = 0; i < cluster->values; i++)
		filters->sum[i] = sums->applied[i] - sums->twice[i] + sums->lost[i]
			+ (double)sums->filter.held[i];
	LIST_FOREACH (sent, &sums->sent, link)
		if (!sent->applied && !sent->returned)
			add(filters->sum, sent->data, cluster->values);
	if (ready)
		add(filters->sum, ready->data, cluster->values);
	for (uint64_t i = 0; i < cluster->values; i++)
		if (!(fabs(filters->sum[i] - sums->computed[i]) <= ROUNDING * sums->sizes[i])) {
			hd_check_fail(
				cluster->check,
				"worker %u: of value %llu %.9g was computed, %.9g is applied, held, in flight or lost",
				rank,
				(unsigned long long)i,
				sums->computed[i],
				filters->sum[i]
			);
			return;
		}
}

/* NULL: it has none at the moment, or is a former server's copy that does not know its role. */
static const float *present_model(const struct hd_cluster *cluster) {
	const struct hd_server *server = cluster->present->core;
	uint64_t values;

	if (!server
	    || hd_check_shows_other(cluster->check, hd_server_version(server, cluster->job)))
		return NULL;
	return hd_server_model(server, cluster->job, &values);
}

void filters_inspect(struct hd_cluster *cluster) {
	struct filters *filters = cluster->training ? cluster->training->filters : NULL;
	const float *model;

	if (!filters || filters->step_size != 0)
		return;
	for (uint32_t i = 0; i < cluster->worker_count; i++)
		check_sums(cluster, i);
	model = present_model(cluster);
	for (uint64_t i = 0; model && i < cluster->values; i++)
		if (!(fabs(filters->model[i] - (double)model[i]) <= MODEL_ROUNDING
			      * (fabs(filters->model[i]) + (double)cluster->spec.learning_rate))) {
			hd_check_fail(
				cluster->check,
				"the server has %.9g for value %llu, what was applied makes %.9g",
				(double)model[i],
				(unsigned long long)i,
				filters->model[i]
			);
			return;
		}
}

void filters_settled(struct hd_cluster *cluster) {
	const struct filters *filters = cluster->training ? cluster->training->filters : NULL;
	const struct sent *sent;

	filters_inspect(cluster);
	for (uint32_t i = 0; filters && i < cluster->worker_count; i++)
		LIST_FOREACH (sent, &filters->all_sums[i].sent, link)
			if (!sent->applied && !sent->returned && !sent->astray)
				hd_check_fail(
					cluster->check,
					"worker %u round %u: neither applied nor given back in the end",
					i,
					sent->round
				);
}

void filters_result(const struct hd_cluster *cluster, struct hd_cluster_result *result) {
	const struct filters *filters = cluster->training ? cluster->training->filters : NULL;

	for (uint32_t i = 0; filters && i < cluster->worker_count; i++) {
		result->held_norm += sqrt(filters->all_sums[i].filter.held2);
		result->filtered += filters->all_sums[i].step;
	}
	result->returned = filters ? filters->returned : 0;
	result->undone = filters ? filters->undone : 0;
	result->regained = filters ? filters->regained : 0;
	result->doubled = filters ? filters->doubled : 0;
	result->revived = filters ? filters->revived : 0;
	result->flushed = cluster->flushed;
}
