/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker core: what libheddle runs in its progress thread and the simulator runs by the hundred.
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
#include "hd_stats.h"

struct hd_worker;

/* A push or pull whose state stays without progress for this long is asked for anew. */
#define HD_STALL_US 2000000

enum hd_ticket_state {
	HD_TICKET_QUEUED,
	HD_TICKET_REQUESTED,
	HD_TICKET_GRANTED,
	HD_TICKET_SENDING,
	HD_TICKET_HELD, /* the server has every byte; its commit is awaited */
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
	float scale; /* all-reduce: the roster's as the sum was made; else 0 */
	uint64_t bytes;
	bool granted; /* by the controller, also in advance (else direct) */
	void *user;
	hd_ns asked, ended;
};

/* A federated job's round for which this worker was drawn. */
struct hd_round_word {
	uint32_t round;
	hd_version version; /* of the model to begin with */
	uint16_t place, clients; /* the place-th of those drawn */
	uint16_t epochs; /* that it does when it has the time */
	bool drops; /* work that is not all epochs */
	float mu;
	hd_ns until; /* HD_NEVER: no limit */
};

/* Fewer clients are here than the round needs, and none has come for the job's wait_ms. */
struct hd_lack_word {
	uint32_t round;
	uint16_t here, needed;
	uint16_t gone; /* of those that are not here: lost, they did not leave */
	uint32_t waited_ms;
};

/* What it did in it. */
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
	/* A session ended or does not come about (HELLO goes on): what people should read in a log.
	 * Not authenticated before a session is open. */
	void (*trouble)(void *owner, enum hd_reason reason, const char *text);
	/* A ticket's state changed. After APPLIED of a pull, DROPPED, FAILED or (push) DURABLE the
	 * ticket is gone. A push's data may be reused once `released` was called.
	 * An APPLIED push whose history a restart of the server lost goes back to REQUESTED; it may
	 * then end as DROPPED lost-base after all (stats move with it, and its OUTCOME event is
	 * repeated with value 1: it replaces the former). */
	void (*ticket)(void *owner, const struct hd_ticket *ticket);
	/* The library no longer reads this push's data, and says nothing more about it: follows the
	 * last call of `ticket`, or makes APPLIED the last state (keep_bytes_max). */
	void (*released)(void *owner, uint32_t round, void *user);
	/* Who takes part has changed: by the controller's word (none is configured: the server's). */
	void (*members)(void *owner, const struct hd_roster *roster);
	/* The controller sends this worker away: until then, as after hd_worker_notice(). */
	void (*noticed)(void *owner, hd_ns preempted_at);
	/* Of a synchronous job: `version` is the newest that is known here. Updates on bases with another counter are too
	 * late. Called when it changes, also by our own pulls and outcomes. */
	void (*stepped)(void *owner, hd_version version);
	/* Of a federated job: it was drawn for a round. */
	void (*round)(void *owner, const struct hd_round_word *word);
	/* Of a federated job: there is no round, as too few are here. */
	void (*lacked)(void *owner, const struct hd_lack_word *word);
	/* Adds what the core cannot see to the numbers that the controller asks for: ports, queues, the thread. */
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
	struct hd_addr data; /* own address as the server reaches it; port 0: unknown */
	const struct hd_jobspec *spec; /* copied */
	float job_weight; /* for fairness between tenants; 0: 1 */
	bool observes; /* it only pulls: in no roster, and no step of a synchronous job waits for a push of it */
	uint16_t world; /* workers that the job begins with; 0: unknown */
	uint32_t chunk_bytes; /* 0: HD_CHUNK_BYTES_DEFAULT */
	uint32_t receive_window_bytes;
	uint32_t fallback_us; /* 0: HD_FALLBACK_US */
	/* How much data of applied pushes is kept until it is durable; beyond it the oldest is
	 * released, and APPLIED is its last state. 0: always so. */
	uint64_t keep_bytes_max;
	const struct hd_worker_ops *ops;
	void *owner;
};

int hd_worker_create(const struct hd_worker_config *config, struct hd_worker **worker);
void hd_worker_destroy(struct hd_worker *worker);
extern const struct hd_core_ops hd_worker_ops;

/* An update whose values lie where the processor does not look, on a device: what is known of it, and who makes its
 * bytes. The core calls it back while it takes up a grant. */
struct hd_packer {
	double norm; /* L2, of values that are finite unless the job allows others */
	float peak; /* the largest absolute value */
	/* Begins to write the values times weight, as the dtype of the push, into memory that stays until released(), or until
	 * it is called again. whole: all are there when it returns. 0; -EDOM (one does not fit, or is NaN or Inf and the job
	 * does not allow it), -ENOMEM, -EIO. */
	int (*pack)(void *user, float weight, int16_t exponent, bool whole, const void **payload);
	/* How many bytes from the start are there, and do not change until pack is called again. -EDOM, -EIO. */
	int64_t (*ready)(void *user);
};

struct hd_push_args {
	const float *data; /* only read; must stay unchanged until released() */
	/* Of a dense update, in place of data; NULL: none. Read during the call. */
	const struct hd_packer *packer;
	uint64_t values; /* the whole model's; of a sparse one those of its runs */
	/* Sparse (dtype HD_DTYPE_SPARSE32): which values data are, ascending; must stay as long as data. */
	const struct hd_run *runs;
	size_t run_count;
	hd_version base; /* v(g): the version that it was computed from */
	/* How it travels: HD_DTYPE_FP32, FP16, BF16, FIXED32 or SPARSE32. The grant's weight is multiplied in fp32
	 * before the values are rounded to 16 bits, or to multiples of the power of two that the grant names
	 * (FIXED32: a sum of such updates does not depend on the order in which they are added). */
	uint8_t dtype;
	float weight; /* of a federated job: > 0, what it counts in its round's mean; 0: 1 */
	void *user; /* comes back in the ticket */
};

/* Pushes one update. Returns 0 and *round, -EDOM (NaN or Inf, or beyond the range of dtype, and the job
 * does not allow it), -EINVAL (values, dtype, runs, weight), -E2BIG (a sparse one that is bigger than a dense
 * one), -ENOBUFS (HD_TICKETS_MAX rounds under way), -EAGAIN (not joined yet: rounds continue those that
 * the server has seen of this rank), -ESHUTDOWN (left or refused), -ENOMEM. */
int hd_worker_push(
	struct hd_worker *worker,
	hd_ns now,
	const struct hd_push_args *args,
	struct hd_sink *sink,
	uint32_t *round
);

struct hd_pull_args {
	float *data; /* written; undefined until the ticket ends, must stay as long */
	uint64_t values;
	hd_version have; /* with conditional: deliver only something newer */
	bool conditional;
	uint8_t dtype; /* in which it travels: HD_DTYPE_FP32, FP16 or BF16; data are fp32 */
	bool raw; /* data are as they travel */
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
/* All-reduces under way at once. */
#define HD_REDUCES_MAX 64

struct hd_reduce_args {
	const float *in; /* only read; must stay unchanged until released() */
	float *out; /* not in; undefined until APPLIED, must stay as long as in */
	uint64_t values;
	uint8_t dtype; /* in which they travel: HD_DTYPE_FP32, FP16 or BF16 */
	uint8_t order; /* enum hd_group_order */
	bool average; /* divided by the number of workers */
	void *user;
};

/* Takes part in an all-reduce: rounds count the calls, and those of one round are added. Its ticket (direction
 * HD_REDUCE) goes QUEUED -> REQUESTED -> SENDING -> APPLIED | FAILED; `delay` says how many workers are in the
 * sum. Errors: -ESHUTDOWN, -EDESTADDRREQ (no controller is configured), -EINVAL (values, dtype, order, in is
 * out), -EAGAIN (not registered yet), -ENOBUFS (HD_REDUCES_MAX), -ENOMEM. */
int hd_worker_reduce(
	struct hd_worker *worker,
	hd_ns now,
	const struct hd_reduce_args *args,
	struct hd_sink *sink,
	uint32_t *round
);
/* Says what was done in a round, before the push. -EINVAL (not federated, weight, loss), -EAGAIN (no session with the
 * server), -ESHUTDOWN. Said again by itself when the server asks for the same round in a new session. */
int hd_worker_work(
	struct hd_worker *worker,
	hd_ns now,
	const struct hd_work *work,
	struct hd_sink *sink
);
/* True when no controller is configured. */
bool hd_worker_is_direct(const struct hd_worker *worker);
/* Withdraws a push or pull: -ENOENT when it has ended, -EALREADY when it is held (too late). A push of
 * which something was sent ends when the server says how. */
int hd_worker_cancel(
	struct hd_worker *worker,
	hd_ns now,
	uint8_t direction,
	uint32_t round,
	struct hd_sink *sink
);
/* Leaves the job gracefully: what is under way ends first; true once nothing is left and the sessions
 * are closed. Call again (or look at stats.left) after later events. */
bool hd_worker_leave(struct hd_worker *worker, hd_ns now, struct hd_sink *sink);

/* This worker's machine is taken away in `left`. The controller (none is configured: the server) is told, and the
 * worker leaves by itself in time: pushes and pulls are taken until hd_worker_flush_at(), what is under way then
 * ends, what is not held 120 ms before the end is withdrawn, and 50 ms before it LEAVE is said in any case: tickets
 * that have not ended then do not end any more. 0 (also: said before, of less time), -EINVAL (0, more than
 * HD_NOTICE_US_MAX), -ESHUTDOWN (left or refused). */
int hd_worker_notice(struct hd_worker *worker, hd_ns now, hd_ns left, struct hd_sink *sink);
/* Until when it takes pushes; HD_NEVER without a notice. */
hd_ns hd_worker_flush_at(const struct hd_worker *worker);
/* What the worker has seen of the learning: goes to the controller, whose policy says how many workers there should
 * be. Words that come within HD_OBSERVE_US are added up. */
struct hd_worker_observation {
	uint32_t step; /* from 1 */
	double loss_sum; /* over `samples`; finite */
	uint64_t samples; /* > 0 */
	hd_ns step_took;
	float sent_norm, held_norm; /* L2; < 0: not known */
};
/* 0 (also: no controller is configured, and nobody hears it); -EINVAL, -ESHUTDOWN (left or refused). */
int hd_worker_observe(
	struct hd_worker *worker,
	hd_ns now,
	const struct hd_worker_observation *observation
);
/* Who takes part, as it was told last; change 0: it was not yet. */
const struct hd_roster *hd_worker_roster(const struct hd_worker *worker);

struct hd_worker_stats {
	uint64_t pushed, applied, dropped,
		failed; /* pushed = applied + dropped + failed + pending */
	uint64_t pulled, delivered;
	uint64_t reduced, reduce_failed;
	uint64_t in_slots; /* of the reduced ones: summed by a switch on the path */
	uint64_t
		streamed; /* pushes that all receivers of a switch's sums have: among the applied, or void later */
	uint64_t copies; /* of pushes, begun */
	uint64_t granted_bytes, direct_bytes; /* of pushes and pulls that ended applied */
	uint64_t credited_bytes; /* of the granted ones: in advance */
	bool joined, direct, left;
	bool preempted; /* it was told that its machine is taken away */
	bool controller, server; /* has a session with it; knows where it is */
	uint32_t push_round; /* of the newest push, this rank's former lives included; 0: none */
	/* Messages about attempts or tickets that are no more; chunks refused by cause. */
	uint64_t late_messages, asked_again, fallbacks;
	uint64_t aggregated_bytes; /* of the granted ones: that went by an aggregator */
	uint64_t ways_lost; /* transfers whose aggregator was lost, or could not be reached */
	uint64_t drop_malformed, drop_token, drop_mismatch, drop_type;
	uint64_t drop_mac; /* chunks whose MAC differs, or whose key is not here */
	uint64_t drop_source; /* chunks, not from the address of its sender's session */
};
/* Payload of a full packet, as configured: sparse updates are cut by it. */
uint32_t hd_worker_chunk_bytes(const struct hd_worker *worker);
const struct hd_worker_stats *hd_worker_stats(const struct hd_worker *worker);

#endif
