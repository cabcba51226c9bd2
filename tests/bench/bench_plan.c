/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long one plan takes, from 100 to 10,000 pending transfers on 64 hosts in a star, in ten settings. The targets are
 * 2 ms for 1,000 and 40 ms for 10,000 pushes into one server, on one core.
 */
#include "hd_plan.h"
#include "hd_plan_group.h"
#include "hd_random.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <time.h>

#define HOSTS 64
#define ITEMS_MAX 10000
#define SERVERS_MAX 4
#define JOBS_MAX 16
/* Uplinks, downlinks, then one link into and one out of each server. */
#define LINKS (2 * HOSTS + 2 * SERVERS_MAX)
#define INTO(server) (2 * HOSTS + 2 * (server))
#define OUT_OF(server) (2 * HOSTS + 2 * (server) + 1)

struct setting {
	const char *name;
	enum {
		EVEN,
		HALVED, /* a tenth at one half */
		UNEVEN /* at U[0.25, 1] */
	} links;
	bool uneven_sizes;
	double server_speed; /* of the servers' links, in uplinks */
	double pulls;
	uint32_t servers, jobs, tenants;
	bool tight; /* bounds that just hold */
	bool busy;
};

static const struct setting settings[] = {
	{"equal", .server_speed = 1, .servers = 1, .jobs = 1, .tenants = 1},
	{"N1: a tenth of the links halved",
	 HALVED,
	 .server_speed = 1,
	 .servers = 1,
	 .jobs = 1,
	 .tenants = 1},
	{"N2: links U[0.25, 1]", UNEVEN, .server_speed = 1, .servers = 1, .jobs = 1, .tenants = 1},
	{"sizes U[1, 10]", EVEN, true, .server_speed = 1, .servers = 1, .jobs = 1, .tenants = 1},
	{"both uneven", UNEVEN, true, .server_speed = 1, .servers = 1, .jobs = 1, .tenants = 1},
	{"both, server 10x", UNEVEN, true, 10, .servers = 1, .jobs = 1, .tenants = 1},
	{"both, server 100x", UNEVEN, true, 100, .servers = 1, .jobs = 1, .tenants = 1},
	{"both, 10x, tight bounds",
	 UNEVEN,
	 true,
	 10,
	 .servers = 1,
	 .jobs = 1,
	 .tenants = 1,
	 .tight = true},
	{"both, 4 servers 10x, half pulls",
	 UNEVEN,
	 true,
	 10,
	 .servers = 4,
	 .jobs = 4,
	 .tenants = 1,
	 .pulls = 0.5},
	{"the same, 16 jobs, 4 tenants, busy",
	 UNEVEN,
	 true,
	 10,
	 .servers = 4,
	 .jobs = 16,
	 .tenants = 4,
	 .pulls = 0.3,
	 .busy = true},
};

static struct hd_plan_item items[ITEMS_MAX];
static double capacity[LINKS];
static struct hd_plan_tenant tenants[JOBS_MAX];
static struct hd_plan_job jobs[JOBS_MAX];
static struct hd_plan_busy busy[4 * HOSTS];

static void fill_links(const struct setting *setting, struct hd_random *random) {
	for (uint32_t h = 0; h < 2 * HOSTS; h++) {
		capacity[h] = 125e6;
		if (setting->links == HALVED && h % 10 == 0)
			capacity[h] *= 0.5;
		if (setting->links == UNEVEN)
			capacity[h] *= 0.25 + 0.75 * hd_random_unit(random);
	}
	for (uint32_t s = 2 * HOSTS; s < LINKS; s++)
		capacity[s] = 125e6 * setting->server_speed;
}

static uint32_t fill_busy(const struct setting *setting, struct hd_random *random) {
	uint32_t count = 0;

	for (uint32_t h = 0; setting->busy && h < HOSTS; h++) {
		const double start = hd_random_unit(random), rate = 0.5 * capacity[h];
		const uint32_t path[2] = {h, INTO(h % setting->servers)};

		for (uint32_t k = 0; k < 2; k++)
			busy[count++] = (struct hd_plan_busy){
				.link = path[k],
				.start = start,
				.end = start + 0.01,
				.rate = fmin(rate, capacity[path[1]] / HOSTS),
				.token = h + 1,
			};
	}
	return count;
}

static struct hd_plan_input
make(const struct setting *setting, uint32_t count, struct hd_random *random) {
	fill_links(setting, random);
	if (setting->tenants == 0 || setting->jobs == 0 || setting->servers == 0)
		abort();
	for (uint32_t t = 0; t < setting->tenants; t++)
		tenants[t] = (struct hd_plan_tenant){.weight = 1 + t};
	for (uint32_t j = 0; j < setting->jobs; j++)
		jobs[j] = (struct hd_plan_job){
			.tenant = j % setting->tenants,
			.v_init = 1000000,
			.tau_max = setting->tight ? count : 10 * count,
			.theta = INFINITY,
		};
	for (uint32_t i = 0; i < count; i++) {
		const uint32_t host = (uint32_t)hd_random_below(random, HOSTS);
		const uint32_t server = (uint32_t)hd_random_below(random, setting->servers);
		struct hd_plan_item *item = &items[i];

		*item = (struct hd_plan_item){
			.id = i + 1,
			.job = (uint32_t)hd_random_below(random, setting->jobs),
			.direction
			= hd_random_chance(random, setting->pulls) ? HD_PLAN_PULL : HD_PLAN_PUSH,
			/* tight: some 95 % of the positions up to each deadline are taken */
			.version = 1000000
				- (setting->tight ?
					   (uint32_t)(0.95 * count * hd_random_unit(random)) :
					   hd_random_below(random, 64)),
			.amount
			= 1e6 * (setting->uneven_sizes ? 1 + 9 * hd_random_unit(random) : 4),
			.path_count = 2,
			.path = {host, INTO(server)},
		};
		if (item->direction == HD_PLAN_PULL) {
			item->path[0] = OUT_OF(server);
			item->path[1] = HOSTS + host;
		}
	}
	return (struct hd_plan_input){
		.link_count = LINKS,
		.capacity = capacity,
		.busy_count = fill_busy(setting, random),
		.busy = busy,
		.tenant_count = setting->tenants,
		.tenants = tenants,
		.job_count = setting->jobs,
		.jobs = jobs,
		.item_count = count,
		.items = items,
		.ageing_s = INFINITY,
	};
}

static double now_ms(void) {
	struct timespec at;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
	return (double)at.tv_sec * 1e3 + (double)at.tv_nsec / 1e6;
}

/* --- grouping, at aggregators on the first hosts: with the planner it has to stay within the targets --- */

#define WINDOW 64 /* as the controller's */
#define WORK 3000

static bool
member(const void *context, uint32_t item, uint32_t aggregator, struct hd_plan_path *path) {
	const bool push = items[item].direction == HD_PLAN_PUSH;
	const uint32_t host = push ? items[item].path[0] : items[item].path[1] - HOSTS;

	(void)context;
	*path = (struct hd_plan_path
	){2, {push ? host : aggregator, HOSTS + (push ? aggregator : host)}};
	path->count = host == aggregator ? 0 : 2;
	return true;
}

static bool
trunk(const void *context, uint32_t item, uint32_t aggregator, struct hd_plan_path *path) {
	const struct hd_plan_item *it = &items[item];

	(void)context;
	*path = (struct hd_plan_path){2, {aggregator, it->path[1]}};
	if (it->direction == HD_PLAN_PULL)
		*path = (struct hd_plan_path){2, {it->path[0], HOSTS + aggregator}};
	return true;
}

static struct hd_plan_grouper *grouper;
static uint32_t aggregators; /* 0: no grouping */

static void
group(const struct hd_plan_input *in, const struct hd_plan_entry *entries, uint32_t count) {
	static const double memory[HD_PLAN_AGGREGATORS_MAX] = {1e12, 1e12, 1e12, 1e12};
	const struct hd_plan_group_input input = {
		.plan = in,
		.entries = entries,
		.entry_count = count,
		.aggregator_count = aggregators,
		.memory = memory,
		.paths = {NULL, member, trunk},
		.window = WINDOW,
		.work = WORK,
	};
	struct hd_plan_grouped grouped;

	if (hd_plan_group_run(grouper, &input, &grouped) != 0)
		abort();
}

/* The least of several runs on one input: what the machine can do. */
static double measure(struct hd_plan *plan, const struct hd_plan_input *in, uint32_t *dropped) {
	const uint32_t runs = in->item_count > 2000 ? 5 : 15;
	double least = INFINITY;

	for (uint32_t r = 0; r < runs; r++) {
		const struct hd_plan_entry *entries;
		const char *error = "out of memory";
		uint32_t count;
		const double begin = now_ms();

		if (hd_plan_run(plan, in, &entries, &count, &error) != 0) {
			(void)fprintf(stderr, "bench_plan: %s\n", error);
			exit(EXIT_FAILURE);
		}
		if (aggregators > 0)
			group(in, entries, count);
		least = fmin(least, now_ms() - begin);
		*dropped = 0;
		for (uint32_t e = 0; e < count; e++)
			*dropped += entries[e].dropped;
	}
	return least;
}

static const uint32_t counts[] = {100, 300, 1000, 3000, 10000};
#define COUNTS (sizeof counts / sizeof counts[0])
static const double shares[] = {0, HD_PLAN_SHARE_MIN};

struct row {
	double ms[COUNTS];
	uint32_t dropped; /* of the most */
};

static struct row
measure_row(struct hd_plan *plan, const struct setting *setting, double share_min) {
	struct row row = {.dropped = 0};

	for (uint32_t c = 0; c < COUNTS; c++) {
		struct hd_random random;

		hd_random_init(&random, 1);
		struct hd_plan_input in = make(setting, counts[c], &random);
		in.share_min = share_min;
		row.ms[c] = measure(plan, &in, &row.dropped);
	}
	return row;
}

/* x when the time from 1,000 to 10,000 grows as n^x. */
static double growth(const struct row *row) {
	return log10(row->ms[4] / row->ms[2]);
}

static void print_text(const struct setting *setting, double share_min, const struct row *row) {
	printf("%-37s%4.1f", setting->name, share_min);
	for (uint32_t c = 0; c < COUNTS; c++)
		printf("%9.3f", row->ms[c]);
	printf("%8.2f%9.2f", row->ms[4] * 1e3 / counts[4], growth(row));
	printf("%s", row->ms[2] <= 2 && row->ms[4] <= 40 ? "" : "  over");
	if (row->dropped > 0)
		printf("  (%u dropped)", row->dropped);
	printf("\n");
}

static void print_json(const struct setting *setting, double share_min, const struct row *row) {
	printf("{\"setting\": \"%s\", \"share_min\": %g, \"hosts\": %d, \"ms\": {",
	       setting->name,
	       share_min,
	       HOSTS);
	for (uint32_t c = 0; c < COUNTS; c++)
		printf("%s\"%u\": %.4f", c == 0 ? "" : ", ", counts[c], row->ms[c]);
	printf("}, \"growth\": %.3f, \"dropped\": %u}\n", growth(row), row->dropped);
}

static const char help[]
	= "usage: bench_plan [--json] [--setting N] [--aggregators N]\n"
	  "CPU time of one plan, from 100 to 10,000 pending transfers. --json: one object a line.\n"
	  "--aggregators N: with grouping at N of the hosts (at most 4), where there is one server.\n";

int main(int argc, char **argv) {
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"setting", required_argument, NULL, 's'},
		{"aggregators", required_argument, NULL, 'a'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	uint32_t first = 0, last = sizeof settings / sizeof settings[0] - 1;
	struct hd_plan *plan;
	bool json = false;

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (c == 'j')
			json = true;
		else if (c == 's')
			first = last = (uint32_t)strtoul(optarg, NULL, 10) % (last + 1);
		else if (c == 'a')
			aggregators = (uint32_t)strtoul(optarg, NULL, 10) % 5;
		else {
			(void)fputs(help, c == 'h' ? stdout : stderr);
			return c == 'h' ? EXIT_SUCCESS : EX_USAGE;
		}
	}
	if (hd_plan_create(&plan) != 0 || hd_plan_grouper_create(&grouper) != 0)
		return EXIT_FAILURE;
	if (!json) {
		printf("plan, %d hosts, CPU ms (least of runs) share", HOSTS);
		for (uint32_t c = 0; c < COUNTS; c++)
			printf("%9u", counts[c]);
		printf(" us each   growth  (wanted: 1,000 <= 2 ms, 10,000 <= 40 ms)\n");
	}
	while (aggregators > 0 && last > first && settings[last].servers > 1)
		last--;
	for (uint32_t s = first; s <= last; s++)
		for (uint32_t k = 0; k < sizeof shares / sizeof shares[0]; k++) {
			const struct row row = measure_row(plan, &settings[s], shares[k]);

			(json ? print_json : print_text)(&settings[s], shares[k], &row);
			(void)fflush(stdout);
		}
	hd_plan_destroy(plan);
	hd_plan_grouper_destroy(grouper);
	return EXIT_SUCCESS;
}
