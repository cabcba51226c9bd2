/* SPDX-License-Identifier: BSD-3-Clause */
/* What comes back: sums, and what they tell about the way. hd_slots.c has what leaves. */
#include "hd_kernels.h"
#include "hd_slots.h"
#include "hd_slots_state.h"

#include <math.h>
#include <string.h>

#define CUT_MARKED 0.85 /* of the rate, a mark */
#define CUT_DELAY 0.95 /* the queueing delay has grown */
#define QUEUE_PART 4 /* of the least round trip: a queue that is short */
#define QUEUE_NS (250 * HD_US) /* or so long */
#define DRAIN 0.98 /* of what came of late */
#define GROW (1.0 / 64) /* of the granted rate, a round trip */

/* --- the way -------------------------------------------------------------------------------- */

/* When the packet that completed the sum, or asked for it again, left us; 0: it was another member's, or old. */
static hd_ns left_at(const struct hd_slots *slots, const struct hd_slot *slot, uint32_t packet) {
	if (packet == hd_slots_packet(slots->config.member, slot->last))
		return slot->last_at;
	if (packet == hd_slots_packet(slots->config.member, slot->first))
		return slot->first_at;
	return 0;
}

/* A sum of a chunk that was sent once took as long as the slowest member. */
static void learn_wait(struct hd_slots *slots, hd_ns took) {
	hd_ns error;

	if (slots->wait == 0) {
		slots->wait = hd_ns_max(took, 1);
		slots->wait_var = took / 2;
		return;
	}
	error = took > slots->wait ? took - slots->wait : slots->wait - took;
	slots->wait_var = slots->wait_var - slots->wait_var / 4 + error / 4;
	slots->wait = hd_ns_max(slots->wait - slots->wait / 8 + took / 8, 1);
}

/* Packets of one burst wait behind each other: of a round trip's samples the least says how long the queue is. */
static bool queue_grown(struct hd_slots *slots, hd_ns now, hd_ns rtt) {
	hd_ns least = slots->config.path->rtt_min, most;

	slots->least = hd_ns_min(slots->least, rtt);
	if (now - slots->round_at < hd_slots_rtt(slots))
		return false;
	most = hd_ns_add(least, hd_ns_max(least / QUEUE_PART, QUEUE_NS));
	slots->got_bps = (double)slots->round_sums * (slots->chunk_bytes + HD_CHUNK_OVERHEAD_BYTES)
		* 8e9 / (double)(now - slots->round_at);
	least = slots->least;
	slots->least = HD_NEVER;
	slots->round_at = now;
	slots->round_sums = 0;
	return least > most;
}

/* A mark, or a queue that has grown: a little less for a round trip; without: slowly more. The slots are the window:
 * they bound what others have to wait behind. */
static void steer(struct hd_slots *slots, hd_ns now, bool marked, bool grown) {
	hd_ns rtt = hd_slots_rtt(slots);

	if (marked || grown) {
		double share = slots->share * (marked ? CUT_MARKED : CUT_DELAY);
		/* A queue drains as soon as less comes than leaves: not much less. */
		double drains = DRAIN * slots->got_bps / (double)(slots->config.rate_bps + 1);

		if (now - slots->cut_at < rtt)
			return;
		if (!marked && slots->config.rate_bps > 0)
			share = fmin(fmax(share, drains), slots->share);
		slots->share = fmax(share, HD_SLOTS_SHARE_MIN);
		slots->cut_at = slots->grew_at = now;
	} else if (now - slots->grew_at >= rtt) {
		slots->share = fmin(slots->share + GROW, HD_SLOTS_SHARE_MAX);
		slots->grew_at = now;
	}
}

static void
learn(struct hd_slots *slots,
      hd_ns now,
      const struct hd_slot *slot,
      const struct hd_chunk_header *header) {
	struct hd_path *path = slots->config.path;
	hd_ns left = left_at(slots, slot, header->packet);
	bool ours = header->packet >> HD_SLOTS_MEMBER_SHIFT == slots->config.member;
	bool marked = header->flags & HD_CHUNK_ECN, grown = false;
	uint32_t number = header->packet & (HD_SLOTS_PACKETS_MAX - 1);

	if (left != 0) {
		struct hd_ack_info info = {.rtt = hd_ns_max(now - left, 1)};

		hd_path_on_ack(path, now, &info);
		grown = queue_grown(slots, now, info.rtt);
	}
	if (slot->resends == 0)
		learn_wait(slots, now - slot->first_at);
	/* Of several copies the first, unless the sum says which. */
	number = ours && number == slot->last ? number : slot->first;
	if (!slots->any || number > slots->largest)
		slots->largest = number;
	slots->any = true;
	slots->round_sums++;
	slots->stats.marked += marked;
	steer(slots, now, marked, grown);
}

/* --- sums ----------------------------------------------------------------------------------- */

/* What all of a lease's sums have in common. */
static bool is_ours(const struct hd_slots *slots, const struct hd_chunk_header *header) {
	const struct hd_slots_config *config = &slots->config;

	if (header->token != config->result_token || header->job != config->job
	    || header->epoch != config->epoch || header->attempt != config->attempt
	    || header->shard != config->shard || header->round != config->round
	    || header->dtype != config->dtype || header->count != config->count)
		return false;
	if (__builtin_popcountll(header->version) > config->members)
		return false;
	return header->chunk < slots->stats.chunks && header->version != 0
		&& header->slot == hd_slots_slot(slots, header->chunk);
}

/* The sum of a chunk that one member could not express is nobody's. */
static void spoil(float *out, uint32_t count) {
	for (uint32_t i = 0; i < count; i++)
		out[i] = NAN;
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
		memcpy(out, payload, count * sizeof(*out));
	} else if (not_finite) {
		spoil(out, count);
	} else {
		/* Aligned as the packet is: 56 bytes behind a header that the kernels do not care about. */
		hd_fixed_to_f32(
			out, (const uint32_t *)(const void *)payload, count, header->exponent
		);
	}
	if (config->average && members > 1)
		hd_scale_f32(out, out, count, 1.0F / (float)members);
}

/* The slot's next chunk, with the exponent that the sum names. */
static void advance(struct hd_slots *slots, hd_ns now, uint32_t index, int16_t exponent) {
	struct hd_slot *slot = &slots->slot[index];

	if (exponent > HD_FIXED_EXPONENT_MAX)
		exponent = HD_FIXED_EXPONENT_MAX;
	slot->chunk += slots->config.slots;
	slot->lost = false;
	slot->missed_at = 0;
	slot->exponent = slots->config.dtype == HD_DTYPE_FIXED32 ? exponent : (int16_t)0;
	if (slot->chunk >= slots->stats.chunks) {
		slot->state = HD_SLOT_IDLE;
		return;
	}
	slot->state = HD_SLOT_READY;
	hd_slots_push(slots, &slots->ready, now, index);
}

static enum hd_slots_result fail(struct hd_slots *slots, hd_ns now, enum hd_reason why) {
	hd_slots_end(slots, now, HD_SLOTS_FAILED, why);
	return HD_SLOTS_END;
}

static enum hd_slots_result drop(uint64_t *counter, enum hd_slots_result result) {
	(*counter)++;
	return result;
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

	if (!is_ours(slots, header) || payload_bytes != slots->chunk_bytes)
		return drop(&stats->mismatches, HD_SLOTS_MISMATCH);
	if (stats->state != HD_SLOTS_ACTIVE || slot->chunk > header->chunk)
		return drop(&stats->duplicates, HD_SLOTS_DUPLICATE);
	/* The others go on without us, at any chunk. */
	if (!(header->version >> slots->config.member & 1))
		return fail(slots, now, HD_REASON_LEASE);
	if (slot->state != HD_SLOT_FLYING || slot->chunk != header->chunk
	    || slot->exponent != header->exponent || header->next < slot->next)
		return drop(&stats->mismatches, HD_SLOTS_MISMATCH);
	if (stats->members != 0 && stats->members != header->version)
		return fail(slots, now, HD_REASON_VOID);
	stats->members = header->version;
	stats->repeated += (header->flags & HD_CHUNK_RESEND) != 0;
	learn(slots, now, slot, header);
	store(slots, header, payload);
	hd_slots_unlink(slots, index);
	slots->probe_from = now;
	slots->timeouts = 0;
	advance(slots, now, index, header->next);
	if (++stats->sums < stats->chunks)
		return HD_SLOTS_NEW;
	hd_slots_end(slots, now, HD_SLOTS_DONE, HD_REASON_NONE);
	return HD_SLOTS_END;
}
