/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes and pulls: how they begin, are asked for (again), and end exactly once. */
#include "hd_kernels.h"
#include "hd_worker_core.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ticket *worker_find(const struct hd_worker *worker, uint8_t direction, uint32_t round) {
	struct ticket *ticket;

	if (direction > HD_PULL)
		return NULL;
	ticket = worker->ring[direction][round % HD_TICKETS_MAX];
	return ticket && ticket->pub.round == round ? ticket : NULL;
}

void worker_set_state(struct hd_worker *worker, struct ticket *ticket, enum hd_ticket_state state) {
	ticket->pub.state = state;
	if (worker->config.ops && worker->config.ops->ticket)
		worker->config.ops->ticket(worker->config.owner, &ticket->pub);
}

void worker_activate(struct hd_worker *worker, struct ticket *ticket) {
	if (!ticket->active)
		TAILQ_INSERT_TAIL(&worker->active, ticket, active_link);
	ticket->active = true;
	worker->observe_due = true;
}

/* The list itself is mended at the next collect: somebody may be walking it. */
void worker_off_wire(struct hd_worker *worker, struct ticket *ticket) {
	if (ticket->send)
		hd_send_destroy(ticket->send);
	if (ticket->recv)
		hd_recv_destroy(ticket->recv);
	ticket->send = NULL;
	ticket->recv = NULL;
}

void worker_collect(struct hd_worker *worker) {
	struct ticket *ticket, *next;

	for (ticket = TAILQ_FIRST(&worker->active); ticket; ticket = next) {
		next = TAILQ_NEXT(ticket, active_link);
		if (ticket->send || ticket->recv)
			continue;
		TAILQ_REMOVE(&worker->active, ticket, active_link);
		ticket->active = false;
	}
	for (ticket = TAILQ_FIRST(&worker->tickets); ticket; ticket = next) {
		next = TAILQ_NEXT(ticket, link);
		if (!ticket->ended)
			continue;
		TAILQ_REMOVE(&worker->tickets, ticket, link);
		free(ticket->payload);
		free(ticket);
	}
}

/* --- ends ----------------------------------------------------------------------------------- */

static enum hd_outcome outcome_of(enum hd_ticket_state state) {
	switch (state) {
	case HD_TICKET_APPLIED:
	case HD_TICKET_DURABLE:
		return HD_OUTCOME_APPLIED;
	case HD_TICKET_DROPPED:
		return HD_OUTCOME_DROPPED;
	default:
		return HD_OUTCOME_FAILED;
	}
}

static uint64_t *push_counter(struct hd_worker *worker, enum hd_outcome outcome) {
	if (outcome == HD_OUTCOME_APPLIED)
		return &worker->stats.applied;
	return outcome == HD_OUTCOME_DROPPED ? &worker->stats.dropped : &worker->stats.failed;
}

/* Tells and counts the outcome: once, unless a restart of the server turned APPLIED into another. */
static void count_outcome(
	struct hd_worker *worker,
	const struct context *ctx,
	struct ticket *ticket,
	enum hd_ticket_state state
) {
	enum hd_outcome outcome = outcome_of(state);
	struct hd_event event = {
		.kind = HD_EVENT_OUTCOME,
		.reason = ticket->pub.reason,
		.aux = outcome,
		.value = ticket->counted ? 1.0 : 0.0,
	};

	if (ticket->counted && outcome == HD_OUTCOME_APPLIED)
		return;
	if (ticket->pub.direction == HD_PUSH) {
		if (ticket->counted)
			worker->stats.applied--;
		(*push_counter(worker, outcome))++;
	} else if (outcome == HD_OUTCOME_APPLIED) {
		worker->stats.delivered++;
	}
	if (outcome == HD_OUTCOME_APPLIED && ticket->pub.granted)
		worker->stats.granted_bytes += ticket->pub.bytes;
	else if (outcome == HD_OUTCOME_APPLIED)
		worker->stats.direct_bytes += ticket->pub.bytes;
	ticket->counted = true;
	ticket->pub.ended = ctx->now;
	worker_emit_ticket(worker, ctx, ticket, event);
}

/* Forgets the ticket and gives its data back. */
static void retire(struct hd_worker *worker, struct ticket *ticket) {
	if (ticket->ended)
		return;
	ticket->ended = true;
	worker_off_wire(worker, ticket);
	worker->ring[ticket->pub.direction][ticket->pub.round % HD_TICKETS_MAX] = NULL;
	if (ticket->pub.direction == HD_PUSH && worker->config.ops && worker->config.ops->released)
		worker->config.ops->released(
			worker->config.owner, ticket->pub.round, ticket->pub.user
		);
}

/* What a push costs the program's memory while it is kept. */
static uint64_t kept_by(const struct ticket *ticket) {
	return ticket->values * sizeof(float) + ticket->run_count * sizeof(struct hd_run);
}

void worker_end(
	struct hd_worker *worker,
	const struct context *ctx,
	struct ticket *ticket,
	enum hd_ticket_state state,
	enum hd_reason reason
) {
	if (ticket->ended)
		return;
	if (ticket->pub.direction == HD_PUSH && ticket->pub.state == HD_TICKET_APPLIED)
		worker->kept_bytes -= kept_by(ticket);
	ticket->pub.reason = reason;
	count_outcome(worker, ctx, ticket, state);
	worker_off_wire(worker, ticket);
	worker_set_state(worker, ticket, state);
	retire(worker, ticket);
}

void worker_fail_all(struct hd_worker *worker, const struct context *ctx, enum hd_reason reason) {
	struct ticket *ticket;

	worker_trim_kept(worker, 0);
	TAILQ_FOREACH (ticket, &worker->tickets, link)
		worker_end(worker, ctx, ticket, HD_TICKET_FAILED, reason);
}

void worker_trim_kept(struct hd_worker *worker, uint64_t bytes) {
	struct ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->tickets, link) {
		if (worker->kept_bytes <= bytes)
			return;
		if (ticket->ended || ticket->pub.direction != HD_PUSH
		    || ticket->pub.state != HD_TICKET_APPLIED)
			continue;
		worker->kept_bytes -= kept_by(ticket);
		retire(worker, ticket);
	}
}

/* Applied: ended, unless its bytes are kept until they are durable. */
static void
push_applied(struct hd_worker *worker, const struct context *ctx, struct ticket *ticket) {
	ticket->pub.reason = HD_REASON_NONE;
	ticket->cancelling = false; /* too late: it was whole, and is in the model */
	count_outcome(worker, ctx, ticket, HD_TICKET_APPLIED);
	worker_off_wire(worker, ticket);
	if (worker->config.keep_bytes_max > 0)
		worker->kept_bytes += kept_by(ticket);
	worker_set_state(worker, ticket, HD_TICKET_APPLIED);
	if (worker->config.keep_bytes_max == 0)
		retire(worker, ticket);
	else
		worker_trim_kept(worker, worker->config.keep_bytes_max);
}

void worker_on_outcome(
	struct hd_worker *worker,
	const struct context *ctx,
	const struct hd_msg_outcome *outcome
) {
	struct ticket *ticket = worker_find(worker, HD_PUSH, outcome->round);

	if (outcome->job != worker->job || outcome->worker != worker->config.rank || !ticket
	    || ticket->pub.state == HD_TICKET_APPLIED) {
		worker->stats.late_messages++;
		return;
	}
	ticket->pub.version = outcome->version;
	ticket->pub.delay = outcome->delay;
	if (outcome->outcome == HD_OUTCOME_APPLIED)
		push_applied(worker, ctx, ticket);
	else
		worker_end(
			worker,
			ctx,
			ticket,
			outcome->outcome == HD_OUTCOME_DROPPED ? HD_TICKET_DROPPED :
								 HD_TICKET_FAILED,
			outcome->reason
		);
	worker_on_durable(worker, ctx, outcome->durable);
}

/* Only applied pushes are asked about, and a new life of the server begins with none of them: their
 * versions are of the present history. */
void worker_on_durable(struct hd_worker *worker, const struct context *ctx, hd_version durable) {
	struct ticket *ticket;

	worker->durable = durable;
	if (worker->kept_bytes == 0)
		return;
	TAILQ_FOREACH (ticket, &worker->tickets, link) {
		if (ticket->ended || ticket->pub.direction != HD_PUSH
		    || ticket->pub.state != HD_TICKET_APPLIED || ticket->pub.version > durable)
			continue;
		worker_end(worker, ctx, ticket, HD_TICKET_DURABLE, HD_REASON_NONE);
	}
}

/* A drop decided by policy is DROPPED; what could not be carried out at all has FAILED. */
static enum hd_ticket_state state_of_drop(uint8_t reason) {
	switch (reason) {
	case HD_REASON_REFUSED:
	case HD_REASON_NO_MEMORY:
	case HD_REASON_NO_SERVER:
	case HD_REASON_CLOSED:
	case HD_REASON_TIMEOUT:
	case HD_REASON_LEASE:
	case HD_REASON_LEFT:
	case HD_REASON_CANCELLED:
		return HD_TICKET_FAILED;
	default:
		return HD_TICKET_DROPPED;
	}
}

void worker_on_drop(
	struct hd_worker *worker,
	const struct context *ctx,
	const struct hd_msg_drop *drop
) {
	struct ticket *ticket = worker_find(worker, drop->direction, drop->round);

	if (drop->job != worker->job || drop->worker != worker->config.rank || !ticket
	    || ticket->attempt != drop->attempt || ticket->pub.state != HD_TICKET_REQUESTED) {
		worker->stats.late_messages++;
		return;
	}
	worker_end(
		worker,
		ctx,
		ticket,
		state_of_drop(drop->reason),
		drop->reason < HD_REASON_COUNT ? drop->reason : HD_REASON_REFUSED
	);
}

/* --- asking --------------------------------------------------------------------------------- */

static struct hd_message request_of(const struct hd_worker *worker, const struct ticket *ticket) {
	struct hd_message message = {.kind = HD_MSG_REQUEST};
	struct hd_msg_request *request = &message.request;

	request->job = worker->job;
	request->worker = worker->config.rank;
	request->round = ticket->pub.round;
	request->direction = ticket->pub.direction;
	request->attempt = ticket->attempt;
	request->dtype = ticket->dtype;
	request->bytes = ticket->pub.bytes;
	request->norm = ticket->norm;
	request->base = ticket->pub.base;
	/* Of a push: the version that it made, as this worker was told; whether it stands, the server says. */
	request->have = ticket->pub.direction == HD_PUSH ? ticket->pub.version : ticket->have;
	request->conditional = ticket->conditional;
	return message;
}

/* A push that was granted before may be in the model by now: only the server knows, and a controller
 * that plans it anew might drop what is applied. */
static enum route route_of(const struct hd_worker *worker, const struct ticket *ticket) {
	enum route route = worker_route(worker);

	if (route == ROUTE_CONTROLLER && ticket->pub.direction == HD_PUSH && ticket->weight != 0)
		return ROUTE_SERVER;
	return route;
}

void worker_ask(struct hd_worker *worker, const struct context *ctx, struct ticket *ticket) {
	enum route route = route_of(worker, ticket);
	struct hd_event event = {.kind = HD_EVENT_REQUESTED, .aux = ticket->attempt + 1u};
	struct hd_message message;

	if (route == ROUTE_NONE || ticket->ended || ticket->pub.state != HD_TICKET_QUEUED)
		return;
	if (ticket->attempt == ATTEMPTS_MAX) {
		worker_end(worker, ctx, ticket, HD_TICKET_FAILED, HD_REASON_TIMEOUT);
		return;
	}
	ticket->attempt++;
	message = request_of(worker, ticket);
	if (worker_tell(
		    worker,
		    route == ROUTE_CONTROLLER ? worker->controller : worker->server,
		    ctx,
		    &message
	    )
	    < 0) {
		ticket->attempt--;
		worker->retry_at = hd_ns_add(ctx->now, RETRY_US * HD_US);
		return;
	}
	worker->stats.asked_again += ticket->attempt > 1;
	ticket->route = (uint8_t)route;
	ticket->token = 0;
	ticket->position = 0;
	ticket->progress_at = ctx->now;
	ticket->progress_bytes = 0;
	worker_emit_ticket(worker, ctx, ticket, event);
	worker_set_state(worker, ticket, HD_TICKET_REQUESTED);
	if (worker->stall_at == HD_NEVER)
		worker->stall_at = hd_ns_add(ctx->now, HD_STALL_US * HD_US / 4);
}

void worker_ask_queued(struct hd_worker *worker, const struct context *ctx) {
	struct ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->tickets, link)
		worker_ask(worker, ctx, ticket);
}

void worker_requeue(struct hd_worker *worker, const struct context *ctx, struct ticket *ticket) {
	if (ticket->ended)
		return;
	worker_off_wire(worker, ticket);
	/* One that was withdrawn too late may be in the model: the server is asked, as for any other. When
	 * it grants instead of telling the outcome, it never had it whole. */
	if (ticket->pub.direction == HD_PUSH && ticket->pub.state == HD_TICKET_APPLIED)
		worker->kept_bytes -= kept_by(ticket);
	ticket->route = ROUTE_NONE;
	ticket->pub.state = HD_TICKET_QUEUED;
}

void worker_requeue_route(struct hd_worker *worker, const struct context *ctx, enum route route) {
	struct ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->tickets, link) {
		if (ticket->pub.state == HD_TICKET_REQUESTED && ticket->route == route)
			worker_requeue(worker, ctx, ticket);
	}
}

void worker_requeue_wire(struct hd_worker *worker, const struct context *ctx, bool new_life) {
	struct ticket *ticket;

	TAILQ_FOREACH (ticket, &worker->tickets, link) {
		bool asked_server
			= ticket->pub.state == HD_TICKET_REQUESTED && ticket->route == ROUTE_SERVER;
		bool on_wire = ticket->pub.state == HD_TICKET_GRANTED
			|| ticket->pub.state == HD_TICKET_SENDING
			|| ticket->pub.state == HD_TICKET_HELD;

		if (asked_server || on_wire || (new_life && ticket->pub.state == HD_TICKET_APPLIED))
			worker_requeue(worker, ctx, ticket);
	}
}

/* --- stalls --------------------------------------------------------------------------------- */

/* Bytes that got through; grows while a transfer lives. */
static uint64_t progress_of(const struct ticket *ticket) {
	if (ticket->send)
		return hd_send_stats(ticket->send)->bytes_acked;
	return ticket->recv ? hd_recv_stats(ticket->recv)->bytes_held : 0;
}

/*
 * Whether somebody else's word is overdue. What waits at the controller waits by its policy; a push
 * that the server holds waits for its turn. The rest moves or is asked for again: a grant whose EXPECT
 * was lost with a controller, a pull whose grant was.
 */
static bool may_stall(const struct ticket *ticket) {
	switch (ticket->pub.state) {
	case HD_TICKET_GRANTED:
	case HD_TICKET_SENDING:
		return true;
	case HD_TICKET_REQUESTED:
		return ticket->route == ROUTE_SERVER;
	default:
		return false;
	}
}

void worker_stall_tick(struct hd_worker *worker, const struct context *ctx) {
	struct ticket *ticket;
	bool watch = false;

	if (worker->stall_at > ctx->now)
		return;
	TAILQ_FOREACH (ticket, &worker->tickets, link) {
		uint64_t bytes = progress_of(ticket);

		if (ticket->ended)
			continue;
		watch |= ticket->pub.state < HD_TICKET_APPLIED;
		if (!may_stall(ticket) || bytes != ticket->progress_bytes) {
			ticket->progress_bytes = bytes;
			ticket->progress_at = ctx->now;
			continue;
		}
		if (ctx->now < hd_ns_add(ticket->progress_at, HD_STALL_US * HD_US))
			continue;
		worker_requeue(worker, ctx, ticket);
		worker_ask(worker, ctx, ticket);
	}
	worker->stall_at = watch ? hd_ns_add(ctx->now, HD_STALL_US * HD_US / 4) : HD_NEVER;
}

/* --- the owner's calls ---------------------------------------------------------------------- */

/* A push that is only kept until it is durable gives its place up to a new one: training does not wait for
 * a checkpoint that cannot be written. */
static void free_slot(struct hd_worker *worker, struct ticket *ticket) {
	if (!ticket || ticket->pub.direction != HD_PUSH || ticket->pub.state != HD_TICKET_APPLIED)
		return;
	worker->kept_bytes -= kept_by(ticket);
	retire(worker, ticket);
}

static int check_call(struct hd_worker *worker, uint8_t direction) {
	uint32_t slot = worker->next_round[direction] % HD_TICKETS_MAX;

	if (worker->refused || worker->leaving)
		return -ESHUTDOWN;
	free_slot(worker, worker->ring[direction][slot]);
	return worker->ring[direction][slot] ? -ENOBUFS : 0;
}

/* A ticket in the ring; -ENOMEM. */
static int open_ticket(
	struct hd_worker *worker,
	hd_ns now,
	uint8_t direction,
	void *user,
	struct ticket **out
) {
	struct ticket *ticket = calloc(1, sizeof *ticket);

	if (!ticket)
		return -ENOMEM;
	ticket->pub.round = worker->next_round[direction]++;
	worker->stats.push_round = worker->next_round[HD_PUSH] - 1;
	ticket->pub.direction = direction;
	ticket->pub.bytes = worker->model_bytes;
	ticket->pub.user = user;
	ticket->pub.asked = now;
	worker->ring[direction][ticket->pub.round % HD_TICKETS_MAX] = ticket;
	TAILQ_INSERT_TAIL(&worker->tickets, ticket, link);
	*out = ticket;
	return 0;
}

int hd_worker_push(
	struct hd_worker *worker,
	hd_ns now,
	const struct hd_push_args *args,
	struct hd_sink *sink,
	uint32_t *round
) {
	struct context ctx = {now, sink};
	struct hd_event event = {.kind = HD_EVENT_PUSHED};
	struct ticket *ticket = NULL;
	double norm;
	uint64_t bytes;
	int rc = check_call(worker, HD_PUSH);

	if (rc == 0)
		rc = worker_payload_bytes(worker, args, &bytes);
	if (rc < 0)
		return rc;
	if (!worker->joined_once)
		return -EAGAIN;
	norm = sqrt(hd_norm2_f32(args->data, args->values));
	if (!worker->spec.allow_not_finite && !worker_is_finite(args, norm))
		return -EDOM;
	rc = open_ticket(worker, now, HD_PUSH, args->user, &ticket);
	if (rc < 0)
		return rc;
	ticket->data = args->data;
	ticket->values = args->values;
	ticket->runs = args->runs;
	ticket->run_count = args->run_count;
	ticket->dtype = args->dtype;
	ticket->pub.bytes = bytes;
	ticket->pub.base = args->base;
	ticket->norm = norm < (double)FLT_MAX ? (float)norm : FLT_MAX;
	worker->stats.pushed++;
	*round = ticket->pub.round;
	event.value = norm;
	worker_emit_ticket(worker, &ctx, ticket, event);
	worker_ask(worker, &ctx, ticket);
	return 0;
}

int hd_worker_pull(
	struct hd_worker *worker,
	hd_ns now,
	const struct hd_pull_args *args,
	struct hd_sink *sink,
	uint32_t *round
) {
	struct context ctx = {now, sink};
	struct hd_event event = {.kind = HD_EVENT_PULLED};
	struct ticket *ticket = NULL;
	int rc = check_call(worker, HD_PULL);

	if (rc == 0
	    && (!hd_dtype_is_model(args->dtype) || args->values != hd_jobspec_values(&worker->spec)
	    ))
		rc = -EINVAL;
	if (rc == 0)
		rc = open_ticket(worker, now, HD_PULL, args->user, &ticket);
	if (rc < 0)
		return rc;
	ticket->into = args->data;
	ticket->values = args->values;
	ticket->dtype = args->dtype;
	ticket->pub.bytes = args->values * hd_dtype_bytes(args->dtype);
	ticket->have = args->have;
	ticket->conditional = args->conditional;
	worker->stats.pulled++;
	*round = ticket->pub.round;
	worker_emit_ticket(worker, &ctx, ticket, event);
	worker_ask(worker, &ctx, ticket);
	return 0;
}

static void say_cancel(
	struct hd_worker *worker,
	const struct context *ctx,
	struct hd_session *session,
	const struct ticket *ticket
) {
	struct hd_message message = {.kind = HD_MSG_CANCEL};

	message.cancel.job = worker->job;
	message.cancel.worker = worker->config.rank;
	message.cancel.round = ticket->pub.round;
	message.cancel.direction = ticket->pub.direction;
	message.cancel.attempt = ticket->attempt;
	message.cancel.token = ticket->token;
	message.cancel.reason = HD_REASON_CANCELLED;
	(void)worker_tell(worker, session, ctx, &message);
}

int hd_worker_cancel(
	struct hd_worker *worker,
	hd_ns now,
	uint8_t direction,
	uint32_t round,
	struct hd_sink *sink
) {
	struct context ctx = {now, sink};
	struct ticket *ticket = worker_find(worker, direction, round);

	if (!ticket || (ticket->pub.direction == HD_PUSH && ticket->counted))
		return -ENOENT;
	if (ticket->pub.state == HD_TICKET_HELD)
		return -EALREADY;
	if (ticket->cancelling)
		return 0;
	if (ticket->route == ROUTE_CONTROLLER)
		say_cancel(worker, &ctx, worker->controller, ticket);
	if (ticket->route == ROUTE_SERVER || ticket->pub.state >= HD_TICKET_GRANTED)
		say_cancel(worker, &ctx, worker->server, ticket);
	/* The last chunk may have made the update whole: then it is applied, and the server says so. */
	if (ticket->send && hd_send_stats(ticket->send)->packets_sent > 0) {
		hd_send_cancel(ticket->send, HD_REASON_CANCELLED);
		ticket->cancelling = true;
		return 0;
	}
	worker_end(worker, &ctx, ticket, HD_TICKET_FAILED, HD_REASON_CANCELLED);
	return 0;
}
