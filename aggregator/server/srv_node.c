/* SPDX-License-Identifier: BSD-3-Clause */
#include "srv_assignment.h"
#include "srv_create.h"
#include "srv_end.h"
#include "srv_keep.h"
#include "srv_peer.h"
#include "srv_pull.h"
#include "srv_replica.h"
#include "srv_roster.h"
#include "srv_stream.h"
#include "srv_update.h"

#include <assert.h>
#include <errno.h>

#define MEMORY_DEFAULT (UINT64_C(1) << 30)
#define WINDOW_DEFAULT (UINT32_C(1) << 20)

/* --- node interface --------------------------------------------------------------------------- */

static void server_close(struct srv_turn *turn, struct srv_peer *peer, const char *why) {
	rep_ops.link_closed(turn, peer);
	rep_ops.link_lost(turn, peer->session);
	srv_peer_detach(turn, peer, HD_REASON_CLOSED);
	hd_session_set_user(peer->session, NULL);
	hd_session_close(peer->session, HD_REASON_CLOSED, why, turn->now, turn->sink);
	srv_peer_destroy(turn->server, peer);
}

static void server_close_broken(struct srv_turn *turn) {
	struct srv_peer *peer = TAILQ_FIRST(&turn->server->peers), *next;

	if (!turn->server->breaking)
		return; /* runs for every packet, and there may be thousands of peers */
	turn->server->breaking = false;
	for (; peer; peer = next) {
		next = TAILQ_NEXT(peer, link);
		if (peer->broken)
			server_close(turn, peer, peer->broken);
	}
}

static void server_timer(struct srv_turn *turn, struct hd_timer *timer) {
	struct srv_job *job;

	switch ((enum srv_timer_kind)timer->kind) {
	case SRV_TIMER_INCOMING:
		srv_assembly_timer(turn, hd_container_of(timer, struct srv_incoming, timer));
		break;
	case SRV_TIMER_HOLD:
		job = hd_container_of(timer, struct srv_job, hold);
		job->dirty = true;
		break;
	case SRV_TIMER_CHECKPOINT:
		job = hd_container_of(timer, struct srv_job, retry);
		srv_checkpoint_consider(turn, job, true);
		break;
	case SRV_TIMER_ROSTER:
		job = hd_container_of(timer, struct srv_job, roster_timer);
		srv_roster_send(turn, job);
		break;
	case SRV_TIMER_IDLE:
		job = hd_container_of(timer, struct srv_job, idle);
		srv_job_idle_check(turn, job);
		break;
	case SRV_TIMER_PRIMARY:
	case SRV_TIMER_REPLICA:
		rep_ops.timer(turn, timer);
		break;
	case SRV_TIMER_PULL_START:
		srv_pull_start(turn, hd_container_of(timer, struct srv_outgoing, start_timer));
		break;
	case SRV_TIMER_PULL_SEND:
	case SRV_TIMER_STATE_SEND:
		assert(false); /* these are in the other list, sends */
		break;
	}
}

/* The budget is one for all jobs of the call. The first job that used it up goes to the end of the list. */
static void server_commit(struct srv_turn *turn) {
	struct hd_server *server = turn->server;
	struct srv_job *stopped = NULL, *job;

	TAILQ_FOREACH (job, &server->jobs, link) {
		if (job->dirty && job->phase != SRV_JOB_RETIRED)
			srv_commit_run(turn, job);
		if (!stopped && job->dirty && job->phase != SRV_JOB_RETIRED)
			stopped = job;
	}
	TAILQ_FOREACH (job, &server->jobs, link)
		srv_summary_consider(turn, job);
	server->unfinished = stopped != NULL;
	if (stopped) {
		TAILQ_REMOVE(&server->jobs, stopped, link);
		TAILQ_INSERT_TAIL(&server->jobs, stopped, link);
	}
}

/* When the server stops waiting for a silent controller. */
static hd_ns server_alone_at(const struct hd_server *server) {
	if (server->upstream.registered || server->alone || server->config.never_alone
	    || (!server->upstream.session && !server->upstream.refused))
		return HD_NEVER;
	return server->upstream.refused ? 0 : hd_ns_add(server->heard, HD_FALLBACK_US * HD_US);
}

/* Ends a call. Order matters: see srv_core.h. */
static void server_settle(struct srv_turn *turn) {
	struct hd_server *server = turn->server;
	struct srv_outgoing *ended;
	struct hd_timer *timer;

	if (server_alone_at(server) <= turn->now) {
		server->alone = true;
		srv_jobs_alone(turn);
		srv_assignment_ask_joins(server, 0);
	}
	while ((ended = TAILQ_FIRST(&server->ended_pulls)))
		srv_pull_end(turn, ended, hd_send_stats(ended->send)->reason);
	while ((timer = hd_timers_pop(&server->timers, turn->now)))
		server_timer(turn, timer);
	srv_assembly_settle(turn);
	rep_ops.settle(turn);
	server_commit(turn);
	srv_forget(turn);
	if (server->freed) {
		server->freed = false;
		srv_pull_feed(turn);
		srv_push_feed(turn);
	}
	server_close_broken(turn);
	srv_pulls_poll(turn);
}

static void server_probe(struct srv_turn *turn, const struct hd_packet *packet) {
	struct hd_server *server = turn->server;
	struct hd_message message = {.kind = HD_MSG_PROBED};

	if (hd_probes_packet(&server->probes, turn->now, packet, &message.probed)
	    && server->upstream.session)
		srv_controller_send(turn, &message);
}

static void server_packet(struct srv_turn *turn, const struct hd_packet *packet) {
	struct hd_server *server = turn->server;
	uint8_t version;

	switch (hd_packet_classify(packet->data, packet->bytes, &version)) {
	case HD_PACKET_CHUNK:
	case HD_PACKET_SEALED:
		srv_assembly_chunk(turn, packet);
		break;
	case HD_PACKET_RESULT:
		srv_stream_result(turn, packet);
		break;
	case HD_PACKET_PROBE:
		server_probe(turn, packet);
		break;
	case HD_PACKET_CONTROL:
	case HD_PACKET_HELLO:
		hd_endpoint_receive(server->endpoint, turn->now, packet, turn->sink);
		break;
	case -EPROTONOSUPPORT:
		/* The endpoint answers a HELLO of another version. */
		server->stats.drop_version++;
		hd_endpoint_receive(server->endpoint, turn->now, packet, turn->sink);
		break;
	case -EBADMSG:
		server->stats.drop_malformed++;
		break;
	default:
		server->stats.drop_type++;
		break;
	}
}

static void server_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	struct hd_server *server = core;
	struct srv_turn turn = {server, now, sink, now};

	for (size_t i = 0; i < count; i++) {
		turn.now = hd_packet_at(&packets[i], now);
		server_packet(&turn, &packets[i]);
	}
	turn.now = now;
	/* Packets first: a large update that is being applied continues in the next tick. */
	server->apply_left = server->unfinished ? 0 : server->config.apply_values;
	server_settle(&turn);
}

/* The first tick opens the session with the controller. */
static void server_connect(struct srv_turn *turn) {
	struct hd_server *server = turn->server;

	if (hd_upstream_is_due(&server->upstream)) {
		server->heard = turn->now;
		(void)hd_upstream_connect(&server->upstream, server->endpoint, turn->now);
	}
}

static void server_tick(void *core, hd_ns now, struct hd_sink *sink) {
	struct hd_server *server = core;
	struct srv_turn turn = {server, now, sink, now};

	server_connect(&turn);
	hd_endpoint_tick(server->endpoint, now, sink);
	server->apply_left = server->config.apply_values;
	server_settle(&turn);
}

static hd_ns server_deadline(const void *core) {
	const struct hd_server *server = core;

	if (server->freed || server->unfinished || !TAILQ_EMPTY(&server->ended_pulls)
	    || hd_upstream_is_due(&server->upstream))
		return 0;
	return hd_ns_min(
		hd_ns_min(hd_endpoint_deadline(server->endpoint), server_alone_at(server)),
		hd_ns_min(
			rep_ops.deadline(server),
			hd_ns_min(hd_timers_next(&server->timers), hd_timers_next(&server->sends))
		)
	);
}

const struct hd_core_ops hd_server_ops = {
	.receive = server_receive,
	.tick = server_tick,
	.deadline = server_deadline,
};

/* --- create, destroy -------------------------------------------------------------------------- */

static void server_defaults(struct hd_server_config *config) {
	config->host = config->host ? config->host : config->name;
	config->memory_bytes = config->memory_bytes != 0 ? config->memory_bytes : MEMORY_DEFAULT;
	config->chunk_bytes
		= config->chunk_bytes != 0 ? config->chunk_bytes : HD_CHUNK_BYTES_DEFAULT;
	config->receive_window_bytes
		= config->receive_window_bytes != 0 ? config->receive_window_bytes : WINDOW_DEFAULT;
	config->hold_us = config->hold_us != 0 ? config->hold_us : HD_HOLD_US;
	config->job_idle_us = config->job_idle_us != 0 ? config->job_idle_us : HD_JOB_IDLE_US;
	config->apply_values = config->apply_values != 0 ? config->apply_values : HD_APPLY_VALUES;
}

static int server_open_endpoint(struct hd_server *server) {
	const struct hd_server_config *config = &server->config;
	struct hd_endpoint_config endpoint = {
		.name = config->name,
		.role = config->replica ? HD_ROLE_REPLICA : HD_ROLE_SERVER,
		.key_id = config->key_id,
		.keys = config->keys,
		.accepts = true,
		.ops = &srv_endpoint_ops,
		.owner = server,
	};

	/* Tokens and nonces come from different streams of the same entropy. */
	hd_entropy_bytes(&server->entropy, endpoint.seed, sizeof endpoint.seed);
	return hd_endpoint_create(&endpoint, &server->endpoint);
}

int hd_server_create(const struct hd_server_config *config, struct hd_server **out) {
	struct hd_server *server = calloc(1, sizeof *server);
	int rc = -ENOMEM;

	assert(srv_routes_are_valid());
	if (!server)
		return -ENOMEM;
	server->config = *config;
	server->upstream.address = config->controller;
	server->probes.keys = config->keys;
	server->probes.key_id = config->key_id;
	server_defaults(&server->config);
	if (server->config.chunk_bytes % sizeof(float) != 0
	    || server->config.chunk_bytes > HD_CHUNK_BYTES_MAX
	    || strlen(server->config.host) > HD_NAME_BYTES_MAX) {
		rc = -EINVAL;
		goto fail_server;
	}
	memcpy(server->host, server->config.host, strlen(server->config.host) + 1);
	hd_entropy_init(&server->entropy, config->seed);
	TAILQ_INIT(&server->jobs);
	TAILQ_INIT(&server->peers);
	TAILQ_INIT(&server->touched);
	TAILQ_INIT(&server->starved);
	TAILQ_INIT(&server->starved_pulls);
	TAILQ_INIT(&server->ended_pulls);
	TAILQ_INIT(&server->links);
	TAILQ_INIT(&server->replicas);
	server->tombstones = calloc(HD_TOMBSTONES_MAX, sizeof *server->tombstones);
	if (!server->tombstones)
		goto fail_server;
	rc = server_open_endpoint(server);
	if (rc < 0)
		goto fail_tombstones;
	*out = server;
	return 0;
fail_tombstones:
	free(server->tombstones);
fail_server:
	free(server);
	return rc;
}

void hd_server_destroy(struct hd_server *server) {
	struct srv_peer *peer;
	struct srv_job *job;

	if (!server)
		return;
	while ((job = TAILQ_FIRST(&server->jobs)))
		srv_job_destroy(server, job);
	hd_endpoint_destroy(server->endpoint);
	while ((peer = TAILQ_FIRST(&server->peers)))
		srv_peer_destroy(server, peer);
	HASH_CLEAR(hh, server->handles);
	hd_timers_fini(&server->timers);
	hd_timers_fini(&server->sends);
	free(server->tombstones);
	free(server);
}

bool hd_server_drain(struct hd_server *server, hd_ns now, struct hd_sink *sink) {
	struct srv_turn turn = {server, now, sink, now};
	bool settled = true;
	struct srv_peer *peer;
	struct srv_job *job;

	TAILQ_FOREACH (job, &server->jobs, link)
		if (!server->draining && job->retry.place != 0)
			hd_timer_set(&server->timers, &job->retry, now);
	server->draining = true;
	TAILQ_FOREACH (job, &server->jobs, link) {
		srv_checkpoint_consider(&turn, job, true);
		settled = settled && srv_checkpoint_settled(server, job);
	}
	while (settled && (peer = TAILQ_FIRST(&server->peers)))
		server_close(&turn, peer, "the server ends");
	TAILQ_FOREACH (job, &server->jobs, link)
		if (settled && job->emptied)
			srv_summary_tell(&turn, job);
	return settled;
}

/* --- access for tests ------------------------------------------------------------------------- */

const float *hd_server_model(const struct hd_server *server, uint32_t job, uint64_t *values) {
	const struct srv_job *found = srv_job_find(server, job);

	if (!found)
		return NULL;
	*values = found->values;
	return !found->apply.in ? found->model->data : NULL;
}

const float *hd_server_momentum(const struct hd_server *server, uint32_t job) {
	const struct srv_job *found = srv_job_find(server, job);

	return found && !found->apply.in ? found->momentum->data : NULL;
}

hd_version hd_server_version(const struct hd_server *server, uint32_t job) {
	const struct srv_job *found = srv_job_find(server, job);

	return found ? found->version : 0;
}

bool hd_server_replicated(const struct hd_server *server, uint32_t job) {
	const struct srv_job *found = srv_job_find(server, job);

	return found && found->replicated;
}

const struct hd_server_stats *hd_server_stats(const struct hd_server *server) {
	return &server->stats;
}

size_t hd_server_log(
	const struct hd_server *server,
	uint32_t job,
	struct hd_commit *commits,
	size_t capacity
) {
	const struct srv_job *found = srv_job_find(server, job);
	uint64_t count;

	if (!found)
		return 0;
	count = found->log_count < HD_COMMITS_KEPT ? found->log_count : HD_COMMITS_KEPT;
	count = count < capacity ? count : capacity;
	for (uint64_t i = 0; i < count; i++)
		commits[i] = found->log[(found->log_count - count + i) % HD_COMMITS_KEPT];
	return count;
}
