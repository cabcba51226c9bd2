/* SPDX-License-Identifier: BSD-3-Clause */
/* Which messages a worker accepts from which node, and their handlers. */
#include "hd_route.h"
#include "worker_ask.h"
#include "worker_channel.h"
#include "worker_pull.h"
#include "worker_push.h"
#include "worker_session.h"

struct turn {
	struct hd_worker *worker;
	struct worker_context ctx;
};

/* The other end of the session: an aggregator, else the controller or the server. */
struct from {
	struct hd_session *session;
	struct worker_path *path;
};

static void on_refuse(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;
	const struct from *from = from_;
	bool by_server = from->session == turn->worker->server;

	worker_on_refuse(turn->worker, &turn->ctx, by_server, &message->refuse);
}

static void on_wait(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;
	const struct from *from = from_;
	bool by_server = from->session == turn->worker->server;

	worker_on_wait(turn->worker, &turn->ctx, by_server, &message->wait);
}

static void on_grant(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;
	const struct from *from = from_;

	if (message->grant.direction == HD_COPY && from->session == turn->worker->controller)
		worker_on_copy_grant(turn->worker, &turn->ctx, &message->grant);
	else
		worker_on_grant(turn->worker, &turn->ctx, from->session, &message->grant);
}

static void on_drop(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;
	const struct from *from = from_;

	if (message->drop.direction == HD_REDUCE && from->session == turn->worker->controller)
		worker_reduce_drop(turn->worker, &turn->ctx, &message->drop);
	else
		worker_on_drop(turn->worker, &turn->ctx, &message->drop);
}

/* --- from the controller ---------------------------------------------------------------- */

static void on_registered(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;

	(void)from_;
	worker_on_registered(turn->worker, &turn->ctx, &message->registered);
}

static void on_probe(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;

	(void)from_;
	hd_probes_probe(&turn->worker->probes, turn->ctx.now, &message->probe, turn->ctx.sink);
}

static void on_poll(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;
	const struct from *from = from_;

	worker_on_poll(turn->worker, &turn->ctx, from->session, &message->poll);
}

static void on_roster(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;

	(void)from_;
	worker_on_roster(turn->worker, &turn->ctx, &message->roster);
}

static void on_notice(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;

	(void)from_;
	worker_on_notice(turn->worker, &turn->ctx, &message->notice);
}

static void on_credit(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;

	(void)from_;
	worker_on_credit(turn->worker, &turn->ctx, &message->credit);
}

static void on_expect(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;

	(void)from_;
	worker_on_expect(turn->worker, &turn->ctx, &message->expect);
}

static void on_reduced(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;

	(void)from_;
	worker_on_reduced(turn->worker, &turn->ctx, &message->reduced);
}

static void on_reduce(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;

	(void)from_;
	worker_on_reduce(turn->worker, &turn->ctx, &message->reduce);
}

static void on_channel(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;

	(void)from_;
	worker_channel_on_question(turn->worker, &turn->ctx, &message->channel);
}

static void on_controller_void(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;

	(void)from_;
	if (message->void_.job != turn->worker->job)
		turn->worker->stats.late_messages++;
	else if (!worker_reduce_void(turn->worker, &turn->ctx, message->void_.token))
		worker_on_controller_void(turn->worker, &turn->ctx, message->void_.token);
}

/* --- from the server, and from a transfer's aggregator ------------------------------------ */

static void on_joined(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;

	(void)from_;
	worker_on_joined(turn->worker, &turn->ctx, &message->joined);
}

static void on_go(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;

	(void)from_;
	if (message->go.job == turn->worker->job)
		worker_on_go(turn->worker, &turn->ctx, message->go.token);
}

static void on_void(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;

	(void)from_;
	if (message->void_.job == turn->worker->job)
		worker_on_void(turn->worker, &turn->ctx, &message->void_);
}

static void on_aggregator_void(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;

	(void)from_;
	if (message->void_.job == turn->worker->job
	    && !worker_reduce_void(turn->worker, &turn->ctx, message->void_.token))
		worker_on_void(turn->worker, &turn->ctx, &message->void_);
}

static void on_sack(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;
	const struct from *from = from_;

	worker_on_sack(turn->worker, &turn->ctx, from->session, &message->sack);
}

static void on_aggregator_sack(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;
	const struct from *from = from_;

	if (!worker_shards_sack(turn->worker, &turn->ctx, &message->sack))
		worker_on_sack(turn->worker, &turn->ctx, from->session, &message->sack);
}

static void on_pull_state(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;
	const struct from *from = from_;

	worker_on_pull_state(turn->worker, &turn->ctx, from->path, &message->pull_state);
}

static void on_outcome(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;

	(void)from_;
	worker_on_outcome(turn->worker, &turn->ctx, &message->outcome);
}

static void on_durable(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;

	(void)from_;
	if (message->durable.job == turn->worker->job)
		worker_on_durable(turn->worker, &turn->ctx, message->durable.version);
}

static void on_step(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;

	(void)from_;
	if (message->step.job == turn->worker->job)
		worker_newest(turn->worker, message->step.version, false);
}

static void on_round(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;

	(void)from_;
	worker_on_round(turn->worker, &turn->ctx, &message->round);
}

static void on_lack(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;

	(void)from_;
	worker_on_lack(turn->worker, &message->lack);
}

static void on_server_roster(void *turn_, void *from_, const struct hd_message *message) {
	const struct turn *turn = turn_;

	(void)from_;
	if (hd_worker_is_direct(turn->worker))
		worker_on_roster(turn->worker, &turn->ctx, &message->roster);
}

/* --- accepted messages --------------------------------------------------------------------- */

static const struct hd_route routes[] = {
	{HD_MSG_REGISTERED, HD_FROM_CONTROLLER, on_registered},
	{HD_MSG_JOINED, HD_FROM_SERVERS, on_joined},
	{HD_MSG_REFUSE, HD_FROM_CONTROLLER | HD_FROM_SERVERS, on_refuse},
	{HD_MSG_WAIT, HD_FROM_CONTROLLER | HD_FROM_SERVERS, on_wait},
	{HD_MSG_GRANT, HD_FROM_CONTROLLER | HD_FROM_SERVERS, on_grant},
	{HD_MSG_CREDIT, HD_FROM_CONTROLLER, on_credit},
	{HD_MSG_EXPECT, HD_FROM_CONTROLLER, on_expect},
	{HD_MSG_PULL_STATE, HD_FROM_SERVERS | HD_FROM_AGGREGATOR, on_pull_state},
	{HD_MSG_GO, HD_FROM_SERVERS | HD_FROM_AGGREGATOR, on_go},
	{HD_MSG_SACK, HD_FROM_SERVERS, on_sack},
	{HD_MSG_SACK, HD_FROM_AGGREGATOR, on_aggregator_sack},
	{HD_MSG_VOID, HD_FROM_CONTROLLER, on_controller_void},
	{HD_MSG_VOID, HD_FROM_SERVERS, on_void},
	{HD_MSG_VOID, HD_FROM_AGGREGATOR, on_aggregator_void},
	{HD_MSG_DROP, HD_FROM_CONTROLLER | HD_FROM_SERVERS, on_drop},
	{HD_MSG_OUTCOME, HD_FROM_SERVERS, on_outcome},
	{HD_MSG_DURABLE, HD_FROM_SERVERS, on_durable},
	{HD_MSG_STEP, HD_FROM_SERVERS, on_step},
	{HD_MSG_ROUND, HD_FROM_SERVERS, on_round},
	{HD_MSG_LACK, HD_FROM_SERVERS, on_lack},
	{HD_MSG_REDUCE, HD_FROM_CONTROLLER, on_reduce},
	{HD_MSG_REDUCED, HD_FROM_CONTROLLER, on_reduced},
	{HD_MSG_CHANNEL, HD_FROM_CONTROLLER, on_channel},
	{HD_MSG_ROSTER, HD_FROM_CONTROLLER, on_roster},
	{HD_MSG_ROSTER, HD_FROM_SERVERS, on_server_roster},
	{HD_MSG_NOTICE, HD_FROM_CONTROLLER, on_notice},
	{HD_MSG_PROBE, HD_FROM_CONTROLLER, on_probe},
	{HD_MSG_POLL, HD_FROM_CONTROLLER, on_poll},
};
#define ROUTES (sizeof routes / sizeof routes[0])

bool worker_routes_are_valid(void) {
	return hd_routes_are_valid(routes, ROUTES);
}

/* --- sessions ------------------------------------------------------------------------------- */

static void on_opened(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink) {
	const struct worker_context ctx = {now, sink};

	worker_session_opened(owner, &ctx, session);
}

static void on_closed(
	void *owner,
	struct hd_session *session,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	const struct worker_context ctx = {now, sink};

	worker_session_closed(owner, &ctx, session, reason, text);
}

/* The role is the node's role for this worker: a replica that receives copies is like an aggregator. */
static void on_message(
	void *owner,
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_worker *worker = owner;
	struct turn turn = {worker, {now, sink}};
	struct from from = {session, worker_path_of(worker, session)};
	uint8_t role = HD_ROLE_AGGREGATOR;

	if (!from.path && session == worker->controller)
		role = HD_ROLE_CONTROLLER;
	else if (!from.path && session == worker->server)
		role = HD_ROLE_SERVER;
	else if (!from.path)
		return;
	if (hd_route_message(routes, ROUTES, role, &turn, &from, message) != HD_ROUTED)
		worker->stats.late_messages++;
}

const struct hd_endpoint_ops worker_endpoint_ops = {
	.opened = on_opened,
	.message = on_message,
	.closed = on_closed,
};
