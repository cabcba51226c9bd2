/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vectors through one executor: the same frames out, by port, and the same counters.
 *
 *     switch_vectors EXECUTOR FILE...
 */
#include "vectors.h"

#include <string.h>

static const struct golden_executor *const executors[] = {
	&golden_model,
	&golden_native,
#ifdef GOLDEN_WITH_SWX
	&golden_swx,
#endif
};

static const struct golden_executor *find(const char *name) {
	for (size_t i = 0; i < sizeof executors / sizeof executors[0]; i++)
		if (strcmp(executors[i]->name, name) == 0)
			return executors[i];
	return NULL;
}

int main(int argc, char **argv) {
	const struct golden_executor *executor = argc > 1 ? find(argv[1]) : NULL;

	if (!executor || argc < 3) {
		(void)fprintf(stderr, "usage: switch_vectors model|native|swx FILE...\n");
		return 64;
	}
	for (int i = 2; i < argc; i++) {
		size_t frames;

		if (replay(argv[i], executor, &frames) != 0)
			return 1;
		printf("%s: %s: %zu frames\n", executor->name, argv[i], frames);
		if (frames == 0)
			return 1;
	}
	return 0;
}
