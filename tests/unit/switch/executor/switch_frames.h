/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames for tests of the switch: chunks in UDP in IPv4 in Ethernet, as a worker's host sends them. */
#ifndef SWITCH_FRAMES_H
#define SWITCH_FRAMES_H

#include "hd_switch_core.h"
#include "hd_wire.h"

#define FRAME_BYTES_MAX 9216
#define FRAME_HEADERS 98 /* before the values */
#define FRAME_CHUNK 42 /* the chunk's header */

struct frame_ends {
	uint8_t to[6], from[6];
	uint32_t source, destination;
	uint16_t destination_port;
	uint8_t tos;
};

/* Writes a frame around a payload that lies at FRAME_CHUNK already; returns its bytes. */
uint32_t frame_put_udp(uint8_t *frame, const struct frame_ends *ends, size_t payload_bytes);
/* Writes a chunk with header->count values of 4 bytes; returns the frame's bytes. */
uint32_t frame_put_chunk(
	uint8_t *frame,
	const struct frame_ends *ends,
	const struct hd_chunk_header *header,
	const void *values
);
/* The right checksum of a frame's IPv4 header. */
uint16_t frame_ip_checksum(const uint8_t *frame);

#endif
