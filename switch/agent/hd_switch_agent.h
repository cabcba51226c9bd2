/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The agent core of a switch on the path: a node that the controller leads. It registers the switch, turns leases
 * of slots (SLOTS, VOID) into what its executor is told, and answers when a lease is in force.
 *
 *      controller --SLOTS--> where are its members? --neighbour()--> slots, id --lease_set()--> REPORT(applied)
 *                 --SLOTS of the same lease-------------------------------> lease_waits() ----> REPORT(applied)
 *                 --VOID--------------------------------------------------> lease_end()
 *
 * Slots of a lease are one piece (the P4 executors' registers); ids and slots that are free again are given out last.
 *
 * A lease lasts as long as the session in which it was made, and `expires_us` longer, so that all-reduces under way
 * go on while there is no controller. When the same controller is back with a new session, it has given up what it
 * leased before: that ends at once. Another life of it does not know of the older leases: they expire, and meanwhile
 * their slots are not among those that it is told of.
 *
 * An executor that is another process may end and begin anew, without leases. The agent looks (watch()): then all
 * leases are over, and it leaves its session, in which they were made; as soon as there is an executor again it opens
 * another one. To the controller that is a switch which has gone, and one that has come.
 *
 * Chunks never come here: they are the executor's.
 */
#ifndef HD_SWITCH_AGENT_H
#define HD_SWITCH_AGENT_H

#include "hd_event.h"
#include "hd_keys.h"
#include "hd_node.h"
#include "hd_stats.h"
#include "hd_switch.h"

struct hd_switch_agent;

/* The executor. Each returns 0 or -errno, and may say why in `error` (error_bytes > 0, given empty). None waits. */
struct hd_switch_agent_ops {
	/* Port and Ethernet address by which frames to copy->ipv4 leave, as learned from frames, told, or asked for:
	 * sets copy->port and copy->mac. -EAGAIN: not known yet, it has been asked for. */
	int (*neighbour
	)(void *owner, uint32_t ipv4, struct hd_switch_copy *copy, char *error, size_t error_bytes);
	/* The lease's id is free, its cells begin empty. All of it is copied. */
	int (*lease_set
	)(void *owner, const struct hd_switch_lease *lease, char *error, size_t error_bytes);
	int (*lease_waits
	)(void *owner, uint16_t id, uint64_t waits, char *error, size_t error_bytes);
	int (*lease_end)(void *owner, uint16_t id, char *error, size_t error_bytes);
	/* All since its beginning. */
	int (*counters
	)(void *owner, uint64_t counters[HD_SWITCH_COUNTER_COUNT], char *error, size_t error_bytes);
	/* Sets *life to what it set last, or to another number: then nothing is left of what it was told before.
	 * -errno: there is no executor now. NULL: it lives as long as the agent does. */
	int (*watch)(void *owner, uint64_t *life, char *error, size_t error_bytes);
	/* Adds what the core cannot see to the numbers that shells ask for: ports, queues, cores. May be NULL. */
	void (*gather)(void *owner, struct hd_stats *stats);
};

struct hd_switch_agent_config {
	const char *name;
	const char *host; /* the switch's own name in the topology */
	const struct hd_keyring *keys; /* outlives it */
	uint16_t key_id;
	uint8_t seed[32];
	struct hd_addr controller; /* who leases */
	struct hd_addr data; /* the service address: chunks go to it */
	uint16_t slots; /* of all leases; 0: HD_SWITCH_SLOTS */
	uint16_t count_min, count_max; /* values of a chunk */
	uint16_t dtypes; /* bit d: enum hd_dtype d */
	const struct hd_switch_agent_ops *ops;
	void *owner;
};

/* 0, -EINVAL (no key with key_id; a name or host too long; ops; slots; counts; dtypes), -ENOMEM. */
int hd_switch_agent_create(
	const struct hd_switch_agent_config *config,
	struct hd_switch_agent **agent
);
/* The executor is told nothing any more. */
void hd_switch_agent_destroy(struct hd_switch_agent *agent);
extern const struct hd_core_ops hd_switch_agent_core;

/* Ends every lease and closes every session, before the end. */
void hd_switch_agent_drain(struct hd_switch_agent *agent, hd_ns now, struct hd_sink *sink);

/* All since creation. */
struct hd_switch_agent_stats {
	uint64_t drop_malformed, drop_version, drop_type;
	uint64_t refused_messages; /* out of place: role, kind */
	uint64_t leases, leases_refused, leases_ended, leases_expired, leases_lost;
	uint64_t waits_changed;
	uint64_t executor_errors; /* calls that failed */
	uint64_t executor_losses;
	uint64_t neighbours_asked; /* that were not known at once */
	uint64_t leases_now, slots_now, slots_all;
	uint64_t leases_pushes, slots_pushes; /* of those now: of groups of pushes */
};
const struct hd_switch_agent_stats *hd_switch_agent_stats(const struct hd_switch_agent *agent);
extern const struct hd_stat_group hd_switch_agent_group;
/* HD_SWITCH_COUNTERS, of the executor. Its values are uint64_t [HD_SWITCH_COUNTER_COUNT]. */
extern const struct hd_stat_group hd_switch_counter_group;
extern const struct hd_stat_group *const hd_switch_agent_groups[]; /* NULL after the last */
/* Adds these, the executor's and the endpoint's, with what each means. */
void hd_switch_agent_gather(const struct hd_switch_agent *agent, struct hd_stats *stats);
/* What a shell gets by message: the tables switch (itself, with what it counted), slots, ports, queues, cores
 * and counters, as hd_rows.h has them; malloc'ed. NULL with *error set: no such table, bad filter. */
extern const struct hd_row_shape *const hd_switch_agent_shapes[]; /* NULL after the last */
char *hd_switch_agent_table(
	const struct hd_switch_agent *agent,
	hd_ns now,
	const char *table,
	const char *filter,
	const char **error
);
/* What the executor said last when a call failed; "": none has. */
const char *hd_switch_agent_error(const struct hd_switch_agent *agent);

#endif
