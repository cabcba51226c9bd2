/* SPDX-License-Identifier: BSD-3-Clause */
/* Histograms: the waits of the controller, and the delays of its jobs. */
#include "ctl_base.h"
#include "ctl_table.h"

static const struct hd_histogram_family grant_wait = {
	.group = "controller",
	.name = "grant_wait",
	.help = "time from a request to its grant",
	.label = {"direction"},
	.scale = &hd_scale_time,
};

static const struct hd_histogram_family staleness = {
	.group = "job",
	.name = "staleness",
	.help = "delays of applied updates, in commits",
	.label = {"tenant", "job"},
	.scale = &hd_scale_delay,
};

void ctl_histograms(const struct hd_controller *c, struct hd_stats *stats) {
	for (uint8_t direction = 0; direction < CTL_DIRECTIONS; direction++) {
		const char *label = ctl_direction_name(direction);

		hd_stats_add_histogram(stats, &grant_wait, &label, &c->grant_wait[direction]);
	}
	for (uint32_t i = 0; i < c->job_count; i++) {
		const struct ctl_job *job = c->jobs[i];
		char id[CTL_ID_BYTES];
		const char *labels[] = {job->tenant_name, ctl_job_label(job, id)};

		hd_stats_add_histogram(stats, &staleness, labels, &job->staleness.histogram);
	}
}

uint64_t ctl_rows_histograms(const struct hd_controller *c, struct hd_rows *rows) {
	struct hd_stats *stats = hd_stats_create();
	uint64_t count = 0;

	if (stats) {
		ctl_histograms(c, stats);
		count = hd_rows_histograms(rows, stats);
	}
	hd_stats_destroy(stats);
	return count;
}
