/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_memcpy.h"
#include "hd_ranges.h"
#include "hd_recv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_BYTES (2u << 20) /* from this size on: more than a core's own caches hold */
#define BODY_PARTS 16 /* all parts but one are the body: see hd_recv_rate_bps() */

struct hd_recv {
	struct hd_recv_config config;
	struct hd_recv_stats stats;
	uint32_t chunk_bytes; /* 0: unknown yet */
	uint32_t chunk_count;
	uint32_t end; /* chunks from here on were never taken */
	bool closed; /* an open transfer's end is known */
	uint32_t held; /* chunks below this index are all held */
	uint64_t *have; /* one bit a chunk */
	struct hd_ranges packets;
	hd_ns newest_at; /* arrival of the highest packet number */
	hd_ns tail_at; /* when a waiting acknowledgement is due by time */
	uint32_t unacknowledged;
	uint64_t first_bytes; /* of the first chunk: excluded from the goodput's interval */
	uint64_t body_bytes; /* held when the body of the transfer had arrived, */
	hd_ns body_at; /* and when that was */
	bool due;
};

static bool is_done(const struct hd_recv *recv) {
	return recv->stats.bytes_held == recv->config.bytes;
}

/* Fixes the chunk size and creates the bitmap. */
static int set_chunk_bytes(struct hd_recv *recv, uint64_t chunk_bytes) {
	const size_t unit = hd_dtype_bytes(recv->config.dtype);
	uint64_t count;

	if (unit == 0 || chunk_bytes == 0 || chunk_bytes % unit != 0)
		return -EINVAL;
	count = (recv->config.bytes - 1) / chunk_bytes + 1;
	if (count > UINT32_MAX / 2)
		return -EFBIG;
	recv->have = calloc((count + 63) / 64, sizeof *recv->have);
	if (!recv->have)
		return -ENOMEM;
	recv->chunk_bytes = (uint32_t)chunk_bytes;
	recv->chunk_count = (uint32_t)count;
	return 0;
}

int hd_recv_create(const struct hd_recv_config *config, struct hd_recv **out) {
	size_t value = hd_dtype_bytes(config->dtype);
	struct hd_recv *recv;
	int rc;

	if (!config->data != config->consumed || config->bytes == 0 || value == 0)
		return -EINVAL;
	if (config->bytes % value != 0 || config->chunk_bytes % value != 0)
		return -EINVAL;
	recv = calloc(1, sizeof *recv);
	if (!recv)
		return -ENOMEM;
	recv->config = *config;
	recv->stats.bytes_total = config->bytes;
	recv->tail_at = HD_NEVER;
	rc = config->chunk_bytes ? set_chunk_bytes(recv, config->chunk_bytes) : 0;
	if (rc < 0) {
		free(recv);
		return rc;
	}
	*out = recv;
	return 0;
}

void hd_recv_destroy(struct hd_recv *recv) {
	if (!recv)
		return;
	free(recv->have);
	free(recv);
}

/* Every chunk but the last is full; the last one has the rest: either determines the size. */
static int
learn_chunk_bytes(struct hd_recv *recv, const struct hd_chunk_header *header, size_t bytes) {
	uint64_t total = recv->config.bytes;

	if (bytes == 0 || bytes > total)
		return -EBADMSG;
	if (!(header->flags & HD_CHUNK_LAST))
		return (uint64_t)header->chunk + 1 > (total - 1) / bytes ?
			-EBADMSG :
			set_chunk_bytes(recv, bytes);
	if (header->chunk == 0)
		return bytes == total ? set_chunk_bytes(recv, bytes) : -EBADMSG;
	/* total = chunk x size + bytes, bytes <= size */
	if ((total - bytes) % header->chunk != 0 || (total - bytes) / header->chunk < bytes
	    || (total - bytes) / header->chunk > HD_CHUNK_BYTES_MAX)
		return -EBADMSG;
	return set_chunk_bytes(recv, (total - bytes) / header->chunk);
}

/* The last chunk of an open transfer marks its end, which must be behind all chunks taken. */
static bool close_at(struct hd_recv *recv, const struct hd_chunk_header *header, size_t bytes) {
	uint64_t most = recv->config.bytes, total = header->total ? header->total : most;
	const size_t unit = hd_dtype_bytes(recv->config.dtype);

	if (unit == 0 || total > most || total % unit != 0 || bytes == 0 || bytes > total
	    || recv->end > header->chunk)
		return false;
	if (recv->chunk_bytes
	    && ((total - 1) / recv->chunk_bytes != header->chunk
		|| total - (uint64_t)header->chunk * recv->chunk_bytes != bytes))
		return false;
	recv->config.bytes = total;
	if (recv->chunk_bytes == 0 && learn_chunk_bytes(recv, header, bytes) < 0) {
		recv->config.bytes = most;
		return false;
	}
	recv->chunk_count = header->chunk + 1;
	recv->stats.bytes_total = total;
	recv->closed = true;
	return true;
}

/* Whether the size and the flags of a chunk match its index. */
static bool fits(struct hd_recv *recv, const struct hd_chunk_header *header, size_t bytes) {
	uint64_t at = (uint64_t)header->chunk * recv->chunk_bytes;
	bool is_last = (header->flags & HD_CHUNK_LAST) != 0, last;

	if (recv->config.open && !recv->closed)
		return is_last ? close_at(recv, header, bytes) :
				 bytes == recv->chunk_bytes && bytes < recv->config.bytes - at;
	last = header->chunk == recv->chunk_count - 1;
	return last == is_last && bytes == (last ? recv->config.bytes - at : recv->chunk_bytes);
}

static bool matches(struct hd_recv *recv, const struct hd_chunk_header *header, size_t bytes) {
	const struct hd_recv_config *config = &recv->config;
	bool ends = config->open && (header->flags & HD_CHUNK_LAST);

	if (header->job != config->job || header->worker != config->worker
	    || header->round != config->round || header->attempt != config->attempt)
		return false;
	/* Not next to attempt: compilers would join the two bytes into one load, which the processor cannot forward
	 * from the decoder's two stores. It would then wait for the stores of the previous chunk into cold memory: 100
	 * ns. */
	if (header->count * hd_dtype_bytes(header->dtype) != bytes
	    || header->dtype != config->dtype)
		return false;
	if (recv->chunk_bytes == 0 && !ends && learn_chunk_bytes(recv, header, bytes) < 0)
		return false;
	if (recv->chunk_bytes != 0 && header->chunk >= recv->chunk_count)
		return false;
	return fits(recv, header, bytes);
}

/* Every packet that fits needs an acknowledgement, even a duplicate: its sender may have missed ours. */
static void note_packet(struct hd_recv *recv, hd_ns now, const struct hd_chunk_header *header) {
	bool gap = false;

	hd_ranges_add(&recv->packets, header->packet, &gap);
	if (recv->packets.item[0].last == header->packet)
		recv->newest_at = now;
	recv->unacknowledged++;
	if (gap || header->flags & HD_CHUNK_ASK || recv->unacknowledged >= HD_SACK_PACKETS
	    || is_done(recv))
		recv->due = true;
	if (recv->tail_at == HD_NEVER)
		recv->tail_at = hd_ns_add(now, HD_SACK_DELAY_US * HD_US);
}

static void advance_held(struct hd_recv *recv) {
	while (recv->held < recv->chunk_count) {
		uint64_t absent = ~(recv->have[recv->held / 64] >> (recv->held % 64));
		uint32_t run = absent ? (uint32_t)__builtin_ctzll(absent) : 64;

		if (run > 64 - recv->held % 64)
			run = 64 - recv->held % 64;
		if (run == 0)
			return;
		recv->held += run;
	}
}

/* Copies past the caches: a long update would push everything else out of them, and not be in them when used. */
static void
store(struct hd_recv *recv, const struct hd_chunk_header *header, const uint8_t *from, size_t bytes
) {
	uint8_t *to;

	if (recv->config.consumed)
		return;
	to = (uint8_t *)recv->config.data + (uint64_t)header->chunk * recv->chunk_bytes;
	if (recv->config.bytes < STREAM_BYTES) {
		memcpy(to, from, bytes);
		return;
	}
	hd_memcpy_stream(to, from, bytes);
	if (is_done(recv))
		hd_memcpy_stream_end();
}

enum hd_recv_result hd_recv_chunk(
	struct hd_recv *recv,
	hd_ns now,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
) {
	uint64_t *word, bit = UINT64_C(1) << (header->chunk % 64);

	if (!matches(recv, header, payload_bytes)) {
		recv->stats.mismatches++;
		return HD_RECV_MISMATCH;
	}
	recv->stats.packets++;
	word = &recv->have[header->chunk / 64];
	if (*word & bit) {
		recv->stats.duplicates++;
		note_packet(recv, now, header);
		return HD_RECV_DUPLICATE;
	}
	*word |= bit;
	recv->stats.paced += (header->flags & HD_CHUNK_PACED) != 0;
	if (recv->stats.bytes_held == 0) {
		recv->stats.first = now;
		recv->first_bytes = payload_bytes;
	}
	recv->stats.bytes_held += payload_bytes;
	recv->stats.last = now;
	if (header->chunk >= recv->end)
		recv->end = header->chunk + 1;
	store(recv, header, payload, payload_bytes);
	if (recv->stats.bytes_held <= recv->config.bytes / BODY_PARTS * (BODY_PARTS - 1)) {
		recv->body_bytes = recv->stats.bytes_held;
		recv->body_at = now;
	}
	if (header->chunk == recv->held)
		advance_held(recv);
	note_packet(recv, now, header);
	return is_done(recv) ? HD_RECV_DONE : HD_RECV_NEW;
}

uint32_t hd_recv_held(const struct hd_recv *recv) {
	return recv->held < recv->chunk_count ? recv->held : recv->chunk_count;
}

bool hd_recv_has(const struct hd_recv *recv, uint32_t chunk) {
	return chunk < recv->chunk_count && (recv->have[chunk / 64] >> (chunk % 64) & 1) != 0;
}

const void *hd_recv_chunk_data(const struct hd_recv *recv, uint32_t chunk) {
	return (const uint8_t *)recv->config.data + (uint64_t)chunk * recv->chunk_bytes;
}

uint32_t hd_recv_chunk_bytes(const struct hd_recv *recv) {
	return recv->chunk_bytes;
}

bool hd_recv_sack_due(const struct hd_recv *recv, hd_ns now) {
	return recv->due || now >= recv->tail_at;
}

void hd_recv_sack(
	struct hd_recv *recv,
	hd_ns now,
	uint32_t window_bytes,
	struct hd_msg_sack *sack
) {
	hd_ns delay = recv->packets.count > 0 ? (now - recv->newest_at) / HD_US : 0;

	*sack = (struct hd_msg_sack){
		.token = recv->config.token,
		.held = hd_recv_held(recv),
		.done = is_done(recv),
		.delay_us = delay < UINT32_MAX ? (uint32_t)delay : UINT32_MAX,
		.window_bytes = window_bytes,
		.packets = recv->packets,
	};
	recv->due = false;
	recv->unacknowledged = 0;
	recv->tail_at = HD_NEVER;
}

void hd_recv_sack_done(
	uint64_t token,
	const struct hd_chunk_header *header,
	uint32_t window_bytes,
	struct hd_msg_sack *sack
) {
	*sack = (struct hd_msg_sack){
		.token = token,
		.done = 1,
		.window_bytes = window_bytes,
		.packets = {1, {{header->packet, header->packet}}},
	};
}

hd_ns hd_recv_deadline(const struct hd_recv *recv) {
	return recv->due ? 0 : recv->tail_at;
}

uint64_t hd_recv_missing(const struct hd_recv *recv) {
	return recv->config.bytes - recv->stats.bytes_held;
}

hd_ns hd_recv_whole_at(const struct hd_recv *recv) {
	const struct hd_recv_stats *stats = &recv->stats;
	const uint64_t came = stats->bytes_held - recv->first_bytes;
	const double took = (double)(stats->last - stats->first);

	if (is_done(recv) || came == 0)
		return 0;
	return hd_ns_add(stats->last, (hd_ns)(took * (double)hd_recv_missing(recv) / (double)came));
}

const struct hd_recv_stats *hd_recv_stats(const struct hd_recv *recv) {
	return &recv->stats;
}

double hd_recv_rate_bps(const struct hd_recv *recv) {
	const struct hd_recv_stats *stats = &recv->stats;

	if (recv->body_bytes >= stats->bytes_total / 2 && recv->body_at > stats->first)
		return (double)(recv->body_bytes - recv->first_bytes) * 8e9
			/ (double)(recv->body_at - stats->first);
	if (stats->last <= stats->first)
		return 0;
	return (double)(stats->bytes_held - recv->first_bytes) * 8e9
		/ (double)(stats->last - stats->first);
}

uint16_t hd_recv_limited_permille(const struct hd_recv *recv) {
	const struct hd_recv_stats *stats = &recv->stats;
	uint64_t taken = stats->packets - stats->duplicates;

	if (taken == 0)
		return 0;
	return (uint16_t)(stats->paced * 1000 / taken);
}
