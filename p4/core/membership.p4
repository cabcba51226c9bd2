/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose chunk is it? Its token names a lease and a member of it (an answer's: a receiver). All other fields of the
 * header are compared with those of the lease and the member, so that no tenant can reach another's cells.
 */
control hd_membership(inout hd_headers_t hdr, inout hd_meta_t meta) {
	action unknown() {
		meta.known = 0;
	}

	action member(bit<16> lease, bit<16> worker, bit<64> me, bit<8> index, bit<16> port) {
		meta.known = 1;
		meta.receiver = 0;
		meta.lease = lease;
		meta.worker = worker;
		meta.me = me;
		meta.index = index;
		meta.member_port = port;
	}

	action receiver(bit<16> lease) {
		meta.known = 1;
		meta.receiver = 1;
		meta.lease = lease;
	}

	@name(".tokens") table tokens {
		key = {
			hdr.chunk.token: exact;
		}
		actions = {
			member;
			receiver;
			unknown;
		}
		default_action = unknown();
		size = HD_TOKENS_MAX;
	}

	action ended() {
		meta.known = 0;
	}

	action hold(bit<32> job, bit<16> epoch, bit<8> attempt, bit<16> shard, bit<16> first_slot,
	            bit<16> slot_count, bit<64> waits, bit<64> all, bit<16> members, bit<16> receivers) {
		meta.job = job;
		meta.epoch = epoch;
		meta.attempt = attempt;
		meta.shard = shard;
		meta.first_slot = first_slot;
		meta.slot_count = slot_count;
		meta.waits = waits;
		meta.all = all;
		meta.members = members;
		meta.receivers = receivers;
	}

	@name(".leases") table leases {
		key = {
			meta.lease: exact;
		}
		actions = {
			hold;
			ended;
		}
		default_action = ended();
		size = HD_SWITCH_LEASES_MAX;
	}

	bit<64> waited;
	bit<16> slot;

	apply {
		tokens.apply();
		if (meta.known == 1) {
			leases.apply();
		}
		if (meta.known == 0) {
			meta.counted = HD_COUNTED_drop_token;
		} else if (meta.what == HD_WHAT_CHUNK && meta.receiver == 1) {
			meta.counted = HD_COUNTED_drop_token;
		} else if (meta.what == HD_WHAT_ANSWER && meta.receiver == 0) {
			meta.counted = HD_COUNTED_drop_token;
		} else if (hdr.chunk.job != meta.job || hdr.chunk.epoch != meta.epoch
		           || hdr.chunk.attempt != meta.attempt || hdr.chunk.shard != meta.shard
		           || hdr.chunk.dtype != HD_SWITCH_DTYPE_FIXED32) {
			meta.counted = HD_COUNTED_drop_lease;
		} else if (meta.what == HD_WHAT_ANSWER) {
			meta.counted = HD_COUNTED_answered;
			meta.verdict = HD_VERDICT_COPY;
			meta.copy = HD_SWITCH_COPY_MEMBERS;
		} else {
			waited = meta.waits & meta.me;
			slot = hdr.chunk.slot & 0x7fff;
			if (hdr.chunk.worker != meta.worker || waited == 0) {
				meta.counted = HD_COUNTED_drop_member;
			} else if (slot >= meta.slot_count) {
				meta.counted = HD_COUNTED_drop_slot;
			} else {
				meta.cell = (bit<32>)slot + (bit<32>)meta.first_slot;
				slot = hdr.chunk.slot & HD_SWITCH_SLOT_VERSION;
				if (slot != 0) {
					meta.cell = meta.cell + HD_SWITCH_SLOTS;
				}
			}
		}
	}
}
