/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_event.h"

static const char *const reason_names[HD_REASON_COUNT] = {
#define REASON_NAME(name, text) [HD_REASON_##name] = (text),
	HD_REASONS(REASON_NAME)
#undef REASON_NAME
};

static const char *const outcome_names[HD_OUTCOME_COUNT] = {
	[HD_OUTCOME_PENDING] = "pending",
	[HD_OUTCOME_APPLIED] = "applied",
	[HD_OUTCOME_DROPPED] = "dropped",
	[HD_OUTCOME_FAILED] = "failed",
};

static const char *const event_names[HD_EVENT_COUNT] = {
	[HD_EVENT_NONE] = "none",
	[HD_EVENT_PUSHED] = "pushed",
	[HD_EVENT_PULLED] = "pulled",
	[HD_EVENT_REQUESTED] = "requested",
	[HD_EVENT_GRANTED] = "granted",
	[HD_EVENT_DROPPED] = "dropped",
	[HD_EVENT_VOIDED] = "voided",
	[HD_EVENT_GO] = "go",
	[HD_EVENT_SEND_START] = "send-start",
	[HD_EVENT_SEND_END] = "send-end",
	[HD_EVENT_RECV_START] = "recv-start",
	[HD_EVENT_RECV_END] = "recv-end",
	[HD_EVENT_COMMITTED] = "committed",
	[HD_EVENT_OUTCOME] = "outcome",
	[HD_EVENT_DURABLE] = "durable",
	[HD_EVENT_CHECKPOINT] = "checkpoint",
	[HD_EVENT_SNAPSHOT] = "snapshot",
	[HD_EVENT_PLAN] = "plan",
	[HD_EVENT_ESTIMATE] = "estimate",
	[HD_EVENT_NODE_UP] = "node-up",
	[HD_EVENT_NODE_DOWN] = "node-down",
	[HD_EVENT_FALLBACK] = "fallback",
	[HD_EVENT_COMMAND] = "command",
	[HD_EVENT_ROLLED_BACK] = "rolled-back",
	[HD_EVENT_LOG_GAP] = "log-gap",
	[HD_EVENT_CREDITED] = "credited",
	[HD_EVENT_SEEDED] = "seeded",
	[HD_EVENT_REPLICATED] = "replicated",
	[HD_EVENT_PROMOTED] = "promoted",
	[HD_EVENT_NOTICE] = "notice",
	[HD_EVENT_ROSTER] = "roster",
	[HD_EVENT_TARGET] = "target",
	[HD_EVENT_STEP_WAITS] = "step-waits",
	[HD_EVENT_STEPPED] = "stepped",
	[HD_EVENT_LEFT_OUT] = "left-out",
};

const char *hd_reason_name(enum hd_reason reason) {
	return (unsigned)reason < HD_REASON_COUNT ? reason_names[reason] : "unknown";
}

const char *hd_outcome_name(enum hd_outcome outcome) {
	return (unsigned)outcome < HD_OUTCOME_COUNT ? outcome_names[outcome] : "unknown";
}

const char *hd_event_name(enum hd_event_kind kind) {
	return (unsigned)kind < HD_EVENT_COUNT ? event_names[kind] : "unknown";
}
