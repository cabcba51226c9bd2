/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside libheddle.
 *
 *   caller's threads                     progress thread (manual: the caller's)
 *   ----------------                     --------------------------------------
 *   heddle_push_start: ticket, copy
 *     -> commands (bounded) -- wake -->  on_woken: hd_worker_push ...
 *   heddle_ticket_wait   <-- changed --  on_ticket, on_released: status under the lock
 *
 * The lock protects what is marked; the worker core, its sockets and its events belong to the
 * progress thread alone. The lock is never held over a call into the core, whose callbacks take it.
 */
#ifndef HEDDLE_PRIVATE_H
#define HEDDLE_PRIVATE_H

#include "hd_program.h"
#include "hd_roster.h"
#include "hd_worker.h"
#include "hd_worker_times.h"
#include "heddle.h"
#include "heddle_far.h"
#include "heddle_then.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/types.h>

enum heddle_core_state {
	HEDDLE_CORE_ALIVE,
	HEDDLE_CORE_ENDED, /* it has left, and every ticket has ended */
	HEDDLE_CORE_FAILED, /* an assertion failed in it: it is never entered again */
	HEDDLE_CORE_DEAD /* and every ticket has ended */
};

struct heddle_spec {
	struct hd_jobspec job;
	uint32_t capacity; /* of job.tensors */
	int sync, staleness; /* as the caller said them: of what has no byte in `job` */
};

struct heddle_ticket {
	struct heddle *fabric;
	TAILQ_ENTRY(heddle_ticket) link; // lock: fabric->tickets, while the library holds it
	unsigned references; // lock: the caller's, the library's
	bool in_core; // lock: the core was told, or is being told
	bool ended, let_go; // lock: has an outcome; the library is done with it
	bool keeps; // lock: the copy stays until the caller has taken what is in it
	struct heddle_status status; // lock
	struct heddle_then_list then; // lock: functions to be called
	/* Set before it is queued, then the progress thread's. */
	const float *data; /* push: what is sent: the copy, or what was borrowed */
	void *copy; /* of the runs, if any, and the data */
	size_t copy_bytes;
	const struct hd_run *runs; /* sparse; NULL: dense */
	size_t run_count;
	void *into; /* pull, all-reduce */
	uint8_t dtype; /* push: in which it travels */
	struct heddle_far *far; /* data or into are on a device; NULL: on the host */
	const struct heddle_parts *parts; /* the result goes there; NULL: it stays in into */
	uint64_t values, have, room; /* values: of data; room: of into, in values */
	bool conditional;
	float weight; /* push of a federated job */
	struct hd_work work; /* said before it; round 0: nothing */
	bool reduce; /* a collective: data, into and values */
	uint8_t type, op, order; /* its values', enum hd_dtype; how they are combined */
	uint8_t collective, state; /* enum hd_collective, enum hd_request_state */
	uint16_t root, exact, least;
	uint32_t channel, wait_ms; /* channel: of a send or receive; else 0 */
	int *ranks; /* options' */
	size_t rank_capacity;
	struct hd_roster members; // lock: empty: unknown
	char tag[HEDDLE_TAG_BYTES_MAX + 1];
	char words[HD_TEXT_BYTES_MAX + 1]; // lock: until it has ended
	uint32_t round; /* by which the core knows it; set when it has taken it */
};

TAILQ_HEAD(heddle_ticket_list, heddle_ticket);

struct heddle_ticket_ring {
	struct heddle_ticket *item[HEDDLE_COMMANDS_MAX];
	uint32_t head, count;
};

struct heddle {
	pid_t pid;
	bool manual, has_thread;
	int rank, world_size;
	struct heddle_options opened; /* a group is opened like it */
	uint64_t values;
	struct heddle_spec *spec;
	struct hd_keyring keys;
	struct hd_event_log *events;
	void (*log)(void *log_arg, enum heddle_log_level level, const char *text);
	void *log_arg;
	struct hd_driver *driver;
	struct hd_worker *worker;
	pthread_t thread;
	struct heddle_aggregator *aggregator; /* beside the worker; NULL: none */
	struct heddle_shared *shared; /* memory, with other processes; NULL: none */
	int ended_fd; /* counts ends, for poll() */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned references; // lock: the caller's and one for each ticket
	struct heddle_ticket_ring commands, cancels; // lock; only the progress thread takes out
	struct heddle_ticket_list tickets; // lock
	struct heddle_then_list due; // lock: functions to be called now
	bool joined, refused, left, closing, stopping; // lock
	bool undriven, late; // lock; undriven: has no thread; late: since heddle_share_state()
	int error; // lock: 0, or why nothing goes on: an errno of the socket, -EIO (its core is dead)
	char error_text[HD_TEXT_BYTES_MAX + 1]; // lock
	_Atomic uint64_t newest; // writer: the progress thread, readers: heddle_is_superseded()
	uint32_t tau_max; // lock
	uint64_t ends, ends_seen, version; // lock: changes of members, too; of the last JOINED
	struct hd_roster roster; // lock
	struct hd_round_info info; // lock: of a federated job
	struct hd_lack_info lack; // lock: of such a job
	bool round_is_new, lack_is_new; // lock: no caller has taken it yet
	struct hd_worker_observation seen; // lock: not handed to the core yet; samples 0: nothing
	float sent_norm, held_norm; // lock: of the next report; < 0: not known
	_Atomic hd_ns preempted_at; // writer: any thread, or a signal handler; 0: no notice
	hd_ns notice_taken, deadline,
		far_at; /* the progress thread's; far_at: to look at devices */
	enum heddle_core_state core;
	hd_ns flush_at; // lock: no pushes after it; HD_NEVER: no notice
	bool sent_away; // lock: the notice is the job's: nothing is to be begun any more
	struct heddle_far_list spare_far; // lock
	unsigned spare_far_count; // lock
	void *spare; // lock: the last copy that was given back: its pages are there already
	size_t spare_bytes; // lock
	char refusal[HD_TEXT_BYTES_MAX + 1], trouble[HD_TEXT_BYTES_MAX + 1]; // lock
	struct hd_worker_stats stats; // lock; writer: the progress thread
	struct hd_worker_times times[2]; // lock; writer: the progress thread; by direction
};

/* Sets heddle_last_error() and returns the code. */
#define heddle_fail(code, ...) (heddle_set_error(__VA_ARGS__), (code))
__attribute__((format(printf, 1, 2))) void heddle_set_error(const char *format, ...);

/* 0, -EINVAL (NULL), or -ECHILD in another process than the one that opened it. */
int heddle_check(const struct heddle *fabric);
/* The same of the handle that the ticket is of. */
int heddle_check_ticket(const struct heddle_ticket *ticket);
/* 0, also of NULL, or -EINVAL (size). */
int heddle_check_status(const struct heddle_status *status);
/* 0, also of NULL; -EINVAL (size, scale, memory, payload), -ENOTSUP (memory). */
int heddle_check_push_options(const struct heddle_push_options *options);
/* The job has a model: what is pushed and pulled. -EINVAL. */
int heddle_check_model(const struct heddle *fabric);
/* Its updates are pushed as they are. -EINVAL. */
int heddle_check_not_federated(const struct heddle *fabric);

/* --- heddle_ticket.c ------------------------------------------------------------------------ */
/* All with the lock held. */
void heddle_ticket_end(
	struct heddle_ticket *ticket,
	enum heddle_state state,
	enum heddle_reason reason
);
/* The core at rest, or dead: tickets that have not ended fail; those kept for a restart of the server are released. */
void heddle_end_tickets(struct heddle *fabric, enum heddle_reason reason);
void heddle_count_end(struct heddle *fabric); /* heddle_fd() becomes readable */
void heddle_ticket_let_go(struct heddle_ticket *ticket);
/* The core does not know it, or not any more. Memory that a device may still read is released in its turn. */
void heddle_ticket_withdraw(struct heddle_ticket *ticket);
/* The caller has taken what it wants of the copy. */
void heddle_ticket_taken(struct heddle_ticket *ticket);
void heddle_ticket_unref(struct heddle_ticket *ticket);
/* Without the lock: a ticket with references, and into the queue with it (or it is freed). */
struct heddle_ticket *heddle_ticket_new(struct heddle *fabric, enum heddle_direction direction);
void heddle_ticket_discard(struct heddle *fabric, struct heddle_ticket *ticket); /* never queued */
int heddle_ticket_finite(const struct heddle *fabric, const struct heddle_ticket *ticket);
int heddle_ticket_enqueue(struct heddle *fabric, struct heddle_ticket *ticket);
/* Without the lock: room for the ticket's copy. -ENOMEM. */
int heddle_ticket_copy(struct heddle *fabric, struct heddle_ticket *ticket, size_t bytes);
/* -EINVAL. Whether there is such a device the pointers tell. */
int heddle_check_memory(enum heddle_memory memory, const void *stream);
/* The same where only the host's memory is taken. -ENOTSUP. */
int heddle_check_host(enum heddle_memory memory, const void *stream);
/* -EDOM: which value it is, by the tensor that it is in, and what it is. */
int heddle_set_not_finite(const struct heddle *fabric, uint64_t index, const char *what);
int heddle_check_payload(enum heddle_payload payload);
void heddle_unlock_unref(struct heddle *fabric, unsigned references); /* may free it */

/* --- heddle_core.c -------------------------------------------------------------------------- */
/* What a call of the core is told; what a call does not need is 0. */
struct heddle_turn {
	hd_ns now;
	struct hd_sink *sink;
	struct heddle_ticket *ticket;
	const struct hd_packet *packets;
	size_t count;
	const void *arg;
};

typedef int heddle_core_call(struct heddle *fabric, const struct heddle_turn *turn);

/* Where an assertion failed, and which. */
#define HEDDLE_GUARD_BYTES (HD_TEXT_BYTES_MAX + 1)

/* Makes a call that enters a core, without the lock; *rc is its result. False with words: an assertion failed in it. */
bool heddle_guard(
	struct heddle *fabric,
	heddle_core_call *call,
	const struct heddle_turn *turn,
	char words[HEDDLE_GUARD_BYTES],
	int *rc
);
/* Keeps the memory of a core in which an assertion failed, for a debugger. */
void heddle_keep_dead(void *core);
/* The call's result, without the lock, of the worker's core. -EIO: an assertion failed in it, now or before. */
int heddle_enter(struct heddle *fabric, heddle_core_call *call, const struct heddle_turn *turn);
extern const struct hd_core_ops heddle_core_ops; /* the core is the handle */
int heddle_core_create(struct heddle *fabric, const struct hd_worker_config *config);
void heddle_core_destroy(struct heddle *fabric);

/* --- heddle_drive.c ------------------------------------------------------------------------- */
int heddle_start_thread(struct heddle *fabric);
/* Waits with the lock held until `done(arg)`, an error of the handle, or the time; manual: drives meanwhile. 0 = done,
 * -ETIMEDOUT, -ESHUTDOWN (left: it never will be), -errno. */
int heddle_wait_until(
	struct heddle *fabric,
	bool (*done)(const void *arg),
	const void *arg,
	int timeout_ms
);

/* --- heddle_federated.c --------------------------------------------------------------------- */
void heddle_on_round(void *owner, const struct hd_round_info *info);
void heddle_on_lack(void *owner, const struct hd_lack_info *info);

/* --- heddle_members.c ----------------------------------------------------------------------- */
void heddle_on_members(void *owner, const struct hd_roster *roster);
/* The controller sends this worker away. */
void heddle_on_noticed(void *owner, hd_ns preempted_at);
/* The progress thread's: hands what was reported to the core. */
void heddle_take_report(struct heddle *fabric, hd_ns now);
/* L2 norms of what was sent, and of what is held back, to go with the next report of a step. < 0: not known. */
void heddle_report_norms(struct heddle *fabric, double sent, double held);
/* The progress thread's: tells the core of a notice. */
void heddle_take_notice(struct heddle *fabric, hd_ns now, struct hd_sink *sink);

/* --- heddle_progress.c ---------------------------------------------------------------------- */
extern const struct hd_worker_ops heddle_worker_ops;
void heddle_on_woken(void *owner, hd_ns now, struct hd_sink *sink);
void heddle_on_event(void *owner, const struct hd_event *event);

#endif
