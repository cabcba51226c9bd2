/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: leases of slots of switches. */
#ifndef CTL_SLOTS_H
#define CTL_SLOTS_H

#include "ctl_core.h"

struct hd_rows;

enum ctl_way {
	CTL_WAY_SHARDS,
	CTL_WAY_SLOTS, /* through job->lease */
	CTL_WAY_WAIT /* for the switch, or for rounds before it */
};

/* Words for why it is none that are compared as they are. */
extern const char ctl_why_slots[], ctl_why_no_switch[];

/* --- ctl_lease_list.c --- */
struct ctl_lease *
ctl_lease_find(const struct hd_controller *c, const struct ctl_node *node, uint64_t name);
/* Slots of a switch that are leased. */
uint32_t ctl_lease_slots(const struct hd_controller *c, const struct ctl_node *node);
/* Whether rounds are under way through it. */
bool ctl_lease_is_busy(const struct ctl_lease *lease);
void ctl_lease_forget(struct hd_controller *c, struct ctl_lease *lease);
void ctl_lease_record(
	const struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_lease *lease,
	const char *what,
	const char *reason
);
/* Tells the switch, and frees it. No round is on it. */
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
/* This worker is gone: nobody waits for its chunks. */
void ctl_lease_worker_down(
	struct hd_controller *c,
	struct ctl_job *job,
	uint16_t worker,
	struct hd_sink *sink
);
/* Leases that nobody answered for, that nobody uses, that are not to be any more. Returns when to look again. */
hd_ns ctl_lease_check(struct hd_controller *c, struct hd_sink *sink);
/* How a round goes for which everybody has asked. */
enum ctl_way ctl_lease_way(
	struct hd_controller *c,
	struct ctl_job *job,
	const struct ctl_reduce *r,
	struct hd_sink *sink
);

/* --- ctl_lease_pick.c --- */
/* The first chunks' exponent; beyond HD_FIXED_EXPONENT_MAX: there is none. */
int ctl_lease_exponent(const struct ctl_reduce *r);
/* Slots that chunks of so many values need, at so many bytes/s of them. */
uint32_t ctl_lease_want(hd_ns longest, double rate, uint16_t count);
/* Slots for each of the jobs that have some there, or would have some but for its slots; this one is one of them. */
uint32_t ctl_lease_share(
	const struct hd_controller *c,
	const struct ctl_node *node,
	const struct ctl_job *job
);
/* So many of `want` slots as there are, once what nobody uses is taken back; 0: less than the least. */
uint32_t ctl_lease_take(
	struct hd_controller *c,
	const struct ctl_node *node,
	uint32_t want,
	struct hd_sink *sink
);
/* So many of these are free, or can be taken back. */
uint32_t ctl_lease_free(const struct hd_controller *c, const struct ctl_node *node, uint32_t most);
/* Whether the lease, which is not in use, has about as many slots as it would get now. */
bool ctl_lease_is_fair(const struct hd_controller *c, struct ctl_lease *lease);
/* Whether it has more than its share while another job has none: no more rounds begin through it as it is. */
bool ctl_lease_is_over(const struct hd_controller *c, const struct ctl_lease *lease);
/* Returns why it is none, in a word. Else NULL, and *shape has node, dtype, count, slots, wanted, rate, seconds. */
const char *ctl_lease_pick(
	struct hd_controller *c,
	const struct ctl_job *job,
	const struct ctl_reduce *r,
	struct ctl_lease *shape,
	struct hd_sink *sink
);

/* --- ctl_lease_rate.c --- */
/* Of values over the slowest link now, bytes/s. */
double ctl_lease_rate(const struct hd_controller *c, const struct ctl_lease *lease);
/* A worker of this round of the lease, which it was told of, has the sum, after so long. */
void ctl_lease_passed(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	hd_ns took
);

/* --- ctl_lease_say.c --- */
/* The lease, or who is waited for in it now. 0 or -errno. */
int ctl_lease_say(struct hd_controller *c, const struct ctl_lease *lease, struct hd_sink *sink);
/* REDUCE to everybody who is TOLD. */
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
