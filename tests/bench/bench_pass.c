/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of one planning pass of the controller core with many requests pending: projecting the reservations, the
 * planner, choosing the grants. In virtual time with real endpoints; only the call that planned is timed, on this
 * process's CPU clock.
 */
#include "controller_net.h"
#include "ctl_requests.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define WORKERS 64
#define TIMES 51

static double now_us(void) {
	struct timespec at;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
	return (double)at.tv_sec * 1e6 + (double)at.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Requests from all workers; the first is granted and blocks the server's link. */
static void fill(struct net *net, struct peer **workers, uint32_t pending) {
	for (uint32_t i = 0; i < pending + 2; i++) {
		struct peer *peer = workers[i % WORKERS];
		uint64_t bytes
			= i == 0 ? NET_MODEL_BYTES : 100000 + hd_random_below(&net->random, 900000);
		struct hd_message m = net_push(peer, 1 + i / WORKERS, bytes, 0);

		if (peer_send(peer, &m))
			abort();
		if (i % 16 == 0)
			net_run(net, HD_MS);
	}
	net_run(net, 20 * HD_MS);
}

static void measure(uint32_t pending) {
	struct net_config config = {.epoch = 1, .initial_bps = 8e6, .ageing_s = 1e6};
	struct peer *workers[WORKERS];
	double us[TIMES];
	struct net net;

	net_open(&net, &config);
	net_server(&net, "ps");
	for (uint16_t i = 0; i < WORKERS; i++)
		workers[i] = net_worker(&net, "t", "j", i, 100000);
	net_run(&net, 150 * HD_MS);
	fill(&net, workers, pending);
	for (int i = 0; i < TIMES; i++) {
		double from = now_us();

		ctl_pass(net.controller, &net.sink);
		us[i] = now_us() - from;
		net_run(&net, 100 * HD_US);
	}
	qsort(us, TIMES, sizeof us[0], by_value);
	(void
	)printf("pass  %6u pending on %d hosts: median %8.0f us, max %8.0f us",
		net.controller->pending_count,
		WORKERS,
		us[TIMES / 2],
		us[TIMES - 1]);
	(void
	)printf(pending == 1000          ? "  (planner's target: 2000 us)\n" :
			pending == 10000 ? "  (planner's target: 40000 us)\n" :
					   "\n");
	net_close(&net);
}

int main(void) {
	measure(100);
	measure(1000);
	measure(10000);
	return 0;
}
