/* SPDX-License-Identifier: BSD-3-Clause */
/* Values that invariant checkers read from the core. */
#include "ctl_base.h"

#include <inttypes.h>
#include <stdio.h>

uint32_t hd_controller_link_count(const struct hd_controller *c) {
	return ctl_link_count(c);
}

const char *hd_controller_link_name(const struct hd_controller *c, uint32_t link) {
	return link < ctl_link_count(c) ? ctl_link_name(c, link) : "";
}

struct hd_addr hd_controller_server(const struct hd_controller *c, uint32_t id) {
	const struct ctl_job *job = ctl_job_find(c, id);

	return job && job->server ? job->server->data : (struct hd_addr){0};
}

double hd_controller_reserved_bps(const struct hd_controller *c, uint32_t link, hd_ns at) {
	const struct ctl_transfer *t;
	double sum = 0;

	TAILQ_FOREACH (t, &c->open, entry) {
		bool crosses = false;

		for (uint8_t i = 0; i < t->path_count; i++)
			crosses |= t->path[i] == link;
		for (uint8_t i = 0; crosses && i < t->reserved_count; i++)
			if (t->reserved[i].start <= at && at < t->reserved[i].end)
				sum += t->reserved[i].rate * 8;
	}
	return sum;
}

double hd_controller_estimate_bps(const struct hd_controller *c, uint32_t link, double weight) {
	return link < ctl_link_count(c) ? hd_view_share(c->view, link, c->now, weight) : 0;
}

void hd_controller_mark_reserved(const struct hd_controller *c, bool *marked) {
	const struct ctl_transfer *t;

	TAILQ_FOREACH (t, &c->open, entry)
		for (uint8_t i = 0; i < t->path_count; i++)
			marked[t->path[i]] = true;
}

double hd_controller_planned_bps(const struct hd_controller *c, uint32_t link) {
	return link < c->scratch.link_capacity ? c->scratch.capacity[link] * 8 : 0;
}

static bool waits_add_up(const struct hd_controller *c, char *error, size_t error_bytes) {
	uint64_t waits = 0;

	for (size_t i = 0; i < CTL_DIRECTIONS; i++)
		waits += c->grant_wait[i].count;
	if (waits != c->counters.grants)
		(void)snprintf(
			error,
			error_bytes,
			"%" PRIu64 " waits for %" PRIu64 " grants counted",
			waits,
			c->counters.grants
		);
	return waits == c->counters.grants;
}

bool hd_controller_adds_up(const struct hd_controller *c, char *error, size_t error_bytes) {
	for (uint32_t i = 0; i < c->job_count; i++) {
		const struct ctl_job *job = c->jobs[i];
		uint32_t running = ctl_job_running(job);
		uint64_t ended = job->applied + job->dropped + job->failed + job->voided;
		uint64_t pulled = job->pulls_delivered + job->pulls_failed;

		if (job->granted == ended + running
		    && job->pulls_granted == pulled + job->open_pulls)
			continue;
		(void)snprintf(
			error,
			error_bytes,
			"job %u: %" PRIu64 " pushes granted, %" PRIu64
			" ended, %u running; %" PRIu64 " pulls granted, %" PRIu64
			" ended, %u running",
			job->id,
			job->granted,
			ended,
			running,
			job->pulls_granted,
			pulled,
			job->open_pulls
		);
		return false;
	}
	return waits_add_up(c, error, error_bytes);
}
