/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which members are in the cell's sum? One bit a member: a repeated chunk is added only once.
 */
control hd_seen(inout hd_headers_t hdr, inout hd_meta_t meta) {
	HD_REGISTER(bit<64>, HD_SWITCH_SLOT_CELLS, seens)

	bit<64> held;

	apply {
		HD_READ(seens, meta.seen, meta.cell)
		if (meta.step == HD_STEP_BEGIN) {
			held = meta.seen & meta.waits;
			if (meta.cell_key != 0 && held != meta.waits) {
				meta.overtaken = 1;
			}
			meta.seen = meta.me;
			HD_WRITE(seens, meta.cell, meta.seen)
		} else {
			held = meta.seen & meta.me;
			if (held == 0) {
				meta.step = HD_STEP_ADD;
				meta.seen = meta.seen | meta.me;
				HD_WRITE(seens, meta.cell, meta.seen)
			} else {
				meta.step = HD_STEP_REPEAT;
				held = meta.seen & meta.waits;
				if (held != meta.waits) {
					meta.step = HD_STEP_NONE;
					meta.counted = HD_COUNTED_drop_duplicate;
				}
			}
		}
	}
}
