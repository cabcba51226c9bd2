/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every packet may be lost, control too: a worker that pulls and pushes 1 MiB over 50 Mbit/s has most of that
 * nevertheless, and beside a CUBIC flow no more than twice what that has.
 */
#include "cluster_run.h"
#include "hd_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MBPS 50.0
#define BYTES (1u << 20)
#define FRAME_SHARE (1408.0 / 1506.0) /* payload of a frame */

struct lossy {
	struct run run; /* first: the events' owner */
	void (*event)(void *owner, const char *node, const struct hd_event *event);
	uint64_t pushes;
	double push_s; /* that they took to arrive, at the rates at which they did */
};

static void watch(void *owner, const char *node, const struct hd_event *event) {
	struct lossy *l = owner;

	if (event->kind == HD_EVENT_RECV_END && event->direction == HD_PUSH && event->value > 0) {
		l->pushes++;
		l->push_s += BYTES * 8 / event->value;
	}
	l->event(owner, node, event);
}

static void run(struct lossy *l, double loss, enum run_mode mode, uint32_t flows) {
	struct hd_scenario *scenario = &l->run.scenario;

	memset(l, 0, sizeof *l);
	prepare(&l->run);
	choose_mode(&l->run, mode);
	l->event = l->run.config.event;
	l->run.config.event = watch;
	scenario->workers = 1;
	scenario->link_mbps = scenario->server_link_mbps = MBPS;
	scenario->queue_kb = 128;
	scenario->duration_s = flows > 0 ? 20 : 12;
	scenario->loss = loss;
	scenario->job.update_bytes = BYTES;
	scenario->job.compute_ms = 1;
	scenario->job.tau_max = 1000;
	if (flows > 0) {
		scenario->tenant_count = 1;
		scenario->tenants[0] = (struct hd_scenario_tenant){
			.flows = flows,
			.from = {HD_PLACE_WORKER, 0},
			.to = {HD_PLACE_SERVER, 0},
			.stop_s = scenario->duration_s,
		};
	}
	l->run.config.unchecked = true;
	expect(&l->run, 1);
}

static double applied_s(const struct lossy *l) {
	return (double)l->run.result.pushes.applied / l->run.result.duration_s;
}

static void test_alone(void **state) {
	static const double loss[] = {0.01, 0.1, 0.3}, least[] = {0.95, 0.80, 0.50};
	static const enum run_mode modes[] = {RUN_SCHEDULED, RUN_DIRECT};
	struct lossy without, with;

	(void)state;
	for (size_t w = 0; w < 2; w++) {
		run(&without, 0, modes[w], 0);
		/* A pull and a push each. */
		assert_true(applied_s(&without) * 2 * BYTES * 8 > 0.9 * MBPS * 1e6 * FRAME_SHARE);
		for (size_t i = 0; i < 3; i++) {
			run(&with, loss[i], modes[w], 0);
			print_message(
				"%s, %2.0f %% lost: %.2f of the updates without loss, %llu nodes lost\n",
				modes[w] == RUN_DIRECT ? "direct" : "scheduled",
				100 * loss[i],
				applied_s(&with) / applied_s(&without),
				(unsigned long long)with.run.kinds[HD_EVENT_NODE_DOWN]
			);
			assert_true(applied_s(&with) >= least[i] * applied_s(&without));
		}
	}
}

static void test_beside_cubic(void **state) {
	static const double loss[] = {0, 0.01, 0.1, 0.3};
	struct lossy l;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		double ours;

		run(&l, loss[i], RUN_SCHEDULED, 1);
		assert_true(l.pushes > 0);
		/* Of the worker's link, which also carries what is lost behind it. */
		ours = (double)l.pushes * BYTES * 8 / l.push_s / FRAME_SHARE / (1 - loss[i]) / 1e6;
		print_message(
			"beside a CUBIC flow, %2.0f %% lost: pushes take %.1f of %.0f Mbit/s\n",
			100 * loss[i],
			ours,
			MBPS
		);
		assert_true(ours <= MBPS * 2 / 3);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_beside_cubic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
