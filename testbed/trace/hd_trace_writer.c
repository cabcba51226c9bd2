/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes, tracks and their lanes, and the output of events. */
#include "hd_group.h"
#include "hd_trace_private.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const track_names[] = {
	[TRACK_EVENTS] = "events",
	[TRACK_COMPUTE] = "compute",
	[TRACK_PUSH] = "push",
	[TRACK_PULL] = "pull",
	[TRACK_FROM] = "from w",
	[TRACK_TO] = "to w",
	[TRACK_CHECKPOINT] = "checkpoints",
};

/* --- the JSON ------------------------------------------------------------------------------ */

static void put_time(struct hd_trace *trace, const char *field, hd_ns ns) {
	(void
	)fprintf(trace->config.out, ",\"%s\":%" PRIu64 ".%03" PRIu64, field, ns / 1000, ns % 1000);
}

/* Microseconds since the first event: later digits would be lost in a double. */
static hd_ns since_first(const struct hd_trace *trace, hd_ns at) {
	return at > trace->first ? at - trace->first : 0;
}

static void open_object(struct hd_trace *trace, char phase, uint32_t pid, uint32_t tid) {
	(void)fprintf(
		trace->config.out,
		"%s\n{\"ph\":\"%c\",\"pid\":%u,\"tid\":%u",
		trace->begun ? "," : "",
		phase,
		pid,
		tid
	);
	trace->begun = true;
}

static void put_name(struct hd_trace *trace, const char *name) {
	(void)fprintf(trace->config.out, ",\"name\":\"%s\",\"args\":{", name);
	trace->argued = false;
}

void trace_open(
	struct hd_trace *trace,
	char phase,
	struct place place,
	const char *name,
	hd_ns at
) {
	const struct trace_track *track = place.track;

	open_object(trace, phase, track->key.pid, track->tid + place.lane);
	put_time(trace, "ts", since_first(trace, at));
	if (phase == 'i')
		(void)fputs(",\"s\":\"t\"", trace->config.out);
	put_name(trace, name);
}

void trace_open_span(struct hd_trace *trace, const struct span *span) {
	const struct trace_track *track = span->place.track;

	open_object(trace, 'X', track->key.pid, track->tid + span->place.lane);
	put_time(trace, "ts", since_first(trace, span->from));
	put_time(trace, "dur", span->to > span->from ? span->to - span->from : 0);
	put_name(trace, span->name);
}

static void put_arg(struct hd_trace *trace, const char *name) {
	(void)fprintf(trace->config.out, "%s\"%s\":", trace->argued ? "," : "", name);
	trace->argued = true;
}

void trace_arg_u64(struct hd_trace *trace, const char *name, uint64_t value) {
	put_arg(trace, name);
	(void)fprintf(trace->config.out, "%" PRIu64, value);
}

void trace_arg_real(struct hd_trace *trace, const char *name, double value) {
	if (!isfinite(value))
		return;
	put_arg(trace, name);
	(void)fprintf(trace->config.out, "%.9g", value);
}

void trace_arg_text(struct hd_trace *trace, const char *name, const char *value) {
	put_arg(trace, name);
	(void)fprintf(trace->config.out, "\"%s\"", value);
}

void trace_close(struct hd_trace *trace) {
	(void)fputs("}}", trace->config.out);
}

void trace_counter(
	struct hd_trace *trace,
	struct trace_track *track,
	const char *name,
	const char *unit,
	double value
) {
	if (!isfinite(value))
		return;
	open_object(trace, 'C', track->key.pid, 0);
	put_time(trace, "ts", since_first(trace, trace->now));
	(void
	)fprintf(trace->config.out, ",\"name\":\"%s\",\"args\":{\"%s\":%.9g}}", name, unit, value);
}

static void
put_flow_end(struct hd_trace *trace, char phase, const struct span *span, const char *more) {
	const struct trace_track *track = span->place.track;

	open_object(trace, phase, track->key.pid, track->tid + span->place.lane);
	put_time(trace, "ts", since_first(trace, span->from));
	(void)fprintf(
		trace->config.out,
		",\"name\":\"update\",\"cat\":\"update\",\"id\":%" PRIu64 "%s}",
		trace->flow,
		more
	);
}

void trace_flow(struct hd_trace *trace, const struct span *from, const struct span *to) {
	trace->flow++;
	put_flow_end(trace, 's', from, "");
	put_flow_end(trace, 'f', to, ",\"bp\":\"e\"");
}

static void
put_meta(struct hd_trace *trace, const char *what, uint32_t pid, uint32_t tid, const char *name) {
	open_object(trace, 'M', pid, tid);
	(void
	)fprintf(trace->config.out, ",\"name\":\"%s\",\"args\":{\"name\":\"%s\"}}", what, name);
}

static void put_order(struct hd_trace *trace, const char *what, uint32_t pid, uint32_t tid) {
	open_object(trace, 'M', pid, tid);
	(void)fprintf(
		trace->config.out,
		",\"name\":\"%s\",\"args\":{\"sort_index\":%u}}",
		what,
		tid ? tid : pid
	);
}

void trace_begin(struct hd_trace *trace) {
	(void)fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", trace->config.out);
}

void trace_end(struct hd_trace *trace) {
	(void)fprintf(
		trace->config.out,
		"\n],\"otherData\":{\"first_ns\":\"%" PRIu64 "\",\"not_shown\":\"%" PRIu64 "\"}}\n",
		trace->first,
		trace->not_shown
	);
}

/* --- processes and tracks ------------------------------------------------------------------ */

struct trace_node *trace_node(struct hd_trace *trace, const char *name) {
	struct trace_node *node;

	HASH_FIND_STR(trace->nodes, name, node);
	if (node)
		return node;
	if (trace->node_count == HD_TRACE_NODES_MAX || strlen(name) >= TRACE_NAME_BYTES) {
		trace->error = trace->error ? trace->error : -ENOSPC;
		return NULL;
	}
	node = calloc(1, sizeof *node);
	if (!node) {
		trace->error = -ENOMEM;
		return NULL;
	}
	memcpy(node->name, name, strlen(name) + 1);
	node->pid = ++trace->node_count;
	node->host = trace->config.topology ? hd_topology_host(trace->config.topology, name) : -1;
	HASH_ADD_STR(trace->nodes, name, node);
	put_meta(trace, "process_name", node->pid, 0, node->name);
	put_order(trace, "process_sort_index", node->pid, 0);
	return node;
}

struct trace_track *trace_track(struct hd_trace *trace, const struct track_key *key) {
	struct trace_track *track;

	HASH_FIND(hh, trace->tracks, key, sizeof *key, track);
	if (track)
		return track;
	track = calloc(1, sizeof *track);
	if (!track) {
		trace->error = -ENOMEM;
		return NULL;
	}
	track->key = *key;
	track->tid = 1 + trace->track_count++ * TRACE_LANES;
	HASH_ADD(hh, trace->tracks, key, sizeof track->key, track);
	return track;
}

static void name_lane(struct hd_trace *trace, const struct trace_track *track, uint32_t lane) {
	const struct track_key *key = &track->key;
	char name[TRACE_NAME_BYTES], more[48] = "";
	size_t n = 0;

	if (key->kind == TRACK_LINK) {
		(void)snprintf(
			name,
			sizeof name,
			"%s",
			hd_topology_link_name(trace->config.topology, key->index)
		);
	} else {
		(void)snprintf(name, sizeof name, "%s", track_names[key->kind]);
		n = strlen(name);
		if (key->kind >= TRACK_FROM && key->kind <= TRACK_TO
		    && key->index == HD_GROUP_WORKER)
			(void)snprintf(
				name,
				sizeof name,
				key->kind == TRACK_FROM ? "sums" : "models for several"
			);
		else if (key->kind == TRACK_FROM || key->kind == TRACK_TO)
			(void)snprintf(name + n, sizeof name - n, "%u", key->index);
	}
	n = strlen(name);
	if (key->job != 0 && key->job != trace->job)
		(void)snprintf(more, sizeof more, " of job %u", key->job);
	if (lane > 0)
		(void)snprintf(more + strlen(more), sizeof more - strlen(more), " (%u)", lane + 1);
	(void)snprintf(name + n, sizeof name - n, "%s", more);
	put_meta(trace, "thread_name", key->pid, track->tid + lane, name);
	put_order(trace, "thread_sort_index", key->pid, track->tid + lane);
}

struct place trace_lane(struct hd_trace *trace, struct trace_track *track) {
	struct place place = {.track = track};

	if (!track)
		return place;
	while (place.lane < TRACE_LANES && (track->busy & UINT64_C(1) << place.lane))
		place.lane++;
	if (place.lane == TRACE_LANES) {
		trace->not_shown++;
		return (struct place){0};
	}
	place.held = true;
	track->busy |= UINT64_C(1) << place.lane;
	if (!(track->named & UINT64_C(1) << place.lane)) {
		track->named |= UINT64_C(1) << place.lane;
		name_lane(trace, track, place.lane);
	}
	return place;
}

void trace_lane_free(struct place *place) {
	if (place->held)
		place->track->busy &= ~(UINT64_C(1) << place->lane);
	place->held = false;
}
