/* SPDX-License-Identifier: BSD-3-Clause */
/* Link monitors: passes the load of other tenants on a host's link to the view. */
#include "ctl_estimate.h"

#include <assert.h>
#include <math.h>

#define LOAD_SPAN_MAX (60 * HD_SECOND)
#define LOAD_BPS_MAX 1e13

static double bps(uint64_t bytes, uint64_t span_ns) {
	return span_ns ? (double)bytes * 8e9 / (double)span_ns * CTL_PAYLOAD_SHARE : 0;
}

static bool possible(const struct hd_view_load *load) {
	return load->ours_bps <= LOAD_BPS_MAX && load->others_bps <= LOAD_BPS_MAX
		&& load->beside_ours_bps <= LOAD_BPS_MAX && load->pressing_bps <= LOAD_BPS_MAX
		&& load->steady_bps <= LOAD_BPS_MAX && load->elastic_bps <= LOAD_BPS_MAX;
}

/* The highest total rate: the mean of the interval, or of the part in which ours flowed. */
static double total_bps(const struct hd_view_load *load) {
	return fmax(
		load->ours_bps + load->others_bps,
		load->pressing_bps + fmax(load->beside_ours_bps, 0)
	);
}

void ctl_load(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_load *m,
	struct hd_sink *sink
) {
	struct hd_view_load out = {
		.at = c->now,
		.span = m->interval_ns,
		.ours_bps = bps(m->out_ours, m->interval_ns),
		.others_bps = bps(m->out_others, m->interval_ns),
		.beside_ours_bps = m->out_busy_ns ? bps(m->out_busy_others, m->out_busy_ns) : -1,
		.pressing_bps = bps(m->out_busy_ours, m->out_busy_ns),
		.steady_bps = (double)m->out_steady_bps * CTL_PAYLOAD_SHARE,
		.elastic_bps = (double)m->out_elastic_bps * CTL_PAYLOAD_SHARE,
		.flows = m->out_flows,
	};
	struct hd_view_load in = {
		.at = c->now,
		.span = m->interval_ns,
		.ours_bps = bps(m->in_ours, m->interval_ns),
		.others_bps = bps(m->in_others, m->interval_ns),
		.beside_ours_bps = m->in_busy_ns ? bps(m->in_busy_others, m->in_busy_ns) : -1,
		.pressing_bps = bps(m->in_busy_ours, m->in_busy_ns),
		.steady_bps = (double)m->in_steady_bps * CTL_PAYLOAD_SHARE,
		.elastic_bps = (double)m->in_elastic_bps * CTL_PAYLOAD_SHARE,
		.flows = m->in_flows,
	};
	uint32_t up, down;

	assert(node->role == HD_ROLE_MONITOR);
	if (m->interval_ns == 0 || m->interval_ns > LOAD_SPAN_MAX || m->out_busy_ns > m->interval_ns
	    || m->in_busy_ns > m->interval_ns || !possible(&out) || !possible(&in)) {
		c->counters.hostile_value++;
		return;
	}
	c->counters.loads++;
	/* A host with several links: the monitor's card may be on any of them. */
	if (hd_topology_links_of(c->config.topology, node->host_index, &up, &down) < 0)
		return;
	out.total_bps = total_bps(&out);
	in.total_bps = total_bps(&in);
	out.weight = ctl_link_weight(c, up + 1);
	in.weight = ctl_link_weight(c, down + 1);
	hd_view_load(c->view, up + 1, &out);
	hd_view_load(c->view, down + 1, &in);
	/* Some ended transfers waited for this report. */
	ctl_samples_take(c, sink);
}
