/* SPDX-License-Identifier: BSD-3-Clause */
/* Any packet for a node that expects trains: nothing is read past its end, nothing impossible is reported. */
#include "fuzz.h"
#include "hd_bytes.h"
#include "hd_probe.h"
#include "hd_wire.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	static uint8_t full[HD_PROBE_PACKET_BYTES];
	const struct hd_msg_probe probe
		= {.token = UINT64_C(0x9122334455667788), .packets = HD_PROBE_PACKETS};
	static struct hd_key key = {.id = 7, .secret = {1, 2, 3}};
	const struct hd_keyring ring = {1, &key};
	struct hd_probes trains = {.keys = &ring, .key_id = 7};
	struct hd_seal seal;
	struct hd_msg_probed probed = {0};
	struct hd_probe_header header;
	struct hd_packet packet = {.peer = {1, 2}, .data = data, .bytes = bytes};
	uint8_t again[HD_PROBE_HEADER_BYTES];

	if (hd_probe_decode(data, bytes, &header) == 0) {
		CHECK(header.index < header.count && header.token != 0);
		hd_probe_encode(&header, again);
		CHECK(memcmp(again + 4, data + 4, HD_PROBE_HEADER_BYTES - 4) == 0);
	}
	hd_probes_probe(&trains, HD_SECOND, &probe, NULL);
	(void)hd_probes_packet(&trains, HD_SECOND, &packet, &probed);
	/* The same as the head of a full one with its MAC, twice, at two times. */
	memset(full, 0, sizeof full);
	memcpy(full, data, bytes < sizeof full ? bytes : sizeof full);
	CHECK(hd_seal_derive(&seal, &ring, 7, 0, probe.token) == 0);
	hd_put16(full + 16, 7);
	hd_seal_sign(
		&seal,
		full,
		full + HD_CHUNK_HEADER_BYTES + HD_SEAL_BYTES,
		sizeof full - HD_CHUNK_HEADER_BYTES - HD_SEAL_BYTES,
		full + HD_CHUNK_HEADER_BYTES
	);
	packet = (struct hd_packet){.peer = {1, 2}, .data = full, .bytes = sizeof full};
	for (hd_ns at = 1; at < 3; at++)
		if (hd_probes_packet(&trains, at * HD_SECOND, &packet, &probed))
			CHECK(probed.token == probe.token && probed.moments <= probed.packets
			      && probed.packets <= HD_PROBE_PACKETS);
	return 0;
}
