/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_bytes.h"
#include "switch_frames.h"

uint16_t frame_ip_checksum(const uint8_t *frame) {
	uint32_t sum = 0;

	for (size_t i = 14; i < 14u + (frame[14] & 15u) * 4; i += 2)
		sum += i == 24 ? 0 : hd_get16(frame + i);
	while (sum >> 16 != 0)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

uint32_t frame_put_udp(uint8_t *frame, const struct frame_ends *ends, size_t payload_bytes) {
	memset(frame, 0, FRAME_CHUNK);
	memcpy(frame, ends->to, 6);
	memcpy(frame + 6, ends->from, 6);
	hd_put16(frame + 12, 0x0800);
	frame[14] = 0x45;
	frame[15] = ends->tos;
	hd_put16(frame + 16, (uint16_t)(28 + payload_bytes));
	hd_put16(frame + 18, 0x1234);
	hd_put16(frame + 20, 0x4000);
	frame[22] = 64;
	frame[23] = 17;
	hd_put32(frame + 26, ends->source);
	hd_put32(frame + 30, ends->destination);
	hd_put16(frame + 24, frame_ip_checksum(frame));
	hd_put16(frame + 34, 4773);
	hd_put16(frame + 36, ends->destination_port);
	hd_put16(frame + 38, (uint16_t)(8 + payload_bytes));
	hd_put16(frame + 40, 0xabcd);
	return (uint32_t)(FRAME_CHUNK + payload_bytes);
}

uint32_t frame_put_chunk(
	uint8_t *frame,
	const struct frame_ends *ends,
	const struct hd_chunk_header *header,
	const void *values
) {
	hd_chunk_encode(header, frame + FRAME_CHUNK);
	if (header->count > 0)
		memcpy(frame + FRAME_HEADERS, values, (size_t)header->count * 4);
	return frame_put_udp(frame, ends, HD_CHUNK_HEADER_BYTES + (size_t)header->count * 4);
}
