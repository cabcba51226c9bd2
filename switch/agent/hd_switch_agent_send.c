/* SPDX-License-Identifier: BSD-3-Clause */
/* An agent's own messages: events, and to its controller the number of slots. It calls no handler. */
#include "hd_switch_agent_internal.h"

void agent_event(const struct agent_turn *turn, struct hd_event event) {
	event.at = turn->now;
	if (turn->sink->event)
		turn->sink->event(turn->sink, &event);
}

void agent_send(struct agent_turn *turn, const struct hd_message *message) {
	hd_upstream_send(&turn->agent->upstream, message, turn->now, turn->sink);
}

void agent_report(
	struct agent_turn *turn,
	uint32_t job,
	uint64_t name,
	enum hd_reason reason,
	uint64_t waits
) {
	struct hd_message message = {.kind = HD_MSG_REPORT};

	message.report.job = job;
	message.report.token = name;
	message.report.direction = HD_REDUCE;
	message.report.worker = HD_GROUP_WORKER;
	message.report.outcome = reason ? HD_OUTCOME_FAILED : HD_OUTCOME_APPLIED;
	message.report.reason = (uint8_t)reason;
	message.report.base = waits;
	agent_send(turn, &message);
}

uint16_t agent_slots_foreign(const struct hd_switch_agent *agent) {
	uint16_t slots = 0;

	for (uint32_t i = 0; i < HD_SWITCH_LEASES_MAX; i++)
		if (agent->leases[i] && agent->leases[i]->is.epoch != agent->epoch)
			slots = (uint16_t)(slots + agent->leases[i]->is.slot_count);
	return slots;
}

void agent_send_register(struct agent_turn *turn) {
	struct hd_switch_agent *agent = turn->agent;
	const struct hd_switch_agent_config *config = &agent->config;
	struct hd_message message = {.kind = HD_MSG_REGISTER};
	struct hd_msg_register_ *reg = &message.register_;

	agent->reported_slots = (uint16_t)(config->slots - agent_slots_foreign(agent));
	reg->role = HD_ROLE_SWITCH;
	memcpy(reg->host, agent->host, sizeof reg->host);
	reg->data_ipv4 = config->data.ipv4;
	reg->data_port = config->data.port;
	reg->slots = agent->reported_slots;
	reg->count_min = config->count_min;
	reg->count_max = config->count_max;
	reg->dtypes = config->dtypes;
	agent_send(turn, &message);
}

void agent_tell_slots(struct agent_turn *turn) {
	const struct hd_switch_agent *agent = turn->agent;

	if (agent->upstream.registered
	    && agent->reported_slots != agent->config.slots - agent_slots_foreign(agent))
		agent_send_register(turn);
}
