/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_job_summary.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t sum_of(const uint64_t counts[HD_REASON_COUNT]) {
	uint64_t sum = 0;

	for (int i = 0; i < HD_REASON_COUNT; i++)
		sum += counts[i];
	return sum;
}

/* Only the reasons that occurred. */
static json_t *reasons_of(const uint64_t counts[HD_REASON_COUNT]) {
	json_t *object = json_object();

	for (int i = 0; i < HD_REASON_COUNT; i++) {
		if (counts[i] > 0) {
			(void)json_object_set_new(
				object,
				hd_reason_name((enum hd_reason)i),
				json_integer((json_int_t)counts[i])
			);
		}
	}
	return object;
}

static json_t *version_of(hd_version version) {
	return json_pack(
		"{s:i, s:I}",
		"incarnation",
		(int)hd_version_incarnation(version),
		"count",
		(json_int_t)hd_version_counter(version)
	);
}

static double mean_of(uint64_t sum, uint64_t count) {
	return count > 0 ? (double)sum / (double)count : 0;
}

static json_t *staleness_of(const struct hd_job_summary *summary) {
	double mean = mean_of(summary->delay_sum, summary->applied);
	double variance = mean_of(summary->delay_squares, summary->applied) - mean * mean;

	return json_pack(
		"{s:f, s:f, s:I, s:I}",
		"mean",
		mean,
		"variance",
		variance > 0 ? variance : 0.0,
		"max",
		(json_int_t)summary->delay_max,
		"bound",
		(json_int_t)summary->spec->tau_max
	);
}

static json_t *workers_of(const struct hd_job_summary *summary) {
	json_t *rows = json_array();

	for (uint32_t i = 0; i < summary->worker_count; i++) {
		const struct hd_worker_summary *row = &summary->workers[i];

		(void)json_array_append_new(
			rows,
			json_pack(
				"{s:i, s:b, s:I, s:I, s:I, s:I, s:f}",
				"worker",
				(int)row->worker,
				"left",
				(int)row->left,
				"rounds",
				(json_int_t)row->rounds,
				"applied",
				(json_int_t)row->applied,
				"dropped",
				(json_int_t)row->dropped,
				"failed",
				(json_int_t)row->failed,
				"staleness_mean",
				mean_of(row->delay_sum, row->applied)
			)
		);
	}
	return rows;
}

static double seconds_of(const struct hd_job_summary *summary) {
	return (double)(summary->ended - summary->begun) * 1e-9;
}

static json_t *json_of(const struct hd_job_summary *summary) {
	uint64_t known = summary->applied + sum_of(summary->dropped) + sum_of(summary->failed);
	uint64_t elsewhere = summary->rounds > known ? summary->rounds - known : 0;
	json_t *object = json_pack(
		"{s:s, s:s, s:b, s:f, s:I, s:o, s:o}",
		"tenant",
		summary->spec->tenant,
		"job",
		summary->spec->name,
		"resumed",
		(int)summary->resumed,
		"duration_s",
		seconds_of(summary),
		"model_bytes",
		(json_int_t)summary->bytes,
		"version",
		version_of(summary->version),
		"durable",
		version_of(summary->durable)
	);

	if (!object)
		return NULL;
	(void)json_object_set_new(object, "rounds", json_integer((json_int_t)summary->rounds));
	(void)json_object_set_new(object, "applied", json_integer((json_int_t)summary->applied));
	(void)json_object_set_new(object, "direct", json_integer((json_int_t)summary->direct));
	(void)json_object_set_new(object, "dropped", reasons_of(summary->dropped));
	(void)json_object_set_new(object, "failed", reasons_of(summary->failed));
	(void)json_object_set_new(object, "elsewhere", json_integer((json_int_t)elsewhere));
	(void)json_object_set_new(object, "interrupted", reasons_of(summary->interrupted));
	(void)json_object_set_new(object, "pulls", json_integer((json_int_t)summary->pulls));
	(void)json_object_set_new(
		object, "pulls_not_modified", json_integer((json_int_t)summary->pulls_not_modified)
	);
	(void)json_object_set_new(object, "staleness", staleness_of(summary));
	(void)json_object_set_new(object, "workers", workers_of(summary));
	return object;
}

static int write_json(const char *path, const json_t *object) {
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640), rc;
	FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;

	if (!file) {
		rc = -errno;
		if (fd >= 0)
			close(fd);
		return rc;
	}
	errno = EIO;
	rc = json_dumpf(object, file, JSON_INDENT(2)) < 0 || fputc('\n', file) == EOF ? -errno : 0;
	if (fclose(file) != 0 && rc == 0)
		rc = -errno;
	return rc;
}

int hd_job_summary_write(
	const char *directory,
	const struct hd_job_summary *summary,
	char *error,
	size_t error_bytes
) {
	char path[PATH_MAX], temporary[PATH_MAX];
	json_t *object;
	int rc;

	if (snprintf(path, sizeof path, "%s/%08" PRIx32 ".report.json", directory, summary->job)
		    >= (int)sizeof path
	    || snprintf(
		       temporary,
		       sizeof temporary,
		       "%s/.%08" PRIx32 ".report.new",
		       directory,
		       summary->job
	       ) >= (int)sizeof temporary) {
		(void)snprintf(error, error_bytes, "%s: name too long (PATH_MAX)", directory);
		return -ENAMETOOLONG;
	}
	object = json_of(summary);
	rc = object ? write_json(temporary, object) : -ENOMEM;
	json_decref(object);
	if (rc == 0 && rename(temporary, path) < 0)
		rc = -errno;
	if (rc < 0) {
		(void)unlink(temporary);
		(void)snprintf(error, error_bytes, "%s: %s", path, strerror(-rc));
	}
	return rc;
}

void hd_job_summary_format(const struct hd_job_summary *summary, char *text, size_t text_bytes) {
	(void)snprintf(
		text,
		text_bytes,
		"job %s/%s: all workers left after %.1f s: %" PRIu64 " applied, %" PRIu64
		" dropped, %" PRIu64 " failed; version %u.%" PRIu64,
		summary->spec->tenant,
		summary->spec->name,
		seconds_of(summary),
		summary->applied,
		sum_of(summary->dropped),
		sum_of(summary->failed),
		hd_version_incarnation(summary->version),
		hd_version_counter(summary->version)
	);
}
