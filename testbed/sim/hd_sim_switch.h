/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A switch on the path of a simulated network: the network gives it every packet as a frame, and the native core
 * handles those to its service address. Agent and core fail together: slots are lost with them.
 */
#ifndef HD_SIM_SWITCH_H
#define HD_SIM_SWITCH_H

#include "hd_random.h"
#include "hd_sim.h"
#include "hd_switch_agent.h"
#include "hd_switch_core.h"

struct hd_sim_switch {
	/* Set by the owner, before hd_sim_switch_attach(). */
	struct hd_sim *sim;
	int node; /* the agent's */
	struct hd_random *random;
	double unheard; /* probability that a neighbour is not known yet, at each look-up */
	/* Changes a member's chunk on arrival; NULL: none. */
	void (*spoil)(void *owner, uint8_t *chunk);
	/* Drops a copy to this node, or its answer; NULL: none. */
	bool (*lose)(void *owner, struct hd_addr peer);
	void *owner;
	/* Private. */
	struct hd_switch_core *core; /* NULL: it is down */
	struct hd_switch_agent *agent;
	uint64_t counters[HD_SWITCH_COUNTER_COUNT]; /* of former processes */
	uint64_t leases, waits; /* set; removed members */
	uint64_t refused; /* by former agents */
};

struct hd_sim_switch_setup {
	const char *name, *host;
	const struct hd_keyring *keys;
	struct hd_addr controller;
	uint64_t hash_key[2];
	uint8_t seed[32];
	uint16_t slots, dtypes;
	bool narrow; /* chunks as with P4; else any */
};

/* Puts it on the path of its network. */
void hd_sim_switch_attach(struct hd_sim_switch *s);
/* Starts a process: 0 with *node, or -errno with a text in error. */
int hd_sim_switch_start(
	struct hd_sim_switch *s,
	const struct hd_sim_switch_setup *setup,
	struct hd_node *node,
	char *error,
	size_t error_bytes
);
/* Ends it; the agent's node has been stopped. */
void hd_sim_switch_end(struct hd_sim_switch *s);

#endif
