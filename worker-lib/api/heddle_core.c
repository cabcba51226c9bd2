/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The core behind a guard. A failed assertion in it ends the job, not the user's process:
 *
 *   heddle_enter() --> heddle_guard() --> core ... hd_assert() false --> on_failed()
 *   the handle has failed <-- false <-------------longjmp------------------------/
 *
 * The core is left as it is, and is never entered again: its state may be inconsistent. Messages that it sent during
 * the call are still the driver's, and refer to their payload: tickets end when the driver has flushed
 * (heddle_drive.c).
 */
#include "hd_assert.h"
#include "heddle_private.h"

#include <errno.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct remains {
	void *core;
	struct remains *next;
};

struct guard {
	jmp_buf out;
	char *words; /* HEDDLE_GUARD_BYTES */
};

static void on_failed(void *arg, const char *condition, const char *file, int line) {
	struct guard *guard = arg;
	const char *name = strrchr(file, '/');

	(void)snprintf(
		guard->words,
		HEDDLE_GUARD_BYTES,
		"internal error (%s:%d: %.100s)",
		name ? name + 1 : file,
		line,
		condition
	);
	longjmp(guard->out, 1);
}

bool heddle_guard(
	struct heddle *fabric,
	heddle_core_call *call,
	const struct heddle_turn *turn,
	char words[HEDDLE_GUARD_BYTES],
	int *rc
) {
	struct guard guard = {.words = words};
	struct hd_assert_hook before = hd_assert_set((struct hd_assert_hook){on_failed, &guard});

	if (setjmp(guard.out) != 0) {
		(void)hd_assert_set(before);
		return false;
	}
	*rc = call(fabric, turn);
	(void)hd_assert_set(before);
	return true;
}

static void die(struct heddle *fabric, const char *where) {
	char words[HEDDLE_GUARD_BYTES];

	(void)snprintf(words, sizeof words, "%.200s: this handle has failed, close it", where);
	fabric->core = HEDDLE_CORE_FAILED;
	if (fabric->log)
		fabric->log(fabric->log_arg, HEDDLE_LOG_ERROR, words);
	pthread_mutex_lock(&fabric->lock);
	(void)snprintf(fabric->error_text, sizeof fabric->error_text, "%s", words);
	pthread_mutex_unlock(&fabric->lock);
}

int heddle_enter(struct heddle *fabric, heddle_core_call *call, const struct heddle_turn *turn) {
	char words[HEDDLE_GUARD_BYTES];
	int rc;

	if (fabric->core >= HEDDLE_CORE_FAILED)
		return -EIO;
	if (heddle_guard(fabric, call, turn, words, &rc))
		return rc;
	die(fabric, words);
	return -EIO;
}

/* --- the node, as the driver sees it --------------------------------------------------------- */

static int in_receive(struct heddle *fabric, const struct heddle_turn *turn) {
	hd_worker_ops.receive(fabric->worker, turn->now, turn->packets, turn->count, turn->sink);
	return 0;
}

static void core_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	const struct heddle_turn turn
		= {.now = now, .sink = sink, .packets = packets, .count = count};

	(void)heddle_enter(core, in_receive, &turn);
}

static int in_tick(struct heddle *fabric, const struct heddle_turn *turn) {
	hd_worker_ops.tick(fabric->worker, turn->now, turn->sink);
	return 0;
}

static void core_tick(void *core, hd_ns now, struct hd_sink *sink) {
	const struct heddle_turn turn = {.now = now, .sink = sink};
	struct heddle *fabric = core;

	(void)heddle_enter(core, in_tick, &turn);
	if (fabric->far_at > now)
		return;
	/* The woken thread looks at devices, and says when to look again. */
	fabric->far_at = HD_NEVER;
	hd_driver_wake(fabric->driver);
}

static int in_deadline(struct heddle *fabric, const struct heddle_turn *turn) {
	fabric->deadline = hd_worker_ops.deadline(fabric->worker);
	return 0;
}

/* A dead one is due at once, so that the driver comes back. */
static hd_ns core_deadline(const void *core) {
	struct heddle *fabric = (struct heddle *)core;

	if (heddle_enter(fabric, in_deadline, NULL) < 0)
		return 0;
	return hd_ns_min(fabric->deadline, fabric->far_at);
}

const struct hd_core_ops heddle_core_ops = {
	.receive = core_receive,
	.tick = core_tick,
	.deadline = core_deadline,
};

/* --- its life ------------------------------------------------------------------------------- */

static int in_create(struct heddle *fabric, const struct heddle_turn *turn) {
	return hd_worker_create(turn->arg, &fabric->worker);
}

int heddle_core_create(struct heddle *fabric, const struct hd_worker_config *config) {
	const struct heddle_turn turn = {.arg = config};

	return heddle_enter(fabric, in_create, &turn);
}

static int in_destroy(struct heddle *fabric, const struct heddle_turn *turn) {
	hd_worker_destroy(fabric->worker);
	return 0;
}

void heddle_keep_dead(void *core) {
	static _Atomic(struct remains *) all;
	struct remains *remains = malloc(sizeof *remains);

	if (!remains)
		return;
	remains->core = core;
	remains->next = atomic_load(&all);
	while (!atomic_compare_exchange_weak(&all, &remains->next, remains))
		continue;
}

void heddle_core_destroy(struct heddle *fabric) {
	if (heddle_enter(fabric, in_destroy, NULL) < 0)
		heddle_keep_dead(fabric->worker);
	fabric->worker = NULL;
}
