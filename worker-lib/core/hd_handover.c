/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_assert.h"
#include "hd_handover.h"

#include <string.h>

#define AT_LAYOUT HD_ROLL_VALUES
#define AT_ITEMS (HD_ROLL_VALUES + HD_EQUAL_VALUES)

void hd_handover_init(struct hd_handover *h, const struct hd_handover_config *config) {
	hd_assert(config->bytes > 0 && config->part_bytes > 0);
	hd_assert(!config->has || config->version < HD_ROLL_STEPS_MAX);
	*h = (struct hd_handover){.config = *config};
}

/* An initial state is none that another worker's must be equal to. */
static bool is_sure(const struct hd_handover *h) {
	return h->config.has && h->config.version > 0 && !h->config.late;
}

static void end(struct hd_handover *h, enum hd_handover_outcome outcome) {
	h->stage = HD_HANDOVER_ENDED;
	h->outcome = outcome;
}

static void begin_roll(struct hd_handover *h, struct hd_handover_call *call) {
	const struct hd_roll_answer answer = {
		.rank = h->config.rank,
		.has_model = h->config.has,
		.sure = is_sure(h),
		.step = h->config.has ? h->config.version : 0,
	};

	call->roll = true;
	hd_roll_pack(&answer, call->values);
	hd_equal_pack(h->config.layout, call->values + AT_LAYOUT);
	call->values[AT_ITEMS] = h->config.items;
}

static void begin_part(struct hd_handover *h, struct hd_handover_call *call) {
	const uint64_t left = h->config.bytes - h->begun;

	call->role = h->role;
	call->source = (uint16_t)h->roll.source;
	call->first = h->begun;
	call->bytes = left < h->config.part_bytes ? left : h->config.part_bytes;
	h->begun += call->bytes;
}

static bool may_begin(const struct hd_handover *h) {
	if (h->stage == HD_HANDOVER_ROLL)
		return h->in_flight == 0;
	return h->stage == HD_HANDOVER_PARTS && h->in_flight < HD_HANDOVER_PARTS_MAX
		&& h->begun < h->config.bytes;
}

bool hd_handover_next(struct hd_handover *h, struct hd_handover_call *call) {
	if (h->stage == HD_HANDOVER_DRAINING && h->in_flight == 0)
		h->stage = HD_HANDOVER_ROLL;
	if (!may_begin(h))
		return false;
	memset(call, 0, sizeof *call);
	if (h->stage == HD_HANDOVER_ROLL)
		begin_roll(h, call);
	else
		begin_part(h, call);
	h->in_flight++;
	return true;
}

static enum hd_handover_role role_of(const struct hd_handover *h) {
	if (h->config.rank == h->roll.source)
		return HD_HANDOVER_GIVES;
	/* Then the source is sure of its version, too. */
	return is_sure(h) && h->config.version == h->roll.step ? HD_HANDOVER_HAS :
								 HD_HANDOVER_TAKES;
}

void hd_handover_rolled(
	struct hd_handover *h,
	const int64_t maxima[HD_HANDOVER_VALUES],
	uint32_t workers
) {
	hd_assert(h->stage == HD_HANDOVER_ROLL && h->in_flight == 1);
	h->in_flight = 0;
	h->roll = hd_roll_read(maxima);
	h->most_items = (uint32_t)maxima[AT_ITEMS];
	h->begun = h->ended = 0;
	if (!hd_equal_read(maxima + AT_LAYOUT)) {
		end(h, HD_HANDOVER_LAYOUT);
	} else if (!h->roll.any) {
		end(h, HD_HANDOVER_NONE);
	} else if (h->roll.complete || workers == 1) {
		end(h, HD_HANDOVER_KEPT);
	} else {
		h->role = role_of(h);
		h->stage = HD_HANDOVER_PARTS;
	}
}

void hd_handover_passed(struct hd_handover *h, uint64_t bytes) {
	hd_assert(h->in_flight > 0 && h->stage != HD_HANDOVER_ROLL);
	h->in_flight--;
	if (h->stage != HD_HANDOVER_PARTS)
		return;
	/* Its own state is overwritten. */
	if (h->role == HD_HANDOVER_TAKES)
		h->config.has = false;
	h->ended += bytes;
	if (h->ended < h->config.bytes)
		return;
	end(h, h->role == HD_HANDOVER_TAKES ? HD_HANDOVER_RECEIVED : HD_HANDOVER_KEPT);
	h->config.version = h->roll.step;
}

/* Whether the roll is called again. In a roll, `late` is no failure: others of the job do something else now. */
static bool is_repeated(struct hd_handover *h, enum hd_reason reason) {
	if (h->stage == HD_HANDOVER_ROLL)
		return reason == HD_REASON_LATE;
	if (reason != HD_REASON_LATE && reason != HD_REASON_ROOT && reason != HD_REASON_MISMATCH)
		return false;
	return h->stage == HD_HANDOVER_DRAINING || ++h->tries < HD_HANDOVER_TRIES_MAX;
}

void hd_handover_failed(struct hd_handover *h, enum hd_reason reason) {
	hd_assert(h->in_flight > 0);
	h->in_flight--;
	h->config.late = h->config.late || reason == HD_REASON_LATE;
	if (h->stage == HD_HANDOVER_ENDED)
		return;
	if (is_repeated(h, reason)) {
		h->stage = h->stage == HD_HANDOVER_ROLL ? HD_HANDOVER_ROLL : HD_HANDOVER_DRAINING;
		return;
	}
	h->reason = reason;
	end(h, HD_HANDOVER_FAILED);
}
