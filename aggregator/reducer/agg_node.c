/* SPDX-License-Identifier: BSD-3-Clause */
#include "agg_group.h"
#include "hd_assert.h"

#include <errno.h>

#define MEMORY_DEFAULT (UINT64_C(1) << 30)
#define EARLY_DEFAULT (UINT64_C(16) << 20)
#define WINDOW_DEFAULT (UINT32_C(1) << 20)

/* --- node interface --------------------------------------------------------------------------- */

static void close_broken(struct agg_turn *turn) {
	struct agg_peer *peer = TAILQ_FIRST(&turn->aggregator->peers), *next;

	if (!turn->aggregator->breaking)
		return;
	turn->aggregator->breaking = false;
	for (; peer; peer = next) {
		next = TAILQ_NEXT(peer, link);
		if (peer->broken)
			agg_peer_close(turn, peer, HD_REASON_CLOSED, peer->broken);
	}
}

static void on_timer(struct agg_turn *turn, struct hd_timer *timer) {
	if (timer->kind == AGG_TIMER_INPUT) {
		agg_input_touch(turn->aggregator, hd_container_of(timer, struct agg_input, timer));
		return;
	}
	if (timer->kind == AGG_TIMER_PEER) {
		agg_peer_unreached(turn, hd_container_of(timer, struct agg_peer, timer));
		return;
	}
	agg_group_watch(turn, hd_container_of(timer, struct agg_group, watch));
}

/* Tells the outputs of every touched group how much of its sum is final. */
static void settle_groups(struct agg_turn *turn) {
	struct agg_group_list *touched = &turn->aggregator->touched_groups;
	struct agg_group *group;

	while ((group = TAILQ_FIRST(touched))) {
		TAILQ_REMOVE(touched, group, touched_link);
		group->touched = false;
		for (uint32_t i = 0; i < group->output_count; i++)
			agg_output_feed(turn, &group->outputs[i]);
		(void)agg_group_consider(turn, group);
	}
}

/* Ends a call. Order matters: see agg_core.h. */
static void settle(struct agg_turn *turn) {
	struct hd_aggregator *aggregator = turn->aggregator;
	struct hd_timer *timer;

	agg_outputs_ended(turn);
	while ((timer = hd_timers_pop(&aggregator->timers, turn->now)))
		on_timer(turn, timer);
	agg_inputs_settle(turn);
	settle_groups(turn);
	close_broken(turn);
	agg_outputs_poll(turn);
}

static void on_probe(struct agg_turn *turn, const struct hd_packet *packet) {
	struct hd_message message = {.kind = HD_MSG_PROBED};

	if (hd_probes_packet(&turn->aggregator->probes, turn->now, packet, &message.probed))
		agg_controller_send(turn, &message);
}

static void on_packet(struct agg_turn *turn, const struct hd_packet *packet) {
	struct hd_aggregator *aggregator = turn->aggregator;
	uint8_t version;

	switch (hd_packet_classify(packet->data, packet->bytes, &version)) {
	case HD_PACKET_CHUNK:
	case HD_PACKET_SEALED:
		agg_chunk(turn, packet);
		break;
	case HD_PACKET_PROBE:
		on_probe(turn, packet);
		break;
	case HD_PACKET_CONTROL:
	case HD_PACKET_HELLO:
		hd_endpoint_receive(aggregator->endpoint, turn->now, packet, turn->sink);
		break;
	case -EPROTONOSUPPORT:
		/* The endpoint answers a HELLO of another version. */
		aggregator->stats.drop_version++;
		hd_endpoint_receive(aggregator->endpoint, turn->now, packet, turn->sink);
		break;
	case -EBADMSG:
		aggregator->stats.drop_malformed++;
		break;
	default:
		aggregator->stats.drop_type++;
		break;
	}
}

static void on_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	struct agg_turn turn = {core, now, sink, now};

	for (size_t i = 0; i < count; i++) {
		turn.now = hd_packet_at(&packets[i], now);
		on_packet(&turn, &packets[i]);
	}
	turn.now = now;
	settle(&turn);
}

static void on_tick(void *core, hd_ns now, struct hd_sink *sink) {
	struct hd_aggregator *aggregator = core;
	struct agg_turn turn = {aggregator, now, sink, now};

	(void)hd_upstream_connect(&aggregator->upstream, aggregator->endpoint, now);
	hd_endpoint_tick(aggregator->endpoint, now, sink);
	settle(&turn);
}

static hd_ns on_deadline(const void *core) {
	const struct hd_aggregator *aggregator = core;

	if (!TAILQ_EMPTY(&aggregator->ended) || hd_upstream_is_due(&aggregator->upstream)
	    || aggregator->breaking)
		return 0;
	return hd_ns_min(
		hd_endpoint_deadline(aggregator->endpoint),
		hd_ns_min(hd_timers_next(&aggregator->timers), hd_timers_next(&aggregator->sends))
	);
}

const struct hd_core_ops hd_aggregator_ops = {
	.receive = on_receive,
	.tick = on_tick,
	.deadline = on_deadline,
};

/* --- create, drain, destroy ------------------------------------------------------------------- */

static void set_defaults(struct hd_aggregator_config *config) {
	config->host = config->host ? config->host : config->name;
	config->memory_bytes = config->memory_bytes != 0 ? config->memory_bytes : MEMORY_DEFAULT;
	config->early_bytes = config->early_bytes != 0 ? config->early_bytes : EARLY_DEFAULT;
	config->receive_window_bytes
		= config->receive_window_bytes != 0 ? config->receive_window_bytes : WINDOW_DEFAULT;
	config->hold_us = config->hold_us != 0 ? config->hold_us : HD_HOLD_US;
}

static int open_endpoint(struct hd_aggregator *aggregator) {
	const struct hd_aggregator_config *config = &aggregator->config;
	struct hd_endpoint_config endpoint = {
		.name = config->name,
		.role = HD_ROLE_AGGREGATOR,
		.key_id = config->key_id,
		.keys = config->keys,
		.accepts = true,
		.ops = &agg_endpoint_ops,
		.owner = aggregator,
	};

	memcpy(endpoint.seed, config->seed, sizeof endpoint.seed);
	return hd_endpoint_create(&endpoint, &aggregator->endpoint);
}

int hd_aggregator_create(const struct hd_aggregator_config *config, struct hd_aggregator **out) {
	struct hd_aggregator *aggregator = calloc(1, sizeof *aggregator);
	int rc = -ENOMEM;

	hd_assert(agg_routes_are_valid());
	if (!aggregator)
		return -ENOMEM;
	aggregator->config = *config;
	aggregator->upstream.address = config->controller;
	aggregator->probes.keys = config->keys;
	aggregator->probes.key_id = config->key_id;
	set_defaults(&aggregator->config);
	if (strlen(aggregator->config.host) > HD_NAME_BYTES_MAX) {
		rc = -EINVAL;
		goto fail_aggregator;
	}
	memcpy(aggregator->host, aggregator->config.host, strlen(aggregator->config.host) + 1);
	TAILQ_INIT(&aggregator->peers);
	TAILQ_INIT(&aggregator->group_list);
	TAILQ_INIT(&aggregator->touched);
	TAILQ_INIT(&aggregator->touched_groups);
	TAILQ_INIT(&aggregator->unplaced);
	TAILQ_INIT(&aggregator->ended);
	aggregator->tombstones = calloc(HD_TOMBSTONES_MAX, sizeof *aggregator->tombstones);
	if (!aggregator->tombstones)
		goto fail_aggregator;
	rc = open_endpoint(aggregator);
	if (rc < 0)
		goto fail_tombstones;
	*out = aggregator;
	return 0;
fail_tombstones:
	free(aggregator->tombstones);
fail_aggregator:
	free(aggregator);
	return rc;
}

void hd_aggregator_destroy(struct hd_aggregator *aggregator) {
	struct agg_group *group;
	struct agg_peer *peer;

	if (!aggregator)
		return;
	while ((group = TAILQ_FIRST(&aggregator->group_list)))
		agg_group_destroy(aggregator, group);
	hd_endpoint_destroy(aggregator->endpoint);
	while ((peer = TAILQ_FIRST(&aggregator->peers)))
		agg_peer_destroy(aggregator, peer);
	HASH_CLEAR(hh, aggregator->handles);
	hd_timers_fini(&aggregator->timers);
	hd_timers_fini(&aggregator->sends);
	agg_memory_fini(aggregator);
	free(aggregator->tombstones);
	free(aggregator);
}

void hd_aggregator_retire(struct hd_aggregator *aggregator) {
	aggregator->retiring = true;
}

bool hd_aggregator_is_idle(const struct hd_aggregator *aggregator) {
	const struct hd_session *controller = aggregator->upstream.session;

	return aggregator->stats.groups_open == 0
		&& !(controller && hd_session_is_open(controller)
		     && hd_session_queued(controller) > 0);
}

void hd_aggregator_drain(struct hd_aggregator *aggregator, hd_ns now, struct hd_sink *sink) {
	struct agg_turn turn = {aggregator, now, sink, now};
	struct agg_group *group;
	struct agg_peer *peer;

	aggregator->retiring = true;
	while ((group = TAILQ_FIRST(&aggregator->group_list)))
		agg_group_fail(&turn, group, HD_REASON_CLOSED, NULL);
	while ((peer = TAILQ_FIRST(&aggregator->peers)))
		agg_peer_close(&turn, peer, HD_REASON_CLOSED, "the aggregator ends");
	hd_upstream_close(&aggregator->upstream, "the aggregator ends", now, sink);
}

const struct hd_aggregator_stats *hd_aggregator_stats(const struct hd_aggregator *aggregator) {
	return &aggregator->stats;
}
