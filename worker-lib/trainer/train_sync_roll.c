/* SPDX-License-Identifier: BSD-3-Clause */
/* Who has the model: attending others' steps, the roll, the model from its source, and the comparison of all models. */
#include "train_sync_far.h"

#include <sodium.h>
#include <string.h>
#include <sysexits.h>

_Static_assert(HD_HASH_BYTES == crypto_generichash_BYTES, "BLAKE2b-256");

static enum train_end fail(struct train_sync *sync, int status) {
	sync->status = status;
	return TRAIN_END_FAILED;
}

/* The end of a collective that was started with this result. */
static enum train_end
finish(struct train_sync *sync, int code, struct heddle_ticket *ticket, struct heddle_status *status
) {
	enum train_end end;

	if (code < 0)
		return train_sync_refused(sync, code);
	end = train_sync_wait(sync, ticket, status);
	heddle_ticket_free(ticket);
	return end;
}

/* The maxima of all, in place. */
static enum train_end
greatest(struct train_sync *sync, uint64_t count, const char *tag, struct heddle_status *status) {
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;
	struct heddle_ticket *ticket = NULL;
	int rc;

	options.type = HEDDLE_TYPE_INT64;
	options.reduce_op = HEDDLE_REDUCE_OP_MAX;
	options.tag = tag;
	options.wait_ms = HEDDLE_WAIT_FOREVER;
	rc = heddle_allreduce_start(
		sync->fabric, sync->maxima, sync->maxima, count, &options, &ticket
	);
	return finish(sync, rc, ticket, status);
}

/* --- attending ------------------------------------------------------------------------------ */

struct heddle_collective_options train_sync_bucket(const struct train_sync *sync) {
	const uint32_t wait_ms = sync->train->options.reduce.wait_ms;
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;

	options.borrow = 1;
	options.tag = TRAIN_SYNC_TAG;
	options.wait_ms = wait_ms > 0 ? wait_ms : HEDDLE_WAIT_FOREVER;
	return options;
}

static enum train_end attend_one(struct train_sync *sync, struct hd_total *total) {
	const struct heddle_collective_options options = train_sync_bucket(sync);
	struct heddle_ticket *ticket = NULL;
	enum train_end end;
	int rc;

	hd_bucket_pack_joining(&sync->buckets, sync->give);
	rc = heddle_allreduce_start(
		sync->fabric,
		sync->give,
		sync->sum,
		hd_bucket_buffer(&sync->buckets),
		&options,
		&ticket
	);
	end = finish(sync, rc, ticket, NULL);
	if (end == TRAIN_END_DONE)
		*total = hd_bucket_total(&sync->buckets, sync->sum);
	return end;
}

enum train_end train_sync_attend(struct train_sync *sync) {
	struct hd_total total;

	do {
		enum train_end end = attend_one(sync, &total);

		if (end != TRAIN_END_DONE)
			return end;
		if (total.members > 0 && !hd_total_has_mean(&total))
			return fail(
				sync,
				train_fail(EX_SOFTWARE, "the loss of the others is not finite")
			);
		sync->summary.sync.attended += total.members > 0;
	} while (total.members > 0 && total.left > 0);
	sync->stage = TRAIN_STAGE_ROLL;
	return TRAIN_END_DONE;
}

/* --- the model of the source ---------------------------------------------------------------- */

static enum train_end broadcast(
	struct train_sync *sync,
	void *data,
	uint64_t count,
	uint32_t source,
	enum heddle_type type
) {
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;
	struct heddle_ticket *ticket = NULL;
	int rc;

	options.borrow = 1;
	options.type = type;
	options.tag = TRAIN_SYNC_TAG;
	options.wait_ms = HEDDLE_WAIT_FOREVER;
	rc = heddle_broadcast_start(sync->fabric, data, count, (int)source, &options, &ticket);
	return finish(sync, rc, ticket, NULL);
}

static enum train_end make_initial(struct train_sync *sync) {
	struct train *train = sync->train;

	if (heddle_spec_initialize_model(train->spec, train->params) < 0)
		return fail(sync, train_fail(EX_USAGE, "%s", heddle_last_error()));
	memset(sync->momentum, 0, train->values * sizeof(float));
	sync->step = 0;
	sync->ended = false;
	return TRAIN_END_DONE;
}

/* The source's step and settings, before its model. */
static enum train_end
agree_on_settings(struct train_sync *sync, const struct hd_roll *roll, struct hd_state *state) {
	const struct train *train = sync->train;
	const struct hd_state own = {sync->step, sync->ended, train->owned, sync->settings};
	char words[HD_SETTINGS_WORDS];
	enum train_end end;

	if (hd_state_write(&own, sync->state) < 0)
		return fail(sync, train_fail(EX_SOFTWARE, "settings: too long"));
	end = broadcast(sync, sync->state, sizeof sync->state, roll->source, HEDDLE_TYPE_UINT8);
	if (end != TRAIN_END_DONE)
		return end;
	if (hd_state_read(sync->state, state) < 0)
		return fail(
			sync, train_fail(EX_DATAERR, "rank %u: its state is no text", roll->source)
		);
	if (hd_settings_differ(state->settings, sync->settings, words))
		return fail(sync, train_fail(EX_CONFIG, "settings: the job has %s", words));
	return TRAIN_END_DONE;
}

/* Without momentum what the last step left is no part of the state. */
static bool has_momentum(const struct train_sync *sync) {
	return sync->train->options.momentum > 0.0f;
}

static bool has_this_model(const struct train_sync *sync, const struct hd_state *state) {
	return sync->has_model && sync->sure && sync->step == state->step;
}

/* Theirs is in sync->grad and sync->sum. */
static enum train_end
take(struct train_sync *sync, const struct hd_roll *roll, const struct hd_state *state) {
	struct train *train = sync->train;
	const size_t bytes = train->values * sizeof(float);

	if (has_this_model(sync, state)) {
		if (memcmp(train->params, sync->grad, bytes) == 0
		    && (!has_momentum(sync) || memcmp(sync->momentum, sync->sum, bytes) == 0))
			return TRAIN_END_DONE;
		return fail(
			sync,
			train_fail(
				EX_SOFTWARE,
				"step %llu: this worker's model is not that of rank %u",
				(unsigned long long)sync->step,
				roll->source
			)
		);
	}
	memcpy(train->params, sync->grad, bytes);
	if (has_momentum(sync))
		memcpy(sync->momentum, sync->sum, bytes);
	sync->step = state->step;
	sync->ended = state->ended;
	train->owned = state->owned;
	sync->summary.sync.received++;
	return TRAIN_END_DONE;
}

static enum train_end pass_model(struct train_sync *sync, const struct hd_roll *roll, bool give) {
	struct train *train = sync->train;
	struct hd_state state;
	enum train_end end = agree_on_settings(sync, roll, &state);

	if (end == TRAIN_END_DONE)
		end = broadcast(
			sync,
			give ? train->params : sync->grad,
			train->values,
			roll->source,
			HEDDLE_TYPE_FP32
		);
	if (end == TRAIN_END_DONE && has_momentum(sync))
		end = broadcast(
			sync,
			give ? sync->momentum : sync->sum,
			train->values,
			roll->source,
			HEDDLE_TYPE_FP32
		);
	return end == TRAIN_END_DONE && !give ? take(sync, roll, &state) : end;
}

/* --- the roll ------------------------------------------------------------------------------- */

static void note_model(struct train_sync *sync, const struct hd_roll *roll) {
	if (!sync->has_model)
		sync->summary.sync.joined_step = sync->step;
	if (!sync->train->options.quiet && (sync->step > 0 || !sync->has_model))
		train_note(
			"model",
			"step %llu: the workers have the model of rank %u",
			(unsigned long long)sync->step,
			roll->source
		);
	sync->has_model = sync->sure = true;
	/* One that has the model only now has not compared it: all compare it again, or its calls would match none. */
	sync->compared = false;
}

/* By way of the host's memory, wherever the model is. */
static enum train_end
share_model(struct train_sync *sync, const struct hd_roll *roll, uint32_t rank) {
	enum train_end end = TRAIN_END_DONE;

	sync->status = train_sync_far_read(sync);
	if (sync->status != EX_OK)
		return TRAIN_END_FAILED;
	if (roll->source == rank && !sync->has_model)
		end = make_initial(sync);
	if (end == TRAIN_END_DONE)
		end = pass_model(sync, roll, roll->source == rank);
	if (end != TRAIN_END_DONE)
		return end;
	sync->status = train_sync_far_write(sync);
	return sync->status == EX_OK ? TRAIN_END_DONE : TRAIN_END_FAILED;
}

enum train_end train_sync_roll(struct train_sync *sync) {
	const uint32_t rank = (uint32_t)sync->summary.rank;
	const struct hd_roll_answer answer = {rank, sync->has_model, sync->sure, sync->step};
	struct hd_roll roll;
	enum train_end end;

	hd_roll_pack(&answer, sync->maxima);
	end = greatest(sync, HD_ROLL_VALUES, "heddle-train: the roll", NULL);
	if (end != TRAIN_END_DONE)
		return end;
	roll = hd_roll_read(sync->maxima);
	if (!roll.complete) {
		end = share_model(sync, &roll, rank);
		if (end != TRAIN_END_DONE)
			return end;
		note_model(sync, &roll);
	}
	sync->stage = TRAIN_STAGE_TRAINING;
	return TRAIN_END_DONE;
}

/* --- the comparison ------------------------------------------------------------------------- */

static void hash_model(const struct train_sync *sync, uint8_t hash[HD_HASH_BYTES]) {
	const size_t bytes = sync->train->values * sizeof(float);
	crypto_generichash_state state;

	(void)crypto_generichash_init(&state, NULL, 0, HD_HASH_BYTES);
	(void)crypto_generichash_update(&state, (const uint8_t *)sync->train->params, bytes);
	if (has_momentum(sync))
		(void)crypto_generichash_update(&state, (const uint8_t *)sync->momentum, bytes);
	(void)crypto_generichash_final(&state, hash, HD_HASH_BYTES);
}

enum train_end train_sync_check(struct train_sync *sync) {
	struct heddle_status status = HEDDLE_STATUS_INIT;
	uint8_t hash[HD_HASH_BYTES];
	enum train_end end;

	sync->status = train_sync_far_read(sync);
	if (sync->status != EX_OK)
		return TRAIN_END_FAILED;
	hash_model(sync, hash);
	hd_equal_pack(hash, sync->maxima);
	end = greatest(sync, HD_EQUAL_VALUES, "heddle-train: are all equal", &status);
	if (end != TRAIN_END_DONE)
		return end;
	if (!hd_equal_read(sync->maxima))
		return fail(
			sync,
			train_fail(
				EX_SOFTWARE,
				"step %llu: the models of the %u workers are not the same: this one's "
				"hash begins with %02x%02x%02x%02x",
				(unsigned long long)sync->step,
				status.workers,
				hash[0],
				hash[1],
				hash[2],
				hash[3]
			)
		);
	sync->compared = true;
	sync->checked = sync->step;
	return TRAIN_END_DONE;
}
