/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes packets to their receivers. */
#include "worker_pull.h"
#include "worker_push.h"
#include "worker_reduce.h"
#include "worker_session.h"

static void on_chunk(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_packet *packet
) {
	struct hd_chunk_header header;
	const uint8_t *payload;
	size_t payload_bytes;

	if (hd_chunk_decode(packet->data, packet->bytes, &header, &payload, &payload_bytes) < 0) {
		worker->stats.drop_malformed++;
		return;
	}
	if (!worker_pull_chunk(worker, ctx, packet, &header, payload)
	    && !worker_shards_chunk(worker, ctx, packet, &header, payload))
		worker_after_end(worker, &header, packet->peer);
}

/* For an all-reduce, or for a push through slots. */
static void on_result(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_packet *packet
) {
	struct hd_chunk_header header;
	const uint8_t *payload;
	size_t payload_bytes;

	if (hd_result_decode(packet->data, packet->bytes, &header, &payload, &payload_bytes) < 0) {
		worker->stats.drop_malformed++;
		return;
	}
	if (!worker_slots_result(worker, ctx, &header, payload, payload_bytes)
	    && !worker_stream_result(worker, ctx, &header, payload, payload_bytes))
		worker->stats.drop_token++;
}

static void on_probe(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_packet *packet
) {
	struct hd_message message = {.kind = HD_MSG_PROBED};

	/* When the queue is full, the measurement is lost; the controller asks again if it needs it. */
	if (hd_probes_packet(&worker->probes, ctx->now, packet, &message.probed)
	    && worker->controller)
		(void)hd_session_send(worker->controller, &message, ctx->now, ctx->sink);
}

void worker_on_packet(
	struct hd_worker *worker,
	const struct worker_context *ctx,
	const struct hd_packet *packet
) {
	uint8_t version;

	switch (hd_packet_classify(packet->data, packet->bytes, &version)) {
	case HD_PACKET_CHUNK:
	case HD_PACKET_SEALED:
		on_chunk(worker, ctx, packet);
		break;
	case HD_PACKET_RESULT:
		on_result(worker, ctx, packet);
		break;
	case HD_PACKET_PROBE:
		on_probe(worker, ctx, packet);
		break;
	case HD_PACKET_CONTROL:
	case HD_PACKET_HELLO:
		hd_endpoint_receive(worker->endpoint, ctx->now, packet, ctx->sink);
		break;
	default:
		worker->stats.drop_type++;
	}
}
