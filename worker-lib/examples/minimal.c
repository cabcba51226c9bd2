/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-run -n 4 --server 127.0.0.1 --key-file key minimal: four workers move w towards (0, 1, ... 9). */
#include <heddle.h>
#include <stdio.h>

int main(void) {
	const uint64_t ten = 10;
	struct heddle_spec *spec;
	struct heddle *fabric;
	struct heddle_status status = HEDDLE_STATUS_INIT;
	float w[10], g[10];
	int rc = 0;

	if (heddle_spec_create(NULL, NULL, &spec) < 0
	    || heddle_spec_add_tensor(spec, "w", &ten, 1, HEDDLE_INIT_ZERO, 0) < 0
	    || heddle_open(spec, NULL, &fabric) < 0)
		return fprintf(stderr, "%s\n", heddle_last_error()), 1;
	for (int step = 0; step < 500; step++) {
		rc = heddle_pull(fabric, w, NULL, -1, &status);
		if (rc < 0)
			break;
		for (int i = 0; i < 10; i++)
			g[i] = w[i] - (float)i; /* of |w - target|^2 / 2 */
		rc = heddle_push(fabric, g, status.version, NULL, -1, NULL);
		if (rc < 0) /* 1: dropped, too old to help */
			break;
	}
	if (rc < 0)
		return fprintf(stderr, "%s\n", heddle_last_error()), 1;
	printf("w[9] = %.3f\n", w[9]);
	heddle_spec_destroy(spec);
	return heddle_close(fabric, 1000) < 0;
}
