/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_assert.h"
#include "hd_text.h"
#include "hd_worker.h"
#include "worker_ask.h"
#include "worker_channel.h"
#include "worker_pull.h"
#include "worker_push.h"
#include "worker_session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static_assert(HD_TICKETS_MAX >= 2, "a worker has at least a push and a pull");

static int copy_spec(struct hd_worker *worker, const struct hd_jobspec *spec) {
	uint8_t *blob;
	int bytes, rc;

	worker->config.spec = &worker->spec;
	worker->job = hd_job_id(spec->tenant, spec->name);
	worker->model_bytes = hd_jobspec_model_bytes(spec);
	if (worker->model_bytes == 0) {
		worker->spec = *spec; /* no server is told */
		worker->spec.tensors = NULL;
		return 0;
	}
	blob = malloc(HD_MESSAGE_BYTES_MAX);
	if (!blob)
		return -ENOMEM;
	bytes = hd_jobspec_encode(spec, blob, HD_MESSAGE_BYTES_MAX);
	rc = bytes < 0 ? bytes : hd_jobspec_decode(blob, (size_t)bytes, &worker->spec);
	if (rc < 0) {
		free(blob);
		return rc;
	}
	worker->spec_blob = blob;
	worker->spec_bytes = (uint32_t)bytes;
	return 0;
}

static int create_endpoint(struct hd_worker *worker) {
	struct hd_endpoint_config config = {
		.name = worker->name,
		.role = HD_ROLE_WORKER,
		.key_id = worker->config.key_id,
		.keys = worker->config.keys,
		.sessions_max = 4 + HD_PATHS_MAX,
		.ops = &worker_endpoint_ops,
		.owner = worker,
	};

	memcpy(config.seed, worker->config.seed, sizeof config.seed);
	return hd_endpoint_create(&config, &worker->endpoint);
}

static void set_defaults(struct hd_worker *worker) {
	struct hd_worker_config *config = &worker->config;

	hd_text_copy(worker->name, sizeof worker->name, config->name);
	hd_text_copy(worker->host, sizeof worker->host, config->host);
	config->name = worker->name;
	config->host = worker->host;
	if (!(config->job_weight > 0.0f))
		config->job_weight = 1.0f;
	if (config->chunk_bytes == 0)
		config->chunk_bytes = HD_CHUNK_BYTES_DEFAULT;
	if (config->receive_window_bytes == 0)
		config->receive_window_bytes = 1 << 20;
	if (config->fallback_us == 0)
		config->fallback_us = HD_FALLBACK_US;
	worker->register_at = worker->join_at = worker->retry_at = worker->stall_at = HD_NEVER;
	worker->next_round[HD_PUSH] = worker->next_round[HD_PULL] = 1;
	TAILQ_INIT(&worker->tickets);
	TAILQ_INIT(&worker->active);
	TAILQ_INIT(&worker->reduces);
}

int hd_worker_create(const struct hd_worker_config *config, struct hd_worker **out) {
	struct hd_worker *worker;
	char error[HD_TEXT_BYTES_MAX];
	int rc;

	if (!config->spec || hd_jobspec_check(config->spec, error, sizeof error) < 0)
		return -EINVAL;
	if (hd_addr_is_none(config->controller) && hd_addr_is_none(config->server))
		return -EDESTADDRREQ;
	if (config->chunk_bytes > HD_CHUNK_BYTES_MAX || config->chunk_bytes % sizeof(float) != 0)
		return -EINVAL;
	worker = calloc(1, sizeof *worker);
	if (!worker)
		return -ENOMEM;
	worker->config = *config;
	worker->probes.keys = config->keys;
	worker->probes.key_id = config->key_id;
	set_defaults(worker);
	rc = copy_spec(worker, config->spec);
	if (rc < 0)
		goto free_worker;
	hd_assert(worker_routes_are_valid());
	rc = create_endpoint(worker);
	if (rc < 0)
		goto fini_spec;
	*out = worker;
	return 0;

fini_spec:
	hd_jobspec_fini(&worker->spec);
	free(worker->spec_blob);
free_worker:
	free(worker);
	return rc;
}

void hd_worker_destroy(struct hd_worker *worker) {
	struct worker_ticket *ticket;

	if (!worker)
		return;
	while ((ticket = TAILQ_FIRST(&worker->tickets))) {
		TAILQ_REMOVE(&worker->tickets, ticket, link);
		worker_off_wire(worker, ticket);
		worker_copy_end(ticket);
		free(ticket->payload);
		free(ticket);
	}
	worker_reduce_destroy(worker);
	worker_channel_destroy(worker);
	hd_endpoint_destroy(worker->endpoint);
	hd_jobspec_fini(&worker->spec);
	free(worker->spec_blob);
	free(worker);
}

/* --- the node's interface ------------------------------------------------------------------ */

static void begin_call(struct hd_worker *worker, const struct worker_context *ctx) {
	worker_collect(worker);
	worker_reduce_collect(worker, ctx);
	if (!worker->started)
		worker_start(worker, ctx);
}

/* Callbacks of observe may push and pull: such transfers wait for the next pump. */
static void end_call(struct hd_worker *worker, const struct worker_context *ctx) {
	struct worker_ticket *ticket;

	worker->observe_due = false;
	TAILQ_FOREACH (ticket, &worker->active, active_link) {
		worker_observe_packing(worker, ctx, ticket);
		if (ticket->send && !ticket->ended)
			worker_observe_send(worker, ctx, ticket);
		worker_observe_stream(worker, ctx, ticket);
		if (ticket->copy)
			worker_observe_copy(worker, ctx, ticket);
	}
	/* The last transfers that it waits for may have ended. */
	if (worker->stage == WORKER_LEAVING || worker->stage == WORKER_WITHDRAWN)
		(void)hd_worker_leave(worker, ctx->now, ctx->sink);
	worker_pump_sacks(worker, ctx);
	worker_repeat_ends(worker, ctx);
	worker_pump_sends(worker, ctx);
	worker_reduce_pump(worker, ctx);
}

static void worker_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	struct hd_worker *worker = core;
	struct worker_context ctx = {now, sink};

	begin_call(worker, &ctx);
	for (size_t i = 0; i < count; i++) {
		ctx.now = hd_packet_at(&packets[i], now);
		worker_on_packet(worker, &ctx, &packets[i]);
	}
	ctx.now = now;
	end_call(worker, &ctx);
}

static void worker_tick(void *core, hd_ns now, struct hd_sink *sink) {
	struct hd_worker *worker = core;
	struct worker_context ctx = {now, sink};

	begin_call(worker, &ctx);
	hd_endpoint_tick(worker->endpoint, now, sink);
	worker_session_tick(worker, &ctx);
	worker_members_tick(worker, &ctx);
	worker_observe_tick(worker, &ctx);
	if (worker->stage >= WORKER_LEAVING)
		(void)hd_worker_leave(worker, now, sink);
	worker_path_tick(worker, &ctx);
	worker_stall_tick(worker, &ctx);
	if (worker->retry_at <= now) {
		worker->retry_at = HD_NEVER;
		worker_ask_queued(worker, &ctx);
		worker_reduce_ask_queued(worker, &ctx);
	}
	end_call(worker, &ctx);
}

static hd_ns worker_deadline(const void *core) {
	const struct hd_worker *worker = core;
	const struct worker_ticket *ticket;
	hd_ns deadline;

	if (!worker->started || worker->observe_due)
		return 0;
	deadline = hd_ns_min(
		hd_endpoint_deadline(worker->endpoint), worker_session_deadline(worker)
	);
	deadline = hd_ns_min(deadline, worker_members_deadline(worker));
	deadline = hd_ns_min(deadline, worker_observe_deadline(worker));
	deadline = hd_ns_min(deadline, worker_leave_deadline(worker));
	deadline = hd_ns_min(deadline, hd_ns_min(worker->retry_at, worker->stall_at));
	deadline = hd_ns_min(deadline, worker_path_deadline(worker));
	deadline = hd_ns_min(deadline, worker_reduce_deadline(worker));
	TAILQ_FOREACH (ticket, &worker->active, active_link) {
		if (ticket->send && worker_path_session(worker, ticket->path))
			deadline = hd_ns_min(deadline, worker_send_deadline(ticket));
		if (ticket->copy && worker_path_session(worker, ticket->copy_path))
			deadline = hd_ns_min(deadline, hd_send_deadline(ticket->copy));
		if (ticket->recv)
			deadline = hd_ns_min(deadline, hd_recv_deadline(ticket->recv));
		deadline = hd_ns_min(deadline, worker_stream_deadline(ticket));
	}
	return deadline;
}

const struct hd_core_ops hd_worker_ops = {
	.receive = worker_receive,
	.tick = worker_tick,
	.deadline = worker_deadline,
};

uint32_t hd_worker_chunk_bytes(const struct hd_worker *worker) {
	return worker->config.chunk_bytes;
}

const struct hd_worker_stats *hd_worker_stats(const struct hd_worker *worker) {
	return &worker->stats;
}
