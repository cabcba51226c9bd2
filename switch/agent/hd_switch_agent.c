/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_switch_agent_internal.h"
#include "hd_wire.h"

#include <assert.h>
#include <errno.h>

/* --- node interface -------------------------------------------------------------------------- */

static void on_packet(struct agent_turn *turn, const struct hd_packet *packet) {
	struct hd_switch_agent *agent = turn->agent;
	uint8_t version;

	switch (hd_packet_classify(packet->data, packet->bytes, &version)) {
	case HD_PACKET_CONTROL:
	case HD_PACKET_HELLO:
		hd_endpoint_receive(agent->endpoint, turn->now, packet, turn->sink);
		break;
	case -EPROTONOSUPPORT:
		/* The endpoint answers a HELLO of another version. */
		agent->stats.drop_version++;
		hd_endpoint_receive(agent->endpoint, turn->now, packet, turn->sink);
		break;
	case -EBADMSG:
		agent->stats.drop_malformed++;
		break;
	default:
		agent->stats.drop_type++;
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
	struct agent_turn turn = {core, now, sink};

	for (size_t i = 0; i < count; i++)
		on_packet(&turn, &packets[i]);
	agent_leases_check(&turn);
}

static void on_tick(void *core, hd_ns now, struct hd_sink *sink) {
	struct hd_switch_agent *agent = core;
	struct agent_turn turn = {agent, now, sink};

	agent_watch(&turn);
	if (!agent->lost)
		(void)hd_upstream_connect(&agent->upstream, agent->endpoint, now);
	hd_endpoint_tick(agent->endpoint, now, sink);
	agent_leases_check(&turn);
}

static hd_ns on_deadline(const void *core) {
	const struct hd_switch_agent *agent = core;

	hd_ns at = hd_ns_min(hd_endpoint_deadline(agent->endpoint), agent_leases_deadline(agent));

	if (!agent->lost && hd_upstream_is_due(&agent->upstream))
		return 0;
	return hd_ns_min(at, agent_watch_deadline(agent));
}

const struct hd_core_ops hd_switch_agent_core = {
	.receive = on_receive,
	.tick = on_tick,
	.deadline = on_deadline,
};

/* --- create, destroy ------------------------------------------------------------------------- */

static bool config_is_wrong(const struct hd_switch_agent_config *config) {
	const struct hd_switch_agent_ops *ops = config->ops;

	return !ops || !ops->neighbour || !ops->lease_set || !ops->lease_waits || !ops->lease_end
		|| !ops->counters || !config->host || !config->host[0]
		|| strlen(config->host) > HD_NAME_BYTES_MAX || config->slots > HD_SWITCH_SLOTS
		|| config->count_min == 0 || config->count_max < config->count_min
		|| config->dtypes == 0 || config->dtypes >> HD_DTYPE_COUNT != 0;
}

static int open_endpoint(struct hd_switch_agent *agent) {
	const struct hd_switch_agent_config *config = &agent->config;
	struct hd_endpoint_config endpoint = {
		.name = config->name,
		.role = HD_ROLE_SWITCH,
		.key_id = config->key_id,
		.keys = config->keys,
		.accepts = true,
		.ops = &agent_endpoint_ops,
		.owner = agent,
	};

	memcpy(endpoint.seed, config->seed, sizeof endpoint.seed);
	return hd_endpoint_create(&endpoint, &agent->endpoint);
}

int hd_switch_agent_create(
	const struct hd_switch_agent_config *config,
	struct hd_switch_agent **out
) {
	struct hd_switch_agent *agent;
	int rc;

	if (config_is_wrong(config))
		return -EINVAL;
	agent = calloc(1, sizeof *agent);
	if (!agent)
		return -ENOMEM;
	agent->config = *config;
	agent->upstream.address = config->controller;
	agent->config.slots = config->slots ? config->slots : HD_SWITCH_SLOTS;
	agent->stats.slots_all = agent->config.slots;
	memcpy(agent->host, config->host, strlen(config->host) + 1);
	assert(agent_routes_are_valid());
	rc = open_endpoint(agent);
	if (rc < 0) {
		free(agent);
		return rc;
	}
	*out = agent;
	return 0;
}

void hd_switch_agent_destroy(struct hd_switch_agent *agent) {
	if (!agent)
		return;
	for (uint32_t i = 0; i < HD_SWITCH_LEASES_MAX; i++)
		free(agent->leases[i]);
	hd_endpoint_destroy(agent->endpoint);
	free(agent);
}

void hd_switch_agent_drain(struct hd_switch_agent *agent, hd_ns now, struct hd_sink *sink) {
	struct agent_turn turn = {agent, now, sink};

	agent_leases_end_all(&turn);
	hd_upstream_close(&agent->upstream, "the switch ends", now, sink);
}

const struct hd_switch_agent_stats *hd_switch_agent_stats(const struct hd_switch_agent *agent) {
	return &agent->stats;
}

const char *hd_switch_agent_error(const struct hd_switch_agent *agent) {
	return agent->error;
}
