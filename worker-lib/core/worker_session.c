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
#include "worker_ask.h"
#include "worker_reduce.h"
#include "worker_session.h"

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
		worker_paths_forget_server(worker, ctx);
	}
	worker_path_drop(worker, ctx, address);
	worker->server_addr = address;
	worker->stats.server = true;
	/* The endpoint has room for these two and HD_PATHS_MAX others. */
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

/* --- registration -------------------------------------------------------------------------- */

static void send_register(struct hd_worker *worker, const struct worker_context *ctx) {
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
	body->sum_id = worker->reduce_sum_id;
	body->reduce_had = worker->reduce_had;
	body->reduce_from = worker_reduce_from(worker);
	body->shared = worker->unshared ? 0 : worker->config.shared;
	body->reduce_called = worker->reduce_round;
	body->flags = (worker->config.observes ? HD_REGISTER_OBSERVER : 0)
		| (worker->spec.unsealed ? HD_REGISTER_UNSEALED : 0);
	body->count_max = (uint16_t)(worker->config.chunk_bytes / sizeof(float));
	body->dtypes = 1U << HD_DTYPE_FIXED32 | 1U << HD_DTYPE_FP32; /* for slots */
	body->data_ipv4 = worker->config.data.ipv4;
	body->data_port = worker->config.data.port;
	(void)worker_tell(worker, worker->controller, ctx, &message);
}

static void send_join(struct hd_worker *worker, const struct worker_context *ctx) {
	struct hd_message message = {.kind = HD_MSG_JOIN};

	message.join.job = worker->job;
	message.join.worker = worker->config.rank;
	message.join.last_round = worker->next_round[HD_PUSH] - 1;
	hd_text_copy(message.join.host, sizeof message.join.host, worker->host);
	message.join.spec = (struct hd_blob){worker->spec_blob, worker->spec_bytes};
	message.join.observer = worker->config.observes;
	(void)worker_tell(worker, worker->server, ctx, &message);
}

/* --- messages of the sessions --------------------------------------------------------------- */

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

void worker_session_opened(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session
) {
	struct worker_path *path = worker_path_of(worker, session);

	emit_node(worker, ctx, HD_EVENT_NODE_UP, HD_REASON_NONE, hd_session_peer_role(session));
	if (path)
		worker_path_opened(worker, ctx, path);
	if (session == worker->controller) {
		if (worker_is_registered(worker))
			worker_set_link(worker, WORKER_UNREGISTERED);
		worker->stats.controller = true;
		worker->controller_heard = ctx->now;
		send_register(worker, ctx);
		worker_send_notice(worker, ctx, session);
	} else if (session == worker->server) {
		send_join(worker, ctx);
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

/* A process on another host has this rank, and is alive, or not known to be lost yet. */
static void on_rank_held(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	bool by_server,
	const char *text
) {
	hd_ns *again = by_server ? &worker->join_at : &worker->register_at;
	bool waits = *again != HD_NEVER;

	*again = hd_ns_add(ctx->now, WORKER_REGISTER_RETRY_US * HD_US);
	if (!waits && worker->config.ops && worker->config.ops->trouble)
		worker->config.ops->trouble(worker->config.owner, HD_REASON_RANK_HELD, text);
}

void worker_on_refuse(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	bool by_server,
	const struct hd_msg_refuse *message
) {
	if (message->reason == HD_REASON_RANK_HELD)
		on_rank_held(worker, ctx, by_server, message->text);
	else
		refuse(worker, ctx, message->reason, message->text);
}

/* A controller that sends WAIT is not silent: a worker that waits for it does not go directly to the server. */
void worker_on_wait(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	bool by_server,
	const struct hd_msg_wait *message
) {
	hd_ns again = hd_ns_add(ctx->now, hd_ns_min(message->wait_us, HD_JOIN_WAIT_US) * HD_US);

	if (message->job != worker->job || message->worker != worker->config.rank
	    || (by_server ? worker->stats.joined : worker_is_registered(worker)))
		return;
	if (by_server)
		worker->join_at = again;
	else
		worker->register_at = worker->controller_heard = again;
}

void worker_session_closed(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session,
	enum hd_reason reason,
	const char *text
) {
	struct worker_path *path = worker_path_of(worker, session);

	emit_node(worker, ctx, HD_EVENT_NODE_DOWN, reason, hd_session_peer_role(session));
	if (path) {
		worker_path_closed(worker, ctx, path, reason);
		return;
	}
	if (session == worker->controller) {
		if (worker_is_registered(worker)) {
			worker->controller_heard = hd_session_heard(session);
			worker_set_link(worker, WORKER_UNREGISTERED);
		}
		worker->stats.controller = false;
		worker->controller_heard = hd_ns_min(worker->controller_heard, ctx->now);
		worker->register_at = HD_NEVER;
		worker_credit_clear(worker);
		worker_requeue_asked(worker, ctx, WORKER_ASKED_CONTROLLER);
		worker_reduce_requeue(worker);
	} else if (session == worker->server) {
		worker->stats.joined = false;
		worker->join_at = HD_NEVER;
		worker_requeue_wire(worker, ctx, false);
	}
	if (reason == HD_REASON_REFUSED) {
		/* The endpoint frees the session when this returns. */
		if (session == worker->controller)
			worker->controller = NULL;
		else if (session == worker->server)
			worker->server = NULL;
		refuse(worker, ctx, reason, text ? text : "");
	} else if (worker->config.ops && worker->config.ops->trouble) {
		worker->config.ops->trouble(worker->config.owner, reason, text ? text : "");
	}
}

/* All-reduces need no more than that. A worker that comes later, or was away, continues at the others' round. */
static void on_registered_once(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_registered *message
) {
	/* A new process begins after the others' rounds. A known one is told `late` of those that it was away from. */
	if (!worker->registered_once && message->reduce_round > worker->reduce_round)
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

void worker_on_registered(
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
	worker_set_link(worker, message->scheduled ? WORKER_SCHEDULED : WORKER_UNSCHEDULED);
	worker->stats.direct = !message->scheduled;
	if (hd_addr_is_none(server))
		server = worker->config.server;
	connect_server(worker, ctx, server);
	worker->register_at = hd_addr_is_none(worker->server_addr) ?
		hd_ns_add(ctx->now, WORKER_REGISTER_RETRY_US * HD_US) :
		HD_NEVER;
	if (!message->scheduled)
		worker_requeue_asked(worker, ctx, WORKER_ASKED_CONTROLLER);
	worker_ask_queued(worker, ctx);
	on_registered_once(worker, ctx, message);
	worker_reduce_registered(worker, ctx);
	worker_reduce_ask_queued(worker, ctx);
}

void worker_on_joined(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_msg_joined *message
) {
	uint64_t boot = hd_session_peer_boot(worker->server);
	bool server_restarted = worker->server_boot != 0 && worker->server_boot != boot;

	if (message->job != worker->job || worker->refused)
		return;
	worker->join_at = HD_NEVER;
	/* Rounds continue those that the server knows of former processes of this rank; also when the server process
	 * that this worker joined first was out of touch and did not know them. */
	if ((!worker->joined_once || server_restarted)
	    && message->last_round >= worker->next_round[HD_PUSH])
		worker->next_round[HD_PUSH] = message->last_round + 1;
	worker->stats.push_round = worker->next_round[HD_PUSH] - 1;
	worker->joined_once = true;
	worker->server_boot = boot;
	worker->stats.joined = true;
	worker->sent_done = false; /* in the last session */
	if (worker->stage >= WORKER_LEAVING || worker->config.observes)
		worker_send_done(worker, ctx);
	worker->durable = message->durable;
	worker_newest(worker, message->version, server_restarted);
	/* A new server process while this worker lingers: to it this worker is gone, as it would be a moment later. */
	if (server_restarted && worker->stage >= WORKER_LINGERING)
		worker_trim_kept(worker, ctx, 0);
	worker_requeue_wire(worker, ctx, server_restarted);
	if (worker->config.ops && worker->config.ops->joined)
		worker->config.ops->joined(
			worker->config.owner, message->version, message->tau_max
		);
	worker_on_durable(worker, ctx, message->durable);
	worker_ask_queued(worker, ctx);
	if (hd_addr_is_none(worker->config.controller))
		worker_send_notice(worker, ctx, worker->server);
}

/* --- time ----------------------------------------------------------------------------------- */

static hd_ns fallback_at(const struct hd_worker *worker) {
	hd_ns at;

	if (hd_addr_is_none(worker->config.controller) || worker->link == WORKER_FALLBACK
	    || worker->refused || worker_has_controller(worker))
		return HD_NEVER;
	at = worker->controller_heard;
	if (worker->controller) /* a busy one answers HELLO before it opens the session */
		at = hd_ns_max(at, hd_session_answered(worker->controller));
	at = hd_ns_add(at, (hd_ns)worker->config.fallback_us * HD_US);
	if (worker->controller && hd_session_is_open(worker->controller))
		return hd_ns_add(at, hd_session_stretch(worker->controller));
	return hd_ns_add(at, hd_endpoint_stretch(worker->endpoint, at));
}

static void go_direct(struct hd_worker *worker, const struct worker_context *ctx) {
	struct hd_event event = {.kind = HD_EVENT_FALLBACK};

	worker_set_link(worker, WORKER_FALLBACK);
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
		send_register(worker, ctx);
	}
	if (worker->join_at <= ctx->now) {
		worker->join_at = hd_ns_add(ctx->now, WORKER_REGISTER_RETRY_US * HD_US);
		send_join(worker, ctx);
	}
}

hd_ns worker_session_deadline(const struct hd_worker *worker) {
	return hd_ns_min(fallback_at(worker), hd_ns_min(worker->register_at, worker->join_at));
}

/* --- leaving -------------------------------------------------------------------------------- */
