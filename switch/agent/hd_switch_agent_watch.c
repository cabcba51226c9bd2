/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An executor that ends and starts again has no leases, and members would send chunks to it for ever.
 *
 *   there --watch() fails--> lost: no session with a controller
 *     | ^                      |
 *     | +--restarted, or ------+
 *     |    the same
 *     +--restarted--> leases are over, another session
 */
#include "hd_switch_agent_internal.h"

#include <stdio.h>

static void tell(const struct agent_turn *turn, enum hd_event_kind kind, enum hd_reason reason) {
	const struct hd_who who = {.host = turn->agent->host, .name = turn->agent->config.name};

	agent_event(
		turn,
		(struct hd_event
		){.kind = kind, .reason = reason, .aux = HD_ROLE_SWITCH, .who = &who}
	);
}

/* The executor does not know the leases, so it is not told that they end. */
static void lose(struct agent_turn *turn) {
	struct hd_switch_agent *agent = turn->agent;

	for (uint32_t i = 0; i < HD_SWITCH_LEASES_MAX; i++) {
		struct agent_lease *lease = agent->leases[i];

		if (!lease || !lease->held)
			continue;
		lease->held = false;
		agent->stats.leases_lost++;
		agent->stats.leases_ended++;
	}
	agent_leases_end_all(turn);
	agent->stats.executor_losses++;
	hd_upstream_leave(&agent->upstream, "the switch does not answer", turn->now, turn->sink);
	tell(turn, HD_EVENT_NODE_DOWN, HD_REASON_CLOSED);
}

void agent_watch(struct agent_turn *turn) {
	struct hd_switch_agent *agent = turn->agent;
	const struct hd_switch_agent_ops *ops = agent->config.ops;
	char words[HD_TEXT_BYTES_MAX] = "";
	uint64_t incarnation = agent->incarnation;
	bool restarted, was_lost = agent->lost;
	int rc;

	if (!ops->watch || turn->now < agent->watch_at)
		return;
	agent->watch_at = hd_ns_add(turn->now, AGENT_WATCH_NS);
	rc = ops->watch(agent->config.owner, &incarnation, words, sizeof words);
	restarted = rc == 0 && agent->seen && incarnation != agent->incarnation;
	agent->lost = rc < 0;
	if (!was_lost && (restarted || agent->lost))
		lose(turn);
	if (agent->lost) {
		(void)snprintf(
			agent->error,
			sizeof agent->error,
			"watch: %.400s",
			words[0] ? words : strerror(-rc)
		);
		return;
	}
	agent->incarnation = incarnation;
	agent->seen = true;
	if (was_lost || restarted)
		tell(turn, HD_EVENT_NODE_UP, HD_REASON_NONE);
}

hd_ns agent_watch_deadline(const struct hd_switch_agent *agent) {
	return agent->config.ops->watch ? agent->watch_at : HD_NEVER;
}
