/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loses frames on purpose, the same ones in every executor: a xorshift state (13, 17, 5) advances once a frame, and a
 * frame is lost when its upper 24 bits are below the threshold. Threshold 0: off, and the state does not advance.
 */
control hd_simulate(inout hd_headers_t hdr, inout hd_meta_t meta) {
	HD_REGISTER(bit<32>, 2, simulator) /* state, threshold */
	bit<32> threshold;
	bit<32> turning;
	bit<32> moved;

	apply {
		HD_READ(simulator, threshold, 1)
		if (threshold != 0) {
			HD_READ(simulator, turning, 0)
			moved = turning << 13;
			turning = turning ^ moved;
			moved = turning >> 17;
			turning = turning ^ moved;
			moved = turning << 5;
			turning = turning ^ moved;
			HD_WRITE(simulator, 0, turning)
			moved = turning >> 8;
			if (moved < threshold) {
				meta.counted = HD_COUNTED_drop_simulated;
			}
		}
	}
}
