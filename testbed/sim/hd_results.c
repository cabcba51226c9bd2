/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the table. */
#include "hd_results.h"

#include <math.h>

const char *hd_results_mode(enum hd_cluster_mode mode, uint32_t aggregators) {
	static const char *const names[] = {"scheduled", "unscheduled", "direct", "scheduled"};

	return mode == HD_CLUSTER_SCHEDULED && aggregators > 0 ? "aggregated" : names[mode];
}

double hd_results_mean(const struct hd_check_stats *s) {
	return s->commits ? s->delay_sum / (double)s->commits : 0;
}

double hd_results_variance(const struct hd_check_stats *s) {
	double m = hd_results_mean(s);

	return s->commits ? s->delay_squares / (double)s->commits - m * m : 0;
}

double hd_results_applied_s(const struct hd_results_run *run) {
	const struct hd_cluster_result *r = &run->result;

	return r->duration_s > 0 ? (double)r->pushes.applied / r->duration_s : 0;
}

static double granted_share(const struct hd_cluster_result *r) {
	double all = (double)(r->granted_bytes + r->direct_bytes);

	return all > 0 ? (double)r->granted_bytes / all : 0;
}

void hd_results_head(FILE *out, bool trains) {
	(void)fprintf(
		out,
		"%-12s %-12s %6s %8s %8s %9s %8s %8s %8s %6s %6s %6s %6s %5s %5s %5s %6s %6s %7s%s\n",
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
		"sum %",
		"size",
		"MB/up",
		"est.er",
		"wall s",
		trains ? "   rate  acc. s  updates  final" : ""
	);
}

/* `<`: reached too early for a comparison. */
static void row_of_training(FILE *out, const struct hd_results_run *run) {
	const struct hd_cluster_result *r = &run->result;

	(void)fprintf(out, " %6g", run->learning_rate);
	if (r->time_to_accuracy_s < 0)
		(void)fprintf(out, " %7s %8s", "-", "-");
	else
		(void)fprintf(
			out,
			" %7.2f %7llu%c",
			r->time_to_accuracy_s,
			(unsigned long long)r->updates_to_accuracy,
			r->updates_to_accuracy < HD_CURVE_UPDATES_MIN ? '<' : ' '
		);
	(void)fprintf(out, " %6.4f", r->final_accuracy);
}

void hd_results_row(FILE *out, const struct hd_results_run *run) {
	const struct hd_cluster_result *r = &run->result;
	const struct hd_check_stats *s = &r->pushes;

	(void)fprintf(
		out,
		"%-12s %-12s %6llu %8.2f %8llu %9.2f %8llu %8llu %8llu %6.2f %6.2f %6llu %6u %5.0f",
		run->scenario,
		hd_results_mode(run->mode, run->aggregators),
		(unsigned long long)run->seed,
		r->duration_s,
		(unsigned long long)s->applied,
		hd_results_applied_s(run),
		(unsigned long long)s->pushed,
		(unsigned long long)s->dropped,
		(unsigned long long)s->failed,
		hd_results_mean(s),
		hd_results_variance(s),
		(unsigned long long)s->delay_max,
		run->tau_max,
		100 * granted_share(r)
	);
	(void
	)fprintf(out, " %5.0f", s->commits ? 100 * (double)s->grouped / (double)s->commits : 0);
	if (s->sums > 0)
		(void)fprintf(out, " %5.2f", (double)s->grouped / (double)s->sums);
	else
		(void)fprintf(out, " %5s", "-");
	(void)fprintf(
		out,
		" %6.2f",
		s->applied ? (double)r->server_link_bytes * 1e-6 / (double)s->applied : 0
	);
	if (r->estimate_error >= 0)
		(void)fprintf(out, " %6.2f", r->estimate_error);
	else
		(void)fprintf(out, " %6s", "-");
	(void)fprintf(out, " %7.2f", run->wall_s);
	if (run->trains)
		row_of_training(out, run);
	(void)fputc('\n', out);
}

/* Of a sample. */
struct spread {
	uint64_t count;
	double sum, squares, least, most;
};

static void take(struct spread *spread, double value) {
	spread->least = spread->count ? fmin(spread->least, value) : value;
	spread->most = spread->count ? fmax(spread->most, value) : value;
	spread->count++;
	spread->sum += value;
	spread->squares += value * value;
}

static double mean_of(const struct spread *s) {
	return s->count ? s->sum / (double)s->count : 0;
}

static double deviation_of(const struct spread *s) {
	double n = (double)s->count;

	return s->count > 1 ? sqrt(fmax(0, (s->squares - s->sum * s->sum / n) / (n - 1))) : 0;
}

static void print_ratio(FILE *out, const char *what, const struct spread *s) {
	(void)fprintf(
		out,
		"%s x%.3f (sd %.3f, %.3f..%.3f)",
		what,
		mean_of(s),
		deviation_of(s),
		s->least,
		s->most
	);
}

/* Two modes: the first run of each, and the distance to the next. */
struct pairs {
	const struct hd_results_run *ours, *theirs;
	size_t count, step;
};

static const char *name_of(const struct hd_results_run *run) {
	return hd_results_mode(run->mode, run->aggregators);
}

static void print_accuracy_pairs(FILE *out, const struct pairs *pairs) {
	struct spread times[2] = {0}, ratio = {0};

	for (size_t i = 0; i < pairs->count; i++) {
		double ours = pairs->ours[i * pairs->step].result.time_to_accuracy_s;
		double theirs = pairs->theirs[i * pairs->step].result.time_to_accuracy_s;

		if (ours <= 0 || theirs <= 0)
			continue;
		take(&times[0], ours);
		take(&times[1], theirs);
		take(&ratio, theirs / ours);
	}
	(void)fprintf(
		out,
		"%s: accuracy %g reached by both in %llu of %zu pairs",
		pairs->ours->scenario,
		pairs->ours->target_accuracy,
		(unsigned long long)ratio.count,
		pairs->count
	);
	if (ratio.count > 0) {
		(void)fprintf(
			out,
			": %s after %.2f s (sd %.2f), %s after %.2f s (sd %.2f), ",
			name_of(pairs->ours),
			mean_of(&times[0]),
			deviation_of(&times[0]),
			name_of(pairs->theirs),
			mean_of(&times[1]),
			deviation_of(&times[1])
		);
		print_ratio(out, "sooner by", &ratio);
	}
	(void)fputc('\n', out);
}

static void print_pairs(FILE *out, const struct pairs *pairs) {
	struct spread ratio = {0}, variances[2] = {0};

	for (size_t i = 0; i < pairs->count; i++) {
		const struct hd_results_run *ours = &pairs->ours[i * pairs->step];
		const struct hd_results_run *theirs = &pairs->theirs[i * pairs->step];

		take(&ratio, hd_results_applied_s(ours) / hd_results_applied_s(theirs));
		take(&variances[0], hd_results_variance(&ours->result.pushes));
		take(&variances[1], hd_results_variance(&theirs->result.pushes));
	}
	(void)fprintf(
		out,
		"%s: %s / %s over %llu paired seeds:",
		pairs->ours->scenario,
		name_of(pairs->ours),
		name_of(pairs->theirs),
		(unsigned long long)ratio.count
	);
	print_ratio(out, " applied/s", &ratio);
	(void)fprintf(
		out,
		", variance of the delay %.2f against %.2f\n",
		mean_of(&variances[0]),
		mean_of(&variances[1])
	);
	if (pairs->ours->trains)
		print_accuracy_pairs(out, pairs);
}

void hd_results_pairs(FILE *out, const struct hd_results_run *runs, size_t count, size_t modes) {
	if (count < modes)
		return;
	for (size_t a = 0; a < modes; a++)
		for (size_t b = a + 1; b < modes; b++)
			print_pairs(out, &(struct pairs){&runs[a], &runs[b], count / modes, modes});
}
