/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One round of a worker, push or pull, or the transfer of a sum or of a model for several: collects the events of all
 * nodes, and draws them when an attempt or the round has ended. Lanes are taken and released when spans begin and end,
 * not when they are drawn.
 */
#include "hd_group.h"
#include "hd_message.h"
#include "hd_trace_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LATE (1 * HD_SECOND) /* logs of several nodes may differ by milliseconds */

struct round_key {
	uint32_t job, round;
	uint32_t worker, direction;
};

/* Times are 0 when there was no such event. */
struct attempt {
	uint32_t number;
	hd_ns requested, granted, refused;
	hd_ns send_start, send_end, recv_start, recv_end;
	enum hd_reason reason;
	double granted_bps, goodput_bps;
	uint64_t token, position, resent;
};

struct trace_round {
	struct round_key key;
	uint32_t number; /* of the round, or of its aggregator's group */
	int from,
		to; /* hosts with the nodes' names, sender and receiver, counted from 1; 0: none */
	struct place own, servers, links[TRACE_PATH_MAX];
	uint32_t link_count;
	hd_ns opened, ended, committed;
	bool late;
	enum hd_outcome outcome;
	enum hd_reason reason;
	hd_version base, version;
	uint64_t delay, bytes;
	double weight, norm;
	struct attempt attempt;
	TAILQ_ENTRY(trace_round) late_link;
	UT_hash_handle hh;
};

/* --- finding ------------------------------------------------------------------------------- */

/* An event of the members of a group together. Only its aggregator knows its number, so the token identifies it. */
static bool is_of_group(const struct hd_event *event) {
	return event->worker == HD_GROUP_WORKER && event->token != 0;
}

static struct trace_round *find(struct hd_trace *trace, const struct hd_event *event) {
	const uint32_t name = is_of_group(event) ? (uint32_t)event->token : event->round;
	struct round_key key = {event->job, name, event->worker, event->direction};
	struct trace_round *round;

	/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): it hashes all 16 bytes */
	HASH_FIND(hh, trace->rounds, &key, sizeof key, round);
	if (round)
		return round;
	if (HASH_COUNT(trace->rounds) >= HD_TRACE_OPEN_MAX) {
		trace->error = trace->error ? trace->error : -ENOSPC;
		return NULL;
	}
	round = calloc(1, sizeof *round);
	if (!round) {
		trace->error = -ENOMEM;
		return NULL;
	}
	round->key = key;
	HASH_ADD(hh, trace->rounds, key, sizeof round->key, round);
	return round;
}

static struct place take_lane(
	struct hd_trace *trace,
	const struct trace_node *node,
	enum track_kind kind,
	const struct trace_round *round
) {
	bool own = kind == TRACK_PUSH || kind == TRACK_PULL;
	struct track_key key = {
		.pid = node->pid,
		.kind = kind,
		.job = round->key.job,
		.index = own ? 0 : round->key.worker,
	};

	return trace_lane(trace, trace_track(trace, &key));
}

/* The path's links are busy from the first chunk to the last. */
static void take_links(struct hd_trace *trace, struct trace_round *round) {
	int worker = trace->hosts[round->key.worker], server = trace->server_host;
	bool push = round->key.direction == HD_PUSH;
	int from = round->from > 0 ? round->from - 1 : push ? worker : server;
	int to = round->to > 0 ? round->to - 1 : push ? server : worker;
	uint32_t links[TRACE_PATH_MAX];
	int count;

	if (!trace->config.topology || from < 0 || to < 0 || round->link_count > 0)
		return;
	count = hd_topology_path(trace->config.topology, from, to, links, TRACE_PATH_MAX);
	if (count > 0 && !trace->links)
		trace->links = trace_node(trace, "links");
	for (int i = 0; trace->links && i < count; i++) {
		struct track_key key = {trace->links->pid, TRACK_LINK, 0, links[i]};

		round->links[round->link_count++] = trace_lane(trace, trace_track(trace, &key));
	}
}

static void free_links(struct trace_round *round) {
	for (uint32_t i = 0; i < round->link_count; i++)
		trace_lane_free(&round->links[i]);
}

/* --- drawing ------------------------------------------------------------------------------- */

static hd_ns either(hd_ns at, hd_ns otherwise) {
	return at ? at : otherwise;
}

/* Limits a part of the worker's span to that span, even when the clocks of the machines differ. */
static struct span clip(const struct trace_round *round, struct span span) {
	if (span.place.track != round->own.track || round->opened == 0)
		return span;
	if (span.from < round->opened)
		span.from = round->opened;
	if (round->ended && span.from > round->ended)
		span.from = round->ended;
	if (round->ended && span.to > round->ended)
		span.to = round->ended;
	return span;
}

/* Begins a span of a round, with the arguments that all of them have. False: it has no place, or never began. */
static bool open_span(struct hd_trace *trace, const struct trace_round *round, struct span span) {
	if (!span.place.track || span.from == 0)
		return false;
	span = clip(round, span);
	trace_open_span(trace, &span);
	if (round->key.worker == HD_GROUP_WORKER) {
		trace_arg_u64(trace, "group", round->number);
		return true;
	}
	trace_arg_u64(trace, "worker", round->key.worker);
	trace_arg_u64(trace, "round", round->number);
	return true;
}

static void put_version(struct hd_trace *trace, const char *name, hd_version version) {
	if (version)
		trace_arg_u64(trace, name, hd_version_counter(version));
}

static void put_transfer(struct hd_trace *trace, const struct trace_round *round) {
	const struct attempt *a = &round->attempt;

	trace_arg_u64(trace, "bytes", round->bytes);
	if (a->granted_bps > 0)
		trace_arg_real(trace, "granted_bps", a->granted_bps);
	if (a->goodput_bps > 0)
		trace_arg_real(trace, "goodput_bps", a->goodput_bps);
	if (round->weight > 0)
		trace_arg_real(trace, "weight", round->weight);
	if (a->position)
		trace_arg_u64(trace, "position", a->position);
	if (a->resent)
		trace_arg_u64(trace, "packets_resent", a->resent);
	trace_arg_text(trace, "reason", hd_reason_name(a->reason));
}

static void draw_transfer(
	struct hd_trace *trace,
	const struct trace_round *round,
	const char *name,
	struct span span
) {
	span.name = name;
	if (!open_span(trace, round, span))
		return;
	put_transfer(trace, round);
	trace_close(trace);
}

static void draw_links(struct hd_trace *trace, const struct trace_round *round, hd_ns end) {
	const struct attempt *a = &round->attempt;
	const bool push = round->key.direction == HD_PUSH;
	char name[64];

	if (round->key.worker == HD_GROUP_WORKER)
		(void)snprintf(
			name,
			sizeof name,
			"%s %u",
			push ? "sum" : "model for several",
			round->number
		);
	else
		(void)snprintf(
			name,
			sizeof name,
			"w%u %s %u",
			round->key.worker,
			push ? "push" : "pull",
			round->number
		);
	for (uint32_t i = 0; i < round->link_count; i++)
		draw_transfer(
			trace,
			round,
			name,
			(struct span
			){round->links[i], NULL, a->recv_start, either(a->recv_end, end)}
		);
}

/* Draws the spans of one attempt; `end`: for those without an end of their own. */
static void draw_attempt(struct hd_trace *trace, struct trace_round *round, hd_ns end) {
	struct attempt *a = &round->attempt;
	bool push = round->key.direction == HD_PUSH;
	hd_ns decided = either(a->granted, either(a->refused, end));
	hd_ns started = push ? a->send_start : a->recv_start;
	hd_ns given_up = either(a->refused, end); /* its lanes are free from then on */
	struct span sent = {push ? round->own : round->servers, NULL, a->send_start, a->send_end};
	struct span held = {push ? round->servers : round->own, NULL, a->recv_start, a->recv_end};

	/* The clock of the granting node may differ. */
	if (started >= a->requested && started < decided)
		decided = started;
	if (open_span(trace, round, (struct span){round->own, "wait", a->requested, decided})) {
		trace_arg_u64(trace, "attempt", a->number);
		trace_arg_text(trace, "reason", hd_reason_name(a->reason));
		trace_close(trace);
	}
	sent.to = either(sent.to, push ? end : given_up);
	held.to = either(held.to, push ? given_up : end);
	draw_transfer(trace, round, "send", sent);
	draw_transfer(trace, round, "receive", held);
	draw_links(trace, round, given_up);
	round->link_count = 0;
	*a = (struct attempt){.number = a->number};
}

/* From the time when the update was held. `commit` is the arrow's end. */
static bool
draw_commit(struct hd_trace *trace, const struct trace_round *round, struct span *commit) {
	*commit = (struct span){
		round->servers,
		"commit",
		either(round->attempt.recv_end, round->committed),
		round->committed,
	};
	hd_ns hold = commit->to > commit->from ? commit->to - commit->from : 0;

	if (round->committed == 0)
		return false;
	if (commit->to <= commit->from)
		commit->to = commit->from + 1; /* an arrow needs a span at its end */
	if (!open_span(trace, round, *commit))
		return false;
	put_version(trace, "version", round->version);
	put_version(trace, "base", round->base);
	trace_arg_u64(trace, "delay", round->delay);
	trace_arg_real(trace, "weight", round->weight);
	trace_arg_u64(trace, "hold_ns", hold);
	trace_close(trace);
	return true;
}

static void draw(struct hd_trace *trace, struct trace_round *round) {
	bool push = round->key.direction == HD_PUSH;
	hd_ns end = either(round->ended, trace->now);
	struct span whole = {round->own, push ? "push" : "pull", round->opened, end}, commit;
	bool committed = draw_commit(trace, round, &commit);

	if (whole.to <= whole.from)
		whole.to = whole.from + 1;
	if (open_span(trace, round, whole)) {
		trace_arg_text(trace, "outcome", hd_outcome_name(round->outcome));
		trace_arg_text(trace, "reason", hd_reason_name(round->reason));
		trace_arg_u64(trace, "bytes", round->bytes);
		put_version(trace, "version", round->version);
		put_version(trace, "base", round->base);
		if (push && round->committed)
			trace_arg_u64(trace, "delay", round->delay);
		if (push)
			trace_arg_real(trace, "norm", round->norm);
		trace_close(trace);
		if (committed)
			trace_flow(trace, &whole, &commit);
	}
	draw_attempt(trace, round, end);
}

static void retire(struct hd_trace *trace, struct trace_round *round) {
	trace_lane_free(&round->own);
	trace_lane_free(&round->servers);
	free_links(round);
	draw(trace, round);
	if (round->late)
		TAILQ_REMOVE(&trace->late, round, late_link);
	HASH_DEL(trace->rounds, round);
	free(round);
}

void trace_round_flush(struct hd_trace *trace, bool all) {
	struct trace_round *round, *next;

	while ((round = TAILQ_FIRST(&trace->late)) && (all || round->ended + LATE < trace->now))
		retire(trace, round);
	if (!all)
		return;
	HASH_ITER(hh, trace->rounds, round, next)
	retire(trace, round);
}

/* --- events -------------------------------------------------------------------------------- */

/* No more events are expected, or only for a short time. */
static void ended(struct hd_trace *trace, struct trace_round *round, hd_ns at) {
	if (!round->ended)
		round->ended = at;
	if (round->late)
		return;
	round->late = true;
	TAILQ_INSERT_TAIL(&trace->late, round, late_link);
}

static void on_sent_or_held(
	struct hd_trace *trace,
	struct trace_node *node,
	struct trace_round *round,
	const struct hd_event *event
) {
	struct attempt *a = &round->attempt;
	bool push = round->key.direction == HD_PUSH;
	bool servers
		= push == (event->kind == HD_EVENT_RECV_START || event->kind == HD_EVENT_RECV_END);

	bool starts = event->kind == HD_EVENT_SEND_START || event->kind == HD_EVENT_RECV_START;

	if (servers && starts && !round->servers.held)
		round->servers = take_lane(trace, node, push ? TRACK_FROM : TRACK_TO, round);
	switch (event->kind) {
	case HD_EVENT_SEND_START:
		a->send_start = event->at;
		round->from = node->host + 1;
		break;
	case HD_EVENT_SEND_END:
		a->send_end = event->at;
		a->resent = event->aux;
		a->reason = event->reason;
		if (servers)
			trace_lane_free(&round->servers);
		if (servers && !round->own.track)
			ended(trace, round, event->at); /* the worker's side is not logged */
		break;
	case HD_EVENT_RECV_START:
		a->recv_start = event->at;
		round->to = node->host + 1;
		take_links(trace, round);
		break;
	default:
		a->recv_end = event->at;
		a->goodput_bps = event->value;
		free_links(round);
		if (is_of_group(event)) { /* the events of its members show the outcome */
			if (servers) /* a sender is busy until all is acknowledged */
				trace_lane_free(&round->servers);
			ended(trace, round, event->at);
		}
		break;
	}
}

static void
on_decision(struct hd_trace *trace, struct trace_round *round, const struct hd_event *event) {
	struct attempt *a = &round->attempt;

	if (event->token)
		a->token = event->token;
	if (event->kind == HD_EVENT_GRANTED) {
		a->granted = event->at;
		a->granted_bps = event->value;
		a->position = event->position;
		return;
	}
	a->refused = either(
		a->refused, event->at
	); /* controller and server report it: its lanes were free after the first report */
	a->reason = event->reason;
	trace_lane_free(&round->servers);
	free_links(round);
}

static void
on_committed(struct hd_trace *trace, struct trace_round *round, const struct hd_event *event) {
	struct span again;

	if (round->committed)
		(void)draw_commit(trace, round, &again); /* a restart of the server lost it */
	round->committed = event->at;
	round->version = event->version;
	round->base = event->base;
	round->delay = event->aux;
	round->weight = event->value;
	trace_lane_free(&round->servers);
	if (!round->own.track)
		ended(trace, round, event->at);
}

/* A credit has no request. */
static bool has_begun(const struct attempt *a) {
	return a->requested || a->send_start || a->recv_start;
}

static void on_worker(
	struct hd_trace *trace,
	struct trace_node *node,
	struct trace_round *round,
	const struct hd_event *event
) {
	bool push = round->key.direction == HD_PUSH;

	if (event->kind != HD_EVENT_OUTCOME && !round->own.held) {
		round->opened = event->at;
		round->own = take_lane(trace, node, push ? TRACK_PUSH : TRACK_PULL, round);
	}
	switch (event->kind) {
	case HD_EVENT_REQUESTED:
		if (has_begun(&round->attempt))
			draw_attempt(trace, round, event->at);
		round->attempt.number = (uint32_t)event->aux;
		round->attempt.requested = event->at;
		break;
	case HD_EVENT_OUTCOME:
		round->outcome = (enum hd_outcome)event->aux;
		round->reason = event->reason;
		round->ended = event->at;
		if (event->version)
			round->version = event->version;
		trace_lane_free(&round->own);
		ended(trace, round, event->at);
		break;
	default:
		round->base = event->base;
		round->norm = event->value;
		break;
	}
}

/* A round of a new process of the worker, or one that a restart of the server lost after its end. */
static bool begins_again(const struct trace_round *round, const struct hd_event *event) {
	if (event->kind == HD_EVENT_REQUESTED)
		return round->ended != 0;
	return round->opened && (event->kind == HD_EVENT_PUSHED || event->kind == HD_EVENT_PULLED);
}

/* An event of an unspent credit: its round may not have begun, or was requested instead. */
static bool is_ahead(const struct hd_event *event) {
	return event->kind == HD_EVENT_CREDITED || (event->kind == HD_EVENT_VOIDED && event->aux);
}

bool trace_round_event(
	struct hd_trace *trace,
	struct trace_node *node,
	const struct hd_event *event
) {
	struct trace_round *round;

	if (is_ahead(event))
		return true;
	round = event->round || is_of_group(event) ? find(trace, event) : NULL;

	if (round && begins_again(round, event)) {
		retire(trace, round);
		round = find(trace, event);
	}
	if (!round)
		return event->round != 0;
	if (event->bytes)
		round->bytes = event->bytes;
	if (event->round)
		round->number = event->round;
	switch (event->kind) {
	case HD_EVENT_PUSHED:
	case HD_EVENT_PULLED:
	case HD_EVENT_REQUESTED:
	case HD_EVENT_OUTCOME:
		on_worker(trace, node, round, event);
		break;
	case HD_EVENT_GRANTED:
	case HD_EVENT_DROPPED:
	case HD_EVENT_VOIDED:
		on_decision(trace, round, event);
		break;
	case HD_EVENT_SEND_START:
	case HD_EVENT_SEND_END:
	case HD_EVENT_RECV_START:
	case HD_EVENT_RECV_END:
		on_sent_or_held(trace, node, round, event);
		break;
	case HD_EVENT_COMMITTED:
		on_committed(trace, round, event);
		break;
	default:
		break;
	}
	return true;
}
