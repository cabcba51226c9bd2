/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lanes. An overflow: both summands have the sign that the sum has not; the sign bits of all lanes are or-ed, for
 * one test at the end. The frame leaves with the sum instead of its values, or it does not leave.
 */
control hd_sums(inout hd_headers_t hdr, inout hd_meta_t meta) {
#define HD_LANE(i) HD_REGISTER(bit<32>, HD_SWITCH_SLOT_CELLS, lane##i)
	HD_EACH_LANE
#undef HD_LANE

	bit<32> was;
	bit<32> turned;

	apply {
		meta.overflow = 0;
		if (meta.step == HD_STEP_ADD) {
#define HD_LANE(i)                                                                                 \
	HD_READ(lane##i, was, meta.cell)                                                          \
	turned = was ^ hdr.lanes.v##i;                                                             \
	hdr.lanes.v##i = hdr.lanes.v##i + was;                                                     \
	was = was ^ hdr.lanes.v##i;                                                                \
	turned = turned ^ was;                                                                     \
	turned = turned & was;                                                                     \
	meta.overflow = meta.overflow | turned;                                                    \
	HD_WRITE(lane##i, meta.cell, hdr.lanes.v##i)
			HD_EACH_LANE
#undef HD_LANE
			meta.overflow = meta.overflow & 0x80000000;
		} else if (meta.step == HD_STEP_BEGIN) {
#define HD_LANE(i) HD_WRITE(lane##i, meta.cell, hdr.lanes.v##i)
			HD_EACH_LANE
#undef HD_LANE
		} else {
#define HD_LANE(i) HD_READ(lane##i, hdr.lanes.v##i, meta.cell)
			HD_EACH_LANE
#undef HD_LANE
		}
	}
}

/* What a sum is told with: NOT_FINITE, ECN and LAST of any of its chunks. */
control hd_flags(inout hd_headers_t hdr, inout hd_meta_t meta) {
	HD_REGISTER(bit<8>, HD_SWITCH_SLOT_CELLS, flags)

	bit<8> mine;
	bit<8> congestion;

	apply {
		meta.flags = 0;
		if (meta.step != HD_STEP_BEGIN) {
			HD_READ(flags, meta.flags, meta.cell)
		}
		if (meta.step != HD_STEP_REPEAT) {
			mine = hdr.prefix.flags & (HD_SWITCH_FLAG_NOT_FINITE | HD_SWITCH_FLAG_ECN | HD_SWITCH_FLAG_LAST);
			congestion = hdr.ipv4.tos & 3;
			if (congestion == 3) {
				mine = mine | HD_SWITCH_FLAG_ECN;
			}
			if (meta.overflow != 0) {
				mine = mine | HD_SWITCH_FLAG_NOT_FINITE;
			}
			meta.flags = meta.flags | mine;
			HD_WRITE(flags, meta.cell, meta.flags)
		}
	}
}
