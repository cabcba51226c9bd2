/* SPDX-License-Identifier: BSD-3-Clause */
/* The switch on the path of an all-reduce. */
#include "allreduce_world.h"

#define UNHEARD 0.3 /* chance that a neighbour is not known yet */
#define ERROR_BYTES 128

void allreduce_switch_build(struct allreduce_world *w) {
	struct hd_sim_link link = {.rate_bps = 100000000, .queue_bytes = 1 << 17, .latency = 20000};
	struct allreduce_switch *s = &w->switch_on_path;
	struct hd_sim_node_config node = {.host = hd_sim_host(w->sim, &link)};

	s->world = w;
	s->host = node.host;
	s->path = (struct hd_sim_switch
	){.sim = w->sim,
	  .node = hd_sim_node(w->sim, &node),
	  .random = &w->random,
	  .unheard = UNHEARD};
	s->wanted = true;
	s->narrow = hd_random_chance(&w->random, 0.3) || w->plan.narrow;
	s->slots = (uint16_t
	)(hd_random_chance(&w->random, 0.3) ? 32 + hd_random_below(&w->random, 100) :
					      HD_SWITCH_SLOTS);
	hd_sim_switch_attach(&s->path);
}

void allreduce_switch_start(struct allreduce_switch *s) {
	struct allreduce_world *w = s->world;
	struct hd_sim_switch_setup setup = {
		.name = "switch",
		.host = "s1",
		.keys = allreduce_keys,
		.controller = hd_sim_node_address(w->sim, w->controller_node),
		.slots = s->slots,
		.narrow = s->narrow,
		.dtypes
		= (uint16_t)(1U << HD_DTYPE_FIXED32 | (s->narrow ? 0 : 1U << HD_DTYPE_FP32)),
	};
	char error[ERROR_BYTES] = "";
	struct hd_node node;

	setup.hash_key[0] = hd_random_u64(&w->random);
	setup.hash_key[1] = hd_random_u64(&w->random);
	allreduce_seed(w, setup.seed);
	if (hd_sim_switch_start(&s->path, &setup, &node, error, sizeof error) < 0) {
		allreduce_fail(w, "no switch: %s", error);
		return;
	}
	hd_sim_node_start(w->sim, s->path.node, node);
}

void allreduce_switch_stop(struct allreduce_switch *s) {
	if (!s->path.core)
		return;
	hd_sim_node_stop(s->world->sim, s->path.node);
	hd_sim_switch_end(&s->path);
}
