/* SPDX-License-Identifier: BSD-3-Clause */
/* What the progress thread does: commands to the core, its words about tickets to those who wait. */
#include "hd_message.h"
#include "hd_text.h"
#include "heddle_call.h"
#include "heddle_parts.h"
#include "heddle_private.h"
#include "heddle_shared.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static_assert(
	(int)HD_DTYPE_FP16 == (int)HEDDLE_PAYLOAD_FP16
		&& (int)HD_DTYPE_BF16 == (int)HEDDLE_PAYLOAD_BF16
		&& (int)HD_DTYPE_FIXED32 == (int)HEDDLE_PAYLOAD_FIXED32,
	"payload types are the wire's"
);
static_assert(
	sizeof(struct hd_run) == sizeof(struct heddle_range)
		&& offsetof(struct hd_run, count) == offsetof(struct heddle_range, count),
	"runs are the core's"
);
static_assert(
	(int)HD_PUSH == (int)HEDDLE_DIRECTION_PUSH && (int)HD_PULL == (int)HEDDLE_DIRECTION_PULL
		&& (int)HD_REDUCE == (int)HEDDLE_DIRECTION_ALLREDUCE,
	"directions are the wire's"
);
static_assert((int)HD_TICKET_FAILED == (int)HEDDLE_STATE_FAILED, "states are the core's");
static_assert((int)HD_TICKET_APPLIED == (int)HEDDLE_STATE_APPLIED, "states are the core's");
static_assert((int)HD_TICKET_HELD == (int)HEDDLE_STATE_HELD, "states are the core's");
static_assert(
	(int)HD_REASON_VERSION_MISMATCH == (int)HEDDLE_REASON_VERSION_MISMATCH
		&& (int)HD_REASON_NOT_MODIFIED == (int)HEDDLE_REASON_NOT_MODIFIED
		&& (int)HD_REASON_PREEMPTED == (int)HEDDLE_REASON_PREEMPTED
		&& (int)HD_REASON_DEVICE == (int)HEDDLE_REASON_DEVICE
		&& (int)HD_REASON_PEER == (int)HEDDLE_REASON_PEER,
	"reasons are the core's"
);

/* --- words of the core ---------------------------------------------------------------------- */

static void log_line(struct heddle *fabric, enum heddle_log_level level, const char *text) {
	if (fabric->log)
		fabric->log(fabric->log_arg, level, text);
}

static void on_joined(void *owner, hd_version version, uint32_t tau_max) {
	struct heddle *fabric = owner;

	log_line(fabric, HEDDLE_LOG_INFO, "joined the job");
	pthread_mutex_lock(&fabric->lock);
	fabric->joined = true;
	fabric->version = version;
	fabric->tau_max = tau_max;
	fabric->trouble[0] = '\0';
	pthread_cond_broadcast(&fabric->changed);
	pthread_mutex_unlock(&fabric->lock);
	/* Pushes that came before it can be taken up now. */
	hd_driver_wake(fabric->driver);
}

static void on_refused(void *owner, enum hd_reason reason, const char *text) {
	struct heddle *fabric = owner;

	log_line(fabric, HEDDLE_LOG_ERROR, text);
	pthread_mutex_lock(&fabric->lock);
	fabric->refused = true;
	hd_text_copy(
		fabric->refusal, sizeof fabric->refusal, *text ? text : hd_reason_name(reason)
	);
	pthread_cond_broadcast(&fabric->changed);
	pthread_mutex_unlock(&fabric->lock);
	hd_driver_wake(fabric->driver);
}

static void on_trouble(void *owner, enum hd_reason reason, const char *text) {
	struct heddle *fabric = owner;

	if (!text || !*text)
		text = hd_reason_name(reason);
	log_line(fabric, HEDDLE_LOG_WARNING, text);
	pthread_mutex_lock(&fabric->lock);
	hd_text_copy(fabric->trouble, sizeof fabric->trouble, text);
	pthread_mutex_unlock(&fabric->lock);
}

/* Tells who waits; true when commands wait for the room that a ticket's end may have made. */
static bool ticket_gone(struct heddle *fabric) {
	pthread_cond_broadcast(&fabric->changed);
	return fabric->commands.count > 0;
}

static void on_ticket(void *owner, const struct hd_ticket *info) {
	struct heddle *fabric = owner;
	struct heddle_ticket *ticket = info->user;
	struct heddle_status *status = &ticket->status;
	bool more;

	if (ticket->parts && info->state == HD_TICKET_APPLIED)
		heddle_parts_deliver(ticket);
	pthread_mutex_lock(&fabric->lock);
	status->round = info->round;
	status->base = info->base;
	status->version = info->version;
	status->delay = ticket->reduce ? 0 : info->delay;
	status->workers = ticket->reduce ? info->delay : 0;
	status->scale = info->scale;
	status->waiting = info->waiting;
	status->granted = info->granted;
	if (ticket->reduce)
		ticket->members = info->members ? *info->members : (struct hd_roster){0};
	if (info->words)
		hd_text_copy(ticket->words, sizeof ticket->words, info->words);
	fabric->stats = *hd_worker_stats(fabric->worker);
	if (info->direction <= HD_PULL)
		fabric->times[info->direction] = *hd_worker_times(fabric->worker, info->direction);
	if (heddle_far_lands(ticket, info)) {
		fabric->far_at = 0;
	} else if (info->state >= HD_TICKET_APPLIED) {
		heddle_ticket_end(
			ticket, (enum heddle_state)info->state, (enum heddle_reason)info->reason
		);
		if (info->direction == HD_PULL)
			heddle_ticket_let_go(ticket);
	} else {
		/* Also back from APPLIED, when a restart of the server lost it. */
		ticket->ended = false;
		status->state = (enum heddle_state)info->state;
		heddle_then_note(ticket);
	}
	more = ticket_gone(fabric);
	pthread_mutex_unlock(&fabric->lock);
	if (more)
		hd_driver_wake(fabric->driver);
}

static void on_released(void *owner, uint32_t round, void *user) {
	struct heddle *fabric = owner;
	struct heddle_ticket *ticket = user;
	bool more;

	pthread_mutex_lock(&fabric->lock);
	if (ticket->far && (ticket->far->landing || heddle_far_is_busy(ticket->far))) {
		ticket->far->released = true;
		fabric->far_at = 0;
	} else {
		heddle_ticket_let_go(ticket);
	}
	more = ticket_gone(fabric);
	pthread_mutex_unlock(&fabric->lock);
	if (more)
		hd_driver_wake(fabric->driver);
}

static void on_stepped(void *owner, hd_version version) {
	struct heddle *fabric = owner;

	atomic_store_explicit(&fabric->newest, version, memory_order_relaxed);
}

static void gather(void *owner, struct hd_stats *stats) {
	const struct heddle *fabric = owner;

	hd_driver_stats(fabric->driver, stats);
	hd_driver_core_stats(fabric->driver, stats);
}

const struct hd_worker_ops heddle_worker_ops = {
	.joined = on_joined,
	.refused = on_refused,
	.trouble = on_trouble,
	.ticket = on_ticket,
	.released = on_released,
	.members = heddle_on_members,
	.noticed = heddle_on_noticed,
	.stepped = on_stepped,
	.round = heddle_on_round,
	.lacked = heddle_on_lack,
	.gather = gather,
};

void heddle_on_event(void *owner, const struct hd_event *event) {
	struct heddle *fabric = owner;

	if (event->kind == HD_EVENT_FALLBACK)
		log_line(
			fabric,
			HEDDLE_LOG_WARNING,
			"no controller: going on directly with the server until it is back"
		);
	hd_event_log_add(fabric->events, event);
}

/* --- commands ------------------------------------------------------------------------------- */

static struct heddle_ticket *ring_head(const struct heddle_ticket_ring *ring) {
	return ring->count > 0 ? ring->item[ring->head] : NULL;
}

static void ring_pop(struct heddle_ticket_ring *ring) {
	ring->head = (ring->head + 1) % HEDDLE_COMMANDS_MAX;
	ring->count--;
}

static int
look_far(struct heddle *fabric, const struct heddle_ticket *ticket, struct hd_packer *packer) {
	uint64_t at;
	int rc = heddle_far_look(ticket, packer, &at);

	if (rc < 0) {
		rc = heddle_set_not_finite(
			fabric, at, "NaN, Inf, or beyond the payload type's range"
		);
		log_line(fabric, HEDDLE_LOG_ERROR, heddle_last_error());
	}
	return rc;
}

static int in_begin(struct heddle *fabric, const struct heddle_turn *turn) {
	struct heddle_ticket *ticket = turn->ticket;
	struct hd_push_args push = {
		.data = ticket->data,
		.values = ticket->values,
		.runs = ticket->runs,
		.run_count = ticket->run_count,
		.base = ticket->status.base,
		.dtype = ticket->dtype,
		.weight = ticket->weight,
		.user = ticket,
	};
	struct hd_pull_args pull = {
		.data = ticket->into,
		.raw = ticket->far != NULL,
		.values = fabric->values,
		.have = ticket->have,
		.conditional = ticket->conditional,
		.dtype = ticket->dtype,
		.user = ticket,
	};
	struct hd_packer packer;
	int rc;

	if (ticket->work.round != 0) {
		rc = hd_worker_work(fabric->worker, turn->now, &ticket->work, turn->sink);
		if (rc < 0 || !ticket->work.gives)
			return rc < 0 ? rc : 1;
		ticket->work.round = 0; /* said */
	}
	if (ticket->reduce)
		return heddle_reduce_begin(fabric, turn);
	if (ticket->far && !ticket->far->to) {
		rc = look_far(fabric, ticket, &packer);
		if (rc < 0)
			return rc;
		push.packer = &packer;
	}
	if (ticket->into)
		return hd_worker_pull(fabric->worker, turn->now, &pull, turn->sink, &ticket->round);
	return hd_worker_push(fabric->worker, turn->now, &push, turn->sink, &ticket->round);
}

static enum heddle_reason reason_of(const struct heddle *fabric, int code) {
	if (code == -EDOM)
		return HEDDLE_REASON_NOT_FINITE;
	if (code == -ENOMEM)
		return HEDDLE_REASON_NO_MEMORY;
	if (code == -EIO)
		return HEDDLE_REASON_DEVICE;
	if (fabric->notice_taken)
		return HEDDLE_REASON_PREEMPTED;
	return fabric->refused ? HEDDLE_REASON_REFUSED : HEDDLE_REASON_CLOSED;
}

/* The caller's stream has come so far. Of what was withdrawn meanwhile, or whose device failed, nothing is left. */
static bool is_ready(struct heddle *fabric, struct heddle_ticket *ticket, hd_ns now) {
	int rc = heddle_far_ready(ticket);

	if (rc == 0) {
		fabric->far_at = hd_ns_min(fabric->far_at, heddle_far_next(ticket->far, now));
		return false;
	}
	if (rc < 0 && !ticket->ended) {
		heddle_far_log(fabric);
		heddle_ticket_end(ticket, HEDDLE_STATE_FAILED, HEDDLE_REASON_DEVICE);
	}
	if (ticket->ended && !ticket->let_go) {
		(void)ticket_gone(fabric);
		heddle_ticket_let_go(ticket);
	}
	return true;
}

/* The lock is held, but not over the core. False: the core takes no more now. */
static bool
run_command(struct heddle *fabric, struct heddle_ticket *ticket, hd_ns now, struct hd_sink *sink) {
	const struct heddle_turn turn = {.now = now, .sink = sink, .ticket = ticket};
	int rc;

	if (ticket->far && !is_ready(fabric, ticket, now))
		return false;
	if (!ticket->ended) {
		ticket->in_core = true;
		pthread_mutex_unlock(&fabric->lock);
		rc = heddle_enter(fabric, in_begin, &turn);
		pthread_mutex_lock(&fabric->lock);
		if (fabric->core >= HEDDLE_CORE_FAILED)
			return false; /* it ends with all others */
		if (rc == -EAGAIN || rc == -ENOBUFS) {
			ticket->in_core = false;
			return false;
		}
		if (rc != 0) {
			ticket->in_core = false;
			if (rc < 0)
				heddle_ticket_end(
					ticket, HEDDLE_STATE_FAILED, reason_of(fabric, rc)
				);
			else /* a straggler whose work does not count */
				heddle_ticket_end(ticket, HEDDLE_STATE_DROPPED, HEDDLE_REASON_LATE);
			(void)ticket_gone(fabric);
			heddle_ticket_let_go(ticket);
		}
	}
	ring_pop(&fabric->commands);
	/* The queue's reference; the core has its own as long as it has not let go. */
	heddle_ticket_unref(ticket);
	return true;
}

static int in_cancel(struct heddle *fabric, const struct heddle_turn *turn) {
	const struct heddle_ticket *ticket = turn->ticket;

	if (ticket->channel != 0)
		return hd_worker_cancel_pair(
			fabric->worker, turn->now, ticket->channel, ticket->round, turn->sink
		);
	/* Not the status's round, which is the caller's view: 0 until the core has said a word. */
	return hd_worker_cancel(
		fabric->worker,
		turn->now,
		(uint8_t)ticket->status.direction,
		ticket->round,
		turn->sink
	);
}

static void run_cancels(struct heddle *fabric, hd_ns now, struct hd_sink *sink) {
	struct heddle_ticket *ticket;

	while ((ticket = ring_head(&fabric->cancels))) {
		const struct heddle_turn turn = {.now = now, .sink = sink, .ticket = ticket};

		ring_pop(&fabric->cancels);
		if (ticket->far && ticket->far->landing) {
			/* The core knows its number no more, or knows another by it. */
		} else if (ticket->in_core && !ticket->ended) {
			pthread_mutex_unlock(&fabric->lock);
			(void)heddle_enter(fabric, in_cancel, &turn);
			pthread_mutex_lock(&fabric->lock);
		} else if (!ticket->ended) {
			/* The core had no room for it after all. */
			heddle_ticket_withdraw(ticket);
		}
		heddle_ticket_unref(ticket);
	}
}

static int in_leave(struct heddle *fabric, const struct heddle_turn *turn) {
	(void)hd_worker_leave(fabric->worker, turn->now, turn->sink);
	return 0;
}

void heddle_on_woken(void *owner, hd_ns now, struct hd_sink *sink) {
	struct heddle *fabric = owner;
	const struct heddle_turn turn = {.now = now, .sink = sink};
	struct heddle_ticket *ticket;
	bool leave;

	heddle_take_notice(fabric, now, sink);
	heddle_take_report(fabric, now);
	heddle_shared_take(fabric, now, sink);
	pthread_mutex_lock(&fabric->lock);
	fabric->far_at = heddle_far_end_landed(fabric, now);
	do {
		run_cancels(fabric, now, sink);
		ticket = ring_head(&fabric->commands);
	} while (ticket && run_command(fabric, ticket, now, sink));
	leave = fabric->closing && fabric->commands.count == 0;
	pthread_mutex_unlock(&fabric->lock);
	if (leave)
		(void)heddle_enter(fabric, in_leave, &turn);
}

/* --- driving -------------------------------------------------------------------------------- */
