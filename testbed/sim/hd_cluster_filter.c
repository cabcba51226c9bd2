/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers that train behind a significance filter, and the book of what becomes of all that they compute:
 *
 *   computed = applied + held + under way + lost       each worker, each value, to rounding
 *   server's model = initial - rate sum(applied)
 *
 * applied: by the server's commits; lost: with a process that has ended. Filtered updates travel dense, with zeros
 * between, so that the checker replays them as any.
 */
#include "hd_cluster_private.h"
#include "hd_filter.h"
#include "hd_kernels.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDING 1e-5 /* of the sum of all sizes: a rounding of what is held, each step */
#define MODEL_ROUNDING 1e-4 /* of the weight: one each commit */

struct sent {
	LIST_ENTRY(sent) link;
	uint32_t round;
	float *data;
};

struct book {
	struct hd_significance filter;
	double *computed, *applied, *lost, *sizes;
	uint64_t step;
	LIST_HEAD(, sent) sent; /* under way */
};

struct filters {
	struct book *books; /* by worker */
	double *model; /* what the server's should be */
	double *sum; /* room */
	uint32_t step_size; /* of the synchronous step whose members are being told */
	uint64_t returned;
};

static struct book *book_of(const struct worker_process *worker) {
	const struct training *training = worker->process.cluster->training;

	return training && training->filters ? &training->filters->books[worker->rank] : NULL;
}

static int check_job(const struct hd_cluster *cluster, char *error, size_t error_bytes) {
	const struct hd_jobspec *spec = &cluster->spec;
	const char *wrong = NULL;

	if (spec->sync == HD_SYNC_FEDERATED)
		wrong = "job.sync: not federated";
	else if (spec->momentum > 0 || spec->weight_decay > 0)
		wrong = "job.momentum, job.weight_decay: 0";
	else if (cluster->scenario.job.payload != HD_DTYPE_FP32)
		wrong = "job.payload: fp32";
	if (wrong)
		(void)snprintf(error, error_bytes, "%s: with a filter", wrong);
	return wrong ? -EINVAL : 0;
}

static int open_book(const struct hd_cluster *cluster, struct book *book) {
	uint32_t of = cluster->spec.sync == HD_SYNC_NONE ? 1 : cluster->worker_count;
	const struct hd_filter_settings how = {
		.v = cluster->config.training->filter,
		.factor = -cluster->spec.learning_rate / (float)of,
		.block = 1,
		.bridge = 2,
		.always = true,
	};

	book->computed = calloc(cluster->values, sizeof(double));
	book->applied = calloc(cluster->values, sizeof(double));
	book->lost = calloc(cluster->values, sizeof(double));
	book->sizes = calloc(cluster->values, sizeof(double));
	if (!book->computed || !book->applied || !book->lost || !book->sizes)
		return -ENOMEM;
	return hd_filter_init(&book->filter, cluster->values, &how);
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
	int code = check_job(cluster, error, error_bytes);

	if (!(cluster->config.training->filter > 0))
		return 0;
	if (code < 0)
		return code;
	filters = calloc(1, sizeof(*filters));
	if (!filters)
		return -ENOMEM;
	cluster->training->filters = filters;
	filters->books = calloc(cluster->worker_count, sizeof(*filters->books));
	filters->model = calloc(cluster->values, sizeof(double));
	filters->sum = calloc(cluster->values, sizeof(double));
	if (!filters->books || !filters->model || !filters->sum)
		return -ENOMEM;
	for (uint32_t i = 0; code == 0 && i < cluster->worker_count; i++)
		code = open_book(cluster, &filters->books[i]);
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
	for (uint32_t i = 0; filters->books && i < cluster->worker_count; i++) {
		struct book *book = &filters->books[i];
		struct sent *sent, *next;

		for (sent = LIST_FIRST(&book->sent); sent; sent = next) {
			next = LIST_NEXT(sent, link);
			free(sent->data);
			free(sent);
		}
		hd_filter_fini(&book->filter);
		free(book->computed);
		free(book->applied);
		free(book->lost);
		free(book->sizes);
	}
	free(filters->books);
	free(filters->model);
	free(filters->sum);
	free(filters);
}

static void add(double *sum, const float *x, uint64_t values) {
	for (uint64_t i = 0; i < values; i++)
		sum[i] += (double)x[i];
}

void filter_gone(struct worker_process *worker) {
	struct book *book = book_of(worker);
	uint64_t values = worker->process.cluster->values;

	if (!book)
		return;
	add(book->lost, book->filter.held, values);
	if (worker->ready)
		add(book->lost, worker->ready->data, values);
	hd_filter_clear(&book->filter);
	book->step = 0;
}

void filter_step(struct worker_process *worker, float *gradient) {
	struct book *book = book_of(worker);

	if (!book)
		return;
	add(book->computed, gradient, worker->process.cluster->values);
	for (uint64_t i = 0; i < worker->process.cluster->values; i++)
		book->sizes[i] += fabs((double)gradient[i]);
	(void)hd_filter_step(&book->filter, worker->model, gradient, ++book->step, false);
}

void filter_pulled(struct worker_process *worker) {
	const struct book *book = book_of(worker);

	if (book)
		hd_filter_reapply(&book->filter, worker->model);
}

static struct sent *find(const struct book *book, uint32_t round) {
	struct sent *sent;

	LIST_FOREACH (sent, &book->sent, link)
		if (sent->round == round)
			return sent;
	return NULL;
}

void filter_pushed(struct worker_process *worker, uint32_t round, const float *data) {
	struct hd_cluster *cluster = worker->process.cluster;
	struct book *book = book_of(worker);
	struct sent *sent;

	if (!book)
		return;
	sent = find(book, round);
	if (sent) { /* a former life's, of which nobody knows any more */
		add(book->lost, sent->data, cluster->values);
		forget(sent);
	}
	sent = calloc(1, sizeof(*sent));
	if (sent)
		sent->data = malloc(cluster->values * sizeof(float));
	if (!sent || !sent->data) {
		free(sent);
		hd_check_fail(cluster->check, "out of memory");
		return;
	}
	sent->round = round;
	memcpy(sent->data, data, cluster->values * sizeof(float));
	LIST_INSERT_HEAD(&book->sent, sent, link);
}

void filter_returned(struct worker_process *worker, uint32_t round) {
	struct book *book = book_of(worker);
	struct sent *sent = book ? find(book, round) : NULL;

	if (!sent)
		return;
	hd_filter_put_back(&book->filter, sent->data);
	worker->process.cluster->training->filters->returned++;
	forget(sent);
}

void filter_given_up(struct worker_process *worker) {
	struct book *book = book_of(worker);

	if (book && worker->ready)
		hd_filter_put_back(&book->filter, worker->ready->data);
}

void filter_committed(struct hd_cluster *cluster, const struct hd_event *event) {
	struct filters *filters = cluster->training ? cluster->training->filters : NULL;
	double by = (double)cluster->spec.learning_rate;
	struct sent *sent;

	if (!filters || event->worker >= cluster->worker_count)
		return;
	if (filters->step_size == 0)
		filters->step_size = event->more + 1u;
	by *= cluster->spec.sync == HD_SYNC_NONE ? event->value : 1.0 / filters->step_size;
	if (event->more == 0)
		filters->step_size = 0;
	sent = find(&filters->books[event->worker], event->round);
	if (!sent) {
		hd_check_fail(
			cluster->check,
			"worker %u round %u: applied, and it was given back, or never sent",
			event->worker,
			event->round
		);
		return;
	}
	add(filters->books[event->worker].applied, sent->data, cluster->values);
	for (uint64_t i = 0; i < cluster->values; i++)
		filters->model[i] -= by * (double)sent->data[i];
	forget(sent);
}

static void check_book(struct hd_cluster *cluster, uint32_t rank) {
	struct filters *filters = cluster->training->filters;
	const struct book *book = &filters->books[rank];
	const struct buffer *ready = cluster->workers[rank].ready;
	const struct sent *sent;

	for (uint64_t i = 0; i < cluster->values; i++)
		filters->sum[i] = book->applied[i] + book->lost[i] + (double)book->filter.held[i];
	LIST_FOREACH (sent, &book->sent, link)
		add(filters->sum, sent->data, cluster->values);
	if (ready)
		add(filters->sum, ready->data, cluster->values);
	for (uint64_t i = 0; i < cluster->values; i++)
		if (!(fabs(filters->sum[i] - book->computed[i]) <= ROUNDING * book->sizes[i])) {
			hd_check_fail(
				cluster->check,
				"worker %u: of value %llu %.9g was computed, %.9g is applied, held, under way or lost",
				rank,
				(unsigned long long)i,
				book->computed[i],
				filters->sum[i]
			);
			return;
		}
}

void filters_inspect(struct hd_cluster *cluster) {
	struct filters *filters = cluster->training ? cluster->training->filters : NULL;
	const float *model = NULL;
	uint64_t values;

	if (!filters || filters->step_size != 0)
		return;
	for (uint32_t i = 0; i < cluster->worker_count; i++)
		check_book(cluster, i);
	if (cluster->present->core)
		model = hd_server_model(cluster->present->core, cluster->job, &values);
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

void filters_result(const struct hd_cluster *cluster, struct hd_cluster_result *result) {
	const struct filters *filters = cluster->training ? cluster->training->filters : NULL;

	for (uint32_t i = 0; filters && i < cluster->worker_count; i++) {
		result->held_norm += sqrt(filters->books[i].filter.held2);
		result->filtered += filters->books[i].step;
	}
	result->returned = filters ? filters->returned : 0;
}
