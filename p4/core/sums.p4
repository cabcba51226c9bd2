/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adds the lanes, two at a time: the sums of all bits but the signs' cannot carry into the other lane, and a sign is
 * that carry, inverted once for each negative summand:
 *
 *   was     a1 a0          turned = signs of (was ^ v)        v = ((was & ~signs) + (v & ~signs)) ^ turned
 *   v     + b1 b0          overflow: turned is 0, and v's sign is not was's
 *
 * The sign bits of all lanes' overflows are or-ed, for one test at the end. The frame leaves with the sum instead of
 * its values, or it does not leave.
 */
#define HD_SIGNS 0x8000000080000000
#define HD_NO_SIGNS 0x7fffffff7fffffff

control hd_sums(inout hd_headers_t hdr, inout hd_meta_t meta) {
#define HD_PAIR(i) HD_REGISTER(bit<64>, HD_SWITCH_SLOT_CELLS, pair##i)
	HD_EACH_PAIR
#undef HD_PAIR

	bit<64> was;
	bit<64> turned;
	bit<64> plain;

	apply {
		meta.overflow = 0;
		if (meta.step == HD_STEP_ADD) {
#define HD_PAIR(i)                                                                                 \
	HD_READ(pair##i, was, meta.cell)                                                           \
	turned = was ^ hdr.lanes.v##i;                                                             \
	plain = was & HD_NO_SIGNS;                                                                 \
	hdr.lanes.v##i = hdr.lanes.v##i & HD_NO_SIGNS;                                             \
	hdr.lanes.v##i = hdr.lanes.v##i + plain;                                                   \
	turned = turned & HD_SIGNS;                                                                \
	hdr.lanes.v##i = hdr.lanes.v##i ^ turned;                                                  \
	was = was ^ hdr.lanes.v##i;                                                                \
	was = was | turned;                                                                        \
	was = was ^ turned;                                                                        \
	meta.overflow = meta.overflow | was;                                                       \
	HD_WRITE(pair##i, meta.cell, hdr.lanes.v##i)
			HD_EACH_PAIR
#undef HD_PAIR
			meta.overflow = meta.overflow & HD_SIGNS;
		} else if (meta.step == HD_STEP_BEGIN) {
#define HD_PAIR(i) HD_WRITE(pair##i, meta.cell, hdr.lanes.v##i)
			HD_EACH_PAIR
#undef HD_PAIR
		} else {
#define HD_PAIR(i) HD_READ(pair##i, hdr.lanes.v##i, meta.cell)
			HD_EACH_PAIR
#undef HD_PAIR
		}
	}
}

/* The flags of a sum: NOT_FINITE, ECN and LAST of any of its chunks. */
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
