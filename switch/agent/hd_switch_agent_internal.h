/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the agent core's files share:
 *
 *   hd_switch_agent_say.c      events, what the controller is told
 *   hd_switch_agent_show.c     counters, tables for shells
 *   hd_switch_agent_lease.c    leases: what is admitted, where members are, ends
 *   hd_switch_agent_watch.c    an executor that ends, and begins anew
 *   hd_switch_agent_session.c  who may say what: the controller, shells
 *   hd_switch_agent.c          node face: packets in, deadlines, life
 *
 * Each calls those above it only.
 */
#ifndef HD_SWITCH_AGENT_INTERNAL_H
#define HD_SWITCH_AGENT_INTERNAL_H

#include "hd_endpoint.h"
#include "hd_group.h"
#include "hd_switch_agent.h"
#include "hd_upstream.h"

#include <stdlib.h>
#include <string.h>

#define AGENT_ASK_NS (5 * HD_MS) /* between two looks for a member whose place is not known */
#define AGENT_FIND_NS (200 * HD_MS) /* and so long at most */
#define AGENT_WATCH_NS (250 * HD_MS) /* between two looks at the executor */

struct agent_lease {
	uint64_t name; /* the controller's */
	bool held; /* in force; else its members are looked for */
	struct hd_switch_lease is; /* its lists are the two below */
	struct hd_switch_member members[HD_SWITCH_MEMBERS_MAX];
	struct hd_switch_copy receivers[HD_SWITCH_RECEIVERS_MAX];
	uint32_t found; /* of members, then receivers */
	hd_ns made, look_at, find_until; /* these two until it is held */
	hd_ns expires_at; /* HD_NEVER while the session lasts */
	uint32_t expires_us;
};

struct hd_switch_agent {
	struct hd_switch_agent_config config;
	char host[HD_NAME_BYTES_MAX + 1];
	struct hd_endpoint *endpoint;
	struct hd_upstream upstream; /* the controller's session */
	uint16_t epoch;
	uint16_t told_slots; /* in the newest REGISTER */
	struct agent_lease *leases[HD_SWITCH_LEASES_MAX]; /* by id */
	uint16_t id_next; /* where to look for a free id */
	uint16_t slot_next;
	uint8_t slot_taken[HD_SWITCH_SLOTS];
	uint64_t life; /* the executor's */
	bool seen; /* it has answered once */
	bool lost; /* it does not answer */
	hd_ns watch_at;
	char error[HD_TEXT_BYTES_MAX + 1];
	struct hd_switch_agent_stats stats;
};

/* What a handler is called with, in one piece. */
struct agent_turn {
	struct hd_switch_agent *agent;
	hd_ns now;
	struct hd_sink *sink;
};

/* --- hd_switch_agent_say.c --- */
void agent_event(const struct agent_turn *turn, struct hd_event event);
void agent_say(struct agent_turn *turn, const struct hd_message *message);
/* How a lease stands. NONE: it is held, and waits for these members. */
void agent_report(
	struct agent_turn *turn,
	uint32_t job,
	uint64_t name,
	enum hd_reason reason,
	uint64_t waits
);

/* Slots that leases of another epoch hold. */
uint16_t agent_slots_foreign(const struct hd_switch_agent *agent);
void agent_say_register(struct agent_turn *turn);
/* Says REGISTER when the slots that the controller can use are others than it was told. */
void agent_tell_slots(struct agent_turn *turn);

/* --- hd_switch_agent_lease.c --- */
void agent_slots(struct agent_turn *turn, const struct hd_msg_slots *message);
void agent_void(struct agent_turn *turn, const struct hd_msg_void_ *message);
/* The controller's session has ended: leases that are not held are given up, the others begin to expire. */
void agent_leases_alone(struct agent_turn *turn);
/* A controller of agent->epoch is there anew: what it leased before is over. */
void agent_leases_anew(struct agent_turn *turn);
void agent_leases_end_all(struct agent_turn *turn);
/* Looks for members, ends what has expired. */
void agent_leases_check(struct agent_turn *turn);
hd_ns agent_leases_deadline(const struct hd_switch_agent *agent);

/* --- hd_switch_agent_watch.c --- */
/* Looks at the executor, when it is time. */
void agent_watch(struct agent_turn *turn);
hd_ns agent_watch_deadline(const struct hd_switch_agent *agent);

/* --- hd_switch_agent_show.c --- */
void agent_show(
	struct agent_turn *turn,
	struct hd_session *session,
	const struct hd_msg_show *show
);
void agent_poll(
	struct agent_turn *turn,
	struct hd_session *session,
	const struct hd_msg_poll *poll
);
void agent_refuse(struct agent_turn *turn, struct hd_session *session, const char *words);

/* --- hd_switch_agent_session.c --- */
extern const struct hd_endpoint_ops agent_endpoint_ops;
/* Of a constant table. */
bool agent_routes_are_valid(void);

#endif
