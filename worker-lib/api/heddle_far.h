/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Updates and models (heddle_far.c), values of collectives (heddle_far_collective.c) in the memory of a device.
 *
 *   push        the caller's stream: ... | take --> sums, copy (borrowed: none) | event
 *               the event is done -> the core has norm and peak -> a grant: pack (own stream) --> near -> chunks
 *   pull        chunks -> near -> own stream: waits for the caller's | unpack --> to | event -> APPLIED
 *   collective  the caller's stream: ... | copy --> near | event -> the core, result in near
 *               -> the caller's stream has come to the call -> own stream: copy --> to | event -> APPLIED
 *               Nothing is copied where this worker gives nothing (the core begins at once), or receives nothing.
 *
 * `near` is memory of the host that the device writes and reads: no copy of the host's lies between it and the packets.
 */
#ifndef HEDDLE_FAR_H
#define HEDDLE_FAR_H

#include "hd_device.h"
#include "hd_worker.h"

#include <sys/queue.h>

#define HEDDLE_FAR_SPARES_MAX                                                                      \
	8 /* kept for the next of its size: registering memory costs more than using it */
#define HEDDLE_FAR_STAGE (10 * HD_SECOND) /* longer is no stage: the device has failed */
#define HEDDLE_FAR_SETTLE                                                                          \
	HD_SECOND /* for the caller's stream, when a ticket ends before it was ever taken up */

struct heddle;
struct heddle_call;
struct heddle_ticket;
struct heddle_push_options;

struct heddle_far {
	TAILQ_ENTRY(heddle_far) link; // lock: among the spare ones
	struct heddle_far *left; /* the one before that was left to its device */
	struct hd_device *device;
	void *stream, *event; /* its own stream */
	void *near;
	size_t near_bytes;
	void *copy; /* on the device; NULL: none */
	size_t copy_bytes;
	/* Of one ticket. */
	const float *from; /* push: on the device */
	void *to; /* pull, collective: on the device; NULL: nothing comes */
	bool waits; /* the core is told when the event is done: what it sends is there then */
	struct hd_stage_sums *sums; /* these two in near */
	uint64_t *flags;
	uint32_t generation;
	uint64_t
		ready; /* the progress thread's: blocks of this generation whose flags it has seen, without a gap */
	hd_ns packed_at; /* the same: since when it is packed */
	bool landing; // lock: the core is done, to is not filled yet
	bool held; // lock: and nothing is queued: the caller's stream has not come so far
	bool released; // lock: the core has released it while the device was at work
	bool abandoned; // lock: to is the caller's again, whatever comes
	hd_ns since; /* the progress thread's: found unfinished then; 0: not yet */
};

TAILQ_HEAD(heddle_far_list, heddle_far);

void heddle_far_init(struct heddle *fabric);
/* The caller's thread: queues on his stream what the ticket needs. 0, or -errno with words: then nothing is left. */
int heddle_far_push(
	struct heddle *fabric,
	struct heddle_ticket *ticket,
	const float *data,
	const struct heddle_push_options *options
);
int heddle_far_pull(struct heddle *fabric, struct heddle_ticket *ticket, float *data, void *stream);
/* A collective's: what it gives, if it does, and what it receives. */
int heddle_far_collective(
	struct heddle *fabric,
	struct heddle_ticket *ticket,
	const struct heddle_call *call,
	void *stream
);
/* The progress thread's. 1: the core can be told; 0: the caller's stream has not come so far; -EIO, with words. */
int heddle_far_ready(const struct heddle_ticket *ticket);
/* Prepares the packer of a push for the core. -EDOM: *not_finite is the first value that may not travel. */
int heddle_far_look(
	const struct heddle_ticket *ticket,
	struct hd_packer *packer,
	uint64_t *not_finite
);
/* The device is at work on it. */
bool heddle_far_is_busy(const struct heddle_far *far);
/* With the lock held: the device is told to take a model, or a result of `values` values. 0, or -errno, with words. */
int heddle_far_land(struct heddle_ticket *ticket, uint64_t values);
/* When to look again at what was found unfinished. */
hd_ns heddle_far_next(struct heddle_far *far, hd_ns now);
/* Waits for `span` at most until the device needs nothing of the ticket's any more: 0, -EIO, -ETIMEDOUT, with
 * words. The ticket has no part on it after the last. */
int heddle_far_wait(struct heddle_ticket *ticket, hd_ns span);
/* --- heddle_land.c, with the lock held ------------------------------------------------------ */

/* The core's word on a ticket: true when there is something that a device takes, and the ticket ends later. */
bool heddle_far_lands(struct heddle_ticket *ticket, const struct hd_ticket *info);
/* Ends tickets whose device is done. When to look again, or HD_NEVER. */
hd_ns heddle_far_end_landed(struct heddle *fabric, hd_ns now);
/* `to` is the caller's again, whatever comes. False: the device is filling it. */
bool heddle_far_abandon(struct heddle_ticket *ticket);
/* The core says no more of it: a result that has come to the host reaches the device, if it can within `span`. Returns
 * for how long the next ticket may be waited for. */
hd_ns heddle_far_settle(struct heddle_ticket *ticket, hd_ns span);
/* Nothing moves any more: every `to` that the device is filling is full, or as it was. */
void heddle_far_halt(struct heddle *fabric);

/* The device's words go to the caller's log. */
void heddle_far_log(const struct heddle *fabric);
/* The ticket's part is spare now. With the lock held, if the ticket was ever queued. */
void heddle_far_give_back(struct heddle *fabric, struct heddle_ticket *ticket);
void heddle_far_free_spares(struct heddle *fabric);

/* --- shared by these two files -------------------------------------------------------------- */

/* The device of memory and stream. -errno, with the device's words. */
int heddle_far_find(const void *memory, uint64_t bytes, void *stream, struct hd_device **device);
/* A spare part with so much memory of the host, and so much of the device's for a copy, or a new one. The same. */
int heddle_far_prepare(
	struct heddle *fabric,
	struct hd_device *device,
	size_t near,
	size_t copy,
	struct heddle_far **far
);
/* The part's event is done when the stream has come so far. The same. */
int heddle_far_record(struct heddle_far *far, void *stream);
size_t heddle_far_rounded(uint64_t bytes); /* what is behind it is aligned for a device */
int heddle_far_fail(int rc); /* the device's words become the caller's */

#endif
