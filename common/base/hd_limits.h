/* SPDX-License-Identifier: BSD-3-Clause */
/* Every limit and every default time of the system, in one place. Configuration may lower a limit, never raise it. Each
 * error that a limit causes names the limit by its name here. */
#ifndef HD_LIMITS_H
#define HD_LIMITS_H

/* --- wire --------------------------------------------------------------------------------- */
#define HD_PORT 4773 /* the fabric's one UDP destination port */
#define HD_PACKET_BYTES_MAX 8972 /* UDP payload at MTU 9000 */
#define HD_PACKET_BYTES_DEFAULT 1472 /* UDP payload at MTU 1500 */
#define HD_CHUNK_BYTES_DEFAULT 1408 /* payload of a data chunk: 352 fp32 values */
#define HD_CHUNK_BYTES_MIN 64 /* that users may set */
#define HD_CHUNK_BYTES_MAX 8896 /* the same on a 9,000-byte path: 2,224 fp32 values */
#define HD_MESSAGE_BYTES_MAX 65536 /* one control message with all its fragments */
#define HD_FRAGMENT_BYTES_MAX 1200 /* control body bytes in one packet */
#define HD_NAME_BYTES_MAX 64 /* host, job, tenant and tensor names, without the NUL */
#define HD_TEXT_BYTES_MAX 512 /* an explanatory text */
#define HD_SEGMENTS_MAX 4 /* (start, rate, bytes) pieces of one grant */
#define HD_SACK_RANGES_MAX 24 /* packet-number ranges in one selective acknowledgement */

/* --- nodes and jobs ------------------------------------------------------------------------ */
#define HD_SESSIONS_MAX 8192
#define HD_CANDIDATES_MAX 1024 /* sessions that sent HELLO and have not proven their key yet */
#define HD_WORKERS_MAX 4096 /* of one job */
#define HD_JOBS_MAX 256 /* that have workers at once; a job without workers makes room */
#define HD_ENDED_MAX 256 /* ended jobs whose checkpoint's host a controller remembers */
#define HD_REDUCES_MAX 64 /* collectives that one worker has in progress at once */
#define HD_PAIRS_MAX                                                                               \
	1024 /* sends and receives that one worker has called, and that have not ended */
/* Of these the ones that are requested from one sender to one receiver, from the oldest one on: the bits of CHANNEL. */
#define HD_CHANNEL_PAIRS_MAX 64
#define HD_REDUCE_REPORTS_MAX 16 /* workers, and shards, of an all-reduce that sends REPORTs */
/* An all-reduce of less says nothing of links: token buckets' bursts and receivers' delays are much of its time. */
#define HD_REDUCE_REPORT_BYTES_MIN 131072
#define HD_SHARED_MEMBERS_MAX                                                                      \
	64 /* of a round through shared memory: each looks at what all have done */
#define HD_ALLTOALL_MEMBERS_MAX 64 /* of an all-to-all, which has a shard for each pair of them */
#define HD_AGGREGATOR_SHARDS_MAX                                                                   \
	1024 /* of collectives with blocks, at one time: a GROUP and a VOID of each may be queued */
#define HD_GROUP_MEMBERS_MAX 1024 /* updates in one sum, and its receivers */
#define HD_MERGE_MEMBERS_MAX 64 /* sparse updates in one sum: each piece of it examines all */
#define HD_TENSORS_MAX 1024 /* of one job's model */
#define HD_DIMENSIONS_MAX 8
#define HD_MODEL_BYTES_MAX (UINT64_C(1) << 40)
#define HD_TAU_MAX_LIMIT 1000000
#define HD_POSITION_MAX (UINT64_C(1) << 62) /* in a job's order of commits, from any node */
#define HD_ROUND_MAX                                                                               \
	(UINT32_C(1) << 31) /* of an all-reduce, from a worker, unless known rounds are near */
#define HD_GENERATIONS_MAX (UINT64_C(1) << 32) /* assignments of a job's server in one epoch */
#define HD_KEYS_MAX 256 /* lines of a key file */
#define HD_NEIGHBOURS_MAX 16384 /* whose Ethernet addresses one dpdk node knows */

/* --- transfers ----------------------------------------------------------------------------- */
#define HD_INFLIGHT_PACKETS_MAX 16384 /* of one transfer */
#define HD_REDUCE_CHUNK_BYTES_MIN                                                                  \
	256 /* payload of a sum's full chunks: limits the state kept for each */
#define HD_SACK_PACKETS 128 /* an acknowledgement is sent at the latest after this many packets */
#define HD_TRANSFERS_MAX 16384 /* that one node tracks at once */
#define HD_PATHS_MAX 64 /* nodes with which one worker exchanges chunks at once */
#define HD_TICKETS_MAX 1024 /* rounds of one direction that one worker has open at once */
#define HD_RELAYS_WAITING_MAX 64 /* pulls granted to aggregators that have no session yet */
#define HD_SNAPSHOTS_MAX 16 /* live pinned model versions of one job */
#define HD_ROUNDS_KEPT 64 /* newest rounds of a worker whose outcome the server knows */
#define HD_COMMITS_KEPT 1024 /* newest entries of a job's commit log in memory */
#define HD_REPLICA_LAG_MAX 1024 /* commits by which a replica may lag */
#define HD_APPLY_VALUES 524288 /* of a model that a server changes between packets: 1 ms */
#define HD_INCARNATIONS_MAX 64 /* earlier incarnations that a job remembers */
#define HD_TOMBSTONES_MAX 4096 /* ended transfers whose late chunks are answered */
#define HD_PENDING_MAX 16384 /* requests that one controller plans over */
#define HD_FRAGMENTS_INFLIGHT_MAX 32 /* of one session: the bits of one ack mask */
#define HD_COOKIES_PER_S 16384 /* answers to HELLO without a cookie, which are smaller than it */
#define HD_WELCOMES_PER_S 4096 /* answers to HELLO with one, which may be slightly larger than it */
#define HD_WELCOME_AGAIN_US                                                                        \
	10000 /* between two to one candidate: a replayed HELLO uses no other's share */
#define HD_GONES_PER_S 4096 /* answers to QUERY, which may be replayed: no WELCOME waits for them */
#define HD_REFUSALS_PER_S 256 /* hints to packets that could not be authenticated */
#define HD_MESSAGES_UNACKED_MAX 4096 /* reliable control fragments queued in one session */

/* --- the switch on the path: more in hd_switch_numbers.h ------------------------------------ */
#define HD_SWITCH_MACS_MAX 16384 /* Ethernet addresses that are set, and as many learned ones */
#define HD_SWITCH_ROUTES_MAX 1024
#define HD_SWITCH_BURST_MAX 32 /* packets that are looked up before the first is added */

/* --- operators ---------------------------------------------------------------------------- */
#define HD_RESOLVERS_MAX 8 /* threads of one process that wait for a name's address, */
#define HD_RESOLVE_MS 5000 /* each at most this long */
#define HD_JOURNAL_RECORDS_MAX 32768 /* of the controller's history that wait for the disk */
#define HD_POLL_INTERVAL_US                                                                        \
	1000000 /* between two polls of a node's counters while an operator looks */
#define HD_POLL_HOLD_US 3000000 /* polling continues this long after the last look */
#define HD_POLL_SCRAPE_US 10000000 /* between two polls while metrics are scraped */
#define HD_SCRAPE_HOLD_US 120000000 /* continues this long after a scrape */
#define HD_STATS_ROWS_MAX 65536 /* of the counters, gathered at one time, in all groups */
#define HD_STATS_HISTOGRAMS_MAX 1024 /* gathered with them */

/* --- network and plan --------------------------------------------------------------------- */
#define HD_HOSTS_MAX 16384 /* hosts and switches of a topology */
#define HD_LINKS_MAX 65536 /* directed links */
#define HD_TOPOLOGY_CORE_MAX 1024 /* switches and hosts with several links: paths are precomputed */
#define HD_CONFIG_BYTES_MAX (16u << 20) /* a topology or problem file */
#define HD_PLAN_BREAKPOINTS_MAX 512 /* of one link's residual-capacity profile */
#define HD_PLAN_BUSY_MAX 524288 /* reserved pieces of links given to the planner */
#define HD_PLAN_CANDIDATES_MAX 16 /* rates considered for the last segment of a grant */
#define HD_PLAN_POOLS_MAX 16 /* nested sets of due updates that are kept ordered */
#define HD_PLAN_AGGREGATORS_MAX 16 /* from which grouping chooses */

/* --- times --------------------------------------------------------------------------------- */
#define HD_BATCH_INTERVAL_US 1000 /* the controller plans this often while requests wait */
#define HD_LOAD_INTERVAL_US 100000 /* between two LOAD messages of a link monitor */
/* The detection time: within it after a node's last message all others go on without it. Three quarters of it are
 * silence, in which the node is asked 16 times; the last quarter is for reaching other nodes and asking again. */
#define HD_DETECTION_US 1000000
#define HD_SILENCE_US 750000 /* a node that is silent for this long is lost */
#define HD_KEEPALIVE_US 250000
#define HD_NOTICE_US_MAX 3600000000u /* the longest notice of a preemption: an hour */
#define HD_ROSTER_US 10000 /* minimum time between two ROSTERs of a job, */
#define HD_ROSTER_WORKER_US 500 /* plus this for each receiving worker */
#define HD_JOINS_BURST 64 /* workers that may register, or join, at one moment; */
#define HD_JOIN_US UINT64_C(1000) /* others follow one by one, at least this far apart */
#define HD_JOIN_WAIT_US 600000000 /* maximum that a worker is told to wait */
#define HD_OBSERVE_US 50000 /* minimum time between two OBSERVEs of a worker */
#define HD_FALLBACK_US HD_SILENCE_US /* without a controller this long: ask the server directly */
#define HD_CREDIT_BYTES 131072 /* sent on a credit: 1 Gbit/s for 1 ms, 10 Gbit/s for 100 us */
#define HD_CREDIT_BYTES_MAX (1 << 30) /* that an operator can set */
#define HD_INLINE_BYTES 4096 /* longest buffer of a collective that goes with its requests, */
#define HD_INLINE_BYTES_MAX 16384 /* and that an operator can set */
#define HD_CREDIT_US 2000000 /* time within which a worker must spend one */
#define HD_PATH_OPEN_US 500000 /* a transfer waits this long for a session with its aggregator, */
#define HD_PATH_IDLE_US 30000000 /* and a session without transfers is kept this long */
#define HD_JOB_IDLE_US UINT64_C(86400000000) /* a job without workers ends after this time */
#define HD_JOB_AWAY_US 60000000 /* lost workers may be back within this: see operations.md */
#define HD_HOLD_US 500000 /* how long the server waits for a missing position */
#define HD_CHECKPOINT_RETRY_US 1000000 /* after a checkpoint could not be written, */
#define HD_CHECKPOINT_BACKOFF_MAX 6 /* doubled at most this many times */
#define HD_RTO_MIN_US 2000
#define HD_RTO_MAX_US 1000000
#define HD_RTO_INITIAL_US 20000
#define HD_SACK_DELAY_US 300 /* an acknowledgement that was not requested may wait this long */
#define HD_HELLO_RETRY_US 50000
#define HD_HELLO_RETRY_MAX_US 200000 /* a restarted peer is found within a quarter of it */
#define HD_HELLO_BUSY_US 1000000 /* the same for one that answers, but has not let us in yet */
#define HD_COOKIE_US 10000000 /* a cookie is valid for at least this, at most twice */
#define HD_QUERY_US 20000 /* minimum time between two QUERYs of one session */
#define HD_CANDIDATE_US 5000000 /* how long a candidate session waits for its first packet */
#define HD_ACK_DELAY_US 500 /* an acknowledgement waits this long for another packet to carry it */

#endif
