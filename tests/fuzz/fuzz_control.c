/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"
#include "hd_message.h"
#include "hd_wire.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	uint8_t again[HD_CONTROL_HEADER_BYTES];
	struct hd_control_header header;
	const uint8_t *body;
	size_t body_bytes;

	if (hd_control_decode(data, bytes, &header, &body, &body_bytes) < 0)
		return 0;
	CHECK(header.type == HD_PACKET_CONTROL || header.type == HD_PACKET_HELLO);
	CHECK(body == data + HD_CONTROL_HEADER_BYTES);
	CHECK(body + body_bytes + HD_TAG_BYTES == data + bytes);
	CHECK(body_bytes <= HD_FRAGMENT_BYTES_MAX);
	hd_control_encode(&header, again);
	again[2] = data[2]; /* a REFUSE may be of another version */
	CHECK(memcmp(again, data, HD_CONTROL_HEADER_BYTES - 1) == 0);
	return 0;
}
