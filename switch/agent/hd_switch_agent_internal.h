/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the agent core's files:
 *
 *   hd_switch_agent_send.c     events and reports to the controller
 *   hd_switch_agent_show.c     counters, tables for shells
 *   hd_switch_agent_lease.c    leases: admission, finding members, ends
 *   hd_switch_agent_watch.c    an executor that ends and starts again
 *   hd_switch_agent_session.c  routes: the controller's messages, shells'
 *   hd_switch_agent.c          node interface: packets, deadlines, create and destroy
 *
 * Each calls only those above it.
 */
#ifndef HD_SWITCH_AGENT_INTERNAL_H
#define HD_SWITCH_AGENT_INTERNAL_H

#include "hd_endpoint.h"
#include "hd_group.h"
#include "hd_switch_agent.h"
#include "hd_upstream.h"

#include <stdlib.h>
#include <string.h>

#define AGENT_ASK_NS (5 * HD_MS) /* between two tries to find a member */
#define AGENT_FIND_NS (200 * HD_MS) /* limit of all tries */
#define AGENT_WATCH_NS (250 * HD_MS) /* between two checks of the executor */

struct agent_lease {
	uint64_t name; /* the controller's */
	bool held; /* in force; else its members are being found */
	struct hd_switch_lease is; /* its arrays are the two below */
	struct hd_switch_member members[HD_SWITCH_MEMBERS_MAX];
	struct hd_switch_copy receivers[HD_SWITCH_RECEIVERS_MAX];
	uint32_t found; /* how many of the members and then the receivers */
	hd_ns made, look_at, find_until; /* these two until it is in force */
	hd_ns expires_at; /* HD_NEVER while the session lasts */
	uint32_t expires_us;
};

struct hd_switch_agent {
	struct hd_switch_agent_config config;
	char host[HD_NAME_BYTES_MAX + 1];
	struct hd_endpoint *endpoint;
	struct hd_upstream upstream; /* the controller's session */
	uint16_t epoch;
	uint16_t reported_slots; /* reported in the newest REGISTER */
	struct agent_lease *leases[HD_SWITCH_LEASES_MAX]; /* by id */
	uint16_t id_next; /* where the search for a free id begins */
	uint16_t slot_next;
	uint8_t slot_taken[HD_SWITCH_SLOTS];
	uint64_t incarnation; /* the executor's */
	bool seen; /* it has answered at least once */
	bool lost; /* it does not answer */
	hd_ns watch_at;
	char error[HD_TEXT_BYTES_MAX + 1];
	struct hd_switch_agent_stats stats;
};

/* The arguments that every handler takes. */
struct agent_turn {
	struct hd_switch_agent *agent;
	hd_ns now;
	struct hd_sink *sink;
};

/* --- hd_switch_agent_send.c --- */
void agent_event(const struct agent_turn *turn, struct hd_event event);
void agent_send(struct agent_turn *turn, const struct hd_message *message);
/* Reports the state of a lease. NONE: it is in force, and waits for these members. */
void agent_report(
	struct agent_turn *turn,
	uint32_t job,
	uint64_t name,
	enum hd_reason reason,
	uint64_t waits
);

/* Slots held by leases of another epoch. */
uint16_t agent_slots_foreign(const struct hd_switch_agent *agent);
void agent_send_register(struct agent_turn *turn);
/* Sends REGISTER if the number of slots that the controller can use has changed. */
void agent_tell_slots(struct agent_turn *turn);

/* --- hd_switch_agent_lease.c --- */
void agent_slots(struct agent_turn *turn, const struct hd_msg_slots *message);
void agent_void(struct agent_turn *turn, const struct hd_msg_void_ *message);
/* The controller's session has ended: drops leases that are not in force, the others begin to expire. */
void agent_leases_alone(struct agent_turn *turn);
/* The controller of agent->epoch has a new session: its earlier leases end. */
void agent_leases_restart(struct agent_turn *turn);
void agent_leases_end_all(struct agent_turn *turn);
/* Looks for members, ends expired leases. */
void agent_leases_check(struct agent_turn *turn);
hd_ns agent_leases_deadline(const struct hd_switch_agent *agent);

/* --- hd_switch_agent_watch.c --- */
/* Checks the executor if it is time. */
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
/* Checks a constant table. */
bool agent_routes_are_valid(void);

#endif
