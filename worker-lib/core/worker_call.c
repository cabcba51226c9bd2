/* SPDX-License-Identifier: BSD-3-Clause */
/* The owner's calls: push, pull, cancel. */
#include "hd_assert.h"
#include "hd_kernels.h"
#include "worker_ask.h"
#include "worker_push.h"
#include "worker_reduce.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

/* A push that is only kept until it is durable gives its place in the ring to a new one: training does not wait for a
 * checkpoint that cannot be written. */
static void free_slot(struct hd_worker *worker, struct worker_ticket *ticket) {
	if (ticket && worker_unkeep(worker, ticket))
		worker_retire(worker, ticket);
}

static int check_call(struct hd_worker *worker, uint8_t direction) {
	uint32_t slot = worker->next_round[direction] % HD_TICKETS_MAX;

	if (worker->refused || worker->stage >= WORKER_LEAVING)
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
	struct worker_ticket **out
) {
	struct worker_ticket *ticket = calloc(1, sizeof *ticket);

	if (!ticket)
		return -ENOMEM;
	ticket->pub.round = worker->next_round[direction]++;
	worker->stats.push_round = worker->next_round[HD_PUSH] - 1;
	ticket->pub.direction = direction;
	ticket->pub.bytes = worker->model_bytes;
	ticket->pub.user = user;
	ticket->pub.asked = now;
	hd_assert(!worker->ring[direction][ticket->pub.round % HD_TICKETS_MAX]);
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
	struct worker_context ctx = {now, sink};
	struct hd_event event = {.kind = HD_EVENT_PUSHED};
	struct worker_ticket *ticket = NULL;
	double norm;
	uint64_t bytes;
	int rc = check_call(worker, HD_PUSH);

	if (rc == 0)
		rc = worker_payload_bytes(worker, args, &bytes);
	if (rc < 0)
		return rc;
	if (!worker->joined_once)
		return -EAGAIN;
	if (!(args->weight >= 0) || isinf(args->weight)
	    || (args->weight > 0 && worker->spec.sync != HD_SYNC_FEDERATED))
		return -EINVAL;
	norm = worker_norm(args);
	if ((!worker->spec.allow_not_finite || args->dtype == HD_DTYPE_FIXED32)
	    && !worker_is_finite(args, norm))
		return -EDOM;
	rc = open_ticket(worker, now, HD_PUSH, args->user, &ticket);
	if (rc < 0)
		return rc;
	ticket->data = args->data;
	ticket->pack = args->packer ? args->packer->pack : NULL;
	ticket->ready = args->packer ? args->packer->ready : NULL;
	ticket->values = args->values;
	ticket->runs = args->runs;
	ticket->run_count = args->run_count;
	ticket->dtype = args->dtype;
	ticket->pub.bytes = bytes;
	ticket->pub.base = args->base;
	ticket->share = args->weight > 0 ? args->weight : 1;
	if (args->dtype == HD_DTYPE_FIXED32)
		ticket->peak = worker_peak(args);
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
	struct worker_context ctx = {now, sink};
	struct hd_event event = {.kind = HD_EVENT_PULLED};
	struct worker_ticket *ticket = NULL;
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
	ticket->raw = args->raw;
	worker->stats.pulled++;
	*round = ticket->pub.round;
	worker_emit_ticket(worker, &ctx, ticket, event);
	worker_ask(worker, &ctx, ticket);
	return 0;
}

static void send_cancel(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	struct hd_session *session,
	const struct worker_ticket *ticket
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

/* The push was granted and sent before, maybe in a lost session: only the server knows its outcome. */
static bool may_be_applied(const struct worker_ticket *ticket) {
	return ticket->pub.direction == HD_PUSH && (ticket->ask_server || ticket->weight != 0)
		&& (ticket->attempt > 1 || ticket->pub.state < HD_TICKET_GRANTED);
}

static bool is_in_flight(const struct worker_ticket *ticket) {
	if (ticket->slots)
		return hd_slots_stats(ticket->slots)->packets_sent > 0;
	return ticket->send && hd_send_stats(ticket->send)->packets_sent > 0;
}

int hd_worker_cancel_pair(
	struct hd_worker *worker,
	hd_ns now,
	uint32_t channel,
	uint32_t number,
	struct hd_sink *sink
) {
	const struct worker_context ctx = {now, sink};

	return worker_reduce_cancel(worker, &ctx, channel, number);
}

int hd_worker_cancel(
	struct hd_worker *worker,
	hd_ns now,
	uint8_t direction,
	uint32_t round,
	struct hd_sink *sink
) {
	struct worker_context ctx = {now, sink};
	struct worker_ticket *ticket = worker_find(worker, direction, round);

	if (direction == HD_REDUCE)
		return worker_reduce_cancel(worker, &ctx, 0, round);
	if (!ticket || (ticket->pub.direction == HD_PUSH && ticket->counted))
		return -ENOENT;
	if (ticket->pub.state == HD_TICKET_HELD)
		return -EALREADY;
	if (ticket->cancelling)
		return 0;
	if (ticket->asked == WORKER_ASKED_CONTROLLER)
		send_cancel(worker, &ctx, worker->controller, ticket);
	if (ticket->asked == WORKER_ASKED_SERVER || ticket->pub.state >= HD_TICKET_GRANTED)
		send_cancel(worker, &ctx, worker->server, ticket);
	if (worker_by_aggregator(ticket) && !ticket->path->plain)
		send_cancel(worker, &ctx, ticket->path->session, ticket);
	/* The last chunk may have completed the update: then it is applied, and the server reports that. */
	if (is_in_flight(ticket)) {
		if (ticket->send)
			hd_send_cancel(ticket->send, HD_REASON_CANCELLED);
		ticket->cancelling = true;
		return 0;
	}
	if (may_be_applied(ticket)) {
		ticket->cancelling = ticket->ask_server = true;
		worker_ask_again(worker, &ctx, ticket);
		return 0;
	}
	worker_end(worker, &ctx, ticket, HD_TICKET_FAILED, HD_REASON_CANCELLED);
	return 0;
}
