/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A seeded link in memory for tests of the transfer machinery, in virtual time:
 *
 *   senders --> [ loss ] --> [ queue (limit) | rate ] --> delay, reordering, duplication --> receivers
 *           <-- delay, loss of acknowledgements <-----------------------------------------
 *
 * Beside Heddle's transfers it carries model TCP flows (CUBIC's TCP-friendly region, SACK, one decrease
 * a round trip), for fairness.
 */
#ifndef TRANSFER_LINK_H
#define TRANSFER_LINK_H

#include "hd_random.h"
#include "hd_recv.h"
#include "hd_send.h"

#define LINK_FLOWS_MAX 8
#define LINK_TCP_MAX 8

struct link_config {
	uint64_t seed;
	double rate_bps; /* on the link, headers included */
	hd_ns delay; /* each way */
	uint64_t queue_bytes;
	double loss, ack_loss, reorder, duplicate;
	double loss_behind; /* behind the queue, and none of TCP's */
	hd_ns reorder_by; /* up to this much later */
	hd_ns wake_late; /* timers fire up to this much late */
	uint32_t window_bytes; /* the receivers' */
};

struct link_flow {
	struct hd_send *send;
	struct hd_recv *recv; /* NULL: packets are counted and vanish */
	uint64_t packets, bytes; /* that left */
	uint64_t acks;
	hd_ns done_at; /* the receiver held all */
	uint64_t received_at_mark; /* for shares over an interval */
};

struct link_tcp {
	double window, slow_start;
	uint64_t next, acked_top, recovery, delivered, delivered_at_mark;
	uint64_t inflight;
	hd_ns srtt, heard;
	uint8_t *state; /* of the last LINK_TCP_RING packets */
};

struct link_event;

struct link {
	struct link_config config;
	struct hd_random random;
	hd_ns now;
	hd_ns busy_until;
	struct link_event *heap;
	size_t heap_count, heap_capacity;
	struct link_flow flow[LINK_FLOWS_MAX];
	size_t flow_count;
	struct link_tcp tcp[LINK_TCP_MAX];
	size_t tcp_count;
	uint64_t dropped;
	uint64_t next_order;
};

void link_init(struct link *link, const struct link_config *config);
void link_fini(struct link *link); /* destroys what it was given */
/* Takes ownership of both. Returns the flow's index. */
size_t link_add(struct link *link, struct hd_send *send, struct hd_recv *recv);
void link_add_tcp(struct link *link);
/* Runs until `until` or until every flow has ended. */
void link_run(struct link *link, hd_ns until);
/* All transfers of Heddle have ended: lets TCP go on until then. Their packets that are still in flight are
 * forgotten. */
void link_drain(struct link *link, hd_ns until);
bool link_all_ended(const struct link *link);
/* Remembers what each has got so far, for shares from here on. */
void link_mark(struct link *link);

/* Allocations made inside hd_* calls so far (the executable is linked with --wrap=malloc and so on). */
extern uint64_t link_allocations;

#endif
