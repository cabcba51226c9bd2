/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums that come through the slots of a switch on the path (docs/switch.md), to the server and its replica alike.
 *
 *   worker 0 --chunk c--> switch --RESULT(c, sum)--> here: into its place, if all members are in it
 *   worker 1 --chunk c-->   |    <--RESULT(c, no values)-- "held": passed on to all members, which may send on
 *
 * There is no session with the switch and no SACK: each RESULT is answered, repeated ones too. A sum that lacks a
 * member is not taken: MEMBERS named all of them, and they are committed together or not at all.
 */
#include "hd_kernels.h"
#include "hd_switch_numbers.h"
#include "srv_stream.h"

static void stream_answer(
	struct srv_turn *turn,
	struct hd_chunk_header header,
	uint8_t receiver,
	struct hd_addr to
) {
	uint8_t head[HD_CHUNK_HEADER_BYTES];

	header.worker = receiver;
	header.count = 0;
	hd_result_encode(&header, head);
	turn->sink->send(turn->sink, to, head, sizeof head, NULL, 0);
}

/* Presents it as one chunk of the sum, without the padding of the last one. False: it is not of this sum. */
static bool
stream_trim(const struct srv_incoming *in, struct hd_chunk_header *header, size_t *payload_bytes) {
	uint64_t values = in->bytes / sizeof(uint32_t);
	uint64_t first = (uint64_t)header->chunk * in->slot_values;
	uint64_t all = UINT64_MAX >> (64 - in->part_count);

	if (header->dtype != in->dtype || header->count != in->slot_values || header->version != all
	    || first >= values)
		return false;
	if (values - first < header->count)
		header->count = (uint16_t)(values - first);
	*payload_bytes = header->count * sizeof(uint32_t);
	return true;
}

static void stream_take(
	struct srv_turn *turn,
	struct srv_incoming *in,
	const struct hd_chunk_header *header,
	const uint8_t *payload
) {
	struct hd_chunk_header part = *header;
	size_t payload_bytes;

	if (!stream_trim(in, &part, &payload_bytes)) {
		turn->server->stats.drop_mismatch++;
		return;
	}
	if (srv_incoming_chunk(turn, in, &part, payload, payload_bytes))
		stream_answer(turn, *header, in->receiver, in->sender);
}

void srv_stream_result(struct srv_turn *turn, const struct hd_packet *packet) {
	struct hd_server_stats *stats = &turn->server->stats;
	const struct srv_tombstone *tomb;
	struct hd_chunk_header header;
	struct srv_handle *handle;
	const uint8_t *payload;
	size_t payload_bytes;

	if (hd_result_decode(packet->data, packet->bytes, &header, &payload, &payload_bytes) < 0) {
		stats->drop_malformed++;
		return;
	}
	stats->chunks++;
	handle = srv_handle_find(turn->server, header.token);
	if (handle && handle->kind == SRV_HANDLE_INCOMING) {
		struct srv_incoming *in = hd_container_of(handle, struct srv_incoming, handle);

		if (in->slot_values != 0) {
			stream_take(turn, in, &header, payload);
			return;
		}
	}
	tomb = handle && handle->kind == SRV_HANDLE_TOMBSTONE ?
		hd_container_of(handle, const struct srv_tombstone, handle) :
		NULL;
	if (tomb && tomb->done && tomb->slot_values != 0 && tomb->job == header.job) {
		stats->duplicates++;
		stream_answer(turn, header, tomb->receiver, tomb->sender);
		return;
	}
	stats->drop_token++;
}
