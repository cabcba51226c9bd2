/* SPDX-License-Identifier: BSD-3-Clause */
#include "golden.h"

#include <string.h>

static bool is_before(const struct golden_out *a, const struct golden_out *b) {
	uint32_t bytes = a->bytes < b->bytes ? a->bytes : b->bytes;
	int order;

	if (a->port != b->port)
		return a->port < b->port;
	order = memcmp(a->frame, b->frame, bytes);
	return order < 0 || (order == 0 && a->bytes < b->bytes);
}

void golden_sort(struct golden_outs *outs) {
	static struct golden_out out;

	for (size_t i = 1; i < outs->count; i++) {
		size_t to = i;

		while (to > 0 && is_before(&outs->out[i], &outs->out[to - 1]))
			to--;
		if (to == i)
			continue;
		out = outs->out[i];
		memmove(&outs->out[to + 1], &outs->out[to], (i - to) * sizeof out);
		outs->out[to] = out;
	}
}
