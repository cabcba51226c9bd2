/* SPDX-License-Identifier: BSD-3-Clause */
/* Received sums, and what they show about the path. hd_slots.c sends. */
#include "hd_kernels.h"
#include "hd_slots.h"
#include "hd_slots_state.h"

#include <string.h>

/* --- the path ------------------------------------------------------------------------------- */

/* The round trip of one of our packets: if its chunk was sent once, until its sum; else if the sum names the packet,
 * ours, that completed or requested it. Includes the other members' lateness: a member ahead of them should not put
 * more into the network. 0: unknown. */
static hd_ns
took(const struct hd_slots *slots, hd_ns now, const struct hd_slot *slot, uint32_t packet) {
	if (slot->resends == 0)
		return hd_ns_max(now - slot->first_at, 1);
	if (packet == hd_slots_packet(slots->config.member, slot->last))
		return hd_ns_max(now - slot->last_at, 1);
	return 0;
}

/* Bytes known to be lost on our own links: the chunk, if the retransmitted copy completed the sum; the sum, if it came
 * only to us. Each chunk makes two trips. */
static uint64_t lost_bytes(
	const struct hd_slots *slots,
	const struct hd_slot *slot,
	const struct hd_chunk_header *header
) {
	bool again = header->flags & HD_CHUNK_RESEND;
	bool ours = header->packet == hd_slots_packet(slots->config.member, slot->last);

	if (slot->resends == 0 || !(again || ours))
		return 0;
	return hd_slots_packet_bytes(slots) / 2;
}

static void
learn(struct hd_slots *slots,
      hd_ns now,
      const struct hd_slot *slot,
      const struct hd_chunk_header *header) {
	uint32_t number = header->packet & (HD_SLOTS_PACKETS_MAX - 1);
	bool ours = header->packet >> HD_SLOTS_MEMBER_SHIFT == slots->config.member;
	struct hd_ack_info info = {
		.acked_bytes = hd_slots_packet_bytes(slots),
		.lost_bytes = lost_bytes(slots, slot, header),
		.lost_sent_at = slot->first_at,
		.lost_bursts = 1,
		.marked = (header->flags & HD_CHUNK_ECN) != 0,
		.rtt = took(slots, now, slot, header->packet),
	};

	hd_path_on_ack(slots->config.path, now, &info);
	slots->stats.marked += info.marked;
	slots->stats.lost += info.lost_bytes > 0;
	/* Of several copies the first, unless the sum names one. */
	number = ours && number == slot->last ? number : slot->first;
	if (!slots->any || number > slots->largest)
		slots->largest = number;
	slots->any = true;
}

/* --- sums ----------------------------------------------------------------------------------- */

/* The properties common to all sums of a lease. */
static bool is_ours(const struct hd_slots *slots, const struct hd_chunk_header *header) {
	const struct hd_slots_config *config = &slots->config;

	if (header->token != config->result_token || header->job != config->job
	    || header->epoch != config->epoch || header->attempt != config->attempt
	    || header->shard != config->shard || header->round != config->round
	    || header->dtype != config->dtype
	    || header->count != (config->lanes ? 0 : config->count))
		return false;
	if (__builtin_popcountll(header->version) > config->members)
		return false;
	if (config->lanes && header->worker >= config->receivers)
		return false;
	return header->chunk < slots->chunk_end && header->version != 0
		&& header->slot == hd_slots_slot(slots, header->chunk);
}

static void
store(struct hd_slots *slots, const struct hd_chunk_header *header, const uint8_t *payload) {
	const struct hd_slots_config *config = &slots->config;
	float *out = config->out + (uint64_t)header->chunk * config->count;
	uint32_t count = hd_slots_values(slots, header->chunk);
	int members = __builtin_popcountll(header->version);
	bool not_finite = header->flags & HD_CHUNK_NOT_FINITE;

	slots->stats.not_finite += not_finite;
	if (config->dtype == HD_DTYPE_FP32) {
		memcpy(out, payload, count * sizeof *out);
	} else {
		/* Aligned like the packet: behind a header of 56 bytes, which the kernels accept. */
		hd_fixed_to_f32(
			out, (const uint32_t *)(const void *)payload, count, header->exponent
		);
		if (not_finite)
			hd_slots_mark(slots, header->chunk);
	}
	if (config->average && members > 1)
		hd_scale_f32(out, out, count, 1.0F / (float)members);
}

/* Starts the slot's next chunk, with the exponent from the sum. */
static void advance(struct hd_slots *slots, hd_ns now, uint32_t index, int16_t exponent) {
	struct hd_slot *slot = &slots->slot[index];

	if (exponent > HD_FIXED_EXPONENT_MAX)
		exponent = HD_FIXED_EXPONENT_MAX;
	slot->chunk += slots->config.slots;
	slot->lost = false;
	slot->missed_at = 0;
	slot->answers = 0;
	if (slots->config.dtype == HD_DTYPE_FIXED32)
		slot->exponent = exponent;
	if (slot->chunk >= slots->chunk_end) {
		slot->state = HD_SLOT_IDLE;
		return;
	}
	slot->state = HD_SLOT_READY;
	hd_slots_ready(slots, now, index);
}

static enum hd_slots_result fail(struct hd_slots *slots, hd_ns now, enum hd_reason why) {
	hd_slots_end(slots, now, HD_SLOTS_FAILED, why);
	return HD_SLOTS_END;
}

static enum hd_slots_result drop(uint64_t *counter, enum hd_slots_result result) {
	(*counter)++;
	return result;
}

/* A receiver has the sum. True when all have. */
static bool answered(const struct hd_slots *slots, struct hd_slot *slot, uint16_t receiver) {
	slot->answers = (uint8_t)(slot->answers | 1U << receiver);
	return slot->answers == (1U << slots->config.receivers) - 1;
}

enum hd_slots_result hd_slots_take(
	struct hd_slots *slots,
	hd_ns now,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
) {
	struct hd_slots_stats *stats = &slots->stats;
	uint32_t index = header->chunk % slots->config.slots;
	struct hd_slot *slot = &slots->slot[index];
	const bool push = slots->config.lanes;

	if (!is_ours(slots, header) || payload_bytes != (push ? 0 : slots->chunk_bytes))
		return drop(&stats->mismatches, HD_SLOTS_MISMATCH);
	if (stats->state != HD_SLOTS_ACTIVE || slot->chunk > header->chunk)
		return drop(&stats->duplicates, HD_SLOTS_DUPLICATE);
	/* The others continue without us. */
	if (!(header->version >> slots->config.member & 1))
		return fail(slots, now, HD_REASON_LEASE);
	if (slot->state != HD_SLOT_FLYING || slot->chunk != header->chunk
	    || slot->exponent != header->exponent || header->next < slot->next)
		return drop(&stats->mismatches, HD_SLOTS_MISMATCH);
	if (stats->members != 0 && stats->members != header->version)
		return fail(slots, now, HD_REASON_VOID);
	if (push && (slot->answers >> header->worker & 1) != 0)
		return drop(&stats->duplicates, HD_SLOTS_DUPLICATE);
	stats->members = header->version;
	slots->probe_from = now;
	slots->timeouts = 0;
	if (push && !answered(slots, slot, header->worker))
		return HD_SLOTS_NEW;
	stats->repeated += (header->flags & HD_CHUNK_RESEND) != 0;
	learn(slots, now, slot, header);
	if (push)
		stats->not_finite += (header->flags & HD_CHUNK_NOT_FINITE) != 0;
	else if (header->chunk < slots->values_end)
		store(slots, header, payload);
	else if (!hd_slots_places_take(slots, header, payload))
		return fail(slots, now, HD_REASON_NOT_FINITE);
	hd_slots_unlink(slots, index);
	advance(slots, now, index, header->next);
	if (++stats->sums < stats->chunks)
		return HD_SLOTS_NEW;
	if (slots->chunk_end == slots->values_end && hd_slots_places_begin(slots, now))
		return HD_SLOTS_NEW;
	hd_slots_end(slots, now, HD_SLOTS_DONE, HD_REASON_NONE);
	return HD_SLOTS_END;
}
