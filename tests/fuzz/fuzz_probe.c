/* SPDX-License-Identifier: BSD-3-Clause */
/* Any packet for a node that expects trains: nothing is read past its end, nothing impossible is reported. */
#include "fuzz.h"
#include "hd_probe.h"
#include "hd_wire.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	static uint8_t full[HD_PROBE_PACKET_BYTES];
	const struct hd_msg_probe probe
		= {.token = UINT64_C(0x1122334455667788), .packets = HD_PROBE_PACKETS};
	struct hd_probes trains = {0};
	struct hd_msg_probed probed = {0};
	struct hd_probe_header header;
	struct hd_packet packet = {.peer = {1, 2}, .data = data, .bytes = bytes};
	uint8_t again[HD_PROBE_HEADER_BYTES];

	if (hd_probe_decode(data, bytes, &header) == 0) {
		CHECK(header.index < header.count && header.token != 0);
		hd_probe_encode(&header, again);
		CHECK(memcmp(again + 4, data + 4, 12) == 0);
	}
	hd_probes_probe(&trains, HD_SECOND, &probe, NULL);
	(void)hd_probes_packet(&trains, HD_SECOND, &packet, &probed);
	/* The same as the head of a full one, twice, at two times. */
	memset(full, 0, sizeof(full));
	memcpy(full, data, bytes < sizeof(full) ? bytes : sizeof(full));
	packet = (struct hd_packet){.peer = {1, 2}, .data = full, .bytes = sizeof(full)};
	for (hd_ns at = 1; at < 3; at++)
		if (hd_probes_packet(&trains, at * HD_SECOND, &packet, &probed))
			CHECK(probed.token == probe.token && probed.moments <= probed.packets
			      && probed.packets <= HD_PROBE_PACKETS);
	return 0;
}
