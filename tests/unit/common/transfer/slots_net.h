/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Members of one lease, a switch between them, and links that lose, double and delay packets, in virtual time.
 *
 *      member --- up link (rate, latency) ---\
 *                                             [ switch: tiny, as hd_switch.h says, or another ]
 *      member <-- down link (rate, latency) --/
 *
 * Of pushes the sums go to receivers, over links of the same kind, and come back as their answers.
 */
#ifndef SLOTS_NET_H
#define SLOTS_NET_H

#include "hd_random.h"
#include "hd_slots.h"

#define NET_MEMBERS_MAX 16
#define NET_RECEIVERS_MAX 2
#define NET_JOB 77
#define NET_EPOCH 5
#define NET_ATTEMPT 2
#define NET_SHARD 3
#define NET_SERVICE ((struct hd_addr){0x0a000001, 4773})

struct net;

/* Whatever adds. */
struct net_switch {
	/* The UDP payload of a chunk, or of a receiver's answer, which it may change; tells net_result() what leaves. */
	void (*chunk)(void *self, struct net *net, uint8_t *data, uint32_t bytes);
	void (*waits)(void *self, uint64_t members);
	void (*destroy)(void *self);
	void *self;
};

struct net_config {
	uint64_t seed;
	uint32_t members;
	uint16_t slots, count;
	uint8_t dtype;
	int16_t exponent;
	uint64_t values, first;
	uint32_t receivers; /* of pushes; 0: all-reduce */
	bool average;
	double strange; /* chance of a value that it is NaN or Inf; more in some chunks, none in others */
	uint64_t rate_bps; /* granted */
	uint64_t link_bps; /* 0: no queue */
	uint32_t queue_bytes; /* of a link; 0: endless */
	hd_ns latency; /* of a link */
	double loss, duplicate, reorder; /* each way */
	hd_ns reorder_ns;
	hd_ns start_spread; /* members begin so much apart */
	hd_ns poll_late; /* a member wakes up late by up to this */
	void (*make)(struct net *net); /* the switch; NULL: the tiny one */
};

struct net_packet {
	hd_ns at;
	uint64_t order;
	uint8_t kind; /* enum net_kind */
	uint32_t member; /* or NET_MEMBERS_MAX + receiver */
	uint32_t bytes;
	uint8_t *data;
};

enum net_kind {
	NET_UP, /* at the switch */
	NET_DOWN, /* at a member, or a receiver */
	NET_WAKE /* a member's deadline */
};

struct net_member {
	struct hd_sink sink; /* first */
	struct net *net;
	uint32_t index;
	struct hd_slots *slots;
	struct hd_path path;
	float *in, *out;
	uint32_t *lanes; /* of a push */
	uint8_t *answers; /* that came, by chunk: the model of what has to be held */
	uint32_t answered; /* chunks that all receivers hold, by these */
	bool dead, cut;
	hd_ns wake_at;
	hd_ns up_until, down_until; /* links are busy */
	uint64_t burst, longest_burst; /* packets of one poll */
	uint64_t sent;
	uint64_t results[8]; /* by enum hd_slots_result */
};

/* The sums that a receiver was sent: the first of each chunk, which later ones must equal. */
struct net_receiver {
	uint32_t *lanes;
	uint64_t *members; /* of each chunk; 0: it did not come */
	bool *spoilt; /* NOT_FINITE */
	uint64_t sums, again;
};

struct net {
	struct net_config config;
	struct hd_random random;
	struct hd_addr service;
	hd_ns now;
	uint64_t order;
	struct net_packet *heap;
	size_t heap_count, heap_capacity;
	struct net_switch sw;
	struct net_member members[NET_MEMBERS_MAX + NET_RECEIVERS_MAX]; /* receivers: their links */
	struct net_receiver receivers[NET_RECEIVERS_MAX];
	uint64_t lost, doubled;
	bool mark; /* results carry a congestion mark */
	hd_ns until; /* what happens after stays queued */
};

void net_open(struct net *net, const struct net_config *config);
void net_close(struct net *net);
/* Random values of very different sizes, or whatever `values` is filled with before net_start(). */
void net_fill(struct net *net, float scale);
void net_start(struct net *net);
/* Until all living ones have ended, or the time. */
void net_run(struct net *net, hd_ns until);
bool net_ended(const struct net *net);
/* For a switch: a result to one member, or receiver. */
void net_result(struct net *net, uint32_t member, const uint8_t *data, uint32_t bytes);
uint64_t net_token(uint32_t member);
uint64_t net_result_token(uint32_t member);
uint32_t net_chunks(const struct net *net);

/* Chunks with a NaN or an Inf of any member; and how many tell where. */
uint32_t net_marked(const struct net *net);
uint32_t net_places(const struct net *net);
/* The expected out, by plain integers: every chunk's exponent, sums in 64 bits; of NaN and Inf by doubles. `members`:
 * who is in it. */
void net_reference(const struct net *net, uint64_t members, float *out, int16_t *exponents);

/* --- slots_native.c: the native executor of the switch -------------------------------------- */

void net_native(struct net *net);
void net_native_counters(const struct net *net, uint64_t *values);

/* --- slots_check.c: for cmocka's tests ------------------------------------------------------ */

/* Four members, 313 chunks, links of about the granted rate, no faults. */
extern const struct net_config net_usual;
const struct hd_slots_stats *net_stats(const struct net *net, uint32_t member);
/* A world from a seed: sizes, links, losses both ways, late starts. */
void net_draw(uint64_t seed, struct net_config *config);
/* Opens, fills, starts. */
void net_begin(struct net *net, const struct net_config *config, float scale);
/* The same, and runs; net_free() after it. */
struct net *net_once(const struct net_config *config, float scale, hd_ns until);
void net_free(struct net *net);
/* All living members have the sum of `members`, bit for bit that of plain integers, and near that of doubles. */
void net_check(const struct net *net, uint64_t members);
/* All that have a sum have the same bits. */
void net_check_same(const struct net *net);
/* Of a world of four that was started: member 1 dies within so long, and is taken out a little later. The others end,
 * all of them alike: true: with the round, false: it is void. */
bool net_dies(struct net *net, hd_ns within);
/* Member 3 is taken out while it lives, and learns it. */
void net_take_out(struct net *net);
/* A true result of a chunk, to be spoilt; and what is not one, to member 0: it is counted, and nothing else changes. */
struct hd_chunk_header net_result_header(const struct net *net, uint32_t chunk);
void net_forge(struct net *net, const struct hd_chunk_header *header, size_t bytes);

#endif
