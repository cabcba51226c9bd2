/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A switch on the path of a simulated network: the network hands it every packet as a frame, the native core says what
 * becomes of those to its service address. Agent and core live and die together: slots are lost with them.
 */
#ifndef HD_SIM_SWITCH_H
#define HD_SIM_SWITCH_H

#include "hd_random.h"
#include "hd_sim.h"
#include "hd_switch_agent.h"
#include "hd_switch_core.h"

struct hd_sim_switch {
	/* Set by whoever has it, before hd_sim_switch_attach(). */
	struct hd_sim *sim;
	int node; /* the agent's */
	struct hd_random *random;
	double unheard; /* chance that a neighbour is not known yet, each time it is asked for */
	void (*spoil)(void *owner, uint8_t *chunk); /* of a member, as it comes; NULL: none is */
	bool (*lose
	)(void *owner, struct hd_addr peer); /* a copy to this node, an answer of it; NULL: none */
	void *owner;
	/* Its own. */
	struct hd_switch_core *core; /* NULL: it is down */
	struct hd_switch_agent *agent;
	uint64_t counters[HD_SWITCH_COUNTER_COUNT]; /* of former lives */
	uint64_t leases, waits; /* set; members taken out */
	uint64_t refused; /* by agents that have ended */
};

struct hd_sim_switch_life {
	const char *name, *host;
	const struct hd_keyring *keys;
	struct hd_addr controller;
	uint64_t hash_key[2];
	uint8_t seed[32];
	uint16_t slots, dtypes;
	bool narrow; /* chunks as P4 has them; else any */
};

/* Puts it on the path of its network. */
void hd_sim_switch_attach(struct hd_sim_switch *s);
/* Begins a life: 0 with *node, or -errno with the error in words. */
int hd_sim_switch_start(
	struct hd_sim_switch *s,
	const struct hd_sim_switch_life *life,
	struct hd_node *node,
	char *error,
	size_t error_bytes
);
/* Ends it; the agent's node has been stopped. */
void hd_sim_switch_end(struct hd_sim_switch *s);

#endif
