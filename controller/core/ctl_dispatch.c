/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes each message of a node or shell to its handler, by kind and role. */
#include "ctl_allreduce.h"
#include "ctl_base.h"
#include "ctl_commands.h"
#include "ctl_copies.h"
#include "ctl_dataplane.h"
#include "ctl_dispatch.h"
#include "ctl_elastic.h"
#include "ctl_estimate.h"
#include "ctl_grouping.h"
#include "ctl_pair_ends.h"
#include "ctl_registry.h"
#include "ctl_requests.h"
#include "ctl_slots.h"
#include "ctl_table.h"
#include "hd_route.h"

/* The arguments of a handler. */
struct turn {
	struct hd_controller *c;
	struct hd_sink *sink;
};

#define HANDLER(name, handle, member)                                                              \
	static void name(void *turn, void *from, const struct hd_message *m) {                     \
		const struct turn *now = turn;                                                     \
                                                                                                   \
		handle(now->c, from, &m->member, now->sink);                                       \
	}

static void node_leaves(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_leave *leave,
	struct hd_sink *sink
) {
	if (node->role == HD_ROLE_WORKER) {
		if (node->job != ctl_job_find(c, leave->job) || node->worker != leave->worker) {
			c->counters.hostile_owner++;
			return;
		}
		ctl_node_down(c, node, HD_REASON_LEFT, sink);
		return;
	}
	if (!ctl_job_gone(c, node, leave, sink))
		c->counters.hostile_owner++;
}

/* About slots that a group leases, or that all-reduces go through. */
static void switch_reports(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_report *report,
	struct hd_sink *sink
) {
	if (ctl_lease_find(c, node, report->token) || !ctl_slots_report(c, node, report, sink))
		ctl_lease_report(c, node, report, sink);
}

/* A server is asked for copies only. */
static void copy_requested(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_request *request,
	struct hd_sink *sink
) {
	if (request->direction == HD_COPY)
		ctl_copy_request(c, node, request, sink);
	else
		c->counters.hostile_role++;
}

static void server_reports(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_report *report,
	struct hd_sink *sink
) {
	if (report->direction == HD_COPY)
		ctl_copy_report(c, node, report, sink);
	else
		ctl_report(c, node, report, sink);
}

HANDLER(on_request, ctl_request, request)
HANDLER(on_copy_request, copy_requested, request)
HANDLER(on_cancel, ctl_cancel, cancel)
HANDLER(on_report, ctl_report, report)
HANDLER(on_channel, ctl_pair_answer, channel)
HANDLER(on_server_report, server_reports, report)
HANDLER(on_switch_report, switch_reports, report)
HANDLER(on_notice, ctl_notice, notice)
HANDLER(on_observe, ctl_observe, observe)
HANDLER(on_follow, ctl_replica_follow, follow)
HANDLER(on_state, ctl_state, state)
HANDLER(on_inflight, ctl_inflight, inflight)
HANDLER(on_load, ctl_load, load)
HANDLER(on_leave, node_leaves, leave)
HANDLER(on_show, ctl_show, show)
HANDLER(on_command, ctl_command, command)

static void on_probed(void *turn, void *from, const struct hd_message *m) {
	ctl_probed(((const struct turn *)turn)->c, from, &m->probed);
}

static void on_stats(void *turn, void *from, const struct hd_message *m) {
	ctl_dataplane_take(((const struct turn *)turn)->c, from, &m->stats);
}

static const struct hd_route routes[] = {
	{HD_MSG_REQUEST, HD_FROM_WORKER, on_request},
	{HD_MSG_REQUEST, HD_FROM_SERVERS, on_copy_request},
	{HD_MSG_CANCEL, HD_FROM_WORKER, on_cancel},
	{HD_MSG_REPORT, HD_FROM_WORKER | HD_FROM_AGGREGATOR, on_report},
	{HD_MSG_CHANNEL, HD_FROM_WORKER, on_channel},
	{HD_MSG_REPORT, HD_FROM_SERVERS, on_server_report},
	{HD_MSG_REPORT, HD_FROM_SWITCH, on_switch_report},
	{HD_MSG_NOTICE, HD_FROM_WORKER, on_notice},
	{HD_MSG_OBSERVE, HD_FROM_WORKER, on_observe},
	{HD_MSG_FOLLOW, HD_FROM_SERVERS, on_follow},
	{HD_MSG_STATE, HD_FROM_SERVERS, on_state},
	{HD_MSG_INFLIGHT, HD_FROM_SERVERS, on_inflight},
	{HD_MSG_LOAD, HD_FROM_MONITOR, on_load},
	{HD_MSG_PROBED, HD_FROM_WORKER | HD_FROM_SERVERS, on_probed},
	{HD_MSG_LEAVE, HD_FROM_WORKER | HD_FROM_SERVERS, on_leave},
	{HD_MSG_STATS,
	 HD_FROM_WORKER | HD_FROM_SERVERS | HD_FROM_AGGREGATOR | HD_FROM_SWITCH | HD_FROM_MONITOR,
	 on_stats},
	{HD_MSG_SHOW, HD_FROM_SHELL, on_show},
	{HD_MSG_COMMAND, HD_FROM_SHELL, on_command},
};

bool ctl_routes_are_valid(void) {
	return hd_routes_are_valid(routes, sizeof routes / sizeof routes[0]);
}

/* The role by which messages are accepted: the registered one, or shell, which does not register. */
static uint8_t role_of(const struct ctl_node *node) {
	uint8_t peer = hd_session_peer_role(node->session);

	return peer == HD_ROLE_SHELL ? peer : node->role;
}

void ctl_dispatch(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_message *m,
	struct hd_sink *sink
) {
	struct turn turn = {.c = c, .sink = sink};

	/* A node that registers has no role yet; ctl_register() refuses with a text. */
	if (m->kind == HD_MSG_REGISTER) {
		ctl_register(c, node, &m->register_, sink);
		return;
	}
	switch (hd_route_message(
		routes, sizeof routes / sizeof routes[0], role_of(node), &turn, node, m
	)) {
	case HD_ROUTED:
		break;
	case HD_ROUTE_NO_KIND:
		c->counters.hostile_kind++;
		break;
	case HD_ROUTE_NO_ROLE:
		c->counters.hostile_role++;
	}
}
