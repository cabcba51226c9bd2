/* SPDX-License-Identifier: BSD-3-Clause */
/* The significance filter's pass over a model, one value at a time: the reference. */
#include "hd_kernels_impl.h"

#include <float.h>
#include <math.h>
#include <string.h>

void hd_filter_scalar(
	const struct hd_filter_arrays *arrays,
	size_t count,
	const struct hd_filter_step *step,
	struct hd_filter_sums *sums
) {
	memset(arrays->mask, 0, (count + 7) / 8);
	for (size_t i = 0; i < count; i++) {
		float a = arrays->held[i] + arrays->update[i];
		float moved = step->factor * arrays->update[i];
		float x = arrays->x[i] + moved;
		float bound = step->threshold * fabsf(x);
		/* Like SIMD's minimum: a value beyond FLT_MAX is significant for any x. */
		bool significant
			= !(fabsf(step->factor * a) <= (FLT_MAX < bound ? FLT_MAX : bound));
		float sent = significant ? a : 0.0F, held = significant ? 0.0F : a;

		arrays->x[i] = x;
		arrays->update[i] = sent;
		arrays->held[i] = held;
		arrays->mask[i / 8]
			= (uint8_t)(arrays->mask[i / 8] | (unsigned)significant << i % 8);
		sums->sent2 += (double)sent * (double)sent;
		sums->held2 += (double)held * (double)held;
		sums->sent += significant;
	}
}
