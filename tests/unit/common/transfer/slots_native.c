/* SPDX-License-Identifier: BSD-3-Clause */
#include "slots_net.h"
#include "switch_frames.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LEASE 9
#define ERROR_BYTES 128

static const struct hd_switch_self self
	= {.mac = {2, 0, 0, 0, 0, 1}, .ipv4 = 0x0a000001, .udp_port = 4773};

static void native_chunk(void *user, struct net *net, uint8_t *data, uint32_t bytes) {
	static uint8_t frame[FRAME_BYTES_MAX];
	const struct frame_ends ends = {
		.to = {2, 0, 0, 0, 0, 9},
		.from = {2, 0, 0, 0, 0, 8},
		.source = 0x0a000002,
		.destination = self.ipv4,
		.destination_port = 4773,
	};
	struct hd_switch_packet packet = {.data = frame};
	const struct hd_switch_copy *copies;
	size_t count;

	memcpy(frame + FRAME_CHUNK, data, bytes);
	packet.bytes = frame_put_udp(frame, &ends, bytes);
	hd_switch_core_burst(user, &packet, 1);
	assert_true(packet.verdict == HD_SWITCH_DROP || packet.verdict == HD_SWITCH_COPY);
	if (packet.verdict == HD_SWITCH_DROP)
		return;
	count = hd_switch_core_copies(user, &packet, &copies);
	for (size_t i = 0; i < count; i++) {
		hd_switch_address(&self, &copies[i], frame);
		net_result(net, copies[i].port, frame + FRAME_CHUNK, packet.bytes - FRAME_CHUNK);
	}
}

static void native_waits(void *user, uint64_t members) {
	char error[ERROR_BYTES] = "";

	if (hd_switch_core_lease_waits(user, LEASE, members, error, sizeof error) < 0)
		fail_msg("waits: %s", error);
}

static void native_destroy(void *user) {
	hd_switch_core_destroy(user);
}

static struct hd_switch_copy copy_to(uint32_t node) {
	return (struct hd_switch_copy){
		.port = (uint16_t)node,
		.mac = {2, 0, 0, 0, 1, (uint8_t)node},
		.ipv4 = 0x0a000100 + node,
		.udp_port = 4773,
		.token = net_result_token(node),
	};
}

void net_native(struct net *net) {
	struct hd_switch_core_config config = {.self = self, .memory_bytes = 1 << 26};
	struct hd_switch_member members[NET_MEMBERS_MAX];
	struct hd_switch_copy receivers[NET_RECEIVERS_MAX];
	struct hd_switch_lease lease = {
		.id = LEASE,
		.job = NET_JOB,
		.epoch = NET_EPOCH,
		.attempt = NET_ATTEMPT,
		.shard = NET_SHARD,
		.dtype = net->config.dtype,
		.count = net->config.count,
		.slot_count = net->config.slots,
		.waits = (UINT64_C(1) << net->config.members) - 1,
		.member_count = net->config.members,
		.members = members,
		.receiver_count = net->config.receivers,
		.receivers = receivers,
	};
	struct hd_switch_core *core;
	char error[ERROR_BYTES] = "";

	for (uint32_t m = 0; m < net->config.members; m++)
		members[m] = (struct hd_switch_member){
			.token = net_token(m),
			.worker = (uint16_t)(100 + m),
			.copy = copy_to(m),
		};
	for (uint32_t r = 0; r < net->config.receivers; r++)
		receivers[r] = copy_to(NET_MEMBERS_MAX + r);
	if (hd_switch_core_create(&config, &core, error, sizeof error) < 0
	    || hd_switch_core_lease_set(core, &lease, error, sizeof error) < 0)
		fail_msg("switch: %s", error);
	net->sw = (struct net_switch){native_chunk, native_waits, native_destroy, core};
}

void net_native_counters(const struct net *net, uint64_t *values) {
	hd_switch_core_counters(net->sw.self, values);
}
