/* SPDX-License-Identifier: BSD-3-Clause */
/* Leases: checking and setting them, and their cells. */
#include "hd_switch_private.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The destination of error texts. */
struct reply {
	char *error;
	size_t bytes;
};

int switch_refuse(int code, char *error, size_t error_bytes, const char *format, ...) {
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(error, error_bytes, format, arguments);
	va_end(arguments);
	return code;
}

static uint64_t all_of(uint32_t member_count) {
	return member_count == 64 ? UINT64_MAX : (UINT64_C(1) << member_count) - 1;
}

static int
out_of(const struct reply *reply, const char *field, uint64_t value, uint64_t least, uint64_t most
) {
	if (value >= least && value <= most)
		return 0;
	return switch_refuse(
		-EINVAL,
		reply->error,
		reply->bytes,
		"%s: %" PRIu64 " (%" PRIu64 " to %" PRIu64 ")",
		field,
		value,
		least,
		most
	);
}

static int check_numbers(const struct hd_switch_lease *lease, const struct reply *reply) {
	int status;

	if ((status = out_of(reply, "id", lease->id, 0, HD_SWITCH_LEASES_MAX - 1)) < 0
	    || (status = out_of(reply, "slot_count", lease->slot_count, 1, HD_SWITCH_SLOTS)) < 0
	    || (status = out_of(reply, "count", lease->count, 1, HD_CHUNK_BYTES_MAX / 4)) < 0
	    || (status
		= out_of(reply, "member_count", lease->member_count, 1, HD_SWITCH_MEMBERS_MAX))
		    < 0
	    || (status
		= out_of(reply, "receiver_count", lease->receiver_count, 0, HD_SWITCH_RECEIVERS_MAX)
	       ) < 0)
		return status;
	if (lease->dtype != HD_DTYPE_FIXED32 && lease->dtype != HD_DTYPE_FP32) {
		return switch_refuse(
			-EINVAL,
			reply->error,
			reply->bytes,
			"dtype: %u (%d or %d)",
			lease->dtype,
			HD_DTYPE_FP32,
			HD_DTYPE_FIXED32
		);
	}
	if (lease->waits == 0 || (lease->waits & ~all_of(lease->member_count)) != 0) {
		return switch_refuse(
			-EINVAL,
			reply->error,
			reply->bytes,
			"waits: 0x%" PRIx64 " (some of 0x%" PRIx64 ")",
			lease->waits,
			all_of(lease->member_count)
		);
	}
	return 0;
}

static int
check_copy(const struct hd_switch_copy *copy, uint64_t token, const struct reply *reply) {
	if (token == 0)
		return switch_refuse(-EINVAL, reply->error, reply->bytes, "token: 0 (from 1)");
	return out_of(reply, "port", copy->port, 0, HD_SWITCH_PORTS_MAX - 1);
}

static int check_copies(const struct hd_switch_lease *lease, const struct reply *reply) {
	int status = 0;

	for (uint32_t i = 0; i < lease->member_count && status == 0; i++)
		status = check_copy(&lease->members[i].copy, lease->members[i].token, reply);
	for (uint32_t i = 0; i < lease->receiver_count && status == 0; i++)
		status = check_copy(&lease->receivers[i], lease->receivers[i].token, reply);
	return status;
}

/* Cells are initialised here, not on the path: this touches their memory. */
static int
make_cells(struct hd_switch_core *core, struct switch_lease *made, const struct reply *reply) {
	size_t lanes = (size_t)made->count * 4;
	size_t bytes, left = core->memory_bytes - core->memory_used;

	made->stride = sizeof(struct switch_cell)
		+ (lanes + SWITCH_LINE - 1) / SWITCH_LINE * SWITCH_LINE;
	bytes = 2 * (size_t)made->slot_count * made->stride;
	if (bytes > left) {
		return switch_refuse(
			-ENOMEM,
			reply->error,
			reply->bytes,
			"slot_count: %u slots of %u values take %zu bytes (%zu of %" PRIu64
			" are left)",
			made->slot_count,
			made->count,
			bytes,
			left,
			core->memory_bytes
		);
	}
	made->cells = aligned_alloc(SWITCH_LINE, bytes);
	if (!made->cells) {
		return switch_refuse(
			-ENOMEM,
			reply->error,
			reply->bytes,
			"slot_count: no memory for %zu bytes",
			bytes
		);
	}
	memset(made->cells, 0, bytes);
	made->stats.memory_bytes = bytes;
	made->stats.cells = 2 * (uint32_t)made->slot_count;
	return 0;
}

static void forget_tokens(struct hd_switch_core *core, const struct switch_lease *lease) {
	struct hd_switch_entry *entry;

	for (uint32_t i = 0; i < lease->member_count; i++) {
		entry = hd_switch_table_find(&core->tokens, lease->tokens[i]);
		if (entry && entry->value == switch_token(lease->id, i, false))
			hd_switch_table_remove(&core->tokens, entry);
	}
	for (uint32_t i = 0; i < lease->receiver_count; i++) {
		entry = hd_switch_table_find(&core->tokens, lease->receivers[i].token);
		if (entry && entry->value == switch_token(lease->id, i, true))
			hd_switch_table_remove(&core->tokens, entry);
	}
}

static int
add_token(struct hd_switch_core *core, uint64_t token, uint64_t value, const struct reply *reply) {
	const struct hd_switch_entry *other = hd_switch_table_find(&core->tokens, token);

	if (other) {
		return switch_refuse(
			-EEXIST,
			reply->error,
			reply->bytes,
			"token: twice (in lease %u)",
			(unsigned)(other->value & UINT16_MAX)
		);
	}
	hd_switch_table_put(&core->tokens, token, value);
	return 0;
}

/* All of them, or none. */
static int learn_tokens(
	struct hd_switch_core *core,
	const struct switch_lease *lease,
	const struct reply *reply
) {
	int status = 0;

	for (uint32_t i = 0; i < lease->member_count && status == 0; i++) {
		status = add_token(
			core, lease->tokens[i], switch_token(lease->id, i, false), reply
		);
	}
	for (uint32_t i = 0; i < lease->receiver_count && status == 0; i++) {
		status = add_token(
			core, lease->receivers[i].token, switch_token(lease->id, i, true), reply
		);
	}
	if (status < 0)
		forget_tokens(core, lease);
	return status;
}

static struct switch_lease *copy_lease(const struct hd_switch_lease *lease) {
	struct switch_lease *made = calloc(1, sizeof *made);

	if (!made)
		return NULL;
	made->job = lease->job;
	made->epoch = lease->epoch;
	made->shard = lease->shard;
	made->id = lease->id;
	made->attempt = lease->attempt;
	made->dtype = lease->dtype;
	made->count = lease->count;
	made->slot_count = lease->slot_count;
	made->member_count = lease->member_count;
	made->receiver_count = lease->receiver_count;
	made->waits = lease->waits;
	made->all = all_of(lease->member_count);
	for (uint32_t i = 0; i < lease->member_count; i++) {
		made->workers[i] = lease->members[i].worker;
		made->tokens[i] = lease->members[i].token;
		made->members[i] = lease->members[i].copy;
	}
	if (lease->receiver_count > 0) {
		memcpy(made->receivers,
		       lease->receivers,
		       lease->receiver_count * sizeof *made->receivers);
	}
	return made;
}

static void free_lease(struct switch_lease *lease) {
	free(lease->cells);
	free(lease);
}

int hd_switch_core_lease_set(
	struct hd_switch_core *core,
	const struct hd_switch_lease *lease,
	char *error,
	size_t error_bytes
) {
	const struct reply reply = {error, error_bytes};
	struct switch_lease *made;
	int status;

	if ((status = check_numbers(lease, &reply)) < 0
	    || (status = check_copies(lease, &reply)) < 0)
		return status;
	if (core->leases[lease->id])
		return switch_refuse(-EEXIST, error, error_bytes, "id: %u is in use", lease->id);
	made = copy_lease(lease);
	if (!made)
		return switch_refuse(-ENOMEM, error, error_bytes, "id: no memory for a lease");
	if ((status = make_cells(core, made, &reply)) < 0
	    || (status = learn_tokens(core, made, &reply)) < 0) {
		free_lease(made);
		return status;
	}
	core->leases[lease->id] = made;
	core->memory_used += made->stats.memory_bytes;
	return 0;
}

static struct switch_lease *lease_of(const struct hd_switch_core *core, uint16_t id) {
	return id < HD_SWITCH_LEASES_MAX ? core->leases[id] : NULL;
}

/* Recounts open sums: some are complete without a removed member. */
static void count_open(struct switch_lease *lease) {
	lease->stats.cells_open = 0;
	for (uint32_t i = 0; i < lease->stats.cells; i++) {
		const struct switch_cell *cell = switch_cell_at(lease, i, 0);

		lease->stats.cells_open += cell->seen != 0 && !switch_complete(lease, cell->seen);
	}
}

int hd_switch_core_lease_waits(
	struct hd_switch_core *core,
	uint16_t id,
	uint64_t waits,
	char *error,
	size_t error_bytes
) {
	struct switch_lease *lease = lease_of(core, id);

	if (!lease)
		return switch_refuse(-ENOENT, error, error_bytes, "id: %u is no lease", id);
	if (waits == 0 || (waits & ~lease->waits) != 0) {
		return switch_refuse(
			-EINVAL,
			error,
			error_bytes,
			"waits: 0x%" PRIx64 " (some of 0x%" PRIx64 ")",
			waits,
			lease->waits
		);
	}
	lease->waits = waits;
	count_open(lease);
	return 0;
}

int hd_switch_core_lease_end(
	struct hd_switch_core *core,
	uint16_t id,
	char *error,
	size_t error_bytes
) {
	struct switch_lease *lease = lease_of(core, id);

	if (!lease)
		return switch_refuse(-ENOENT, error, error_bytes, "id: %u is no lease", id);
	forget_tokens(core, lease);
	assert(core->memory_used >= lease->stats.memory_bytes);
	core->memory_used -= lease->stats.memory_bytes;
	core->leases[id] = NULL;
	free_lease(lease);
	return 0;
}

int hd_switch_core_lease_stats(
	const struct hd_switch_core *core,
	uint16_t id,
	struct hd_switch_lease_stats *stats
) {
	const struct switch_lease *lease = lease_of(core, id);

	if (!lease)
		return -ENOENT;
	*stats = lease->stats;
	stats->waits = lease->waits;
	return 0;
}

size_t hd_switch_core_copies(
	const struct hd_switch_core *core,
	const struct hd_switch_packet *packet,
	const struct hd_switch_copy **copies
) {
	const struct switch_lease *lease = lease_of(core, packet->lease);

	if (packet->verdict != HD_SWITCH_COPY || !lease)
		return 0;
	switch (packet->copy) {
	case HD_SWITCH_COPY_MEMBERS:
		*copies = lease->members;
		return lease->member_count;
	case HD_SWITCH_COPY_RECEIVERS:
		*copies = lease->receivers;
		return lease->receiver_count;
	default:
		*copies = &lease->members[packet->copy];
		return 1;
	}
}

void switch_leases_fini(struct hd_switch_core *core) {
	for (size_t i = 0; i < HD_SWITCH_LEASES_MAX; i++)
		if (core->leases[i])
			free_lease(core->leases[i]);
}
