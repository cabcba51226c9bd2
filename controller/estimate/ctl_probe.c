/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Probes (packet trains): they measure links about which no recent transfer has given information.
 *
 *   node --link--> ... --> partner      a link of a registered node, idle, not proven for 2 s (without a
 *                                       monitor: not used for 3 s); the partner
 *        is another node whose own link is idle, and best one of a few that are known to be fast
 *
 * So a server that is always busy does not prevent the measurement of other links. A trunk between switches has no node
 * of its own: partners behind a trunk that is due are preferred (hd_view_probe.c evaluates them). A link gets at most a
 * hundredth of its estimate in probes.
 */
#include "ctl_base.h"
#include "ctl_estimate.h"
#include "hd_probe.h"

#include <math.h>

#define PROBE_LOOK_NS (50 * HD_MS) /* between two searches for links to probe */
#define PROBE_UNUSED_NS                                                                            \
	(3 * HD_SECOND) /* a link without a monitor that transfers used, but not within this time */
#define PROBE_REST_NS                                                                              \
	(2 * HD_SECOND) /* a link that was proven or probed within this time is not probed */
#define PROBE_AGAIN_NS (300 * HD_MS) /* after a probe with a new result: before the second one */
#define PROBE_PATIENCE_NS (500 * HD_MS) /* a probe without a report until then is lost */
#define PROBE_A_LOOK 4 /* probes at most */
#define PROBE_RECENT_NS (6 * HD_SECOND) /* a partner that was proven within this time ... */
#define PROBE_UNCONFIRMED 0.25 /* ... has this multiple of the worth of another */
#define PROBE_TRUNK_FIRST 4 /* factor for a partner behind a trunk that is due */
#define PROBE_PARTNERS 16 /* candidates for one link */
#define PROBE_MOMENTS 4 /* fewer arrivals measure nothing: a fast path, or a late receiver */
#define PROBE_SHORT_NS (200 * HD_US)
#define PROBE_OTHERS 0.05 /* share of others on a link beside which a probe measures too little */
/* The limit of a raise by a probe too fast to measure, which a receiver that was scheduled late may see. */
#define PROBE_TRY 1.25

#define PROBE_BITS (8.0 * HD_PROBE_PACKETS * HD_PROBE_FRAME_BYTES)

/* The time between two probes of a link that keeps their load within the limit. */
static hd_ns load_rest(const struct hd_controller *c, uint32_t link) {
	return (hd_ns
	)(PROBE_BITS * 1e9 / (c->probe_load * hd_view_estimate(c->view, link).capacity_bps));
}

/* A burst takes more of a shared link than a transfer gets. Without a monitor that reports others' traffic, a link is
 * not probed while transfers give samples of it. */
static bool is_free(const struct hd_controller *c, uint32_t link, bool trunk) {
	hd_ns used = c->scratch.link_probe[link].used;

	if (c->link_use[link] || c->scratch.link_probe[link].reduces)
		return false;
	/* A trunk has no monitor. */
	if (trunk)
		return !used || c->now >= used + PROBE_UNUSED_NS;
	return hd_view_is_watched(c->view, link, c->now)
		|| (used && c->now >= used + PROBE_UNUSED_NS);
}

static bool is_idle(const struct hd_controller *c, const uint32_t *path, int count) {
	for (int i = 0; i < count; i++)
		if (!is_free(c, path[i], i > 0 && i + 1 < count)
		    || c->now < c->scratch.link_probe[path[i]].probed + load_rest(c, path[i]))
			return false;
	return true;
}

static bool is_stale(const struct hd_controller *c, uint32_t link, bool trunk) {
	hd_ns since = c->scratch.link_probe[link].probed, load = load_rest(c, link);

	if (!is_free(c, link, trunk) || c->now < since + load)
		return false;
	if (c->scratch.link_probe[link].again)
		return c->now >= since + PROBE_AGAIN_NS;
	return c->now >= hd_ns_max(hd_view_proven(c->view, link), since) + PROBE_REST_NS;
}

static bool takes_part(const struct ctl_node *node) {
	return (node->role == HD_ROLE_WORKER || node->role == HD_ROLE_SERVER
		|| node->role == HD_ROLE_AGGREGATOR)
		&& !node->doomed && node->data.ipv4;
}

static void path_between(
	const struct hd_controller *c,
	const struct ctl_node *from,
	const struct ctl_node *to,
	struct ctl_probe *probe
) {
	int count = hd_topology_path(
		c->config.topology, from->host_index, to->host_index, probe->path, HD_PLAN_PATH_MAX
	);

	probe->path_count = count > 0 ? (uint8_t)count : 0;
	for (int i = 0; i < count; i++)
		probe->path[i]++;
}

/* The lowest estimate on the rest of the path. */
static double
rest_bps(const struct hd_controller *c, const uint32_t *path, int count, uint32_t own) {
	double least = INFINITY;

	for (int i = 0; i < count; i++)
		if (path[i] != own)
			least
				= fmin(least,
				       hd_view_estimate(c->view, path[i]).capacity_bps
					       * (c->now < hd_view_proven(c->view, path[i])
									  + PROBE_RECENT_NS ?
							  1 :
							  PROBE_UNCONFIRMED));
	return least;
}

/* The same for the hosts' links alone. */
static double ends_bps(const struct hd_controller *c, const struct ctl_probe *plan) {
	const uint32_t ends[2] = {plan->path[0], plan->path[plan->path_count - 1]};

	return rest_bps(c, ends, 2, plan->target);
}

static bool send_probe(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct ctl_probe *probe,
	const struct ctl_node *to,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_PROBE};

	message.probe.token = probe->token;
	message.probe.send = to != NULL;
	message.probe.packets = HD_PROBE_PACKETS;
	if (to) {
		message.probe.peer_ipv4 = to->data.ipv4;
		message.probe.peer_port = to->data.port;
	}
	return ctl_send(c, node, &message, sink) == 0;
}

static void start_probe(
	struct hd_controller *c,
	struct ctl_node *from,
	struct ctl_node *to,
	const struct ctl_probe *plan,
	struct hd_sink *sink
) {
	struct ctl_probe *probe = &c->probes[c->probe_count++ % CTL_PROBES_KEPT];

	*probe = *plan;
	probe->token = hd_token_draw(&c->entropy, true);
	probe->receiver = to->session;
	probe->sent = c->now;
	for (uint8_t i = 0; i < probe->path_count; i++)
		c->scratch.link_probe[probe->path[i]].probed = c->now;
	c->scratch.link_probe[probe->target].again = HD_VIEW_SETTLED;
	if (send_probe(c, to, probe, NULL, sink) && send_probe(c, from, probe, to, sink))
		c->counters.probes++;
}

/* Whether the path has a trunk without recent information: only probes that cross it can give some. */
static bool is_trunk_due(const struct hd_controller *c, const struct ctl_probe *plan) {
	for (int i = 1; i + 1 < plan->path_count; i++)
		if (is_stale(c, plan->path[i], true))
			return true;
	return false;
}

/* The worth of a partner for probing a link: 0 when the path is in use. A path over a trunk that is due goes first, but
 * not while it is unclear whether the link itself is slow. After a slow probe another partner tells more, unless the
 * last one is known to be fast. */
static double partner_worth(
	const struct hd_controller *c,
	const struct ctl_node *partner,
	const struct ctl_probe *plan
) {
	const struct ctl_link_probe *link = &c->scratch.link_probe[plan->target];
	bool lower = link->again == HD_VIEW_LOWER;
	bool again = lower && link->partner == partner->host_index;

	if (plan->path_count == 0 || !is_idle(c, plan->path, plan->path_count))
		return 0;
	if (!lower && is_trunk_due(c, plan))
		return PROBE_TRUNK_FIRST * ends_bps(c, plan);
	return rest_bps(c, plan->path, plan->path_count, plan->target) * (again ? 0.5 : 1);
}

/* Probes one link of a node, with the best of a few partners. Returns the probes sent, 0 or 1. */
static uint32_t probe_link(
	struct hd_controller *c,
	struct ctl_node *node,
	uint32_t link,
	bool away,
	struct hd_sink *sink
) {
	struct ctl_node *partner = node, *best = NULL;
	struct ctl_probe chosen = {0};
	double most = 0;

	for (int tries = 0; tries < PROBE_PARTNERS; tries++) {
		struct ctl_probe plan = {.target = link, .hub = node->role != HD_ROLE_WORKER};

		partner = TAILQ_NEXT(partner, entry) ? TAILQ_NEXT(partner, entry) :
						       TAILQ_FIRST(&c->nodes);
		if (partner == node)
			break;
		if (!takes_part(partner))
			continue;
		path_between(c, away ? node : partner, away ? partner : node, &plan);
		if (partner_worth(c, partner, &plan) <= most)
			continue;
		most = partner_worth(c, partner, &plan);
		best = partner;
		chosen = plan;
	}
	if (!best)
		return 0;
	c->scratch.link_probe[link].partner = best->host_index;
	start_probe(c, away ? node : best, away ? best : node, &chosen, sink);
	return 1;
}

/* Probes both links of one node. Returns the number of probes sent. */
static uint32_t probe_node(struct hd_controller *c, struct ctl_node *node, struct hd_sink *sink) {
	uint32_t away, towards, sent = 0;

	if (!takes_part(node)
	    || hd_topology_links_of(c->config.topology, node->host_index, &away, &towards))
		return 0;
	if (is_stale(c, away + 1, false))
		sent += probe_link(c, node, away + 1, true, sink);
	if (is_stale(c, towards + 1, false))
		sent += probe_link(c, node, towards + 1, false, sink);
	return sent;
}

void ctl_probe(struct hd_controller *c, struct hd_sink *sink) {
	struct ctl_node *node;
	uint32_t sent = 0, index = 0, first;

	c->probe_at = HD_NEVER;
	if (c->config.unscheduled || c->node_count < 2 || !(c->probe_load > 0))
		return;
	c->probe_at = c->now + PROBE_LOOK_NS;
	/* Each search begins at another node. */
	first = c->probe_turn++ % c->node_count;
	for (int pass = 0; pass < 2; pass++, index = 0)
		TAILQ_FOREACH (node, &c->nodes, entry)
			if ((index++ >= first) == (pass == 0) && sent < PROBE_A_LOOK)
				sent += probe_node(c, node, sink);
}

static struct ctl_probe *find_probe(struct hd_controller *c, uint64_t token) {
	for (uint32_t i = 0; token && i < CTL_PROBES_KEPT; i++)
		if (c->probes[i].token == token)
			return &c->probes[i];
	return NULL;
}

/* Whether others' traffic on the path may have come between the packets. */
static bool among_others(const struct hd_controller *c, const struct ctl_probe *probe) {
	for (uint8_t i = 0; i < probe->path_count; i++)
		if (hd_view_others_bps(c->view, probe->path[i], probe->sent, c->now)
		    > PROBE_OTHERS * hd_view_estimate(c->view, probe->path[i]).capacity_bps)
			return true;
	return false;
}

void ctl_probed(struct hd_controller *c, struct ctl_node *node, const struct hd_msg_probed *m) {
	struct ctl_probe *probe = find_probe(c, m->token);
	struct hd_view_probe seen = {.at = c->now};

	if (!probe || probe->receiver != node->session || m->packets > HD_PROBE_PACKETS) {
		c->counters.hostile_owner++;
		return;
	}
	c->counters.probed++;
	seen.path = probe->path;
	seen.path_count = probe->path_count;
	seen.target = probe->target;
	seen.hub = probe->hub;
	/* The receiver was not scheduled, or its card passes packets on in batches: the duration is unknown. */
	if (m->moments < PROBE_MOMENTS) {
		probe->token = 0;
		return;
	}
	seen.rate_bps = m->packets * HD_PROBE_FRAME_BYTES * 8e9
		/ (double)hd_ns_max(m->duration_ns, PROBE_SHORT_NS) * CTL_PAYLOAD_SHARE;
	seen.exact = m->duration_ns >= PROBE_SHORT_NS && !among_others(c, probe);
	/* Too fast to measure. */
	if (m->duration_ns < PROBE_SHORT_NS)
		seen.rate_bps
			= fmin(seen.rate_bps,
			       PROBE_TRY * hd_view_estimate(c->view, probe->target).capacity_bps);
	if (c->now < probe->sent + PROBE_PATIENCE_NS)
		c->scratch.link_probe[probe->target].again = (uint8_t)hd_view_probe(c->view, &seen);
	probe->token = 0;
}
