/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of controls, the same on all targets. A target sets meta.port and meta.bytes before, and executes
 * meta.verdict after.
 *
 *   simulate -> classify --ordinary--> forward
 *                  `------for us-----> membership -> cell -> exponent -> seen -> sums -> flags -> proposal -> next step
 */
control hd_pipeline(inout hd_headers_t hdr, inout hd_meta_t meta) {
	HD_COUNTER_ARRAY(HD_COUNTERS, counters)

#ifdef HD_ADD
	bit<32> copies;
#endif

	hd_simulate() simulate;
	hd_classify() classify;
	hd_forward() forward;
	hd_membership() membership;
	hd_cell() cell;
	hd_exponent() exponent;
	hd_seen() seen;
	hd_sums() sums;
	hd_flags() flags;
	hd_proposal() proposal;
	hd_next_step() next_step;

	apply {
		meta.counted = HD_COUNTED_NONE;
		meta.verdict = HD_VERDICT_DROP;
		meta.copy = 0;
		meta.overtaken = 0;
		meta.not_finite = 0;
		meta.step = HD_STEP_NONE;
		simulate.apply(hdr, meta);
		if (meta.counted == HD_COUNTED_NONE) {
			classify.apply(hdr, meta);
			if (meta.what == HD_WHAT_ORDINARY) {
				forward.apply(hdr, meta);
			} else if (meta.counted == HD_COUNTED_NONE) {
				membership.apply(hdr, meta);
				if (meta.counted == HD_COUNTED_NONE) {
					cell.apply(hdr, meta);
					if (meta.step != HD_STEP_NONE) {
						exponent.apply(hdr, meta);
					}
					if (meta.step != HD_STEP_NONE) {
						seen.apply(hdr, meta);
					}
					if (meta.step != HD_STEP_NONE) {
						sums.apply(hdr, meta);
						flags.apply(hdr, meta);
						proposal.apply(hdr, meta);
						next_step.apply(hdr, meta);
					}
				}
			}
		}
		HD_COUNT(counters, meta.counted)
		if (meta.overtaken == 1) {
			HD_COUNT(counters, HD_COUNTED_overtaken)
		}
		if (meta.not_finite == 1) {
			HD_COUNT(counters, HD_COUNTED_not_finite)
		}
#ifdef HD_ADD
		if (meta.verdict == HD_VERDICT_COPY) {
			copies = 1;
			if (meta.copy == HD_SWITCH_COPY_MEMBERS) {
				copies = (bit<32>)meta.members;
			} else if (meta.copy == HD_SWITCH_COPY_RECEIVERS) {
				copies = (bit<32>)meta.receivers;
			}
			HD_ADD(counters, HD_COUNTED_copies, copies)
		}
#endif
	}
}
