/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_cc.h"
#include "hd_kernels.h"
#include "hd_limits.h"
#include "hd_merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A chunk kept before its turn. */
struct slot {
	uint32_t next; /* of the same chunk, or free: index + 1; 0: none */
	uint32_t bytes;
	uint32_t rank;
};

struct input {
	struct hd_reduce_input is;
	struct hd_recv *recv;
	uint32_t kept; /* slots in use */
	bool refused; /* a chunk was dropped as early since the last report of room */
};

struct hd_reduce {
	struct hd_reduce_config config;
	struct hd_merge *merge; /* for sparse updates: everything is in it; else NULL */
	bool raw; /* a single member: passed on unchanged */
	uint32_t chunk_bytes; /* 0: unknown yet, and the arrays below do not exist */
	uint32_t chunk_count;
	uint32_t stride;
	uint32_t final; /* chunks below this are final */
	uint16_t *in; /* members in each chunk */
	uint32_t *early; /* RANKED: the first slot of each chunk; index + 1, 0: none */
	struct slot *slots;
	uint8_t *slot_data;
	uint32_t free_slot; /* index + 1 */
	uint32_t quota; /* slots of one member */
	uint32_t kept;
	bool not_finite;
	struct input inputs[];
};

static bool is_raw(uint32_t input_count) {
	return input_count == 1;
}

uint64_t hd_reduce_sum_bytes(uint8_t dtype, uint64_t bytes, uint32_t input_count) {
	return hd_dtype_is_half(dtype) && !is_raw(input_count) ? 2 * bytes : bytes;
}

uint64_t hd_reduce_buffer_bytes(uint8_t dtype, uint64_t bytes, uint32_t input_count) {
	uint64_t sum = hd_reduce_sum_bytes(dtype, bytes, input_count), step = 64;

	while (step < sum / 16)
		step *= 2;
	return (sum + step - 1) / step * step;
}

static bool is_merged(const struct hd_reduce_config *config) {
	return config->dtype == HD_DTYPE_SPARSE32 && !is_raw(config->input_count);
}

static bool is_ranked(const struct hd_reduce_config *config) {
	return config->order == HD_GROUP_RANKED && !is_raw(config->input_count);
}

/* Slots for each member but the first, whose turn it always is. */
static uint32_t slot_quota(const struct hd_reduce_config *config, uint32_t chunk_bytes) {
	uint64_t chunks = (config->bytes - 1) / chunk_bytes + 1;
	uint64_t quota;

	if (!is_ranked(config))
		return 0;
	quota = config->early_bytes / chunk_bytes / (config->input_count - 1);
	quota = quota < chunks ? quota : chunks;
	return quota > 0 ? (uint32_t)quota : 1;
}

/* Memory of the arrays for chunks of this size. */
static uint64_t state_bytes(const struct hd_reduce_config *config, uint32_t chunk_bytes) {
	uint64_t chunks = (config->bytes - 1) / chunk_bytes + 1;
	uint64_t slots = (uint64_t)slot_quota(config, chunk_bytes) * (config->input_count - 1);
	uint64_t each = sizeof(uint16_t) + (is_ranked(config) ? sizeof(uint32_t) : 0);

	return chunks * each + (chunks / 8 + 8) * config->input_count
		+ slots * (sizeof(struct slot) + chunk_bytes);
}

uint64_t hd_reduce_state_bytes(const struct hd_reduce_config *config) {
	uint64_t small = state_bytes(config, HD_REDUCE_CHUNK_BYTES_MIN);
	uint64_t big = state_bytes(config, HD_CHUNK_BYTES_MAX); /* each slot holds one chunk */

	if (is_merged(config))
		return hd_merge_state_bytes(config) + config->input_count * sizeof(struct input);
	return (small > big ? small : big) + config->input_count * sizeof(struct input);
}

uint64_t hd_reduce_memory_bytes(const struct hd_reduce_config *config) {
	return hd_reduce_buffer_bytes(config->dtype, config->bytes, config->input_count)
		+ hd_reduce_state_bytes(config);
}

static int check(const struct hd_reduce_config *config) {
	size_t value = hd_dtype_bytes(config->dtype);

	if (config->input_count == 0 || !config->sum || config->bytes == 0 || value == 0)
		return -EINVAL;
	if (config->input_count > HD_GROUP_MEMBERS_MAX)
		return -E2BIG;
	if (config->order > HD_GROUP_RANKED || !hd_dtype_has_op(config->dtype, config->op))
		return -EINVAL;
	return config->bytes % value != 0 ? -EINVAL : 0;
}

int hd_reduce_create(const struct hd_reduce_config *config, struct hd_reduce **out) {
	struct hd_reduce *reduce;
	int rc = check(config);

	if (rc < 0)
		return rc;
	reduce = calloc(1, sizeof *reduce + config->input_count * sizeof reduce->inputs[0]);
	if (!reduce)
		return -ENOMEM;
	reduce->config = *config;
	reduce->config.inputs = NULL;
	reduce->raw = is_raw(config->input_count);
	for (uint32_t i = 0; i < config->input_count; i++)
		reduce->inputs[i].is = config->inputs[i];
	if (is_merged(config))
		rc = hd_merge_create(config, &reduce->merge);
	if (rc < 0) {
		free(reduce);
		return rc;
	}
	*out = reduce;
	return 0;
}

static void fini_chunks(struct hd_reduce *reduce) {
	for (uint32_t i = 0; i < reduce->config.input_count; i++) {
		hd_recv_destroy(reduce->inputs[i].recv);
		reduce->inputs[i].recv = NULL;
	}
	free(reduce->in);
	free(reduce->early);
	free(reduce->slots);
	free(reduce->slot_data);
	reduce->in = NULL;
	reduce->early = NULL;
	reduce->slots = NULL;
	reduce->slot_data = NULL;
}

void hd_reduce_destroy(struct hd_reduce *reduce) {
	if (!reduce)
		return;
	fini_chunks(reduce);
	hd_merge_destroy(reduce->merge);
	free(reduce);
}

/* --- the first chunk ------------------------------------------------------------------------- */

static bool
belongs(const struct hd_reduce *reduce,
	const struct input *input,
	const struct hd_chunk_header *header) {
	return header->job == reduce->config.job && header->worker == input->is.worker
		&& header->round == input->is.round && header->attempt == input->is.attempt
		&& header->dtype == reduce->config.dtype;
}

uint32_t hd_reduce_full_chunk(
	uint64_t total,
	uint8_t dtype,
	const struct hd_chunk_header *header,
	size_t bytes
) {
	size_t value = hd_dtype_bytes(dtype);
	uint64_t full = bytes;

	if (bytes == 0 || bytes > total)
		return 0;
	if (header->flags & HD_CHUNK_LAST && header->chunk > 0) {
		if ((total - bytes) % header->chunk != 0)
			return 0;
		full = (total - bytes) / header->chunk;
	}
	if (full > HD_CHUNK_BYTES_MAX || value == 0 || full % value != 0)
		return 0;
	return full >= HD_REDUCE_CHUNK_BYTES_MIN || full == total ? (uint32_t)full : 0;
}

static int make_recv(struct hd_reduce *reduce, struct input *input, uint32_t chunk_bytes) {
	const struct hd_recv_config config = {
		.token = input->is.token,
		.job = reduce->config.job,
		.round = input->is.round,
		.worker = input->is.worker,
		.attempt = input->is.attempt,
		.dtype = reduce->config.dtype,
		.bytes = reduce->config.bytes,
		.chunk_bytes = chunk_bytes,
		.consumed = true,
	};

	return hd_recv_create(&config, &input->recv);
}

static int make_slots(struct hd_reduce *reduce, uint32_t chunk_bytes) {
	uint32_t count = reduce->quota * (reduce->config.input_count - 1);

	reduce->early = calloc(reduce->chunk_count, sizeof *reduce->early);
	reduce->slots = calloc(count, sizeof *reduce->slots);
	reduce->slot_data = malloc((size_t)count * chunk_bytes);
	if (!reduce->early || !reduce->slots || !reduce->slot_data)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		reduce->slots[i].next = i + 1 < count ? i + 2 : 0;
	reduce->free_slot = 1;
	return 0;
}

static int set_chunk_bytes(struct hd_reduce *reduce, uint32_t chunk_bytes) {
	int rc = 0;

	reduce->chunk_count = (uint32_t)((reduce->config.bytes - 1) / chunk_bytes + 1);
	if (reduce->chunk_count == 0)
		return -EINVAL; /* more than the wire can number */
	reduce->quota = slot_quota(&reduce->config, chunk_bytes);
	reduce->in = calloc(reduce->chunk_count, sizeof *reduce->in);
	if (!reduce->in)
		return -ENOMEM;
	if (is_ranked(&reduce->config))
		rc = make_slots(reduce, chunk_bytes);
	for (uint32_t i = 0; rc == 0 && i < reduce->config.input_count; i++)
		rc = make_recv(reduce, &reduce->inputs[i], chunk_bytes);
	if (rc < 0) {
		fini_chunks(reduce);
		return rc;
	}
	reduce->chunk_bytes = chunk_bytes;
	reduce->stride = chunk_bytes;
	if (!reduce->raw && hd_dtype_is_half(reduce->config.dtype))
		reduce->stride = 2 * chunk_bytes;
	return 0;
}

/* --- the sum --------------------------------------------------------------------------------- */

static void *chunk_at(const struct hd_reduce *reduce, uint32_t chunk) {
	return (uint8_t *)reduce->config.sum + (uint64_t)chunk * reduce->stride;
}

static size_t values_in(uint8_t dtype, size_t bytes) {
	size_t value = hd_dtype_bytes(dtype);

	return value > 0 ? bytes / value : 0;
}

/* The first member of a chunk is copied instead of added, so that the memory need not be cleared. */
static void put(struct hd_reduce *reduce, void *sum, const uint8_t *payload, size_t bytes) {
	uint8_t dtype = reduce->config.dtype;

	if (!reduce->raw && hd_dtype_is_half(dtype))
		hd_half_to_f32(dtype, sum, (const void *)payload, bytes / sizeof(uint16_t));
	else
		memcpy(sum, payload, bytes);
}

static void add(struct hd_reduce *reduce, void *sum, const uint8_t *payload, size_t bytes) {
	uint8_t dtype = reduce->config.dtype;

	if (dtype == HD_DTYPE_FIXED32)
		reduce->not_finite |= hd_add_fixed(sum, (const void *)payload, bytes / 4);
	else
		hd_combine(dtype, reduce->config.op, sum, payload, values_in(dtype, bytes));
}

/* Divides a final chunk for an average, rounds it to its type on the wire, in place, and checks it for NaN and Inf:
 * once, in the sum, as any member's NaN or Inf is still there. */
static void seal(struct hd_reduce *reduce, void *sum, size_t bytes) {
	uint8_t dtype = reduce->config.dtype;
	size_t count = values_in(dtype, bytes);
	float block[HD_CHUNK_BYTES_MAX / sizeof(uint16_t)];

	if (reduce->config.op == HD_REDUCE_OP_AVERAGE)
		hd_average(dtype, sum, count, reduce->config.input_count);
	if (hd_dtype_is_half(dtype)) {
		memcpy(block, sum, count * sizeof(float)); /* the start of `sum` is overwritten */
		hd_half_from_f32(dtype, sum, block, count, 1);
	}
	reduce->not_finite |= hd_any_not_finite(dtype, sum, count);
}

static void take(struct hd_reduce *reduce, uint32_t chunk, const uint8_t *payload, size_t bytes) {
	void *sum = chunk_at(reduce, chunk);

	if (reduce->in[chunk] == 0)
		put(reduce, sum, payload, bytes);
	else
		add(reduce, sum, payload, bytes);
	if (++reduce->in[chunk] < reduce->config.input_count)
		return;
	if (!reduce->raw)
		seal(reduce, sum, bytes);
	while (reduce->final < reduce->chunk_count
	       && reduce->in[reduce->final] == reduce->config.input_count)
		reduce->final++;
}

/* --- turns ----------------------------------------------------------------------------------- */

/* The slots of a chunk are in the order of their ranks, so that the next in turn is found at once. */
static void
keep(struct hd_reduce *reduce, uint32_t chunk, uint32_t rank, const uint8_t *payload, size_t bytes
) {
	uint32_t index = reduce->free_slot - 1, *link = &reduce->early[chunk];
	struct slot *slot = &reduce->slots[index];

	while (*link != 0 && reduce->slots[*link - 1].rank < rank)
		link = &reduce->slots[*link - 1].next;
	reduce->free_slot = slot->next;
	*slot = (struct slot){*link, (uint32_t)bytes, rank};
	*link = index + 1;
	memcpy(reduce->slot_data + (size_t)index * reduce->chunk_bytes, payload, bytes);
	reduce->inputs[rank].kept++;
	reduce->kept++;
}

/* Adds the kept members of this chunk whose turn has come. */
static void catch_up(struct hd_reduce *reduce, uint32_t chunk) {
	while (reduce->early[chunk] != 0) {
		uint32_t index = reduce->early[chunk] - 1;
		struct slot *slot = &reduce->slots[index];

		if (slot->rank != reduce->in[chunk])
			return;
		reduce->early[chunk] = slot->next;
		slot->next = reduce->free_slot;
		reduce->free_slot = index + 1;
		reduce->inputs[slot->rank].kept--;
		reduce->kept--;
		take(reduce,
		     chunk,
		     reduce->slot_data + (size_t)index * reduce->chunk_bytes,
		     slot->bytes);
	}
}

static bool
is_refused(struct hd_reduce *reduce, struct input *input, uint32_t rank, uint32_t chunk) {
	if (!is_ranked(&reduce->config) || chunk >= reduce->chunk_count)
		return false;
	if (reduce->in[chunk] == rank || input->kept < reduce->quota)
		return false;
	if (hd_recv_has(input->recv, chunk))
		return false;
	input->refused = true;
	return true;
}

/* --- chunks ---------------------------------------------------------------------------------- */

static enum hd_reduce_result
learn(struct hd_reduce *reduce,
      const struct input *input,
      const struct hd_chunk_header *header,
      size_t bytes) {
	uint32_t full;

	if (!belongs(reduce, input, header))
		return HD_REDUCE_MISMATCH;
	full = hd_reduce_full_chunk(reduce->config.bytes, reduce->config.dtype, header, bytes);
	if (full == 0)
		return HD_REDUCE_MISMATCH;
	return set_chunk_bytes(reduce, full) < 0 ? HD_REDUCE_NO_MEMORY : HD_REDUCE_NEW;
}

enum hd_reduce_result hd_reduce_chunk(
	struct hd_reduce *reduce,
	uint32_t index,
	hd_ns now,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t payload_bytes
) {
	struct input *input = &reduce->inputs[index];
	enum hd_recv_result result;

	if (reduce->merge)
		return hd_merge_chunk(reduce->merge, index, now, header, payload, payload_bytes);
	if (reduce->config.dtype == HD_DTYPE_FIXED32 && header->exponent != reduce->config.exponent)
		return HD_REDUCE_MISMATCH;
	if (reduce->chunk_bytes == 0) {
		enum hd_reduce_result learnt = learn(reduce, input, header, payload_bytes);

		if (learnt != HD_REDUCE_NEW)
			return learnt;
	}
	if (is_refused(reduce, input, index, header->chunk))
		return HD_REDUCE_EARLY;
	result = hd_recv_chunk(input->recv, now, header, payload, payload_bytes);
	if (result == HD_RECV_MISMATCH)
		return HD_REDUCE_MISMATCH;
	if (result == HD_RECV_DUPLICATE)
		return HD_REDUCE_DUPLICATE;
	if (!is_ranked(&reduce->config)) {
		take(reduce, header->chunk, payload, payload_bytes);
	} else if (reduce->in[header->chunk] == index) {
		take(reduce, header->chunk, payload, payload_bytes);
		catch_up(reduce, header->chunk);
	} else {
		keep(reduce, header->chunk, index, payload, payload_bytes);
	}
	return result == HD_RECV_DONE ? HD_REDUCE_DONE : HD_REDUCE_NEW;
}

struct hd_recv *hd_reduce_recv(const struct hd_reduce *reduce, uint32_t index) {
	if (reduce->merge)
		return hd_merge_recv(reduce->merge, index);
	return reduce->inputs[index].recv;
}

/* The first chunk that some earlier input has not yet sent without a gap: below it, it is this input's turn. */
static uint32_t turn_end(const struct hd_reduce *reduce, uint32_t index) {
	uint32_t end = UINT32_MAX;

	for (uint32_t i = 0; i < index; i++) {
		uint32_t held = hd_recv_held(reduce->inputs[i].recv);

		end = held < end ? held : end;
	}
	return end;
}

uint32_t hd_reduce_window(const struct hd_reduce *reduce, uint32_t index, uint32_t most) {
	const struct input *input = &reduce->inputs[index];
	uint32_t end, held;
	uint64_t room;

	if (reduce->merge)
		return hd_merge_window(reduce->merge, index, most);
	if (!is_ranked(&reduce->config) || index == 0 || reduce->chunk_bytes == 0)
		return most;
	end = turn_end(reduce, index);
	held = hd_recv_held(input->recv);
	room = reduce->quota - input->kept + (end > held ? end - held : 0);
	room = (room > 0 ? room : 1) * (reduce->chunk_bytes + HD_CHUNK_OVERHEAD_BYTES);
	return room < most ? (uint32_t)room : most;
}

bool hd_reduce_is_full(const struct hd_reduce *reduce, uint32_t index) {
	if (reduce->merge)
		return hd_merge_is_full(reduce->merge, index);
	return is_ranked(&reduce->config) && index > 0 && reduce->chunk_bytes > 0
		&& reduce->inputs[index].kept >= reduce->quota;
}

/* Whether an earlier input has not sent more: usually the first one, which all others wait for. */
static bool is_ahead(const struct hd_reduce *reduce, uint32_t index) {
	uint32_t held = hd_recv_held(reduce->inputs[index].recv);

	for (uint32_t i = 0; i < index; i++)
		if (hd_recv_held(reduce->inputs[i].recv) <= held)
			return true;
	return false;
}

bool hd_reduce_relieved(struct hd_reduce *reduce, uint32_t index) {
	struct input *input = &reduce->inputs[index];

	if (reduce->merge)
		return hd_merge_relieved(reduce->merge, index);
	if (!input->refused || (input->kept >= reduce->quota && is_ahead(reduce, index)))
		return false;
	input->refused = false;
	return true;
}

uint64_t hd_reduce_final(const struct hd_reduce *reduce) {
	uint64_t bytes = (uint64_t)reduce->final * reduce->chunk_bytes;

	if (reduce->merge)
		return hd_merge_final(reduce->merge);
	return bytes < reduce->config.bytes ? bytes : reduce->config.bytes;
}

uint64_t hd_reduce_total(const struct hd_reduce *reduce) {
	return reduce->merge ? hd_merge_total(reduce->merge) : reduce->config.bytes;
}

uint32_t hd_reduce_culprit(const struct hd_reduce *reduce) {
	return reduce->merge ? hd_merge_culprit(reduce->merge) : HD_MERGE_NONE;
}

uint32_t hd_reduce_chunk_bytes(const struct hd_reduce *reduce) {
	return reduce->merge ? hd_merge_chunk_bytes(reduce->merge) : reduce->chunk_bytes;
}

uint32_t hd_reduce_stride(const struct hd_reduce *reduce) {
	return reduce->merge ? hd_merge_chunk_bytes(reduce->merge) : reduce->stride;
}

bool hd_reduce_not_finite(const struct hd_reduce *reduce) {
	return reduce->merge ? hd_merge_not_finite(reduce->merge) : reduce->not_finite;
}

uint64_t hd_reduce_early_bytes(const struct hd_reduce *reduce) {
	if (reduce->merge)
		return hd_merge_kept_bytes(reduce->merge);
	return (uint64_t)reduce->kept * reduce->chunk_bytes;
}
