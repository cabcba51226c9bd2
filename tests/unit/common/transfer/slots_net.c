/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_bytes.h"
#include "hd_kernels.h"
#include "hd_limits.h"
#include "hd_switch_numbers.h"
#include "slots_net.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PACKET_OVERHEAD 42

uint64_t net_token(uint32_t member) {
	return 1000 + member;
}

uint64_t net_result_token(uint32_t member) {
	return 2000 + member;
}

uint32_t net_chunks(const struct net *net) {
	return (uint32_t)((net->config.values - 1) / net->config.count + 1);
}

/* --- the tiny switch ------------------------------------------------------------------------- */

struct tiny_cell {
	uint64_t key, seen;
	int16_t exponent, next;
	uint8_t flags;
	uint32_t lanes[HD_CHUNK_BYTES_MAX / 4];
};

struct tiny {
	uint64_t waits;
	struct tiny_cell *cells;
};

static void tiny_emit(
	struct net *net,
	const struct tiny_cell *cell,
	struct hd_chunk_header header,
	uint32_t member,
	uint8_t flags
) {
	uint8_t data[HD_PACKET_BYTES_MAX];
	uint64_t all = (UINT64_C(1) << net->config.members) - 1;

	header.flags = cell->flags | flags;
	if (cell->seen != all)
		header.flags |= HD_CHUNK_PARTIAL;
	header.worker = UINT16_MAX;
	header.exponent = cell->exponent;
	header.next = cell->next;
	header.version = cell->seen;
	header.token = net_result_token(member);
	hd_chunk_encode(&header, data);
	data[2] = HD_WIRE_VERSION << 4 | HD_PACKET_RESULT;
	memcpy(data + HD_CHUNK_HEADER_BYTES, cell->lanes, header.count * sizeof(uint32_t));
	net_result(net, member, data, HD_CHUNK_HEADER_BYTES + header.count * 4U);
}

static void tiny_add(const struct net *net, struct tiny_cell *cell, const uint8_t *payload) {
	float sum, x;

	if (net->config.dtype == HD_DTYPE_FIXED32) {
		if (hd_add_fixed(
			    cell->lanes, (const uint32_t *)(const void *)payload, net->config.count
		    ))
			cell->flags |= HD_CHUNK_NOT_FINITE;
		return;
	}
	for (uint32_t i = 0; i < net->config.count; i++) {
		memcpy(&sum, &cell->lanes[i], 4);
		memcpy(&x, payload + (size_t)4 * i, 4);
		sum += x;
		memcpy(&cell->lanes[i], &sum, 4);
	}
}

static void tiny_chunk(void *self, struct net *net, uint8_t *data, uint32_t bytes) {
	struct tiny *tiny = self;
	struct hd_chunk_header header;
	const uint8_t *payload;
	size_t payload_bytes;
	struct tiny_cell *cell;
	uint32_t member;
	uint64_t key, me;

	if (hd_chunk_decode(data, bytes, &header, &payload, &payload_bytes) < 0
	    || header.count != net->config.count || header.token < net_token(0))
		return;
	member = (uint32_t)(header.token - net_token(0));
	me = UINT64_C(1) << member;
	assert(member < net->config.members && header.worker == 100 + member);
	assert((header.slot & ~HD_SWITCH_SLOT_VERSION) < net->config.slots);
	if (!(tiny->waits & me))
		return;
	cell = &tiny->cells[(header.slot & ~HD_SWITCH_SLOT_VERSION) * 2 + (header.slot >> 15)];
	key = (uint64_t)header.round << 32 | header.chunk;
	if (key < cell->key || (key == cell->key && header.exponent != cell->exponent))
		return;
	if (key == cell->key && (cell->seen & me)) {
		if ((cell->seen & tiny->waits) == tiny->waits)
			tiny_emit(net, cell, header, member, HD_CHUNK_RESEND);
		return;
	}
	if (key > cell->key)
		*cell = (struct tiny_cell
		){.key = key, .exponent = header.exponent, .next = INT16_MIN};
	tiny_add(net, cell, payload);
	cell->flags |= header.flags & (HD_CHUNK_NOT_FINITE | HD_CHUNK_ECN | HD_CHUNK_LAST);
	if (header.next > cell->next)
		cell->next = header.next;
	cell->seen |= me;
	if ((cell->seen & tiny->waits) != tiny->waits)
		return;
	for (uint32_t m = 0; m < net->config.members; m++)
		tiny_emit(net, cell, header, m, 0);
}

static void tiny_waits(void *self, uint64_t members) {
	struct tiny *tiny = self;

	tiny->waits = members;
}

static void tiny_destroy(void *self) {
	struct tiny *tiny = self;

	free(tiny->cells);
	free(tiny);
}

static void tiny_make(struct net *net) {
	struct tiny *tiny = calloc(1, sizeof *tiny);

	assert(tiny);
	tiny->cells = calloc((size_t)2 * net->config.slots, sizeof *tiny->cells);
	assert(tiny->cells);
	tiny->waits = (UINT64_C(1) << net->config.members) - 1;
	net->sw = (struct net_switch){tiny_chunk, tiny_waits, tiny_destroy, tiny};
}

/* --- events ---------------------------------------------------------------------------------- */

static bool earlier(const struct net_packet *a, const struct net_packet *b) {
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void push(struct net *net, struct net_packet packet) {
	size_t i = net->heap_count++;

	packet.order = net->order++;
	if (net->heap_count > net->heap_capacity) {
		net->heap_capacity = net->heap_capacity ? 2 * net->heap_capacity : 1024;
		net->heap = realloc(net->heap, net->heap_capacity * sizeof *net->heap);
		assert(net->heap);
	}
	for (; i > 0 && earlier(&packet, &net->heap[(i - 1) / 2]); i = (i - 1) / 2)
		net->heap[i] = net->heap[(i - 1) / 2];
	net->heap[i] = packet;
}

static struct net_packet pop(struct net *net) {
	struct net_packet first = net->heap[0], last = net->heap[--net->heap_count];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < net->heap_count) {
		if (child + 1 < net->heap_count
		    && earlier(&net->heap[child + 1], &net->heap[child]))
			child++;
		if (!earlier(&net->heap[child], &last))
			break;
		net->heap[i] = net->heap[child];
		i = child;
	}
	net->heap[i] = last;
	net->heap[net->heap_count].data = NULL; /* it is `first`'s, or has moved */
	return first;
}

/* One direction of a link: queue, rate, latency, and what happens to the packet. */
static void
carry(struct net *net, enum net_kind kind, uint32_t member, const uint8_t *data, uint32_t bytes) {
	const struct net_config *config = &net->config;
	struct net_member *m = &net->members[member];
	hd_ns *until = kind == NET_UP ? &m->up_until : &m->down_until;
	int copies = hd_random_chance(&net->random, config->duplicate) ? 2 : 1;
	hd_ns at = net->now;

	if (config->link_bps > 0) {
		double ns = (bytes + PACKET_OVERHEAD) * 8e9 / (double)config->link_bps;

		if (config->queue_bytes > 0 && *until > net->now
		    && (double)(*until - net->now) * (double)config->link_bps
			    > 8e9 * config->queue_bytes) {
			net->lost++;
			return;
		}
		*until = hd_ns_max(*until, net->now) + (hd_ns)ns;
		at = *until;
	}
	at += config->latency;
	if (m->cut || hd_random_chance(&net->random, config->loss)) {
		net->lost++;
		return;
	}
	net->doubled += copies == 2;
	while (copies-- > 0) {
		struct net_packet packet
			= {.at = at, .kind = (uint8_t)kind, .member = member, .bytes = bytes};

		if (hd_random_chance(&net->random, config->reorder))
			packet.at += hd_random_below(&net->random, config->reorder_ns + 1);
		packet.data = malloc(bytes);
		assert(packet.data);
		memcpy(packet.data, data, bytes);
		push(net, packet);
	}
}

void net_result(struct net *net, uint32_t member, const uint8_t *data, uint32_t bytes) {
	carry(net, NET_DOWN, member, data, bytes);
}

static void
on_send(struct hd_sink *sink,
	struct hd_addr peer,
	const void *head,
	size_t head_bytes,
	const void *payload,
	size_t payload_bytes) {
	struct net_member *m = (struct net_member *)(void *)sink;
	uint8_t data[HD_PACKET_BYTES_MAX];

	assert(hd_addr_equal(peer, NET_SERVICE));
	assert(head_bytes == HD_CHUNK_HEADER_BYTES
	       && payload_bytes == (size_t)m->net->config.count * 4);
	memcpy(data, head, head_bytes);
	memcpy(data + head_bytes, payload, payload_bytes);
	m->burst++;
	m->sent++;
	carry(m->net, NET_UP, m->index, data, (uint32_t)(head_bytes + payload_bytes));
}

/* --- receivers ------------------------------------------------------------------------------- */

/* Answers whatever it was sent, what came before as well. */
static void at_receiver(struct net *net, const struct net_packet *packet) {
	uint32_t index = packet->member - NET_MEMBERS_MAX;
	struct net_receiver *r = &net->receivers[index];
	struct hd_chunk_header header;
	uint8_t head[HD_CHUNK_HEADER_BYTES];
	const uint8_t *payload;
	size_t bytes;
	uint32_t *lanes;
	int rc = hd_result_decode(packet->data, packet->bytes, &header, &payload, &bytes);

	assert(rc == 0 && header.token == net_result_token(packet->member));
	assert(header.chunk < net_chunks(net) && bytes == net->config.count * sizeof *lanes);
	lanes = r->lanes + (size_t)header.chunk * net->config.count;
	if (r->members[header.chunk] == 0) {
		r->members[header.chunk] = header.version;
		r->spoilt[header.chunk] = (header.flags & HD_CHUNK_NOT_FINITE) != 0;
		memcpy(lanes, payload, bytes);
		r->sums++;
	} else {
		assert(r->members[header.chunk] == header.version);
		assert(memcmp(lanes, payload, bytes) == 0);
		r->again++;
	}
	header.worker = (uint16_t)index;
	header.count = 0;
	hd_result_encode(&header, head);
	carry(net, NET_UP, packet->member, head, sizeof head);
}

static void open_receivers(struct net *net) {
	const size_t chunks = net_chunks(net);

	for (uint32_t i = 0; i < net->config.receivers; i++) {
		struct net_receiver *r = &net->receivers[i];

		r->lanes = calloc(chunks, net->config.count * sizeof *r->lanes);
		r->members = calloc(chunks, sizeof *r->members);
		r->spoilt = calloc(chunks, sizeof *r->spoilt);
		assert(r->lanes && r->members && r->spoilt);
	}
}

static void close_receivers(struct net *net) {
	for (uint32_t i = 0; i < net->config.receivers; i++) {
		free(net->receivers[i].lanes);
		free(net->receivers[i].members);
		free(net->receivers[i].spoilt);
	}
}

/* --- members --------------------------------------------------------------------------------- */

/* What the answers that came say is held, without hd_slots. */
static void
note_answer(const struct net *net, struct net_member *m, const struct hd_chunk_header *header) {
	const uint8_t all = (uint8_t)((1U << net->config.receivers) - 1);
	uint8_t *has = &m->answers[header->chunk];
	bool held = *has == all;

	*has = (uint8_t)(*has | 1U << header->worker);
	m->answered += !held && *has == all;
}

static void poll(struct net *net, struct net_member *m) {
	hd_ns at;

	m->burst = 0;
	(void)hd_slots_poll(m->slots, net->now, 64, &m->sink);
	m->longest_burst = m->burst > m->longest_burst ? m->burst : m->longest_burst;
	at = hd_slots_deadline(m->slots);
	if (at == HD_NEVER)
		return;
	at = hd_ns_max(at, net->now)
		+ (net->config.poll_late ? hd_random_below(&net->random, net->config.poll_late) : 0
		);
	if (m->wake_at > net->now && m->wake_at <= at)
		return;
	m->wake_at = at;
	push(net, (struct net_packet){.at = at, .kind = NET_WAKE, .member = m->index});
}

static void at_member(struct net *net, const struct net_packet *packet) {
	struct net_member *m = &net->members[packet->member];
	struct hd_chunk_header header;
	const uint8_t *payload;
	size_t payload_bytes;
	int rc = hd_result_decode(packet->data, packet->bytes, &header, &payload, &payload_bytes);

	assert(rc == 0);
	if (!m->slots)
		return;
	if (net->mark)
		header.flags |= HD_CHUNK_ECN;
	if (net->config.receivers > 0)
		note_answer(net, m, &header);
	m->results[hd_slots_take(m->slots, net->now, &header, payload, payload_bytes)]++;
	poll(net, m);
}

static void begin(struct net *net, struct net_member *m) {
	struct hd_slots_config config = {
		.peer = NET_SERVICE,
		.job = NET_JOB,
		.round = 1,
		.epoch = NET_EPOCH,
		.shard = NET_SHARD,
		.worker = (uint16_t)(100 + m->index),
		.attempt = NET_ATTEMPT,
		.dtype = net->config.dtype,
		.exponent = net->config.exponent,
		.member = (uint8_t)m->index,
		.members = (uint8_t)net->config.members,
		.slots = net->config.slots,
		.first = net->config.first,
		.count = net->config.count,
		.token = net_token(m->index),
		.result_token = net_result_token(m->index),
		.rate_bps = net->config.rate_bps,
		.in = net->config.receivers ? NULL : m->in,
		.out = net->config.receivers ? NULL : m->out,
		.lanes = net->config.receivers ? m->lanes : NULL,
		.receivers = (uint8_t)net->config.receivers,
		.values = net->config.values,
		.average = net->config.average,
		.path = &m->path,
	};
	int rc = hd_slots_create(&config, net->now, &m->slots);

	assert(rc == 0);
}

static void run_one(struct net *net, const struct net_packet *packet) {
	struct net_member *m = &net->members[packet->member];

	net->now = packet->at;
	if (packet->kind == NET_UP) {
		net->sw.chunk(net->sw.self, net, packet->data, packet->bytes);
	} else if (!m->dead && packet->kind == NET_DOWN && packet->member >= NET_MEMBERS_MAX) {
		at_receiver(net, packet);
	} else if (!m->dead && packet->kind == NET_DOWN) {
		at_member(net, packet);
	} else if (!m->dead) {
		if (!m->slots)
			begin(net, m);
		poll(net, m);
	}
	free(packet->data);
}

bool net_ended(const struct net *net) {
	for (uint32_t m = 0; m < net->config.members; m++) {
		const struct net_member *member = &net->members[m];

		if (!member->dead
		    && (!member->slots || hd_slots_stats(member->slots)->state == HD_SLOTS_ACTIVE))
			return false;
	}
	return true;
}

void net_run(struct net *net, hd_ns until) {
	while (net->heap_count > 0 && net->heap[0].at <= until && !net_ended(net)) {
		struct net_packet packet = pop(net);

		run_one(net, &packet);
	}
	if (!net_ended(net))
		net->now = until;
}

void net_open(struct net *net, const struct net_config *config) {
	memset(net, 0, sizeof *net);
	net->config = *config;
	assert(config->members <= NET_MEMBERS_MAX);
	hd_random_init(&net->random, config->seed);
	if (config->make)
		config->make(net);
	else
		tiny_make(net);
	open_receivers(net);
	for (uint32_t m = 0; m < config->members; m++) {
		struct net_member *member = &net->members[m];

		member->sink.send = on_send;
		member->net = net;
		member->index = m;
		member->in = calloc(config->values, sizeof(float));
		member->out = calloc(config->values, sizeof(float));
		member->lanes = calloc(config->values, sizeof *member->lanes);
		member->answers = calloc(net_chunks(net), 1);
		assert(member->in && member->out && member->lanes && member->answers);
		hd_path_init(&member->path, config->count * 4U + HD_CHUNK_OVERHEAD_BYTES);
	}
}

void net_start(struct net *net) {
	for (uint32_t m = 0; m < net->config.members; m++)
		push(net,
		     (struct net_packet
		     ){.at = net->now
			       + (net->config.start_spread ?
					  hd_random_below(&net->random, net->config.start_spread) :
					  0),
		       .kind = NET_WAKE,
		       .member = m});
}

void net_close(struct net *net) {
	while (net->heap_count > 0)
		free(net->heap[--net->heap_count].data);
	free(net->heap);
	for (uint32_t m = 0; m < net->config.members; m++) {
		hd_slots_destroy(net->members[m].slots);
		free(net->members[m].in);
		free(net->members[m].out);
		free(net->members[m].lanes);
		free(net->members[m].answers);
	}
	close_receivers(net);
	net->sw.destroy(net->sw.self);
}
