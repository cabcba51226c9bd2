/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_wire.h"
#include "traffic.h"

#include <string.h>

const struct golden_config traffic_config = {
	.service = TRAFFIC_SERVICE,
	.mac = {2, 0, 0, 0, 0, 0xfe},
	.router_mac = {2, 0, 0, 0, 0, 0xff},
	.ports = TRAFFIC_PORTS,
};

static uint32_t below(struct traffic *traffic, uint32_t bound) {
	return (uint32_t)hd_random_below(&traffic->random, bound);
}

static bool one_in(struct traffic *traffic, uint32_t times) {
	return below(traffic, times) == 0;
}

/* --- frames ------------------------------------------------------------------------------------ */

void traffic_put(uint8_t *at, size_t bytes, uint64_t value) {
	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
}

void traffic_ip_checksum(uint8_t *frame) {
	uint32_t sum = 0;

	traffic_put(frame + 24, 2, 0);
	for (size_t i = 14; i < 14 + (frame[14] & 15u) * 4; i += 2)
		sum += (uint32_t)frame[i] << 8 | frame[i + 1];
	while (sum >> 16 != 0)
		sum = (sum & 0xffff) + (sum >> 16);
	traffic_put(frame + 24, 2, ~sum & 0xffff);
}

uint32_t traffic_udp(uint8_t *frame, uint32_t from, uint32_t to, uint16_t port, uint32_t payload) {
	memset(frame, 0, 42);
	traffic_put(frame, 6, 0x020a00000001); /* the agent's host */
	traffic_put(frame + 6, 6, 0x020a00000000 | (from & 0xffff));
	traffic_put(frame + 12, 2, 0x0800);
	frame[14] = 0x45;
	traffic_put(frame + 16, 2, 28 + payload);
	traffic_put(frame + 18, 4, 0x12344000);
	frame[22] = 64;
	frame[23] = 17;
	traffic_put(frame + 26, 4, from);
	traffic_put(frame + 30, 4, to);
	traffic_ip_checksum(frame);
	traffic_put(frame + 34, 2, 4773);
	traffic_put(frame + 36, 2, port);
	traffic_put(frame + 38, 2, 8 + payload);
	traffic_put(frame + 40, 2, 0xbeef);
	return 42 + payload;
}

uint32_t traffic_chunk(
	const struct traffic_lease *lease,
	uint32_t index,
	uint32_t round,
	uint32_t chunk,
	uint8_t *frame
) {
	const struct hd_switch_lease *is = &lease->is;
	const struct hd_switch_member *member = &lease->members[index];
	uint32_t turn = chunk / is->slot_count % 2;
	uint8_t *at = frame + 42;

	memset(at, 0, 56 + 4u * is->count);
	traffic_put(at, 4, 0x48441100);
	traffic_put(at + 4, 4, is->job);
	traffic_put(at + 8, 2, is->epoch);
	traffic_put(at + 10, 2, member->worker);
	traffic_put(at + 12, 4, round);
	at[16] = is->attempt;
	at[17] = is->dtype;
	traffic_put(at + 18, 2, (uint16_t)(-20 - (int)(chunk % 3)));
	traffic_put(at + 20, 2, is->shard);
	traffic_put(at + 22, 2, chunk % is->slot_count | turn << 15);
	traffic_put(at + 24, 4, chunk);
	traffic_put(at + 40, 2, is->count);
	traffic_put(at + 42, 2, (uint16_t)(-20 - (int)index));
	traffic_put(at + 44, 4, UINT64_C(4) * is->count);
	traffic_put(at + 48, 8, member->token);
	return traffic_udp(
		frame, member->copy.ipv4, TRAFFIC_SERVICE, HD_SWITCH_UDP_PORT, 56 + 4u * is->count
	);
}

/* --- leases ------------------------------------------------------------------------------------ */

/* Chunks for slots have no seal. */
static uint64_t draw_token(struct hd_random *random) {
	return (hd_random_u64(random) & ~HD_TOKEN_SEALED) | 1;
}

static struct hd_switch_copy
copy_of(struct hd_random *random, uint16_t id, uint32_t index, uint64_t token) {
	struct hd_switch_copy copy = {
		.port = (uint16_t)hd_random_below(random, TRAFFIC_PORTS),
		.ipv4 = 0x0a010000 | (uint32_t)id << 8 | index,
		.udp_port = (uint16_t)(4773 + hd_random_below(random, 2) * index),
		.token = token,
	};

	traffic_put(copy.mac, 6, 0x020a00000000 | (uint64_t)id << 8 | index);
	return copy;
}

void traffic_make_lease(
	struct traffic_lease *lease,
	struct hd_random *random,
	uint16_t id,
	uint32_t members,
	uint32_t receivers
) {
	memset(lease, 0, sizeof *lease);
	lease->is = (struct hd_switch_lease){
		.id = id,
		.job = (uint32_t)hd_random_u64(random),
		.epoch = (uint16_t)hd_random_u64(random),
		.attempt = (uint8_t)hd_random_u64(random),
		.shard = (uint16_t)hd_random_u64(random),
		.dtype = HD_DTYPE_FIXED32,
		.count = HD_SWITCH_LANES,
		.first_slot = (uint16_t)(id * 64 % HD_SWITCH_SLOTS),
		.slot_count = (uint16_t)(1 + hd_random_below(random, 8)),
		.waits = members == 64 ? UINT64_MAX : (UINT64_C(1) << members) - 1,
		.member_count = members,
		.members = lease->members,
		.receiver_count = receivers,
		.receivers = lease->receivers,
	};
	for (uint32_t i = 0; i < members; i++) {
		lease->members[i].token = draw_token(random);
		lease->members[i].worker = (uint16_t)hd_random_below(random, 4096);
		lease->members[i].copy = copy_of(random, id, i, draw_token(random));
	}
	for (uint32_t i = 0; i < receivers; i++)
		lease->receivers[i] = copy_of(random, id, 200 + i, draw_token(random));
	lease->round = 1;
	lease->live = true;
}

static void draw_lease(struct traffic *traffic, struct traffic_lease *lease) {
	static const uint16_t counts[] = {1, 7, 31, 32, 33, 64, 350};
	uint16_t id = (uint16_t)((lease - traffic->leases) * 51); /* 0 .. 255 */
	uint32_t members = one_in(traffic, 12) ? 1 + below(traffic, 64) : 1 + below(traffic, 4);

	members = traffic->portable && members > 5 ? 5 : members;
	traffic_make_lease(
		lease,
		&traffic->random,
		id,
		members,
		one_in(traffic, 5) ? 1 + below(traffic, HD_SWITCH_RECEIVERS_MAX) : 0
	);
	if (!traffic->portable) {
		lease->is.count = counts[below(traffic, sizeof counts / sizeof counts[0])];
		lease->is.dtype = one_in(traffic, 3) ? HD_DTYPE_FP32 : HD_DTYPE_FIXED32;
	}
}

/* --- what members send ------------------------------------------------------------------------- */

/* Sums of fp32 are exact in any order of operands here: no two NaN, no Inf of both signs meet. */
static uint32_t draw_float(struct traffic *traffic, bool wild) {
	static const uint32_t odd[] = {0x7f800000, 0x7fc00000, 0x7f7fffff, 0x80000000, 1};
	float value = (float)hd_random_unit(&traffic->random) - 0.5F;
	uint32_t bits;

	memcpy(&bits, &value, sizeof bits);
	bits = wild && one_in(traffic, 40) ? odd[below(traffic, 5)] : bits;
	return __builtin_bswap32(bits);
}

static void
draw_values(struct traffic *traffic, const struct hd_switch_lease *is, uint8_t *values) {
	static const uint32_t odd[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff};
	uint32_t style = below(traffic, 8);

	for (size_t i = 0; i < is->count; i++) {
		uint32_t lane = (uint32_t)hd_random_u64(&traffic->random);

		if (is->dtype == HD_DTYPE_FP32)
			lane = draw_float(traffic, style == 0);
		else if (style == 0)
			lane = odd[lane % 5];
		else if (style != 1)
			lane = (uint32_t)((int32_t)lane >> 8);
		traffic_put(values + 4 * i, 4, lane);
	}
}

static struct traffic_lease *some_lease(struct traffic *traffic) {
	return &traffic->leases[below(traffic, TRAFFIC_LEASES)];
}

static void
draw_chunk(struct traffic *traffic, struct traffic_op *op, struct traffic_lease *lease) {
	uint32_t back = one_in(traffic, 10) ? below(traffic, 3u * lease->is.slot_count) : 0;
	uint32_t chunk = lease->front + below(traffic, 3);
	uint32_t round = lease->round;

	if (one_in(traffic, 2 + 3 * lease->is.member_count))
		lease->front++;
	if (one_in(traffic, 300)) {
		lease->front = 0;
		lease->round++;
	}
	chunk = chunk > back ? chunk - back : chunk;
	if (one_in(traffic, 50))
		round -= round > 1;
	op->honest = chunk >= lease->front && round == lease->round;
	op->bytes = traffic_chunk(
		lease, below(traffic, lease->is.member_count), round, chunk, op->frame
	);
	traffic_put(op->frame + 70, 4, traffic->packet++);
	draw_values(traffic, &lease->is, op->frame + GOLDEN_HEADERS);
	if (one_in(traffic, 8))
		op->frame[45] = (uint8_t)hd_random_u64(&traffic->random);
	if (one_in(traffic, 20))
		traffic_put(op->frame + 60, 2, (uint16_t)below(traffic, 3));
	if (one_in(traffic, 4))
		traffic_put(op->frame + 84, 2, hd_random_u64(&traffic->random));
	op->frame[15] = (uint8_t)(one_in(traffic, 8) ? 3 : below(traffic, 256) & 0xfe);
	traffic_ip_checksum(op->frame);
}

/* A chunk with something wrong, or at least different. */
static void spoil(struct traffic *traffic, struct traffic_op *op) {
	const struct traffic_lease *other = some_lease(traffic);
	uint32_t bit = below(traffic, 98 * 8);

	op->honest = false;
	switch (below(traffic, 8)) {
	case 0:
		traffic_put(op->frame + 90, 8, hd_random_u64(&traffic->random));
		break;
	case 1:
		if (other->live)
			traffic_put(op->frame + 90, 8, other->members[0].token);
		break;
	case 2:
		if (other->live && other->is.receiver_count > 0)
			traffic_put(op->frame + 90, 8, other->receivers[0].token);
		break;
	case 3:
		traffic_put(op->frame + 64, 2, hd_random_u64(&traffic->random));
		break;
	case 4:
		if (!traffic->portable)
			op->bytes = below(traffic, op->bytes);
		break;
	case 5:
		op->frame[44] ^= 1u << below(traffic, 8);
		break;
	default:
		op->frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
		break;
	}
}

static void
draw_answer(struct traffic *traffic, struct traffic_op *op, struct traffic_lease *lease) {
	op->bytes = traffic_chunk(lease, 0, lease->round, lease->front, op->frame);
	op->frame[44] = 0x12;
	traffic_put(op->frame + 82, 2, 0);
	traffic_put(
		op->frame + 90, 8, lease->receivers[below(traffic, lease->is.receiver_count)].token
	);
	op->bytes = traffic_udp(op->frame, lease->receivers[0].ipv4, TRAFFIC_SERVICE, 4773, 56);
}

/* --- ordinary frames --------------------------------------------------------------------------- */

void traffic_tables(const struct golden_executor *executor, void *self) {
	static const struct golden_route routes[] = {
		{0x0b000000, 8, 1, {2, 0x0b, 0, 0, 0, 1}},
		{0x0b010000, 16, 2, {2, 0x0b, 0, 0, 0, 2}},
		{0x0b010203, 32, 3, {2, 0x0b, 0, 0, 0, 3}},
		{0xc0a80000, 17, 4, {2, 0x0b, 0, 0, 0, 4}},
	};
	uint8_t mac[6];

	for (uint16_t i = 1; i <= 5; i++) {
		traffic_put(mac, 6, 0x020a00000000 | i);
		(void)executor->mac_set(self, mac, i);
	}
	for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
		(void)executor->route_set(self, &routes[i]);
}

static void draw_ordinary(struct traffic *traffic, struct traffic_op *op) {
	static const uint32_t targets[]
		= {0x0b000007, 0x0b010007, 0x0b010203, 0x0b010202, 0xc0a87fff, 0xc0a88000, 8};
	uint32_t payload = 20 + below(traffic, 60);

	for (uint32_t i = 0; i < payload; i++)
		op->frame[42 + i] = (uint8_t)hd_random_u64(&traffic->random);
	op->bytes = traffic_udp(
		op->frame, 0x0a010000 | below(traffic, 9), targets[below(traffic, 7)], 9, payload
	);
	op->frame[5] = (uint8_t)below(traffic, 8);
	op->frame[22] = (uint8_t)below(traffic, one_in(traffic, 3) ? 3 : 256);
	traffic_ip_checksum(op->frame);
	if (one_in(traffic, 2))
		memcpy(op->frame, traffic_config.router_mac, 6);
	if (one_in(traffic, 10))
		memset(op->frame, 0xff, 6);
	if (one_in(traffic, 10))
		traffic_put(op->frame + 12, 2, 0x86dd);
	if (!traffic->portable && one_in(traffic, 10))
		op->bytes = below(traffic, 60);
}

/* --- operations -------------------------------------------------------------------------------- */

static void draw_frame(struct traffic *traffic, struct traffic_op *op) {
	struct traffic_lease *lease = some_lease(traffic);

	op->kind = TRAFFIC_FRAME;
	op->honest = false;
	op->port = (uint16_t)below(traffic, TRAFFIC_PORTS);
	if (lease->is.slot_count == 0 || one_in(traffic, 12)) {
		draw_ordinary(traffic, op);
		return;
	}
	if (lease->is.receiver_count > 0 && one_in(traffic, 10))
		draw_answer(traffic, op, lease);
	else
		draw_chunk(traffic, op, lease);
	op->honest = op->honest && lease->live;
	if (one_in(traffic, 6))
		spoil(traffic, op);
	if (one_in(traffic, 10)) { /* padding */
		uint32_t more = below(traffic, 20);

		memset(op->frame + op->bytes, 0x99, more);
		op->bytes += more;
	}
}

static void take_out(struct traffic *traffic, struct traffic_op *op, struct traffic_lease *lease) {
	uint64_t waits = lease->is.waits & ~(UINT64_C(1) << below(traffic, lease->is.member_count));

	if (waits == 0) {
		draw_frame(traffic, op);
		return;
	}
	op->kind = TRAFFIC_LEASE_WAITS;
	lease->is.waits = waits;
	op->waits = waits;
}

void traffic_init(struct traffic *traffic, uint64_t seed, bool portable) {
	memset(traffic, 0, sizeof *traffic);
	hd_random_init(&traffic->random, seed);
	traffic->portable = portable;
}

void traffic_next(struct traffic *traffic, struct traffic_op *op) {
	struct traffic_lease *lease = some_lease(traffic);
	uint32_t what = below(traffic, 400);

	op->id = lease->is.id;
	op->lease = &lease->is;
	if (!lease->live && one_in(traffic, 10)) {
		draw_lease(traffic, lease);
		op->kind = TRAFFIC_LEASE_SET;
		op->id = lease->is.id;
	} else if (lease->live && what == 0 && one_in(traffic, 2)) {
		op->kind = TRAFFIC_LEASE_END;
		lease->live = false; /* its members send on */
	} else if (lease->live && what == 1 && one_in(traffic, 2)) {
		take_out(traffic, op, lease);
	} else if (what == 3) {
		op->kind = TRAFFIC_SIMULATE;
		op->seed = 1 + below(traffic, 1 << 30);
		op->threshold = one_in(traffic, 2) ? 0 : below(traffic, 1 << 21);
	} else {
		draw_frame(traffic, op);
	}
}

int traffic_control(
	const struct golden_executor *executor,
	void *self,
	const struct traffic_op *op
) {
	switch (op->kind) {
	case TRAFFIC_LEASE_SET:
		return executor->lease_set(self, op->lease);
	case TRAFFIC_LEASE_WAITS:
		return executor->lease_waits(self, op->id, op->waits);
	case TRAFFIC_LEASE_END:
		return executor->lease_end(self, op->id);
	default:
		return executor->simulate(self, op->seed, op->threshold);
	}
}
