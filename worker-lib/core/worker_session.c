/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two sessions of a worker.
 *
 *   no controller configured ------------------------------------> server, direct
 *   controller --REGISTERED(server, scheduled = 1)--> server, requests to the controller
 *              --REGISTERED(server, scheduled = 0)--> server, direct
 *              --silent for fallback_us-------------> server, direct until it speaks again
 */
#include "hd_text.h"
#include "worker_core.h"
#include "worker_reduce.h"

#include <errno.h>
#include <string.h>

static void
connect_server(struct hd_worker *worker, const struct worker_context *ctx, struct hd_addr address) {
	if (hd_addr_is_none(address) || hd_addr_equal(address, worker->server_addr))
		return;
	if (worker->server) {
		hd_session_close(
			worker->server, HD_REASON_CLOSED, "another server", ctx->now, ctx->sink
		);
		worker->server = NULL;
		worker->stats.joined = false;
		worker_requeue_wire(worker, ctx, false);
		worker_ways_forget_server(worker, ctx);
	}
	worker_way_drop(worker, ctx, address);
	worker->server_addr = address;
	worker->stats.server = true;
	/* The endpoint has room for these two and HD_WAYS_MAX others. */
	if (hd_endpoint_connect(worker->endpoint, address, ctx->now, &worker->server) < 0)
		worker->server_addr = (struct hd_addr){0};
}

void worker_start(struct hd_worker *worker, const struct worker_context *ctx) {
	worker->started = true;
	worker->controller_heard = ctx->now;
	if (hd_addr_is_none(worker->config.controller)) {
		worker->stats.direct = true;
		connect_server(worker, ctx, worker->config.server);
		return;
	}
	if (hd_endpoint_connect(
		    worker->endpoint, worker->config.controller, ctx->now, &worker->controller
	    )
	    < 0)
		worker->controller = NULL;
}

static bool controller_open(const struct hd_worker *worker) {
	return worker->controller && hd_session_is_open(worker->controller) && worker->registered;
}

enum worker_asked worker_whom_to_ask(const struct hd_worker *worker) {
	if (!worker->stats.joined || worker->refused)
		return WORKER_ASKED_NOBODY;
	if (hd_addr_is_none(worker->config.controller))
		return WORKER_ASKED_SERVER;
	if (controller_open(worker))
		return worker->scheduled ? WORKER_ASKED_CONTROLLER : WORKER_ASKED_SERVER;
	return worker->fallback ? WORKER_ASKED_SERVER : WORKER_ASKED_NOBODY;
}

/* --- saying who we are ---------------------------------------------------------------------- */

static void say_register(struct hd_worker *worker, const struct worker_context *ctx) {
	struct hd_message message = {.kind = HD_MSG_REGISTER};
	struct hd_msg_register_ *body = &message.register_;

	body->role = HD_ROLE_WORKER;
	hd_text_copy(body->host, sizeof body->host, worker->host);
	hd_text_copy(body->tenant, sizeof body->tenant, worker->spec.tenant);
	hd_text_copy(body->job_name, sizeof body->job_name, worker->spec.name);
	body->job = worker->job;
	body->worker = worker->config.rank;
	body->model_bytes = worker->model_bytes;
	body->tau_max = worker->spec.tau_max;
	body->sync = worker->spec.sync;
	body->sync_count = worker->spec.federated.late == HD_LATE_WEIGHT ? HD_LATE_STEPS_MAX :
									   worker->spec.sync_count;
	body->staleness_rule = worker->spec.staleness_rule;
	body->staleness_c = worker->spec.staleness_c;
	body->job_weight = worker->config.job_weight;
	body->world = worker->reduce_done ? worker->reduce_members : worker->config.world;
	body->reduce_round = worker->reduce_done;
	body->making = worker->reduce_making;
	body->reduce_had = worker->reduce_had;
	body->reduce_from = worker_reduce_from(worker);
	body->flags = (worker->config.observes ? HD_REGISTER_OBSERVER : 0)
		| (worker->spec.unsealed ? HD_REGISTER_UNSEALED : 0);
	body->count_max = (uint16_t)(worker->config.chunk_bytes / sizeof(float));
	body->dtypes = 1U << HD_DTYPE_FIXED32 | 1U << HD_DTYPE_FP32; /* into slots */
	body->data_ipv4 = worker->config.data.ipv4;
	body->data_port = worker->config.data.port;
	(void)worker_tell(worker, worker->controller, ctx, &message);
}

static void say_join(struct hd_worker *worker, const struct worker_context *ctx) {
	struct hd_message message = {.kind = HD_MSG_JOIN};

	message.join.job = worker->job;
	message.join.worker = worker->config.rank;
	message.join.last_round = worker->next_round[HD_PUSH] - 1;
	hd_text_copy(message.join.host, sizeof message.join.host, worker->host);
	message.join.spec = (struct hd_blob){worker->spec_blob, worker->spec_bytes};
	message.join.observer = worker->config.observes;
	(void)worker_tell(worker, worker->server, ctx, &message);
}

/* --- what the sessions say ------------------------------------------------------------------ */

static void emit_node(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	enum hd_event_kind kind,
	enum hd_reason reason,
	uint8_t role
) {
	struct hd_event event = {.kind = kind, .reason = reason, .aux = role};

	worker_emit(worker, ctx, &event);
}

static void on_opened(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink) {
	struct hd_worker *worker = owner;
	struct worker_context ctx = {now, sink};
	struct worker_way *way = worker_way_of(worker, session);

	emit_node(worker, &ctx, HD_EVENT_NODE_UP, HD_REASON_NONE, hd_session_peer_role(session));
	if (way)
		worker_way_opened(worker, &ctx, way);
	if (session == worker->controller) {
		worker->registered = false;
		worker->stats.controller = true;
		say_register(worker, &ctx);
		worker_say_notice(worker, &ctx, session);
	} else if (session == worker->server) {
		say_join(worker, &ctx);
	}
}

static void
refuse(struct hd_worker *worker,
       const struct worker_context *ctx,
       enum hd_reason reason,
       const char *text) {
	if (worker->refused)
		return;
	worker->refused = true;
	worker->stats.joined = false;
	worker_fail_all(worker, ctx, HD_REASON_REFUSED);
	worker_reduce_fail_all(worker, ctx, HD_REASON_REFUSED);
	if (worker->config.ops && worker->config.ops->refused)
		worker->config.ops->refused(worker->config.owner, reason, text);
}

/* A process on another host has our rank, and is alive, or is not known to be dead yet. */
static void on_rank_held(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	bool by_server,
	const char *text
) {
	hd_ns *again = by_server ? &worker->join_at : &worker->register_at;
	bool told = *again != HD_NEVER;

	*again = hd_ns_add(ctx->now, WORKER_REGISTER_RETRY_US * HD_US);
	if (!told && worker->config.ops && worker->config.ops->trouble)
		worker->config.ops->trouble(worker->config.owner, HD_REASON_RANK_HELD, text);
}

static void on_closed(
	void *owner,
	struct hd_session *session,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_worker *worker = owner;
	struct worker_context ctx = {now, sink};
	struct worker_way *way = worker_way_of(worker, session);

	emit_node(worker, &ctx, HD_EVENT_NODE_DOWN, reason, hd_session_peer_role(session));
	if (way) {
		worker_way_closed(worker, &ctx, way, reason);
		return;
	}
	if (session == worker->controller) {
		if (worker->registered)
			worker->controller_heard = hd_session_heard(session);
		worker->registered = false;
		worker->stats.controller = false;
		worker->register_at = HD_NEVER;
		worker_credit_clear(worker);
		worker_requeue_asked(worker, &ctx, WORKER_ASKED_CONTROLLER);
		worker_reduce_requeue(worker);
	} else if (session == worker->server) {
		worker->stats.joined = false;
		worker->join_at = HD_NEVER;
		worker_requeue_wire(worker, &ctx, false);
	}
	if (reason == HD_REASON_REFUSED) {
		/* The endpoint frees the session when this returns. */
		if (session == worker->controller)
			worker->controller = NULL;
		else if (session == worker->server)
			worker->server = NULL;
		refuse(worker, &ctx, reason, text ? text : "");
	} else if (worker->config.ops && worker->config.ops->trouble) {
		worker->config.ops->trouble(worker->config.owner, reason, text ? text : "");
	}
}

/* All-reduces need no more than that. A worker that comes later, or was away, goes on from where the others are. */
static void on_registered_once(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_registered *message
) {
	if (message->reduce_round > worker->reduce_round)
		worker->reduce_round = message->reduce_round;
	worker->registered_once = true;
	if (worker->model_bytes > 0)
		return;
	worker->register_at = HD_NEVER;
	worker->stats.joined = true;
	if (worker->config.ops && worker->config.ops->joined)
		worker->config.ops->joined(worker->config.owner, 0, worker->spec.tau_max);
	(void)ctx;
}

static void on_registered(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_registered *message
) {
	struct hd_addr server = {message->server_ipv4, message->server_port};
	uint64_t boot = hd_session_peer_boot(worker->controller);

	if (message->job != worker->job)
		return;
	if (worker->controller_boot != boot)
		worker_requeue_unproven(worker, ctx);
	worker->controller_boot = boot;
	worker->registered = true;
	worker->scheduled = message->scheduled != 0;
	worker->fallback = false;
	worker->stats.direct = !worker->scheduled;
	if (hd_addr_is_none(server))
		server = worker->config.server;
	connect_server(worker, ctx, server);
	worker->register_at = hd_addr_is_none(worker->server_addr) ?
		hd_ns_add(ctx->now, WORKER_REGISTER_RETRY_US * HD_US) :
		HD_NEVER;
	if (!worker->scheduled)
		worker_requeue_asked(worker, ctx, WORKER_ASKED_CONTROLLER);
	worker_ask_queued(worker, ctx);
	on_registered_once(worker, ctx, message);
	worker_reduce_ask_queued(worker, ctx);
}

static void on_joined(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_joined *message
) {
	uint64_t boot = hd_session_peer_boot(worker->server);
	bool new_life = worker->server_boot != 0 && worker->server_boot != boot;

	if (message->job != worker->job || worker->refused)
		return;
	worker->join_at = HD_NEVER;
	/* Rounds continue those that the server has seen of this rank's former lives; also when the one that this life
	 * began with, cut off, did not know them. */
	if ((!worker->joined_once || new_life)
	    && message->last_round >= worker->next_round[HD_PUSH])
		worker->next_round[HD_PUSH] = message->last_round + 1;
	worker->stats.push_round = worker->next_round[HD_PUSH] - 1;
	worker->joined_once = true;
	worker->server_boot = boot;
	worker->stats.joined = true;
	worker->said_done = false; /* of the session before */
	if (worker->leaving || worker->config.observes)
		worker_say_done(worker, ctx);
	worker->durable = message->durable;
	worker_newest(worker, message->version, new_life);
	/* A server that begins anew while we linger finds us gone, as it would a moment later. */
	if (new_life && worker->said_leave)
		worker_trim_kept(worker, ctx, 0);
	worker_requeue_wire(worker, ctx, new_life);
	if (worker->config.ops && worker->config.ops->joined)
		worker->config.ops->joined(
			worker->config.owner, message->version, message->tau_max
		);
	worker_on_durable(worker, ctx, message->durable);
	worker_ask_queued(worker, ctx);
	if (hd_addr_is_none(worker->config.controller))
		worker_say_notice(worker, ctx, worker->server);
}

/* What only the server may say. */
static void on_server_message(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_message *message
) {
	switch (message->kind) {
	case HD_MSG_JOINED:
		on_joined(worker, ctx, &message->joined);
		break;
	case HD_MSG_GO:
		if (message->go.job == worker->job)
			worker_on_go(worker, ctx, message->go.token);
		break;
	case HD_MSG_VOID:
		if (message->void_.job == worker->job)
			worker_on_void(worker, ctx, &message->void_);
		break;
	case HD_MSG_SACK:
		worker_on_sack(worker, ctx, worker->server, &message->sack);
		break;
	case HD_MSG_OUTCOME:
		worker_on_outcome(worker, ctx, &message->outcome);
		break;
	case HD_MSG_DURABLE:
		if (message->durable.job == worker->job)
			worker_on_durable(worker, ctx, message->durable.version);
		break;
	case HD_MSG_STEP:
		if (message->step.job == worker->job)
			worker_newest(worker, message->step.version, false);
		break;
	case HD_MSG_ROUND:
		worker_on_round(worker, ctx, &message->round);
		break;
	case HD_MSG_LACK:
		worker_on_lack(worker, &message->lack);
		break;
	case HD_MSG_PULL_STATE:
		worker_on_pull_state(worker, ctx, NULL, &message->pull_state);
		break;
	case HD_MSG_ROSTER:
		if (hd_addr_is_none(worker->config.controller))
			worker_on_roster(worker, ctx, &message->roster);
		break;
	default:
		worker->stats.late_messages++;
	}
}

/* What the aggregator of a transfer may say. */
static void on_aggregator_message(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct worker_way *way,
	const struct hd_message *message
) {
	switch (message->kind) {
	case HD_MSG_GO:
		if (message->go.job == worker->job)
			worker_on_go(worker, ctx, message->go.token);
		break;
	case HD_MSG_VOID:
		if (message->void_.job == worker->job
		    && !worker_reduce_void(worker, ctx, message->void_.token))
			worker_on_void(worker, ctx, &message->void_);
		break;
	case HD_MSG_SACK:
		if (!worker_reduce_sack(worker, ctx, &message->sack))
			worker_on_sack(worker, ctx, way->session, &message->sack);
		break;
	case HD_MSG_PULL_STATE:
		worker_on_pull_state(worker, ctx, way, &message->pull_state);
		break;
	default:
		worker->stats.late_messages++;
	}
}

static void on_message(
	void *owner,
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_worker *worker = owner;
	struct worker_context ctx = {now, sink};
	struct worker_way *way = worker_way_of(worker, session);

	if (way) {
		on_aggregator_message(worker, &ctx, way, message);
		return;
	}
	if (session != worker->controller && session != worker->server)
		return;
	switch (message->kind) {
	case HD_MSG_REFUSE:
		if (message->refuse.reason == HD_REASON_RANK_HELD) {
			on_rank_held(worker, &ctx, session == worker->server, message->refuse.text);
			return;
		}
		refuse(worker, &ctx, message->refuse.reason, message->refuse.text);
		return;
	case HD_MSG_GRANT:
		worker_on_grant(worker, &ctx, session, &message->grant);
		return;
	case HD_MSG_DROP:
		if (message->drop.direction == HD_REDUCE && session == worker->controller)
			worker_reduce_drop(worker, &ctx, &message->drop);
		else
			worker_on_drop(worker, &ctx, &message->drop);
		return;
	default:
		break;
	}
	if (session == worker->server)
		on_server_message(worker, &ctx, message);
	else if (message->kind == HD_MSG_REGISTERED)
		on_registered(worker, &ctx, &message->registered);
	else if (message->kind == HD_MSG_PROBE)
		hd_probes_probe(&worker->probes, now, &message->probe, sink);
	else if (message->kind == HD_MSG_ROSTER)
		worker_on_roster(worker, &ctx, &message->roster);
	else if (message->kind == HD_MSG_NOTICE)
		worker_on_notice(worker, &ctx, &message->notice);
	else if (message->kind == HD_MSG_CREDIT)
		worker_on_credit(worker, &ctx, &message->credit);
	else if (message->kind == HD_MSG_EXPECT)
		worker_on_expect(worker, &ctx, &message->expect);
	else if (message->kind == HD_MSG_REDUCE)
		worker_on_reduce(worker, &ctx, &message->reduce);
	else if (message->kind == HD_MSG_VOID && message->void_.job == worker->job
		 && worker_reduce_void(worker, &ctx, message->void_.token))
		return;
	else if (message->kind == HD_MSG_VOID && message->void_.job == worker->job)
		worker_on_controller_void(worker, &ctx, message->void_.token);
	else
		worker->stats.late_messages++;
}

void worker_on_probe_packet(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_packet *packet
) {
	struct hd_message message = {.kind = HD_MSG_PROBED};

	/* A full queue loses the measurement, and whoever wants it asks again. */
	if (hd_probes_packet(&worker->probes, ctx->now, packet, &message.probed)
	    && worker->controller)
		(void)hd_session_send(worker->controller, &message, ctx->now, ctx->sink);
}

const struct hd_endpoint_ops worker_endpoint_ops = {
	.opened = on_opened,
	.message = on_message,
	.closed = on_closed,
};

/* --- time ----------------------------------------------------------------------------------- */

static hd_ns fallback_at(const struct hd_worker *worker) {
	if (hd_addr_is_none(worker->config.controller) || worker->fallback || worker->refused
	    || controller_open(worker))
		return HD_NEVER;
	return hd_ns_add(worker->controller_heard, (hd_ns)worker->config.fallback_us * HD_US);
}

static void go_direct(struct hd_worker *worker, const struct worker_context *ctx) {
	struct hd_event event = {.kind = HD_EVENT_FALLBACK};

	worker->fallback = true;
	worker->stats.direct = true;
	worker->stats.fallbacks++;
	worker_emit(worker, ctx, &event);
	if (!worker->server)
		connect_server(worker, ctx, worker->config.server);
	worker_requeue_unproven(worker, ctx);
	worker_ask_queued(worker, ctx);
}

void worker_session_tick(struct hd_worker *worker, const struct worker_context *ctx) {
	if (fallback_at(worker) <= ctx->now)
		go_direct(worker, ctx);
	if (worker->register_at <= ctx->now) {
		worker->register_at = hd_ns_add(ctx->now, WORKER_REGISTER_RETRY_US * HD_US);
		say_register(worker, ctx);
	}
	if (worker->join_at <= ctx->now) {
		worker->join_at = hd_ns_add(ctx->now, WORKER_REGISTER_RETRY_US * HD_US);
		say_join(worker, ctx);
	}
	worker_members_tick(worker, ctx);
	worker_observe_tick(worker, ctx);
	if (worker->leaving)
		(void)hd_worker_leave(worker, ctx->now, ctx->sink);
}

hd_ns worker_session_deadline(const struct hd_worker *worker) {
	hd_ns deadline = hd_ns_min(fallback_at(worker), worker->register_at);

	deadline = hd_ns_min(deadline, worker->join_at);
	deadline = hd_ns_min(deadline, worker_members_deadline(worker));
	deadline = hd_ns_min(deadline, worker_observe_deadline(worker));
	if (worker->said_leave && !worker->stats.left)
		deadline = hd_ns_min(deadline, worker->linger_until);
	return deadline;
}

/* --- leaving -------------------------------------------------------------------------------- */

static void close_session(struct hd_session **session, const struct worker_context *ctx) {
	if (*session)
		hd_session_close(*session, HD_REASON_LEFT, "left", ctx->now, ctx->sink);
	*session = NULL;
}

/* Long enough for a lost LEAVE to be sent again once; CLOSE says the same if both are lost. */
static hd_ns linger(const struct hd_worker *worker, hd_ns now) {
	hd_ns rtt = worker->server ? hd_session_rtt(worker->server) : 0;

	if (now >= worker_leave_at(worker))
		return hd_ns_min(now + 10 * HD_MS, worker->preempted_at);
	if (worker->controller)
		rtt = hd_ns_max(rtt, hd_session_rtt(worker->controller));
	return hd_ns_add(now, hd_ns_min(hd_ns_max(4 * rtt, 10 * HD_MS), 200 * HD_MS));
}

static bool under_way(const struct hd_worker *worker) {
	const struct worker_ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->tickets, link) {
		if (!ticket->ended && ticket->pub.state != HD_TICKET_APPLIED)
			return true;
		if (ticket->tail_until)
			return true;
	}
	return worker->reduce_count > 0;
}

bool hd_worker_leave(struct hd_worker *worker, hd_ns now, struct hd_sink *sink) {
	struct worker_context ctx = {now, sink};
	struct hd_message message = {.kind = HD_MSG_LEAVE};

	worker->leaving = true;
	if (worker->stats.left)
		return true;
	if (!worker->said_leave && under_way(worker) && !worker->refused
	    && now < worker_leave_at(worker)) {
		worker_say_done(worker, &ctx);
		return false;
	}
	if (!worker->said_leave) {
		message.leave.job = worker->job;
		message.leave.worker = worker->config.rank;
		message.leave.reason = HD_REASON_LEFT;
		(void)worker_tell(worker, worker->server, &ctx, &message);
		(void)worker_tell(worker, worker->controller, &ctx, &message);
		worker->said_leave = true;
		worker->linger_until = linger(worker, now);
		return false;
	}
	if (now < worker->linger_until)
		return false;
	worker->stats.left = true;
	worker->stats.joined = false;
	worker->refused = true;
	worker_trim_kept(worker, &ctx, 0);
	worker_ways_close(worker, &ctx);
	close_session(&worker->server, &ctx);
	close_session(&worker->controller, &ctx);
	return true;
}
