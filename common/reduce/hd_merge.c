/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_cc.h"
#include "hd_kernels.h"
#include "hd_limits.h"
#include "hd_merge.h"
#include "hd_runs.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_MIN 2 /* chunks of a member: one being read, one arriving */
#define VALUE_BYTES 4

struct member {
	struct hd_reduce_input is;
	struct hd_recv *recv;
	uint32_t chunk_bytes; /* of its full chunks; 0: unknown yet */
	uint32_t room; /* chunks kept */
	uint8_t *chunks; /* chunk i at i % room */
	uint16_t *bytes; /* of each kept chunk */
	uint32_t next; /* chunks below are merged, or being read */
	bool reading; /* chunk `next` is open in the cursor */
	struct hd_runs_cursor cursor;
	struct hd_run run; /* not merged yet; count 0: none loaded */
	const float *x; /* its values */
	uint64_t passed; /* indices below this are merged */
	bool refused; /* a chunk was dropped as early since the last report of room */
};

struct hd_merge {
	struct hd_reduce_config config;
	uint32_t chunk_bytes; /* of the merged update; 0: unknown yet */
	uint64_t at; /* bytes written */
	uint8_t *header; /* of the run being extended; NULL: none */
	struct hd_run run; /* that run */
	uint32_t ended; /* members that are merged completely */
	bool done, broken, not_finite;
	uint32_t culprit;
	struct member members[];
};

/* --- memory ---------------------------------------------------------------------------------- */

static uint32_t
room_of(const struct hd_reduce_config *config, uint64_t bytes, uint32_t chunk_bytes) {
	uint64_t room = config->early_bytes / config->input_count / chunk_bytes;
	uint64_t chunks = (bytes - 1) / chunk_bytes + 1;

	room = room < chunks ? room : chunks;
	return room > KEPT_MIN ? (uint32_t)room : KEPT_MIN;
}

uint64_t hd_merge_state_bytes(const struct hd_reduce_config *config) {
	uint64_t share = config->early_bytes / config->input_count, all = 0;
	uint64_t least = (uint64_t)KEPT_MIN * HD_CHUNK_BYTES_MAX;

	for (uint32_t i = 0; i < config->input_count; i++) {
		uint64_t bytes = config->inputs ? config->inputs[i].bytes : config->bytes;
		uint64_t kept = bytes < share ? bytes + HD_CHUNK_BYTES_MAX : share;
		uint64_t chunks = bytes / HD_REDUCE_CHUNK_BYTES_MIN + 1;

		kept = kept > least ? kept : least;
		/* Each chunk also needs its size, and a bit in the receiver. */
		all += kept + kept / HD_REDUCE_CHUNK_BYTES_MIN * sizeof(uint16_t) + chunks / 8 + 8;
	}
	return all + config->input_count * sizeof(struct member);
}

static int check(const struct hd_reduce_config *config) {
	if (!config->sum || config->input_count < 2 || config->bytes < HD_RUN_BYTES_MIN
	    || config->bytes > UINT32_MAX || config->bytes % VALUE_BYTES != 0)
		return -EINVAL;
	if (config->input_count > HD_MERGE_MEMBERS_MAX)
		return -E2BIG;
	for (uint32_t i = 0; i < config->input_count; i++) {
		uint64_t bytes = config->inputs[i].bytes;

		if (bytes < HD_RUN_BYTES_MIN || bytes % VALUE_BYTES != 0 || bytes > config->bytes)
			return -EINVAL;
	}
	return 0;
}

int hd_merge_create(const struct hd_reduce_config *config, struct hd_merge **out) {
	struct hd_merge *merge;
	int rc = check(config);

	if (rc < 0)
		return rc;
	merge = calloc(1, sizeof *merge + config->input_count * sizeof merge->members[0]);
	if (!merge)
		return -ENOMEM;
	merge->config = *config;
	merge->config.inputs = NULL;
	merge->culprit = HD_MERGE_NONE;
	for (uint32_t i = 0; i < config->input_count; i++)
		merge->members[i].is = config->inputs[i];
	*out = merge;
	return 0;
}

void hd_merge_destroy(struct hd_merge *merge) {
	if (!merge)
		return;
	for (uint32_t i = 0; i < merge->config.input_count; i++) {
		struct member *member = &merge->members[i];

		hd_recv_destroy(member->recv);
		free(member->chunks);
		free(member->bytes);
	}
	free(merge);
}

static int make_recv(const struct hd_merge *merge, struct member *member, uint32_t chunk_bytes) {
	const struct hd_recv_config config = {
		.token = member->is.token,
		.job = merge->config.job,
		.round = member->is.round,
		.worker = member->is.worker,
		.attempt = member->is.attempt,
		.dtype = HD_DTYPE_SPARSE32,
		.bytes = member->is.bytes,
		.chunk_bytes = chunk_bytes,
		.consumed = true,
	};

	return hd_recv_create(&config, &member->recv);
}

/* All chunks of a member have one size; a member with chunks below the minimum has only one chunk. */
static enum hd_reduce_result
learn(struct hd_merge *merge,
      struct member *member,
      const struct hd_chunk_header *header,
      size_t payload_bytes) {
	uint32_t full
		= hd_reduce_full_chunk(member->is.bytes, HD_DTYPE_SPARSE32, header, payload_bytes);
	uint32_t room = full > 0 ? room_of(&merge->config, member->is.bytes, full) : 0;

	if (full == 0)
		return HD_REDUCE_MISMATCH;
	member->chunks = malloc((size_t)room * full);
	member->bytes = calloc(room, sizeof *member->bytes);
	if (!member->chunks || !member->bytes || make_recv(merge, member, full) < 0) {
		free(member->chunks);
		free(member->bytes);
		member->chunks = NULL;
		member->bytes = NULL;
		return HD_REDUCE_NO_MEMORY;
	}
	member->room = room;
	member->chunk_bytes = full;
	if (merge->chunk_bytes == 0) {
		bool alone = full == member->is.bytes; /* its size says nothing about the path */

		merge->chunk_bytes
			= alone && full < HD_CHUNK_BYTES_DEFAULT ? HD_CHUNK_BYTES_DEFAULT : full;
	}
	return HD_REDUCE_NEW;
}

/* --- writing --------------------------------------------------------------------------------- */

static bool fits(const struct hd_merge *merge, uint64_t bytes) {
	return bytes <= merge->config.bytes - merge->at;
}

static void break_off(struct hd_merge *merge, uint32_t culprit) {
	merge->broken = true;
	merge->culprit = culprit;
}

static void put_header(struct hd_merge *merge) {
	uint64_t word = htole64(merge->run.first | merge->run.count << 40);

	memcpy(merge->header, &word, sizeof word);
}

/* Finds the place for values that begin at this index: behind the previous run if that ends there, else in a new run.
 * Returns how many fit; 0: the sum has no room for them. */
static uint64_t place(struct hd_merge *merge, uint64_t first, uint64_t count) {
	uint8_t *sum = merge->config.sum;
	uint64_t room = merge->chunk_bytes - merge->at % merge->chunk_bytes;
	bool fresh = merge->at % merge->chunk_bytes == 0;

	if (!merge->header || fresh || room < VALUE_BYTES
	    || merge->run.first + merge->run.count != first
	    || merge->run.count == HD_RUN_COUNT_MAX) {
		if (room < HD_RUN_BYTES_MIN) {
			if (!fits(merge, room))
				return 0;
			memset(sum + merge->at, 0, room);
			merge->at += room;
			room = merge->chunk_bytes;
		}
		if (!fits(merge, HD_RUN_BYTES_MIN))
			return 0;
		merge->header = sum + merge->at;
		merge->run = (struct hd_run){first, 0};
		merge->at += HD_RUN_HEADER_BYTES;
		room -= HD_RUN_HEADER_BYTES;
	}
	if (count > room / VALUE_BYTES)
		count = room / VALUE_BYTES;
	if (count > HD_RUN_COUNT_MAX - merge->run.count)
		count = HD_RUN_COUNT_MAX - merge->run.count;
	return fits(merge, count * VALUE_BYTES) ? count : 0;
}

/* Adds indices first .. first + count - 1, each of which a member has completely or not at all. */
static void add(struct hd_merge *merge, uint64_t first, uint64_t count) {
	uint8_t *at = (uint8_t *)merge->config.sum + merge->at;
	float *values = (float *)(void *)at;
	bool any = false;

	for (uint32_t i = 0; i < merge->config.input_count; i++) {
		struct member *member = &merge->members[i];

		if (member->run.count == 0 || member->run.first != first)
			continue;
		if (any)
			hd_add_f32(values, member->x, count);
		else
			memcpy(values, member->x, count * VALUE_BYTES);
		any = true;
		member->run.first += count;
		member->run.count -= count;
		member->x += count;
		member->passed = first + count;
	}
	merge->not_finite |= hd_find_not_finite_f32(values, count) < count;
	merge->at += count * VALUE_BYTES;
	merge->run.count += count;
	put_header(merge);
}

/* --- reading --------------------------------------------------------------------------------- */

/* Opens the next chunk of a member, if it is here. */
static bool open_chunk(struct member *member) {
	uint32_t slot;

	if (!member->recv || !hd_recv_has(member->recv, member->next))
		return false;
	slot = member->next % member->room;
	hd_runs_begin(
		&member->cursor,
		member->chunks + (size_t)slot * member->chunk_bytes,
		member->bytes[slot],
		HD_RUN_FIRST_MAX + 1
	);
	member->reading = true;
	return true;
}

static bool is_merged(const struct member *member) {
	return member->chunk_bytes > 0 && !member->reading && member->run.count == 0
		&& (uint64_t)member->next * member->chunk_bytes >= member->is.bytes;
}

/* Loads the next run of a member, if it is here. False if its chunks are no ascending runs. */
static bool load(struct member *member) {
	while (member->run.count == 0) {
		bool first = !member->reading;
		int rc;

		if (first && (is_merged(member) || !open_chunk(member)))
			return true;
		rc = hd_runs_next(&member->cursor, &member->run, &member->x);
		if (rc < 0 || (rc == 0 && first)
		    || (rc > 0 && member->run.first < member->passed)) {
			member->run.count = 0;
			return false;
		}
		if (rc == 0) {
			member->run.count = 0;
			member->reading = false;
			member->next++;
		}
	}
	return true;
}

/* Loads all. False when merging cannot continue: some member must send more, or all are merged. */
static bool load_all(struct hd_merge *merge) {
	bool all = true;

	merge->ended = 0;
	for (uint32_t i = 0; i < merge->config.input_count; i++) {
		struct member *member = &merge->members[i];

		if (!load(member)) {
			break_off(merge, i);
			return false;
		}
		if (is_merged(member))
			merge->ended++;
		else if (member->run.count == 0)
			all = false;
	}
	return all && merge->ended < merge->config.input_count;
}

static void advance(struct hd_merge *merge) {
	while (!merge->broken && load_all(merge)) {
		uint64_t first = UINT64_MAX, end = UINT64_MAX, count;

		for (uint32_t i = 0; i < merge->config.input_count; i++) {
			const struct hd_run *run = &merge->members[i].run;

			if (run->count > 0 && run->first < first)
				first = run->first;
		}
		for (uint32_t i = 0; i < merge->config.input_count; i++) {
			const struct hd_run *run = &merge->members[i].run;
			uint64_t edge = run->first > first ? run->first : run->first + run->count;

			if (run->count > 0 && edge < end)
				end = edge;
		}
		count = place(merge, first, end - first);
		if (count == 0)
			break_off(merge, HD_MERGE_NONE);
		else
			add(merge, first, count);
	}
	merge->done = !merge->broken && merge->ended == merge->config.input_count;
}

/* --- chunks ---------------------------------------------------------------------------------- */

static bool
belongs(const struct member *member,
	const struct hd_merge *merge,
	const struct hd_chunk_header *header) {
	return header->job == merge->config.job && header->worker == member->is.worker
		&& header->round == member->is.round && header->attempt == member->is.attempt
		&& header->dtype == HD_DTYPE_SPARSE32;
}

static void keep(struct member *member, uint32_t chunk, const uint8_t *payload, size_t bytes) {
	uint32_t slot = chunk % member->room;

	memcpy(member->chunks + (size_t)slot * member->chunk_bytes, payload, bytes);
	member->bytes[slot] = (uint16_t)bytes;
}

enum hd_reduce_result hd_merge_chunk(
	struct hd_merge *merge,
	uint32_t index,
	hd_ns now,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
) {
	struct member *member = &merge->members[index];
	enum hd_recv_result result;

	if (merge->broken)
		return HD_REDUCE_BROKEN;
	if (!belongs(member, merge, header))
		return HD_REDUCE_MISMATCH;
	if (member->chunk_bytes == 0) {
		enum hd_reduce_result learnt = learn(merge, member, header, payload_bytes);

		if (learnt != HD_REDUCE_NEW)
			return learnt;
	}
	if (header->chunk >= member->next && header->chunk - member->next >= member->room
	    && (uint64_t)header->chunk * member->chunk_bytes < member->is.bytes) {
		member->refused = true;
		return HD_REDUCE_EARLY;
	}
	result = hd_recv_chunk(member->recv, now, header, payload, payload_bytes);
	if (result == HD_RECV_MISMATCH)
		return HD_REDUCE_MISMATCH;
	if (result == HD_RECV_DUPLICATE)
		return HD_REDUCE_DUPLICATE;
	keep(member, header->chunk, payload, payload_bytes);
	if (header->chunk == member->next && member->run.count == 0)
		advance(merge);
	if (merge->broken)
		return HD_REDUCE_BROKEN;
	return result == HD_RECV_DONE ? HD_REDUCE_DONE : HD_REDUCE_NEW;
}

uint32_t hd_merge_culprit(const struct hd_merge *merge) {
	return merge->culprit;
}

struct hd_recv *hd_merge_recv(const struct hd_merge *merge, uint32_t index) {
	return merge->members[index].recv;
}

/* Chunks that it may send beyond those that are held without a gap. */
static uint32_t room_left(const struct member *member) {
	uint32_t held = hd_recv_held(member->recv);
	uint32_t ahead = held > member->next ? held - member->next : 0;

	return ahead < member->room ? member->room - ahead : 0;
}

uint32_t hd_merge_window(const struct hd_merge *merge, uint32_t index, uint32_t most) {
	const struct member *member = &merge->members[index];
	uint64_t room;

	if (member->chunk_bytes == 0)
		return most;
	room = room_left(member);
	room = (room > 0 ? room : 1) * (member->chunk_bytes + HD_CHUNK_OVERHEAD_BYTES);
	return room < most ? (uint32_t)room : most;
}

bool hd_merge_is_full(const struct hd_merge *merge, uint32_t index) {
	const struct member *member = &merge->members[index];

	return member->chunk_bytes > 0 && room_left(member) == 0;
}

bool hd_merge_relieved(struct hd_merge *merge, uint32_t index) {
	struct member *member = &merge->members[index];

	if (!member->refused || room_left(member) == 0)
		return false;
	member->refused = false;
	return true;
}

uint64_t hd_merge_final(const struct hd_merge *merge) {
	if (merge->done || merge->at == 0)
		return merge->at;
	return (merge->at - 1) / merge->chunk_bytes * merge->chunk_bytes;
}

uint64_t hd_merge_total(const struct hd_merge *merge) {
	return merge->done ? merge->at : 0;
}

uint32_t hd_merge_chunk_bytes(const struct hd_merge *merge) {
	return merge->chunk_bytes;
}

bool hd_merge_not_finite(const struct hd_merge *merge) {
	return merge->not_finite;
}

uint64_t hd_merge_kept_bytes(const struct hd_merge *merge) {
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < merge->config.input_count; i++) {
		const struct member *member = &merge->members[i];
		uint64_t held = member->recv ? hd_recv_stats(member->recv)->bytes_held : 0;
		uint64_t merged = (uint64_t)member->next * member->chunk_bytes;

		bytes += held > merged ? held - merged : 0;
	}
	return bytes;
}
