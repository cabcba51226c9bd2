/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of an operator's queries for the controller: all pages of each table, with 1,000 nodes and 10,000 transfers;
 * a filter over them; and all counters gathered, as OpenMetrics too. Virtual time, real endpoints; this process's CPU
 * clock. A grant may have to wait for one page.
 */
#include "controller_net.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WORKERS 998
#define TRANSFERS 10000
#define TIMES 11
#define TARGET_MS 50.0

static double now_ms(void) {
	struct timespec at;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
	return (double)at.tv_sec * 1e3 + (double)at.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct cost {
	double all_ms, page_ms, parse_ms;
	size_t pages, rows;
};

/* Every page of a table, as a shell asks for them. */
static struct cost ask(const struct hd_controller *c, const char *table, const char *words) {
	struct cost cost = {0};
	json_int_t from = 0;

	for (;;) {
		double begin = now_ms(), took;
		char filter[128];
		const char *error;
		char *text;
		json_t *page, *next;

		(void)snprintf(filter, sizeof filter, "from=%lld %s", (long long)from, words);
		text = hd_controller_table(c, table, filter, &error);
		if (!text)
			abort();
		took = now_ms() - begin;
		cost.all_ms += took;
		cost.page_ms = took > cost.page_ms ? took : cost.page_ms;
		begin = now_ms();
		page = json_loads(text, 0, NULL);
		cost.parse_ms += now_ms() - begin;
		cost.pages++;
		cost.rows += json_array_size(json_object_get(page, "rows"));
		next = json_object_get(page, "next");
		from = json_integer_value(next);
		free(text);
		if (!json_is_integer(next)) {
			json_decref(page);
			return cost;
		}
		json_decref(page);
	}
}

static void measure(const struct hd_controller *c, const char *table, const char *words) {
	struct cost cost = {0};
	double ms[TIMES], page_ms = 0;

	for (int i = 0; i < TIMES; i++) {
		cost = ask(c, table, words);
		ms[i] = cost.all_ms;
		page_ms = cost.page_ms > page_ms ? cost.page_ms : page_ms;
	}
	qsort(ms, TIMES, sizeof ms[0], by_value);
	(void
	)printf("show %-10s %-10s %6zu rows %4zu pages: median %6.2f ms, longest page %5.2f ms "
		"(the shell's parsing: %.1f ms)\n",
		table,
		words,
		cost.rows,
		cost.pages,
		ms[TIMES / 2],
		page_ms,
		cost.parse_ms);
}

static void measure_metrics(const struct hd_controller *c) {
	struct hd_stats *stats = hd_stats_create();
	struct hd_out out = {0};
	double begin = now_ms(), gather, render;

	hd_controller_stats(c, stats);
	gather = now_ms() - begin;
	begin = now_ms();
	hd_stats_openmetrics(stats, &out);
	render = now_ms() - begin;
	(void
	)printf("metrics: %zu rows gathered in %.2f ms on the node's thread (once a second: %.2f %% of a core; "
		"target 1 %%), %zu bytes of OpenMetrics in %.2f ms on another\n",
		hd_stats_count(stats),
		gather,
		gather / 10,
		out.bytes,
		render);
	hd_out_fini(&out);
	hd_stats_destroy(stats);
}

int main(void) {
	struct net_config config = {.epoch = 1, .initial_bps = 8e6, .ageing_s = 1e6};
	struct net *net = calloc(1, sizeof *net);
	struct peer *workers[WORKERS];
	double total;

	net_open(net, &config);
	net_server(net, "ps");
	for (uint16_t i = 0; i < WORKERS; i++)
		workers[i] = net_worker(net, "team", "resnet", i, 100000);
	net_run(net, 150 * HD_MS);
	for (uint32_t i = 0; i < TRANSFERS; i++) {
		struct hd_message m
			= net_push(workers[i % WORKERS], 1 + i / WORKERS, NET_MODEL_BYTES, 0);

		if (peer_send(workers[i % WORKERS], &m))
			abort();
		if (i % 64 == 0)
			net_run(net, HD_MS);
	}
	net_run(net, 20 * HD_MS);
	(void
	)printf("%u nodes, %u transfers\n",
		net->controller->node_count,
		net->controller->pending_count + net->controller->open_count);
	total = ask(net->controller, "nodes", "").all_ms
		+ ask(net->controller, "transfers", "").all_ms;
	(void
	)printf("show nodes and transfers together: %.1f ms (target %.0f ms)\n", total, TARGET_MS);
	measure(net->controller, "nodes", "");
	measure(net->controller, "transfers", "");
	measure(net->controller, "transfers", "worker=3");
	measure(net->controller, "plan", "");
	measure(net->controller, "links", "");
	measure(net->controller, "counters", "");
	measure_metrics(net->controller);
	net_close(net);
	free(net);
	return 0;
}
