/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests to the child of a bridge, as JSON. */
#include "hd_switch_bridge_send.h"

#include <arpa/inet.h>
#include <stdio.h>

json_t *bridge_number(uint64_t value) {
	char text[24];

	(void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
	return json_string(text);
}

json_t *bridge_address(uint32_t ipv4) {
	struct in_addr in = {.s_addr = htonl(ipv4)};
	char text[INET_ADDRSTRLEN];

	return json_string(inet_ntop(AF_INET, &in, text, sizeof text));
}

static json_t *copy_object(const struct hd_switch_copy *copy) {
	char mac[18];

	(void)snprintf(
		mac,
		sizeof mac,
		"%02x:%02x:%02x:%02x:%02x:%02x",
		copy->mac[0],
		copy->mac[1],
		copy->mac[2],
		copy->mac[3],
		copy->mac[4],
		copy->mac[5]
	);
	return json_pack(
		"{si ss so si so}",
		"port",
		(int)copy->port,
		"mac",
		mac,
		"ipv4",
		bridge_address(copy->ipv4),
		"udp_port",
		(int)copy->udp_port,
		"token",
		bridge_number(copy->token)
	);
}

json_t *bridge_lease(const struct hd_switch_lease *lease) {
	json_t *members = json_array(), *receivers = json_array();

	for (uint32_t i = 0; i < lease->member_count; i++)
		(void)json_array_append_new(
			members,
			json_pack(
				"{so si so}",
				"token",
				bridge_number(lease->members[i].token),
				"worker",
				(int)lease->members[i].worker,
				"copy",
				copy_object(&lease->members[i].copy)
			)
		);
	for (uint32_t i = 0; i < lease->receiver_count; i++)
		(void)json_array_append_new(receivers, copy_object(&lease->receivers[i]));
	return json_pack(
		"{si so si si si si si so so so}",
		"id",
		(int)lease->id,
		"job",
		bridge_number(lease->job),
		"epoch",
		(int)lease->epoch,
		"attempt",
		(int)lease->attempt,
		"shard",
		(int)lease->shard,
		"first_slot",
		(int)lease->first_slot,
		"slot_count",
		(int)lease->slot_count,
		"waits",
		bridge_number(lease->waits),
		"members",
		members,
		"receivers",
		receivers
	);
}
