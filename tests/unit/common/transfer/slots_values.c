/* SPDX-License-Identifier: BSD-3-Clause */
/* What members send, and what its sum is, without any code of the switch's or of its members'. */
#include "hd_kernels.h"
#include "slots_net.h"

#include <math.h>

/* Of a chunk: none, few or many of its values are not finite. */
static double chance(struct net *net) {
	static const double of[] = {0, 0, 1, 20};

	return net->config.strange > 0 ?
		net->config.strange * of[hd_random_below(&net->random, 4)] :
		0;
}

void net_fill(struct net *net, float scale) {
	static const float strange[] = {NAN, INFINITY, -INFINITY};

	for (uint32_t m = 0; m < net->config.members; m++) {
		float chunk = scale;
		double odd = 0;

		for (uint64_t i = 0; i < net->config.values; i++) {
			if (i % net->config.count == 0) { /* each chunk of another size */
				chunk = scale * ldexpf(1, -(int)hd_random_below(&net->random, 20));
				odd = chance(net);
			}
			net->members[m].in[i]
				= chunk * (float)(2 * hd_random_unit(&net->random) - 1);
			if (odd > 0 && hd_random_chance(&net->random, odd))
				net->members[m].in[i] = strange[hd_random_below(&net->random, 3)];
		}
	}
}

uint32_t net_marked(const struct net *net) {
	uint32_t marked = 0;

	for (uint32_t chunk = 0; chunk < net_chunks(net); chunk++) {
		uint64_t first = (uint64_t)chunk * net->config.count,
			 end = first + net->config.count;
		bool odd = false;

		for (uint64_t i = first; i < end && i < net->config.values; i++)
			for (uint32_t m = 0; m < net->config.members; m++)
				odd |= !isfinite(net->members[m].in[i]);
		marked += odd;
	}
	return marked;
}

/* As many as are marked, and as many more as make it an even number in each slot that is used. */
uint32_t net_places(const struct net *net) {
	uint32_t marked = net_marked(net), slots = net->config.slots;

	if (net->config.dtype != HD_DTYPE_FIXED32)
		return 0;
	if (marked <= slots)
		return 2 * marked;
	return (marked + 2 * slots - 1) / (2 * slots) * 2 * slots;
}

static int exponent_of(const struct net *net, uint64_t members, uint64_t first, uint32_t count) {
	float peak = 0;

	for (uint32_t m = 0; m < net->config.members; m++)
		for (uint32_t i = 0; i < count && members >> m & 1; i++)
			if (isfinite(net->members[m].in[first + i]))
				peak = fmaxf(peak, fabsf(net->members[m].in[first + i]));
	return hd_fixed_exponent((double)peak * net->config.members, net->config.members);
}

static float value_of(const struct net *net, uint64_t members, uint64_t i, int exponent) {
	uint32_t count = (uint32_t)__builtin_popcountll(members);
	int64_t sum = 0;
	double odd = 0;
	float value;

	for (uint32_t m = 0; m < net->config.members; m++) {
		double x = (double)net->members[m].in[i];

		if (!(members >> m & 1))
			continue;
		if (isfinite(x))
			sum += (int64_t)lrint(ldexp(x, -exponent));
		else
			odd += x;
	}
	if (odd != 0) /* NaN differs, too */
		return isnan(odd) ? NAN : (float)odd;
	value = (float)(int32_t)sum * ldexpf(1, exponent);
	return net->config.average && count > 1 ? (1.0F / (float)count) * value : value;
}

void net_reference(const struct net *net, uint64_t members, float *out, int16_t *exponents) {
	const struct net_config *config = &net->config;

	for (uint64_t first = 0; first < config->values; first += config->count) {
		uint64_t left = config->values - first, chunk = first / config->count;
		uint32_t count = left < config->count ? (uint32_t)left : config->count;
		int exponent = chunk < config->slots ? config->exponent :
						       exponent_of(net, members, first, count);

		exponents[chunk] = (int16_t)exponent;
		for (uint32_t i = 0; i < count; i++)
			out[first + i] = value_of(net, members, first + i, exponent);
	}
}
