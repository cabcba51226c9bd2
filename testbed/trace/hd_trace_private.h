/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HD_TRACE_PRIVATE_H
#define HD_TRACE_PRIVATE_H

#include "hd_limits.h"
#include "hd_trace.h"

#include <sys/queue.h>
#include <uthash.h>

#define TRACE_LANES 64
#define TRACE_PATH_MAX 16
#define TRACE_NAME_BYTES (2 * HD_NAME_BYTES_MAX + 1)

/* --- hd_trace_writer.c: processes, tracks, lanes, and the JSON ------------------------------- */

struct trace_node {
	char name[TRACE_NAME_BYTES]; /* JSON-safe */
	uint32_t pid;
	int host; /* of the same name, in the topology; < 0: none */
	UT_hash_handle hh;
};

enum track_kind {
	TRACK_EVENTS,
	TRACK_COMPUTE,
	TRACK_PUSH, /* of a worker's process */
	TRACK_PULL,
	TRACK_FROM, /* of the server's: pushes of a worker */
	TRACK_TO, /* pulls of a worker */
	TRACK_CHECKPOINT,
	TRACK_LINK
};

struct track_key {
	uint32_t pid, kind, job, index; /* index: worker or link */
};

struct trace_track {
	struct track_key key;
	uint32_t tid; /* of lane 0 */
	uint64_t busy, named; /* by lane */
	hd_ns since; /* compute, checkpoint: its begin; 0: it has not begun */
	hd_version version; /* of a checkpoint */
	UT_hash_handle hh;
};

/* The place of a span in the picture. track NULL: none. */
struct place {
	struct trace_track *track;
	uint32_t lane;
	bool held; /* no other span is drawn there now */
};

struct span {
	struct place place;
	const char *name;
	hd_ns from, to;
};

struct trace_round;
TAILQ_HEAD(trace_rounds, trace_round);

struct hd_trace {
	struct hd_trace_config config;
	struct trace_node *nodes;
	uint32_t node_count;
	struct trace_track *tracks;
	uint32_t track_count;
	struct trace_node *links; /* the process whose tracks are links */
	struct trace_round *rounds;
	struct trace_rounds late; /* ended, but nodes may still report about them; oldest first */
	int *hosts; /* by worker, in the topology; -1: unknown */
	int server_host;
	hd_ns first, now;
	bool begun, argued; /* a first event, a first argument was written */
	uint64_t not_shown; /* spans for which a track had no lane */
	uint64_t flow;
	uint32_t job; /* of the first event: tracks do not name it */
	int error;
};

struct trace_node *trace_node(struct hd_trace *trace, const char *name);
struct trace_track *trace_track(struct hd_trace *trace, const struct track_key *key);
/* The lowest free lane, which gets a name then; none when all are in use. */
struct place trace_lane(struct hd_trace *trace, struct trace_track *track);
void trace_lane_free(struct place *place);

/* An event: begin, its arguments, end. */
void trace_open(struct hd_trace *trace, char phase, struct place place, const char *name, hd_ns at);
void trace_open_span(struct hd_trace *trace, const struct span *span);
void trace_arg_u64(struct hd_trace *trace, const char *name, uint64_t value);
void trace_arg_real(struct hd_trace *trace, const char *name, double value);
void trace_arg_text(struct hd_trace *trace, const char *name, const char *value);
void trace_close(struct hd_trace *trace);
void trace_counter(
	struct hd_trace *trace,
	struct trace_track *track,
	const char *name,
	const char *unit,
	double value
);
/* The ends of an arrow from one span to another. */
void trace_flow(struct hd_trace *trace, const struct span *from, const struct span *to);
void trace_begin(struct hd_trace *trace);
void trace_end(struct hd_trace *trace);

/* --- hd_trace_round.c: one push or pull ------------------------------------------------------- */

/* False: the event does not belong to a round. */
bool trace_round_event(
	struct hd_trace *trace,
	struct trace_node *node,
	const struct hd_event *event
);
/* Draws and removes rounds that ended long ago; all: unfinished ones as well. */
void trace_round_flush(struct hd_trace *trace, bool all);

#endif
