/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: leases of slots of switches. */
#ifndef CTL_SLOTS_H
#define CTL_SLOTS_H

#include "ctl_core.h"

struct hd_rows;

enum ctl_reduce_path {
	CTL_PATH_SHARDS,
	CTL_PATH_SLOTS, /* through job->lease */
	CTL_PATH_WAIT /* for the switch, or for earlier rounds */
};

/* Reasons against a lease that are compared by address. */
extern const char ctl_why_slots[], ctl_why_no_switch[];

/* --- ctl_lease_list.c --- */
struct ctl_lease *
ctl_lease_find(const struct hd_controller *c, const struct ctl_node *node, uint64_t name);
/* Slots of a switch that are leased. */
uint32_t ctl_lease_slots(const struct hd_controller *c, const struct ctl_node *node);
/* Whether rounds use it now. */
bool ctl_lease_is_busy(const struct ctl_lease *lease);
void ctl_lease_forget(struct hd_controller *c, struct ctl_lease *lease);
void ctl_lease_record(
	const struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_lease *lease,
	const char *what,
	const char *reason
);
/* Tells the switch, and frees the lease. No round uses it. */
void ctl_lease_end(
	struct hd_controller *c,
	struct ctl_lease *lease,
	enum hd_reason reason,
	struct hd_sink *sink
);
/* The job is freed. */
void ctl_lease_orphan(struct hd_controller *c, struct ctl_job *job);
void ctl_lease_fini(struct hd_controller *c);

/* --- ctl_lease.c --- */
/* This worker is lost: the others do not wait for its chunks. */
void ctl_lease_worker_down(
	struct hd_controller *c,
	struct ctl_job *job,
	uint16_t worker,
	struct hd_sink *sink
);
/* Checks leases: unanswered ones, unused ones, and those that have to end. Returns the time of the next check. */
hd_ns ctl_lease_check(struct hd_controller *c, struct hd_sink *sink);
/* The path of a round for which all workers have asked. */
enum ctl_reduce_path ctl_lease_choose_path(
	struct hd_controller *c,
	struct ctl_job *job,
	const struct ctl_reduce *r,
	struct hd_sink *sink
);

/* --- ctl_lease_pick.c --- */
/* The first chunks' exponent; beyond HD_FIXED_EXPONENT_MAX: there is none. */
int ctl_lease_exponent(const struct ctl_reduce *r);
/* Slots that chunks of `count` values need at `rate` bytes/s of values. */
uint32_t ctl_lease_want(hd_ns longest, double rate, uint16_t count);
/* Slots for each job that has some there, or lacks only slots to have some; this job is one of them. */
uint32_t ctl_lease_share(
	const struct hd_controller *c,
	const struct ctl_node *node,
	const struct ctl_job *job
);
/* Up to `want` slots after unused leases have been taken back; 0: fewer than the minimum. */
uint32_t ctl_lease_take(
	struct hd_controller *c,
	const struct ctl_node *node,
	uint32_t want,
	struct hd_sink *sink
);
/* How many of `most` slots are free, or can be taken back. */
uint32_t ctl_lease_free(const struct hd_controller *c, const struct ctl_node *node, uint32_t most);
/* Whether the lease, which is not in use, has about as many slots as it would get now. */
bool ctl_lease_is_fair(const struct hd_controller *c, struct ctl_lease *lease);
/* Whether the lease has more than its share while another job has none: then no more rounds begin with it. */
bool ctl_lease_is_over(const struct hd_controller *c, const struct ctl_lease *lease);
/* Returns a word why there is no lease. Else NULL, and *shape has node, dtype, count, slots, wanted, rate, seconds. */
const char *ctl_lease_pick(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	struct ctl_lease *shape,
	struct hd_sink *sink
);

/* --- ctl_lease_rate.c --- */
/* The rate of values over the slowest link now, bytes/s. */
double ctl_lease_rate(const struct hd_controller *c, const struct ctl_lease *lease);
/* A worker of this round has the sum, `took` after it received the lease's REDUCE. */
void ctl_lease_passed(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	hd_ns took
);

/* --- ctl_lease_send.c --- */
/* Sends the lease, or its remaining members, to the switch. 0 or -errno. */
int ctl_lease_send(struct hd_controller *c, const struct ctl_lease *lease, struct hd_sink *sink);
/* Sends REDUCE to all workers that are STARTED. */
void ctl_lease_begin(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	struct hd_sink *sink
);

/* --- ctl_lease_show.c --- */
extern const struct hd_row_shape ctl_switches_row_shape, ctl_leases_row_shape;
uint64_t ctl_rows_switches(const struct hd_controller *c, struct hd_rows *rows);
uint64_t ctl_rows_leases(const struct hd_controller *c, struct hd_rows *rows);

#endif
