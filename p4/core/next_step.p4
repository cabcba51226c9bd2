/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happens to an accepted chunk: it is absorbed while others are missing; else it leaves as the sum's result, to
 * all members or to the receivers. A repeated chunk's result goes only to its sender (with receivers: to them, who
 * answer again). `seen` has the members in the sum.
 */
control hd_next_step(inout hd_headers_t hdr, inout hd_meta_t meta) {
	bit<64> held;
	bit<8> flag;

	apply {
		held = meta.seen & meta.waits;
		if (held != meta.waits) {
			meta.counted = HD_COUNTED_absorbed;
		} else {
			meta.verdict = HD_VERDICT_COPY;
			meta.counted = HD_COUNTED_completed;
			flag = meta.flags & HD_SWITCH_FLAG_NOT_FINITE;
			if (flag != 0 && meta.step != HD_STEP_REPEAT) {
				meta.not_finite = 1;
			}
			meta.copy = HD_SWITCH_COPY_MEMBERS;
			if (meta.receivers != 0) {
				meta.copy = HD_SWITCH_COPY_RECEIVERS;
			}
			if (meta.step == HD_STEP_REPEAT) {
				meta.counted = HD_COUNTED_repeated;
				meta.flags = meta.flags | HD_SWITCH_FLAG_RESEND;
				if (meta.receivers == 0) {
					meta.copy = meta.index;
				}
			}
			if (meta.seen != meta.all) {
				meta.flags = meta.flags | HD_SWITCH_FLAG_PARTIAL;
			}
			hdr.prefix.version_type = HD_SWITCH_WIRE_VERSION << 4 | HD_SWITCH_TYPE_RESULT;
			hdr.prefix.flags = meta.flags;
			hdr.chunk.worker = 0xffff;
			hdr.chunk.version = meta.seen;
			hdr.chunk.next = meta.next;
		}
	}
}
