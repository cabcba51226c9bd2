/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libheddle: pushes the updates of a training process to the Heddle fabric and pulls models from it.
 *
 *	struct heddle_spec *spec;                     the job's description: tensors, optimizer, tau_max
 *	struct heddle *fabric;
 *	uint64_t version;
 *
 *	heddle_spec_create(NULL, NULL, &spec);        names from HEDDLE_TENANT and HEDDLE_JOB
 *	heddle_spec_tensor(spec, "w", ...);
 *	heddle_open(spec, NULL, &fabric);             options from the environment (set by heddle-run)
 *	while (training) {
 *		heddle_pull(fabric, w, NULL, -1, &version);
 *		...gradient g at w...
 *		heddle_push_wait(fabric, g, version, NULL, -1, NULL);
 *	}
 *	heddle_close(fabric, 1000);
 *
 * Threads. The library starts one progress thread, which sends and receives; the program does not have to drive it.
 * Every function may be called from any thread unless its comment says otherwise.
 * Return values. A function returns 0 or a positive value on success and a negative errno on failure; its comment lists
 * the errors. Every function also returns -EINVAL, and changes nothing, when a required pointer is NULL or an argument
 * has an impossible value (an unknown enum value, a struct of another size, a NaN). heddle_last_error() then names the
 * argument. Functions without an error code ignore a NULL handle. The heddle_spec_ setters accept any value;
 * heddle_open() rejects bad ones.
 * Structs whose first member is `size` may grow in later versions: initialize them with their _INIT macro.
 * Blocking. Only functions with a timeout_ms parameter wait for other nodes, and never longer than timeout_ms
 * milliseconds (negative: no limit), whichever node fails to answer. They return -ESHUTDOWN when this worker has left
 * the job, as the awaited event can no longer happen. All other functions return at once, except for the time that they
 * need to copy and compute. heddle_open() also reads files and may wait up to 5 s for each host name that it resolves.
 * Processes. A handle belongs to the process that opened it. After fork() the child's calls return -ECHILD; the child
 * may only close the handle (which closes its descriptors and sends nothing) and open one of its own. An internal error
 * ends the handle, not the process: the log (HEDDLE_LOG_ERROR) says where it happened, operations in flight end as
 * FAILED, and further calls return -EIO.
 */
#ifndef HEDDLE_H
#define HEDDLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_VERSION_MAJOR 0
#define HEDDLE_VERSION_MINOR 1
#define HEDDLE_VERSION_PATCH 0

struct heddle; /* the membership of one worker in one job */
struct heddle_spec; /* a job's description */
struct heddle_ticket; /* one push, pull or all-reduce, until it is freed */

/* The memory of a buffer. CUDA: on a GPU, accessed in the order of the stream (docs/library.md, "GPU memory"). */
enum heddle_memory {
	HEDDLE_MEMORY_HOST = 0,
	HEDDLE_MEMORY_CUDA = 1
};

/*
 * push:  QUEUED -> REQUESTED -> GRANTED -> SENDING -> HELD -> APPLIED -> DURABLE
 *                      \------------ or, from any of them ----> DROPPED | FAILED
 * pull:  QUEUED -> REQUESTED -> GRANTED -> SENDING -> APPLIED (delivered) | DROPPED | FAILED
 */
enum heddle_state {
	HEDDLE_QUEUED = 0,
	HEDDLE_REQUESTED = 1,
	HEDDLE_GRANTED = 2,
	HEDDLE_SENDING = 3,
	HEDDLE_HELD = 4, /* the server has every byte and has not committed the update yet */
	HEDDLE_APPLIED = 5,
	HEDDLE_DURABLE = 6, /* on the replica; without a usable replica: in a checkpoint */
	HEDDLE_DROPPED = 7, /* by policy: pull and continue */
	HEDDLE_FAILED = 8
};

/* Why a push or pull was dropped or has failed. heddle_reason_name() returns the name of a reason. */
enum heddle_reason {
	HEDDLE_REASON_NONE = 0,
	HEDDLE_REASON_BOUND = 1, /* the controller: it would have exceeded tau_max */
	HEDDLE_REASON_IDLES = 2, /* its early slot would have left the network idle */
	HEDDLE_REASON_LATE = 3, /* the server: it exceeded tau_max when it was to be committed */
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
	HEDDLE_REASON_NO_SERVER = 17,
	HEDDLE_REASON_TIMEOUT = 18,
	HEDDLE_REASON_UNKNOWN_KEY = 19,
	HEDDLE_REASON_VERSION_MISMATCH = 20,
	HEDDLE_REASON_PREEMPTED = 22, /* its machine is preempted; it did not end in time */
	HEDDLE_REASON_DEVICE = 24 /* the GPU with the data failed */
};

/* The number of updates in a model version (its lower 48 bits). The upper 16 bits are the server's incarnation,
 * which changes when a restart lost updates. Treat a version as opaque otherwise. */
#define HEDDLE_VERSION_COUNTER(version) ((version) & ((UINT64_C(1) << 48) - 1))

/* --- the job's description ----------------------------------------------------------------- */

/* Creates a description. tenant, job: UTF-8 names; NULL: HEDDLE_TENANT (else "default") and HEDDLE_JOB (else
 * -EINVAL). Use a description from one thread at a time. 0, -EINVAL (also: name too long or not UTF-8), -ENOMEM. */
int heddle_spec_create(const char *tenant, const char *job, struct heddle_spec **spec);
void heddle_spec_destroy(struct heddle_spec *spec);

enum heddle_init {
	HEDDLE_INIT_ZERO = 0,
	HEDDLE_INIT_UNIFORM = 1 /* in [-scale, scale), from the job's seed */
};

/* Appends an fp32 tensor of `dimension_count` dimensions; the model is all tensors in this order. 0, -EINVAL (name,
 * a dimension of 0, init, scale), -E2BIG (too many tensors or dimensions), -ENOMEM. */
int heddle_spec_tensor(
	struct heddle_spec *spec,
	const char *name,
	const uint64_t *dimensions,
	size_t dimension_count,
	enum heddle_init init,
	float scale
);
/* Sets the seed of the initial weights. Default 0. */
void heddle_spec_seed(struct heddle_spec *spec, uint64_t seed);
/* Sets the optimizer: h <- momentum h - rate (g + decay w);  w <- w + h. Default 0.01, 0, 0. */
void heddle_spec_sgd(struct heddle_spec *spec, float rate, float momentum, float decay);
/* The staleness bound: an update is applied at most tau_max commits after its base version, or dropped. Default 16. */
void heddle_spec_tau_max(struct heddle_spec *spec, uint32_t tau_max);
/* When the server makes an optimizer step. ASYNC: for each update when it arrives. The others: one step for several
 * updates with the same base version, with their mean (their sum divided by their number). A step of k updates adds k
 * to the version; only the last of these versions has a model. Updates for a step that has ended are DROPPED (late) at
 * once. The staleness rule must be constant, and tau_max has no effect. */
enum heddle_sync {
	HEDDLE_ASYNC = 0,
	HEDDLE_SYNC = 1, /* one update from each current member */
	HEDDLE_N_SYNC = 2, /* the first updates from n different workers */
	HEDDLE_N_BATCH_SYNC = 3 /* the first n updates, from any workers */
};
/* Sets the mode; default ASYNC. n: 1 .. 4096 for N_SYNC and N_BATCH_SYNC, otherwise 0; heddle_open() rejects other
 * values. With fewer than n workers N_SYNC waits. */
void heddle_spec_sync(struct heddle_spec *spec, enum heddle_sync mode, uint32_t n);
/* Limits how far a replica may fall behind the server: the L2 norm of the difference between their models. The
 * server delays commits that could exceed it. 0 (the default): no limit. */
void heddle_spec_div_max(struct heddle_spec *spec, float div_max);

/* The factor on update number t, which is applied `delay` commits after its base. */
enum heddle_staleness {
	HEDDLE_STALENESS_CONSTANT = 0, /* 1 */
	HEDDLE_STALENESS_INV_SQRT = 1, /* c / sqrt(tau_max t) */
	HEDDLE_STALENESS_ADADELAY = 2 /* c / sqrt(t + delay) */
};
void heddle_spec_staleness(struct heddle_spec *spec, enum heddle_staleness rule, float c);
/* Allows NaN and Inf in updates. By default heddle_push() rejects them with -EDOM. */
void heddle_spec_allow_not_finite(struct heddle_spec *spec);
/* Sets whether the chunks between hosts carry a MAC, which costs processor time. Default 1. Use 0 only in a network
 * in which no other party can send or change packets (docs/operations.md, "Security"). */
void heddle_spec_integrity(struct heddle_spec *spec, int on);
/* Returns the number of values in the model; 0: no tensor, more values than the limit allows, or NULL. */
uint64_t heddle_spec_values(const struct heddle_spec *spec);
/* Computes the initial model as the server does. values: heddle_spec_values() elements. 0, -EINVAL (also:
 * description). */
int heddle_spec_initialize(const struct heddle_spec *spec, float *values);

/* --- joining a job ------------------------------------------------------------------------- */

enum heddle_log_level {
	HEDDLE_LOG_ERROR = 0,
	HEDDLE_LOG_WARNING = 1,
	HEDDLE_LOG_INFO = 2
};

/* A member that is NULL or 0 comes from the environment variable in its comment; (...) is the default without that,
 * too. */
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
};
#ifdef __cplusplus
#define HEDDLE_OPTIONS_INIT                                                                        \
	{ sizeof(struct heddle_options), 0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0 }
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
/* Leaves the job: waits for the operations in flight, rejects new ones (-ESHUTDOWN). 0, -ETIMEDOUT (leaving
 * continues: call it again), -ECHILD, or an errno of the socket. */
int heddle_leave(struct heddle *fabric, int timeout_ms);
/* Leaves the job and always frees the handle. Operations that have not ended by then end as FAILED (closed); their
 * tickets stay valid until they are freed, and their buffers belong to the caller again. 0 (also for NULL), -ETIMEDOUT,
 * -ECHILD (nothing was sent), or an errno of the socket. Call it once, when no other thread uses the handle. */
int heddle_close(struct heddle *fabric, int timeout_ms);

/* This worker's rank; the number of workers that heddle-run started (HEDDLE_WORLD_SIZE, else 1). -EINVAL, -ECHILD. */
int heddle_rank(const struct heddle *fabric);
int heddle_world_size(const struct heddle *fabric);

/* --- pushes and pulls ---------------------------------------------------------------------- */

/* The type of the values on the wire. The caller's buffers and the server's model are always fp32. */
enum heddle_payload {
	HEDDLE_PAYLOAD_FP32 = 0,
	HEDDLE_PAYLOAD_FP16 = 1, /* IEEE 754 binary16: 11 bits of precision, up to 65504 */
	HEDDLE_PAYLOAD_BF16 = 2, /* the upper half of fp32: 8 bits of precision, the same range */
	HEDDLE_PAYLOAD_FIXED32 = 3 /* updates only: 32-bit multiples of a power of two */
};

struct heddle_push_options {
	size_t size;
	enum heddle_memory memory;
	void *stream; /* of the memory's kind; NULL for HOST */
	int borrow; /* no copy: the caller must not touch data until status.released */
	/* FP16 and BF16 halve the bytes on the network. The library multiplies by the granted staleness weight in
	 * fp32 and then rounds to nearest, ties to even; the server applies the update in fp32. FIXED32 rounds to a
	 * multiple of the smallest power of two with which no sum that contains this update overflows: the sum has the
	 * same bits in whatever order aggregators and switches add. */
	enum heddle_payload payload;
	/* Factor on the values, applied in fp32 before everything else (the check for NaN and Inf, the staleness
	 * weight, the rounding to the payload type). The caller's buffer does not change; with `borrow` a factor other
	 * than 1 costs a copy. 0: 1. Negative, NaN or Inf: -EINVAL. See heddle_members_scale(). */
	float scale;
};
struct heddle_pull_options {
	size_t size;
	enum heddle_memory memory;
	void *stream;
	int conditional; /* deliver only a version newer than `have` */
	uint64_t have;
	/* FP16 and BF16: the server rounds its fp32 model (to nearest, ties to even); data receives the rounded
	 * values as fp32. Values beyond the range of FP16 are delivered as Inf. */
	enum heddle_payload payload;
};
#ifdef __cplusplus
#define HEDDLE_PUSH_OPTIONS_INIT                                                                   \
	{ sizeof(struct heddle_push_options), HEDDLE_MEMORY_HOST, 0, 0, HEDDLE_PAYLOAD_FP32, 0 }
#define HEDDLE_PULL_OPTIONS_INIT                                                                   \
	{ sizeof(struct heddle_pull_options), HEDDLE_MEMORY_HOST, 0, 0, 0, HEDDLE_PAYLOAD_FP32 }
#else
#define HEDDLE_PUSH_OPTIONS_INIT                                                                   \
	{ .size = sizeof(struct heddle_push_options) }
#define HEDDLE_PULL_OPTIONS_INIT                                                                   \
	{ .size = sizeof(struct heddle_pull_options) }
#endif

#define HEDDLE_COMMANDS_MAX 4096

/* Starts a push of one update. data: the whole model's values, tensor after tensor; base: the version that they were
 * computed from; options: may be NULL (host memory, copied, fp32). Returns at once and sets *ticket, which reports
 * progress and must be freed. 0, -EDOM (NaN, Inf or a value beyond the payload type's range; heddle_last_error() says
 * where. A staleness weight above 1 can still exceed the range: the push then fails as not-finite), -EAGAIN
 * (HEDDLE_COMMANDS_MAX calls are queued), -ENOTSUP, -EIO (GPU), -ESHUTDOWN (no time is left after
 * heddle_preempt_notice()), -EINVAL (also: the job has no model), -ENOMEM, -ECONNREFUSED, -ECHILD. */
int heddle_push(
	struct heddle *fabric,
	const float *data,
	uint64_t base,
	const struct heddle_push_options *options,
	struct heddle_ticket **ticket
);
/* Values first .. first + count - 1 of the model, counted over all tensors. */
struct heddle_run {
	uint64_t first, count;
};
/* An update of some values: ascending, disjoint runs; data has the values of one run after another. */
struct heddle_sparse {
	const struct heddle_run *runs;
	size_t run_count;
	const float *data;
};

/* Starts a push of a sparse update. The server changes only the named values: the momentum and the weights of all
 * others neither move nor decay. Borrowed data and runs must stay unchanged until status.released. Errors of
 * heddle_push(), and -EINVAL (runs; a payload other than FP32), -E2BIG (larger than a dense update: push that). */
int heddle_push_sparse(
	struct heddle *fabric,
	const struct heddle_sparse *update,
	uint64_t base,
	const struct heddle_push_options *options,
	struct heddle_ticket **ticket
);
/* Starts a pull of exactly one version of the model. data: heddle_spec_values() elements, undefined until the ticket
 * has ended. With SYNC or N_SYNC it first waits for this worker's earlier pushes, which end with their step. Errors: as
 * heddle_push(), without -EDOM. */
int heddle_pull_start(
	struct heddle *fabric,
	float *data,
	const struct heddle_pull_options *options,
	struct heddle_ticket **ticket
);

/* Returns 1 in a synchronous job when a version newer than `base` is known here: the server would drop an update
 * that is still being computed from base, so stop computing it. Otherwise 0, also for NULL. Costs one load. */
int heddle_superseded(const struct heddle *fabric, uint64_t base);

struct heddle_status {
	size_t size;
	enum heddle_state state;
	enum heddle_reason reason;
	int direction; /* 0 push, 1 pull, 3 all-reduce */
	int released; /* 1: the library does not use the caller's buffer any more */
	int granted; /* 1: by the controller; 0: directly by the server */
	uint32_t round; /* number of this push or pull of this worker; 0 while it is queued */
	uint32_t delay; /* push: commits since base, with its own; all-reduce: workers in the sum */
	uint64_t base;
	uint64_t version; /* push: after its commit; pull: the version that was delivered */
	uint64_t bytes; /* on the wire, of the payload type */
	uint64_t asked_ns, ended_ns; /* CLOCK_MONOTONIC; ended 0: not yet */
	float scale; /* all-reduce: heddle_members.scale when the sum was made, the same for all; else 0 */
};
#ifdef __cplusplus
#define HEDDLE_STATUS_INIT                                                                         \
	{                                                                                          \
		sizeof(struct heddle_status), HEDDLE_QUEUED, HEDDLE_REASON_NONE, 0, 0, 0, 0, 0, 0, \
			0, 0, 0, 0, 0                                                              \
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

/* Returns 1 when the ticket has ended (APPLIED, DROPPED, FAILED), else 0. status may be NULL. -EINVAL, -ECHILD. */
int heddle_ticket_test(struct heddle_ticket *ticket, struct heddle_status *status);
/* Waits for `until`. status (may be NULL) is set on 0 and -ETIMEDOUT; after -ETIMEDOUT the operation continues. In
 * manual mode it drives the fabric. 0, -ETIMEDOUT, -EINVAL, -ESHUTDOWN, -ECHILD, or an errno of the socket. */
int heddle_ticket_wait(
	struct heddle_ticket *ticket,
	enum heddle_wait until,
	int timeout_ms,
	struct heddle_status *status
);
/* Withdraws the operation. 0 (it ends as FAILED, cancelled, unless the server was faster), -EALREADY (HELD or
 * ended), -EAGAIN (HEDDLE_COMMANDS_MAX cancellations are queued), -EINVAL, -ECHILD. */
int heddle_ticket_cancel(struct heddle_ticket *ticket);
/* Frees the ticket; the operation itself continues. NULL is ignored. */
void heddle_ticket_free(struct heddle_ticket *ticket);

/* Pushes and waits for the outcome (with borrowed data: until it is released). status may be NULL. 0: applied; 1:
 * dropped (status.reason says why); -EIO: failed; -ETIMEDOUT: the push continues, and borrowed data must stay
 * unchanged; or an error of heddle_push() or heddle_ticket_wait(). */
int heddle_push_wait(
	struct heddle *fabric,
	const float *data,
	uint64_t base,
	const struct heddle_push_options *options,
	int timeout_ms,
	struct heddle_status *status
);
/* Pulls and waits. version may be NULL. 0: delivered, *version is set; 1: not modified; -EIO: failed; -ETIMEDOUT:
 * the pull was withdrawn, data is undefined and belongs to the caller; or an error of heddle_pull_start() or
 * heddle_ticket_wait(). */
int heddle_pull(
	struct heddle *fabric,
	float *data,
	const struct heddle_pull_options *options,
	int timeout_ms,
	uint64_t *version
);

/* --- all-reduce ----------------------------------------------------------------------------- */

enum heddle_reduce {
	HEDDLE_REDUCE_SUM = 0,
	HEDDLE_REDUCE_AVERAGE = 1 /* the sum divided by the number of workers in it */
};

struct heddle_allreduce_options {
	size_t size;
	enum heddle_memory memory;
	void *stream; /* of the memory's kind; NULL for HOST */
	int borrow; /* no copy: the caller must not touch `in` until the ticket has ended */
	enum heddle_payload payload; /* on the wire; 16-bit values are added in fp32 */
	enum heddle_reduce operation;
	/* 1: add in the order of ranks, which gives the same bits each time. 0: add in the order of arrival, which
	 * is faster. In both cases all workers get the same bits. */
	int ranked;
};
#ifdef __cplusplus
#define HEDDLE_ALLREDUCE_OPTIONS_INIT                                                              \
	{                                                                                          \
		sizeof(struct heddle_allreduce_options), HEDDLE_MEMORY_HOST, 0, 0,                 \
			HEDDLE_PAYLOAD_FP32, HEDDLE_REDUCE_SUM, 0                                  \
	}
#else
#define HEDDLE_ALLREDUCE_OPTIONS_INIT                                                              \
	{ .size = sizeof(struct heddle_allreduce_options) }
#endif

#define HEDDLE_ALLREDUCES_MAX 64

/* Starts an all-reduce: adds `count` fp32 values of every worker of the job. The k-th call of one worker is matched
 * with the k-th call of the others; count and payload must agree. A round starts when all registered workers have
 * called (the first round: when HEDDLE_WORLD_SIZE workers have). out: `count` elements, undefined until the ticket is
 * APPLIED; it may be the same buffer as `in`. At most HEDDLE_ALLREDUCES_MAX rounds run at once; later calls wait. The
 * values travel to the aggregators (heddle-aggregator) in shards sized to what each host's link can carry. A job that
 * only uses all-reduce needs no model (a description without tensors) and no server.
 * Failures. A worker that dies is excluded from the rounds that start after 1 s. If a worker or an aggregator dies
 * during a round, the round is repeated without it. FAILED with HEDDLE_REASON_LATE: the others have the sum and this
 * worker can no longer get it; copy the state of another worker, and the next call is matched with their next call. A
 * worker that was cut off from the controller, and has a sum that the others then computed again without it, gets the
 * same reason at its next call. HEDDLE_REASON_NO_SERVER: no aggregator has room, or none was there within 10 s (the
 * call can be cancelled before). HEDDLE_REASON_REFUSED: count, payload or order differ from the others'.
 * options: may be NULL (host memory, copied, fp32, sum). 0, -EDESTADDRREQ (no controller is configured), -EAGAIN
 * (HEDDLE_COMMANDS_MAX calls are queued), -ENOTSUP (memory), -EINVAL, -ENOMEM, -ECONNREFUSED, -ESHUTDOWN, -ECHILD. */
int heddle_allreduce_start(
	struct heddle *fabric,
	const float *in,
	float *out,
	uint64_t count,
	const struct heddle_allreduce_options *options,
	struct heddle_ticket **ticket
);
/* All-reduces in place and waits. 0: data has the sum; -EIO: failed (status.reason says why); -ETIMEDOUT: withdrawn,
 * or, if the round had started, it continues without the caller; data is unchanged; or an error of
 * heddle_allreduce_start() or heddle_ticket_wait(). With timeout_ms >= 0 the library adds in its own memory and copies
 * the sum. */
int heddle_allreduce(
	struct heddle *fabric,
	float *data,
	uint64_t count,
	const struct heddle_allreduce_options *options,
	int timeout_ms,
	struct heddle_status *status
);

/* --- membership ----------------------------------------------------------------------------- */

#define HEDDLE_WORKERS_MAX 4096 /* the ranks of a job are below this */

/* The workers of the job. The controller (without one: the server) decides the membership; all workers receive the
 * same sets, at slightly different times. A worker is a member from its registration until it leaves or is silent for 1
 * s. */
struct heddle_members {
	size_t size;
	uint64_t change; /* number of this set, growing; 0: none was received yet */
	uint32_t count;
	uint16_t rank[HEDDLE_WORKERS_MAX]; /* `count` ranks, ascending */
	/* Decisions that belong to this set (heddlectl elastic). target: the wanted number of workers, 0: no policy
	 * sets one. sync_count: N of HEDDLE_N_SYNC, and tau_max: the staleness bound; 0: as in the job's description.
	 * scale: the factor by which the caller must multiply its updates; 1: none. */
	uint32_t target, sync_count, tau_max;
	float scale;
	/* In a synchronous job `scale` is 1, and the server multiplies the mean of each step by this factor, so that
	 * one step never mixes the factors of two sets. The caller must not apply it. 1 in all other jobs. */
	float step_scale;
};
#ifdef __cplusplus
#define HEDDLE_MEMBERS_INIT                                                                        \
	{ sizeof(struct heddle_members), 0, 0, {0}, 0, 0, 0, 1.0f, 1.0f }
#else
#define HEDDLE_MEMBERS_INIT                                                                        \
	{ .size = sizeof(struct heddle_members), .scale = 1.0f, .step_scale = 1.0f }
#endif
/* Copies the newest membership that was received. 0, -EINVAL (size), -ECHILD. */
int heddle_members(struct heddle *fabric, struct heddle_members *members);
/* Returns only `change`, to poll for news; 0 for NULL. heddle_fd() becomes readable with each change, too. */
uint64_t heddle_members_change(struct heddle *fabric);

/*
 * Computes which rows of a data set of `dataset_size` rows (up to 2^47) belong to the worker `rank` when the members
 * share it. Needs no handle; the result depends only on the arguments and is the same on every machine. ranges:
 * ascending and disjoint, `capacity` elements; may be NULL with capacity 0. Returns the number of ranges (at most
 * 65,536), also when it exceeds capacity. Guarantees:
 *   - each row belongs to exactly one member;
 *   - a member's share exceeds the mean share by at most a quarter or four square roots of it, whichever is more,
 *     plus one block (rows are assigned in at most 65,536 blocks of equal size, to within a row);
 *   - when a member leaves, only its rows move (1 / n of all, on average), and when one joins, only the rows that
 *     it receives; the bound on shares moves very few more.
 * Costs 2 ns for each pair of a block and a member. -EINVAL (members), -ENOENT (rank is not a member), -E2BIG
 * (dataset_size), -ENOMEM.
 */
long heddle_shard(
	const struct heddle_members *members,
	uint64_t dataset_size,
	int rank,
	struct heddle_run *ranges,
	size_t capacity
);

#define HEDDLE_SCALE_MAX 16.0f

/* Returns the factor for heddle_push_options.scale when the learning rate was chosen for `base` workers: count /
 * base, at most `max` (0: HEDDLE_SCALE_MAX). Returns 1 before the first membership was received, and when base is 0 or
 * members is NULL. A pure function: call heddle_members() once before computing a gradient, and push with the factor
 * for that set. Linear scaling is meant for the mean of all members' updates, whose batch grows with their number
 * (Zhang et al., arXiv 2003.05649, 7). In a synchronous job prefer heddle_spec_scale(), as members learn of a change at
 * different times. In an asynchronous job the batch of a step does not grow; more workers already make more steps. The
 * factor applies to gradients only: weight decay keeps its rate, and momentum accumulates updates as pushed. */
float heddle_members_scale(const struct heddle_members *members, uint32_t base, float max);

/* Announces that this worker's machine is preempted in `seconds` (at most 3600), as in a cloud's notice to a spot
 * instance. May be called from a signal handler (it sets no heddle_last_error()) and repeatedly: the earliest end
 * counts. The controller then plans this worker's pushes before all others and not through aggregators; updates that
 * cannot arrive in time are DROPPED (preempted). The worker leaves without further calls: it accepts pushes and pulls
 * until heddle_time_left_ms() is 0 and then waits for those in flight. 120 ms before the end it withdraws those that
 * the server does not hold (cancelled), and then it sends LEAVE. Pushes whose outcome is still unknown then end as
 * FAILED (preempted); they may or may not have been applied. Close the handle as usual, before or after. No other node
 * waits for the worker beyond the announced time. The controller can send a notice, too, to a surplus worker:
 * heddle_time_left_ms() is then 0 at once; push the update that is already computed, and close. 0, -EINVAL (seconds),
 * -ECHILD. */
int heddle_preempt_notice(struct heddle *fabric, double seconds);
/* Returns for how many ms new pushes are still accepted (0: not any more, or a surplus worker); -1: no notice was
 * given, or NULL. Do not start a computation that takes longer. */
int heddle_time_left_ms(struct heddle *fabric);

/* --- event loops ---------------------------------------------------------------------------- */

/* Returns a descriptor for poll() and epoll. Readable when a ticket has ended or the membership has changed (manual
 * mode: when there may be work): call heddle_progress(fabric, 0). Do not read, write or close it. -EINVAL, -ECHILD. */
int heddle_fd(const struct heddle *fabric);
/* With a progress thread: waits until any ticket ends. In manual mode: drives the fabric while it waits; one thread
 * makes this and all other calls. 1: a ticket ended since the last call; 0: none did; -ESHUTDOWN (this worker has left:
 * none will), -ECHILD, or an errno of the socket. */
int heddle_progress(struct heddle *fabric, int timeout_ms);
/* Manual: the ms until heddle_progress() is due even without news from heddle_fd(); -1: never. -EINVAL, -ECHILD. */
int heddle_timeout_ms(const struct heddle *fabric);

/* --- statistics ----------------------------------------------------------------------------- */

struct heddle_stats {
	size_t size;
	uint64_t pushed, applied, dropped, failed; /* pushed = the other three + pushes in flight */
	uint64_t pulled, delivered;
	uint64_t granted_bytes, direct_bytes; /* of applied pushes and delivered pulls */
	uint64_t asked_again, fallbacks; /* requests that were repeated; switches to direct */
	int joined;
	int direct; /* 1: no controller at present */
	uint32_t push_round; /* newest that was started, also by earlier processes; 0: none */
	uint64_t aggregated_bytes; /* part of granted_bytes: added or relayed by an aggregator */
};
#ifdef __cplusplus
#define HEDDLE_STATS_INIT                                                                          \
	{ sizeof(struct heddle_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#else
#define HEDDLE_STATS_INIT                                                                          \
	{ .size = sizeof(struct heddle_stats) }
#endif
/* Copies the handle's counters. 0, -EINVAL (size), -ECHILD. */
int heddle_get_stats(struct heddle *fabric, struct heddle_stats *stats);

/* Names: "applied", "late", ...; "unknown" for any other value. Never NULL. */
const char *heddle_state_name(enum heddle_state state);
const char *heddle_reason_name(enum heddle_reason reason);
/* The message for an errno of this library, negative or positive. Never NULL. */
const char *heddle_strerror(int error);
/* Details of the last error that a call of this thread returned; "" when there are none. */
const char *heddle_last_error(void);
/* "0.1.0" */
const char *heddle_version_text(void);

#ifdef __cplusplus
}
#endif

#endif
