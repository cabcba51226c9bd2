/* SPDX-License-Identifier: BSD-3-Clause */
/* Events that belong to no round: computing, checkpoints, counters, and events of nodes. */
#include "hd_message.h"
#include "hd_trace_private.h"

#include <errno.h>
#include <stdlib.h>

int hd_trace_create(const struct hd_trace_config *config, struct hd_trace **trace) {
	struct hd_trace *t = calloc(1, sizeof *t);

	if (!t)
		return -ENOMEM;
	t->hosts = malloc((UINT16_MAX + 1) * sizeof *t->hosts);
	if (!t->hosts) {
		free(t);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i <= UINT16_MAX; i++)
		t->hosts[i] = -1;
	t->server_host = -1;
	t->config = *config;
	TAILQ_INIT(&t->late);
	trace_begin(t);
	*trace = t;
	return 0;
}

static struct trace_track *track_of(
	struct hd_trace *trace,
	const struct trace_node *node,
	enum track_kind kind,
	uint32_t job
) {
	struct track_key key = {.pid = node->pid, .kind = kind, .job = job};

	return trace_track(trace, &key);
}

/* --- computing ----------------------------------------------------------------------------- */

/* A worker computes from the end of its last pull, or its last push, to its next push. */
static void
compute_event(struct hd_trace *trace, const struct trace_node *node, const struct hd_event *event) {
	struct trace_track *track = track_of(trace, node, TRACK_COMPUTE, event->job);
	struct place place;

	if (!track)
		return;
	if (event->kind == HD_EVENT_PUSHED && track->since) {
		place = trace_lane(trace, track);
		trace_open_span(trace, &(struct span){place, "compute", track->since, event->at});
		trace_arg_u64(trace, "worker", event->worker);
		trace_arg_u64(trace, "round", event->round);
		trace_close(trace);
		trace_lane_free(&place);
	}
	if (event->kind == HD_EVENT_PUSHED
	    || (event->kind == HD_EVENT_OUTCOME && event->direction == HD_PULL))
		track->since = event->at;
}

/* --- checkpoints --------------------------------------------------------------------------- */

static void checkpoint_event(
	struct hd_trace *trace,
	const struct trace_node *node,
	const struct hd_event *event
) {
	struct trace_track *track = track_of(trace, node, TRACK_CHECKPOINT, event->job);
	bool begins = event->kind == HD_EVENT_CHECKPOINT && event->reason == HD_REASON_NONE;
	struct place place;

	if (!track)
		return;
	if (!begins && track->since) {
		place = trace_lane(trace, track);
		trace_open_span(
			trace, &(struct span){place, "checkpoint", track->since, event->at}
		);
		trace_arg_u64(trace, "version", hd_version_counter(track->version));
		trace_arg_text(trace, "reason", hd_reason_name(event->reason));
		trace_close(trace);
		trace_lane_free(&place);
	}
	track->since = begins ? event->at : 0;
	track->version = event->version;
}

/* --- counters ------------------------------------------------------------------------------ */

static void count(struct hd_trace *trace, struct trace_track *track, const struct hd_event *event) {
	char name[TRACE_NAME_BYTES + 16];
	const struct hd_topology *topology = trace->config.topology;
	uint32_t link = (uint32_t)event->aux - 1; /* 0 is "local" */

	switch (event->kind) {
	case HD_EVENT_COMMITTED:
		trace_counter(trace, track, "staleness", "versions", (double)event->aux);
		trace_counter(
			trace,
			track,
			"version",
			"versions",
			(double)hd_version_counter(event->version)
		);
		break;
	case HD_EVENT_PLAN:
		trace_counter(trace, track, "pending", "requests", (double)event->bytes);
		trace_counter(trace, track, "planned ahead", "s", event->value);
		break;
	case HD_EVENT_ESTIMATE:
		if (event->aux == 0)
			(void)snprintf(name, sizeof name, "estimate local");
		else if (topology && link < hd_topology_link_count(topology))
			(void)snprintf(
				name,
				sizeof name,
				"estimate %s",
				hd_topology_link_name(topology, link)
			);
		else
			(void)snprintf(name, sizeof name, "estimate of link %u", link);
		trace_counter(trace, track, name, "Mbit/s", event->value / 1e6);
		break;
	default:
		break;
	}
}

/* --- instant events ------------------------------------------------------------------------ */

static void
moment(struct hd_trace *trace, struct trace_track *track, const struct hd_event *event) {
	struct place place = trace_lane(trace, track);

	if (!place.track)
		return;
	trace_open(trace, 'i', place, hd_event_name(event->kind), event->at);
	if (event->job)
		trace_arg_u64(trace, "worker", event->worker);
	if (event->round) {
		trace_arg_text(trace, "direction", event->direction == HD_PULL ? "pull" : "push");
		trace_arg_u64(trace, "round", event->round);
	}
	if (event->aux)
		trace_arg_u64(trace, "aux", event->aux);
	trace_arg_text(trace, "reason", hd_reason_name(event->reason));
	trace_close(trace);
	trace_lane_free(&place);
}

/* Learns the hosts of nodes from the controller's events. */
static void learn_host(struct hd_trace *trace, const struct hd_event *event) {
	int host = (int)event->position - 1;

	if (event->kind != HD_EVENT_NODE_UP || event->position == 0
	    || event->position > HD_HOSTS_MAX)
		return;
	if (event->aux == HD_ROLE_WORKER)
		trace->hosts[event->worker] = host;
	if (event->aux == HD_ROLE_SERVER)
		trace->server_host = host;
}

static void
node_event(struct hd_trace *trace, const struct trace_node *node, const struct hd_event *event) {
	struct trace_track *events = track_of(trace, node, TRACK_EVENTS, 0);

	if (!events)
		return;
	switch (event->kind) {
	case HD_EVENT_PUSHED:
	case HD_EVENT_OUTCOME:
		compute_event(trace, node, event);
		break;
	case HD_EVENT_CHECKPOINT:
	case HD_EVENT_DURABLE:
		checkpoint_event(trace, node, event);
		break;
	case HD_EVENT_COMMITTED:
	case HD_EVENT_PLAN:
	case HD_EVENT_ESTIMATE:
		count(trace, events, event);
		break;
	case HD_EVENT_NODE_UP:
		learn_host(trace, event);
		moment(trace, events, event);
		break;
	case HD_EVENT_NODE_DOWN:
	case HD_EVENT_DROPPED:
	case HD_EVENT_VOIDED:
	case HD_EVENT_FALLBACK:
	case HD_EVENT_COMMAND:
	case HD_EVENT_LOG_GAP:
		moment(trace, events, event);
		break;
	default:
		break;
	}
}

int hd_trace_event(struct hd_trace *trace, const char *name, const struct hd_event *event) {
	struct trace_node *node;

	if (!trace->begun) {
		trace->first = event->at;
		trace->job = event->job;
	}
	if (trace->job == 0)
		trace->job = event->job;
	if (event->at > trace->now)
		trace->now = event->at;
	node = trace_node(trace, name);
	if (node) {
		node_event(trace, node, event);
		(void)trace_round_event(trace, node, event);
	}
	trace_round_flush(trace, false);
	return trace->error;
}

static void free_tables(struct hd_trace *trace) {
	struct trace_node *node, *next_node;
	struct trace_track *track, *next_track;

	/* NOLINTBEGIN(clang-analyzer-unix.Malloc): the analyzer does not follow uthash's deletion */
	HASH_ITER(hh, trace->nodes, node, next_node) {
		HASH_DEL(trace->nodes, node);
		free(node);
	}
	HASH_ITER(hh, trace->tracks, track, next_track) {
		HASH_DEL(trace->tracks, track);
		free(track);
	}
	/* NOLINTEND(clang-analyzer-unix.Malloc) */
}

int hd_trace_finish(struct hd_trace *trace) {
	int code;

	if (!trace)
		return 0;
	trace_round_flush(trace, true);
	trace_end(trace);
	code = fflush(trace->config.out) != 0 || ferror(trace->config.out) ? -EIO : trace->error;
	free_tables(trace);
	free(trace->hosts);
	free(trace);
	return code;
}
