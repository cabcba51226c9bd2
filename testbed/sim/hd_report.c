/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_report.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>

const char *hd_report_mode(enum hd_cluster_mode mode) {
	static const char *const names[] = {"scheduled", "unscheduled", "direct"};

	return names[mode];
}

static double mean(const struct hd_check_stats *s) {
	return s->commits ? s->delay_sum / (double)s->commits : 0;
}

static double variance(const struct hd_check_stats *s) {
	double m = mean(s);

	return s->commits ? s->delay_squares / (double)s->commits - m * m : 0;
}

static double rate(const struct hd_report_run *run) {
	const struct hd_cluster_result *r = &run->result;

	return r->duration_s > 0 ? (double)r->pushes.applied / r->duration_s : 0;
}

static double granted_share(const struct hd_cluster_result *r) {
	double all = (double)(r->granted_bytes + r->credited_bytes);

	return all > 0 ? (double)r->granted_bytes / all : 0;
}

void hd_report_head(FILE *out) {
	(void)fprintf(
		out,
		"%-12s %-12s %6s %8s %8s %9s %8s %8s %8s %6s %6s %6s %6s %5s %6s %7s\n",
		"scenario",
		"mode",
		"seed",
		"time s",
		"applied",
		"applied/s",
		"pushed",
		"dropped",
		"failed",
		"delay",
		"var",
		"max",
		"bound",
		"gr. %",
		"est.er",
		"wall s"
	);
}

void hd_report_row(FILE *out, const struct hd_report_run *run) {
	const struct hd_cluster_result *r = &run->result;
	const struct hd_check_stats *s = &r->pushes;

	(void)fprintf(
		out,
		"%-12s %-12s %6llu %8.2f %8llu %9.2f %8llu %8llu %8llu %6.2f %6.2f %6llu %6u %5.0f",
		run->scenario,
		hd_report_mode(run->mode),
		(unsigned long long)run->seed,
		r->duration_s,
		(unsigned long long)s->applied,
		rate(run),
		(unsigned long long)s->pushed,
		(unsigned long long)s->dropped,
		(unsigned long long)s->failed,
		mean(s),
		variance(s),
		(unsigned long long)s->delay_max,
		run->tau_max,
		100 * granted_share(r)
	);
	if (r->estimate_error >= 0)
		(void)fprintf(out, " %6.2f", r->estimate_error);
	else
		(void)fprintf(out, " %6s", "-");
	(void)fprintf(out, " %7.2f\n", run->wall_s);
}

static json_t *reasons(const struct hd_check_stats *s) {
	json_t *object = json_object();

	for (int i = 0; i < HD_REASON_COUNT; i++)
		if (s->reasons[i] > 0)
			json_object_set_new(
				object,
				hd_reason_name((enum hd_reason)i),
				json_integer((json_int_t)s->reasons[i])
			);
	return object;
}

static json_t *staleness(const struct hd_report_run *run) {
	const struct hd_check_stats *s = &run->result.pushes;

	return json_pack(
		"{s:f, s:f, s:I, s:i}",
		"mean",
		mean(s),
		"variance",
		variance(s),
		"max",
		(json_int_t)s->delay_max,
		"bound",
		(int)run->tau_max
	);
}

static json_t *record(const struct hd_report_run *run) {
	const struct hd_cluster_result *r = &run->result;
	const struct hd_check_stats *s = &r->pushes;
	json_t *estimate = r->estimate_error < 0 ? json_null() : json_real(r->estimate_error);

	/* Accuracy and processor time belong to real training: null here. */
	return json_pack(
		"{s:s, s:s, s:b, s:I, s:n, s:n, s:n, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:o, "
		"s:o, s:n, s:f, s:f, s:f, s:I, s:I, s:I, s:f}",
		"mode",
		hd_report_mode(run->mode),
		"scenario",
		run->scenario,
		"simulated",
		1,
		"seed",
		(json_int_t)run->seed,
		"target_accuracy",
		"final_accuracy",
		"time_to_accuracy_s",
		"pushed",
		(json_int_t)s->pushed,
		"applied",
		(json_int_t)s->applied,
		"dropped",
		(json_int_t)s->dropped,
		"failed",
		(json_int_t)s->failed,
		"reasons",
		reasons(s),
		"rolled_back",
		(json_int_t)s->rolled_back,
		"granted_bytes",
		(json_int_t)r->granted_bytes,
		"credited_bytes",
		(json_int_t)r->credited_bytes,
		"staleness",
		staleness(run),
		"estimate_error",
		estimate,
		"cpu",
		"applied_per_s",
		rate(run),
		"duration_s",
		r->duration_s,
		"settle_s",
		r->settle_s,
		"crashes",
		(json_int_t)r->crashes,
		"events",
		(json_int_t)r->network.events,
		"packets",
		(json_int_t)r->network.packets,
		"wall_s",
		run->wall_s
	);
}

int hd_report_json(const char *path, const struct hd_report_run *runs, size_t count) {
	json_t *list = json_array();
	int code = 0;

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, record(&runs[i]));
	errno = 0;
	if (json_dump_file(list, path, JSON_INDENT(1)) < 0)
		code = errno ? -errno : -EIO;
	json_decref(list);
	return code;
}

void hd_report_pairs(FILE *out, const struct hd_report_run *runs, size_t count) {
	double sum = 0, squares = 0, least = INFINITY, most = 0, variances[2] = {0};
	size_t pairs = count / 2;

	for (size_t i = 0; i + 1 < count; i += 2) {
		double ratio = rate(&runs[i]) / rate(&runs[i + 1]);

		sum += ratio;
		squares += ratio * ratio;
		least = fmin(least, ratio);
		most = fmax(most, ratio);
		variances[0] += variance(&runs[i].result.pushes) / (double)pairs;
		variances[1] += variance(&runs[i + 1].result.pushes) / (double)pairs;
	}
	if (pairs == 0)
		return;
	sum /= (double)pairs;
	(void)fprintf(
		out,
		"%s: scheduled / unscheduled over %zu paired seeds: applied/s x%.3f (sd %.3f, "
		"%.3f..%.3f), variance of the delay %.2f against %.2f\n",
		runs[0].scenario,
		pairs,
		sum,
		sqrt(fmax(0, squares / (double)pairs - sum * sum)),
		least,
		most,
		variances[0],
		variances[1]
	);
}
