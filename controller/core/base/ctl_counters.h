/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: what the controller core counts. */
#ifndef CTL_COUNTERS_H
#define CTL_COUNTERS_H

#include <stdint.h>

#define CTL_COUNTERS(C)                                                                            \
	C(registered, "nodes", "registrations accepted")                                           \
	C(register_refused, "messages", "registrations refused, with a reason")                    \
	C(rank_held,                                                                               \
	  "messages",                                                                              \
	  "registrations of a rank that is alive on another host: refused or delayed")             \
	C(joins_delayed,                                                                           \
	  "messages",                                                                              \
	  "registrations of workers that were told to retry later: too many at once")              \
	C(leases_ended, "nodes", "registered nodes that went silent or closed their session")      \
	C(requests, "messages", "requests accepted")                                               \
	C(requests_repeated, "messages", "requests already known: ignored or answered again")      \
	C(requests_stale, "messages", "requests of an attempt older than the known one")           \
	C(requests_refused, "messages", "requests refused: size, type, limits")                    \
	C(cancels, "messages", "requests and grants cancelled by their worker")                    \
	C(groups, "groups", "sums and relays granted, over an aggregator or a switch")             \
	C(grouped, "updates", "granted updates that are members of a sum")                         \
	C(relayed, "models", "granted pulls that are relayed by an aggregator")                    \
	C(sums, "sums", "sums applied; their updates are counted as applied")                      \
	C(switched, "groups", "granted sums that a switch computes")                               \
	C(sums_saturated, "sums", "switch sums that overflowed: their members request again")      \
	C(groups_voided, "groups", "groups voided completely: their members request again")        \
	C(grants, "transfers", "transfers granted")                                                \
	C(granted_bytes, "bytes", "bytes of granted transfers")                                    \
	C(copies, "transfers", "copies that replicas requested")                                   \
	C(copies_void, "transfers", "copies, requested or of sums, voided after their grant")      \
	C(sums_copied, "transfers", "sums that aggregators also send to replicas")                 \
	C(hosts_reused, "hosts", "names of departed hosts that were reused (without a topology)")  \
	C(jobs_ended, "jobs", "jobs that ended: all workers left, or an operator evicted the job") \
	C(promotions, "jobs", "jobs whose replica replaced a lost server")                         \
	C(promotions_held,                                                                         \
	  "jobs",                                                                                  \
	  "jobs that waited for their server, lost soon after a promotion")                        \
	C(reduces, "rounds", "all-reduces started")                                                \
	C(reduces_failed,                                                                          \
	  "rounds",                                                                                \
	  "all-reduces that failed: void, or a member or an aggregator was lost")                  \
	C(pairs, "pairs", "sends begun, each with its receive")                                    \
	C(pairs_failed, "pairs", "of these, voided: repeated, if both ends are left")              \
	C(left_out,                                                                                \
	  "workers",                                                                               \
	  "workers without which a round began: they had not called it in time")                   \
	C(reduces_switched, "rounds", "all-reduces started through a switch")                      \
	C(reduces_shared, "rounds", "all-reduces started in memory that all members share")        \
	C(reduces_inlined, "rounds", "collectives whose values came with their requests")          \
	C(leases, "leases", "leases of switch slots put in force")                                 \
	C(leases_refused, "leases", "leases that a switch refused, gave up or did not answer")     \
	C(leases_taken, "leases", "leases revoked between rounds because another job needed slots" \
	)                                                                                          \
	C(drops_bound, "updates", "dropped: their delay would break tau_max")                      \
	C(drops_idles, "updates", "dropped: their place would leave the network idle (theta)")     \
	C(drops_preempted, "updates", "dropped: their worker is preempted before they arrive")     \
	C(notices, "nodes", "workers that will be preempted, or were told to leave")               \
	C(sent_away, "nodes", "workers told to leave: more than the target of the job")            \
	C(observations, "messages", "reports of workers about their steps")                        \
	C(preempted, "nodes", "workers still registered when their announced time was over")       \
	C(voids, "transfers", "granted transfers that were voided")                                \
	C(stuck,                                                                                   \
	  "transfers",                                                                             \
	  "voided transfers that were not reported long after their planned end")                  \
	C(credits, "updates", "pushes granted in advance")                                         \
	C(credits_spent, "updates", "pushes that arrived on a credit")                             \
	C(credits_unspent,                                                                         \
	  "updates",                                                                               \
	  "credits that ended without their push: late, requested, or withdrawn")                  \
	C(credited_pulls, "pulls", "pulls requested from the server directly, on a credit")        \
	C(credited_bytes, "bytes", "bytes of pushes and pulls on credits")                         \
	C(reports, "messages", "reports of open transfers")                                        \
	C(reports_unknown, "messages", "reports of transfers that were not open (direct or void)") \
	C(rolled_back,                                                                             \
	  "commits",                                                                               \
	  "commits lost by restarts of servers: reported once, not in the checkpoint")             \
	C(restored, "transfers", "open transfers learnt from servers after a restart")             \
	C(plans, "rounds", "planning passes of the controller")                                    \
	C(plan_items, "requests", "requests planned, in all passes")                               \
	C(plan_errors, "rounds", "planning passes that the planner refused")                       \
	C(overruns, "transfers", "transfers that ran past their reservation")                      \
	C(replaced, "reservations", "reservations moved: late, early, or a lower estimate")        \
	C(samples, "samples", "completed transfers that the estimates learnt from")                \
	C(probes, "trains", "packet trains requested")                                             \
	C(probed, "trains", "packet trains reported")                                              \
	C(loads, "messages", "LOAD messages of link monitors accepted")                            \
	C(polls, "messages", "POLLs sent to nodes, for their counters")                            \
	C(stats, "messages", "POLLs answered")                                                     \
	C(stats_unasked, "messages", "answers without a POLL, or too late")                        \
	C(shows, "messages", "tables that shells requested")                                       \
	C(commands, "messages", "commands of operators: set, pause, drain, evict")                 \
	C(commands_refused, "messages", "commands refused: nothing was changed")                   \
	C(hostile_role, "messages", "messages that the role of their sender may not send")         \
	C(hostile_owner, "messages", "messages about another node's job or transfer")              \
	C(hostile_value, "messages", "messages with impossible values")                            \
	C(hostile_kind, "messages", "messages that a controller does not accept")                  \
	C(queue_overflow, "nodes", "sessions closed because their queue was full")

struct ctl_counters {
#define CTL_COUNTER_FIELD(name, unit, help) uint64_t name;
	CTL_COUNTERS(CTL_COUNTER_FIELD)
#undef CTL_COUNTER_FIELD
};

#endif
