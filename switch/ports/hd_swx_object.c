/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text as a shared object (made by p4/native): DPDK's functions for each run of instructions instead of one call
 * for each instruction. DPDK builds such a pipeline only with ports of its own kinds, so packets go in and out by
 * rings, as buffers outside of any pool that point at the frames.
 *
 *   burst -> buffers[] -> ring NAME.in -> pipeline -> ring NAME.out -> verdicts
 *                                                  -> ring NAME.drop
 */
#include "hd_swx_private.h"

#include <rte_mbuf.h>
#include <rte_prefetch.h>
#include <rte_ring.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANY_NODE (-1) /* of memory */
#define RING_SIZE (2 * SWX_BURST)
/* Runs of instructions, packet by packet in turns. Those after the last packet has left only spin. */
#define RUNS_PER_PACKET 8
/* More than a packet needs in any program that ends. */
#define RUNS_MAX 65536

struct swx_rings {
	struct rte_ring *in, *out, *drop;
	struct rte_mbuf buffers[SWX_BURST];
};

/* --- packets ------------------------------------------------------------------------------- */

/* The pipeline itself fetches the first line of a packet when it takes it. */
static void fetch(const struct hd_switch_packet *packet) {
	for (uint32_t at = 0; at < HD_SWX_ROOM_BYTES; at += RTE_CACHE_LINE_SIZE)
		rte_prefetch0(packet->data + at);
}

static void feed(struct swx *swx, struct hd_switch_packet *packets, size_t count) {
	struct swx_rings *rings = swx->rings;
	void *buffers[SWX_BURST];

	for (size_t i = 0; i < count; i++) {
		struct rte_mbuf *buffer = &rings->buffers[i];
		struct rte_swx_pkt packet;

		fetch(&packets[i]);
		swx_packet_in(&packets[i], &packet);
		buffer->buf_addr = packet.pkt;
		buffer->data_off = (uint16_t)packet.offset;
		buffer->data_len = (uint16_t)packet.length;
		buffer->pkt_len = packet.length;
		buffers[i] = buffer;
	}
	(void)rte_ring_sp_enqueue_bulk(rings->in, buffers, (unsigned)count, NULL);
}

static size_t take(struct swx *swx, struct hd_switch_packet *packets) {
	struct swx_rings *rings = swx->rings;
	void *buffers[SWX_BURST];
	size_t sent = rte_ring_sc_dequeue_burst(rings->out, buffers, SWX_BURST, NULL), dropped;

	for (size_t i = 0; i < sent; i++) {
		const struct rte_mbuf *buffer = buffers[i];
		const struct rte_swx_pkt packet = {
			.pkt = buffer->buf_addr,
			.offset = buffer->data_off,
			.length = buffer->pkt_len,
		};

		swx_packet_out(&packet, &packets[buffer - rings->buffers]);
	}
	/* Their verdict is initially DROP. */
	dropped = rte_ring_sc_dequeue_burst(rings->drop, buffers, SWX_BURST, NULL);
	return sent + dropped;
}

void swx_run_object(struct swx *swx, struct hd_switch_packet *packets, size_t count) {
	uint64_t limit = (uint64_t)count * RUNS_MAX;
	size_t done = 0;

	feed(swx, packets, count);
	while (done < count && limit > 0) {
		uint64_t runs = (count - done) * RUNS_PER_PACKET;

		runs = runs < limit ? runs : limit;
		rte_swx_pipeline_run(swx->pipeline, (uint32_t)runs);
		rte_swx_pipeline_flush(swx->pipeline);
		done += take(swx, packets);
		limit -= runs;
	}
	swx->stuck = done < count;
}

/* --- opening ------------------------------------------------------------------------------- */

static struct rte_ring *make_ring(const char *name, const char *which) {
	char full[RTE_RING_NAMESIZE];

	if (snprintf(full, sizeof full, "%s.%s", name, which) >= (int)sizeof full)
		return NULL;
	return rte_ring_create(full, RING_SIZE, ANY_NODE, RING_F_SP_ENQ | RING_F_SC_DEQ);
}

static FILE *describe_ports(const char *name, char *text, size_t bytes) {
	int written = snprintf(
		text,
		bytes,
		"port in 0 ring %s.in bsz %u\nport out 0 ring %s.out bsz %u\nport out 1 ring %s.drop bsz %u\n",
		name,
		SWX_BURST,
		name,
		SWX_BURST,
		name,
		SWX_BURST
	);

	return written < (int)bytes ? fmemopen(text, (size_t)written, "r") : NULL;
}

int swx_open_object(
	struct swx *swx,
	const char *path,
	const char *name,
	char *error,
	size_t error_bytes
) {
	struct swx_rings *rings
		= aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_CACHE_LINE_ROUNDUP(sizeof *rings));
	char text[512];
	FILE *ports = describe_ports(name, text, sizeof text);
	int code = -ENOMEM;

	swx->rings = rings;
	if (rings) {
		memset(rings, 0, sizeof *rings);
		rings->in = make_ring(name, "in");
		rings->out = make_ring(name, "out");
		rings->drop = make_ring(name, "drop");
	}
	if (ports && rings && rings->in && rings->out && rings->drop)
		code = rte_swx_pipeline_build_from_lib(&swx->pipeline, name, path, ports, ANY_NODE);
	if (ports)
		(void)fclose(ports);
	if (code == 0) {
		swx->ctl = rte_swx_ctl_pipeline_create(swx->pipeline);
		code = swx->ctl ? 0 : -ENOMEM;
	}
	if (code < 0)
		(void)snprintf(error, error_bytes, "spec: %s: DPDK: %s", path, strerror(-code));
	return code;
}

void swx_free_rings(struct swx *swx) {
	struct swx_rings *rings = swx->rings;

	if (!rings)
		return;
	rte_ring_free(rings->in);
	rte_ring_free(rings->out);
	rte_ring_free(rings->drop);
	free(rings);
}

/* The object contains the text that it was made from. */
int swx_read_object(const char *path, struct hd_spec **spec, char *error, size_t error_bytes) {
	void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const char *text = object ? dlsym(object, "heddle_spec_text") : NULL;
	const uint32_t *bytes = object ? dlsym(object, "heddle_spec_bytes") : NULL;
	struct hd_spec_error wrong = {0};
	int code = -EINVAL;

	if (text && bytes)
		code = hd_spec_read(text, *bytes, spec, &wrong);
	else
		wrong.what
			= object ? "not made by p4/native: it lacks heddle_spec_text" : dlerror();
	if (code < 0)
		(void)snprintf(error, error_bytes, "spec: %s:%u: %s", path, wrong.line, wrong.what);
	if (object)
		(void)dlclose(object);
	return code;
}
