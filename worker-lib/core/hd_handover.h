/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a worker gets the newest state from another one: which collectives it calls, and what their ends mean. All
 * workers of the job do this at once. It has no I/O: libheddle and the simulator make the calls.
 *
 *               no worker has a state, or their layouts differ
 *             +------------------------------------------------> ENDED
 *             |                  all have the same
 *   ROLL -----+------------------------------------------------> ENDED
 *    ^        | one lacks it               the last part has ended
 *    |        +------> PARTS ----------------------------------> ENDED
 *    |                   | one has failed
 *    |   none in flight  v
 *    +---------------- DRAINING
 *
 * The roll is an all-reduce, the maximum of integers (hd_roll.h), that names the source: the lowest rank with the
 * newest version. A part is a range of the state, and a broadcast from the source to those that lack it; the others
 * call it, too, and receive nothing. Several parts are in flight.
 */
#ifndef HD_HANDOVER_H
#define HD_HANDOVER_H

#include "hd_event.h"
#include "hd_roll.h"

/* Of the roll: who has which version, whether the layouts are equal, the greatest number of items. */
#define HD_HANDOVER_VALUES (HD_ROLL_VALUES + HD_EQUAL_VALUES + 1)
#define HD_HANDOVER_PARTS_MAX 4 /* in flight */
#define HD_HANDOVER_TRIES_MAX                                                                      \
	1000 /* failures after a roll: of a source, or of a worker that calls something else */

struct hd_handover_config {
	uint16_t rank;
	bool has; /* a state: this worker can give it */
	bool late; /* it may lack what others have added to theirs, whatever its version */
	uint64_t version; /* of it; 0: it is the initial one, and counts if no worker has another */
	uint8_t layout[HD_HASH_BYTES]; /* a hash of names and sizes, alike at all workers */
	uint32_t items;
	uint64_t bytes; /* to hand over; > 0, alike at all workers with this layout */
	uint64_t part_bytes; /* at most, of one part; > 0 */
};

enum hd_handover_stage {
	HD_HANDOVER_ROLL,
	HD_HANDOVER_PARTS,
	HD_HANDOVER_DRAINING,
	HD_HANDOVER_ENDED
};

enum hd_handover_outcome {
	HD_HANDOVER_KEPT, /* this worker had the newest state, or gave it */
	HD_HANDOVER_RECEIVED,
	HD_HANDOVER_NONE, /* no worker has one */
	HD_HANDOVER_LAYOUT, /* the layouts differ */
	HD_HANDOVER_FAILED /* `reason` */
};

enum hd_handover_role {
	HD_HANDOVER_GIVES,
	HD_HANDOVER_TAKES,
	HD_HANDOVER_HAS /* it neither gives nor takes */
};

/* A call to be made. */
struct hd_handover_call {
	bool roll;
	int64_t values[HD_HANDOVER_VALUES]; /* of the roll */
	enum hd_handover_role role; /* the rest: of a part */
	uint16_t source;
	uint64_t first, bytes;
};

struct hd_handover {
	struct hd_handover_config config;
	enum hd_handover_stage stage;
	enum hd_handover_outcome outcome; /* when it has ended */
	enum hd_reason reason;
	struct hd_roll roll; /* the newest one */
	uint32_t most_items; /* of any worker */
	enum hd_handover_role role;
	uint64_t begun, ended; /* bytes of parts */
	uint32_t in_flight, tries;
};

void hd_handover_init(struct hd_handover *h, const struct hd_handover_config *config);
/* True: make this call now. False: one in flight has to end first, or all is over (stage ENDED); *call stays. */
bool hd_handover_next(struct hd_handover *h, struct hd_handover_call *call);
/* The roll has ended, with these maxima of this many workers. */
void hd_handover_rolled(
	struct hd_handover *h,
	const int64_t maxima[HD_HANDOVER_VALUES],
	uint32_t workers
);
/* A part of this many bytes has ended. In the stage PARTS, what has come is part of the state from now on; in others it
 * is not used. */
void hd_handover_passed(struct hd_handover *h, uint64_t bytes);
/* A call has failed for this reason. */
void hd_handover_failed(struct hd_handover *h, enum hd_reason reason);

#endif
