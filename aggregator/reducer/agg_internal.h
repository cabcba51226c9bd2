/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the aggregator core's files share. One file an idea:
 *
 *   agg_node.c     node face: packets in, deadlines, life
 *   agg_session.c  endpoint callbacks: who may say what; the controller's session; peers
 *   agg_group.c    GROUP: what is admitted; how a group ends
 *   agg_input.c    chunks into the sum, acknowledgements, go, silence
 *   agg_output.c   the final part of the sum on its way
 *   agg_memory.c   buffers of sums from a budget that jobs share
 *   agg_stats.c    what is counted
 *   agg_show.c     tables for shells
 *
 * During one receive() or tick(): first whatever arrived changes state, groups may end and their memory may go; only
 * then do sends hand parts of sums to the sink, which may read them until the call returns.
 */
#ifndef AGG_INTERNAL_H
#define AGG_INTERNAL_H

#include "hd_aggregator.h"
#include "hd_endpoint.h"
#include "hd_group.h"
#include "hd_probe.h"
#include "hd_reduce.h"
#include "hd_seal.h"
#include "hd_send.h"
#include "hd_timers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define uthash_malloc(bytes) malloc(bytes)
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define AGG_POLL_PACKETS 32 /* one output's turn */
#define AGG_POLL_BUDGET 512 /* packets of one receive() or tick() */
#define AGG_GO_SLACK_US 20000 /* after its start time an output no longer waits for go */
#define AGG_PACKET_OVERHEAD 28 /* IPv4 and UDP headers */
#define AGG_PATIENCE_HOLDS                                                                         \
	4 /* a receiver of what is final may be silent for so many times hold_us */
#define AGG_EARLY_PART 8 /* one part of so many of the memory is for chunks before their turn */
#define AGG_IDLE_US 120000000 /* a group in which nothing came and nothing went for so long fails */

enum agg_timer_kind {
	AGG_TIMER_INPUT, /* a delayed acknowledgement */
	AGG_TIMER_WATCH, /* silence in a group */
	AGG_TIMER_PEER /* one of ours that does not open */
};

/* What an incoming chunk's token stands for. */
enum agg_handle_kind {
	AGG_HANDLE_INPUT,
	AGG_HANDLE_TOMBSTONE
};

struct agg_handle {
	uint64_t token;
	enum agg_handle_kind kind;
	UT_hash_handle hh;
};

struct agg_group;
struct agg_input;
struct agg_output;

LIST_HEAD(agg_peer_inputs, agg_input);
LIST_HEAD(agg_peer_outputs, agg_output);
LIST_HEAD(agg_successors, agg_input);
TAILQ_HEAD(agg_peers, agg_peer);
TAILQ_HEAD(agg_input_list, agg_input);
TAILQ_HEAD(agg_output_list, agg_output);
TAILQ_HEAD(agg_group_list, agg_group);

/* A job that has a group or a worker here. */
struct agg_job {
	uint32_t id;
	uint32_t groups, peers;
	uint64_t used; /* memory of its groups, without what is early */
	UT_hash_handle hh;
};

/* One session: a worker's, an aggregator's or a shell's that they opened, a server's or aggregator's that we did. */
struct agg_peer {
	struct hd_session *session;
	struct agg_job *job; /* of a worker that said JOIN */
	uint16_t worker;
	bool ours, open;
	bool by_addr, by_who; /* it is in that table: not when a newer one took its place */
	uint64_t addr, who; /* keys */
	struct hd_timer timer; /* of ours */
	const char *broken; /* why it is closed at the end of the call; NULL: it is not */
	struct hd_path path; /* to it */
	struct agg_peer_inputs inputs;
	struct agg_peer_outputs outputs;
	TAILQ_ENTRY(agg_peer) link;
	UT_hash_handle addr_hh, who_hh;
};

struct agg_input {
	struct agg_handle handle; /* first */
	struct hd_seal seal;
	struct agg_group *group;
	uint32_t index; /* rank */
	struct hd_reduce_input is;
	struct agg_peer *peer; /* NULL: no session of its sender is known */
	bool started, complete, touched;
	bool told; /* the controller, that it is held whole */
	bool went; /* go was said, or would have been if there were a session */
	hd_ns active; /* when it last showed that it will come */
	struct agg_input *predecessor; /* whose end frees this one's start */
	struct agg_successors successors;
	struct hd_timer timer;
	LIST_ENTRY(agg_input) successor_link, peer_link;
	TAILQ_ENTRY(agg_input) touched_link;
};

enum agg_output_state {
	AGG_OUTPUT_WAITING, /* for a session, or for the first chunk */
	AGG_OUTPUT_SENDING,
	AGG_OUTPUT_ENDED, /* while sending: looked at in the next call */
	AGG_OUTPUT_DELIVERED,
	AGG_OUTPUT_LOST
};

struct agg_output {
	struct agg_group *group;
	struct hd_group_output is;
	enum agg_output_state state;
	struct agg_peer *peer; /* NULL: it is among the homeless, or it ended */
	struct hd_send *send;
	hd_ns start; /* on our clock */
	hd_ns active; /* when its receiver last showed that it is there */
	uint64_t fed; /* bytes that the send knows to be final */
	bool started, went, homeless;
	struct hd_timer timer; /* of sends */
	LIST_ENTRY(agg_output) peer_link;
	TAILQ_ENTRY(agg_output) homeless_link, ended_link;
};

struct agg_buffer {
	struct agg_buffer *next; /* in the pool */
	uint64_t bytes;
	void *data; /* 64-byte aligned */
};

struct agg_group {
	uint64_t token;
	struct agg_job *job;
	uint16_t epoch;
	uint8_t dtype, order;
	int16_t exponent;
	uint64_t bytes;
	bool relay; /* of a model */
	hd_version version; /* of a relayed model; 0: PULL_STATE has not come */
	struct hd_addr source; /* of a relayed model */
	struct hd_reduce *reduce;
	struct agg_buffer *buffer;
	uint64_t charged; /* of the job's memory */
	uint64_t early; /* of that for chunks before their turn */
	bool touched;
	bool doomed; /* an output without which it has no use was lost */
	uint8_t lost_reason; /* of the last output that was lost */
	hd_ns active; /* a chunk came, or an output moved on */
	hd_ns final_at; /* the last chunk came */
	uint32_t input_count, complete, output_count, delivered, lost;
	struct agg_input *inputs;
	struct agg_output *outputs;
	struct hd_timer watch;
	UT_hash_handle hh;
	TAILQ_ENTRY(agg_group) link, touched_link;
};

/* An input that ended: chunks that still come are answered with `done` when it was held whole. */
struct agg_tombstone {
	struct agg_handle handle; /* first */
	bool used, done;
	uint32_t job, chunks;
	uint64_t addr; /* of its sender; 0: not known */
	hd_ns answered; /* one answer a call is enough */
};

struct hd_aggregator {
	struct hd_aggregator_config config;
	char host[HD_NAME_BYTES_MAX + 1];
	struct hd_entropy entropy;
	struct hd_endpoint *endpoint;
	struct hd_session *controller; /* NULL: not connected yet, or refused for good */
	bool registered, refused, draining;
	bool breaking; /* some peer is broken */
	uint16_t epoch;
	struct agg_peers peers;
	struct agg_peer *peers_by_addr, *peers_by_who;
	struct agg_job *jobs;
	struct agg_handle *handles;
	struct agg_group *groups;
	struct agg_group_list group_list; /* oldest first */
	uint32_t transfer_count; /* inputs and outputs */
	struct agg_tombstone *tombstones;
	uint32_t tombstone_next;
	struct agg_input_list touched;
	struct agg_group_list touched_groups;
	struct agg_output_list homeless, ended;
	struct hd_timers timers, sends;
	struct agg_buffer *pool;
	uint64_t summed,
		early; /* memory of groups: what they must have, and room for early chunks */
	uint64_t pooled; /* bytes in the pool: not in use, but allocated */
	struct hd_probes probes;
	struct hd_aggregator_stats stats;
};

/* What a handler is called with, in one piece. */
struct agg_turn {
	struct hd_aggregator *aggregator;
	hd_ns now;
	struct hd_sink *sink;
};

static inline uint64_t agg_addr_key(struct hd_addr addr) {
	return (uint64_t)addr.ipv4 << 16 | addr.port;
}

static inline uint64_t agg_who_key(uint32_t job, uint16_t worker) {
	return (uint64_t)job << 16 | worker;
}

/* --- agg_node.c ------------------------------------------------------------------------------- */
struct agg_handle *agg_handle_find(const struct hd_aggregator *aggregator, uint64_t token);
/* 0, -EEXIST, -ENOMEM. */
int agg_handle_add(struct hd_aggregator *aggregator, struct agg_handle *handle);
void agg_handle_remove(struct hd_aggregator *aggregator, struct agg_handle *handle);
/* Sends reliably; a session whose queue is full is given up. peer may be NULL. */
void agg_peer_send(struct agg_turn *turn, struct agg_peer *peer, const struct hd_message *message);
void agg_controller_send(struct agg_turn *turn, const struct hd_message *message);
void agg_event(struct agg_turn *turn, struct hd_event *event);

/* --- agg_session.c ---------------------------------------------------------------------------- */
extern const struct hd_endpoint_ops agg_endpoint_ops;
struct agg_peer *agg_peer_at(const struct hd_aggregator *aggregator, uint64_t addr);
struct agg_peer *agg_peer_of(const struct hd_aggregator *aggregator, uint32_t job, uint16_t worker);
/* The session with this address, opened if there is none. NULL: no room. */
struct agg_peer *agg_peer_connect(struct agg_turn *turn, struct hd_addr addr);
/* Its session has ended, or ends: what needs it fails; then it is freed. */
void agg_peer_end(struct agg_turn *turn, struct agg_peer *peer, enum hd_reason reason);
void agg_peer_destroy(struct hd_aggregator *aggregator, struct agg_peer *peer);
/* The same, and its session is closed. */
void agg_peer_close(
	struct agg_turn *turn,
	struct agg_peer *peer,
	enum hd_reason reason,
	const char *why
);
/* One of ours has not opened in time. */
void agg_peer_unreached(struct agg_turn *turn, struct agg_peer *peer);

/* --- agg_group.c ------------------------------------------------------------------------------ */
void agg_group_make(struct agg_turn *turn, const struct hd_msg_group *message);
/* The whole group fails. culprit: the input that is the reason, NULL: none is. */
void agg_group_fail(
	struct agg_turn *turn,
	struct agg_group *group,
	enum hd_reason reason,
	struct agg_input *culprit
);
/* Ends it when everything was delivered, or when nothing can be any more. True: it is gone. */
bool agg_group_consider(struct agg_turn *turn, struct agg_group *group);
void agg_group_void(struct agg_turn *turn, const struct hd_msg_void_ *void_);
/* Its watch: who is silent while others wait, and groups in which nothing happens. */
void agg_group_watch(struct agg_turn *turn, struct agg_group *group);
void agg_group_touch(struct hd_aggregator *aggregator, struct agg_group *group);
void agg_group_destroy(struct hd_aggregator *aggregator, struct agg_group *group);

/* Ends the oldest group that only its replica still waits for, which gets a state; false: there is none. */
bool agg_outputs_yield(struct agg_turn *turn);

/* --- agg_input.c ------------------------------------------------------------------------------ */
void agg_chunk(struct agg_turn *turn, const struct hd_packet *packet);
/* Acknowledges, completes and sends go, for everything that the call touched. */
void agg_inputs_settle(struct agg_turn *turn);
void agg_input_touch(struct hd_aggregator *aggregator, struct agg_input *in);
/* Its predecessor is the input with this token, if that is under way; else it may go. */
void agg_input_follow(struct agg_turn *turn, struct agg_input *in, uint64_t after);
void agg_input_go(struct agg_turn *turn, struct agg_input *in);
void agg_input_bind(struct agg_turn *turn, struct agg_input *in, struct agg_peer *peer);
/* Out of every table and list; its successors may go; late chunks are answered by a tombstone. */
void agg_input_end(struct agg_turn *turn, struct agg_input *in, bool done);
/* The same without a word to anybody: at the end of the aggregator. */
void agg_input_drop(struct hd_aggregator *aggregator, struct agg_input *in);
void agg_input_cancel(
	struct agg_turn *turn,
	struct agg_peer *peer,
	const struct hd_msg_cancel *cancel
);
void agg_report_input(
	struct agg_turn *turn,
	const struct agg_input *in,
	enum hd_outcome outcome,
	enum hd_reason reason
);

/* --- agg_output.c ----------------------------------------------------------------------------- */
/* Finds or opens the session that it needs. 0 or -errno. */
int agg_output_bind(struct agg_turn *turn, struct agg_output *out);
/* A session opened: outputs to this address that waited for one. */
void agg_outputs_opened(struct agg_turn *turn, struct agg_peer *peer);
/* Nobody answers at this address: outputs that waited for a session with it. */
void agg_outputs_unreached(struct agg_turn *turn, uint64_t addr);
/* Tells the output how far the sum is final. */
void agg_output_feed(struct agg_turn *turn, struct agg_output *out);
/* It can not be delivered. */
void agg_output_lose(struct agg_turn *turn, struct agg_output *out, enum hd_reason reason);
void agg_output_drop(struct hd_aggregator *aggregator, struct agg_output *out);
struct agg_output *agg_peer_output(const struct agg_peer *peer, uint64_t token);
void agg_output_sack(struct agg_turn *turn, struct agg_peer *peer, const struct hd_msg_sack *sack);
/* Its worker does without it. */
void agg_output_cancel(
	struct agg_turn *turn,
	struct agg_peer *peer,
	const struct hd_msg_cancel *cancel
);
/* Gives up receivers that have not been heard since `before` although all of it is final. */
void agg_outputs_watch(struct agg_turn *turn, struct agg_group *group, hd_ns before);
void agg_output_go(struct agg_turn *turn, struct agg_peer *peer, const struct hd_msg_go *go);
/* What a relayed model is, to whom it is relayed. */
void agg_output_state(struct agg_turn *turn, struct agg_output *out, enum hd_reason reason);
void agg_pull_state(
	struct agg_turn *turn,
	struct agg_peer *peer,
	const struct hd_msg_pull_state *state
);
void agg_outputs_ended(struct agg_turn *turn);
/* Sends what pacing and windows permit, in turns. The last thing of a call. */
void agg_outputs_poll(struct agg_turn *turn);

/* --- agg_memory.c ----------------------------------------------------------------------------- */
/* The job's record, made if there is none. NULL: no memory, or HD_JOBS_MAX. */
struct agg_job *agg_job_get(struct hd_aggregator *aggregator, uint32_t id);
/* Forgets it when nothing of it is left. */
void agg_job_put(struct hd_aggregator *aggregator, struct agg_job *job);
/* What groups may have without room for early chunks, and for that. */
static inline uint64_t agg_memory_early(const struct hd_aggregator *aggregator) {
	return aggregator->config.memory_bytes / AGG_EARLY_PART;
}
static inline uint64_t agg_memory_sums(const struct hd_aggregator *aggregator) {
	return aggregator->config.memory_bytes - agg_memory_early(aggregator);
}
/* Whether a group of this job may take so much now. */
bool agg_memory_admits(
	const struct hd_aggregator *aggregator,
	const struct agg_job *job,
	uint64_t bytes
);
/* Takes what the group is charged with, or gives it back. */
void agg_memory_take(struct hd_aggregator *aggregator, struct agg_group *group);
void agg_memory_give(struct hd_aggregator *aggregator, struct agg_group *group);
/* bytes: hd_reduce_buffer_bytes(). */
struct agg_buffer *agg_buffer_get(struct hd_aggregator *aggregator, uint64_t bytes);
void agg_buffer_put(struct hd_aggregator *aggregator, struct agg_buffer *buffer);
void agg_memory_fini(struct hd_aggregator *aggregator);

/* --- agg_show.c ------------------------------------------------------------------------------- */
void agg_show(struct agg_turn *turn, struct agg_peer *peer, const struct hd_msg_show *show);
void agg_refuse_command(struct agg_turn *turn, struct agg_peer *peer);

#endif
