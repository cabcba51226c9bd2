/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What cores report through the sink: one flat record for every kind, so that the simulator's
 * invariant checkers, traces, journals and JSON logs all read the same stream. A field that a kind
 * does not use is 0.
 */
#ifndef HD_EVENT_H
#define HD_EVENT_H

#include "hd_types.h"

/* Why an update or a pull did not end as hoped. The order is the wire's: append only. */
#define HD_REASONS(R)                                                                              \
	R(NONE, "none")                                                                            \
	R(BOUND, "bound") /* would break tau_max: dropped by the planner */                        \
	R(IDLES, "idles") /* its early place would idle the network: dropped */                    \
	R(LATE, "late") /* tau_max broken when it came to the commit */                            \
	R(LOST_BASE, "lost-base") /* computed on a history that a restart lost */                  \
	R(VOID, "void") /* its position was given up */                                            \
	R(HOLD, "hold") /* voided by the server after hold_us */                                   \
	R(LEASE, "lease") /* its worker was silent */                                              \
	R(CANCELLED, "cancelled") /* withdrawn by the worker */                                    \
	R(LEFT, "left") /* its worker left the job */                                              \
	R(NOT_FINITE, "not-finite") /* NaN or Inf in it */                                         \
	R(REFUSED, "refused") /* job description, admission or protocol refused */                 \
	R(NO_MEMORY, "no-memory") /* beyond the memory that was admitted */                        \
	R(DUPLICATE, "duplicate") /* that round had been applied before */                         \
	R(NOT_MODIFIED, "not-modified") /* conditional pull: nothing newer */                      \
	R(EPOCH, "epoch") /* granted by a controller that has been superseded */                   \
	R(CLOSED, "closed") /* the session or the node ended */                                    \
	R(NO_SERVER, "no-server") /* no server for the job */                                      \
	R(TIMEOUT, "timeout")                                                                      \
	R(UNKNOWN_KEY, "unknown-key")                                                              \
	R(VERSION_MISMATCH, "version-mismatch")                                                    \
	R(EXPIRED, "expired") /* a credit that was not spent in time, or was taken back */         \
	R(PREEMPTED, "preempted") /* its worker is preempted before it could be applied */         \
	R(RANK_HELD, "rank-held") /* a living process on another host has this rank: ask again */  \
	R(DEVICE, "device") /* the worker's GPU failed */

enum hd_reason {
#define HD_REASON_ENUM(name, text) HD_REASON_##name,
	HD_REASONS(HD_REASON_ENUM)
#undef HD_REASON_ENUM
	HD_REASON_COUNT
};

/* How a push or pull ended: exactly one of these for each. */
enum hd_outcome {
	HD_OUTCOME_PENDING,
	HD_OUTCOME_APPLIED, /* push: committed at `version` with `delay`; pull: delivered */
	HD_OUTCOME_DROPPED, /* decided by policy before or at the commit; reason says which */
	HD_OUTCOME_FAILED, /* could not be carried out; reason says why */
	HD_OUTCOME_COUNT
};

enum hd_event_kind {
	HD_EVENT_NONE,
	HD_EVENT_PUSHED, /* worker: update accepted from the application; version = base */
	HD_EVENT_PULLED, /* worker: pull asked for */
	HD_EVENT_REQUESTED, /* worker: request sent to the controller or directly to the server */
	HD_EVENT_GRANTED, /* controller (server when direct): token, position, value = rate bps */
	HD_EVENT_DROPPED, /* controller: reason, value = planned finish in s from now; server: not applied */
	HD_EVENT_VOIDED, /* controller or server: position given up; aux = 1: of a credit that nobody had spent */
	HD_EVENT_GO, /* receiver sent go to a successor: token */
	HD_EVENT_SEND_START, /* sender: first chunk left */
	HD_EVENT_SEND_END, /* sender: everything acknowledged, or cancelled (reason) */
	HD_EVENT_RECV_START, /* receiver: first chunk arrived */
	HD_EVENT_RECV_END, /* receiver: everything held; value = goodput in bit/s */
	HD_EVENT_COMMITTED, /* server: position, version (after), delay in aux, base in base; of a sum one for each
			     part, the parts still to come in more: one commit */
	HD_EVENT_OUTCOME, /* worker: the one outcome in aux, reason */
	HD_EVENT_DURABLE, /* server: everything up to version is durable */
	HD_EVENT_CHECKPOINT, /* server: checkpoint begun at version */
	HD_EVENT_SNAPSHOT, /* server: pull's version pinned */
	HD_EVENT_PLAN, /* controller: planned; bytes = pending, value = seconds it covers */
	HD_EVENT_ESTIMATE, /* controller: link in aux, value = bit/s */
	HD_EVENT_NODE_UP, /* controller: registered, aux = role, position = 1 + its host in the topology; server and
			     worker: session opened */
	HD_EVENT_NODE_DOWN, /* its session ended; reason */
	HD_EVENT_FALLBACK, /* worker: no controller, goes direct; server: nor was it asked about this job, which begins */
	HD_EVENT_COMMAND, /* controller: an operator's; aux = enum hd_verb, value = affected, reason */
	HD_EVENT_ROLLED_BACK, /* controller: a restart of the server lost aux commits, after `version` up to `base` */
	HD_EVENT_LOG_GAP, /* the event log itself: aux events could not be written here */
	HD_EVENT_CREDITED, /* controller: granted in advance: token, round, position, bytes at most */
	HD_EVENT_SEEDED, /* replica: has the state of `version` */
	HD_EVENT_REPLICATED, /* replica: applied what made `version`, as the server's COMMITTED says it */
	HD_EVENT_PROMOTED, /* replica: is the server now, at `version`, with the state of `base`; aux commits that it knew
			      of could not be applied; value = the server was at most so far from it, < 0: unknown */
	HD_EVENT_NOTICE, /* worker, controller, server: the worker is preempted in `value` s */
	HD_EVENT_ROSTER, /* controller, server, worker: the job has aux workers from change `version` on, and should have
			    `position` (0: nobody says); round = N of N-sync, bytes = tau_max, value = scale (0: the job's) */
	HD_EVENT_STEP_WAITS, /* server: a synchronous step after `version` has waited for `value` s, for aux of the
				workers that are here; `worker` is the first of them */
	HD_EVENT_TARGET, /* controller: the job should have aux workers */
	HD_EVENT_STEPPED, /* server: the aux updates that are told next are one synchronous step up to `version`: their mean,
			     times `value`, which is the scale of change `position` (0: none was told yet) */
	HD_EVENT_COUNT
};

/* The node and job of an event, for logs. A text that the emitting node does not know is "" or NULL. */
struct hd_who {
	const char *host, *name; /* of a node; the name is what it calls itself */
	struct hd_addr address;
	const char *tenant, *job;
};

struct hd_event {
	hd_ns at; /* the emitting node's clock */
	enum hd_event_kind kind;
	enum hd_reason reason;
	uint32_t job;
	uint16_t worker;
	uint8_t direction; /* enum hd_direction (hd_message.h) */
	uint32_t round;
	uint64_t token;
	uint64_t position;
	hd_version version;
	hd_version base;
	uint64_t bytes;
	uint64_t aux;
	double value;
	uint16_t more; /* committed: further parts of the same sum, told next */
	const struct hd_who *who; /* during the call that reports the event; NULL: not said */
};

/* Stable lower-case names, as in the shell, traces and JSON. Never NULL. */
const char *hd_reason_name(enum hd_reason reason);
const char *hd_outcome_name(enum hd_outcome outcome);
const char *hd_event_name(enum hd_event_kind kind);

#endif
