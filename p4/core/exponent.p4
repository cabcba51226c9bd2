/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All values of a sum have one exponent, that of the chunk that began it. Every chunk proposes one for the next chunk
 * in this slot: the result has the greatest, with which all members send the next.
 */
control hd_exponent(inout hd_headers_t hdr, inout hd_meta_t meta) {
	HD_REGISTER(bit<16>, HD_SWITCH_SLOT_CELLS, exponents)

	apply {
		if (meta.step == HD_STEP_BEGIN) {
			HD_WRITE(exponents, meta.cell, hdr.chunk.exponent)
		} else {
			HD_READ(exponents, meta.exponent, meta.cell)
			if (meta.exponent != hdr.chunk.exponent) {
				meta.counted = HD_COUNTED_drop_exponent;
				meta.step = HD_STEP_NONE;
			}
		}
	}
}

/* The greater of two numbers in two's complement: with the sign bit inverted they compare as unsigned. */
control hd_proposal(inout hd_headers_t hdr, inout hd_meta_t meta) {
	HD_REGISTER(bit<16>, HD_SWITCH_SLOT_CELLS, nexts)

	bit<16> greatest;
	bit<16> mine;

	apply {
		mine = hdr.chunk.next;
		if (meta.step == HD_STEP_BEGIN) {
			meta.next = mine;
			HD_WRITE(nexts, meta.cell, mine)
		} else {
			HD_READ(nexts, meta.next, meta.cell)
			if (meta.step == HD_STEP_ADD) {
				greatest = meta.next ^ 0x8000;
				mine = mine ^ 0x8000;
				if (greatest < mine) {
					meta.next = hdr.chunk.next;
					HD_WRITE(nexts, meta.cell, meta.next)
				}
			}
		}
	}
}
