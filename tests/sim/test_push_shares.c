/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two jobs whose pushes are added by one switch on the path to one server. Each job gets its share by weight of the
 * capacity of the server's link, where workers' links are as wide or wider, and also where links carry a tenth or ten
 * times of the controller's estimate. Applied updates are checked as everywhere (hd_check.h), each job for itself. No
 * link is promised beyond its known capacity.
 *
 * Every share is attainable: one job's sums alone fill the server's link with the updates that its workers may have in
 * flight, so at any weight the job has an update to send when it is its turn.
 */
#include "hd_check.h"
#include "hd_message.h"
#include "hd_out.h"
#include "hd_server.h"
#include "hd_stats.h"
#include "shares_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOSTS 4
#define RATE 100000000 /* of the server's link */
#define VALUES 65536
#define DEPTH 2 /* pushes that a worker has in flight */
#define WEIGHTS_MAX 3 /* of the first job: 1 .. */
#define TAU_MAX 128
#define SLICE (HD_MS / 2)
#define LEARN (12 * HD_SECOND)
#define MEASURE (16 * HD_SECOND)
#define SETTLE (10 * HD_SECOND)
#define LEASED_WITHIN 1000 /* slices */
#define FULL 0.85 /* of what the server's link carries, in whole updates and sums, at least */
#define IN_SUMS 0.75 /* of the updates at least */
#define STARTS 3 /* of a row whose links carry more than is believed, at most; of these */
#define STARTS_IN_SUMS 2 /* runs that must have found out in time that sums pay */
#define RESERVED_SLACK 1.000001 /* of rounding in sums of rates */

struct row {
	double believed; /* of what the server's carries */
	uint32_t wide; /* each worker's link is this many times as wide as the server's */
	float first; /* the weight of the first job; the other's is 1 */
};

struct buffer {
	bool used;
	float data[VALUES];
};

struct actor {
	struct world *world;
	uint32_t job;
	const struct shares_member *member;
	bool joined;
	struct buffer buffers[DEPTH];
};

struct world {
	struct shares_world base;
	struct hd_tensor tensors[SHARES_JOBS];
	uint32_t ids[SHARES_JOBS];
	struct hd_check *checks[SHARES_JOBS];
	struct actor actors[SHARES_JOBS][HOSTS];
	struct hd_server *server;
	int server_node;
	uint64_t salt;
	hd_version newest[SHARES_JOBS]; /* models, as if pulled at no cost */
	bool planned;
	uint64_t passed[SHARES_JOBS]; /* updates and sums that came to the server */
	uint64_t applied, in_sums;
	bool in_sum;
};

/* --- what is watched -------------------------------------------------------------------------- */

static void on_event(void *owner, int node, const struct hd_event *given) {
	struct world *w = owner;
	struct hd_event event = *given;

	event.at = hd_sim_now(w->base.base.sim);
	w->planned |= event.kind == HD_EVENT_PLAN;
	for (uint32_t job = 0; job < SHARES_JOBS; job++) {
		if (event.job != w->ids[job])
			continue;
		hd_check_event(w->checks[job], &event);
		if (event.kind != HD_EVENT_COMMITTED || node != w->server_node)
			continue;
		w->applied++;
		w->in_sums += w->in_sum || event.more > 0;
		w->in_sum = event.more > 0;
		if (event.more > 0)
			continue;
		w->passed[job]++;
		w->newest[job] = event.version;
	}
}

static void check_reservations(struct world *w) {
	const struct hd_controller *controller = w->base.base.controller;
	const hd_ns now = hd_sim_node_now(w->base.base.sim, w->base.base.controller_node);

	for (uint32_t link = 1; link < hd_controller_link_count(controller); link++)
		assert_true(
			hd_controller_reserved_bps(controller, link, now)
			<= hd_controller_planned_bps(controller, link) * RESERVED_SLACK
		);
}

static void inspect(struct world *w) {
	if (w->planned)
		check_reservations(w);
	w->planned = false;
	for (uint32_t job = 0; job < SHARES_JOBS; job++) {
		const float *model;
		uint64_t values;
		hd_version version;

		if (!hd_check_dirty(w->checks[job]))
			continue;
		model = hd_server_model(w->server, w->ids[job], &values);
		version = hd_server_version(w->server, w->ids[job]);
		if (model
		    || !version) /* else the next update is half applied: looked at after it */
			hd_check_model(w->checks[job], model, version);
	}
}

/* --- workers ---------------------------------------------------------------------------------- */

static void on_joined(void *owner, hd_version version, uint32_t tau_max) {
	struct actor *actor = owner;
	hd_version *newest = &actor->world->newest[actor->job];

	(void)tau_max;
	*newest = version > *newest ? version : *newest;
	actor->joined = true;
}

static void on_released(void *owner, uint32_t round, void *user) {
	struct buffer *buffer = user;

	(void)owner;
	(void)round;
	buffer->used = false;
}

static const struct hd_worker_ops ops = {.joined = on_joined, .released = on_released};

static void push(struct actor *actor, struct buffer *buffer) {
	struct world *w = actor->world;
	struct hd_sim *sim = w->base.base.sim;
	const int node = actor->member->node;
	struct hd_check_pushed pushed = {
		.worker = (uint32_t)(actor - w->actors[actor->job]),
		.process = 1,
		.salt = ++w->salt,
		.base = w->newest[actor->job],
		.dtype = HD_DTYPE_FIXED32,
		.bytes = VALUES * sizeof(float),
	};
	const struct hd_push_args args = {
		.data = buffer->data,
		.values = VALUES,
		.base = w->newest[actor->job],
		.dtype = HD_DTYPE_FIXED32,
		.user = buffer,
	};

	hd_check_fill(pushed.salt, buffer->data, VALUES);
	if (hd_worker_push(
		    actor->member->core,
		    hd_sim_node_now(sim, node),
		    &args,
		    hd_sim_node_sink(sim, node),
		    &pushed.round
	    )
	    < 0)
		return;
	buffer->used = true;
	hd_check_push(w->checks[actor->job], &pushed);
	hd_sim_node_poke(sim, node);
}

/* All push as often as they can. */
static void run(struct world *w, hd_ns span, bool pushing) {
	struct hd_sim *sim = w->base.base.sim;
	const hd_ns until = hd_sim_now(sim) + span;

	while (hd_sim_now(sim) < until) {
		const hd_ns next = hd_sim_now(sim) + SLICE;

		for (uint32_t i = 0; pushing && i < SHARES_JOBS * HOSTS * DEPTH; i++) {
			struct actor *actor = &w->actors[i % SHARES_JOBS][i / SHARES_JOBS % HOSTS];

			if (actor->joined && !actor->buffers[i / SHARES_JOBS / HOSTS].used)
				push(actor, &actor->buffers[i / SHARES_JOBS / HOSTS]);
		}
		while (hd_sim_advance(sim, next))
			inspect(w);
		for (uint32_t job = 0; job < SHARES_JOBS; job++)
			if (hd_check_failure(w->checks[job]))
				fail_msg("job %u: %s", job, hd_check_failure(w->checks[job]));
	}
}

/* --- what is counted -------------------------------------------------------------------------- */

static uint64_t
counted(const struct hd_stats *stats, const char *group, const char *label, const char *name) {
	uint64_t sum = 0;

	for (size_t i = 0; i < hd_stats_count(stats); i++) {
		const struct hd_stats_row row = hd_stats_row(stats, i);

		if (strcmp(row.group->name, group) != 0
		    || (label && strcmp(row.label[0], label) != 0))
			continue;
		for (uint16_t k = 0; k < row.group->count; k++)
			if (strcmp(row.group->stats[k].name, name) == 0)
				sum += row.value[k].u64;
	}
	return sum;
}

/* Leases by job and kind come to what the controller and the switch have in all. */
static void check_stats(const struct world *w, bool settled) {
	const struct hd_switch_agent_stats *agent
		= hd_switch_agent_stats(w->base.base.switch_on_path.path.agent);
	struct hd_stats *stats = hd_stats_create();
	struct hd_out out = {0};

	assert_non_null(stats);
	hd_controller_stats(w->base.base.controller, stats);
	assert_int_equal(
		counted(stats, "lease", NULL, "slots"),
		counted(stats, "fabric", NULL, "slots_leased")
	);
	assert_int_equal(
		counted(stats, "lease", NULL, "begun"), counted(stats, "controller", NULL, "leases")
	);
	assert_true(counted(stats, "lease", "t0", "begun") > 0);
	assert_true(counted(stats, "lease", "t1", "begun") > 0);
	assert_true((counted(stats, "lease", NULL, "held") == 0) == settled);
	assert_int_equal(agent->leases_pushes, agent->leases_now);
	assert_int_equal(agent->slots_pushes, agent->slots_now);
	assert_true((agent->leases_pushes == 0) == settled);
	hd_stats_openmetrics(stats, &out);
	assert_non_null(
		strstr(hd_out_string(&out),
		       "heddle_lease_begun_total{tenant=\"t1\",job=\"j1\",kind=\"push\"}")
	);
	hd_out_fini(&out);
	hd_stats_destroy(stats);
}

/* --- the world -------------------------------------------------------------------------------- */

static void start_server(struct world *w) {
	struct allreduce_world *base = &w->base.base;
	struct hd_sim_node_config node
		= {.host = w->base.server_host, .event = on_event, .owner = w};
	struct hd_server_config config = {
		.name = "server",
		.host = "ps",
		.keys = allreduce_keys,
		.key_id = 1,
		.controller = hd_sim_node_address(base->sim, base->controller_node),
	};

	w->server_node = hd_sim_node(base->sim, &node);
	assert_true(w->server_node >= 0);
	config.data = hd_sim_node_address(base->sim, w->server_node);
	allreduce_seed(base, config.seed);
	assert_int_equal(hd_server_create(&config, &w->server), 0);
	hd_sim_node_start(base->sim, w->server_node, (struct hd_node){&hd_server_ops, w->server});
}

static void describe(struct world *w, uint32_t job) {
	struct hd_jobspec *spec = &w->base.specs[job];

	w->tensors[job] = (struct hd_tensor){
		.name = "model",
		.dtype = HD_DTYPE_FP32,
		.dimension_count = 1,
		.dimension = {VALUES},
	};
	spec->tensor_count = 1;
	spec->tensors = &w->tensors[job];
	spec->learning_rate = 1; /* the model is minus the sum of the updates */
	spec->staleness_c = 1;
	spec->tau_max = TAU_MAX;
	w->ids[job] = hd_job_id(spec->tenant, spec->name);
	assert_int_equal(hd_check_create(VALUES, TAU_MAX, &w->checks[job]), 0);
	hd_check_ranks(w->checks[job], HOSTS);
}

static struct world *world_open(const struct row *row, uint32_t start) {
	struct world *w = calloc(1, sizeof *w);

	assert_non_null(w);
	shares_open(
		&w->base,
		&(struct shares_config){
			.hosts = HOSTS,
			.rate_bps = RATE,
			.wide = row->wide,
			.believed = row->believed,
			.start = start,
			.weights = {row->first, 1},
			.heard = true, /* leases are short: each would be a question */
			.event = on_event,
			.owner = w,
		}
	);
	start_server(w);
	for (uint32_t job = 0; job < SHARES_JOBS; job++) {
		describe(w, job);
		for (uint32_t host = 0; host < HOSTS; host++) {
			struct actor *actor = &w->actors[job][host];

			actor->world = w;
			actor->job = job;
			actor->member = shares_worker(&w->base, job, host, &ops, actor);
		}
	}
	return w;
}

/* Transfers in flight end; then all states agree. */
static void world_close(struct world *w) {
	struct hd_sim *sim = w->base.base.sim;
	const hd_ns until = hd_sim_now(sim) + SETTLE;

	while ((hd_check_pending(w->checks[0]) || hd_check_pending(w->checks[1]))
	       && hd_sim_now(sim) < until)
		run(w, HD_SECOND / 10, false);
	run(w, HD_SECOND / 10, false); /* slots are given back */
	check_stats(w, true);
	for (uint32_t job = 0; job < SHARES_JOBS; job++) {
		hd_check_settled(w->checks[job]);
		assert_null(hd_check_failure(w->checks[job]));
		assert_int_equal(hd_check_stats(w->checks[job])->failed, 0);
	}
	hd_sim_node_stop(sim, w->server_node);
	hd_server_destroy(w->server);
	shares_close(&w->base);
	for (uint32_t job = 0; job < SHARES_JOBS; job++)
		hd_check_destroy(w->checks[job]);
	free(w);
}

/* --- shares ----------------------------------------------------------------------------------- */

/* Returns whether most updates were in sums. */
static bool expect_shares(struct world *w) {
	const struct hd_sim_link_stats *link
		= hd_sim_link_stats(w->base.base.sim, w->base.server_host, HD_SIM_DOWN);
	uint64_t before[SHARES_JOBS], frames, applied, in_sums;
	double bytes[SHARES_JOBS];

	run(w, LEARN, true);
	memcpy(before, w->passed, sizeof before);
	frames = link->bytes;
	applied = w->applied;
	in_sums = w->in_sums;
	run(w, MEASURE, true);
	applied = w->applied - applied;
	in_sums = w->in_sums - in_sums;
	for (uint32_t job = 0; job < SHARES_JOBS; job++)
		bytes[job] = (double)(w->passed[job] - before[job]) * VALUES * sizeof(float);
	print_message(
		"%llu updates, %llu of them in sums; the server's link was full for %.3f of the time\n",
		(unsigned long long)applied,
		(unsigned long long)in_sums,
		(double)(link->bytes - frames) * 8e9 / (double)w->base.config.rate_bps
			/ (double)MEASURE
	);
	shares_expect(&w->base, bytes, MEASURE, SHARES_OFF, FULL);
	return (double)in_sums >= IN_SUMS * (double)applied;
}

/* At times all transfers in flight go alone, without a group. */
static void run_until_leased(struct world *w) {
	const struct hd_switch_agent_stats *agent
		= hd_switch_agent_stats(w->base.base.switch_on_path.path.agent);
	bool leased = false;

	for (uint32_t i = 0; i < LEASED_WITHIN && !leased; i++) {
		struct hd_stats *stats = hd_stats_create();

		assert_non_null(stats);
		run(w, SLICE, true);
		hd_controller_stats(w->base.base.controller, stats);
		leased = agent->leases_now > 0 && counted(stats, "lease", NULL, "held") > 0;
		hd_stats_destroy(stats);
	}
}

static bool play(const struct row *row, uint32_t start) {
	struct world *w = world_open(row, start);
	bool in_sums = expect_shares(w);

	run_until_leased(w);
	check_stats(w, false);
	world_close(w);
	return in_sums;
}

/* Workers that send alone fill the server's link, and tell little of their own: where these are believed to be narrow,
 * a start in ten or so takes longer than LEARN to find out. */
static void test_shares(void **state) {
	const struct row *row = *state;
	const uint32_t least = row->believed < 1 ? STARTS_IN_SUMS : 1;
	const uint32_t most = row->believed < 1 ? STARTS : 1;
	uint32_t in_sums = 0;

	for (uint32_t start = 0; start < most && in_sums < least; start++)
		in_sums += play(row, start);
	assert_int_equal(in_sums, least);
}

int main(void) {
	static const uint32_t widths[] = {1, 2, 4};
	static const double beliefs[] = {1, 10, 0.1};
	static struct row rows[3 * 3 * WEIGHTS_MAX];
	struct CMUnitTest tests[3 * 3 * WEIGHTS_MAX];
	char names[3 * 3 * WEIGHTS_MAX][80];

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct row *row = &rows[i];

		*row = (struct row){
			.wide = widths[i / 3 / WEIGHTS_MAX],
			.believed = beliefs[i / WEIGHTS_MAX % 3],
			.first = (float)(i % WEIGHTS_MAX + 1),
		};
		(void)snprintf(
			names[i],
			sizeof names[i],
			"%g:1, workers' links %u times as wide, believed %g times",
			(double)row->first,
			row->wide,
			row->believed
		);
		tests[i] = (struct CMUnitTest
		){.name = names[i], .test_func = test_shares, .initial_state = row};
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
