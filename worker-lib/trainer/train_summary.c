/* SPDX-License-Identifier: BSD-3-Clause */
#include "train_far.h"
#include "train_summary.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <zlib.h>

#define CRC_BYTES 16

void train_summary_push(struct train_summary *summary, const struct heddle_status *status) {
	uint32_t reason = (uint32_t)status->reason % REASONS_MAX;
	double before = summary->delay_mean;

	if (status->state == HEDDLE_STATE_DROPPED) {
		summary->dropped++;
		summary->dropped_by[reason]++;
		return;
	}
	if (status->state != HEDDLE_STATE_APPLIED && status->state != HEDDLE_STATE_DURABLE) {
		summary->failed++;
		summary->failed_by[reason]++;
		return;
	}
	summary->applied++;
	summary->push_bytes += status->bytes;
	if (status->granted)
		summary->granted_bytes += status->bytes;
	else
		summary->direct_bytes += status->bytes;
	summary->delay_mean += ((double)status->delay - before) / (double)summary->applied;
	summary->delay_m2
		+= ((double)status->delay - before) * ((double)status->delay - summary->delay_mean);
	if (status->delay > summary->delay_max)
		summary->delay_max = status->delay;
}

static double cpu_seconds(void) {
	struct rusage usage = {0};

	(void)getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
		+ (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/* The largest resident memory. */
static double peak_mb(void) {
	struct rusage usage = {0};

	(void)getrusage(RUSAGE_SELF, &usage);
	return (double)usage.ru_maxrss / 1024.0;
}

static json_t *by_reason(const uint64_t counts[REASONS_MAX]) {
	json_t *object = json_object();

	for (int i = 0; i < REASONS_MAX; i++) {
		if (counts[i] > 0)
			(void)json_object_set_new(
				object,
				heddle_reason_name((enum heddle_reason)i),
				json_integer((json_int_t)counts[i])
			);
	}
	return object;
}

static json_t *staleness_of(const struct train_summary *summary, uint32_t bound) {
	double count = (double)summary->applied;

	return json_pack(
		"{s:f, s:f, s:i, s:i, s:I}",
		"mean",
		summary->delay_mean,
		"variance",
		summary->applied > 1 ? summary->delay_m2 / (count - 1.0) : 0.0,
		"max",
		(int)summary->delay_max,
		"bound",
		(int)bound,
		"count",
		(json_int_t)summary->applied
	);
}

static json_t *pulls_of(const struct train_summary *summary) {
	return json_pack(
		"{s:I, s:I, s:I}",
		"delivered",
		(json_int_t)summary->delivered,
		"not_modified",
		(json_int_t)summary->not_modified,
		"failed",
		(json_int_t)summary->pulls_failed
	);
}

/* share: of all values of all steps, the sent ones. */
static json_t *filter_of(const struct train *train, const struct train_summary *summary) {
	const struct heddle_filter_stats *stats = &summary->filter;
	double all = (double)stats->steps * (double)train->values;

	if (stats->steps == 0)
		return json_null();
	return json_pack(
		"{s:f, s:f, s:I, s:f, s:I, s:I, s:I, s:f, s:f}",
		"v",
		(double)train->options.filter,
		"threshold",
		(double)stats->threshold,
		"sent_values",
		(json_int_t)stats->sent_values,
		"share",
		(double)stats->sent_values / all,
		"silent",
		(json_int_t)stats->silent,
		"flushes",
		(json_int_t)stats->flushes,
		"returned",
		(json_int_t)stats->returned,
		"sent_norm",
		stats->sent_norm,
		"held_norm",
		stats->held_norm
	);
}

/* Of rounds with a computed inexactness. */
static json_t *gamma_of(const struct train_summary *summary) {
	if (summary->gammas == 0)
		return json_null();
	return json_pack(
		"{s:f, s:f, s:I}",
		"mean",
		summary->gamma_sum / (double)summary->gammas,
		"max",
		summary->gamma_max,
		"count",
		(json_int_t)summary->gammas
	);
}

void train_summary_fabric(struct train_summary *summary, struct heddle *fabric) {
	struct heddle_stats stats = HEDDLE_STATS_INIT;

	(void)heddle_get_stats(fabric, &stats);
	summary->asked_again = stats.asked_again;
	summary->fallbacks = stats.fallbacks;
	for (int i = 0; i < HEDDLE_TIME_COUNT; i++) {
		summary->times[i].size = sizeof summary->times[i];
		(void)heddle_get_times(fabric, (enum heddle_time)i, &summary->times[i]);
	}
}

/* In ms: the time that this share does not exceed, with uniform times within a bucket. */
static double quantile_of(const struct heddle_times *times, double share) {
	const double wanted = share * (double)times->count;
	double before = 0, least = 0;

	for (uint32_t i = 0; i < times->buckets; i++) {
		const double here = (double)times->counts[i];
		const double most = fmin(times->upper_s[i], times->max_s);

		if (here > 0 && before + here >= wanted)
			return 1e3 * (least + (most - least) * fmax(wanted - before, 0) / here);
		before += here;
		least = most;
	}
	return 1e3 * times->max_s;
}

static json_t *time_of(const struct heddle_times *times) {
	if (times->count == 0)
		return json_pack("{s:i}", "count", 0);
	return json_pack(
		"{s:I, s:f, s:f, s:f, s:f, s:f}",
		"count",
		(json_int_t)times->count,
		"mean",
		1e3 * times->sum_s / (double)times->count,
		"p50",
		quantile_of(times, 0.5),
		"p90",
		quantile_of(times, 0.9),
		"p99",
		quantile_of(times, 0.99),
		"max",
		1e3 * times->max_s
	);
}

/* Without the buckets: heddle-run passes on lines of at most 4 KiB. */
static json_t *times_of(const struct train_summary *summary) {
	json_t *all = json_object();

	for (int i = 0; i < HEDDLE_TIME_COUNT; i++)
		(void)json_object_set_new(
			all, heddle_time_name((enum heddle_time)i), time_of(&summary->times[i])
		);
	return all;
}

static json_t *compute_of(const struct hd_compute *compute) {
	return json_pack(
		"{s:f, s:f, s:I}",
		"real_s",
		(double)compute->compute_ns * 1e-9,
		"padded_s",
		(double)compute->padded_ns * 1e-9,
		"overruns",
		(json_int_t)compute->overruns
	);
}

static json_t *allreduce_of(const struct train_sync_summary *sync) {
	if (!sync->any)
		return json_null();
	return json_pack(
		"{s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:b, s:f}",
		"workers",
		(int)sync->workers,
		"buckets",
		(int)sync->buckets,
		"bucket_bytes",
		(json_int_t)sync->bucket_bytes,
		"joined_step",
		(json_int_t)sync->joined_step,
		"received",
		(json_int_t)sync->received,
		"attended",
		(json_int_t)sync->attended,
		"repeated",
		(json_int_t)sync->repeated,
		"equal",
		(int)sync->equal,
		"wait_s",
		(double)sync->wait_ns * 1e-9
	);
}

static void print_crc(const struct train *train, char crc[CRC_BYTES]) {
	(void)snprintf(
		crc,
		CRC_BYTES,
		"%08lx",
		crc32_z(0, (const Bytef *)train->params, train->values * sizeof(float))
	);
}

static json_t *updates_of(struct train *train, const struct train_summary *summary) {
	return json_pack(
		"{s:I, s:I, s:I, s:I, s:o, s:I, s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:I, s:I, s:b, s:o, s:o, s:o}",
		"steps",
		(json_int_t)summary->steps,
		"pushed",
		(json_int_t)summary->pushed,
		"applied",
		(json_int_t)summary->applied,
		"dropped",
		(json_int_t)summary->dropped,
		"dropped_by_reason",
		by_reason(summary->dropped_by),
		"failed",
		(json_int_t)summary->failed,
		"failed_by_reason",
		by_reason(summary->failed_by),
		"pulls",
		pulls_of(summary),
		"granted_bytes",
		(json_int_t)summary->granted_bytes,
		"direct_bytes",
		(json_int_t)summary->direct_bytes,
		"push_bytes",
		(json_int_t)summary->push_bytes,
		"filter",
		filter_of(train, summary),
		"gamma",
		gamma_of(summary),
		"asked_again",
		(json_int_t)summary->asked_again,
		"fallbacks",
		(json_int_t)summary->fallbacks,
		"preempted",
		(int)summary->preempted,
		"staleness",
		staleness_of(summary, train->options.tau_max),
		"times_ms",
		times_of(summary),
		"allreduce",
		allreduce_of(&summary->sync)
	);
}

static json_t *summary_of(struct train *train, const struct train_summary *summary) {
	double accuracy, loss;
	char crc[CRC_BYTES];
	json_t *whole;

	hd_model_evaluate(train->model, train->params, &train->test, &accuracy, &loss);
	print_crc(train, crc);
	whole = json_pack(
		"{s:s, s:i, s:s, s:f, s:f, s:f, s:o, s:I, s:f, s:f, s:f, s:f, s:s}",
		"role",
		summary->role,
		"rank",
		summary->rank,
		"device",
		train_device_name(train),
		"seconds",
		(double)(hd_compute_now() - train->begun) * 1e-9,
		"cpu_s",
		cpu_seconds(),
		"peak_mb",
		peak_mb(),
		"compute",
		compute_of(&train->compute),
		"version",
		(json_int_t)summary->version,
		"scale",
		(double)(train->scale * train->step_scale),
		"training_loss",
		summary->steps > 0 ? summary->loss_sum / (double)summary->steps : 0.0,
		"accuracy",
		accuracy,
		"loss",
		loss,
		"model_crc32",
		crc
	);
	if (json_object_update_new(whole, updates_of(train, summary)) == 0)
		return whole;
	json_decref(whole);
	return NULL;
}

int train_summary_write(struct train *train, struct train_summary *summary) {
	const char *path = train->options.json;
	json_t *json;
	FILE *file;
	int rc;

	if (!path)
		return EX_OK;
	rc = train_far_fetch(train);
	if (rc != EX_OK)
		return rc;
	json = summary_of(train, summary);
	file = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
	if (!json || !file) {
		json_decref(json);
		return train_fail(EX_CANTCREAT, "json: %s: %s", path, strerror(errno));
	}
	rc = json_dumpf(json, file, JSON_REAL_PRECISION(9));
	json_decref(json);
	if (fputc('\n', file) < 0)
		rc = -1;
	if (file != stdout && fclose(file) != 0)
		rc = -1;
	return rc < 0 ? train_fail(EX_IOERR, "json: %s: %s", path, strerror(errno)) : EX_OK;
}
