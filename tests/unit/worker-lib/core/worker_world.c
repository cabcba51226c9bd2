/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker_world.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void on_joined(void *owner, hd_version version, uint32_t tau_max) {
	struct world *world = owner;

	assert_int_equal(tau_max, 7);
	world->joined++;
}

static void on_refused(void *owner, enum hd_reason reason, const char *text) {
	struct world *world = owner;

	world->refused++;
	strncpy(world->text, text, sizeof world->text - 1);
}

static void on_trouble(void *owner, enum hd_reason reason, const char *text) {
	struct world *world = owner;

	world->trouble++;
	(void)snprintf(world->worry, sizeof world->worry, "%s", text);
}

static void on_ticket(void *owner, const struct hd_ticket *ticket) {
	struct world *world = owner;

	world->ticket[ticket->direction][ticket->round % 64] = *ticket;
}

static void on_released(void *owner, uint32_t round, void *user) {
	struct world *world = owner;

	world->released++;
}

static void on_members(void *owner, const struct hd_roster *roster) {
	struct world *world = owner;

	world->rosters++;
}

static void on_stepped(void *owner, hd_version version) {
	struct world *world = owner;

	world->steps++;
	world->newest = version;
}

static const struct hd_worker_ops ops = {
	.stepped = on_stepped,
	.joined = on_joined,
	.refused = on_refused,
	.trouble = on_trouble,
	.ticket = on_ticket,
	.released = on_released,
	.members = on_members,
};

static void on_event(void *owner, int node, const struct hd_event *event) {
	struct world *world = owner;
	uint64_t word = event->at ^ event->token << 7 ^ (uint64_t)event->kind << 56 ^ event->bytes;

	if (world->events < LOG_MAX)
		world->log[world->events] = event->kind;
	world->events++;
	world->trace = (world->trace ^ word) * UINT64_C(0x100000001b3);
	if (event->kind == HD_EVENT_OUTCOME)
		world->ends[event->direction][event->round % 64]++;
}

bool logged(const struct world *world, enum hd_event_kind kind) {
	for (unsigned i = 0; i < world->events && i < LOG_MAX; i++)
		if (world->log[i] == kind)
			return true;
	return false;
}

struct world *build(enum mode mode, const struct hd_worker_config *more) {
	struct world *world = calloc(1, sizeof *world);
	struct hd_sim_link link = {.rate_bps = 100000000, .queue_bytes = 1 << 18, .latency = 50000};
	struct hd_sim_node_config node = {.event = on_event, .owner = world};
	struct hd_worker_config config = *more;

	assert_int_equal(hd_sim_create(3, &world->sim), 0);
	peer_init(&world->server, world->sim, HD_ROLE_SERVER, VALUES);
	peer_init(&world->controller, world->sim, HD_ROLE_CONTROLLER, VALUES);
	world->controller.server = &world->server;
	world->controller.server_addr = hd_sim_node_address(world->sim, world->server.node);
	node.host = hd_sim_host(world->sim, &link);
	node.clock.offset_ns = 5 * HD_SECOND;
	world->node = hd_sim_node(world->sim, &node);
	strncpy(world->spec.tenant, "t", 2);
	strncpy(world->spec.name, "job", 4);
	world->tensor
		= (struct hd_tensor){.name = "w", .dimension_count = 1, .dimension = {VALUES}};
	world->spec.tau_max = 7;
	world->spec.learning_rate = 0.1f;
	world->spec.sync = more->spec ? more->spec->sync : HD_SYNC_NONE;
	world->spec.sync_count = more->spec ? more->spec->sync_count : 0;
	world->spec.unsealed = more->spec && more->spec->unsealed;
	world->spec.tensor_count = mode != REDUCES;
	world->spec.tensors = &world->tensor;
	config.name = "w3";
	config.host = "h4";
	config.rank = 3;
	config.keys = peer_keys();
	config.key_id = 1;
	config.seed[5] = 9;
	config.spec = &world->spec;
	config.ops = &ops;
	config.owner = world;
	if (mode == REDUCES)
		world->controller.server_addr = (struct hd_addr){0};
	if (mode != DIRECT)
		config.controller = hd_sim_node_address(world->sim, world->controller.node);
	else
		config.server = world->controller.server_addr;
	assert_int_equal(hd_worker_create(&config, &world->worker), 0);
	for (int k = 0; k < 4; k++)
		for (int i = 0; i < VALUES; i++)
			world->data[k][i] = (float)(k + 1) + (float)i * 0x1p-12f;
	peer_start(&world->server);
	if (mode != DIRECT)
		peer_start(&world->controller);
	hd_sim_node_start(world->sim, world->node, (struct hd_node){&hd_worker_ops, world->worker});
	return world;
}

void destroy(struct world *world) {
	assert_null(hd_sim_failure(world->sim));
	if (hd_sim_node_runs(world->sim, world->node))
		hd_sim_node_stop(world->sim, world->node);
	hd_worker_destroy(world->worker);
	peer_fini(&world->server);
	peer_fini(&world->controller);
	hd_sim_destroy(world->sim);
	free(world);
}

void run_ms(struct world *world, unsigned ms) {
	hd_sim_run(world->sim, hd_sim_now(world->sim) + ms * HD_MS);
}

int push(struct world *world, int which, hd_version base) {
	struct hd_push_args args = {
		.data = world->data[which], .values = VALUES, .base = base, .dtype = world->dtype};
	uint32_t round = 0;
	int rc = hd_worker_push(
		world->worker,
		hd_sim_node_now(world->sim, world->node),
		&args,
		hd_sim_node_sink(world->sim, world->node),
		&round
	);

	hd_sim_node_poke(world->sim, world->node);
	return rc < 0 ? rc : (int)round;
}

int pull(struct world *world, int which, hd_version have, bool conditional) {
	struct hd_pull_args args = {
		.data = world->data[which],
		.values = VALUES,
		.have = have,
		.conditional = conditional,
	};
	uint32_t round = 0;
	int rc = hd_worker_pull(
		world->worker,
		hd_sim_node_now(world->sim, world->node),
		&args,
		hd_sim_node_sink(world->sim, world->node),
		&round
	);

	hd_sim_node_poke(world->sim, world->node);
	return rc < 0 ? rc : (int)round;
}

int cancel(struct world *world, uint8_t direction, uint32_t round) {
	int rc = hd_worker_cancel(
		world->worker,
		hd_sim_node_now(world->sim, world->node),
		direction,
		round,
		hd_sim_node_sink(world->sim, world->node)
	);

	hd_sim_node_poke(world->sim, world->node);
	return rc;
}

void check_sums(const struct world *world, unsigned pending) {
	const struct hd_worker_stats *stats = hd_worker_stats(world->worker);

	assert_int_equal(stats->pushed, stats->applied + stats->dropped + stats->failed + pending);
}
