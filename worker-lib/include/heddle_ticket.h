/* SPDX-License-Identifier: BSD-3-Clause */
/* libheddle: tickets of operations in flight, their states and ends. Include heddle.h. */
#ifndef HEDDLE_TICKET_H
#define HEDDLE_TICKET_H

#include "heddle_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * push:  QUEUED -> REQUESTED -> GRANTED -> SENDING -> HELD -> APPLIED -> DURABLE
 *                      \------------ or, from any of them ----> DROPPED | FAILED
 * pull:  QUEUED -> REQUESTED -> GRANTED -> SENDING -> APPLIED (delivered) | DROPPED | FAILED
 *
 * DURABLE. The update is not only in the server's memory. Where else depends on the job at that moment:
 *  - A replica could take over: the update is in its memory, too. It survives the loss of the server or of the replica,
 *    but not of both at once: a power failure of both loses the updates after the newest checkpoint.
 *  - No replica could take over: the update is in a checkpoint, synced to disk. It survives a crash or a power failure
 *    of the server, but not the loss of the disk. If the newest checkpoint is damaged later, the server falls back to
 *    the one before it.
 * A job with neither makes nothing DURABLE. The library reports DURABLE only for pushes whose values it keeps
 * (heddle_options.keep_bytes); it releases any other push when that is APPLIED. Pulls and collectives end as APPLIED.
 */
enum heddle_state {
	HEDDLE_STATE_QUEUED = 0,
	HEDDLE_STATE_REQUESTED = 1,
	HEDDLE_STATE_GRANTED = 2,
	HEDDLE_STATE_SENDING = 3,
	HEDDLE_STATE_HELD = 4, /* the server has every byte and has not committed the update yet */
	HEDDLE_STATE_APPLIED = 5,
	HEDDLE_STATE_DURABLE = 6, /* survives the loss of the server, see above */
	HEDDLE_STATE_DROPPED = 7, /* by policy: pull and continue */
	HEDDLE_STATE_FAILED = 8
};

/* Why an operation was dropped or has failed. heddle_reason_name() returns the name of a reason. */
enum heddle_reason {
	HEDDLE_REASON_NONE = 0,
	HEDDLE_REASON_BOUND = 1, /* the controller: it would have exceeded tau_max */
	HEDDLE_REASON_IDLES = 2, /* its early slot would have left the network idle */
	/* Push: it exceeded tau_max when the server was to commit it. Collective: the others have the result, or
	 * went on without this worker. */
	HEDDLE_REASON_LATE = 3,
	HEDDLE_REASON_LOST_BASE = 4, /* its base version was lost in a restart of the server */
	HEDDLE_REASON_VOID = 5, /* the controller voided its position */
	HEDDLE_REASON_HOLD = 6, /* the server voided its position after waiting for it */
	HEDDLE_REASON_LEASE = 7, /* this worker was silent for too long */
	HEDDLE_REASON_CANCELLED = 8,
	HEDDLE_REASON_LEFT = 9,
	HEDDLE_REASON_NOT_FINITE = 10,
	HEDDLE_REASON_REFUSED = 11, /* job description, admission or protocol */
	HEDDLE_REASON_NO_MEMORY = 12,
	HEDDLE_REASON_DUPLICATE = 13,
	HEDDLE_REASON_NOT_MODIFIED = 14, /* conditional pull: no newer version */
	HEDDLE_REASON_EPOCH = 15, /* granted by a controller that has been superseded */
	HEDDLE_REASON_CLOSED = 16,
	HEDDLE_REASON_NO_SERVER = 17, /* collective: no aggregator is there, or has room */
	HEDDLE_REASON_TIMEOUT = 18,
	HEDDLE_REASON_UNKNOWN_KEY = 19,
	HEDDLE_REASON_VERSION_MISMATCH = 20,
	HEDDLE_REASON_PREEMPTED = 22, /* its machine is preempted; it did not end in time */
	HEDDLE_REASON_DEVICE = 24, /* the GPU with the data failed */
	/* Of collectives, sends and receives. All members (of PEER: the end that is left) have the same reason, and
	 * heddle_ticket_error() has the message. */
	HEDDLE_REASON_MISMATCH = 25, /* the members have called different things */
	HEDDLE_REASON_MEMBERS = 26, /* not `exact` members, or fewer than `least` are left */
	HEDDLE_REASON_ROOT = 27, /* its root is lost, or takes no part */
	HEDDLE_REASON_PEER = 28 /* the other end of a send or receive is lost, or has given it up */
};

struct heddle_status {
	size_t size;
	enum heddle_state state;
	enum heddle_reason reason;
	enum heddle_direction direction;
	int released; /* 1: the library does not use the caller's buffer any more */
	int granted; /* 1: by the controller; 0: directly by the server */
	uint32_t round; /* number of this push or pull of this worker; 0 while it is queued */
	uint32_t delay; /* push: commits since base, with its own; else 0 */
	uint32_t workers; /* collective: number of workers that took part; else 0 */
	uint64_t base;
	uint64_t version; /* push: after its commit; pull: the version that was delivered */
	uint64_t bytes; /* on the wire, of the payload type */
	uint64_t started_ns, ended_ns; /* CLOCK_MONOTONIC; ended_ns 0: not ended yet */
	float scale; /* all-reduce: heddle_members.scale when the sum was made, the same for all; else 0 */
	/* collective: number of workers that waited in heddle_share_state() when it began, the same for all members
	 * (of a broadcast: for those of one execution); else 0 */
	uint32_t waiting;
};
#ifdef __cplusplus
#define HEDDLE_STATUS_INIT                                                                         \
	{                                                                                          \
		sizeof(struct heddle_status), HEDDLE_STATE_QUEUED, HEDDLE_REASON_NONE,             \
			HEDDLE_DIRECTION_PUSH, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                  \
	}
#else
#define HEDDLE_STATUS_INIT                                                                         \
	{ .size = sizeof(struct heddle_status) }
#endif

/* The event that heddle_ticket_wait() waits for. */
enum heddle_wait {
	HEDDLE_WAIT_HELD = 0, /* the server or an aggregator has every byte; or it has ended */
	HEDDLE_WAIT_OUTCOME = 1, /* APPLIED, DROPPED or FAILED */
	HEDDLE_WAIT_RELEASED = 2, /* the buffer belongs to the caller again */
	HEDDLE_WAIT_DURABLE = 3 /* DURABLE, or it never will be: the library has released it */
};

/* Says whether the ticket has ended. status may be NULL. Returns 1 when it has ended (APPLIED, DROPPED, FAILED), else
 * 0; -EINVAL, -ECHILD. */
int heddle_ticket_test(struct heddle_ticket *ticket, struct heddle_status *status);
/* Waits for the event `until`, at most timeout_ms. In manual mode it drives the fabric. status (may be NULL) is set on
 * 0 and -ETIMEDOUT; after -ETIMEDOUT the operation continues. Returns 0, -ETIMEDOUT, -EINVAL, -ESHUTDOWN, -ECHILD, or
 * an errno of the socket. */
int heddle_ticket_wait(
	struct heddle_ticket *ticket,
	enum heddle_wait until,
	int timeout_ms,
	struct heddle_status *status
);
/* How many functions may wait for one ticket. */
#define HEDDLE_THEN_MAX 16
/* The type of the functions of heddle_ticket_then(). The ticket is valid until it returns, even if it was freed;
 * heddle_ticket_test() says how it has ended. */
typedef void (*heddle_ticket_function)(struct heddle_ticket *ticket, void *argument);
/*
 * Has `function` called once with `argument`, when the event `until` has happened. (heddle_ticket_wait() waits for the
 * same events.) If it has happened already, this call calls the function. Otherwise the progress thread does (in manual
 * mode, the thread that drives the fabric), or heddle_close(), in which every ticket ends. So the function is always
 * called, except in a child of this process. For a push, HEDDLE_WAIT_OUTCOME calls it when the push is APPLIED (a
 * restart of the server can lose that; it is not called a second time). HEDDLE_WAIT_DURABLE calls it when the push is
 * DURABLE or never will be: the status says which.
 * The function must return soon, as nothing is sent or received meanwhile, and must not throw. It may call every
 * function of the library, and begin operations. Functions with a timeout_ms return -EDEADLK in it and change nothing,
 * whatever the timeout; heddle_ticket_wait() does so only where it would wait. When heddle_close() calls the function,
 * those that take the handle return -ESHUTDOWN.
 * Returns 0, -ENOSPC (HEDDLE_THEN_MAX functions wait already), -ENOMEM, -EINVAL, -ECHILD.
 */
int heddle_ticket_then(
	struct heddle_ticket *ticket,
	enum heddle_wait until,
	heddle_ticket_function function,
	void *argument
);
/* Withdraws the operation. Returns 0 (it ends as FAILED, cancelled, unless it ends otherwise first), -EALREADY (HELD or
 * ended), -EAGAIN (HEDDLE_COMMANDS_MAX cancellations are queued), -EINVAL, -ECHILD. */
int heddle_ticket_cancel(struct heddle_ticket *ticket);
/* Frees the ticket; the operation itself continues. NULL is ignored. */
void heddle_ticket_free(struct heddle_ticket *ticket);

/* Returns the error in words, if more is known than the reason; else "". Never NULL. The text is valid as long as the
 * ticket. */
const char *heddle_ticket_error(struct heddle_ticket *ticket);

/* Names: "applied", "late", ...; "unknown" for any other value. Never NULL. */
const char *heddle_state_name(enum heddle_state state);
const char *heddle_reason_name(enum heddle_reason reason);

#ifdef __cplusplus
}
#endif

#endif
