/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread that makes collectives in shared memory, while the progress thread serves the network:
 *
 *   progress thread                                   this thread ("heddle-memory")
 *   ---------------                                   -----------------------------
 *   core: begin() --> queue ----------------------->  one call after the other: maps the segment, then steps
 *   core: stop()  --> the segment's fate, `stopping`    (hd_shared.h); between them it sleeps in the segment
 *   heddle_shared_take() <-- ended <--- wake --------  0, or why not
 *
 * A short round begins in begin(), if the thread has nothing to do: the last member to call it also ends it there, and
 * no other thread has to wake up. The thread is started by the first round that goes through memory.
 *
 * The processes of a host need not have a processor each: one that waits looks at the other's mark for a few
 * microseconds (up to a hundred while each member has a processor), then sleeps until that member wakes it (futex).
 */
#include "hd_thread.h"
#include "heddle_environment.h"
#include "heddle_segment.h"
#include "heddle_shared.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SHORT_BYTES (16 << 10)
#define SPINS 64 /* a microsecond or two */
#define LOOKS 1 /* of SPINS each, before it sleeps */
/* While each member has a processor: about what a piece takes, and no more than to fall asleep and wake up. */
#define LOOKS_ALONE 32
#define NAP_NS 20000000 /* one that sleeps looks at the round's fate so often, whatever happens */

struct ended {
	struct hd_shared_call call;
	int rc;
};

struct heddle_shared {
	struct heddle *fabric;
	pthread_t thread;
	bool has_thread; /* the progress thread's */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct hd_shared_call queue[HD_REDUCES_MAX]; // lock
	struct ended ended[HD_REDUCES_MAX]; // lock
	uint32_t queued, ends; // lock
	uint64_t finished; // lock: calls that the thread has left
	struct hd_shared_call call; // lock: that is being made, if `running`
	bool running, mapped, closing; // lock; mapped: its segment is
	bool begun; // lock: the progress thread has begun the queue's first call: `run` is its state
	struct hd_shared_run
		run; // writers: the thread, and the progress thread while that one has no call
	uint32_t processors, looks; /* the thread's; looks: before it sleeps, in this call */
	_Atomic bool stopping; // writer: who stops the call, reader: the thread
	_Atomic(struct hd_shared_mark *)
		sleeps_at; // writer: the thread, reader: who stops the call
	_Atomic uint64_t steps; // writer: the thread, reader: the progress thread
	struct heddle_segment segment; /* the thread's; others see its map while `mapped` */
};

/* --- sleeping -------------------------------------------------------------------------------- */

static void sleep_at(struct heddle_shared *shared, struct hd_shared_mark *mark, uint32_t seen) {
	const struct timespec nap = {.tv_nsec = NAP_NS};

	for (uint32_t i = 0; i < shared->looks; i++) {
		for (int k = 0; k < SPINS; k++) {
			if (atomic_load_explicit(&mark->pieces, memory_order_acquire) != seen)
				return;
#if defined(__x86_64__)
			__builtin_ia32_pause();
#endif
		}
		(void)sched_yield(); /* the other may be waiting for this processor */
	}
	atomic_store(&shared->sleeps_at, mark);
	(void)atomic_fetch_add(&mark->sleepers, 1);
	if (!atomic_load(&shared->stopping))
		(void)syscall(SYS_futex, &mark->pieces, FUTEX_WAIT, seen, &nap, NULL, 0);
	(void)atomic_fetch_sub(&mark->sleepers, 1);
	atomic_store(&shared->sleeps_at, NULL);
}

static void wake_at(struct hd_shared_mark *mark) {
	if (atomic_load(&mark->sleepers) != 0)
		(void)syscall(SYS_futex, &mark->pieces, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* --- the thread ------------------------------------------------------------------------------ */

/* The call's segment is the one that is mapped. -errno: it cannot be had; -ECANCELED: the call is given up. */
static int provide(struct heddle_shared *shared, const struct hd_shared_call *call) {
	bool stopped;
	int rc = 0;

	if (shared->segment.token != call->token) {
		heddle_segment_close(&shared->segment);
		rc = heddle_segment_open(&shared->segment, call->token, call->members);
	}
	pthread_mutex_lock(&shared->lock);
	shared->mapped = rc == 0;
	stopped = atomic_load(&shared->stopping);
	pthread_mutex_unlock(&shared->lock);
	return rc < 0 ? rc : stopped ? -ECANCELED : 0;
}

/* 0: it is done; -EAGAIN: it waits for another member; -ECANCELED: it is void; -EPROTO. */
static int take_steps(struct heddle_shared *shared) {
	for (;;) {
		switch (hd_shared_step(&shared->run)) {
		case HD_SHARED_MOVED:
			(void)atomic_fetch_add(&shared->steps, 1);
			wake_at(shared->run.mark);
			break;
		case HD_SHARED_WAIT:
			return -EAGAIN;
		case HD_SHARED_DONE:
			return 0;
		case HD_SHARED_VOID:
			return -ECANCELED;
		default:
			return -EPROTO;
		}
		if (atomic_load_explicit(&shared->stopping, memory_order_relaxed))
			return -ECANCELED;
	}
}

static int in_steps(struct heddle *fabric, const struct heddle_turn *turn) {
	(void)turn;
	return take_steps(fabric->shared);
}

/* The same; -EPROTO also when an assertion has failed, with words, else "": the round goes by the network. */
static int advance(struct heddle_shared *shared, char words[HEDDLE_GUARD_BYTES]) {
	int rc;

	words[0] = '\0';
	return heddle_guard(shared->fabric, in_steps, NULL, words, &rc) ? rc : -EPROTO;
}

/* Without the lock: others may wait for it while the caller's function runs. */
static void log_words(const struct heddle_shared *shared, const char *words) {
	const struct heddle *fabric = shared->fabric;

	if (words[0] && fabric->log)
		fabric->log(fabric->log_arg, HEDDLE_LOG_ERROR, words);
}

/* The call that is being made, to its end. */
static int play(struct heddle_shared *shared, bool begun) {
	char words[HEDDLE_GUARD_BYTES];
	int rc = provide(shared, &shared->call);

	shared->looks = shared->call.members <= shared->processors ? LOOKS_ALONE : LOOKS;
	if (rc == 0 && !begun)
		rc = hd_shared_begin(&shared->run, &shared->segment.map, &shared->call);
	if (rc < 0)
		return rc;
	while ((rc = advance(shared, words)) == -EAGAIN) {
		sleep_at(shared, shared->run.mark, shared->run.seen);
		if (atomic_load(&shared->stopping))
			return -ECANCELED;
	}
	log_words(shared, words);
	return rc;
}

/* With the lock held. */
static void end(struct heddle_shared *shared, int rc) {
	shared->ended[shared->ends++] = (struct ended){shared->call, rc};
	hd_driver_wake(shared->fabric->driver);
}

/* That this thread may run on. */
static uint32_t count_processors(void) {
	cpu_set_t set;

	return sched_getaffinity(0, sizeof set, &set) < 0 ? 1 : (uint32_t)CPU_COUNT(&set);
}

static void *run(void *arg) {
	struct heddle_shared *shared = arg;
	bool begun;
	int rc;

	shared->processors = count_processors();
	pthread_mutex_lock(&shared->lock);
	for (;;) {
		while (shared->queued == 0 && !shared->closing)
			pthread_cond_wait(&shared->changed, &shared->lock);
		if (shared->closing)
			break;
		shared->call = shared->queue[0];
		begun = shared->begun;
		shared->begun = false;
		shared->queued--;
		for (uint32_t i = 0; i < shared->queued; i++)
			shared->queue[i] = shared->queue[i + 1];
		shared->running = true;
		pthread_mutex_unlock(&shared->lock);
		rc = play(shared, begun);
		pthread_mutex_lock(&shared->lock);
		if (rc < 0 && shared->mapped)
			(void)hd_shared_kill(&shared->segment.map, shared->call.turn);
		shared->running = shared->mapped = false;
		shared->finished++;
		if (!atomic_load(&shared->stopping))
			end(shared, rc);
		atomic_store(&shared->stopping, false);
		pthread_cond_broadcast(&shared->changed);
	}
	pthread_mutex_unlock(&shared->lock);
	heddle_segment_close(&shared->segment);
	return NULL;
}

/* --- as the core sees it --------------------------------------------------------------------- */

static bool is_same(const struct hd_shared_call *call, uint64_t token, uint32_t turn) {
	return call->token == token && call->turn == turn;
}

static int start(struct heddle_shared *shared) {
	int rc;

	if (shared->has_thread)
		return 0;
	heddle_segment_sweep();
	rc = hd_thread_start(&shared->thread, NULL, run, shared);
	if (rc < 0)
		return rc;
	shared->has_thread = true;
	(void)pthread_setname_np(shared->thread, "heddle-memory");
	return 0;
}

/* With the lock held. A short call, in the segment that is mapped: whether it has ended already. */
static bool is_made_at_once(
	struct heddle_shared *shared,
	const struct hd_shared_call *call,
	char words[HEDDLE_GUARD_BYTES]
) {
	int rc;

	if (shared->queued > 0 || shared->running || shared->segment.token != call->token
	    || call->values * hd_dtype_bytes(call->dtype) > SHORT_BYTES)
		return false;
	shared->call = *call;
	rc = hd_shared_begin(&shared->run, &shared->segment.map, &shared->call);
	if (rc == 0)
		rc = advance(shared, words);
	shared->begun = rc == -EAGAIN;
	if (rc == -EAGAIN)
		return false;
	if (rc < 0)
		(void)hd_shared_kill(&shared->segment.map, call->turn);
	end(shared, rc);
	return true;
}

static int begin(void *owner, const struct hd_shared_call *call) {
	struct heddle_shared *shared = owner;
	char words[HEDDLE_GUARD_BYTES] = "";
	int rc = start(shared);

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&shared->lock);
	/* Room for the end of each, also of those that have ended. */
	if (shared->queued + shared->running + shared->ends == HD_REDUCES_MAX)
		rc = -ENOBUFS;
	else if (!is_made_at_once(shared, call, words)) {
		shared->queue[shared->queued++] = *call;
		pthread_cond_broadcast(&shared->changed);
	}
	pthread_mutex_unlock(&shared->lock);
	log_words(shared, words);
	return rc;
}

/* With the lock held: the thread leaves the call, and does not report it. */
static void leave(struct heddle_shared *shared) {
	const uint64_t finished = shared->finished;
	struct hd_shared_mark *mark;

	atomic_store(&shared->stopping, true);
	while (shared->finished == finished) {
		mark = atomic_load(&shared->sleeps_at);
		if (mark)
			(void)syscall(SYS_futex, &mark->pieces, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
		pthread_cond_wait(&shared->changed, &shared->lock);
	}
}

static bool forget_queued(struct heddle_shared *shared, uint64_t token, uint32_t turn) {
	bool found = false;

	for (uint32_t i = 0; i < shared->queued; i++) {
		found = found || is_same(&shared->queue[i], token, turn);
		if (found && i + 1 < shared->queued)
			shared->queue[i] = shared->queue[i + 1];
	}
	shared->queued -= found;
	return found;
}

/* One that has ended, and is not to be reported. True: it is void, or not to be reported in any case. */
static bool forget_ended(struct heddle_shared *shared, uint64_t token, uint32_t turn, bool force) {
	for (uint32_t i = 0; i < shared->ends; i++) {
		if (!is_same(&shared->ended[i].call, token, turn))
			continue;
		if (shared->ended[i].rc == 0 && !force)
			return false;
		shared->ended[i] = shared->ended[--shared->ends];
		return true;
	}
	return true;
}

static bool stop(void *owner, uint64_t token, uint32_t turn, bool force) {
	struct heddle_shared *shared = owner;
	bool is_void = true;

	pthread_mutex_lock(&shared->lock);
	if (shared->call.token == token && (shared->begun || (shared->running && shared->mapped)))
		is_void = hd_shared_kill(&shared->segment.map, turn);
	if (shared->begun && is_same(&shared->call, token, turn)) {
		if (is_void || force)
			shared->begun = !forget_queued(shared, token, turn);
	} else if (forget_queued(shared, token, turn))
		is_void = true;
	else if (!shared->running || !is_same(&shared->call, token, turn))
		is_void = forget_ended(shared, token, turn, force);
	else if (is_void || force)
		leave(shared);
	pthread_mutex_unlock(&shared->lock);
	return is_void || force;
}

static uint64_t progress(const void *owner) {
	const struct heddle_shared *shared = owner;

	return atomic_load_explicit(&shared->steps, memory_order_relaxed);
}

static const struct hd_shared_ops ops = {.begin = begin, .stop = stop, .progress = progress};

/* --- its life -------------------------------------------------------------------------------- */

int heddle_shared_open(struct heddle *fabric, struct hd_worker_config *config) {
	struct heddle_shared *shared;
	int on, rc = heddle_number_from_env("HEDDLE_SHARED_MEMORY", 0, 1, 1, &on);

	if (rc < 0 || on == 0 || fabric->manual || hd_addr_is_none(config->controller))
		return rc;
	config->shared = heddle_segment_identity(config->host);
	if (config->shared == 0)
		return 0;
	shared = calloc(1, sizeof *shared);
	if (!shared)
		return heddle_fail(-ENOMEM, "no memory");
	shared->fabric = fabric;
	shared->segment.fd = -1;
	rc = pthread_mutex_init(&shared->lock, NULL);
	if (rc == 0 && (rc = pthread_cond_init(&shared->changed, NULL)) != 0)
		pthread_mutex_destroy(&shared->lock);
	if (rc != 0) {
		free(shared);
		return heddle_fail(-rc, "no memory");
	}
	fabric->shared = shared;
	config->shared_ops = &ops;
	config->shared_owner = shared;
	return 0;
}

static int in_done(struct heddle *fabric, const struct heddle_turn *turn) {
	const struct ended *ended = turn->arg;

	hd_worker_shared_done(fabric->worker, turn->now, &ended->call, ended->rc, turn->sink);
	return 0;
}

void heddle_shared_take(struct heddle *fabric, hd_ns now, struct hd_sink *sink) {
	struct heddle_shared *shared = fabric->shared;
	struct ended ended;
	const struct heddle_turn turn = {.now = now, .sink = sink, .arg = &ended};
	bool any = shared != NULL;

	while (any) {
		pthread_mutex_lock(&shared->lock);
		any = shared->ends > 0;
		if (any) {
			ended = shared->ended[0];
			shared->ends--;
			for (uint32_t i = 0; i < shared->ends; i++)
				shared->ended[i] = shared->ended[i + 1];
		}
		pthread_mutex_unlock(&shared->lock);
		if (any)
			(void)heddle_enter(fabric, in_done, &turn);
	}
}

void heddle_shared_halt(struct heddle *fabric) {
	struct heddle_shared *shared = fabric->shared;

	if (!shared)
		return;
	pthread_mutex_lock(&shared->lock);
	shared->queued = 0;
	shared->begun = false;
	if (shared->running && shared->mapped)
		(void)hd_shared_kill(&shared->segment.map, shared->call.turn);
	if (shared->running)
		leave(shared);
	shared->ends = 0;
	pthread_mutex_unlock(&shared->lock);
}

void heddle_shared_close(struct heddle *fabric) {
	struct heddle_shared *shared = fabric->shared;

	if (!shared)
		return;
	heddle_shared_halt(fabric);
	pthread_mutex_lock(&shared->lock);
	shared->closing = true;
	pthread_cond_broadcast(&shared->changed);
	pthread_mutex_unlock(&shared->lock);
	if (shared->has_thread)
		pthread_join(shared->thread, NULL);
	pthread_cond_destroy(&shared->changed);
	pthread_mutex_destroy(&shared->lock);
	free(shared);
	fabric->shared = NULL;
}
