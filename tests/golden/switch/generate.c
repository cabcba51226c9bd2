/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the vectors, from the model and a seed.
 *
 *     switch_generate vectors|native > FILE
 *     switch_generate random SEED STEPS > FILE      more of what comes at the end of `vectors`
 */
#include "script.h"

#include <stdlib.h>
#include <string.h>

#define SEED 5
#define RANDOM_STEPS 260

static void tables(struct recorder *recorder) {
	static const struct golden_route routes[] = {
		{0x0b000000, 8, 1, {2, 0x0b, 0, 0, 0, 1}},
		{0x0b010000, 16, 2, {2, 0x0b, 0, 0, 0, 2}},
		{0x0b010203, 32, 3, {2, 0x0b, 0, 0, 0, 3}},
		{0xc0a80000, 17, 4, {2, 0x0b, 0, 0, 0, 4}},
	};

	for (uint16_t i = 1; i <= 5; i++) {
		uint8_t mac[6];

		traffic_put(mac, 6, 0x020a00000000 | i);
		record_mac(recorder, mac, i);
	}
	for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
		record_route(recorder, &routes[i]);
}

static void do_random(struct recorder *recorder, uint64_t seed, uint64_t steps) {
	static struct traffic traffic;
	static struct traffic_op op;

	record_case(recorder, "random", "what comes, from a seed");
	traffic_init(&traffic, seed, true);
	for (uint64_t i = 0; i < steps; i++) {
		traffic_next(&traffic, &op);
		if (op.kind == TRAFFIC_LEASE_SET)
			record_lease_set(recorder, op.lease);
		else if (op.kind == TRAFFIC_LEASE_WAITS)
			record_lease_waits(recorder, op.id, op.waits);
		else if (op.kind == TRAFFIC_LEASE_END)
			record_lease_end(recorder, op.id);
		else if (op.kind == TRAFFIC_SIMULATE)
			record_simulate(recorder, op.seed, op.threshold);
		else
			record_frame(recorder, op.port, op.frame, op.bytes);
	}
	record_counters(recorder);
}

int main(int argc, char **argv) {
	static struct recorder recorder;
	static struct script script;
	bool native = argc == 2 && strcmp(argv[1], "native") == 0;
	bool more = argc == 4 && strcmp(argv[1], "random") == 0;

	if (!native && !more && (argc != 2 || strcmp(argv[1], "vectors") != 0)) {
		(void)fprintf(stderr, "usage: switch_generate vectors|native|random SEED STEPS\n");
		return 64;
	}
	record_begin(&recorder, stdout, &golden_model, &traffic_config);
	tables(&recorder);
	script.recorder = &recorder;
	hd_random_init(&script.random, SEED);
	if (more) {
		do_random(&recorder, strtoull(argv[2], NULL, 0), strtoull(argv[3], NULL, 0));
	} else if (native) {
		cases_native(&script);
	} else {
		cases_sums(&script);
		cases_members(&script);
		cases_refused(&script);
		cases_ordinary(&script);
		do_random(&recorder, SEED, RANDOM_STEPS);
	}
	record_end(&recorder);
	return fflush(stdout) != 0;
}
