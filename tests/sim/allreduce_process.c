/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts and stops the processes of an all-reduce: workers, aggregators and the controller. */
#include "allreduce_world.h"
#include "ctl_core.h"
#include "hd_topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hd_key key = {.id = 1, .secret = {4, 5, 6}};
static const struct hd_keyring keys = {.count = 1, .keys = &key};
const struct hd_keyring *const allreduce_keys = &keys;

void allreduce_seed(struct allreduce_world *w, uint8_t seed[32]) {
	for (size_t i = 0; i < 4; i++) {
		uint64_t word = hd_random_u64(&w->random);

		memcpy(seed + 8 * i, &word, 8);
	}
}

static void keep(void *owner, char *text) {
	struct allreduce_world *w = owner;

	free(w->kept);
	w->kept = text;
}

static struct hd_topology *topology(struct allreduce_world *w) {
	char text[1024], error[128];
	struct hd_topology *made = NULL;
	size_t at = (size_t)snprintf(text, sizeof text, "{\"hosts\":[\"ctl\"");

	for (uint32_t i = 1; i <= w->plan.workers; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, ",\"h%u\"", i);
	for (uint32_t i = 1; i <= w->plan.aggregators; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, ",\"a%u\"", i);
	at += (size_t)snprintf(text + at, sizeof text - at, "],\"switches\":[\"s1\"],\"links\":[");
	at += (size_t)snprintf(text + at, sizeof text - at, "[\"ctl\",\"s1\"]");
	for (uint32_t i = 1; i <= w->plan.workers; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, ",[\"h%u\",\"s1\"]", i);
	for (uint32_t i = 1; i <= w->plan.aggregators; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, ",[\"a%u\",\"s1\"]", i);
	(void)snprintf(text + at, sizeof text - at, "]}");
	if (hd_topology_parse(text, &made, error, sizeof error) < 0)
		allreduce_fail(w, "topology: %s", error);
	return made;
}

static void start_controller(struct allreduce_world *w) {
	static const struct hd_controller_ops ops = {.keep = keep};
	struct hd_controller_config config = {
		.name = "controller",
		.keys = &keys,
		.key_id = 1,
		.epoch = ++w->epoch,
		.topology = topology(w),
		.initial_bps = 1e8,
		.no_inline = w->plan.no_inline,
		.ops = &ops,
		.owner = w,
	};
	char error[128];

	w->begun_at = hd_sim_now(w->sim);
	allreduce_seed(w, config.seed);
	if (!config.topology || hd_controller_create(&config, &w->controller) < 0
	    || (w->kept && hd_controller_restore(w->controller, w->kept, error, sizeof error) < 0
	    )) {
		allreduce_fail(w, "no controller");
		return;
	}
	hd_sim_node_start(
		w->sim, w->controller_node, (struct hd_node){&hd_controller_ops, w->controller}
	);
}

static void start_aggregator(struct allreduce_world *w, uint32_t k) {
	struct allreduce_node *node = &w->aggregators[k];
	char name[32], host[32];
	struct hd_aggregator_config config = {
		.name = name,
		.host = host,
		.keys = &keys,
		.key_id = 1,
		.controller = hd_sim_node_address(w->sim, w->controller_node),
		.data = hd_sim_node_address(w->sim, node->node),
		.memory_bytes = UINT64_C(1) << 26,
	};

	(void)snprintf(name, sizeof name, "aggregator%u", k);
	(void)snprintf(host, sizeof host, "%c%u", w->plan.shared ? 'h' : 'a', k + 1);
	if (w->plan.hosted) {
		config.job = hd_job_id(w->spec.tenant, w->spec.name);
		config.worker = (uint16_t)k;
	}
	allreduce_seed(w, config.seed);
	config.early_bytes = config.seed[0] % 4 == 0 ? 16384 : 0;
	if (hd_aggregator_create(&config, &node->core) < 0)
		allreduce_fail(w, "no aggregator");
	else
		hd_sim_node_start(
			w->sim, node->node, (struct hd_node){&hd_aggregator_ops, node->core}
		);
}

static void start_worker(struct allreduce_worker *worker) {
	struct allreduce_world *w = worker->world;
	char name[32], host[32];
	struct hd_worker_config config = {
		.name = name,
		.host = host,
		.rank = worker->rank,
		.keys = &keys,
		.key_id = 1,
		.controller = hd_sim_node_address(w->sim, w->controller_node),
		.data = hd_sim_node_address(w->sim, worker->node),
		.spec = &w->spec,
		.world = (uint16_t)w->plan.world,
		.ops = &allreduce_worker_ops,
		.owner = worker,
	};

	(void)snprintf(name, sizeof name, "w%u", worker->rank);
	(void)snprintf(host, sizeof host, "h%u", worker->rank + 1U);
	allreduce_seed(w, config.seed);
	allreduce_share(worker, &config);
	worker->leaving = worker->left = false;
	if (hd_worker_create(&config, &worker->core) < 0)
		allreduce_fail(w, "no worker");
	else
		hd_sim_node_start(
			w->sim, worker->node, (struct hd_node){&hd_worker_ops, worker->core}
		);
}

/* The state of a crashed process can no longer be inspected. */
void allreduce_crash_worker(struct allreduce_worker *worker) {
	struct allreduce_world *w = worker->world;

	hd_sim_node_stop(w->sim, worker->node);
	w->asked_again += hd_worker_stats(worker->core)->asked_again;
	w->in_slots += hd_worker_stats(worker->core)->in_slots;
	w->in_memory += hd_worker_stats(worker->core)->in_memory;
	worker->memory_of.killed = true;
	hd_worker_destroy(worker->core);
	worker->core = NULL;
	for (int k = 0; k < DEPTH_MAX; k++)
		worker->calls[k].used = false;
	if (w->sends)
		allreduce_sends_crash(worker);
	for (uint32_t r = 0; r < ROUNDS_MAX; r++)
		w->endings[r][worker->rank].members = 0;
}

static bool aggregator_wanted(const struct allreduce_world *w, uint32_t k) {
	return w->aggregators[k].wanted && (!w->plan.hosted || w->workers[k].wanted);
}

/* The aggregator of a worker that has left goes on until all its groups have ended, as in libheddle. */
static bool goes_on(struct allreduce_world *w, uint32_t k) {
	struct allreduce_node *node = &w->aggregators[k];

	if (!w->plan.hosted || !node->wanted || !w->workers[k].left)
		return false;
	hd_aggregator_retire(node->core);
	if (!hd_aggregator_is_idle(node->core))
		return true;
	hd_aggregator_drain(
		node->core,
		hd_sim_node_now(w->sim, node->node),
		hd_sim_node_sink(w->sim, node->node)
	);
	return false;
}

void allreduce_settle(struct allreduce_world *w) {
	bool runs = hd_sim_node_runs(w->sim, w->controller_node);

	if (w->controller_wanted && !runs) {
		start_controller(w);
	} else if (!w->controller_wanted && runs) {
		hd_sim_node_stop(w->sim, w->controller_node);
		w->inlined += w->controller->counters.reduces_inlined;
		hd_controller_destroy(w->controller);
		w->controller = NULL;
	}
	if (w->plan.with_switch && w->switch_on_path.wanted && !w->switch_on_path.path.core)
		allreduce_switch_start(&w->switch_on_path);
	else if (w->plan.with_switch && !w->switch_on_path.wanted && w->switch_on_path.path.core)
		allreduce_switch_stop(&w->switch_on_path);
	for (uint32_t k = 0; k < w->plan.aggregators; k++) {
		struct allreduce_node *node = &w->aggregators[k];

		if (aggregator_wanted(w, k) && !node->core) {
			start_aggregator(w, k);
		} else if (!aggregator_wanted(w, k) && node->core && !goes_on(w, k)) {
			hd_sim_node_stop(w->sim, node->node);
			hd_aggregator_destroy(node->core);
			node->core = NULL;
		}
	}
	for (uint32_t k = 0; k < w->plan.workers; k++)
		if (w->workers[k].wanted && !w->workers[k].core)
			start_worker(&w->workers[k]);
		else if (!w->workers[k].wanted && w->workers[k].core)
			allreduce_crash_worker(&w->workers[k]);
}
