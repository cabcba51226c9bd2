/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random operations, from seeds: the native executor does what the model does, frame by frame and in bursts, to the
 * last bit and counter; and what is hostile changes no sum.
 *
 *     property [--first N] [--seeds N] [--steps N]
 */
#include "hd_limits.h"
#include "hd_switch_core.h"
#include "traffic.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BURST_MAX 100

static struct golden_outs expected, got;
static const char *said; /* of the step that is wrong */

#define MUST(condition, what)                                                                      \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			said = what;                                                               \
			return false;                                                              \
		}                                                                                  \
	} while (0)

static bool same_outs(void) {
	MUST(expected.count == got.count, "the number of frames sent");
	for (size_t i = 0; i < expected.count; i++) {
		const struct golden_out *a = &expected.out[i], *b = &got.out[i];

		MUST(a->port == b->port && a->bytes == b->bytes, "ports and lengths");
		MUST(memcmp(a->frame, b->frame, a->bytes) == 0, "frames that left");
	}
	return true;
}

static bool same_counters(void *model, void *native) {
	uint64_t a[HD_SWITCH_COUNTER_COUNT], b[HD_SWITCH_COUNTER_COUNT];

	golden_model.counters(model, a);
	golden_native.counters(native, b);
	for (int i = 0; i < HD_SWITCH_COUNTER_COUNT; i++)
		MUST(a[i] == b[i], hd_switch_counter_name((enum hd_switch_counter)i));
	return true;
}

/* --- frame by frame ---------------------------------------------------------------------------- */

static uint64_t reached[HD_SWITCH_COUNTER_COUNT];

static bool follow(uint64_t seed, uint32_t steps, void *model, void *native) {
	static struct traffic traffic;
	static struct traffic_op op;

	traffic_init(&traffic, seed, seed % 4 == 0);
	for (uint32_t step = 0; step < steps; step++) {
		traffic_next(&traffic, &op);
		if (op.kind != TRAFFIC_FRAME) {
			int a = traffic_control(&golden_model, model, &op);
			int b = traffic_control(&golden_native, native, &op);

			MUST((a < 0) == (b < 0), "what was set");
			continue;
		}
		golden_model.frame(model, op.port, op.frame, op.bytes, &expected);
		golden_native.frame(native, op.port, op.frame, op.bytes, &got);
		if (!same_outs() || !same_counters(model, native))
			return false;
	}
	return true;
}

static bool check_model(uint64_t seed, uint32_t steps) {
	void *model = golden_model.create(&traffic_config);
	void *native = golden_native.create(&traffic_config);
	uint64_t counters[HD_SWITCH_COUNTER_COUNT];
	bool good;

	traffic_tables(&golden_model, model);
	traffic_tables(&golden_native, native);
	good = follow(seed, steps, model, native);
	golden_native.counters(native, counters);
	for (int i = 0; i < HD_SWITCH_COUNTER_COUNT; i++)
		reached[i] += counters[i];
	golden_model.destroy(model);
	golden_native.destroy(native);
	return good;
}

/* --- in bursts ---------------------------------------------------------------------------------- */

/* One core gets bursts, the other each of their frames alone. */
struct bursts {
	struct hd_switch_core *one, *many;
	struct hd_switch_packet packets[BURST_MAX];
	struct traffic_op ops[BURST_MAX];
	size_t count;
};

static bool empty(struct bursts *bursts) {
	static uint8_t alone[GOLDEN_FRAME_MAX];

	hd_switch_core_burst(bursts->many, bursts->packets, bursts->count);
	for (size_t i = 0; i < bursts->count; i++) {
		const struct traffic_op *op = &bursts->ops[i];
		const struct hd_switch_packet *burst = &bursts->packets[i];
		struct hd_switch_packet packet
			= {.data = alone, .bytes = op->bytes, .port = op->port};

		memcpy(alone, op->frame, op->bytes);
		hd_switch_core_burst(bursts->one, &packet, 1);
		MUST(packet.verdict == burst->verdict && packet.bytes == burst->bytes, "verdict");
		MUST(packet.port == burst->port, "port");
		MUST(packet.verdict != HD_SWITCH_COPY
			     || (packet.lease == burst->lease && packet.copy == burst->copy),
		     "copies");
		MUST(memcmp(packet.data, burst->data, packet.bytes) == 0, "frame of a burst");
		free(burst->data);
	}
	bursts->count = 0;
	return true;
}

static int set_both(struct bursts *bursts, const struct traffic_op *op) {
	char error[HD_TEXT_BYTES_MAX];
	struct hd_switch_core *cores[] = {bursts->one, bursts->many};
	int status = 0;

	for (int i = 0; i < 2; i++) {
		if (op->kind == TRAFFIC_LEASE_SET)
			status = hd_switch_core_lease_set(cores[i], op->lease, error, sizeof error);
		else if (op->kind == TRAFFIC_LEASE_WAITS)
			status = hd_switch_core_lease_waits(
				cores[i], op->id, op->waits, error, sizeof error
			);
		else if (op->kind == TRAFFIC_LEASE_END)
			status = hd_switch_core_lease_end(cores[i], op->id, error, sizeof error);
		else
			status = hd_switch_core_simulate(
				cores[i], op->seed, op->threshold, error, sizeof error
			);
		if (status < 0)
			break;
	}
	return status;
}

static bool fill_bursts(uint64_t seed, uint32_t steps, struct bursts *bursts) {
	static struct traffic traffic;
	struct hd_random random;
	size_t size = 32;

	hd_random_init(&random, seed);
	traffic_init(&traffic, seed, false);
	for (uint32_t step = 0; step < steps; step++) {
		struct traffic_op *op = &bursts->ops[bursts->count];
		uint8_t *data;

		traffic_next(&traffic, op);
		if (op->kind != TRAFFIC_FRAME) {
			struct traffic_op set = *op;

			MUST(empty(bursts), said);
			MUST(set_both(bursts, &set) == 0, "what was set");
			continue;
		}
		data = malloc(op->bytes + 1);
		if (!data)
			abort();
		memcpy(data, op->frame, op->bytes);
		bursts->packets[bursts->count++] = (struct hd_switch_packet
		){.data = data, .bytes = op->bytes, .port = op->port};
		if (bursts->count == size) {
			MUST(empty(bursts), said);
			size = 1 + hd_random_below(&random, BURST_MAX);
		}
	}
	return empty(bursts);
}

static bool check_bursts(uint64_t seed, uint32_t steps) {
	static struct bursts bursts;
	const struct hd_switch_core_config config
		= {.self = {.ipv4 = TRAFFIC_SERVICE, .udp_port = HD_SWITCH_UDP_PORT},
		   .hash_key = {seed, ~seed},
		   .memory_bytes = 1 << 26};
	uint64_t a[HD_SWITCH_COUNTER_COUNT], b[HD_SWITCH_COUNTER_COUNT];
	char error[HD_TEXT_BYTES_MAX];
	bool good;

	bursts.count = 0;
	if (hd_switch_core_create(&config, &bursts.one, error, sizeof error) < 0
	    || hd_switch_core_create(&config, &bursts.many, error, sizeof error) < 0)
		abort();
	good = fill_bursts(seed, steps, &bursts);
	hd_switch_core_counters(bursts.one, a);
	hd_switch_core_counters(bursts.many, b);
	if (good && memcmp(a, b, sizeof a) != 0) {
		said = "counters of bursts";
		good = false;
	}
	hd_switch_core_destroy(bursts.one);
	hd_switch_core_destroy(bursts.many);
	return good;
}

/* --- hostile frames ----------------------------------------------------------------------------- */

/* Not the sender's to know, or to say: nothing of it may count. Replays are of what `op` sent. */
static void make_hostile(
	struct hd_random *random,
	const struct traffic_op *op,
	uint8_t *frame,
	uint32_t *bytes
) {
	memcpy(frame, op->frame, op->bytes);
	*bytes = op->bytes;
	switch (hd_random_below(random, 8)) {
	case 0: /* guesses a token */
		traffic_put(frame + 90, 8, hd_random_u64(random));
		break;
	case 1: /* a near token */
		frame[90 + hd_random_below(random, 8)]
			^= (uint8_t)(1u << hd_random_below(random, 8));
		break;
	case 2: /* another job's */
		traffic_put(frame + 46, 4, hd_random_u64(random));
		break;
	case 3: /* beyond the slots */
		traffic_put(frame + 64, 2, 0x4000 | hd_random_u64(random));
		break;
	case 4: /* another's bit */
		traffic_put(frame + 52, 2, 0x8000 | hd_random_u64(random));
		break;
	case 5: /* another size */
		traffic_put(frame + 82, 2, 0x8000 | hd_random_u64(random));
		break;
	case 6: /* a source that is not the member's, without its token */
		traffic_put(frame + 26, 4, hd_random_u64(random));
		traffic_put(frame + 90, 8, hd_random_u64(random));
		break;
	default: /* a replay, with other values */
		traffic_put(frame + 98, 4, hd_random_u64(random));
		traffic_put(frame + 84, 2, 0x7fff);
		frame[45] = 0xff;
		break;
	}
}

static void flood(struct hd_random *random, const struct traffic_op *op, void *attacked) {
	static uint8_t frame[GOLDEN_FRAME_MAX];
	uint64_t times = 1 + hd_random_below(random, 4);
	uint32_t bytes;

	while (times-- > 0) {
		make_hostile(random, op, frame, &bytes);
		golden_native.frame(attacked, op->port, frame, bytes, &got);
	}
}

/* The same honest chunks to two switches, one of them attacked: the same sums leave for them. */
static bool attack(uint64_t seed, uint32_t steps, void *quiet, void *attacked) {
	static struct traffic traffic;
	static struct traffic_op op;
	struct hd_random random;

	hd_random_init(&random, seed ^ 0x5555);
	traffic_init(&traffic, seed, false);
	for (uint32_t step = 0; step < steps; step++) {
		traffic_next(&traffic, &op);
		if (op.kind == TRAFFIC_SIMULATE || (op.kind == TRAFFIC_FRAME && !op.honest))
			continue;
		if (op.kind != TRAFFIC_FRAME) {
			(void)traffic_control(&golden_native, quiet, &op);
			(void)traffic_control(&golden_native, attacked, &op);
			continue;
		}
		golden_native.frame(quiet, op.port, op.frame, op.bytes, &expected);
		golden_native.frame(attacked, op.port, op.frame, op.bytes, &got);
		if (!same_outs())
			return false;
		/* After it: what it sent may be repeated, and asked for again, but not be added to. */
		flood(&random, &op, attacked);
	}
	return true;
}

static bool check_hostile(uint64_t seed, uint32_t steps) {
	void *quiet = golden_native.create(&traffic_config);
	void *attacked = golden_native.create(&traffic_config);
	uint64_t a[HD_SWITCH_COUNTER_COUNT], b[HD_SWITCH_COUNTER_COUNT];
	bool good = attack(seed, steps, quiet, attacked);

	golden_native.counters(quiet, a);
	golden_native.counters(attacked, b);
	if (good
	    && (a[HD_SWITCH_COUNTER_completed] != b[HD_SWITCH_COUNTER_completed]
		|| a[HD_SWITCH_COUNTER_absorbed] != b[HD_SWITCH_COUNTER_absorbed]
		|| a[HD_SWITCH_COUNTER_not_finite] != b[HD_SWITCH_COUNTER_not_finite]
		|| a[HD_SWITCH_COUNTER_overtaken] != b[HD_SWITCH_COUNTER_overtaken])) {
		said = "sums under attack";
		good = false;
	}
	golden_native.destroy(quiet);
	golden_native.destroy(attacked);
	return good;
}

/* --- seeds ---------------------------------------------------------------------------------------- */

static bool check_seed(uint64_t seed, uint32_t steps) {
	if (check_model(seed, steps) && check_bursts(seed, steps) && check_hostile(seed, steps))
		return true;
	printf("seed %llu: %s\n", (unsigned long long)seed, said);
	return false;
}

/* A run that never saw something has not tested it. */
static bool saw_everything(void) {
	bool good = true;

	for (int i = 0; i < HD_SWITCH_COUNTER_COUNT; i++) {
		const char *name = hd_switch_counter_name((enum hd_switch_counter)i);

		printf("%12llu %s\n", (unsigned long long)reached[i], name);
		if (reached[i] == 0) {
			printf("never seen: %s\n", name);
			good = false;
		}
	}
	return good;
}

int main(int argc, char **argv) {
	static const struct option options[] = {
		{"first", required_argument, NULL, 'f'},
		{"seeds", required_argument, NULL, 'n'},
		{"steps", required_argument, NULL, 's'},
		{NULL, 0, NULL, 0},
	};
	uint64_t first = 1, seeds = 20, bad = 0;
	uint32_t steps = 5000;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (option == 'f')
			first = strtoull(optarg, NULL, 0);
		else if (option == 'n')
			seeds = strtoull(optarg, NULL, 0);
		else if (option == 's')
			steps = (uint32_t)strtoul(optarg, NULL, 0);
		else
			return 64;
	for (uint64_t seed = first; seed < first + seeds; seed++)
		bad += !check_seed(seed, steps);
	printf("%llu seeds of %u operations, %llu bad\n",
	       (unsigned long long)seeds,
	       steps,
	       (unsigned long long)bad);
	return bad != 0 || (seeds >= 20 && !saw_everything());
}
