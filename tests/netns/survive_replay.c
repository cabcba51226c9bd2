/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replays a commit log with the scalar reference of the server's arithmetic and compares every bit with a
 * checkpoint. Standard input: a commit a line, in their order: WORKER ROUND WEIGHT MORE, where MORE is how many that
 * follow are in the same commit: a sum, added in this order, and applied as one step of its mean for each of them.
 *
 * usage: survive_replay CHECKPOINT VALUES      prints what differs; 0: nothing does
 */
#include "hd_kernels.h"
#include "survive_update.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct replay {
	size_t values;
	float *model, *momentum, *update, *sum, *stored;
	uint64_t commits;
};

static void apply(struct replay *replay, uint32_t parts) {
	const struct hd_sgd sgd = {SURVIVE_RATE, SURVIVE_MOMENTUM, SURVIVE_DECAY};

	if (parts > 1)
		hd_scale_f32_scalar(replay->sum, replay->sum, replay->values, 1.0f / (float)parts);
	for (uint32_t i = 0; i < parts; i++)
		(void)hd_sgd_apply_scalar(
			replay->model, replay->momentum, replay->sum, replay->values, &sgd
		);
}

static int read_log(struct replay *replay) {
	uint32_t worker, round, more, in_sum = 0, parts = 0;
	float weight;
	int n;

	while ((n = scanf("%" SCNu32 " %" SCNu32 " %f %" SCNu32, &worker, &round, &weight, &more))
	       == 4) {
		survive_update(worker, round, replay->update, replay->values);
		/* libheddle does not scale with a weight of 1 either. */
		if (weight != 1.0f)
			hd_scale_f32_scalar(replay->update, replay->update, replay->values, weight);
		for (size_t i = 0; i < replay->values; i++)
			replay->sum[i]
				= in_sum ? replay->sum[i] + replay->update[i] : replay->update[i];
		replay->commits++;
		in_sum = more;
		parts++;
		if (more == 0) {
			apply(replay, parts);
			parts = 0;
		}
	}
	return n == EOF && in_sum == 0 ? 0 : -1;
}

static uint32_t bits_of(float value) {
	uint32_t bits;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static size_t compare(struct replay *replay, FILE *file, const float *expected, const char *what) {
	size_t differ = 0;

	if (fread(replay->stored, sizeof(float), replay->values, file) != replay->values) {
		printf("%s: the file is too short\n", what);
		return 1;
	}
	for (size_t i = 0; i < replay->values; i++) {
		if (bits_of(replay->stored[i]) == bits_of(expected[i]))
			continue;
		if (differ++ == 0)
			printf("%s[%zu] is %a, replayed %a\n",
			       what,
			       i,
			       (double)replay->stored[i],
			       (double)expected[i]);
	}
	return differ;
}

int main(int argc, char **argv) {
	struct replay replay = {0};
	uint8_t length[8];
	uint64_t header = 0;
	size_t differ;
	FILE *file = argc == 3 ? fopen(argv[1], "rb") : NULL;

	if (!file || fread(length, 1, sizeof length, file) != sizeof length)
		return fprintf(stderr, "usage: survive_replay CHECKPOINT VALUES < LOG\n"), 64;
	for (size_t i = sizeof length; i-- > 0;)
		header = header << 8 | length[i];
	replay.values = strtoull(argv[2], NULL, 10);
	replay.model = calloc(replay.values, sizeof(float));
	replay.momentum = calloc(replay.values, sizeof(float));
	replay.update = calloc(replay.values, sizeof(float));
	replay.sum = calloc(replay.values, sizeof(float));
	replay.stored = calloc(replay.values, sizeof(float));
	if (!replay.model || !replay.momentum || !replay.update || !replay.sum || !replay.stored)
		return 71;
	if (read_log(&replay) < 0 || fseek(file, (long)header, SEEK_CUR) != 0)
		return 65;
	differ = compare(&replay, file, replay.model, "model");
	differ += compare(&replay, file, replay.momentum, "momentum");
	(void)fclose(file);
	printf("%" PRIu64 " commits replayed, %zu values differ\n", replay.commits, differ);
	return differ ? 1 : 0;
}
