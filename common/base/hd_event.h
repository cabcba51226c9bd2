/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events that cores report through the sink: one flat record for every kind, so that the simulator's invariant
 * checkers, traces, journals and JSON logs all read the same stream. A field that a kind does not use is 0.
 */
#ifndef HD_EVENT_H
#define HD_EVENT_H

#include "hd_types.h"

/* Why an update or a pull was not applied or delivered. The order is the wire's: append only. */
#define HD_REASONS(R)                                                                              \
	R(NONE, "none")                                                                            \
	R(BOUND, "bound") /* would break tau_max: dropped by the planner */                        \
	R(IDLES, "idles") /* its early place would idle the network: dropped */                    \
	R(LATE, "late") /* exceeded tau_max at its commit */                                       \
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
	R(EPOCH, "epoch") /* granted by a superseded controller */                                 \
	R(CLOSED, "closed") /* the session or the node ended */                                    \
	R(NO_SERVER, "no-server") /* no server for the job */                                      \
	R(TIMEOUT, "timeout")                                                                      \
	R(UNKNOWN_KEY, "unknown-key")                                                              \
	R(VERSION_MISMATCH, "version-mismatch")                                                    \
	R(EXPIRED, "expired") /* a credit that was not spent in time, or was revoked */            \
	R(PREEMPTED, "preempted") /* its worker is preempted before it can be applied */           \
	R(RANK_HELD, "rank-held") /* a live process on another host has this rank: ask again */    \
	R(DEVICE, "device") /* the worker's GPU failed */                                          \
	R(MISMATCH, "mismatch") /* the members of a collective called different ones */            \
	R(MEMBERS, "members") /* a collective has not exactly the members that it must have */     \
	R(ROOT, "root") /* the root of a collective is lost */                                     \
	R(PEER, "peer") /* the other end of a send or receive is lost, or has given it up */

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
	HD_EVENT_PULLED, /* worker: pull requested by the application */
	HD_EVENT_REQUESTED, /* worker: request sent to the controller or directly to the server */
	HD_EVENT_GRANTED, /* controller (server when direct): token, position, value = rate bps */
	HD_EVENT_DROPPED, /* controller: reason, value = planned finish in s from now; server: not applied */
	HD_EVENT_VOIDED, /* controller or server: position given up; aux = 1: of an unspent credit */
	HD_EVENT_GO, /* receiver sent go to a successor: token */
	HD_EVENT_SEND_START, /* sender: first chunk left */
	HD_EVENT_SEND_END, /* sender: everything acknowledged, or cancelled (reason) */
	HD_EVENT_RECV_START, /* receiver: first chunk arrived */
	HD_EVENT_RECV_END, /* receiver: everything held; value = goodput in bit/s */
	HD_EVENT_COMMITTED, /* server: position, version (after), delay in aux, base in base; a sum has one event for
			       each part, with the parts that follow in more: one commit */
	HD_EVENT_OUTCOME, /* worker: the final outcome in aux, reason */
	HD_EVENT_DURABLE, /* server: everything up to version is durable */
	HD_EVENT_CHECKPOINT, /* server: checkpoint begun at version */
	HD_EVENT_SNAPSHOT, /* server: pull's version pinned */
	HD_EVENT_PLAN, /* controller: planned; bytes = pending, value = seconds it covers */
	HD_EVENT_ESTIMATE, /* controller: link in aux, value = bit/s */
	HD_EVENT_NODE_UP, /* controller: registered, aux = role, position = 1 + its host in the topology; server and
			     worker: session opened */
	HD_EVENT_NODE_DOWN, /* its session ended; reason */
	HD_EVENT_FALLBACK, /* worker: no controller, asks the server directly; server: starts this job unasked */
	HD_EVENT_COMMAND, /* controller: operator's command; aux = enum hd_verb, value = affected, reason */
	HD_EVENT_ROLLED_BACK, /* controller: a server restart lost aux commits, after `version` up to `base` */
	HD_EVENT_LOG_GAP, /* the event log: aux events could not be written here */
	HD_EVENT_CREDITED, /* controller: granted in advance: token, round, position, maximum bytes */
	HD_EVENT_SEEDED, /* replica: has the state of `version` */
	HD_EVENT_REPLICATED, /* replica: applied what made `version`, as in the server's COMMITTED */
	HD_EVENT_PROMOTED, /* replica: became the server at `version`, with the state of `base`; aux known commits could
			      not be applied; value = bound of its distance from the server, < 0: unknown */
	HD_EVENT_NOTICE, /* worker, controller, server: the worker will be preempted in `value` s */
	HD_EVENT_ROSTER, /* controller, server, worker: the job has aux workers since change `version`, and should have
			    `position` (0: not set); round = N of N-sync, bytes = tau_max, value = scale (0: the
			    job's) */
	HD_EVENT_STEP_WAITS, /* server: a synchronous step after `version` has waited for `value` s, for aux of the
				workers that are here; `worker` is the first of them */
	HD_EVENT_TARGET, /* controller: the job should have aux workers */
	HD_EVENT_STEPPED, /* server: the next aux COMMITTED events are one synchronous step up to `version`: their mean
			     times `value`, the scale of change `position` (0: none yet) */
	HD_EVENT_LEFT_OUT, /* controller: a collective began without this worker, which had not called it for `value` s */
	HD_EVENT_COUNT
};

/* The node and job of an event, for logs. A text unknown to the emitting node is "" or NULL. */
struct hd_who {
	const char *host, *name; /* of a node; its name as configured there */
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
	uint16_t more; /* committed: further parts of the same sum, in the next events */
	const struct hd_who *who; /* valid during the call of event(); NULL: not given */
};

/* Stable lower-case names, as in the shell, traces and JSON. Never NULL. */
const char *hd_reason_name(enum hd_reason reason);
const char *hd_outcome_name(enum hd_outcome outcome);
const char *hd_event_name(enum hd_event_kind kind);

#endif
