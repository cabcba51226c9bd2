/* SPDX-License-Identifier: BSD-3-Clause */
/* The controller core: creation and destruction, packets and timers, the end of every call. */
#include "ctl_allreduce.h"
#include "ctl_base.h"
#include "ctl_dataplane.h"
#include "ctl_dispatch.h"
#include "ctl_elastic.h"
#include "ctl_estimate.h"
#include "ctl_grouping.h"
#include "ctl_kept.h"
#include "ctl_registry.h"
#include "ctl_requests.h"
#include "ctl_slots.h"
#include "ctl_transfers.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- sessions --- */

/* A shell does not register: its events are those of its session. */
static void tell_visit(
	const struct hd_controller *c,
	const struct hd_session *session,
	enum hd_event_kind kind,
	enum hd_reason reason
) {
	const struct hd_who who = hd_session_who(session);
	const struct hd_event event = {
		.at = c->now,
		.kind = kind,
		.reason = reason,
		.aux = HD_ROLE_SHELL,
		.who = &who,
	};

	if (hd_session_peer_role(session) == HD_ROLE_SHELL && c->config.ops
	    && c->config.ops->visited)
		c->config.ops->visited(c->config.owner, &event);
}

static void on_opened(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink) {
	struct hd_controller *c = owner;
	struct ctl_node *node;

	(void)now;
	node = calloc(1, sizeof *node);
	if (!node) {
		hd_session_close(
			session, HD_REASON_NO_MEMORY, "controller: no memory", c->now, sink
		);
		return;
	}
	node->session = session;
	node->host_index = -1;
	hd_session_set_user(session, node);
	TAILQ_INSERT_TAIL(&c->nodes, node, entry);
	c->node_count++;
	tell_visit(c, session, HD_EVENT_NODE_UP, HD_REASON_NONE);
}

static void node_free(struct hd_controller *c, struct ctl_node *node) {
	if (node->doomed)
		c->doomed_count--;
	TAILQ_REMOVE(&c->nodes, node, entry);
	c->node_count--;
	ctl_dataplane_forget(node);
	free(node);
}

static void on_closed(
	void *owner,
	struct hd_session *session,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_controller *c = owner;
	struct ctl_node *node = hd_session_user(session);

	(void)text;
	(void)now;
	if (!node)
		return;
	tell_visit(c, session, HD_EVENT_NODE_DOWN, reason);
	hd_session_set_user(session, NULL);
	/* The session is closed: no message can be sent. */
	if (!node->doomed) {
		node->doomed = true;
		c->doomed_count++;
	}
	ctl_node_down(c, node, reason, sink);
	node_free(c, node);
}

static void on_message(
	void *owner,
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_controller *c = owner;
	struct ctl_node *node = hd_session_user(session);

	(void)now;
	if (!node || node->doomed)
		return;
	ctl_dispatch(c, node, message, sink);
}

static const struct hd_endpoint_ops endpoint_ops = {
	.opened = on_opened,
	.message = on_message,
	.closed = on_closed,
};

/* --- the core --- */

static int config_check(const struct hd_controller_config *config) {
	if (!config->name || strlen(config->name) > HD_NAME_BYTES_MAX)
		return -EINVAL;
	if (!config->keys || !config->topology || config->drop_permille_max > 1000)
		return -EINVAL;
	if (!(config->theta >= 0) || !(config->ageing_s >= 0) || !(config->initial_bps >= 0))
		return -EINVAL;
	return 0;
}

static void config_defaults(struct hd_controller_config *config) {
	config->interval_us = config->interval_us ? config->interval_us : HD_BATCH_INTERVAL_US;
	config->detection_us = config->detection_us ? config->detection_us : HD_DETECTION_US;
	config->initial_bps = config->initial_bps > 0 ? config->initial_bps : 1e9;
	config->job_idle_us = config->job_idle_us ? config->job_idle_us : HD_JOB_IDLE_US;
	config->ageing_s = config->ageing_s > 0 ? config->ageing_s : 5;
	config->drop_permille_max = config->drop_permille_max ? config->drop_permille_max : 100;
}

static int endpoint_create(struct hd_controller *c) {
	struct hd_endpoint_config config = {
		.name = c->name,
		.role = HD_ROLE_CONTROLLER,
		.key_id = c->config.key_id,
		.keys = c->config.keys,
		.accepts = true,
		.dead_us = (uint32_t)(ctl_silence(c) / HD_US),
		.keepalive_us = c->config.detection_us / 4 < HD_KEEPALIVE_US ?
			c->config.detection_us / 4 :
			HD_KEEPALIVE_US,
		.ops = &endpoint_ops,
		.owner = c,
	};

	/* One stream of entropy: the endpoint's seed first, then tokens. */
	hd_entropy_init(&c->entropy, c->config.seed);
	hd_entropy_bytes(&c->entropy, config.seed, sizeof config.seed);
	return hd_endpoint_create(&config, &c->endpoint);
}

/* Lets the kernel map the pages now. Tokens are random, so each of the first few hundred requests met four page faults:
 * 10 of the 50 us that the controller took for a request after silence. */
static void touch(void *memory, size_t bytes) {
	volatile uint8_t *at = memory;

	for (size_t i = 0; i < bytes; i += 4096)
		at[i] = 0;
}

int hd_controller_create(
	const struct hd_controller_config *config,
	struct hd_controller **controller
) {
	struct hd_controller *c;
	int status = config_check(config);

	if (status)
		return status;
	assert(ctl_routes_are_valid());
	c = calloc(1, sizeof *c);
	if (!c)
		return -ENOMEM;
	c->config = *config;
	config_defaults(&c->config);
	(void)snprintf(c->name, sizeof c->name, "%s", config->name);
	c->config.name = c->name;
	c->plan_at = c->check_at = c->probe_at = c->kept.due = HD_NEVER;
	c->dataplane.poll_at = HD_NEVER;
	c->probe_load = CTL_PROBE_LOAD;
	c->credit_bytes = config->credit_bytes ? config->credit_bytes : HD_CREDIT_BYTES;
	if (config->no_credits)
		c->credit_bytes = 0;
	c->inline_bytes = config->no_inline ? 0 : HD_INLINE_BYTES;
	TAILQ_INIT(&c->nodes);
	TAILQ_INIT(&c->pending);
	TAILQ_INIT(&c->open);
	TAILQ_INIT(&c->groups);
	TAILQ_INIT(&c->leases);
	TAILQ_INIT(&c->slots_over);
	c->aggregation = c->switching = true;
	c->ranked_sums = config->ranked_sums;
	status = -ENOMEM;
	c->by_key = calloc(CTL_BUCKETS, sizeof *c->by_key);
	c->by_token = calloc(CTL_BUCKETS, sizeof *c->by_token);
	if (!c->by_key || !c->by_token || ctl_scratch_links(c))
		goto free_tables;
	touch(c->by_key, CTL_BUCKETS * sizeof *c->by_key);
	touch(c->by_token, CTL_BUCKETS * sizeof *c->by_token);
	status = hd_view_create(c->config.initial_bps, &c->view);
	if (status)
		goto free_tables;
	status = hd_plan_create(&c->plan);
	if (status)
		goto destroy_view;
	status = endpoint_create(c);
	if (status)
		goto destroy_plan;
	*controller = c;
	return 0;
destroy_plan:
	hd_plan_destroy(c->plan);
destroy_view:
	hd_view_destroy(c->view);
free_tables:
	ctl_scratch_fini(&c->scratch);
	free(c->link_use);
	free(c->link_copies);
	free(c->by_key);
	free(c->by_token);
	free(c);
	return status;
}

void hd_controller_destroy(struct hd_controller *c) {
	struct ctl_node *node, *next;

	if (!c)
		return;
	hd_endpoint_destroy(c->endpoint);
	ctl_registry_fini(c);
	for (node = TAILQ_FIRST(&c->nodes); node; node = next) {
		next = TAILQ_NEXT(node, entry);
		ctl_dataplane_forget(node);
		free(node);
	}
	hd_plan_destroy(c->plan);
	hd_view_destroy(c->view);
	hd_topology_destroy(c->config.topology);
	ctl_scratch_fini(&c->scratch);
	ctl_grouping_fini(&c->grouping);
	free(c->link_use);
	free(c->link_copies);
	free(c->by_key);
	free(c->by_token);
	free(c);
}

static void close_doomed(struct hd_controller *c, struct hd_sink *sink) {
	struct ctl_node *node, *next;

	for (node = TAILQ_FIRST(&c->nodes); node && c->doomed_count; node = next) {
		next = TAILQ_NEXT(node, entry);
		if (!node->doomed)
			continue;
		hd_session_set_user(node->session, NULL);
		hd_session_close(
			node->session,
			HD_REASON_NO_MEMORY,
			"HD_MESSAGES_UNACKED_MAX messages wait for an acknowledgement",
			c->now,
			sink
		);
		ctl_node_down(c, node, HD_REASON_TIMEOUT, sink);
		node_free(c, node);
	}
}

/* The end of every call: closes overflowed sessions, checks slow timers, plans when a pass is due. */
static void settle(struct hd_controller *c, struct hd_sink *sink) {
	/* Other nodes are notified of a lost node; that may overflow their queues in turn. */
	while (c->doomed_count)
		close_doomed(c, sink);
	ctl_groups_settle(c, sink);
	if (c->now >= c->check_at) {
		c->check_at = HD_NEVER;
		ctl_void_stuck(c, sink);
		ctl_check_by(c, ctl_notice_check(c, sink));
		ctl_check_by(c, ctl_registry_check(c, sink));
		ctl_check_by(c, ctl_elastic_check(c, sink));
		ctl_check_by(c, ctl_roster_check(c, sink));
		ctl_check_by(c, ctl_lease_check(c, sink));
		ctl_check_by(c, ctl_slots_check(c, sink));
		ctl_reduce_check(c, sink);
		if (c->open_count)
			ctl_check_by(c, c->now + CTL_CHECK_NS);
	}
	if (c->now >= c->probe_at)
		ctl_probe(c, sink);
	if (c->now >= c->plan_at)
		ctl_pass(c, sink);
	if (c->now >= c->dataplane.poll_at)
		ctl_dataplane_poll(c, sink);
	while (c->doomed_count)
		close_doomed(c, sink);
	ctl_groups_settle(c, sink);
	ctl_keep(c);
}

static void set_now(struct hd_controller *c, hd_ns now) {
	if (!c->clock_seen) {
		c->clock_seen = true;
		c->started = now;
	}
	c->now = hd_ns_max(c->now, now);
}

static void controller_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	struct hd_controller *c = core;

	set_now(c, now);
	for (size_t i = 0; i < count; i++)
		hd_endpoint_receive(c->endpoint, c->now, &packets[i], sink);
	settle(c, sink);
}

static void controller_tick(void *core, hd_ns now, struct hd_sink *sink) {
	struct hd_controller *c = core;

	set_now(c, now);
	hd_endpoint_tick(c->endpoint, c->now, sink);
	settle(c, sink);
}

static hd_ns controller_deadline(const void *core) {
	const struct hd_controller *c = core;
	hd_ns at = hd_ns_min(hd_ns_min(c->plan_at, c->check_at), c->probe_at);

	return hd_ns_min(hd_ns_min(at, c->dataplane.poll_at), hd_endpoint_deadline(c->endpoint));
}

const struct hd_core_ops hd_controller_ops = {
	.receive = controller_receive,
	.tick = controller_tick,
	.deadline = controller_deadline,
};

/* --- for invariant checkers --- */
