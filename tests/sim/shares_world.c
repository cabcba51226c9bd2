/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_topology.h"
#include "shares_world.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void start_controller(struct shares_world *w) {
	static const char text[]
		= "{\"hosts\":[\"ctl\",\"ps\",\"h1\",\"h2\",\"h3\",\"h4\"],\"switches\":[\"s1\"],"
		  "\"links\":[[\"ctl\",\"s1\"],[\"ps\",\"s1\"],[\"h1\",\"s1\"],[\"h2\",\"s1\"],"
		  "[\"h3\",\"s1\"],[\"h4\",\"s1\"]]}";
	static const struct hd_controller_ops controller_ops;
	struct allreduce_world *base = &w->base;
	struct hd_controller_config config = {
		.name = "controller",
		.keys = allreduce_keys,
		.key_id = 1,
		.epoch = 1,
		.initial_bps = w->config.believed * shares_line(w, HD_SECOND) * 8,
		.no_credits = true,
		.ops = &controller_ops,
		.owner = w,
	};
	char error[128];

	assert_int_equal(hd_topology_parse(text, &config.topology, error, sizeof error), 0);
	allreduce_seed(base, config.seed);
	assert_int_equal(hd_controller_create(&config, &base->controller), 0);
	hd_sim_node_start(
		base->sim,
		base->controller_node,
		(struct hd_node){&hd_controller_ops, base->controller}
	);
}

static uint32_t wide_of(const struct shares_world *w) {
	return w->config.wide > 0 ? w->config.wide : 1;
}

void shares_open(struct shares_world *w, const struct shares_config *config) {
	struct hd_sim_link link
		= {.rate_bps = config->rate_bps, .queue_bytes = 1 << 17, .latency = 20000};
	struct hd_sim_node_config node = {.event = config->event, .owner = config->owner};
	struct allreduce_world *base = &w->base;

	w->config = *config;
	assert_true(config->hosts <= SHARES_HOSTS);
	hd_random_init(&base->random, 7);
	assert_int_equal(hd_sim_create(7, &base->sim), 0);
	node.host = hd_sim_host(
		base->sim, &(struct hd_sim_link){.latency = 50000 + config->start * HD_US}
	);
	base->controller_node = hd_sim_node(base->sim, &node);
	w->server_host = hd_sim_host(base->sim, &link);
	link.rate_bps *= wide_of(w);
	for (uint32_t i = 0; i < config->hosts; i++)
		w->hosts[i] = hd_sim_host(base->sim, &link);
	allreduce_switch_build(base);
	if (config->heard)
		base->switch_on_path.path.unheard = 0;
	base->switch_on_path.narrow = false;
	base->switch_on_path.slots = HD_SWITCH_SLOTS;
	start_controller(w);
	allreduce_switch_start(&base->switch_on_path);
	for (uint32_t job = 0; job < SHARES_JOBS; job++) {
		struct hd_jobspec *spec = &w->specs[job];

		(void)snprintf(spec->tenant, sizeof spec->tenant, "t%u", job);
		(void)snprintf(spec->name, sizeof spec->name, "j%u", job);
		spec->tau_max = 1;
		spec->learning_rate = 0.1F;
	}
}

void shares_close(struct shares_world *w) {
	assert_string_equal(w->base.failure, "");
	assert_null(hd_sim_failure(w->base.sim));
	for (uint32_t job = 0; job < SHARES_JOBS; job++)
		for (uint32_t host = 0; host < w->config.hosts; host++) {
			hd_sim_node_stop(w->base.sim, w->members[job][host].node);
			hd_worker_destroy(w->members[job][host].core);
		}
	allreduce_switch_stop(&w->base.switch_on_path);
	hd_sim_node_stop(w->base.sim, w->base.controller_node);
	hd_controller_destroy(w->base.controller);
	hd_sim_destroy(w->base.sim);
}

void shares_set_rate(struct shares_world *w, uint64_t rate_bps) {
	w->config.rate_bps = rate_bps;
	for (uint32_t i = 0; i <= w->config.hosts; i++) {
		const bool server = i == w->config.hosts;
		const int host = server ? w->server_host : w->hosts[i];
		const uint64_t rate = server ? rate_bps : rate_bps * wide_of(w);

		hd_sim_set_rate(w->base.sim, host, HD_SIM_UP, rate);
		hd_sim_set_rate(w->base.sim, host, HD_SIM_DOWN, rate);
	}
}

const struct shares_member *shares_worker(
	struct shares_world *w,
	uint32_t job,
	uint32_t host,
	const struct hd_worker_ops *ops,
	void *owner
) {
	const struct hd_sim_node_config node
		= {.host = w->hosts[host], .event = w->config.event, .owner = w->config.owner};
	struct shares_member *member = &w->members[job][host];
	struct allreduce_world *base = &w->base;
	char name[16], where[16];
	struct hd_worker_config config = {
		.name = name,
		.host = where,
		.rank = (uint16_t)host,
		.keys = allreduce_keys,
		.key_id = 1,
		.controller = hd_sim_node_address(base->sim, base->controller_node),
		.spec = &w->specs[job],
		.world = (uint16_t)w->config.hosts,
		.job_weight = w->config.weights[job],
		.ops = ops,
		.owner = owner,
	};

	(void)snprintf(name, sizeof name, "w%u", host);
	(void)snprintf(where, sizeof where, "h%u", host + 1);
	member->node = hd_sim_node(base->sim, &node);
	assert_true(member->node >= 0);
	config.data = hd_sim_node_address(base->sim, member->node);
	allreduce_seed(base, config.seed);
	assert_int_equal(hd_worker_create(&config, &member->core), 0);
	hd_sim_node_start(base->sim, member->node, (struct hd_node){&hd_worker_ops, member->core});
	return member;
}

double shares_line(const struct shares_world *w, hd_ns span) {
	return (double)w->config.rate_bps / 8 * SHARES_CHUNK_BYTES / SHARES_FRAME_BYTES
		* (double)span / 1e9;
}

void shares_expect(
	const struct shares_world *w,
	const double bytes[SHARES_JOBS],
	hd_ns span,
	double most_off,
	double least
) {
	const float *weights = w->config.weights;
	const double sum = bytes[0] + bytes[1], weight = (double)weights[0] + (double)weights[1];

	print_message(
		"%llu Mbit/s, weights %g:%g: shares %.1f:%.1f %%, both %.3f of the links\n",
		(unsigned long long)(w->config.rate_bps / 1000000),
		(double)weights[0],
		(double)weights[1],
		100 * bytes[0] / sum,
		100 * bytes[1] / sum,
		sum / shares_line(w, span)
	);
	assert_true(sum >= least * shares_line(w, span));
	for (uint32_t job = 0; job < SHARES_JOBS; job++)
		assert_true(
			fabs(bytes[job] / sum / ((double)weights[job] / weight) - 1) <= most_off
		);
}
