/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The newest state from another worker. hd_handover.c decides which call is made when; this file makes the calls, in
 * memory of the library's, as the caller may give up while others still count on them:
 *
 *     items  | w | b | momentum of w ...| hash |      at the source, and at each worker that receives
 *     parts  |     8 MiB     |     8 MiB    |  |      broadcasts, several in flight
 */
#include "hd_group.h"
#include "hd_handover.h"
#include "hd_text.h"
#include "heddle_call.h"
#include "heddle_state_data.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define PART_BYTES_DEFAULT (UINT64_C(8) << 20)
#define TAG "heddle_share_state()"

_Static_assert(
	HEDDLE_STATE_VERSIONS_MAX < HD_ROLL_STEPS_MAX + 1,
	"a version is a step of the roll"
);

/* A call in flight. */
struct flight {
	struct heddle_ticket *ticket;
	struct hd_handover_call call;
};

struct share {
	struct heddle_state_data data;
	struct heddle *fabric;
	struct hd_handover handover;
	struct heddle_collective_options options; /* of a part */
	struct flight flights[HD_HANDOVER_PARTS_MAX]; /* in a ring */
	uint32_t head, count;
	uint8_t *part; /* the source's: while it is copied */
	hd_ns deadline;
	struct heddle_status roll; /* of the newest one */
	char words[HD_TEXT_BYTES_MAX + 1]; /* of the call that has failed */
};

/* --- calls ---------------------------------------------------------------------------------- */

static int left_ms(const struct share *s) {
	const hd_ns now = hd_driver_now();

	if (s->deadline == HD_NEVER)
		return -1;
	return now >= s->deadline ? 0 : (int)((s->deadline - now + HD_MS - 1) / HD_MS);
}

static struct heddle_collective_options roll_options(const struct share *s) {
	struct heddle_collective_options options = s->options;

	options.type = HEDDLE_TYPE_INT64;
	options.reduce_op = HEDDLE_REDUCE_OP_MAX;
	return options;
}

static int start_roll(struct share *s, struct flight *flight) {
	const struct heddle_collective_options options = roll_options(s);
	const struct heddle_call call = {
		.collective = HD_COLLECTIVE_ALLREDUCE,
		.in = flight->call.values,
		.out = flight->call.values,
		.count = HD_HANDOVER_VALUES,
		.in_count = HD_HANDOVER_VALUES,
		.out_count = HD_HANDOVER_VALUES,
		.state = HD_REQUEST_ROLL,
		.apart = true,
	};

	heddle_state_data_rewind(&s->data);
	return heddle_reduce_start_call(s->fabric, &call, &options, &flight->ticket);
}

/* A part that is received comes into the ticket's memory; one that this worker has has none. */
static int start_part(struct share *s, struct flight *flight) {
	static uint8_t nothing;
	const enum hd_handover_role role = flight->call.role;
	const uint64_t bytes = flight->call.bytes;
	struct heddle_call call = {
		.collective = HD_COLLECTIVE_BROADCAST,
		.root = flight->call.source,
		.count = bytes,
		.apart = true,
	};

	if (role == HD_HANDOVER_TAKES) {
		call.out = &nothing;
		call.out_count = bytes;
	} else if (role == HD_HANDOVER_HAS) {
		call.in = &nothing;
		call.state = HD_REQUEST_HAS;
	} else {
		heddle_state_data_read(&s->data, s->part, bytes);
		call.in = s->part;
		call.in_count = bytes;
	}
	return heddle_reduce_start_call(s->fabric, &call, &s->options, &flight->ticket);
}

static int start_calls(struct share *s) {
	for (;;) {
		struct flight *flight = &s->flights[(s->head + s->count) % HD_HANDOVER_PARTS_MAX];
		int rc;

		if (!hd_handover_next(&s->handover, &flight->call))
			return 0;
		rc = flight->call.roll ? start_roll(s, flight) : start_part(s, flight);
		if (rc < 0)
			return rc;
		s->count++;
	}
}

static void release(struct share *s, struct heddle_ticket *ticket) {
	pthread_mutex_lock(&s->fabric->lock);
	if (ticket->keeps)
		heddle_ticket_taken(ticket);
	pthread_mutex_unlock(&s->fabric->lock);
	heddle_ticket_free(ticket);
}

static void applied(struct share *s, struct flight *flight, const struct heddle_status *status) {
	const struct hd_handover_call *call = &flight->call;

	if (call->roll) {
		int64_t maxima[HD_HANDOVER_VALUES];

		memcpy(maxima, flight->ticket->into, sizeof maxima);
		s->roll = *status;
		hd_handover_rolled(&s->handover, maxima, status->workers);
		return;
	}
	if (call->role == HD_HANDOVER_TAKES && s->handover.stage == HD_HANDOVER_PARTS)
		heddle_state_data_write(&s->data, flight->ticket->into, call->bytes);
	hd_handover_passed(&s->handover, call->bytes);
}

/* Waits for the oldest call. */
static int finish_one(struct share *s) {
	struct flight *flight = &s->flights[s->head];
	struct heddle_status status = HEDDLE_STATUS_INIT;
	int rc = heddle_ticket_wait(flight->ticket, HEDDLE_WAIT_OUTCOME, left_ms(s), &status);

	if (rc < 0)
		return rc;
	if (status.state == HEDDLE_STATE_APPLIED) {
		applied(s, flight, &status);
	} else {
		memcpy(s->words, flight->ticket->words, sizeof s->words);
		hd_handover_failed(&s->handover, (enum hd_reason)status.reason);
	}
	release(s, flight->ticket);
	s->head = (s->head + 1) % HD_HANDOVER_PARTS_MAX;
	s->count--;
	return 0;
}

/* Calls in flight go on without this worker. The words of an error stay. */
static void give_up(struct share *s) {
	char words[HD_TEXT_BYTES_MAX + 1];

	(void)hd_text_copy(words, sizeof words, heddle_last_error());
	for (; s->count > 0; s->count--) {
		(void)heddle_ticket_cancel(s->flights[s->head].ticket);
		release(s, s->flights[s->head].ticket);
		s->head = (s->head + 1) % HD_HANDOVER_PARTS_MAX;
	}
	heddle_set_error("%s", words);
}

static int make_calls(struct share *s) {
	int rc = 0;

	while (rc == 0 && s->handover.stage != HD_HANDOVER_ENDED) {
		rc = start_calls(s);
		if (rc == 0 && s->handover.stage != HD_HANDOVER_ENDED)
			rc = finish_one(s);
	}
	if (rc == -ETIMEDOUT)
		heddle_set_error("share_state: %s", heddle_strerror(rc));
	return rc;
}

/* --- arguments and results ------------------------------------------------------------------ */

static int
check(struct heddle *fabric,
      const uint64_t *version,
      const struct heddle_state_options *options,
      const struct heddle_status *status) {
	int rc = heddle_check(fabric);

	if (rc == 0)
		rc = heddle_check_may_wait();
	if (rc == 0)
		rc = heddle_check_status(status);
	if (rc < 0)
		return rc;
	if (!version)
		return heddle_fail(-EINVAL, "version: NULL");
	if (*version >= HEDDLE_STATE_VERSIONS_MAX && *version != HEDDLE_STATE_NONE)
		return heddle_fail(
			-EINVAL,
			"version: %llu is neither HEDDLE_STATE_NONE nor below HEDDLE_STATE_VERSIONS_MAX",
			(unsigned long long)*version
		);
	if (options && options->size < sizeof *options)
		return heddle_fail(-EINVAL, "state options: size");
	if (options && options->part_bytes > HD_MODEL_BYTES_MAX)
		return heddle_fail(-EINVAL, "part_bytes: more than HD_MODEL_BYTES_MAX");
	return 0;
}

static int
prepare(struct share *s,
	uint64_t version,
	const struct heddle_state_options *options,
	int timeout_ms) {
	const uint64_t bytes = heddle_state_data_bytes(&s->data);
	struct hd_handover_config config = {
		.rank = (uint16_t)s->fabric->rank,
		.has = version != HEDDLE_STATE_NONE,
		.version = version,
		.items = (uint32_t)s->data.count,
		.bytes = bytes,
		.part_bytes
		= options && options->part_bytes > 0 ? options->part_bytes : PART_BYTES_DEFAULT,
	};

	pthread_mutex_lock(&s->fabric->lock);
	config.late = s->fabric->late;
	pthread_mutex_unlock(&s->fabric->lock);
	heddle_state_data_layout(&s->data, config.part_bytes, config.layout);
	s->options = (struct heddle_collective_options)HEDDLE_COLLECTIVE_OPTIONS_INIT;
	s->options.type = HEDDLE_TYPE_UINT8;
	s->options.tag = TAG;
	s->options.exact = options ? options->exact : 0;
	s->options.wait_ms
		= HEDDLE_WAIT_FOREVER; /* alone, a joiner would take its own state for the newest */
	s->deadline
		= timeout_ms < 0 ? HD_NEVER : hd_ns_add(hd_driver_now(), (hd_ns)timeout_ms * HD_MS);
	hd_handover_init(&s->handover, &config);
	s->part = malloc(bytes < config.part_bytes ? bytes : config.part_bytes);
	return s->part ? 0 : heddle_fail(-ENOMEM, "no memory");
}

static int failed(const struct share *s, const struct heddle_status *status) {
	return s->words[0] ?
		heddle_fail(-EIO, "share_state: %s", s->words) :
		heddle_fail(-EIO, "share_state: %s", heddle_reason_name(status->reason));
}

/* The result for the caller, once no call is made any more. */
static int conclude(struct share *s, struct heddle_status *status) {
	const struct hd_handover *h = &s->handover;
	struct heddle_collective_options options = roll_options(s);

	status->state = HEDDLE_STATE_FAILED;
	switch (h->outcome) {
	case HD_HANDOVER_NONE:
		return heddle_fail(
			-ENODATA, "share_state: none of %u workers has a state", s->roll.workers
		);
	case HD_HANDOVER_LAYOUT:
		status->reason = HEDDLE_REASON_MISMATCH;
		heddle_state_data_differ(s->fabric, &s->data, h->most_items, &options, left_ms(s));
		return -EIO;
	case HD_HANDOVER_FAILED:
		status->reason = (enum heddle_reason)h->reason;
		return failed(s, status);
	default:
		break;
	}
	if (h->outcome == HD_HANDOVER_RECEIVED && !heddle_state_data_is_right(&s->data))
		return heddle_fail(
			-EIO,
			"share_state: what has come is not what rank %u has sent",
			h->roll.source
		);
	status->state = HEDDLE_STATE_APPLIED;
	return h->outcome == HD_HANDOVER_RECEIVED ? 1 : 0;
}

static void
set_status(const struct share *s, struct heddle_status *own, struct heddle_status *out) {
	const struct hd_handover *h = &s->handover;
	const bool moved = h->begun > 0 && h->role != HD_HANDOVER_HAS;
	const size_t size = out ? out->size : 0;

	own->direction = HEDDLE_DIRECTION_ALLREDUCE;
	own->released = 1;
	own->round = s->roll.round;
	own->workers = s->roll.workers;
	own->version = own->state == HEDDLE_STATE_APPLIED ? h->roll.step : 0;
	own->bytes = own->state == HEDDLE_STATE_APPLIED && moved ? s->data.bytes : 0;
	own->ended_ns = hd_driver_now();
	if (!out)
		return;
	memset(out, 0, size);
	memcpy(out, own, size < sizeof *own ? size : sizeof *own);
	out->size = size;
}

/* NOLINTNEXTLINE(readability-function-size): what is shared, how, and how long */
int heddle_share_state(
	struct heddle *fabric,
	const struct heddle_state_item *items,
	size_t count,
	uint64_t *version,
	const struct heddle_state_options *options,
	int timeout_ms,
	struct heddle_status *status
) {
	struct heddle_status own = HEDDLE_STATUS_INIT;
	struct share s = {.fabric = fabric};
	int rc = check(fabric, version, options, status);

	if (rc == 0)
		rc = heddle_state_data_init(&s.data, items, count);
	if (rc == 0)
		rc = prepare(&s, *version, options, timeout_ms);
	if (rc < 0)
		return rc;
	own.started_ns = hd_driver_now();
	own.state = HEDDLE_STATE_FAILED;
	rc = make_calls(&s);
	if (rc == 0)
		rc = conclude(&s, &own);
	give_up(&s);
	free(s.part);
	if (rc >= 0 || rc == -EIO || rc == -ENODATA || rc == -ETIMEDOUT)
		set_status(&s, &own, status);
	if (rc >= 0)
		*version = s.handover.roll.step;
	else if (*version != HEDDLE_STATE_NONE && !s.handover.config.has)
		*version = HEDDLE_STATE_NONE;
	if (rc >= 0) {
		pthread_mutex_lock(&fabric->lock);
		fabric->late = false;
		pthread_mutex_unlock(&fabric->lock);
	}
	return rc;
}
