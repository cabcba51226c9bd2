/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective of three workers, each with its values on a device or on the host, and what its result has to be.
 * Values are small whole numbers: exact in every type and payload.
 */
#ifndef FAR_ROUND_H
#define FAR_ROUND_H

#include "far_nodes.h"
#include "hd_device.h"

#define FAR_WORKERS 3

enum far_kind {
	FAR_ALLREDUCE,
	FAR_BROADCAST,
	FAR_REDUCE,
	FAR_ALLGATHER,
	FAR_REDUCE_SCATTER,
	FAR_ALLTOALL,
	FAR_GATHER,
	FAR_SCATTER,
	FAR_SEND, /* from the root to the one behind it; the third takes no part */
	FAR_KINDS
};

struct far_how {
	enum far_kind kind;
	enum heddle_type type;
	enum heddle_payload payload;
	uint64_t count;
	unsigned root; /* the place of a worker, as all numbers of workers here */
	unsigned shift; /* values from an aligned address to the begin of the device's buffers */
};

struct far_group {
	struct far_nodes *nodes;
	struct hd_device *device;
	struct heddle *worker[FAR_WORKERS];
	bool is_far[FAR_WORKERS]; /* its values are on the device */
	void *stream; /* on which the device's workers call */
};

/* One worker's part in a round. */
struct far_part {
	char *in, *out; /* on the host: what it gives, what has to be found */
	char *far_in, *far_out; /* what it calls with */
	void *in_memory, *out_memory; /* the device's of these two; NULL: they are on the host */
	uint64_t room; /* values */
	struct heddle_ticket *ticket;
};

/* With workers on these hosts. */
void far_group_open(
	struct far_group *group,
	struct hd_device *device,
	const char *job,
	const char *const hosts[FAR_WORKERS]
);
/* Waits at most so long for each. */
void far_group_close(struct far_group *group, int timeout_ms);

size_t far_value_bytes(enum heddle_type type);
int far_rank(unsigned worker);
bool far_takes_part(const struct far_how *how, unsigned worker);
bool far_gives(const struct far_how *how, unsigned worker);
/* Values of its result; 0: there is none. */
uint64_t far_result_count(const struct far_how *how, unsigned worker);
bool far_receives(const struct far_how *how, unsigned worker);

/* Buffers of this worker: what it gives is there; where the result goes is filled with marks. */
void far_part_init(
	struct far_part *part,
	const struct far_group *group,
	const struct far_how *how,
	unsigned worker
);
void far_part_fini(struct far_part *part, const struct far_group *group);
/* Starts its call, or whatever else: the result of the call. */
int far_part_start(
	struct far_part *part,
	const struct far_group *group,
	const struct far_how *how,
	unsigned worker
);
/* It is applied, and everything is as it has to be. */
void far_part_check(
	struct far_part *part,
	const struct far_group *group,
	const struct far_how *how,
	unsigned worker
);
/* The buffer has the result. */
void far_part_found(
	struct far_part *part,
	const struct far_group *group,
	const struct far_how *how,
	unsigned worker
);
/* It waits until the ticket has ended. */
struct heddle_status far_part_end(struct far_part *part);
/* Where the result was to go there is nothing but marks. */
void far_part_untouched(
	const struct far_part *part,
	const struct far_group *group,
	const struct far_how *how,
	unsigned worker
);
/* All of it. */
void far_round(const struct far_group *group, const struct far_how *how);

#endif
