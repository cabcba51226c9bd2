/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Targets that move while workers come, die, leave and the controller restarts. All nodes that receive a change receive
 * the same one (members, target, N, tau_max, scale), no node goes back to an older one, living workers never wait
 * longer for an outcome than the detection time and a round, and no synchronous step mixes scales (hd_check_step.c).
 */
#include "cluster_run.h"
#include "hd_controller.h"
#include "hd_message.h"
#include "hd_random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORKERS_MAX 8
#define DETECTION (HD_DETECTION_US * HD_US)
#define ROUND (400 * HD_MS)
#define CHANGES_MAX 512
#define NODES (WORKERS_MAX + 1) /* and the server */
#define SEEDS 24

struct watch {
	struct run run;
	struct hd_event change[CHANGES_MAX]; /* each number's, as it was heard first */
	uint32_t changes;
	uint64_t newest[NODES];
	hd_ns since[WORKERS_MAX], longest;
	uint32_t heard, targets, away, promotions;
	uint32_t scaled,
		scales; /* steps by something else than 1; changes of the scale between two of them */
	double scale;
	char wrong[128];
};

static uint32_t node_of(const char *node) {
	if (node[0] == 'w')
		return (uint32_t)strtoul(node + 1, NULL, 10);
	return strncmp(node, "server", 6) == 0 ? WORKERS_MAX : NODES;
}

static void same(struct watch *watch, const char *node, const struct hd_event *event) {
	const struct hd_event *first = NULL;

	for (uint32_t i = 0; i < watch->changes && !first; i++)
		if (watch->change[i].version == event->version)
			first = &watch->change[i];
	if (!first && watch->changes < CHANGES_MAX) {
		watch->change[watch->changes++] = *event;
		return;
	}
	if (!first || first->aux != event->aux || first->position != event->position
	    || first->round != event->round || first->bytes != event->bytes
	    || fabs(first->value - event->value) > 0)
		(void)snprintf(
			watch->wrong,
			sizeof watch->wrong,
			"%s heard something else of a change",
			node
		);
}

static void on_roster(struct watch *watch, const char *node, const struct hd_event *event) {
	uint32_t n = node_of(node);

	same(watch, node, event);
	watch->heard++;
	watch->targets += event->position > 0;
	if (n == NODES)
		return;
	if (event->version < watch->newest[n])
		(void)snprintf(watch->wrong, sizeof watch->wrong, "%s went back", node);
	watch->newest[n] = event->version;
}

static void on_event(void *owner, const char *node, const struct hd_event *event) {
	struct watch *watch = owner;
	uint32_t n = node_of(node);

	if (event->kind == HD_EVENT_ROSTER)
		on_roster(watch, node, event);
	if (event->kind == HD_EVENT_STEPPED) {
		watch->scaled += event->value < 1 || event->value > 1;
		watch->scales += fabs(event->value - watch->scale) > 0;
		watch->scale = event->value;
	}
	watch->promotions += event->kind == HD_EVENT_PROMOTED;
	watch->away += event->kind == HD_EVENT_NOTICE && strcmp(node, "controller") == 0;
	if (n >= WORKERS_MAX && event->kind == HD_EVENT_NODE_DOWN && event->aux == HD_ROLE_WORKER)
		watch->since[event->worker] = 0;
	if (n >= WORKERS_MAX)
		return;
	if (event->kind == HD_EVENT_PULLED) {
		if (!watch->since[n])
			watch->since[n] = event->at;
	}
	/* A new incarnation knows nothing yet. */
	if (event->kind == HD_EVENT_NODE_DOWN)
		return;
	/* In steps of N updates one that is always later than N others pushes nothing: it goes on with the next model. */
	if (event->kind == HD_EVENT_OUTCOME && event->aux != HD_OUTCOME_FAILED
	    && (event->direction == HD_PUSH || watch->run.scenario.job.sync == HD_SYNC_N)) {
		if (watch->since[n] && event->at - watch->since[n] > watch->longest)
			watch->longest = event->at - watch->since[n];
		watch->since[n] = event->at;
	}
}

static void target(struct hd_cluster *cluster, const char *words) {
	struct hd_controller *c = hd_cluster_controller(cluster);
	char text[512], error[256];

	if (!c)
		return;
	(void)snprintf(
		text,
		sizeof text,
		"{\"version\": 1, \"jobs\": [{\"tenant\": \"sim\", \"job\": \"job\", \"elastic\": "
		"{\"words\": \"%s\", \"target\": 0, \"reason\": \"\"}}]}",
		words
	);
	if (hd_controller_restore(c, text, error, sizeof error))
		fail_msg("%s", error);
}

static void event_at(struct watch *watch, double at_s, uint32_t worker, uint8_t what) {
	struct hd_scenario *scenario = &watch->run.scenario;

	scenario->events[scenario->event_count++] = (struct hd_scenario_event
	){.at_s = at_s, .worker = worker, .what = what, .notice_s = 0.5};
}

static void draw(struct watch *watch, uint64_t seed, bool restart) {
	struct hd_scenario *scenario = &watch->run.scenario;
	struct hd_random random;

	memset(watch, 0, sizeof *watch);
	prepare(&watch->run);
	hd_random_init(&random, seed);
	watch->run.config.event = on_event;
	watch->run.config.owner = watch;
	watch->run.config.seed = seed;
	scenario->workers = 5 + (uint32_t)hd_random_below(&random, WORKERS_MAX - 4);
	scenario->job.tau_max = 64;
	if (hd_random_chance(&random, 0.5)) {
		scenario->job.sync = HD_SYNC_N;
		scenario->job.sync_count = 4;
	}
	for (uint32_t i = 0; i < 4; i++)
		event_at(
			watch,
			0.6 + 3 * hd_random_unit(&random),
			(uint32_t)hd_random_below(&random, scenario->workers),
			(uint8_t)hd_random_below(&random, 4)
		);
	if (restart)
		scenario->crashes[scenario->crash_count++] = (struct hd_scenario_fault
		){.at_s = 1.6, .for_s = 0.2, .node = {.kind = HD_PLACE_CONTROLLER}};
}

/* All ways in which a step can come together, and be lost: every other seed's server dies, some with a replica. */
static void draw_steps(struct watch *watch, uint64_t seed) {
	struct hd_scenario *scenario = &watch->run.scenario;

	draw(watch, seed, seed % 5 == 4);
	scenario->job.sync = (uint8_t)(HD_SYNC_ALL + seed % 3);
	scenario->job.sync_count = scenario->job.sync == HD_SYNC_ALL ? 0 : 4;
	scenario->replica = seed % 4 < 2;
	scenario->sim.checkpoint_commits = 16;
	if (seed % 2 == 1)
		scenario->crashes[scenario->crash_count++] = (struct hd_scenario_fault
		){.at_s = 1.9, .for_s = 0.3, .node = {.kind = HD_PLACE_SERVER}};
	if (seed % 3 == 1) {
		scenario->aggregators = 1;
		scenario->aggregator_link_mbps = 1000;
		scenario->job.update_bytes = 400000;
	}
}

#define MOVES 3

static const hd_ns move_at[MOVES] = {500 * HD_MS, 1400 * HD_MS, 2400 * HD_MS};

static const char *const sizes[MOVES] = {
	"policy=manual n=6 n_max=8 sync=0.5 tau=4 scale=linear base=6 notice=0.5",
	"policy=manual n=3 sync=0.67 tau=4 scale=linear base=6 notice=0.5",
	"policy=manual n=5 sync=1 tau=2 scale=linear base=6 notice=0.5",
};

/* The scale is the job's, then an owner's who says his, and the job's again. */
static const char *const takeovers[MOVES] = {
	"policy=fixed n=6 sync=0.5",
	"policy=manual n=3 sync=0.67 scale=linear base=8 notice=0.5",
	"policy=manual n=5 sync=1 scale=none notice=0.5",
};

static void play(struct watch *watch, const char *const words[MOVES]) {
	char error[256];
	struct hd_cluster *cluster;

	watch->run.config.scenario = &watch->run.scenario;
	assert_int_equal(hd_cluster_create(&watch->run.config, &cluster, error, sizeof error), 0);
	for (size_t i = 0; i < MOVES; i++) {
		if (!hd_cluster_advance(cluster, move_at[i]))
			break;
		target(cluster, words[i]);
	}
	if (hd_cluster_run(cluster))
		fail_msg(
			"seed %llu: %s",
			(unsigned long long)watch->run.config.seed,
			hd_cluster_failure(cluster)
		);
	hd_cluster_destroy(cluster);
}

static void test_targets_move(void **state) {
	uint64_t count = run_seeds(SEEDS), first = run_first_seed();
	uint32_t targets = 0, away = 0, changes = 0;
	hd_ns longest = 0;

	for (uint64_t i = 0; i < count; i++) {
		struct watch watch;
		bool restart = i % 2 == 1;

		draw(&watch, first + i, restart);
		play(&watch, sizes);
		if (watch.wrong[0])
			fail_msg("seed %llu: %s", (unsigned long long)(first + i), watch.wrong);
		/* A controller that is away costs its own time besides. */
		if (!restart) {
			if (watch.longest > DETECTION + ROUND)
				fail_msg(
					"seed %llu: a worker was without an outcome for %.3f s",
					(unsigned long long)(first + i),
					(double)watch.longest * 1e-9
				);
			longest = hd_ns_max(longest, watch.longest);
		}
		targets += watch.targets;
		away += watch.away;
		changes += watch.changes;
	}
	print_message(
		"%u changes, %u words with a target, %u notices, longest wait %.3f s (detection %.3f s)\n",
		changes,
		targets,
		away,
		(double)longest * 1e-9,
		(double)DETECTION * 1e-9
	);
	assert_true(targets > count && away > count && changes > count);
}

static void one_scale(uint32_t base, const char *const words[MOVES]) {
	uint64_t count = run_seeds(SEEDS), first = run_first_seed();
	uint32_t scaled = 0, scales = 0, promotions = 0;

	for (uint64_t i = 0; i < count; i++) {
		struct watch watch;

		draw_steps(&watch, first + i);
		watch.run.config.scale_base = base;
		play(&watch, words);
		if (watch.wrong[0])
			fail_msg("seed %llu: %s", (unsigned long long)(first + i), watch.wrong);
		scaled += watch.scaled;
		scales += watch.scales;
		promotions += watch.promotions;
	}
	print_message(
		"%u steps of another scale than 1, %u changes between two, %u promotions\n",
		scaled,
		scales,
		promotions
	);
	assert_true(scaled > 10 * count && scales > count);
	assert_true(promotions > 0 || count < SEEDS);
}

static void test_one_scale(void **state) {
	(void)state;
	one_scale(0, sizes);
}

static void test_one_scale_without_owner(void **state) {
	(void)state;
	one_scale(4, takeovers);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_targets_move),
		cmocka_unit_test(test_one_scale),
		cmocka_unit_test(test_one_scale_without_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
