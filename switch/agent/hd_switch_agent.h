/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The agent core of a switch on the path: a node under the controller. It registers the switch, turns leases of slots
 * (SLOTS, VOID) into calls of its executor, and reports when a lease is in force.
 *
 *      controller --SLOTS--> where are its members? --neighbour()--> slots, id --lease_set()--> REPORT(applied)
 *                 --SLOTS of the same lease-------------------------------> lease_waits() ----> REPORT(applied)
 *                 --VOID--------------------------------------------------> lease_end()
 *
 * Slots of a lease are contiguous (the P4 executors' registers); freed ids and slots are reused last.
 *
 * A lease lasts as long as the session in which it was made, and `expires_us` longer, so that all-reduces in flight
 * continue without a controller. When the same controller returns with a new session, it has given up its earlier
 * leases: they end at once. A restarted controller does not know the older leases: they expire, and until then their
 * slots are not among those reported to it.
 *
 * An executor in another process may end and start again, without leases. The agent checks (watch()): then all leases
 * are over, and it leaves the session in which they were made; it opens another one as soon as there is an executor
 * again. To the controller, one switch has left and another one has come.
 *
 * Chunks never reach the agent: the executor handles them.
 */
#ifndef HD_SWITCH_AGENT_H
#define HD_SWITCH_AGENT_H

#include "hd_event.h"
#include "hd_keys.h"
#include "hd_node.h"
#include "hd_stats.h"
#include "hd_switch.h"

struct hd_switch_agent;

/* The executor. Each returns 0 or -errno, and may write a text to `error` (error_bytes > 0, initially empty). None
 * blocks. */
struct hd_switch_agent_ops {
	/* The port and Ethernet address for frames to copy->ipv4, learned from frames, configured, or asked for: sets
	 * copy->port and copy->mac. -EAGAIN: unknown yet, it has been asked for. */
	int (*neighbour
	)(void *owner, uint32_t ipv4, struct hd_switch_copy *copy, char *error, size_t error_bytes);
	/* The lease's id is free, its cells begin empty. The executor copies all of it. */
	int (*lease_set
	)(void *owner, const struct hd_switch_lease *lease, char *error, size_t error_bytes);
	int (*lease_waits
	)(void *owner, uint16_t id, uint64_t waits, char *error, size_t error_bytes);
	int (*lease_end)(void *owner, uint16_t id, char *error, size_t error_bytes);
	/* Counts since its start. */
	int (*counters
	)(void *owner, uint64_t counters[HD_SWITCH_COUNTER_COUNT], char *error, size_t error_bytes);
	/* Sets *life to the same number as before, or to another one: then it has lost everything that was set. -errno:
	 * there is no executor now. NULL: it lives as long as the agent. */
	int (*watch)(void *owner, uint64_t *incarnation, char *error, size_t error_bytes);
	/* Adds counters from outside of the core, of ports, queues and cores, to those that shells ask for. May be
	 * NULL. */
	void (*gather)(void *owner, struct hd_stats *stats);
};

struct hd_switch_agent_config {
	const char *name;
	const char *host; /* the switch's own name in the topology */
	const struct hd_keyring *keys; /* must outlive it */
	uint16_t key_id;
	uint8_t seed[32];
	struct hd_addr controller; /* assigns the leases */
	struct hd_addr data; /* the service address: the chunks' destination */
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
/* The executor is not called any more. */
void hd_switch_agent_destroy(struct hd_switch_agent *agent);
extern const struct hd_core_ops hd_switch_agent_core;

/* Ends every lease and closes every session. Comes before hd_switch_agent_destroy(). */
void hd_switch_agent_drain(struct hd_switch_agent *agent, hd_ns now, struct hd_sink *sink);

/* Counted since creation. */
struct hd_switch_agent_stats {
	uint64_t drop_malformed, drop_version, drop_type;
	uint64_t refused_messages; /* wrong role or kind */
	uint64_t leases, leases_refused, leases_ended, leases_expired, leases_lost;
	uint64_t waits_changed;
	uint64_t executor_errors; /* calls that failed */
	uint64_t executor_losses;
	uint64_t neighbours_asked; /* that were unknown at first */
	uint64_t leases_now, slots_now, slots_all;
	uint64_t leases_pushes, slots_pushes; /* of the current ones: for groups of pushes */
};
const struct hd_switch_agent_stats *hd_switch_agent_stats(const struct hd_switch_agent *agent);
extern const struct hd_stat_group hd_switch_agent_group;
/* The executor's HD_SWITCH_COUNTERS. Its values are uint64_t [HD_SWITCH_COUNTER_COUNT]. */
extern const struct hd_stat_group hd_switch_counter_group;
extern const struct hd_stat_group *const hd_switch_agent_groups[]; /* NULL after the last */
/* Adds these counters, the executor's and the endpoint's, with their descriptions. */
void hd_switch_agent_gather(const struct hd_switch_agent *agent, struct hd_stats *stats);
/* Answers a shell: the tables switch (itself and its counters), slots, ports, queues, cores and counters in hd_rows.h's
 * format; malloc'ed. NULL with *error set: no such table, bad filter. */
extern const struct hd_row_shape *const hd_switch_agent_shapes[]; /* NULL after the last */
char *hd_switch_agent_table(
	const struct hd_switch_agent *agent,
	hd_ns now,
	const char *table,
	const char *filter,
	const char **error
);
/* The executor's text of its last failed call; "": none. */
const char *hd_switch_agent_error(const struct hd_switch_agent *agent);

#endif
