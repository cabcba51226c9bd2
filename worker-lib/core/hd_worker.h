/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker core: runs in libheddle's progress thread, and by the hundred in the simulator.
 *
 * A push:  QUEUED -> REQUESTED -> GRANTED -> SENDING -> HELD -> (outcome) APPLIED -> DURABLE
 *                        |            |          |         \--> DROPPED late, lost-base, void
 *                        +------------+----------+--> DROPPED bound, idles | FAILED ...
 * A pull ends in APPLIED (delivered, one version), DROPPED not-modified, or FAILED.
 */
#ifndef HD_WORKER_H
#define HD_WORKER_H

#include "hd_event.h"
#include "hd_jobspec.h"
#include "hd_keys.h"
#include "hd_node.h"
#include "hd_roster.h"
#include "hd_runs.h"
#include "hd_shared.h"
#include "hd_stats.h"

struct hd_worker;

/* A push or pull whose state makes no progress for this long is requested again. */
#define HD_STALL_US 2000000

enum hd_ticket_state {
	HD_TICKET_QUEUED,
	HD_TICKET_REQUESTED,
	HD_TICKET_GRANTED,
	HD_TICKET_SENDING,
	HD_TICKET_HELD, /* the server has every byte; the commit is pending */
	HD_TICKET_APPLIED,
	HD_TICKET_DURABLE, /* pushes only */
	HD_TICKET_DROPPED,
	HD_TICKET_FAILED
};

struct hd_ticket {
	uint32_t round; /* identifies the push or pull; each direction counts from 1 */
	uint8_t direction;
	enum hd_ticket_state state;
	enum hd_reason reason;
	hd_version base; /* push: v(g) */
	hd_version version; /* after the commit; pull: the version delivered */
	uint32_t delay;
	float scale; /* all-reduce: the roster's for this sum; else 0 */
	uint16_t waiting; /* collective: workers that called the roll instead, when it began */
	uint64_t bytes;
	bool granted; /* by the controller, also in advance (else the push went directly) */
	const char *words; /* why it failed; valid during the callback; NULL: the reason says it */
	const struct hd_roster
		*members; /* of a collective; valid during the callback; NULL: unknown */
	void *user;
	hd_ns asked, ended;
};

/* A federated job's round for which this worker was drawn. */
struct hd_round_info {
	uint32_t round;
	hd_version version; /* the model from which it begins */
	uint16_t place, clients; /* index among the drawn clients, and their number */
	uint16_t epochs; /* to do if there is time */
	bool drops; /* the round drops work without all epochs */
	float mu;
	hd_ns until; /* HD_NEVER: no limit */
};

/* A federated round needs more clients than have joined, and none has come for the job's wait_ms. */
struct hd_lack_info {
	uint32_t round;
	uint16_t here, needed;
	uint16_t gone; /* of the missing ones: lost without LEAVE */
	uint32_t waited_ms;
};

/* The worker's work in a federated round. */
struct hd_work {
	uint32_t round;
	uint16_t epochs;
	bool gives; /* a push follows */
	float weight; /* > 0: rows */
	float gamma; /* < 0: not computed */
	double loss; /* of its rows at the round's model; finite */
};

/* Each may be NULL. */
struct hd_worker_ops {
	/* Joined the job: pushes and pulls flow. Called again after the server came back: then
	 * version may be of a new incarnation. */
	void (*joined)(void *owner, hd_version version, uint32_t tau_max);
	/* Refused for good (description differs, no memory, key): text says what. */
	void (*refused)(void *owner, enum hd_reason reason, const char *text);
	/* A session ended or cannot be opened (HELLO continues): a text for a log. Not authenticated before a session
	 * is open. */
	void (*trouble)(void *owner, enum hd_reason reason, const char *text);
	/* A ticket's state changed. After APPLIED of a pull, DROPPED, FAILED or (push) DURABLE the ticket is gone. A
	 * push's data may be reused once `released` was called. A restart of the server may lose the history of an
	 * APPLIED push, which then goes back to REQUESTED; it may end as DROPPED lost-base (the stats change with it,
	 * and its OUTCOME event is repeated with value 1: it replaces the former). */
	void (*ticket)(void *owner, const struct hd_ticket *ticket);
	/* The library no longer reads this push's data, and reports nothing more about it: follows the last call of
	 * `ticket`, or makes APPLIED the last state (keep_bytes_max). */
	void (*released)(void *owner, uint32_t round, void *user);
	/* The members of the job have changed: sent by the controller (if none is configured: by the server). */
	void (*members)(void *owner, const struct hd_roster *roster);
	/* The controller sends this worker away at this time: handled as after hd_worker_notice(). */
	void (*noticed)(void *owner, hd_ns preempted_at);
	/* Of a synchronous job: `version` is the newest known one. Updates on bases with another counter are too late.
	 * Called when it changes, also by this worker's pulls and outcomes. */
	void (*stepped)(void *owner, hd_version version);
	/* Of a federated job: this worker was drawn for a round. */
	void (*round)(void *owner, const struct hd_round_info *info);
	/* Of a federated job: there is no round, as too few clients have joined. */
	void (*lacked)(void *owner, const struct hd_lack_info *info);
	/* Adds counters that the core does not have to those that the controller polls: ports, queues, the thread. */
	void (*gather)(void *owner, struct hd_stats *stats);
};

struct hd_worker_config {
	const char *name;
	const char *host;
	uint16_t rank;
	const struct hd_keyring *keys;
	uint16_t key_id;
	uint8_t seed[32];
	struct hd_addr controller; /* none: direct to the server */
	struct hd_addr server; /* used when there is no controller; else the controller names it */
	struct hd_addr data; /* own address as the server can reach it; port 0: unknown */
	const struct hd_jobspec *spec; /* copied */
	float job_weight; /* for fairness between tenants; 0: 1 */
	bool observes; /* only pulls: in no roster, and no step waits for a push of it */
	uint16_t world; /* number of workers with which the job begins; 0: unknown */
	uint32_t chunk_bytes; /* 0: HD_CHUNK_BYTES_DEFAULT */
	uint32_t receive_window_bytes;
	uint32_t fallback_us; /* 0: HD_FALLBACK_US */
	/* The limit of data of applied pushes that is kept until it is durable; beyond it the oldest is released, and
	 * APPLIED is its last state. 0: nothing is kept. */
	uint64_t keep_bytes_max;
	uint64_t
		shared; /* identity of the memory that it can share with other processes; 0: it shares none */
	const struct hd_shared_ops *shared_ops; /* how */
	void *shared_owner;
	const struct hd_worker_ops *ops;
	void *owner;
};

int hd_worker_create(const struct hd_worker_config *config, struct hd_worker **worker);
void hd_worker_destroy(struct hd_worker *worker);
extern const struct hd_core_ops hd_worker_ops;

/* An update whose values are not in host memory but on a device: its properties, and functions that write its bytes.
 * The core calls them while it carries out a grant. */
struct hd_packer {
	double norm; /* L2, of values that are finite unless the job allows others */
	float peak; /* the largest absolute value */
	/* Begins to write the values times weight, as the dtype of the push, into memory that stays valid until
	 * released(), or until the next call. whole: returns when all are written. 0; -EDOM (one does not fit, or is
	 * NaN or Inf and the job does not allow it), -ENOMEM, -EIO. */
	int (*pack)(void *user, float weight, int16_t exponent, bool whole, const void **payload);
	/* The number of bytes from the start that are written, and do not change until the next call of pack. -EDOM,
	 * -EIO. */
	int64_t (*ready)(void *user);
};

struct hd_push_args {
	const float *data; /* only read; must stay unchanged until released() */
	/* For a dense update, instead of data; NULL: none. Read during the call. */
	const struct hd_packer *packer;
	uint64_t values; /* the whole model's; of a sparse one those of its runs */
	/* Sparse (dtype HD_DTYPE_SPARSE32): the indices of data, ascending; must stay valid as long as data. */
	const struct hd_run *runs;
	size_t run_count;
	hd_version base; /* v(g): the version from which it was computed */
	/* Its type on the wire: HD_DTYPE_FP32, FP16, BF16, FIXED32 or SPARSE32. The grant's weight is multiplied in
	 * fp32 before the values are rounded to 16 bits, or to multiples of the power of two in the grant (FIXED32: a
	 * sum of such updates does not depend on the order in which they are added). */
	uint8_t dtype;
	float weight; /* of a federated job: > 0, its weight in the round's mean; 0: 1 */
	void *user; /* returned in the ticket */
};

/* Pushes one update. Returns 0 and *round, -EDOM (NaN or Inf, or beyond the range of dtype, and the job does not allow
 * it), -EINVAL (values, dtype, runs, weight), -E2BIG (a sparse one that is larger than a dense one), -ENOBUFS
 * (HD_TICKETS_MAX rounds in progress), -EAGAIN (not joined yet: rounds continue those that the server knows of this
 * rank), -ESHUTDOWN (left or refused), -ENOMEM. */
int hd_worker_push(
	struct hd_worker *worker,
	hd_ns now,
	const struct hd_push_args *args,
	struct hd_sink *sink,
	uint32_t *round
);

struct hd_pull_args {
	float *data; /* written; undefined until the ticket ends, must stay valid as long */
	uint64_t values;
	hd_version have; /* with conditional: deliver only something newer */
	bool conditional;
	uint8_t dtype; /* on the wire: HD_DTYPE_FP32, FP16 or BF16; data are fp32 */
	bool raw; /* data are of that type, too */
	void *user;
};

/* Pulls one version. Errors as for a push, without -EDOM and -EAGAIN. */
int hd_worker_pull(
	struct hd_worker *worker,
	hd_ns now,
	const struct hd_pull_args *args,
	struct hd_sink *sink,
	uint32_t *round
);

struct hd_reduce_args {
	uint8_t collective; /* enum hd_collective */
	uint16_t root; /* of SEND: the sender */
	uint32_t channel; /* of SEND: hd_channel(); else 0 */
	/* Each NULL if this worker gives nothing, or receives nothing (worker_blocks.c). */
	const void *in; /* only read; must stay unchanged until released() */
	void *out; /* not `in`; undefined until APPLIED, must stay valid as long as in */
	uint64_t values; /* of a gather: of this worker's block; of an all-to-all: of its row */
	uint64_t room; /* of out, in values; 0: it has room for what there can be */
	uint8_t type; /* of the values: hd_dtype_is_element() */
	uint8_t dtype; /* on the wire: type; of FP32 also FP16 or BF16 */
	uint8_t op; /* enum hd_reduce_op; SUM for those that only copy */
	uint8_t order; /* enum hd_group_order */
	uint16_t exact; /* members that it must have; 0: those that are there */
	uint8_t state; /* enum hd_request_state; HAS: out is NULL */
	uint16_t least; /* it begins when this number have called; 0: any. Not with exact */
	uint32_t
		wait_ms; /* for workers that have not called; 0: the default; HD_REDUCE_WAIT_FOREVER */
	char tag[HD_NAME_BYTES_MAX + 1]; /* all members must have the same */
	void *user;
};

/* Takes part in an all-reduce: rounds count the calls, and the values of one round are combined. Its ticket (direction
 * HD_REDUCE) goes QUEUED -> REQUESTED -> SENDING -> APPLIED | FAILED; `delay` is the number of workers in the
 * sum. Errors: -ESHUTDOWN, -EDESTADDRREQ (no controller is configured), -EINVAL (values, types, op, order, in equals
 * out), -EAGAIN (not registered yet), -ENOBUFS (HD_REDUCES_MAX; of SEND HD_PAIRS_MAX), -ENOMEM.
 * A SEND is counted in its channel: *round is its number there. */
int hd_worker_reduce(
	struct hd_worker *worker,
	hd_ns now,
	const struct hd_reduce_args *args,
	struct hd_sink *sink,
	uint32_t *round
);
/* Reports the work in a round, before the push. -EINVAL (not federated, weight, loss), -EAGAIN (no session with the
 * server), -ESHUTDOWN. Repeated automatically when the server asks for the same round in a new session. */
int hd_worker_work(
	struct hd_worker *worker,
	hd_ns now,
	const struct hd_work *work,
	struct hd_sink *sink
);
/* True when no controller is configured. */
bool hd_worker_is_direct(const struct hd_worker *worker);
/* Withdraws a push or pull: -ENOENT when it has ended, -EALREADY when it is held (too late). A push of which chunks
 * were sent ends when the server reports its outcome. */
int hd_worker_cancel(
	struct hd_worker *worker,
	hd_ns now,
	uint8_t direction,
	uint32_t round,
	struct hd_sink *sink
);
/* The same of a send or receive: -ENOENT, -EALREADY (it has begun). */
int hd_worker_cancel_pair(
	struct hd_worker *worker,
	hd_ns now,
	uint32_t channel,
	uint32_t number,
	struct hd_sink *sink
);
/* Leaves the job gracefully: transfers in progress end first; true when none is left and the sessions are closed. Call
 * again (or read stats.left) after later events. */
bool hd_worker_leave(struct hd_worker *worker, hd_ns now, struct hd_sink *sink);

/* This worker's machine is taken away in `left`. The controller (if none is configured: the server) is told, and the
 * worker leaves by itself in time. It takes pushes and pulls until hd_worker_flush_at(), then transfers in progress
 * end. 120 ms before the end those not held are withdrawn, and 50 ms before it the worker sends LEAVE in any case:
 * tickets that have not ended then do not end any more. 0 (also: repeated, with less time), -EINVAL (0, more than
 * HD_NOTICE_US_MAX), -ESHUTDOWN (left or refused). */
int hd_worker_notice(struct hd_worker *worker, hd_ns now, hd_ns left, struct hd_sink *sink);
/* The end of the time in which it takes pushes; HD_NEVER without a notice. */
hd_ns hd_worker_flush_at(const struct hd_worker *worker);
/* The worker's progress in learning, for the controller, whose policy decides the number of workers. Reports within
 * HD_OBSERVE_US are added up. */
struct hd_worker_observation {
	uint32_t step; /* from 1 */
	double loss_sum; /* over `samples`; finite */
	uint64_t samples; /* > 0 */
	hd_ns step_took;
	float sent_norm, held_norm; /* L2; < 0: unknown */
};
/* 0 (also without a controller, when the report is dropped); -EINVAL, -ESHUTDOWN (left or refused). */
int hd_worker_observe(
	struct hd_worker *worker,
	hd_ns now,
	const struct hd_worker_observation *observation
);
/* The members of the job, as last received; change 0: not received yet. */
const struct hd_roster *hd_worker_roster(const struct hd_worker *worker);

struct hd_worker_stats {
	uint64_t pushed, applied, dropped,
		failed; /* pushed = applied + dropped + failed + pending */
	uint64_t pulled, delivered;
	uint64_t reduced, reduce_failed;
	uint64_t in_slots; /* of the reduced ones: added by a switch on the path */
	uint64_t in_memory; /* of the reduced ones: through memory that all members share */
	uint64_t streamed; /* pushes that all receivers of a switch's sums have, also voided ones */
	uint64_t copies; /* of pushes, begun */
	uint64_t granted_bytes, direct_bytes; /* of pushes and pulls that ended applied */
	uint64_t credited_bytes; /* of the granted ones: in advance */
	bool joined, direct, left;
	bool preempted; /* it has notice that its machine is taken away */
	bool controller, server; /* has a session with it; knows its address */
	uint32_t push_round; /* of the newest push, of all processes of this rank; 0: none */
	/* Messages about attempts or tickets that have ended; chunks refused, by reason. */
	uint64_t late_messages, asked_again, fallbacks;
	uint64_t aggregated_bytes; /* of the granted ones: sent through an aggregator */
	uint64_t paths_lost; /* transfers whose aggregator was lost, or could not be reached */
	uint64_t drop_malformed, drop_token, drop_mismatch, drop_type;
	uint64_t drop_mac; /* chunks whose MAC differs, or whose key is unknown */
	uint64_t drop_source; /* chunks from another address than that of the sender's session */
};
/* Payload of a full packet, as configured: sparse updates are packed for it. */
uint32_t hd_worker_chunk_bytes(const struct hd_worker *worker);
const struct hd_worker_stats *hd_worker_stats(const struct hd_worker *worker);

#endif
