/* SPDX-License-Identifier: BSD-3-Clause */
#include "controller_net.h"
#include "hd_jobspec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct net_packet {
	struct net_packet *next;
	hd_ns at;
	struct hd_addr from, to;
	size_t bytes;
	uint8_t data[];
};

static void need(bool good, const char *what) {
	if (good)
		return;
	(void)fprintf(stderr, "controller_net: %s\n", what);
	abort();
}

/* --- the network --- */

static struct peer *peer_at(struct net *net, struct hd_addr addr) {
	for (uint32_t i = 0; i < net->peer_count; i++)
		if (hd_addr_equal(net->peers[i].addr, addr))
			return &net->peers[i];
	return NULL;
}

static bool is_cut(struct net *net, struct hd_addr addr) {
	const struct peer *peer = peer_at(net, addr);

	return peer && peer->cut;
}

static void net_send(
	struct hd_sink *sink,
	struct hd_addr to,
	const void *head,
	size_t head_bytes,
	const void *payload,
	size_t payload_bytes
) {
	struct net *net = (struct net *)((char *)sink - offsetof(struct net, sink));
	struct net_packet *packet, **place = &net->queue;

	if (is_cut(net, to) || is_cut(net, net->sender)
	    || hd_random_chance(&net->random, net->loss))
		return;
	packet = malloc(sizeof *packet + head_bytes + payload_bytes);
	need(packet, "memory");
	packet->at = net->now + NET_LATENCY;
	packet->from = net->sender;
	packet->to = to;
	packet->bytes = head_bytes + payload_bytes;
	memcpy(packet->data, head, head_bytes);
	if (payload_bytes)
		memcpy(packet->data + head_bytes, payload, payload_bytes);
	while (*place && (*place)->at <= packet->at)
		place = &(*place)->next;
	packet->next = *place;
	*place = packet;
}

static void net_event(struct hd_sink *sink, const struct hd_event *event) {
	struct net *net = (struct net *)((char *)sink - offsetof(struct net, sink));

	if (net->event_count == net->event_capacity) {
		net->event_capacity = net->event_capacity ? net->event_capacity * 2 : 1024;
		net->events = realloc(net->events, net->event_capacity * sizeof net->events[0]);
		need(net->events, "memory");
	}
	net->events[net->event_count++] = *event;
	if (net->on_event)
		net->on_event(net, event);
}

static hd_ns peer_deadline(const struct peer *peer) {
	return peer->node.ops ? peer->node.ops->deadline(peer->node.core) :
				hd_endpoint_deadline(peer->endpoint);
}

static void peer_tick(struct peer *peer) {
	struct net *net = peer->net;

	if (peer->node.ops)
		peer->node.ops->tick(peer->node.core, net->now, &net->sink);
	else
		hd_endpoint_tick(peer->endpoint, net->now, &net->sink);
}

static void peer_receive(struct peer *peer, const struct hd_packet *packet) {
	struct net *net = peer->net;

	if (peer->node.ops)
		peer->node.ops->receive(peer->node.core, net->now, packet, 1, &net->sink);
	else
		hd_endpoint_receive(peer->endpoint, net->now, packet, &net->sink);
}

static void deliver(struct net *net, struct net_packet *packet) {
	struct hd_packet p = {.peer = packet->from, .data = packet->data, .bytes = packet->bytes};
	struct peer *peer = peer_at(net, packet->to);

	net->sender = packet->to;
	if (hd_addr_equal(packet->to, net->addr) && net->controller)
		hd_controller_ops.receive(net->controller, net->now, &p, 1, &net->sink);
	else if (peer && !peer->cut)
		peer_receive(peer, &p);
	free(packet);
}

static hd_ns earliest(struct net *net) {
	hd_ns at = net->queue ? net->queue->at : HD_NEVER;

	at = hd_ns_min(at, hd_controller_ops.deadline(net->controller));
	for (uint32_t i = 0; i < net->peer_count; i++)
		at = hd_ns_min(at, peer_deadline(&net->peers[i]));
	return at;
}

static void tick_all(struct net *net) {
	net->sender = net->addr;
	if (hd_controller_ops.deadline(net->controller) <= net->now)
		hd_controller_ops.tick(net->controller, net->now, &net->sink);
	for (uint32_t i = 0; i < net->peer_count; i++) {
		struct peer *peer = &net->peers[i];

		net->sender = peer->addr;
		if (peer_deadline(peer) <= net->now)
			peer_tick(peer);
	}
}

void net_run(struct net *net, hd_ns span) {
	hd_ns until = net->now + span, at;

	while ((at = earliest(net)) <= until) {
		net->now = hd_ns_max(net->now, at);
		while (net->queue && net->queue->at <= net->now) {
			struct net_packet *packet = net->queue;

			net->queue = packet->next;
			deliver(net, packet);
		}
		tick_all(net);
	}
	net->now = until;
}

/* --- peers --- */

static void on_opened(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink) {
	struct peer *peer = owner;

	(void)session;
	(void)now;
	(void)sink;
	peer->open = true;
}

static void on_closed(
	void *owner,
	struct hd_session *session,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	struct peer *peer = owner;

	(void)session;
	(void)reason;
	(void)text;
	(void)now;
	(void)sink;
	peer->open = false;
}

/* The blobs of a message that outlives the call. */
static struct hd_blob *blob_of(struct hd_message *m, size_t *field) {
	const struct hd_field_info *f;

	while ((f = hd_message_field(m->kind, (*field)++)))
		if (f->code == HD_FIELD_blob)
			return (struct hd_blob *)(void *)((uint8_t *)m + f->offset);
	return NULL;
}

static void keep_blobs(struct hd_message *m) {
	struct hd_blob *blob;
	size_t field = 0;

	while ((blob = blob_of(m, &field))) {
		uint8_t *data = malloc(blob->bytes + 1);

		need(data, "memory");
		if (blob->bytes)
			memcpy(data, blob->data, blob->bytes);
		blob->data = data;
	}
}

void peer_forget(struct peer *peer) {
	for (uint32_t i = 0; i < peer->count; i++) {
		struct hd_blob *blob;
		size_t field = 0;

		while ((blob = blob_of(&peer->log[i], &field)))
			free((void *)blob->data);
	}
	peer->count = 0;
}

static void on_message(
	void *owner,
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
) {
	struct peer *peer = owner;

	if (peer->count == peer->capacity) {
		peer->capacity = peer->capacity ? peer->capacity * 2 : 64;
		peer->log = realloc(peer->log, peer->capacity * sizeof peer->log[0]);
		need(peer->log, "memory");
	}
	peer->log[peer->count] = *message;
	keep_blobs(&peer->log[peer->count]);
	peer->count++;
	if (message->kind == HD_MSG_REFUSE)
		(void)snprintf(peer->refused, sizeof peer->refused, "%s", message->refuse.text);
	if (message->kind == HD_MSG_TABLE) {
		free(peer->json);
		peer->json = strndup(
			(const char *)message->table.json.data, message->table.json.bytes
		);
	}
}

static const struct hd_endpoint_ops peer_ops = {
	.opened = on_opened,
	.message = on_message,
	.closed = on_closed,
};

static void peer_start(struct peer *peer) {
	struct hd_endpoint_config config = {
		.name = peer->host,
		.role = peer->role,
		.key_id = 1,
		.keys = &peer->net->keys,
		.ops = &peer_ops,
		.owner = peer,
	};

	memset(config.seed, (int)(peer - peer->net->peers) + 1, sizeof config.seed);
	config.seed[0] = (uint8_t)++peer->processes;
	need(hd_endpoint_create(&config, &peer->endpoint) == 0, "endpoint");
	need(hd_endpoint_connect(peer->endpoint, peer->net->addr, peer->net->now, &peer->session)
		     == 0,
	     "connect");
	peer->open = false;
	peer_forget(peer);
}

struct peer *net_peer(struct net *net, uint8_t role, const char *host) {
	struct peer *peer = &net->peers[net->peer_count];

	need(net->peer_count < NET_PEERS_MAX, "peers");
	peer->net = net;
	peer->role = role;
	(void)snprintf(peer->host, sizeof peer->host, "%s", host);
	peer->addr = (struct hd_addr){0x0a000100 + net->peer_count, HD_PORT};
	if (net->beside)
		peer->addr = (struct hd_addr
		){net->beside->addr.ipv4, (uint16_t)(HD_PORT + net->peer_count)};
	net->beside = NULL;
	net->peer_count++;
	peer_start(peer);
	for (int i = 0; i < 100 && !peer->open; i++)
		net_run(net, HD_MS);
	need(peer->open || net->loss > 0, "session");
	return peer;
}

struct peer *net_core(struct net *net, struct hd_node node) {
	struct peer *peer = &net->peers[net->peer_count];

	need(net->peer_count < NET_PEERS_MAX, "peers");
	peer->net = net;
	peer->node = node;
	peer->addr = (struct hd_addr){0x0a000100 + net->peer_count++, HD_PORT};
	return peer;
}

void peer_restart(struct peer *peer) {
	hd_endpoint_destroy(peer->endpoint);
	peer_start(peer);
}

int peer_send(struct peer *peer, const struct hd_message *message) {
	peer->net->sender = peer->addr;
	return hd_session_send(peer->session, message, peer->net->now, &peer->net->sink);
}

int peer_find(const struct peer *peer, uint8_t kind) {
	int i = (int)peer->count - 1;

	while (i >= 0 && peer->log[i].kind != kind)
		i--;
	return i;
}

const struct hd_message *peer_last(const struct peer *peer, uint8_t kind) {
	int i = peer_find(peer, kind);

	return i < 0 ? NULL : &peer->log[i];
}

uint32_t peer_count(const struct peer *peer, uint8_t kind) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < peer->count; i++)
		count += peer->log[i].kind == kind;
	return count;
}

const struct hd_msg_grant *peer_grant(const struct peer *peer, uint16_t worker, uint32_t round) {
	for (uint32_t i = peer->count; i-- > 0;)
		if (peer->log[i].kind == HD_MSG_GRANT && peer->log[i].grant.worker == worker
		    && peer->log[i].grant.round == round)
			return &peer->log[i].grant;
	return NULL;
}

const struct hd_msg_expect *peer_expect(const struct peer *peer, uint16_t worker, uint32_t round) {
	for (uint32_t i = peer->count; i-- > 0;)
		if (peer->log[i].kind == HD_MSG_EXPECT && peer->log[i].expect.worker == worker
		    && peer->log[i].expect.round == round)
			return &peer->log[i].expect;
	return NULL;
}

/* --- life --- */

static void net_keep(void *owner, char *text) {
	struct net *net = owner;

	free(net->kept);
	net->kept = text;
	net->keeps++;
}

static int net_set_log_level(void *owner, const char *text) {
	(void)snprintf(
		((struct net *)owner)->log_level,
		sizeof(((struct net *)owner)->log_level),
		"%s",
		text
	);
	return strcmp(text, "loud") == 0 ? -EINVAL : 0;
}

static const struct hd_controller_ops net_ops = {.keep = net_keep};
static const struct hd_controller_ops net_ops_logs
	= {.keep = net_keep, .set_log_level = net_set_log_level};

static void controller_start(struct net *net, const struct net_config *config) {
	struct hd_controller_config c = {
		.name = "controller",
		.keys = &net->keys,
		.key_id = 1,
		.seed = {(uint8_t)config->epoch, 99},
		.epoch = config->epoch,
		.theta = config->theta,
		.initial_bps = config->initial_bps,
		.ageing_s = config->ageing_s,
		.interval_us = config->interval_us,
		.drop_permille_max = config->drop_permille_max,
		.replicate_every = config->replicate_every,
		.unscheduled = config->unscheduled,
		.ops = config->forgets ? NULL :
			config->logs   ? &net_ops_logs :
					 &net_ops,
		.owner = net,
	};
	char error[256];

	if (config->topology)
		need(hd_topology_parse(config->topology, &c.topology, error, sizeof error) == 0,
		     "topology");
	else
		need(hd_topology_create_star(&c.topology) == 0, "star");
	need(hd_controller_create(&c, &net->controller) == 0, "controller");
}

void net_open(struct net *net, const struct net_config *config) {
	char error[128];

	memset(net, 0, sizeof *net);
	net->addr = (struct hd_addr){0x0a000001, HD_PORT};
	net->now = HD_SECOND;
	net->sink.send = net_send;
	net->sink.event = net_event;
	hd_random_init(&net->random, 7);
	need(hd_keyring_parse(
		     "1 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n",
		     &net->keys,
		     error,
		     sizeof error
	     ) == 0,
	     "keys");
	controller_start(net, config);
}

struct hd_addr net_next(const struct net *net) {
	return net->queue ? net->queue->to : (struct hd_addr){0};
}

void net_restart(struct net *net, const struct net_config *config) {
	hd_controller_destroy(net->controller);
	controller_start(net, config);
}

void net_close(struct net *net) {
	hd_controller_destroy(net->controller);
	for (uint32_t i = 0; i < net->peer_count; i++) {
		if (net->peers[i].endpoint)
			hd_endpoint_destroy(net->peers[i].endpoint);
		peer_forget(&net->peers[i]);
		free(net->peers[i].log);
		free(net->peers[i].json);
	}
	while (net->queue) {
		struct net_packet *packet = net->queue;

		net->queue = packet->next;
		free(packet);
	}
	free(net->events);
	free(net->kept);
	hd_keyring_fini(&net->keys);
}

/* --- messages --- */

uint32_t net_job(const struct peer *peer) {
	return hd_job_id(peer->tenant, peer->job);
}

struct hd_message net_register_server(const struct peer *peer) {
	struct hd_message m = {.kind = HD_MSG_REGISTER};

	m.register_.role = HD_ROLE_SERVER;
	m.register_.memory_bytes = UINT64_C(1) << 30;
	m.register_.incarnation = 1;
	(void)snprintf(m.register_.host, sizeof m.register_.host, "%s", peer->host);
	return m;
}

struct hd_message net_register_aggregator(const struct peer *peer, uint64_t memory_bytes) {
	struct hd_message m = net_register_server(peer);

	m.register_.role = HD_ROLE_AGGREGATOR;
	m.register_.memory_bytes = memory_bytes;
	return m;
}

struct hd_message net_register_worker(const struct peer *peer, uint32_t tau_max, float weight) {
	struct hd_message m = {.kind = HD_MSG_REGISTER};
	struct hd_msg_register_ *r = &m.register_;

	r->role = HD_ROLE_WORKER;
	r->job = net_job(peer);
	r->worker = peer->worker;
	r->model_bytes = NET_MODEL_BYTES;
	r->tau_max = tau_max;
	r->staleness_c = 1;
	r->job_weight = weight;
	(void)snprintf(r->host, sizeof r->host, "%s", peer->host);
	(void)snprintf(r->tenant, sizeof r->tenant, "%s", peer->tenant);
	(void)snprintf(r->job_name, sizeof r->job_name, "%s", peer->job);
	return m;
}

struct hd_message net_push(const struct peer *peer, uint32_t round, uint64_t bytes, uint64_t base) {
	struct hd_message m = {.kind = HD_MSG_REQUEST};

	m.request.job = net_job(peer);
	m.request.worker = peer->worker;
	m.request.round = round;
	m.request.direction = HD_PUSH;
	m.request.attempt = 1;
	m.request.bytes = bytes;
	m.request.base = hd_version_make(1, base);
	return m;
}

struct hd_message net_pull(const struct peer *peer, uint32_t round) {
	struct hd_message m = net_push(peer, round, 0, 0);

	m.request.direction = HD_PULL;
	return m;
}

struct hd_message
net_report(const struct hd_msg_grant *grant, uint64_t version, uint64_t rate_bps) {
	struct hd_message m = {.kind = HD_MSG_REPORT};

	m.report.job = grant->job;
	m.report.worker = grant->worker;
	m.report.round = grant->round;
	m.report.direction = grant->direction;
	m.report.attempt = grant->attempt;
	m.report.token = grant->token;
	m.report.outcome = HD_OUTCOME_APPLIED;
	m.report.bytes = grant->bytes;
	m.report.rate_bps = rate_bps;
	m.report.duration_ns = rate_bps ? grant->bytes * 8 * HD_SECOND / rate_bps : 0;
	m.report.version = hd_version_make(1, version);
	m.report.position = grant->position;
	return m;
}

struct peer *net_server(struct net *net, const char *host) {
	struct peer *peer = net_peer(net, HD_ROLE_SERVER, host);
	struct hd_message m = net_register_server(peer);

	need(peer_send(peer, &m) == 0, "register");
	net_run(net, HD_MS);
	return peer;
}

struct peer *net_aggregator(struct net *net, const char *host, uint64_t memory_bytes) {
	struct peer *peer = net_peer(net, HD_ROLE_AGGREGATOR, host);
	struct hd_message m = net_register_aggregator(peer, memory_bytes);

	need(peer_send(peer, &m) == 0, "register");
	net_run(net, HD_MS);
	return peer;
}

struct peer *net_worker(
	struct net *net,
	const char *tenant,
	const char *job,
	uint16_t worker,
	uint32_t tau_max
) {
	struct hd_message m;
	struct peer *peer;
	char host[16];

	(void)snprintf(host, sizeof host, "h%u", net->peer_count);
	peer = net_peer(net, HD_ROLE_WORKER, host);
	peer->worker = worker;
	(void)snprintf(peer->tenant, sizeof peer->tenant, "%s", tenant);
	(void)snprintf(peer->job, sizeof peer->job, "%s", job);
	m = net_register_worker(peer, tau_max, 1);
	need(peer_send(peer, &m) == 0, "register");
	net_run(net, HD_MS);
	return peer;
}

uint32_t net_count_events(const struct net *net, enum hd_event_kind kind) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < net->event_count; i++)
		count += net->events[i].kind == kind;
	return count;
}

const struct net_config net_plain = {.epoch = 1, .initial_bps = 80e6};

struct ctl_counters *counters(struct net *net) {
	return &net->controller->counters;
}

void post(struct peer *peer, struct hd_message message) {
	if (peer_send(peer, &message) != 0)
		abort();
}
