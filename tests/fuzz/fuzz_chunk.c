/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"
#include "hd_limits.h"
#include "hd_wire.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	uint8_t again[HD_CHUNK_HEADER_BYTES], version = 0;
	struct hd_chunk_header header;
	const uint8_t *payload;
	size_t payload_bytes;
	int type = hd_packet_classify(data, bytes, &version);

	if (hd_result_decode(data, bytes, &header, &payload, &payload_bytes) == 0) {
		CHECK(type == HD_PACKET_RESULT && version == HD_WIRE_VERSION);
		CHECK(payload == data + HD_CHUNK_HEADER_BYTES);
		CHECK(payload + payload_bytes == data + bytes);
		CHECK(payload_bytes == header.count * hd_dtype_bytes(header.dtype));
		return 0;
	}
	if (hd_chunk_decode(data, bytes, &header, &payload, &payload_bytes) < 0)
		return 0;
	CHECK(version == HD_WIRE_VERSION);
	if (hd_token_is_sealed(header.token)) {
		CHECK(type == HD_PACKET_SEALED);
		CHECK(payload == data + HD_CHUNK_HEADER_BYTES + HD_SEAL_BYTES);
	} else {
		CHECK(type == HD_PACKET_CHUNK && payload == data + HD_CHUNK_HEADER_BYTES);
	}
	CHECK(payload + payload_bytes == data + bytes);
	CHECK(payload_bytes == header.count * hd_dtype_bytes(header.dtype));
	hd_chunk_encode(&header, again);
	CHECK(memcmp(again, data, 44) == 0);
	CHECK(memcmp(again + 48, data + 48, 8) == 0); /* between them: reserved, ignored */
	return 0;
}
