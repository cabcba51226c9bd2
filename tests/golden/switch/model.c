/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A model of the switch, as plain as possible: a frame goes through one control after the other, as in the program in
 * P4. It is slow, and on purpose shares no code with the native executor: the two are compared with each other.
 *
 *   drop simulator -> classify -> membership -> slot: exponent, bitmap, sums, next -> replicate
 *                            \-> forward: route or Ethernet address
 */
#include "model.h"

#include <string.h>

#define COUNT(model, name) ((model)->counters[HD_SWITCH_COUNTER_##name]++)

/* --- the frame's fields, at their places ------------------------------------------------------ */

static uint64_t get(const struct model *model, size_t at, size_t bytes) {
	uint64_t value = 0;

	for (size_t i = 0; i < bytes; i++)
		value = value * 256 + model->frame[at + i];
	return value;
}

static void put(uint8_t *frame, size_t at, size_t bytes, uint64_t value) {
	for (size_t i = bytes; i > 0; i--) {
		frame[at + i - 1] = (uint8_t)(value % 256);
		value /= 256;
	}
}

static int signed16(uint64_t value) {
	return value >= 32768 ? (int)value - 65536 : (int)value;
}

#define ETHER_TYPE get(model, 12, 2)
#define IP_FIRST get(model, 14, 1)
#define IP_TOS get(model, 15, 1)
#define IP_BYTES get(model, 16, 2)
#define IP_FRAGMENT get(model, 20, 2)
#define IP_TTL get(model, 22, 1)
#define IP_PROTOCOL get(model, 23, 1)
#define IP_TO get(model, 30, 4)
#define UDP_TO get(model, 36, 2)
#define UDP_BYTES get(model, 38, 2)
#define HD_MAGIC_IS get(model, 42, 2)
#define HD_VERSION_IS (get(model, 44, 1) / 16)
#define HD_TYPE_IS (get(model, 44, 1) % 16)
#define HD_FLAGS get(model, 45, 1)
#define HD_JOB get(model, 46, 4)
#define HD_EPOCH get(model, 50, 2)
#define HD_WORKER get(model, 52, 2)
#define HD_ROUND get(model, 54, 4)
#define HD_ATTEMPT get(model, 58, 1)
#define HD_DTYPE get(model, 59, 1)
#define HD_EXPONENT signed16(get(model, 60, 2))
#define HD_SHARD get(model, 62, 2)
#define HD_SLOT get(model, 64, 2)
#define HD_CHUNK_IS get(model, 66, 4)
#define HD_COUNT get(model, 82, 2)
#define HD_NEXT signed16(get(model, 84, 2))
#define HD_TOKEN get(model, 90, 8)

/* --- replication ------------------------------------------------------------------------------ */

static void send_to(struct model *model, uint16_t port) {
	struct golden_out *out = &model->outs->out[model->outs->count++];

	out->port = port;
	out->bytes = model->bytes;
	memcpy(out->frame, model->frame, model->bytes);
}

static void send_copy(struct model *model, const struct hd_switch_copy *copy) {
	struct golden_out *out;
	uint64_t sum = 0;

	model->bytes = 14 + (uint32_t)IP_BYTES;
	send_to(model, copy->port);
	out = &model->outs->out[model->outs->count - 1];
	memcpy(out->frame, copy->mac, 6);
	memcpy(out->frame + 6, model->config.mac, 6);
	put(out->frame, 12, 2, 0x0800);
	put(out->frame, 14, 2, 0x4500);
	put(out->frame, 18, 2, 0); /* identification */
	put(out->frame, 20, 2, 0x4000); /* don't fragment */
	put(out->frame, 22, 1, 64);
	put(out->frame, 23, 1, 17);
	put(out->frame, 26, 4, model->config.service);
	put(out->frame, 30, 4, copy->ipv4);
	for (size_t i = 14; i < 34; i += 2)
		if (i != 24)
			sum += out->frame[i] * 256u + out->frame[i + 1];
	put(out->frame, 24, 2, 65535 - (sum % 65535 == 0 ? 65535 : sum % 65535));
	put(out->frame, 34, 2, HD_SWITCH_UDP_PORT);
	put(out->frame, 36, 2, copy->udp_port);
	put(out->frame, 40, 2, 0);
	put(out->frame, 90, 8, copy->token);
	COUNT(model, copies);
}

static void send_to_members(struct model *model, const struct model_lease *lease) {
	for (uint32_t i = 0; i < lease->is.member_count; i++)
		send_copy(model, &lease->members[i].copy);
}

static void send_to_receivers(struct model *model, const struct model_lease *lease) {
	for (uint32_t i = 0; i < lease->is.receiver_count; i++)
		send_copy(model, &lease->receivers[i]);
}

/* --- drop simulator --------------------------------------------------------------------------- */

static bool is_lost(struct model *model) {
	if (model->lose_threshold == 0)
		return false;
	model->lose_state ^= model->lose_state << 13;
	model->lose_state ^= model->lose_state >> 17;
	model->lose_state ^= model->lose_state << 5;
	return model->lose_state / 256 < model->lose_threshold;
}

/* --- forward ---------------------------------------------------------------------------------- */

static const struct golden_route *route_of(const struct model *model, uint32_t address) {
	const struct golden_route *best = NULL;

	for (size_t i = 0; i < model->route_count; i++) {
		const struct golden_route *route = &model->routes[i];
		uint64_t size = UINT64_C(1) << (32 - route->bits);

		if (address / size == route->prefix / size && (!best || route->bits > best->bits))
			best = route;
	}
	return best;
}

static void forward_by_route(struct model *model) {
	const struct golden_route *route = route_of(model, (uint32_t)IP_TO);
	uint64_t sum;

	if (IP_TTL <= 1) {
		COUNT(model, drop_ttl);
		return;
	}
	if (!route) {
		COUNT(model, drop_no_route);
		return;
	}
	memcpy(model->frame, route->mac, 6);
	memcpy(model->frame + 6, model->config.router_mac, 6);
	/* RFC 1624, equation 3: HC' = ~(~HC + ~m + m') */
	sum = (65535 - get(model, 24, 2)) + (65535 - get(model, 22, 2));
	put(model->frame, 22, 1, IP_TTL - 1);
	sum += get(model, 22, 2);
	while (sum > 65535)
		sum = sum % 65536 + sum / 65536;
	put(model->frame, 24, 2, 65535 - sum);
	send_to(model, route->port);
	COUNT(model, routed);
}

static void forward_by_ethernet(struct model *model) {
	const struct model_mac *known = NULL;

	for (size_t i = 0; i < model->mac_count; i++)
		if (memcmp(model->macs[i].mac, model->frame, 6) == 0)
			known = &model->macs[i];
	if (!known || model->frame[0] % 2 == 1) {
		COUNT(model, flooded);
		for (uint16_t port = 0; port < model->config.ports; port++)
			if (port != model->port)
				send_to(model, port);
	} else if (known->port == model->port) {
		COUNT(model, drop_no_route);
	} else {
		COUNT(model, forwarded);
		send_to(model, known->port);
	}
}

static void forward(struct model *model) {
	static const uint8_t none[6];
	bool to_router = model->bytes >= 34
		&& memcmp(model->frame, model->config.router_mac, 6) == 0
		&& memcmp(model->frame, none, 6) != 0;

	if (model->bytes < 14)
		COUNT(model, drop_no_route);
	else if (to_router && ETHER_TYPE == 0x0800 && IP_FIRST / 16 == 4)
		forward_by_route(model);
	else
		forward_by_ethernet(model);
}

/* --- classify --------------------------------------------------------------------------------- */

static bool is_for_us(const struct model *model) {
	return model->bytes >= 46 && ETHER_TYPE == 0x0800 && IP_FIRST == 0x45
		&& IP_FRAGMENT % 0x4000 == 0 && IP_PROTOCOL == 17 && IP_TO == model->config.service
		&& UDP_TO == HD_SWITCH_UDP_PORT && HD_MAGIC_IS == HD_SWITCH_MAGIC
		&& (HD_TYPE_IS == HD_SWITCH_TYPE_CHUNK || HD_TYPE_IS == HD_SWITCH_TYPE_RESULT);
}

static bool is_well_formed(const struct model *model) {
	uint64_t values;

	if (HD_VERSION_IS != HD_SWITCH_WIRE_VERSION)
		return false;
	if (14 + IP_BYTES > model->bytes || IP_BYTES != 20 + UDP_BYTES)
		return false;
	if (UDP_BYTES < 8 + HD_SWITCH_CHUNK_HEADER_BYTES)
		return false;
	values = UDP_BYTES - 8 - HD_SWITCH_CHUNK_HEADER_BYTES;
	if (values != 4 * HD_COUNT)
		return false;
	if (HD_TYPE_IS == HD_SWITCH_TYPE_RESULT)
		return HD_COUNT == 0;
	return HD_COUNT > 0 && HD_ROUND > 0
		&& (HD_DTYPE == HD_DTYPE_FIXED32 || HD_DTYPE == HD_DTYPE_FP32);
}

/* --- membership ------------------------------------------------------------------------------- */

/* The lease of which this is a member's token, or a receiver's. */
static struct model_lease *lease_of_token(struct model *model, bool receivers, uint32_t *index) {
	for (size_t l = 0; l < HD_SWITCH_LEASES_MAX; l++) {
		struct model_lease *lease = &model->leases[l];
		uint32_t count = receivers ? lease->is.receiver_count : lease->is.member_count;

		for (uint32_t i = 0; lease->live && i < count; i++) {
			uint64_t token
				= receivers ? lease->receivers[i].token : lease->members[i].token;

			if (token == HD_TOKEN) {
				*index = i;
				return lease;
			}
		}
	}
	return NULL;
}

static bool is_of_lease(const struct model *model, const struct hd_switch_lease *is) {
	return HD_JOB == is->job && HD_EPOCH == is->epoch && HD_ATTEMPT == is->attempt
		&& HD_SHARD == is->shard && HD_DTYPE == is->dtype;
}

static bool is_waited_for(const struct model_lease *lease, uint32_t index) {
	return (lease->is.waits & UINT64_C(1) << index) != 0;
}

static bool all_are_in(const struct model_lease *lease, uint64_t seen) {
	for (uint32_t i = 0; i < lease->is.member_count; i++)
		if (is_waited_for(lease, i) && (seen & UINT64_C(1) << i) == 0)
			return false;
	return true;
}

/* --- slot sums -------------------------------------------------------------------------------- */

static uint32_t lane_fp32(const uint8_t *bytes) {
	return bytes[0] + 256u * bytes[1] + 65536u * bytes[2] + 16777216u * bytes[3];
}

static void add_fp32(uint8_t *lane, const uint8_t *value) {
	uint32_t bits[2] = {lane_fp32(lane), lane_fp32(value)};
	float sum[2];

	memcpy(sum, bits, sizeof sum);
	sum[0] += sum[1];
	memcpy(bits, sum, sizeof sum);
	for (int i = 0; i < 4; i++)
		lane[i] = (uint8_t)(bits[0] >> 8 * i);
}

static int64_t lane_fixed32(const uint8_t *bytes) {
	int64_t high = bytes[0] >= 128 ? (int64_t)bytes[0] - 256 : bytes[0];

	return high * 16777216 + bytes[1] * INT64_C(65536) + bytes[2] * INT64_C(256) + bytes[3];
}

/* True: it overflowed. */
static bool add_fixed32(uint8_t *lane, const uint8_t *value) {
	int64_t sum = lane_fixed32(lane) + lane_fixed32(value);

	put(lane, 0, 4, (uint64_t)sum & 0xffffffff);
	return sum > INT32_MAX || sum < INT32_MIN;
}

static void
add_values(const struct model *model, const struct hd_switch_lease *is, struct model_cell *cell) {
	for (size_t i = 0; i < (size_t)4 * is->count; i += 4) {
		const uint8_t *value = model->frame + GOLDEN_HEADERS + i;

		if (cell->seen == 0)
			memcpy(cell->lanes + i, value, 4);
		else if (is->dtype == HD_DTYPE_FP32)
			add_fp32(cell->lanes + i, value);
		else if (add_fixed32(cell->lanes + i, value))
			cell->flags |= HD_SWITCH_FLAG_NOT_FINITE;
	}
}

static void look_for_not_finite(const struct hd_switch_lease *is, struct model_cell *cell) {
	for (size_t i = 0; i < (size_t)4 * is->count; i += 4) {
		uint32_t exponent = lane_fp32(cell->lanes + i) / 8388608 % 256;

		if (is->dtype == HD_DTYPE_FP32 && exponent == 255)
			cell->flags |= HD_SWITCH_FLAG_NOT_FINITE;
	}
}

/* The chunk becomes the result of its cell. */
static void make_result(
	struct model *model,
	const struct model_lease *lease,
	const struct model_cell *cell,
	unsigned more
) {
	unsigned flags = cell->flags | more;

	for (uint32_t i = 0; i < lease->is.member_count; i++)
		if ((cell->seen & UINT64_C(1) << i) == 0)
			flags |= HD_SWITCH_FLAG_PARTIAL;
	put(model->frame, 44, 1, HD_SWITCH_WIRE_VERSION * 16 + HD_SWITCH_TYPE_RESULT);
	put(model->frame, 45, 1, flags);
	put(model->frame, 52, 2, 0xffff);
	put(model->frame, 60, 2, (uint64_t)(65536 + cell->exponent) % 65536);
	put(model->frame, 74, 8, cell->seen);
	put(model->frame, 84, 2, (uint64_t)(65536 + cell->next) % 65536);
	memcpy(model->frame + GOLDEN_HEADERS, cell->lanes, (size_t)4 * lease->is.count);
}

static void
repeat(struct model *model, struct model_lease *lease, struct model_cell *cell, uint32_t index) {
	COUNT(model, repeated);
	look_for_not_finite(&lease->is, cell);
	make_result(model, lease, cell, HD_SWITCH_FLAG_RESEND);
	if (lease->is.receiver_count > 0)
		send_to_receivers(model, lease);
	else
		send_copy(model, &lease->members[index].copy);
}

static void
add(struct model *model, struct model_lease *lease, struct model_cell *cell, uint32_t index) {
	add_values(model, &lease->is, cell);
	cell->seen |= UINT64_C(1) << index;
	cell->flags |= (unsigned)HD_FLAGS
		& (HD_SWITCH_FLAG_NOT_FINITE | HD_SWITCH_FLAG_ECN | HD_SWITCH_FLAG_LAST);
	if (IP_TOS % 4 == 3)
		cell->flags |= HD_SWITCH_FLAG_ECN;
	if (HD_NEXT > cell->next)
		cell->next = HD_NEXT;
	if (!all_are_in(lease, cell->seen)) {
		COUNT(model, absorbed);
		return;
	}
	COUNT(model, completed);
	look_for_not_finite(&lease->is, cell);
	if (cell->flags & HD_SWITCH_FLAG_NOT_FINITE)
		COUNT(model, not_finite);
	make_result(model, lease, cell, 0);
	if (lease->is.receiver_count > 0)
		send_to_receivers(model, lease);
	else
		send_to_members(model, lease);
}

static void
slot(struct model *model, struct model_lease *lease, struct model_cell *cell, uint32_t index) {
	uint64_t key = HD_ROUND << 32 | HD_CHUNK_IS;

	if (key < cell->key) {
		COUNT(model, drop_stale);
		return;
	}
	if (key == cell->key && HD_EXPONENT != cell->exponent) {
		COUNT(model, drop_exponent);
		return;
	}
	if (key == cell->key && (cell->seen & UINT64_C(1) << index) != 0) {
		if (all_are_in(lease, cell->seen))
			repeat(model, lease, cell, index);
		else
			COUNT(model, drop_duplicate);
		return;
	}
	if (key > cell->key) {
		if (cell->seen != 0 && !all_are_in(lease, cell->seen))
			COUNT(model, overtaken);
		cell->key = key;
		cell->seen = 0;
		cell->exponent = HD_EXPONENT;
		cell->next = INT16_MIN;
		cell->flags = 0;
	}
	add(model, lease, cell, index);
}

/* --- a frame for us --------------------------------------------------------------------------- */

static void chunk(struct model *model) {
	uint32_t index;
	struct model_lease *lease = lease_of_token(model, false, &index);
	uint64_t number = HD_SLOT % HD_SWITCH_SLOT_VERSION;

	if (!lease || HD_TOKEN == 0)
		COUNT(model, drop_token);
	else if (!is_of_lease(model, &lease->is) || HD_COUNT != lease->is.count)
		COUNT(model, drop_lease);
	else if (HD_WORKER != lease->members[index].worker || !is_waited_for(lease, index))
		COUNT(model, drop_member);
	else if (number >= lease->is.slot_count)
		COUNT(model, drop_slot);
	else
		slot(model,
		     lease,
		     &lease->cells[number * 2 + HD_SLOT / HD_SWITCH_SLOT_VERSION],
		     index);
}

static void answer(struct model *model) {
	uint32_t index;
	struct model_lease *lease = lease_of_token(model, true, &index);

	if (!lease || HD_TOKEN == 0) {
		COUNT(model, drop_token);
	} else if (!is_of_lease(model, &lease->is)) {
		COUNT(model, drop_lease);
	} else {
		COUNT(model, answered);
		send_to_members(model, lease);
	}
}

void model_frame(
	void *self,
	uint16_t port,
	const uint8_t *frame,
	uint32_t bytes,
	struct golden_outs *outs
) {
	struct model *model = self;

	outs->count = 0;
	memcpy(model->frame, frame, bytes);
	model->bytes = bytes;
	model->port = port;
	model->outs = outs;
	if (is_lost(model))
		COUNT(model, drop_simulated);
	else if (!is_for_us(model))
		forward(model);
	else if (!is_well_formed(model))
		COUNT(model, drop_malformed);
	else if (HD_TYPE_IS == HD_SWITCH_TYPE_CHUNK)
		chunk(model);
	else
		answer(model);
	golden_sort(outs);
}
