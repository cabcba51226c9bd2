/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares the chunk with its cell. Cells remember the greatest (round, chunk) that they were used for: an older chunk
 * is stale, a newer one takes the cell. From here to the end of sums.p4 no table may be looked up: on DPDK's pipeline
 * other packets run during a look-up, and would come between a register's read and its write.
 */
control hd_cell(inout hd_headers_t hdr, inout hd_meta_t meta) {
	HD_REGISTER(bit<64>, HD_SWITCH_SLOT_CELLS, keys)

	bit<64> chunk;

	apply {
		meta.k = (bit<64>)hdr.chunk.round;
		meta.k = meta.k << 32;
		chunk = (bit<64>)hdr.chunk.chunk;
		meta.k = meta.k | chunk;
		HD_READ(keys, meta.cell_key, meta.cell)
		if (meta.k < meta.cell_key) {
			meta.counted = HD_COUNTED_drop_stale;
		} else if (meta.k == meta.cell_key) {
			meta.step = HD_STEP_SAME;
		} else {
			meta.step = HD_STEP_BEGIN;
			HD_WRITE(keys, meta.cell, meta.k)
		}
	}
}
