/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The controller core: registration, the network view, planning, grants, the shell's
 * tables. See docs/architecture.md for the life of an update.
 */
#ifndef HD_CONTROLLER_H
#define HD_CONTROLLER_H

#include "hd_keys.h"
#include "hd_message.h"
#include "hd_node.h"
#include "hd_record.h"
#include "hd_stats.h"

struct hd_topology;
struct hd_controller;

/* A command as it was typed, cut where it does not fit. Returns its bytes. */
#define HD_COMMAND_BYTES (2 * HD_NAME_BYTES_MAX + 2 * HD_TEXT_BYTES_MAX + 8)
size_t hd_command_words(const struct hd_msg_command *command, char *text, size_t bytes);

/* Functions of the program around the core. Each may be NULL; all are called on the core's thread. */
struct hd_controller_ops {
	/* Adds counters that the core does not have: ports, queues, cores, the process, the journal. */
	void (*gather)(void *owner, struct hd_stats *stats);
	/* For the journal. */
	void (*record)(void *owner, const struct hd_record *record);
	/* A command of an operator was answered. */
	void (*commanded
	)(void *owner,
	  struct hd_addr from,
	  const struct hd_msg_command *command,
	  const struct hd_msg_done *done);
	/* A shell's session begins or ends (NODE_UP, NODE_DOWN). For logs: shells are no nodes of the fabric, so the
	 * sink gets no such events. */
	void (*visited)(void *owner, const struct hd_event *event);
	/* State that must outlive this controller has changed: the text of hd_controller_kept(), to be freed. */
	void (*keep)(void *owner, char *text);
	const char *(*log_level)(void *owner);
	int (*set_log_level)(void *owner, const char *text); /* 0, or -EINVAL */
};

struct hd_controller_config {
	const char *name;
	const struct hd_keyring *keys;
	uint16_t key_id;
	uint8_t seed[32];
	uint16_t epoch; /* greater than every earlier process's; the program keeps it in a file */
	struct hd_topology *topology; /* taken over */
	double initial_bps; /* capacity assumed before the first sample; 0: 1 Gbit/s */
	uint32_t interval_us; /* 0: HD_BATCH_INTERVAL_US */
	uint32_t detection_us; /* 0: HD_DETECTION_US */
	uint32_t horizon_us; /* grants are given to transfers that start within this; 0: adaptive */
	uint64_t job_idle_us; /* a job without workers for this time has ended; 0: HD_JOB_IDLE_US */
	/* Commits between two states for a replica; 0: copies of all updates. */
	uint32_t replicate_every;
	double theta; /* drop rule; 0: off (infinity) */
	double ageing_s; /* 0: 5 s */
	/* Guard: the largest share of a worker's pushes that theta drops; 0: 100. */
	uint32_t drop_permille_max;
	uint64_t credit_bytes; /* the largest push or pull without a request; 0: HD_CREDIT_BYTES */
	bool no_credits; /* every transfer needs a request */
	bool no_inline; /* no values of collectives come with requests */
	bool ranked_sums; /* aggregators add in the order of positions: the same bits in every run */
	bool unscheduled; /* registers all workers and lets them send directly (for comparison) */
	const struct hd_controller_ops *ops; /* may be NULL */
	void *owner;
};

/* 0, -EINVAL, -ENOMEM. */
int hd_controller_create(
	const struct hd_controller_config *config,
	struct hd_controller **controller
);
void hd_controller_destroy(struct hd_controller *controller);
extern const struct hd_core_ops hd_controller_ops;

/* Settings of operators, and which host's server has which job, as JSON (docs/operations.md); malloc'ed, NULL: no
 * memory. */
char *hd_controller_kept(const struct hd_controller *controller);
/* Restores what an earlier process gave to ops->keep, before the first event. These settings override the
 * configuration. 0; -EINVAL with "line L: field: what" in error, and nothing has changed; -ENOMEM. */
int hd_controller_restore(
	struct hd_controller *controller,
	const char *text,
	char *error,
	size_t error_bytes
);

/* One of the shell's tables (nodes jobs links transfers drops estimates staleness plan groups settings ports queues
 * cores counters histograms) as JSON, malloc'ed; the shell gets the same by message:
 *   {"table", "at_s", "epoch", "rows": [objects], "total", "from", "next": row or null}
 * filter (may be NULL): words separated by spaces; a row must match all of them: `field=value`, or a part of one of its
 * texts. `from=N` begins at that row of the table (from 0), of `total` rows. NULL with *error set: no such table, bad
 * filter. */
char *hd_controller_table(
	const struct hd_controller *controller,
	const char *table,
	const char *filter,
	const char **error
);

/* The shape of the rows of each table, by index from 0; NULL after the last. */
struct hd_row_shape;
const struct hd_row_shape *hd_controller_shape(size_t index);

/* The core's own groups, NULL after the last. */
extern const struct hd_stat_group *const hd_controller_groups[];
/* Adds every counter, gauge and histogram: the core's own groups, and what ops->gather adds. */
void hd_controller_stats(const struct hd_controller *controller, struct hd_stats *stats);
/* The same for metrics. From then on nodes are polled for theirs at intervals, as long as such calls continue. */
void hd_controller_scrape(struct hd_controller *controller, struct hd_stats *stats);

/* For invariant checkers: the sum of the reservations on a link at a time, and the estimate that they were planned with
 * (0 before the first plan). Links are those of the topology, each one higher: link 0 is "local", for transfers between
 * two nodes on one host. ESTIMATE events have the same numbers. Reservations are updated in each planning pass
 * (ctl_reserve.c). */
uint32_t hd_controller_link_count(const struct hd_controller *controller);
const char *hd_controller_link_name(const struct hd_controller *controller, uint32_t link);
/* Whether the counters of all jobs are consistent (docs/operations.md, "jobs"), and the wait of each grant was counted.
 * If not, error has the counters and the difference. */
bool hd_controller_adds_up(const struct hd_controller *controller, char *error, size_t error_bytes);
/* The server of the job; no address: it has none. */
struct hd_addr hd_controller_server(const struct hd_controller *controller, uint32_t job);
double hd_controller_reserved_bps(const struct hd_controller *controller, uint32_t link, hd_ns at);
/* Sets marked[link] for each link that has reservations; the array has one entry for each link. */
void hd_controller_mark_reserved(const struct hd_controller *controller, bool *marked);
double hd_controller_planned_bps(const struct hd_controller *controller, uint32_t link);
/* The rate that a job of this weight is believed to get from the link now, when no other transfer of ours uses it. */
double
hd_controller_estimate_bps(const struct hd_controller *controller, uint32_t link, double weight);

#endif
