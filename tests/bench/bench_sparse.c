/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Savings and cost of the significance filter: sparse models, four workers, thresholds from 0 on. Bytes are those of
 * the updates on the wire. The loss is that of the server's model at the end, compared with the loss without a
 * threshold from the same seed: with 1 / 4 of the values that each worker held, as in heddle-train, with all of them
 * and with none. usage: bench_sparse [SEEDS]
 */
#include "sparse_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SEEDS 10
#define SEEDS_MAX 100

struct spread {
	double sum, squares;
};

static void note(struct spread *spread, double x) {
	spread->sum += x;
	spread->squares += x * x;
}

static double deviation(const struct spread *spread, double count) {
	double mean = spread->sum / count;

	return count > 1 ? sqrt(fmax(0, (spread->squares - count * mean * mean) / (count - 1))) : 0;
}

static void
measure(const char *name,
	const struct sparse_setting *setting,
	uint64_t seeds,
	float v,
	uint32_t block) {
	struct spread values = {0}, cut = {0}, loss = {0}, all = {0}, held = {0};
	struct sparse_setting other = *setting;
	double last = 0, count = (double)seeds;

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		struct sparse_result plain, result;

		sparse_run(setting, seed, 0, 1, &plain);
		sparse_run(setting, seed, v, block, &result);
		note(&values, 100 * (double)result.values / (double)plain.values);
		note(&cut, (double)plain.bytes / (double)result.bytes);
		note(&loss, 100 * (result.loss / plain.loss - 1));
		last += result.loss;
		other.end = SPARSE_END_ALL;
		sparse_run(&other, seed, v, block, &result);
		note(&all, 100 * (result.loss / plain.loss - 1));
		other.end = SPARSE_END_HELD;
		sparse_run(&other, seed, v, block, &result);
		note(&held, 100 * (result.loss / plain.loss - 1));
	}
	(void
	)printf("%-8s v = %-4g block %2u: %5.1f %% of the values, bytes / %5.2f (+- %.2f), loss %.5f: "
		"%+6.2f %% (+- %.2f); all that was held %+6.2f %% (+- %.2f), none %+6.2f %% (+- %.2f)\n",
		name,
		(double)v,
		block,
		values.sum / count,
		cut.sum / count,
		deviation(&cut, count),
		last / count,
		loss.sum / count,
		deviation(&loss, count),
		all.sum / count,
		deviation(&all, count),
		held.sum / count,
		deviation(&held, count));
}

int main(int argc, char **argv) {
	static const float thresholds[] = {0.1f, 0.3f, 0.7f, 2.0f};
	uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : SEEDS;

	seeds = seeds < 1 || seeds > SEEDS_MAX ? SEEDS : seeds;
	(void)printf("%llu seeds; mean (+- standard deviation)\n", (unsigned long long)seeds);
	for (size_t i = 0; i < sizeof thresholds / sizeof thresholds[0]; i++)
		measure("logistic", &sparse_logistic, seeds, thresholds[i], 1);
	measure("logistic", &sparse_logistic, seeds, 0.7f, 8);
	for (size_t i = 0; i < sizeof thresholds / sizeof thresholds[0]; i++)
		measure("pmf", &sparse_ratings, seeds, thresholds[i], 1);
	measure("pmf", &sparse_ratings, seeds, 0.7f, 20);
	return 0;
}
