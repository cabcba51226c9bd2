/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions: the controller's, which commands, and shells', which read. */
#include "hd_route.h"
#include "hd_switch_agent_internal.h"

#include <stdio.h>

/* --- the controller's session ---------------------------------------------------------------- */

static void on_registered(void *turn_, void *from, const struct hd_message *message) {
	struct agent_turn *turn = turn_;
	struct hd_switch_agent *agent = turn->agent;
	bool first = !agent->upstream.registered;

	(void)from;
	hd_upstream_on_registered(&agent->upstream);
	agent->epoch = message->registered.epoch;
	if (first)
		agent_leases_restart(turn);
	agent_tell_slots(turn);
}

static void on_refuse(void *turn_, void *from, const struct hd_message *message) {
	struct agent_turn *turn = turn_;
	struct hd_switch_agent *agent = turn->agent;

	(void)from;
	(void)snprintf(agent->error, sizeof agent->error, "%s", message->refuse.text);
	agent_event(turn, hd_upstream_on_refuse(&agent->upstream, &message->refuse));
}

static void on_slots(void *turn, void *from, const struct hd_message *message) {
	(void)from;
	agent_slots(turn, &message->slots);
}

static void on_void(void *turn, void *from, const struct hd_message *message) {
	(void)from;
	agent_void(turn, &message->void_);
}

static void on_poll(void *turn, void *session, const struct hd_message *message) {
	agent_poll(turn, session, &message->poll);
}

/* --- shells' --------------------------------------------------------------------------------- */

static void on_show(void *turn, void *session, const struct hd_message *message) {
	agent_show(turn, session, &message->show);
}

static void on_command(void *turn, void *session, const struct hd_message *message) {
	(void)message;
	agent_refuse(turn, session, "a switch takes no commands: send it to the controller");
}

static const struct hd_route routes[] = {
	{HD_MSG_REGISTERED, HD_FROM_CONTROLLER, on_registered},
	{HD_MSG_REFUSE, HD_FROM_CONTROLLER, on_refuse},
	{HD_MSG_SLOTS, HD_FROM_CONTROLLER, on_slots},
	{HD_MSG_VOID, HD_FROM_CONTROLLER, on_void},
	{HD_MSG_POLL, HD_FROM_CONTROLLER, on_poll},
	{HD_MSG_SHOW, HD_FROM_SHELL, on_show},
	{HD_MSG_COMMAND, HD_FROM_SHELL, on_command},
};
#define ROUTES (sizeof routes / sizeof routes[0])

bool agent_routes_are_valid(void) {
	return hd_routes_are_valid(routes, ROUTES);
}

/* --- endpoint callbacks ---------------------------------------------------------------------- */

static void on_opened(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink) {
	struct hd_switch_agent *agent = owner;
	struct agent_turn turn = {agent, now, sink};
	const struct hd_who who = hd_session_who(session);

	agent_event(
		&turn,
		(struct hd_event
		){.kind = HD_EVENT_NODE_UP, .aux = hd_session_peer_role(session), .who = &who}
	);
	if (session != agent->upstream.session)
		return;
	hd_upstream_on_opened(&agent->upstream);
	agent_send_register(&turn);
}

static void on_message(
	void *owner,
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_switch_agent *agent = owner;
	struct agent_turn turn = {agent, now, sink};
	uint8_t role = hd_upstream_role(&agent->upstream, session);

	if (hd_route_message(routes, ROUTES, role, &turn, session, message) != HD_ROUTED)
		agent->stats.refused_messages++;
}

static void on_closed(
	void *owner,
	struct hd_session *session,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_switch_agent *agent = owner;
	struct agent_turn turn = {agent, now, sink};
	struct hd_event event = {.kind = HD_EVENT_NODE_DOWN, .reason = reason};
	const struct hd_who who = hd_session_who(session);

	(void)text;
	event.aux = hd_session_peer_role(session);
	if (session == agent->upstream.session) {
		event = hd_upstream_on_closed(&agent->upstream, reason);
		agent_leases_alone(&turn);
	}
	event.who = &who;
	agent_event(&turn, event);
}

const struct hd_endpoint_ops agent_endpoint_ops = {
	.opened = on_opened,
	.message = on_message,
	.closed = on_closed,
};
