/* SPDX-License-Identifier: BSD-3-Clause */
/* libheddle: joining and leaving a job; event loops. Include heddle.h. */
#ifndef HEDDLE_JOB_H
#define HEDDLE_JOB_H

#include "heddle_spec.h"

#ifdef __cplusplus
extern "C" {
#endif

enum heddle_log_level {
	HEDDLE_LOG_ERROR = 0,
	HEDDLE_LOG_WARNING = 1,
	HEDDLE_LOG_INFO = 2
};

/* A member that is NULL or 0 comes from the environment variable in its comment; without that it is (...). */
struct heddle_options {
	size_t size;
	const char *controller; /* HEDDLE_CONTROLLER: address[:port] (none: use only the server) */
	const char *server; /* HEDDLE_SERVER: required without a controller, else the fallback */
	const char *key_file; /* HEDDLE_KEY_FILE */
	const char *host; /* HEDDLE_HOST: this machine's name in the topology (the host name) */
	const char *bind; /* HEDDLE_BIND: local address[:port] to send from and receive at (any) */
	const char *events; /* HEDDLE_EVENTS: file for a log of events, one JSON object per line */
	int rank; /* negative: HEDDLE_RANK (0); this worker's number, below HEDDLE_WORKERS_MAX */
	int manual; /* no progress thread: the caller calls heddle_progress() */
	/* HEDDLE_KEEP_MB (in MiB): bytes of APPLIED updates to keep until they are DURABLE, to push them again after
	 * a restart of the server or to its replica (0: none). */
	uint64_t keep_bytes;
	uint32_t chunk_bytes; /* HEDDLE_CHUNK_BYTES: payload of a packet, a multiple of 4 (1408) */
	uint32_t fallback_ms; /* use only the server after this time without a controller (750) */
	float job_weight; /* the tenant's weight in fair sharing (1) */
	/* Called from the library's threads; must not block or call the library. May be NULL. */
	void (*log)(void *log_arg, enum heddle_log_level level, const char *text);
	void *log_arg;
	int observe; /* HEDDLE_OBSERVER: pull only; not a member, and no step waits for this worker */
	int aggregator_mb; /* HEDDLE_AGGREGATOR_MB (without tensors 1024, else 0): MiB to add all-reduces; < 0: none */
	int world_size; /* HEDDLE_WORLD_SIZE (1): workers for which the job's first collective waits */
};
#ifdef __cplusplus
#define HEDDLE_OPTIONS_INIT                                                                        \
	{ sizeof(struct heddle_options), 0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#else
#define HEDDLE_OPTIONS_INIT                                                                        \
	{ .size = sizeof(struct heddle_options), .rank = -1 }
#endif

/* Opens a job and starts to join it in the background. options: may be NULL. Copies spec. 0, -EINVAL (spec, option,
 * environment, key file), -ENOENT, -EACCES (files), -EHOSTUNREACH, -ENETUNREACH, -ETIMEDOUT (host names), -EDESTADDRREQ
 * (no controller and no server), -EADDRNOTAVAIL, -EADDRINUSE, -EMFILE, -EAGAIN (no thread), -ENOMEM. */
int heddle_open(
	const struct heddle_spec *spec,
	const struct heddle_options *options,
	struct heddle **fabric
);
/* Waits until the server has accepted the job's description. Sets *version (of the model) and *tau_max (in commits);
 * both may be NULL. 0, -ETIMEDOUT, -ECONNREFUSED (heddle_last_error() says which: another description, no memory, key),
 * -ESHUTDOWN (preempted, left), -ECHILD, or an errno of the socket. */
int heddle_wait_joined(struct heddle *fabric, int timeout_ms, uint64_t *version, uint32_t *tau_max);
/* Leaves the job: waits for the operations in flight and until others have the sums that are added here; rejects
 * new ones (-ESHUTDOWN). 0, -ETIMEDOUT (leaving
 * continues: call it again), -ECHILD, or an errno of the socket. */
int heddle_leave(struct heddle *fabric, int timeout_ms);
/* Leaves the job and always frees the handle. Operations that have not ended by then end as FAILED (closed); their
 * tickets stay valid until they are freed, and their buffers belong to the caller again. 0 (also for NULL), -ETIMEDOUT,
 * -ECHILD (nothing was sent), or an errno of the socket. Call it once, when no other thread uses the handle. */
int heddle_close(struct heddle *fabric, int timeout_ms);

/*
 * Opens a group: some workers of a job, with collectives of their own, which are matched among them only. Each of them
 * calls it, whenever it likes; the others need not know of it. name: unlike those of the job's other open groups; it is
 * free again when all workers of the group have closed it. ranks: `count` different ranks of the job, this worker's
 * among them, the same list at all of them. Worker ranks[i] has rank i in the group, and `count` is its world size. A
 * group is a job without tensors, opened with the same options: it has sockets, threads and an aggregator of its own,
 * and counts among the jobs that a controller can have (256). It has no event log. Close it with heddle_close(); it may
 * outlive `fabric`, and uses its log function. Workers with different lists are in different groups, whose first
 * collective waits for the rest. 0, -EINVAL (name: empty, not UTF-8, with a /, too long; ranks: out of range, twice,
 * not this worker's; an observer), -ECHILD, and everything that heddle_open() returns.
 */
int heddle_group_open(
	struct heddle *fabric,
	const char *name,
	const int *ranks,
	size_t count,
	struct heddle **group
);

/* This worker's rank; the number of workers that the job was opened for (options.world_size). -EINVAL, -ECHILD. */
int heddle_rank(const struct heddle *fabric);
int heddle_world_size(const struct heddle *fabric);

/* --- event loops ---------------------------------------------------------------------------- */

/* Returns a descriptor for poll() and epoll. Readable when a ticket has ended or the membership has changed (manual
 * mode: when there may be work): call heddle_progress(fabric, 0). Do not read, write or close it. -EINVAL, -ECHILD. */
int heddle_fd(const struct heddle *fabric);
/* With a progress thread: waits until any ticket ends or the membership changes. In manual mode: drives the fabric
 * while it waits; one thread makes this and all other calls. 1: one of these has happened since the last call; 0: none
 * has; -ESHUTDOWN (this worker has left: none will), -ECHILD, or an errno of the socket. */
int heddle_progress(struct heddle *fabric, int timeout_ms);
/* Manual: the ms until heddle_progress() is due even without news from heddle_fd(); -1: never. -EINVAL, -ECHILD. */
int heddle_timeout_ms(const struct heddle *fabric);

#ifdef __cplusplus
}
#endif

#endif
