/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: what the controller core counts. */
#ifndef CTL_COUNTERS_H
#define CTL_COUNTERS_H

#include <stdint.h>

#define CTL_COUNTERS(C)                                                                            \
	C(registered, "nodes", "registrations accepted")                                           \
	C(register_refused, "messages", "registrations refused, with the reason in words")         \
	C(rank_held, "messages", "of a rank that is alive on another host: refused, or to wait")   \
	C(joins_delayed, "messages", "of workers that were told to come later: too many at once")  \
	C(leases_ended, "nodes", "registered nodes that went silent or closed")                    \
	C(requests, "messages", "requests taken into the table")                                   \
	C(requests_repeated, "messages", "requests already known: ignored or answered again")      \
	C(requests_stale, "messages", "requests of an attempt older than the known one")           \
	C(requests_refused, "messages", "requests refused: size, type, limits")                    \
	C(cancels, "messages", "requests and grants withdrawn by their worker")                    \
	C(groups,                                                                                  \
	  "groups",                                                                                \
	  "transfers over an aggregator granted: sums of updates, relayed models")                 \
	C(grouped, "updates", "of granted updates, those that are in sums")                        \
	C(relayed, "models", "of granted pulls, those that come from an aggregator")               \
	C(sums, "sums", "applied; their updates are among those applied")                          \
	C(switched, "groups", "of those granted, sums that a switch was to make")                  \
	C(sums_saturated, "sums", "of these, that overflowed: their members ask again")            \
	C(groups_voided, "groups", "given up whole: their members ask again")                      \
	C(grants, "transfers", "transfers granted")                                                \
	C(granted_bytes, "bytes", "bytes of granted transfers")                                    \
	C(copies, "transfers", "copies that replicas asked for")                                   \
	C(copies_void, "transfers", "of these and of sums_copied, given up once granted")          \
	C(sums_copied, "transfers", "sums that aggregators were to send to replicas as well")      \
	C(hosts_reused, "hosts", "without a topology: names of gone hosts that gave way")          \
	C(jobs_ended, "jobs", "that nobody was in any more, or that were evicted")                 \
	C(promotions, "jobs", "whose replica took the place of a server that was lost")            \
	C(promotions_held, "jobs", "whose server was waited for first, so soon after a promotion") \
	C(reduces, "rounds", "all-reduces begun")                                                  \
	C(reduces_failed, "rounds", "of these: void, a member or an aggregator was lost")          \
	C(reduces_switched, "rounds", "of all-reduces begun, those through a switch")              \
	C(leases, "leases", "of a switch's slots put in force")                                    \
	C(leases_refused, "leases", "that a switch refused, gave up, or did not answer")           \
	C(leases_taken, "leases", "taken back between rounds, as another job needed slots")        \
	C(drops_bound, "updates", "dropped: their delay would break tau_max")                      \
	C(drops_idles, "updates", "dropped: their place would idle the network (theta)")           \
	C(drops_preempted, "updates", "dropped: their worker is preempted before they arrive")     \
	C(notices, "nodes", "workers that will be preempted, or were told to leave")               \
	C(sent_away, "nodes", "of these, told to leave: more than the job should have")            \
	C(observations, "messages", "reports of workers on their steps")                           \
	C(preempted, "nodes", "of these, still here when their time was over")                     \
	C(voids, "transfers", "granted transfers given up")                                        \
	C(stuck, "transfers", "of these: never reported, long after their planned end")            \
	C(credits, "updates", "pushes granted in advance")                                         \
	C(credits_spent, "updates", "of these, that came")                                         \
	C(credits_unspent, "updates", "of these, that did not: late, asked for, taken back")       \
	C(credited_pulls, "pulls", "asked of the server itself, as a credit allows")               \
	C(credited_bytes, "bytes", "bytes of pushes and pulls that nobody asked for")              \
	C(reports, "messages", "reports of transfers that were open")                              \
	C(reports_unknown, "messages", "reports of transfers that were not (direct or void)")      \
	C(rolled_back,                                                                             \
	  "commits",                                                                               \
	  "lost by restarts of servers: reported once, not in the checkpoint")                     \
	C(restored, "transfers", "open transfers learnt from servers after a restart")             \
	C(plans, "rounds", "planning passes")                                                      \
	C(plan_items, "requests", "requests planned, all passes together")                         \
	C(plan_errors, "rounds", "passes that the planner refused")                                \
	C(overruns, "transfers", "transfers later than their reservation")                         \
	C(replaced, "reservations", "moved in the books: late, early, or a lower estimate")        \
	C(samples, "samples", "completed transfers fed to the estimate")                           \
	C(probes, "trains", "packet trains asked for")                                             \
	C(probed, "trains", "of these, reported")                                                  \
	C(loads, "messages", "LOADs of link monitors taken")                                       \
	C(polls, "messages", "nodes asked for what they have counted")                             \
	C(stats, "messages", "of these, answered")                                                 \
	C(stats_unasked, "messages", "such answers that nobody asked for, or too late ones")       \
	C(shows, "messages", "tables asked for by shells")                                         \
	C(commands, "messages", "commands of operators: set, pause, drain, evict")                 \
	C(commands_refused, "messages", "of these, wrong: nothing was changed")                    \
	C(hostile_role, "messages", "messages that their sender's role may not send")              \
	C(hostile_owner, "messages", "messages about another's job or transfer")                   \
	C(hostile_value, "messages", "messages with impossible values")                            \
	C(hostile_kind, "messages", "messages that a controller never receives")                   \
	C(queue_overflow, "nodes", "sessions closed because their queue was full")

struct ctl_counters {
#define CTL_COUNTER_FIELD(name, unit, help) uint64_t name;
	CTL_COUNTERS(CTL_COUNTER_FIELD)
#undef CTL_COUNTER_FIELD
};

#endif
