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

	if (agent->registered
	    && agent->told_slots != agent->config.slots - agent_slots_foreign(agent))
		say_register(turn);
}

static void on_registered(struct agent_turn *turn, const struct hd_msg_registered *registered) {
	struct hd_switch_agent *agent = turn->agent;
	bool first = !agent->registered;

	agent->registered = true;
	agent->epoch = registered->epoch;
	if (first)
		agent_leases_anew(turn);
	agent_tell_slots(turn);
}

static void on_refused(struct agent_turn *turn, const struct hd_msg_refuse *refuse) {
	turn->agent->registered = false;
	(void)snprintf(turn->agent->error, sizeof(turn->agent->error), "%s", refuse->text);
	agent_event(
		turn,
		(struct hd_event){
			.kind = HD_EVENT_NODE_DOWN,
			.reason
			= refuse->reason < HD_REASON_COUNT ? refuse->reason : HD_REASON_REFUSED,
			.aux = HD_ROLE_CONTROLLER,
		}
	);
}

static void from_controller(struct agent_turn *turn, const struct hd_message *message) {
	switch (message->kind) {
	case HD_MSG_REGISTERED:
		on_registered(turn, &message->registered);
		break;
	case HD_MSG_REFUSE:
		on_refused(turn, &message->refuse);
		break;
	case HD_MSG_SLOTS:
		agent_slots(turn, &message->slots);
		break;
	case HD_MSG_VOID:
		agent_void(turn, &message->void_);
		break;
	default:
		turn->agent->stats.refused_messages++;
		break;
	}
}

static void
from_shell(struct agent_turn *turn, struct hd_session *session, const struct hd_message *message) {
	switch (message->kind) {
	case HD_MSG_SHOW:
		agent_show(turn, session, &message->show);
		break;
	case HD_MSG_COMMAND:
		agent_refuse(turn, session, "a switch takes no commands: say it to the controller");
		break;
	default:
		turn->agent->stats.refused_messages++;
		break;
	}
}

/* --- endpoint callbacks ---------------------------------------------------------------------- */

static void on_opened(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink) {
	struct hd_switch_agent *agent = owner;
	struct agent_turn turn = {agent, now, sink};

	agent_event(
		&turn,
		(struct hd_event){.kind = HD_EVENT_NODE_UP, .aux = hd_session_peer_role(session)}
	);
	if (session != agent->controller)
		return;
	agent->registered = false;
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

	if (session == agent->controller)
		from_controller(&turn, message);
	else if (hd_session_peer_role(session) == HD_ROLE_SHELL)
		from_shell(&turn, session, message);
	else
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
	bool controller = session == agent->controller;

	(void)text;
	if (controller) {
		agent->registered = false;
		agent_leases_alone(&turn);
	}
	if (controller && reason == HD_REASON_REFUSED) {
		agent->refused = true;
		agent->controller = NULL; /* freed after this call */
	}
	agent_event(
		&turn,
		(struct hd_event){
			.kind = HD_EVENT_NODE_DOWN,
			.reason = reason,
			.aux = hd_session_peer_role(session),
		}
	);
}

const struct hd_endpoint_ops agent_endpoint_ops = {
	.opened = on_opened,
	.message = on_message,
	.closed = on_closed,
};
