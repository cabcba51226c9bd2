/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages on a host: the device's operations in the device's order. */
#include "hd_stages.h"

#define GROUP 32 /* lanes that are summed first: a warp of a device */

/* Halves the number of lanes until one is left: i += i + half. */
static double tree(double *lane) {
	for (size_t half = GROUP / 2; half > 0; half /= 2)
		for (size_t i = 0; i < half; i++)
			lane[i] += lane[i + half];
	return lane[0];
}

void hd_take_block(const struct hd_take *take, uint64_t block) {
	uint64_t first = block * HD_STAGE_VALUES;
	uint32_t count = hd_stage_count(take->values, block);
	struct hd_stage_sums sums = {.not_finite = HD_STAGE_FINITE};
	double lanes[HD_STAGE_LANES] = {0}, group[GROUP];

	for (uint32_t i = 0; i < count; i++) {
		float x = take->from[first + i];
		uint32_t bits;

		if (hd_stage_bits(take->scale) != hd_stage_bits(1.0F))
			x = hd_stage_mul(take->scale, x);
		bits = hd_stage_bits(x) & 0x7fffffff;
		if (take->copy)
			take->copy[first + i] = x;
		if (sums.not_finite == HD_STAGE_FINITE && !hd_stage_is_finite_as(take->dtype, x))
			sums.not_finite = i;
		sums.peak = bits > sums.peak ? bits : sums.peak;
		lanes[i / 4 % HD_STAGE_LANES] += (double)x * (double)x;
	}
	for (size_t i = 0; i < GROUP; i++)
		group[i] = tree(&lanes[i * GROUP]);
	sums.norm2 = tree(group);
	take->sums[block] = sums;
}

static void pack_half(const struct hd_pack *pack, uint64_t first, uint32_t count, bool *unfit) {
	uint16_t *to = (uint16_t *)pack->to + first;

	for (uint32_t i = 0; i < count; i++) {
		float x = hd_stage_mul(pack->weight, pack->from[first + i]);

		*unfit |= !hd_stage_is_finite_as(pack->dtype, x);
		to[i] = hd_stage_half(pack->dtype, x);
	}
}

static void pack_fixed(const struct hd_pack *pack, uint64_t first, uint32_t count, bool *unfit) {
	uint32_t *to = (uint32_t *)pack->to + first;

	for (uint32_t i = 0; i < count; i++)
		to[i] = hd_stage_fixed(
			hd_stage_mul(pack->unit, hd_stage_mul(pack->weight, pack->from[first + i])),
			unfit
		);
}

static void pack_f32(const struct hd_pack *pack, uint64_t first, uint32_t count, bool *unfit) {
	bool scaled = hd_stage_bits(pack->weight) != hd_stage_bits(1.0F);
	float *to = (float *)pack->to + first;

	for (uint32_t i = 0; i < count; i++) {
		float x = pack->from[first + i];

		to[i] = scaled ? hd_stage_mul(pack->weight, x) : x;
		*unfit |= !hd_stage_is_finite(to[i]);
	}
}

void hd_pack_block(const struct hd_pack *pack, uint64_t block) {
	uint64_t first = block * HD_STAGE_VALUES;
	uint32_t count = hd_stage_count(pack->values, block);
	bool unfit = false;

	if (pack->dtype == HD_DTYPE_FP32)
		pack_f32(pack, first, count, &unfit);
	else if (pack->dtype == HD_DTYPE_FIXED32)
		pack_fixed(pack, first, count, &unfit);
	else
		pack_half(pack, first, count, &unfit);
	/* A reader that sees the flag also sees the bytes. */
	__atomic_store_n(
		&pack->flags[block], (uint64_t)unfit << 32 | pack->generation, __ATOMIC_RELEASE
	);
}

void hd_unpack_block(const struct hd_unpack *unpack, uint64_t block) {
	uint64_t first = block * HD_STAGE_VALUES;
	uint32_t count = hd_stage_count(unpack->values, block);
	float *to = unpack->to + first;

	if (unpack->dtype == HD_DTYPE_FP32) {
		memcpy(to, (const float *)unpack->from + first, count * sizeof *to);
		return;
	}
	if (unpack->dtype == HD_DTYPE_FIXED32) {
		for (uint32_t i = 0; i < count; i++)
			to[i] = hd_stage_from_fixed(
				((const uint32_t *)unpack->from)[first + i], unpack->unit
			);
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		to[i] = hd_stage_from_half(
			unpack->dtype, ((const uint16_t *)unpack->from)[first + i]
		);
}
