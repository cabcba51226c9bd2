/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of a run as spans for Perfetto and chrome://tracing: Google's "Trace Event Format", JSON.
 *
 *   w3      compute        [ compute ]           [ compute ]            last pull or push .. pushed
 *           push                      [ push: wait | send ......]       pushed .. outcome
 *           pull                                  [ pull: wait | receive ]
 *   server  from w3                        [ receive | commit ]---(flow)  first chunk .. held .. committed
 *           to w3                                    [ send ]           first chunk .. everything acknowledged
 *   links   h4>s1                          [ w3 push 17 ]               transfers on each link
 *
 * A process is a node, a thread a track; overlapping spans on a track get further lanes. An arrow leads from each push
 * to its commit. Counters: staleness and version at the server, pending requests and estimates at the controller. Each
 * span begins and ends with events, so there is none without an event; docs/operations.md has the table. One thread.
 */
#ifndef HD_TRACE_H
#define HD_TRACE_H

#include "hd_event.h"
#include "hd_limits.h"
#include "hd_topology.h"

#include <stdio.h>

#define HD_TRACE_NODES_MAX 8192
#define HD_TRACE_OPEN_MAX (1u << 20) /* rounds in progress at once: pushes and pulls */

struct hd_trace;

struct hd_trace_config {
	FILE *out; /* written as events come; the caller closes it */
	/* From a file, complete; names links and paths; NULL: these are left out. */
	struct hd_topology *topology;
};

/* 0 or -ENOMEM. */
int hd_trace_create(const struct hd_trace_config *config, struct hd_trace **trace);
/* The next event; `at` never goes back by more than causes need (a commit may come before its first chunk, then it is
 * shown without). Returns 0, or -ENOMEM, -ENOSPC (a limit): the event is not shown. */
int hd_trace_event(struct hd_trace *trace, const char *node, const struct hd_event *event);
/* Lets unfinished spans end with the last event, ends the file, frees. Returns the first error: -ENOMEM, -ENOSPC, or
 * -EIO of writing. NULL: 0. */
int hd_trace_finish(struct hd_trace *trace);

/* --- event logs ---------------------------------------------------------------------------- */

#define HD_TRACE_EVENTS_MAX (1u << 24)

/* One line of an event log (hd_event_json). node gets the node's name, escaped as in JSON. 0; -EINVAL with a text in
 * `error`; -ENOENT: an event of an unknown kind. Outputs are set only on success. */
int hd_trace_parse(
	const char *line,
	struct hd_event *event,
	char node[2 * HD_NAME_BYTES_MAX + 1],
	char *error,
	size_t error_bytes
);

#endif
