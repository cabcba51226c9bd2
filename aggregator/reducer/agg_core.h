/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by all files of the aggregator: its sessions, tokens and memory, and how files send.
 *
 *   bottom   agg_send.c, agg_memory.c, agg_peer.c   tokens, sends, buffers, sessions
 *            agg_input.c, agg_output.c              one member's chunks; the transfer of the sum to one receiver
 *   rooms    agg_group.c                            how a group ends
 *            agg_make.c, agg_chunk.c, agg_receiver.c   GROUP; chunks into the sum; receivers' messages, and sending
 *   top      agg_session.c, agg_show.c, agg_node.c  dispatch and settling; agg_stats.c: the counters
 *
 * During one receive() or tick(), packets and timers first change state; groups may end and free their memory. Only
 * then do sends hand parts of sums to the sink, which may read them until the call returns.
 */
#ifndef AGG_CORE_H
#define AGG_CORE_H

#include "hd_aggregator.h"
#include "hd_container.h"
#include "hd_endpoint.h"
#include "hd_probe.h"
#include "hd_send.h"
#include "hd_timers.h"
#include "hd_upstream.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define uthash_malloc(bytes) malloc(bytes)
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define AGG_POLL_PACKETS 32 /* of one output before the next one's turn */
#define AGG_POLL_BUDGET 512 /* of one receive() or tick() */
#define AGG_GO_SLACK_US 20000 /* after its start time an output no longer waits for go */
#define AGG_PACKET_OVERHEAD 28 /* IPv4 and UDP headers */
#define AGG_PATIENCE_HOLDS                                                                         \
	4 /* after this multiple of hold_us a silent receiver of a final sum is lost */
#define AGG_EARLY_PART 8 /* one part in 8 of the memory is for early chunks */
#define AGG_IDLE_US 120000000 /* a group in which no byte moves for this long fails */

enum agg_timer_kind {
	AGG_TIMER_INPUT, /* a delayed acknowledgement */
	AGG_TIMER_WATCH, /* looks for silent members of a group */
	AGG_TIMER_PEER /* a session that we opened does not open */
};

/* The kinds of things that an incoming chunk's token can name. */
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
	uint64_t used; /* memory of its groups, without early chunks */
	UT_hash_handle hh;
};

/* One session: one that a worker, an aggregator or a shell opened, or one that we opened with a server or
 * aggregator. */
struct agg_peer {
	struct hd_session *session;
	struct agg_job *job; /* of a worker that sent JOIN */
	uint16_t worker;
	bool ours, open;
	bool by_addr, by_who; /* it is in that table; false once a newer one replaced it */
	uint64_t addr, who; /* keys */
	struct hd_timer timer; /* of a session that we opened */
	const char *broken; /* why it is closed at the end of the call; NULL: it stays open */
	struct hd_path path; /* to it */
	struct agg_peer_inputs inputs;
	struct agg_peer_outputs outputs;
	TAILQ_ENTRY(agg_peer) link;
	UT_hash_handle addr_hh, who_hh;
};

struct agg_buffer {
	struct agg_buffer *next; /* in the pool */
	uint64_t bytes;
	void *data; /* 64-byte aligned */
};

/* An input that has ended. Chunks that still arrive are answered with `done` if it was held whole. */
struct agg_tombstone {
	struct agg_handle handle; /* first */
	bool used, done;
	uint32_t job, chunks;
	uint64_t addr; /* of its sender; 0: unknown */
	hd_ns answered; /* when; one answer a call is enough */
};

/* Distributions of its waiting times: of sums, and of relayed models. */
struct agg_histograms {
	struct hd_histogram first_chunk; /* of an input, since GROUP */
	struct hd_histogram collected; /* from GROUP to the last chunk of the last input */
	struct hd_histogram passed_on; /* of an output: from there to its delivery */
};

struct hd_aggregator {
	struct hd_aggregator_config config;
	char host[HD_NAME_BYTES_MAX + 1];
	struct hd_entropy entropy;
	struct hd_endpoint *endpoint;
	struct hd_upstream upstream; /* the controller's session */
	bool retiring; /* it makes no new groups */
	bool breaking; /* some peer's `broken` is set */
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
	struct agg_output_list unplaced, ended;
	struct hd_timers timers, sends;
	struct agg_buffer *pool;
	uint64_t summed, early; /* memory of groups: what they need, and room for early chunks */
	uint64_t pooled; /* bytes in the pool: allocated, not in use */
	struct hd_probes probes;
	struct hd_aggregator_stats stats;
	struct agg_histograms histograms[2]; /* by agg_group.relay */
	struct hd_transfer_stats transfers;
};

/* The arguments that every handler takes. */
struct agg_turn {
	struct hd_aggregator *aggregator;
	hd_ns now;
	struct hd_sink *sink;
	hd_ns call; /* of receive(): its time, where `now` is that of the packet */
};

static inline uint64_t agg_addr_key(struct hd_addr addr) {
	return (uint64_t)addr.ipv4 << 16 | addr.port;
}

static inline uint64_t agg_who_key(uint32_t job, uint16_t worker) {
	return (uint64_t)job << 16 | worker;
}

/* --- agg_send.c ------------------------------------------------------------------------------- */
struct agg_handle *agg_handle_find(const struct hd_aggregator *aggregator, uint64_t token);
/* 0, -EEXIST, -ENOMEM. */
int agg_handle_add(struct hd_aggregator *aggregator, struct agg_handle *handle);
void agg_handle_remove(struct hd_aggregator *aggregator, struct agg_handle *handle);
struct agg_peer *agg_peer_at(const struct hd_aggregator *aggregator, uint64_t addr);
struct agg_peer *agg_peer_of(const struct hd_aggregator *aggregator, uint32_t job, uint16_t worker);
/* Sends reliably; closes a session whose queue is full. peer may be NULL. */
void agg_peer_send(struct agg_turn *turn, struct agg_peer *peer, const struct hd_message *message);
void agg_controller_send(struct agg_turn *turn, const struct hd_message *message);
void agg_event(struct agg_turn *turn, struct hd_event *event);
void agg_group_touch(struct hd_aggregator *aggregator, struct agg_group *group);
void agg_input_touch(struct hd_aggregator *aggregator, struct agg_input *in);

/* --- agg_peer.c ------------------------------------------------------------------------------- */
struct agg_peer *
agg_peer_create(struct hd_aggregator *aggregator, struct hd_session *session, struct hd_addr addr);
/* The session with this address, opened if there is none. NULL: no room. */
struct agg_peer *agg_peer_connect(struct agg_turn *turn, struct hd_addr addr);
/* It is not a worker of a job any more. */
void agg_peer_forget(struct hd_aggregator *aggregator, struct agg_peer *peer);
/* It is forgotten and nothing refers to it. */
void agg_peer_destroy(struct hd_aggregator *aggregator, struct agg_peer *peer);

/* --- agg_memory.c ----------------------------------------------------------------------------- */
/* The job's record, created if there is none. NULL: no memory, or HD_JOBS_MAX. */
struct agg_job *agg_job_get(struct hd_aggregator *aggregator, uint32_t id);
/* Frees the record once no group and no worker uses it. */
void agg_job_put(struct hd_aggregator *aggregator, struct agg_job *job);
/* The shares of the memory: for early chunks, and for everything else of the groups. */
static inline uint64_t agg_memory_early(const struct hd_aggregator *aggregator) {
	return aggregator->config.memory_bytes / AGG_EARLY_PART;
}
static inline uint64_t agg_memory_sums(const struct hd_aggregator *aggregator) {
	return aggregator->config.memory_bytes - agg_memory_early(aggregator);
}
/* Whether a group of this job may take this much now. */
bool agg_memory_admits(
	const struct hd_aggregator *aggregator,
	const struct agg_job *job,
	uint64_t bytes
);
/* Takes the memory that the group is charged with, or gives it back. */
void agg_memory_take(struct hd_aggregator *aggregator, struct agg_group *group);
void agg_memory_give(struct hd_aggregator *aggregator, struct agg_group *group);
/* bytes: hd_reduce_buffer_bytes(). */
struct agg_buffer *agg_buffer_get(struct hd_aggregator *aggregator, uint64_t bytes);
void agg_buffer_put(struct hd_aggregator *aggregator, struct agg_buffer *buffer);
void agg_memory_fini(struct hd_aggregator *aggregator);

#endif
