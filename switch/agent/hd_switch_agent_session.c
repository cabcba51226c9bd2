/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions: the controller's, which leads, and shells', which look. */
#include "hd_switch_agent_internal.h"

#include <stdio.h>

/* --- the controller's session ---------------------------------------------------------------- */

static void say_register(struct agent_turn *turn) {
	struct hd_switch_agent *agent = turn->agent;
	const struct hd_switch_agent_config *config = &agent->config;
	struct hd_message message = {.kind = HD_MSG_REGISTER};
	struct hd_msg_register_ *reg = &message.register_;

	agent->told_slots = (uint16_t)(config->slots - agent_slots_foreign(agent));
	reg->role = HD_ROLE_SWITCH;
	memcpy(reg->host, agent->host, sizeof(reg->host));
	reg->data_ipv4 = config->data.ipv4;
	reg->data_port = config->data.port;
	reg->slots = agent->told_slots;
	reg->count_min = config->count_min;
	reg->count_max = config->count_max;
	reg->dtypes = config->dtypes;
	agent_say(turn, &message);
}

void agent_tell_slots(struct agent_turn *turn) {
	const struct hd_switch_agent *agent = turn->agent;

	if (agent->upstream.registered
	    && agent->told_slots != agent->config.slots - agent_slots_foreign(agent))
		say_register(turn);
}

static void on_registered(void *turn_, void *from, const struct hd_message *message) {
	struct agent_turn *turn = turn_;
	struct hd_switch_agent *agent = turn->agent;
	bool first = !agent->upstream.registered;

	hd_upstream_on_registered(&agent->upstream);
	agent->epoch = message->registered.epoch;
	if (first)
		agent_leases_anew(turn);
	agent_tell_slots(turn);
}

static void on_refused(void *turn_, void *from, const struct hd_message *message) {
	struct agent_turn *turn = turn_;
	struct hd_switch_agent *agent = turn->agent;

	(void)snprintf(agent->error, sizeof agent->error, "%s", message->refuse.text);
	agent_event(turn, hd_upstream_on_refuse(&agent->upstream, &message->refuse));
}

static void on_slots(void *turn, void *from, const struct hd_message *message) {
	agent_slots(turn, &message->slots);
}

static void on_void(void *turn, void *from, const struct hd_message *message) {
	agent_void(turn, &message->void_);
}

static void on_show(void *turn, void *from, const struct hd_message *message) {
	agent_show(turn, from, &message->show);
}

static void on_command(void *turn, void *from, const struct hd_message *message) {
	agent_refuse(turn, from, "a switch takes no commands: say it to the controller");
}

const struct hd_route agent_routes[] = {
	{HD_MSG_REGISTERED, HD_FROM_CONTROLLER, on_registered},
	{HD_MSG_REFUSE, HD_FROM_CONTROLLER, on_refused},
	{HD_MSG_SLOTS, HD_FROM_CONTROLLER, on_slots},
	{HD_MSG_VOID, HD_FROM_CONTROLLER, on_void},
	{HD_MSG_SHOW, HD_FROM_SHELL, on_show},
	{HD_MSG_COMMAND, HD_FROM_SHELL, on_command},
};
const size_t agent_route_count = sizeof agent_routes / sizeof *agent_routes;

/* --- endpoint callbacks ---------------------------------------------------------------------- */

static void on_opened(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink) {
	struct hd_switch_agent *agent = owner;
	struct agent_turn turn = {agent, now, sink};

	agent_event(
		&turn,
		(struct hd_event){.kind = HD_EVENT_NODE_UP, .aux = hd_session_peer_role(session)}
	);
	if (session != agent->upstream.session)
		return;
	hd_upstream_on_opened(&agent->upstream);
	say_register(&turn);
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

	if (hd_route_message(agent_routes, agent_route_count, role, &turn, session, message)
	    != HD_ROUTED)
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

	(void)text;
	event.aux = hd_session_peer_role(session);
	if (session == agent->upstream.session) {
		event = hd_upstream_on_closed(&agent->upstream, reason);
		agent_leases_alone(&turn);
	}
	agent_event(&turn, event);
}

const struct hd_endpoint_ops agent_endpoint_ops = {
	.opened = on_opened,
	.message = on_message,
	.closed = on_closed,
};
