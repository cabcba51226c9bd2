/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libheddle: hands a training process's updates to the Heddle fabric and fetches models from it.
 *
 *	struct heddle_spec *spec;                     what the job is: tensors, optimizer, tau_max
 *	struct heddle *fabric;
 *	uint64_t version;
 *
 *	heddle_spec_create(NULL, NULL, &spec);        names from HEDDLE_TENANT, HEDDLE_JOB
 *	heddle_spec_tensor(spec, "w", ...);
 *	heddle_open(spec, NULL, &fabric);             the rest from the environment (heddle-run)
 *	while (training) {
 *		heddle_pull(fabric, w, NULL, -1, &version);
 *		...gradient g at w...
 *		heddle_push_wait(fabric, g, version, NULL, -1, NULL);
 *	}
 *	heddle_close(fabric, 1000);
 *
 * A progress thread of the library's own moves the bytes; nobody needs to call it. Every function may be called from
 * any thread, except where it says otherwise. Structs that begin with `size` are stamped with the caller's, so that
 * they can grow: initialize them with _INIT. Functions return 0 or more, or a negative errno; each lists its own, and
 * all refuse with -EINVAL, before they do anything, a NULL that they need and a value that an argument cannot have (an
 * unknown enum, another struct's size, a NaN); heddle_last_error() names it. Functions without an error code do nothing
 * with NULL. The setters of a description take any value: heddle_open() refuses a bad one.
 *
 * A function waits for others only where it takes timeout_ms (< 0: for ever), and no longer than that, whoever does
 * not answer. -ESHUTDOWN: this worker has left, and what is waited for never comes. All other functions return at
 * once, but for what they copy and compute, the files that heddle_open() reads, and the resolver: 5 s for a host name.
 *
 * A handle belongs to the process that opened it. After fork() the child's calls return -ECHILD; the child may only
 * close it (which closes descriptors, and says nothing to anybody) and open its own. An internal error ends the handle,
 * not the process: the log (HEDDLE_LOG_ERROR) says where, what is under way has FAILED, further calls return -EIO.
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

struct heddle; /* one worker's place in one job */
struct heddle_spec; /* a job's description */
struct heddle_ticket; /* a push or pull under way */

/* Where a buffer lies. CUDA: on a GPU, read in the order of the stream (docs/library.md, "GPU memory"). */
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
	HEDDLE_HELD = 4, /* the server has every byte; its commit is awaited */
	HEDDLE_APPLIED = 5,
	HEDDLE_DURABLE = 6, /* in a checkpoint */
	HEDDLE_DROPPED = 7, /* by policy: pull and go on */
	HEDDLE_FAILED = 8
};

/* Why a push or pull was dropped or has failed; heddle_reason_name() says it in a word. */
enum heddle_reason {
	HEDDLE_REASON_NONE = 0,
	HEDDLE_REASON_BOUND = 1, /* it would have broken tau_max */
	HEDDLE_REASON_IDLES = 2, /* its early place would have idled the network */
	HEDDLE_REASON_LATE = 3, /* tau_max was broken when it came to the commit */
	HEDDLE_REASON_LOST_BASE = 4, /* computed on a history that a restart lost */
	HEDDLE_REASON_VOID = 5, /* its position was given up */
	HEDDLE_REASON_HOLD = 6, /* the same, by the server, which had waited for it */
	HEDDLE_REASON_LEASE = 7, /* this worker was silent for too long */
	HEDDLE_REASON_CANCELLED = 8,
	HEDDLE_REASON_LEFT = 9,
	HEDDLE_REASON_NOT_FINITE = 10,
	HEDDLE_REASON_REFUSED = 11, /* job description, admission or protocol */
	HEDDLE_REASON_NO_MEMORY = 12,
	HEDDLE_REASON_DUPLICATE = 13,
	HEDDLE_REASON_NOT_MODIFIED = 14, /* conditional pull: nothing newer */
	HEDDLE_REASON_EPOCH = 15, /* granted by a controller that has been superseded */
	HEDDLE_REASON_CLOSED = 16,
	HEDDLE_REASON_NO_SERVER = 17,
	HEDDLE_REASON_TIMEOUT = 18,
	HEDDLE_REASON_UNKNOWN_KEY = 19,
	HEDDLE_REASON_VERSION_MISMATCH = 20,
	HEDDLE_REASON_PREEMPTED = 22, /* its machine is taken away: it did not end in time */
	HEDDLE_REASON_DEVICE = 24 /* the GPU failed that the data are on */
};

/* A model version: how many updates the server has applied (lower 48 bits), and which of the server's
 * lives counted them (upper 16). Opaque but for this. */
#define HEDDLE_VERSION_COUNTER(version) ((version) & ((UINT64_C(1) << 48) - 1))

/* --- the job's description ----------------------------------------------------------------- */

/* Begins a description. A name that is NULL comes from HEDDLE_TENANT (else "default") and HEDDLE_JOB
 * (else -EINVAL). -EINVAL (also: too long, not UTF-8), -ENOMEM. */
int heddle_spec_create(const char *tenant, const char *job, struct heddle_spec **spec);
void heddle_spec_destroy(struct heddle_spec *spec);

enum heddle_init {
	HEDDLE_INIT_ZERO = 0,
	HEDDLE_INIT_UNIFORM = 1 /* in [-scale, scale), from the job's seed */
};

/* Adds a tensor of fp32 values; the model is the tensors in this order. -EINVAL (name, a dimension of
 * 0, init, scale), -E2BIG (too many tensors or dimensions), -ENOMEM. */
int heddle_spec_tensor(
	struct heddle_spec *spec,
	const char *name,
	const uint64_t *dimensions,
	size_t dimension_count,
	enum heddle_init init,
	float scale
);
/* Seed of the initial weights. Default 0. */
void heddle_spec_seed(struct heddle_spec *spec, uint64_t seed);
/* h <- momentum h - rate (g + decay w);  w <- w + h. Default 0.01, 0, 0. */
void heddle_spec_sgd(struct heddle_spec *spec, float rate, float momentum, float decay);
/* An update is applied at most tau_max commits after the version that it was computed from, or dropped. Default 16. */
void heddle_spec_tau_max(struct heddle_spec *spec, uint32_t tau_max);
/* When the server makes a step of the optimizer: of each update as it comes, or of several that were computed from the
 * same version, as one step of their mean (their sum divided by their number). A step of k updates makes k versions;
 * all but the last have no model. What comes for a step that has ended is DROPPED late, at once. The staleness rule
 * must be constant; tau_max has no effect. */
enum heddle_sync {
	HEDDLE_ASYNC = 0,
	HEDDLE_SYNC = 1, /* of one update of every worker that is a member at the time */
	HEDDLE_N_SYNC = 2, /* of the first updates of n different workers */
	HEDDLE_N_BATCH_SYNC = 3 /* of the first n updates, of whichever workers */
};
/* n: 1 .. 4096 of N_SYNC and N_BATCH_SYNC, else 0; heddle_open() says what is wrong. With fewer than n workers N_SYNC
 * waits. Default ASYNC. */
void heddle_spec_sync(struct heddle_spec *spec, enum heddle_sync mode, uint32_t n);
/* How far a replica may be from the server, as the L2 norm of the difference of their models: commits that might lead
 * further wait for it. 0: however far it is. Default 0. */
void heddle_spec_div_max(struct heddle_spec *spec, float div_max);

enum heddle_staleness {
	HEDDLE_STALENESS_CONSTANT = 0, /* every update counts alike */
	HEDDLE_STALENESS_INV_SQRT = 1, /* c / sqrt(tau_max t) */
	HEDDLE_STALENESS_ADADELAY = 2 /* c / sqrt(t + delay) */
};
void heddle_spec_staleness(struct heddle_spec *spec, enum heddle_staleness rule, float c);
/* Lets NaN and Inf pass; without it a push with one is refused with -EDOM. */
void heddle_spec_allow_not_finite(struct heddle_spec *spec);
/* Whether chunks that hosts send each other carry a MAC, which costs processor time. 0: none, in a network where nobody
 * else can send or change packets (docs/operations.md, "Security"). Default 1. */
void heddle_spec_integrity(struct heddle_spec *spec, int on);
/* Values of the whole model; 0 when there is none, or it is beyond the limit; of NULL. */
uint64_t heddle_spec_values(const struct heddle_spec *spec);
/* The initial model, as the server makes it: heddle_spec_values() of them. -EINVAL (description). */
int heddle_spec_initialize(const struct heddle_spec *spec, float *values);

/* --- joining a job ------------------------------------------------------------------------- */

enum heddle_log_level {
	HEDDLE_LOG_ERROR = 0,
	HEDDLE_LOG_WARNING = 1,
	HEDDLE_LOG_INFO = 2
};

/* What is NULL or 0 comes from the environment, named behind it, and else has its default. */
struct heddle_options {
	size_t size;
	const char *controller; /* HEDDLE_CONTROLLER: address[:port]; none: direct to the server */
	const char *server; /* HEDDLE_SERVER: needed without a controller; else for the fallback */
	const char *key_file; /* HEDDLE_KEY_FILE */
	const char *host; /* HEDDLE_HOST: this machine's name in the topology (the host name) */
	const char *bind; /* HEDDLE_BIND: local address to use and to be reached at (any) */
	const char *events; /* HEDDLE_EVENTS: file for a log of events, one JSON object a line */
	int rank; /* HEDDLE_RANK: this worker's number (0); negative: from there */
	int manual; /* no progress thread: the caller drives with heddle_progress() */
	/* HEDDLE_KEEP_MB (MiB): data kept after APPLIED until DURABLE, for a server's restart or its replica (0: none) */
	uint64_t keep_bytes;
	uint32_t chunk_bytes; /* HEDDLE_CHUNK_BYTES: payload of one packet (0: 1408) */
	uint32_t fallback_ms; /* without a controller for this long: go direct; 0: 750 */
	float job_weight; /* for fairness between tenants; 0: 1 */
	/* Called from the library's own threads; must not block or call the library. May be NULL. */
	void (*log)(void *log_arg, enum heddle_log_level level, const char *text);
	void *log_arg;
	int observe; /* HEDDLE_OBSERVER (set): it only pulls: not among the members, no step waits for it */
};
#ifdef __cplusplus
#define HEDDLE_OPTIONS_INIT                                                                        \
	{ sizeof(struct heddle_options), 0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0 }
#else
#define HEDDLE_OPTIONS_INIT                                                                        \
	{ .size = sizeof(struct heddle_options), .rank = -1 }
#endif

/* Opens the job and copies the spec; joining goes on by itself. options may be NULL. -EINVAL (spec, option, key file,
 * environment), -ENOENT, -EACCES (files), -EHOSTUNREACH, -ENETUNREACH, -ETIMEDOUT (names), -EDESTADDRREQ (neither
 * controller nor server), -EADDRNOTAVAIL, -EADDRINUSE, -EMFILE, -EAGAIN (no thread), -ENOMEM. */
int heddle_open(
	const struct heddle_spec *spec,
	const struct heddle_options *options,
	struct heddle **fabric
);
/* Waits until the server has accepted the job's description. version and tau_max may be NULL. -ETIMEDOUT, -ECONNREFUSED
 * (description differs, no memory, key: heddle_last_error() says which), -ESHUTDOWN (preempted, left), -ECHILD, or an
 * errno of the socket. */
int heddle_wait_joined(struct heddle *fabric, int timeout_ms, uint64_t *version, uint32_t *tau_max);
/* Leaves: what is under way ends first; nothing new is begun (-ESHUTDOWN). 0, -ETIMEDOUT (it goes on: call again),
 * -ECHILD, or an errno of the socket. */
int heddle_leave(struct heddle *fabric, int timeout_ms);
/* Leaves, and frees the handle in any case: what has not ended in the time has FAILED closed. Tickets stay valid until
 * they are freed, and buffers are the caller's again. 0 (also NULL), -ETIMEDOUT, -ECHILD (nothing said), or an errno of
 * the socket. Call it once, when no other thread uses the handle. */
int heddle_close(struct heddle *fabric, int timeout_ms);

/* This worker's number; and how many heddle-run started (HEDDLE_WORLD_SIZE, else 1). -EINVAL, -ECHILD. */
int heddle_rank(const struct heddle *fabric);
int heddle_world_size(const struct heddle *fabric);

/* --- pushes and pulls ---------------------------------------------------------------------- */

/* In which type an update's values travel; the caller's and the server's are fp32. */
enum heddle_payload {
	HEDDLE_PAYLOAD_FP32 = 0,
	HEDDLE_PAYLOAD_FP16 = 1, /* IEEE 754 binary16: 11 bits of precision, up to 65504 */
	HEDDLE_PAYLOAD_BF16 = 2, /* the upper half of fp32: 8 bits of precision, the same range */
	HEDDLE_PAYLOAD_FIXED32 = 3 /* of updates: 32-bit multiples of a power of two */
};

struct heddle_push_options {
	size_t size;
	enum heddle_memory memory;
	void *stream; /* of the memory's kind; NULL for HOST */
	int borrow; /* no copy: data stays untouched by the caller until status.released */
	/* FP16 and BF16 halve what the network carries. The staleness weight that the update was granted is multiplied in
	 * fp32 first, then the product is rounded to nearest, ties to even; the server applies it in fp32. FIXED32 is
	 * rounded to a multiple of the least power of two with which no sum that the update is part of overflows: such a
	 * sum has the same bits in whatever order aggregators and switches add. */
	enum heddle_payload payload;
	/* The update is the values times this, rounded to fp32 before everything else that is done with it (the check for
	 * NaN and Inf, the staleness weight, the payload's rounding): as if the caller had multiplied them, but what is
	 * borrowed stays as it is, and costs a copy when this is not 1. 0: 1; negative, NaN, Inf: -EINVAL. See
	 * heddle_members_scale(). */
	float scale;
};
struct heddle_pull_options {
	size_t size;
	enum heddle_memory memory;
	void *stream;
	int conditional; /* deliver only something newer than `have` */
	uint64_t have;
	/* FP16 and BF16: the server rounds its fp32 model (to nearest, ties to even), data get the rounded
	 * values in fp32. What is beyond FP16's range is delivered as Inf. */
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

/*
 * Hands over one update: the whole model's values, computed from version `base`. Returns at once; the ticket tells the
 * rest, and must be freed. options may be NULL (host memory, copied, fp32). -EDOM (NaN or Inf, or beyond the payload
 * type's range; heddle_last_error() says where; a weight above 1 may still lead beyond it: then the push fails as
 * not-finite), -EAGAIN (HEDDLE_COMMANDS_MAX calls wait), -ENOTSUP, -EIO (GPU), -ESHUTDOWN (heddle_preempt_notice(): no
 * time is left for it), -EINVAL (also: the job has no model), -ENOMEM, -ECONNREFUSED, -ECHILD.
 */
int heddle_push(
	struct heddle *fabric,
	const float *data,
	uint64_t base,
	const struct heddle_push_options *options,
	struct heddle_ticket **ticket
);
/* Values first .. first + count - 1 of the model, tensor after tensor. */
struct heddle_run {
	uint64_t first, count;
};
/* An update of some values: those of the runs, which ascend and are disjoint; data has them run after run. */
struct heddle_sparse {
	const struct heddle_run *runs;
	size_t run_count;
	const float *data;
};

/*
 * Hands over a sparse update. Only the values that it names are touched at the server: the momentum and the weights of
 * the others neither move nor decay. Errors as heddle_push(), and -EINVAL (runs; payload other than FP32), -E2BIG (more
 * bytes than a dense update: push that instead). Borrowed data and runs stay until status.released.
 */
int heddle_push_sparse(
	struct heddle *fabric,
	const struct heddle_sparse *update,
	uint64_t base,
	const struct heddle_push_options *options,
	struct heddle_ticket **ticket
);
/* Fetches the model, exactly one version of it, into data, which is undefined until the ticket has ended. In a job with
 * SYNC or N_SYNC the ticket waits first for this worker's earlier pushes, which end with their step. Errors as
 * heddle_push() but -EDOM. */
int heddle_pull_start(
	struct heddle *fabric,
	float *data,
	const struct heddle_pull_options *options,
	struct heddle_ticket **ticket
);

/* 1 when a newer version than `base` is known here in a synchronous job: an update that is still being computed from
 * base would be dropped, stop it. Else 0, also of NULL. Costs one load; from any thread. */
int heddle_superseded(const struct heddle *fabric, uint64_t base);

struct heddle_status {
	size_t size;
	enum heddle_state state;
	enum heddle_reason reason;
	int direction; /* 0 push, 1 pull, 3 all-reduce */
	int released; /* the library does not touch the data any more */
	int granted; /* by the controller; else directly with the server */
	uint32_t round; /* counts this worker's pushes, or pulls; 0 until it was taken up */
	uint32_t delay; /* push: commits since base, with it; all-reduce: workers in the sum */
	uint64_t base;
	uint64_t version; /* push: after the commit; pull: what was delivered */
	uint64_t bytes; /* that travel: of the payload type */
	uint64_t asked_ns, ended_ns; /* CLOCK_MONOTONIC; ended 0: not yet */
	float scale; /* all-reduce: heddle_members.scale as the sum was made, the same for all; else 0 */
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

/* How far to wait. */
enum heddle_wait {
	HEDDLE_WAIT_HELD = 0, /* held by the server, or by an aggregator on the way; or ended */
	HEDDLE_WAIT_OUTCOME = 1, /* APPLIED, DROPPED or FAILED */
	HEDDLE_WAIT_RELEASED = 2, /* the data is the caller's again */
	HEDDLE_WAIT_DURABLE = 3 /* DURABLE, or never will be: the library has let go of it */
};

/* Looks: 1 when it has ended (APPLIED, DROPPED, FAILED), 0 when not. status may be NULL. -EINVAL, -ECHILD. */
int heddle_ticket_test(struct heddle_ticket *ticket, struct heddle_status *status);
/* Waits: 0, -ETIMEDOUT, -EINVAL, -ECHILD, or an errno of the socket. status may be NULL, and is set in the first two
 * cases; after the second the ticket goes on as before. In manual mode it drives the fabric meanwhile. */
int heddle_ticket_wait(
	struct heddle_ticket *ticket,
	enum heddle_wait until,
	int timeout_ms,
	struct heddle_status *status
);
/* Withdraws: 0 (it will end as FAILED cancelled, unless the server was faster), -EALREADY (held or
 * ended), -EAGAIN, -EINVAL, -ECHILD. */
int heddle_ticket_cancel(struct heddle_ticket *ticket);
/* The push or pull goes on; only the caller's view of it is given up. NULL: nothing. */
void heddle_ticket_free(struct heddle_ticket *ticket);

/* Pushes and waits for the outcome (borrowed data: until it is released): 0 = applied, 1 = dropped (status says why),
 * -EIO = failed, -ETIMEDOUT (it goes on; borrowed data must stay), or as heddle_push(). status may be NULL. */
int heddle_push_wait(
	struct heddle *fabric,
	const float *data,
	uint64_t base,
	const struct heddle_push_options *options,
	int timeout_ms,
	struct heddle_status *status
);
/* Pulls and waits: 0 = delivered, *version set; 1 = not modified; -EIO = failed; -ETIMEDOUT (withdrawn, data
 * is undefined and the caller's), or as heddle_pull_start(). version may be NULL. */
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
	HEDDLE_REDUCE_AVERAGE = 1 /* the sum by the number of workers in it */
};

struct heddle_allreduce_options {
	size_t size;
	enum heddle_memory memory;
	void *stream; /* of the memory's kind; NULL for HOST */
	int borrow; /* no copy: in stays untouched by the caller until the ticket has ended */
	enum heddle_payload payload; /* on the wire; sums of 16-bit values are made in fp32 */
	enum heddle_reduce operation;
	/* Adds in the order of ranks: the same bits each time. Else as values come, which is faster; in both cases
	 * every worker gets the same bits. */
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

/*
 * Adds `count` values of every worker of the job, in the order of the calls: the k-th call of one worker is
 * added to the k-th of the others, which must agree in count, payload and order. It begins when all registered
 * workers have called (the first one when HEDDLE_WORLD_SIZE are there); out has the sum when the ticket is
 * APPLIED, and is undefined until then. in may be out. At most HEDDLE_ALLREDUCES_MAX run at once, later
 * ones wait. The values go to the aggregators (heddle-aggregator) in shards that fit what each host's link can
 * carry; a job that only does this needs no model (a description without tensors) and no server.
 *
 * A worker that dies is left out of what begins after 1 s. When it or an aggregator dies in the middle the
 * round is made again without it; FAILED with HEDDLE_REASON_LATE says that others have the sum and
 * this worker cannot get it any more: it must take its state from one of them, and its next call meets their
 * next. A worker that was cut off from the controller, and had a sum that the others then made again without it, hears
 * the same at its next call. HEDDLE_REASON_NO_SERVER: there is no aggregator with room, or none at all came within 10 s
 * (it may be cancelled before); HEDDLE_REASON_REFUSED: count, payload or order are not the others'.
 *
 * options may be NULL (host memory, copied, fp32, sum). -EDESTADDRREQ (no controller is configured), -EAGAIN
 * (HEDDLE_COMMANDS_MAX calls wait), -ENOTSUP (memory), -EINVAL, -ENOMEM, -ECONNREFUSED, -ECHILD.
 */
int heddle_allreduce_start(
	struct heddle *fabric,
	const float *in,
	float *out,
	uint64_t count,
	const struct heddle_allreduce_options *options,
	struct heddle_ticket **ticket
);
/* In place, and waits: 0 = data has the sum; -EIO = failed (status says why), -ETIMEDOUT (withdrawn, or it goes on
 * without the caller if it had begun; data is as it was), or as heddle_allreduce_start(). With timeout_ms >= 0 the sum
 * is made in the library's memory and copied. */
int heddle_allreduce(
	struct heddle *fabric,
	float *data,
	uint64_t count,
	const struct heddle_allreduce_options *options,
	int timeout_ms,
	struct heddle_status *status
);

/* --- who takes part ------------------------------------------------------------------------- */

#define HEDDLE_WORKERS_MAX 4096 /* ranks of one job are less than this */

/* The workers that take part in the job. One node says it, the controller (where none is configured: the server),
 * and all workers hear the same, a moment after one another. A worker is in it from joining until it has left, or
 * until it was silent for 1 s. */
struct heddle_members {
	size_t size;
	uint64_t change; /* another number for each different set, growing; 0: nothing said yet */
	uint32_t count;
	uint16_t rank[HEDDLE_WORKERS_MAX]; /* `count` of them, ascending */
	/* Of the same change (heddlectl elastic): workers that there should be, 0: nobody says; N of HEDDLE_N_SYNC and the
	 * bound on delays now, 0: the job's; factor on updates, which the caller is to multiply them by, 1: none. */
	uint32_t target, sync_count, tau_max;
	float scale;
	/* In a synchronous job `scale` is 1, and this is the factor: the server multiplies the mean of a step by it, so
	 * that no step mixes those of two changes. 1 in all other jobs. Nothing that a caller is to apply. */
	float step_scale;
};
#ifdef __cplusplus
#define HEDDLE_MEMBERS_INIT                                                                        \
	{ sizeof(struct heddle_members), 0, 0, {0}, 0, 0, 0, 1.0f, 1.0f }
#else
#define HEDDLE_MEMBERS_INIT                                                                        \
	{ .size = sizeof(struct heddle_members), .scale = 1.0f, .step_scale = 1.0f }
#endif
/* -EINVAL (size), -ECHILD. */
int heddle_members(struct heddle *fabric, struct heddle_members *members);
/* Only the number, to look whether anything changed; 0 of NULL. heddle_fd() becomes readable with a change, too. */
uint64_t heddle_members_change(struct heddle *fabric);

/*
 * Which rows of a data set of `dataset_size` (up to 2^47) are the worker's, when the members share it: the same answer
 * everywhere, from nothing but the arguments. Fills ranges, ascending and disjoint, and returns how many there are,
 * also beyond `capacity` (at most 65,536; ranges may be NULL with capacity 0). It guarantees:
 *   - each row is exactly one member's;
 *   - nobody has more than its share by more than a quarter or four square roots of it, whichever is more, and a block
 *     (rows are dealt in at most 65,536 blocks, as equal as may be);
 *   - when a member goes only its rows move, 1 / n of all on average, and when one comes only those that it gets, but
 *     for what the bound above moves besides, which is hardly anything.
 * Costs 2 ns for each block and member. Needs no handle. -EINVAL (members), -ENOENT (rank is no member), -E2BIG
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

/*
 * What to scale updates by (heddle_push_options.scale) when the learning rate is right for `base` workers and others
 * take part: count / base, at most `max` (0: HEDDLE_SCALE_MAX). 1 while nothing was said, and when base is 0 or members
 * NULL. A pure function: ask heddle_members() once before a gradient is begun, push with what that says.
 *
 * It is meant for means of all members' updates: the batch of a step grows with their number and the rate follows it.
 * In a synchronous job leave it to the server (heddle_spec_scale()): members hear of a change a moment apart. In an
 * asynchronous job the batch of a step is what it was; more workers already make more steps. What scales is the
 * gradient: decay keeps its rate, momentum each update as pushed. (Zhang et al., arXiv 2003.05649, 7.)
 */
float heddle_members_scale(const struct heddle_members *members, uint32_t base, float max);

/*
 * This worker's machine is taken away in so many seconds, at most an hour (a cloud's notice to a spot instance). The
 * controller plans its pushes before all others from then on, and directly; what cannot arrive in time is DROPPED
 * preempted. The worker leaves by itself in time: it takes pushes and pulls until heddle_time_left_ms() is 0, then
 * waits for what is under way, withdraws what the server does not hold 120 ms before the end (cancelled), and says
 * LEAVE; what it has no word on by then has FAILED preempted, and may be in the model. Close the handle as ever,
 * earlier or later. Nobody waits for a worker beyond the time that it named.
 *
 * May be called from a signal handler (so it has no words), and again: the shortest time counts. -EINVAL (seconds),
 * -ECHILD. The controller may say the same to a worker that is too many. heddle_time_left_ms() is 0 at once then: its
 * time is for what is computed or held already. Push that, and close.
 */
int heddle_preempt_notice(struct heddle *fabric, double seconds);
/* -1: no notice was given, or NULL. Else for how long pushes are taken yet, in ms (0: it is too many): what cannot be
 * computed in that is not worth beginning. */
int heddle_time_left_ms(struct heddle *fabric);

/* --- event loops ---------------------------------------------------------------------------- */

/* For poll() and epoll: readable when a ticket has ended or the members have changed (manual: when there may be work);
 * then call heddle_progress(fabric, 0). Not to be read, written or closed by the caller. -EINVAL, -ECHILD. */
int heddle_fd(const struct heddle *fabric);
/* With a progress thread: waits for any ticket to end. Manual: drives the fabric meanwhile. 1: something ended since
 * the last call, 0: not, -ESHUTDOWN (left: nothing will), -ECHILD, or an errno of the socket. Manual: one thread makes
 * this and all other calls. */
int heddle_progress(struct heddle *fabric, int timeout_ms);
/* Manual: how long heddle_fd() may be slept on before heddle_progress() is due; -1: for ever. -EINVAL, -ECHILD. */
int heddle_timeout_ms(const struct heddle *fabric);

/* --- what it did ---------------------------------------------------------------------------- */

struct heddle_stats {
	size_t size;
	uint64_t pushed, applied, dropped, failed; /* pushed = the other three + under way */
	uint64_t pulled, delivered;
	uint64_t granted_bytes, direct_bytes; /* of what was applied or delivered */
	uint64_t asked_again, fallbacks;
	int joined;
	int direct; /* no controller at present */
	uint32_t push_round; /* newest that was taken up, by former lives too; 0: none */
	uint64_t aggregated_bytes; /* of granted_bytes: that an aggregator added up or relayed */
};
#ifdef __cplusplus
#define HEDDLE_STATS_INIT                                                                          \
	{ sizeof(struct heddle_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
#else
#define HEDDLE_STATS_INIT                                                                          \
	{ .size = sizeof(struct heddle_stats) }
#endif
/* -EINVAL (size), -ECHILD. */
int heddle_get_stats(struct heddle *fabric, struct heddle_stats *stats);

/* "applied", "late", ...; "unknown" of any other value. Never NULL. */
const char *heddle_state_name(enum heddle_state state);
const char *heddle_reason_name(enum heddle_reason reason);
/* An error code of this library (negative or positive errno) in words. Never NULL. */
const char *heddle_strerror(int error);
/* What the last failing call of this thread had to say beyond its code: "" when nothing. */
const char *heddle_last_error(void);
/* "0.1.0" */
const char *heddle_version_text(void);

#ifdef __cplusplus
}
#endif

#endif
