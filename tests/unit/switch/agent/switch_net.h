/* SPDX-License-Identifier: BSD-3-Clause */
/* The agent of a switch, with an executor that only remembers (switch_executor.h), and a controller that does what
 * the test tells it. */
#ifndef SWITCH_NET_H
#define SWITCH_NET_H

#include "server_net.h"
#include "switch_executor.h"

#define SWITCH_IP 0x0a000401
#define CONTROLLER_IP 0x0a000002
#define MEMBER_IP 0x0a000100 /* plus the rank */
#define JOB 77
#define LEASE_US 2000000 /* how long leases live without a controller */

struct world {
	struct net net;
	struct hd_switch_agent *agent;
	struct net_node node; /* the agent's */
	struct executor executor;
	struct fake *controller;
};

/* A lease that a test asks for; members 0.. with tokens 0x1000 * lease + rank, results 0x2000 * lease + rank. */
struct plan {
	struct hd_msg_slots message;
	struct hd_group_seat seats[HD_SWITCH_MEMBERS_MAX + 1];
	struct hd_group_receiver receivers[HD_SWITCH_RECEIVERS_MAX + 1];
	uint32_t seat_count, receiver_count;
};

/* A switch of `slots` slots that has registered with a controller of epoch 3. */
struct world *world_open(uint16_t slots);
void world_close(struct world *world);
const struct hd_switch_agent_stats *stats_of(const struct world *world);
/* The controller dies without notice; another one takes its place. */
void world_lose(struct world *world);
void world_restart(struct world *world, uint16_t epoch);

struct plan plan_make(uint64_t lease, uint32_t members, uint16_t slots);
void plan_send(struct world *world, struct plan *plan);
void send_void(struct world *world, uint64_t lease);
/* The newest REPORT of the lease; NULL: none. */
const struct hd_msg_report *answer_of(const struct world *world, uint64_t lease);
void assert_answer(
	const struct world *world,
	uint64_t lease,
	enum hd_outcome outcome,
	enum hd_reason reason
);
/* The newest REGISTER. */
const struct hd_msg_register_ *registration(const struct world *world);

#endif
