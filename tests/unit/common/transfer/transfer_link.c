/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_limits.h"
#include "transfer_link.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TCP_RING 65536
#define TCP_PACKET 1514
#define TCP_RTO (200 * HD_MS)

enum {
	FLYING = 1,
	ACKED,
	LOST
};

enum link_event_kind {
	EVENT_DATA,
	EVENT_SACK,
	EVENT_TCP_DATA,
	EVENT_TCP_ACK
};

struct link_event {
	hd_ns at;
	uint64_t order; /* among equal times */
	enum link_event_kind kind;
	size_t flow;
	uint8_t head[HD_CHUNK_HEADER_BYTES];
	const void *payload;
	size_t payload_bytes;
	struct hd_msg_sack *sack;
	uint64_t tcp_packet;
	hd_ns tcp_sent;
};

/* --- allocations -------------------------------------------------------------------------- */
uint64_t link_allocations;
static bool counting;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

void *__wrap_malloc(size_t bytes) {
	link_allocations += counting;
	return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes) {
	link_allocations += counting;
	return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes) {
	link_allocations += counting;
	return __real_realloc(old, bytes);
}

/* --- event queue -------------------------------------------------------------------------- */
static bool earlier(const struct link_event *a, const struct link_event *b) {
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void push(struct link *link, struct link_event event) {
	size_t i = link->heap_count++;

	event.order = link->next_order++;
	if (link->heap_count > link->heap_capacity) {
		link->heap_capacity = link->heap_capacity ? link->heap_capacity * 2 : 1024;
		link->heap = realloc(link->heap, link->heap_capacity * sizeof *link->heap);
		assert(link->heap);
	}
	for (; i > 0 && earlier(&event, &link->heap[(i - 1) / 2]); i = (i - 1) / 2)
		link->heap[i] = link->heap[(i - 1) / 2];
	link->heap[i] = event;
}

static struct link_event pop(struct link *link) {
	struct link_event top = link->heap[0], last = link->heap[--link->heap_count];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < link->heap_count) {
		if (child + 1 < link->heap_count
		    && earlier(&link->heap[child + 1], &link->heap[child]))
			child++;
		if (!earlier(&link->heap[child], &last))
			break;
		link->heap[i] = link->heap[child];
		i = child;
	}
	link->heap[i] = last;
	return top;
}

/* --- the wire ----------------------------------------------------------------------------- */

/* Puts a packet into the queue. Returns its arrival at the far end, or HD_NEVER when dropped. */
static hd_ns enqueue(struct link *link, size_t bytes) {
	const struct link_config *config = &link->config;
	hd_ns start = hd_ns_max(link->busy_until, link->now);
	double queued = (double)(start - link->now) * config->rate_bps / 8e9;
	hd_ns at;

	if (hd_random_chance(&link->random, config->loss)
	    || queued + (double)bytes > (double)config->queue_bytes) {
		link->dropped++;
		return HD_NEVER;
	}
	link->busy_until = start + (hd_ns)((double)bytes * 8e9 / config->rate_bps);
	at = link->busy_until + config->delay;
	if (config->reorder > 0 && hd_random_chance(&link->random, config->reorder))
		at += hd_random_below(&link->random, config->reorder_by + 1);
	return at;
}

struct link_sink {
	struct hd_sink sink;
	struct link *link;
	size_t flow;
};

static void sink_send(
	struct hd_sink *sink,
	struct hd_addr peer,
	const void *head,
	size_t head_bytes,
	const void *payload,
	size_t payload_bytes
) {
	struct link_sink *mine = (struct link_sink *)sink;
	struct link *link = mine->link;
	struct link_flow *flow = &link->flow[mine->flow];
	struct link_event event = {
		.kind = EVENT_DATA,
		.flow = mine->flow,
		.payload = payload,
		.payload_bytes = payload_bytes,
	};

	(void)peer;
	assert(head_bytes == HD_CHUNK_HEADER_BYTES);
	memcpy(event.head, head, head_bytes);
	flow->packets++;
	flow->bytes += payload_bytes;
	event.at = enqueue(link, head_bytes + payload_bytes + 42);
	if (event.at == HD_NEVER
	    || (link->config.loss_behind > 0
		&& hd_random_chance(&link->random, link->config.loss_behind)))
		return;
	counting = false;
	push(link, event);
	if (hd_random_chance(&link->random, link->config.duplicate)) {
		event.at += hd_random_below(&link->random, 100 * HD_US);
		push(link, event);
	}
	counting = true;
}

static void send_sack(struct link *link, size_t index) {
	struct link_flow *flow = &link->flow[index];
	struct link_event event
		= {.kind = EVENT_SACK, .flow = index, .at = link->now + link->config.delay};

	event.sack = malloc(sizeof *event.sack);
	assert(event.sack);
	counting = true;
	hd_recv_sack(flow->recv, link->now, link->config.window_bytes, event.sack);
	counting = false;
	flow->acks++;
	if (hd_random_chance(&link->random, link->config.ack_loss))
		free(event.sack);
	else
		push(link, event);
}

static void on_data(struct link *link, const struct link_event *event) {
	struct link_flow *flow = &link->flow[event->flow];
	uint8_t packet[HD_PACKET_BYTES_MAX];
	struct hd_chunk_header header;
	const uint8_t *payload;
	size_t bytes;
	int rc;

	if (!flow->recv)
		return;
	memcpy(packet, event->head, sizeof event->head);
	memcpy(packet + sizeof event->head, event->payload, event->payload_bytes);
	rc = hd_chunk_decode(
		packet, sizeof event->head + event->payload_bytes, &header, &payload, &bytes
	);
	assert(rc == 0);
	(void)rc;
	counting = true;
	if (hd_recv_chunk(flow->recv, link->now, &header, payload, bytes) == HD_RECV_DONE)
		flow->done_at = link->now;
	counting = false;
	if (hd_recv_sack_due(flow->recv, link->now))
		send_sack(link, event->flow);
}

/* --- model TCP ---------------------------------------------------------------------------- */
static void tcp_transmit(struct link *link, size_t index) {
	struct link_tcp *tcp = &link->tcp[index];

	while ((double)tcp->inflight + 1 <= tcp->window && tcp->inflight < TCP_RING - 1) {
		struct link_event event = {
			.kind = EVENT_TCP_DATA,
			.flow = index,
			.tcp_packet = tcp->next,
			.tcp_sent = link->now,
		};

		tcp->state[tcp->next++ % TCP_RING] = FLYING;
		tcp->inflight++;
		event.at = enqueue(link, TCP_PACKET);
		if (event.at != HD_NEVER)
			push(link, event);
	}
}

static void on_tcp_ack(struct link *link, const struct link_event *event) {
	struct link_tcp *tcp = &link->tcp[event->flow];
	uint64_t packet = event->tcp_packet;
	hd_ns rtt = link->now - event->tcp_sent;

	tcp->heard = link->now;
	tcp->srtt = tcp->srtt ? tcp->srtt - tcp->srtt / 8 + rtt / 8 : rtt;
	if (tcp->state[packet % TCP_RING] != FLYING)
		return;
	tcp->state[packet % TCP_RING] = ACKED;
	tcp->inflight--;
	tcp->delivered++;
	for (; tcp->acked_top + 3 <= packet; tcp->acked_top++) {
		if (tcp->state[tcp->acked_top % TCP_RING] != FLYING)
			continue;
		tcp->state[tcp->acked_top % TCP_RING] = LOST;
		tcp->inflight--;
		if (tcp->acked_top < tcp->recovery)
			continue;
		tcp->recovery = tcp->next;
		tcp->window = tcp->window * 0.7 < 2 ? 2 : tcp->window * 0.7;
		tcp->slow_start = tcp->window;
	}
	if (tcp->window < tcp->slow_start)
		tcp->window += 1;
	else if (packet >= tcp->recovery)
		tcp->window += 0.9 / 1.7 / tcp->window;
	tcp_transmit(link, event->flow);
}

static hd_ns tcp_deadline(const struct link_tcp *tcp) {
	return tcp->heard + TCP_RTO;
}

static void tcp_timeout(struct link *link, size_t index) {
	struct link_tcp *tcp = &link->tcp[index];

	for (; tcp->acked_top < tcp->next; tcp->acked_top++)
		if (tcp->state[tcp->acked_top % TCP_RING] == FLYING)
			tcp->state[tcp->acked_top % TCP_RING] = LOST;
	tcp->inflight = 0;
	tcp->slow_start = tcp->window / 2;
	tcp->window = 2;
	tcp->heard = link->now;
	tcp_transmit(link, index);
}

/* --- life --------------------------------------------------------------------------------- */
void link_init(struct link *link, const struct link_config *config) {
	memset(link, 0, sizeof *link);
	link->config = *config;
	link->now = HD_SECOND;
	hd_random_init(&link->random, config->seed);
}

void link_fini(struct link *link) {
	for (size_t i = 0; i < link->heap_count; i++)
		free(link->heap[i].sack);
	free(link->heap);
	for (size_t i = 0; i < link->flow_count; i++) {
		hd_send_destroy(link->flow[i].send);
		hd_recv_destroy(link->flow[i].recv);
	}
	for (size_t i = 0; i < link->tcp_count; i++)
		free(link->tcp[i].state);
}

size_t link_add(struct link *link, struct hd_send *send, struct hd_recv *recv) {
	assert(link->flow_count < LINK_FLOWS_MAX);
	link->flow[link->flow_count] = (struct link_flow){.send = send, .recv = recv};
	return link->flow_count++;
}

void link_add_tcp(struct link *link) {
	struct link_tcp *tcp = &link->tcp[link->tcp_count];

	assert(link->tcp_count < LINK_TCP_MAX);
	*tcp = (struct link_tcp){.window = 10, .slow_start = 1e9, .heard = link->now};
	tcp->state = calloc(TCP_RING, 1);
	assert(tcp->state);
	tcp_transmit(link, link->tcp_count++);
}

static bool ended(const struct link_flow *flow) {
	enum hd_send_state state = hd_send_stats(flow->send)->state;

	return state == HD_SEND_DONE || state == HD_SEND_FAILED;
}

bool link_all_ended(const struct link *link) {
	for (size_t i = 0; i < link->flow_count; i++)
		if (!ended(&link->flow[i]))
			return false;
	return link->flow_count > 0;
}

void link_mark(struct link *link) {
	for (size_t i = 0; i < link->flow_count; i++)
		link->flow[i].received_at_mark = hd_recv_stats(link->flow[i].recv)->bytes_held;
	for (size_t i = 0; i < link->tcp_count; i++)
		link->tcp[i].delivered_at_mark = link->tcp[i].delivered;
}

static void run_timers(struct link *link) {
	for (size_t i = 0; i < link->flow_count; i++) {
		struct link_flow *flow = &link->flow[i];
		struct link_sink sink = {{.send = sink_send}, link, i};

		if (hd_send_deadline(flow->send) <= link->now) {
			counting = true;
			hd_send_poll(flow->send, link->now, 64, &sink.sink);
			counting = false;
		}
		if (flow->recv && hd_recv_deadline(flow->recv) <= link->now)
			send_sack(link, i);
	}
	for (size_t i = 0; i < link->tcp_count; i++)
		if (tcp_deadline(&link->tcp[i]) <= link->now)
			tcp_timeout(link, i);
}

static hd_ns next_deadline(struct link *link) {
	hd_ns at = HD_NEVER;

	for (size_t i = 0; i < link->flow_count; i++) {
		at = hd_ns_min(at, hd_send_deadline(link->flow[i].send));
		if (link->flow[i].recv)
			at = hd_ns_min(at, hd_recv_deadline(link->flow[i].recv));
	}
	for (size_t i = 0; i < link->tcp_count; i++)
		at = hd_ns_min(at, tcp_deadline(&link->tcp[i]));
	if (at != HD_NEVER && at > link->now && link->config.wake_late > 0)
		at += hd_random_below(&link->random, link->config.wake_late + 1);
	return at;
}

static void handle(struct link *link, const struct link_event *event) {
	struct link_event ack = *event;

	switch (event->kind) {
	case EVENT_DATA:
		on_data(link, event);
		break;
	case EVENT_SACK:
		counting = true;
		hd_send_sack(link->flow[event->flow].send, link->now, event->sack);
		counting = false;
		free(event->sack);
		break;
	case EVENT_TCP_DATA:
		ack.kind = EVENT_TCP_ACK;
		ack.at = link->now + link->config.delay;
		push(link, ack);
		break;
	case EVENT_TCP_ACK:
		on_tcp_ack(link, event);
		break;
	}
}

void link_run(struct link *link, hd_ns until) {
	while (!link_all_ended(link)) {
		hd_ns timer = next_deadline(link);

		if (link->heap_count > 0 && link->heap[0].at <= timer) {
			struct link_event event;

			if (link->heap[0].at > until)
				break;
			event = pop(link);
			link->now = hd_ns_max(link->now, event.at);
			handle(link, &event);
		} else {
			if (timer > until)
				break;
			link->now = hd_ns_max(link->now, timer);
		}
		run_timers(link);
	}
	if (!link_all_ended(link) && until != HD_NEVER)
		link->now = hd_ns_max(link->now, until);
}

void link_drain(struct link *link, hd_ns until) {
	link->flow_count = 0;
	for (;;) {
		hd_ns timer = next_deadline(link);
		struct link_event event;

		if (link->heap_count == 0 || link->heap[0].at > hd_ns_min(timer, until)) {
			if (timer > until)
				break;
			link->now = hd_ns_max(link->now, timer);
			run_timers(link);
			continue;
		}
		event = pop(link);
		link->now = hd_ns_max(link->now, event.at);
		if (event.kind == EVENT_TCP_DATA || event.kind == EVENT_TCP_ACK)
			handle(link, &event);
		else
			free(event.sack);
	}
	link->now = hd_ns_max(link->now, until);
}
