/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program's tables and registers, as named in p4/core:
 *
 *   identity   (default)  identify(service, mac, router_mac)
 *   tokens     token   -> member(lease, worker, me, index, port) | receiver(lease)
 *   leases     lease   -> hold(job, epoch, attempt, shard, first_slot, slot_count, waits, all, members, receivers)
 *   macs       mac     -> forward(port)
 *   routes     prefix  -> route(port, mac)
 *   registers  keys, simulator (state, threshold), counters
 *
 * p4c puts the names of controls before those of actions and registers: an action is found among its table's by the end
 * of its name, its arguments are those of its struct in order.
 */
#include "hd_swx_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 4, 5))) static int
refuse(int code, char *error, size_t error_bytes, const char *format, ...) {
	va_list args;

	va_start(args, format);
	(void)vsnprintf(error, error_bytes, format, args);
	va_end(args);
	return code;
}

/* --- names in the text --------------------------------------------------------------------- */

static bool ends(const char *name, const char *with) {
	size_t bytes = strlen(name), end = strlen(with);

	if (bytes < end || strcmp(name + bytes - end, with) != 0)
		return false;
	return bytes == end || name[bytes - end - 1] == '_' || name[bytes - end - 1] == '.';
}

static const struct hd_spec_table *find_table(const struct swx *swx, const char *name) {
	for (uint32_t i = 0; i < swx->spec->table_count; i++)
		if (ends(swx->spec->tables[i].name, name))
			return &swx->spec->tables[i];
	return NULL;
}

static const char *find_registers(const struct swx *swx, const char *name) {
	for (uint32_t i = 0; i < swx->spec->register_count; i++)
		if (ends(swx->spec->registers[i].name, name))
			return swx->spec->registers[i].name;
	return NULL;
}

static const struct hd_spec_action *
find_action(const struct swx *swx, const struct hd_spec_table *table, const char *name) {
	for (uint32_t i = 0; i < table->choice_count; i++)
		for (uint32_t k = 0;
		     ends(table->choices[i].action, name) && k < swx->spec->action_count;
		     k++)
			if (strcmp(swx->spec->actions[k].name, table->choices[i].action) == 0)
				return &swx->spec->actions[k];
	return NULL;
}

static const struct hd_spec_struct *find_struct(const struct swx *swx, const char *name) {
	for (uint32_t i = 0; name && i < swx->spec->struct_count; i++)
		if (strcmp(swx->spec->structs[i].name, name) == 0)
			return &swx->spec->structs[i];
	return NULL;
}

/* --- entries ------------------------------------------------------------------------------- */

struct entry {
	const char *table, *action; /* as in p4/core; action NULL: removes the entry */
	const char *key; /* "0x1234", or with "/0xff00"; NULL: the default entry */
	uint32_t count;
	uint64_t values[SWX_ARGUMENTS_MAX];
};

static void free_entry(struct rte_swx_table_entry *entry) {
	if (!entry)
		return;
	free(entry->key);
	free(entry->key_mask);
	free(entry->action_data);
	free(entry);
}

/* "match KEY action NAME ARGUMENT VALUE ...". False: the text has another form. */
static bool write_entry(
	const struct swx *swx,
	const struct hd_spec_table *table,
	const struct entry *entry,
	char *text
) {
	const struct hd_spec_action *action = find_action(swx, table, entry->action);
	const struct hd_spec_struct *arguments
		= action ? find_struct(swx, action->arguments) : NULL;
	size_t used = 0;

	if (!action || (arguments ? arguments->field_count : 0) != entry->count)
		return false;
	if (entry->key)
		used += (size_t)snprintf(text, SWX_ENTRY_BYTES, "match %s ", entry->key);
	used += (size_t)snprintf(text + used, SWX_ENTRY_BYTES - used, "action %s", action->name);
	for (uint32_t i = 0; i < entry->count && used < SWX_ENTRY_BYTES; i++)
		used += (size_t)snprintf(
			text + used,
			SWX_ENTRY_BYTES - used,
			" %s 0x%" PRIx64,
			arguments->fields[i].name,
			entry->values[i]
		);
	return used < SWX_ENTRY_BYTES;
}

/* A removal may name any action: only the key matters. */
static bool write_key(const struct hd_spec_table *table, const struct entry *entry, char *text) {
	return snprintf(
		       text,
		       SWX_ENTRY_BYTES,
		       "match %s action %s",
		       entry->key,
		       table->default_action
	       ) < SWX_ENTRY_BYTES;
}

/* Prepares a change, for commit(). */
static int change(struct swx *swx, const struct entry *entry, char *error, size_t error_bytes) {
	const struct hd_spec_table *table = find_table(swx, entry->table);
	struct rte_swx_table_entry *made = NULL;
	char text[SWX_ENTRY_BYTES];
	int code = -EINVAL, blank;
	bool good = table != NULL;

	if (good)
		good = entry->action ? write_entry(swx, table, entry, text) :
				       write_key(table, entry, text);
	if (good)
		made = rte_swx_ctl_pipeline_table_entry_read(swx->ctl, table->name, text, &blank);
	if (made && !entry->action)
		code = rte_swx_ctl_pipeline_table_entry_delete(swx->ctl, table->name, made);
	else if (made && entry->key)
		code = rte_swx_ctl_pipeline_table_entry_add(swx->ctl, table->name, made);
	else if (made)
		code = rte_swx_ctl_pipeline_table_default_entry_add(swx->ctl, table->name, made);
	free_entry(made);
	if (code)
		return refuse(
			-EINVAL,
			error,
			error_bytes,
			"spec: table %s does not take %s",
			entry->table,
			entry->action ? entry->action : "a deletion"
		);
	return 0;
}

static int commit(struct swx *swx, char *error, size_t error_bytes) {
	int code = rte_swx_ctl_pipeline_commit(swx->ctl, 1);

	return code ? refuse(-ENOSPC, error, error_bytes, "spec: a table is full (%d)", code) : 0;
}

/* All of them, or none. */
static int change_all(
	struct swx *swx,
	const struct entry *entries,
	size_t count,
	char *error,
	size_t error_bytes
) {
	for (size_t i = 0; i < count; i++) {
		int code = change(swx, &entries[i], error, error_bytes);

		if (code < 0) {
			rte_swx_ctl_pipeline_abort(swx->ctl);
			return code;
		}
	}
	return commit(swx, error, error_bytes);
}

static int write_register(
	struct swx *swx,
	const char *name,
	uint32_t index,
	uint64_t value,
	char *error,
	size_t error_bytes
) {
	const char *registers = find_registers(swx, name);

	if (registers
	    && rte_swx_ctl_pipeline_regarray_write(swx->pipeline, registers, index, value) == 0)
		return 0;
	return refuse(-EINVAL, error, error_bytes, "spec: no registers %s[%u]", name, index);
}

static uint64_t mac_number(const uint8_t mac[6]) {
	uint64_t number = 0;

	for (int i = 0; i < 6; i++)
		number = number << 8 | mac[i];
	return number;
}

int swx_set_self(struct swx *swx, char *error, size_t error_bytes) {
	const struct entry identity = {
		.table = "identity",
		.action = "identify",
		.count = 3,
		.values
		= {swx->self.ipv4, mac_number(swx->self.mac), mac_number(swx->self.router_mac)},
	};

	return change_all(swx, &identity, 1, error, error_bytes);
}

/* --- leases -------------------------------------------------------------------------------- */

static void forget(struct swx_lease *held) {
	free(held->copies);
	free(held->tokens);
	free(held->workers);
	*held = (struct swx_lease){0};
}

void swx_forget_leases(struct swx *swx) {
	for (uint32_t i = 0; i < HD_SWITCH_LEASES_MAX; i++)
		forget(&swx->leases[i]);
}

static uint64_t all_of(uint32_t members) {
	return members == 64 ? UINT64_MAX : (UINT64_C(1) << members) - 1;
}

static int
check_lease(const struct swx *swx, const struct hd_switch_lease *l, char *error, size_t bytes) {
	if (l->id >= HD_SWITCH_LEASES_MAX)
		return refuse(
			-EINVAL,
			error,
			bytes,
			"lease: id %u (below %d)",
			l->id,
			HD_SWITCH_LEASES_MAX
		);
	if (swx->leases[l->id].copies)
		return refuse(-EEXIST, error, bytes, "lease: id %u is in use", l->id);
	if (l->dtype != HD_SWITCH_DTYPE_FIXED32 || l->count != HD_SWITCH_LANES)
		return refuse(
			-EINVAL,
			error,
			bytes,
			"lease: %u values of type %u (the program has %d of type %d)",
			l->count,
			l->dtype,
			HD_SWITCH_LANES,
			HD_SWITCH_DTYPE_FIXED32
		);
	if (l->slot_count == 0 || l->first_slot + l->slot_count > HD_SWITCH_SLOTS)
		return refuse(-EINVAL, error, bytes, "lease: slots (within %d)", HD_SWITCH_SLOTS);
	if (l->member_count == 0 || l->member_count > HD_SWITCH_MEMBERS_MAX
	    || l->receiver_count > HD_SWITCH_RECEIVERS_MAX)
		return refuse(
			-EINVAL,
			error,
			bytes,
			"lease: members (1 to %d), receivers (at most %d)",
			HD_SWITCH_MEMBERS_MAX,
			HD_SWITCH_RECEIVERS_MAX
		);
	if (l->waits == 0 || (l->waits & ~all_of(l->member_count)) != 0)
		return refuse(
			-EINVAL,
			error,
			bytes,
			"lease: waits for others than its members, or for none"
		);
	return 0;
}

static bool has_token(const struct swx *swx, uint64_t token) {
	for (uint32_t i = 0; i < HD_SWITCH_LEASES_MAX; i++) {
		const struct swx_lease *held = &swx->leases[i];
		uint32_t count = held->lease.member_count + held->lease.receiver_count;

		for (uint32_t k = 0; held->tokens && k < count; k++)
			if (held->tokens[k] == token)
				return true;
	}
	return false;
}

/* With slots of another lease two jobs would add to the same cells. */
static int
check_shared(const struct swx *swx, const struct hd_switch_lease *l, char *error, size_t bytes) {
	for (uint32_t i = 0; i < HD_SWITCH_LEASES_MAX; i++) {
		const struct hd_switch_lease *other = &swx->leases[i].lease;

		if (swx->leases[i].copies && l->first_slot < other->first_slot + other->slot_count
		    && other->first_slot < l->first_slot + l->slot_count)
			return refuse(-EEXIST, error, bytes, "lease: slots that lease %u has", i);
	}
	for (uint32_t i = 0; i < l->member_count; i++)
		if (l->members[i].token == 0 || has_token(swx, l->members[i].token))
			return refuse(
				-EEXIST,
				error,
				bytes,
				"lease: member %u: a token of 0, or another's",
				i
			);
	for (uint32_t i = 0; i < l->receiver_count; i++)
		if (l->receivers[i].token == 0 || has_token(swx, l->receivers[i].token))
			return refuse(
				-EEXIST,
				error,
				bytes,
				"lease: receiver %u: a token of 0, or another's",
				i
			);
	return 0;
}

static bool copy_lease(const struct hd_switch_lease *lease, struct swx_lease *held) {
	uint32_t count = lease->member_count + lease->receiver_count;

	held->copies = calloc(count, sizeof *held->copies);
	held->tokens = calloc(count, sizeof *held->tokens);
	held->workers = calloc(count, sizeof *held->workers);
	if (!held->copies || !held->tokens || !held->workers) {
		forget(held);
		return false;
	}
	held->lease = *lease;
	held->lease.members = NULL;
	held->lease.receivers = NULL;
	held->all = all_of(lease->member_count);
	for (uint32_t i = 0; i < count; i++) {
		bool member = i < lease->member_count;

		held->copies[i] = member ? lease->members[i].copy :
					   lease->receivers[i - lease->member_count];
		held->tokens[i] = member ? lease->members[i].token : held->copies[i].token;
		held->workers[i] = member ? lease->members[i].worker : 0;
	}
	return true;
}

static struct entry token_entry(const struct swx_lease *held, uint32_t i, char key[24]) {
	struct entry entry = {
		.table = "tokens",
		.action = "receiver",
		.key = key,
		.count = 1,
		.values = {held->lease.id},
	};

	(void)snprintf(key, 24, "0x%" PRIx64, held->tokens[i]);
	if (i >= held->lease.member_count)
		return entry;
	entry.action = "member";
	entry.count = 5;
	entry.values[1] = held->workers[i];
	entry.values[2] = UINT64_C(1) << i;
	entry.values[3] = i;
	entry.values[4] = held->copies[i].port;
	return entry;
}

static struct entry lease_entry(const struct swx_lease *held, uint64_t waits, char key[24]) {
	const struct hd_switch_lease *l = &held->lease;

	(void)snprintf(key, 24, "0x%x", l->id);
	return (struct entry){
		.table = "leases",
		.action = "hold",
		.key = key,
		.count = 10,
		.values
		= {l->job,
		   l->epoch,
		   l->attempt,
		   l->shard,
		   l->first_slot,
		   l->slot_count,
		   waits,
		   held->all,
		   l->member_count,
		   l->receiver_count},
	};
}

/* Adds or removes the entries of a lease. */
static int change_lease(
	struct swx *swx,
	const struct swx_lease *held,
	bool add,
	char *error,
	size_t error_bytes
) {
	uint32_t count = held->lease.member_count + held->lease.receiver_count;
	char key[24];
	struct entry entry = lease_entry(held, held->lease.waits, key);
	int code;

	entry.action = add ? entry.action : NULL;
	code = change(swx, &entry, error, error_bytes);
	for (uint32_t i = 0; i < count && code == 0; i++) {
		entry = token_entry(held, i, key);
		entry.action = add ? entry.action : NULL;
		code = change(swx, &entry, error, error_bytes);
	}
	if (code == 0)
		return commit(swx, error, error_bytes);
	rte_swx_ctl_pipeline_abort(swx->ctl);
	return code;
}

/* Marks its cells as unused: a new chunk begins a sum whatever they contain. */
static int
clear_cells(struct swx *swx, const struct hd_switch_lease *l, char *error, size_t error_bytes) {
	int code = 0;

	for (uint32_t i = 0; i < l->slot_count && code == 0; i++) {
		uint32_t cell = l->first_slot + i;

		code = write_register(swx, "keys", cell, 0, error, error_bytes);
		if (code == 0)
			code = write_register(
				swx, "keys", cell + HD_SWITCH_SLOTS, 0, error, error_bytes
			);
	}
	return code;
}

int swx_lease_set(
	void *self,
	const struct hd_switch_lease *lease,
	char *error,
	size_t error_bytes
) {
	struct swx *swx = self;
	struct swx_lease held = {0};
	int code = check_lease(swx, lease, error, error_bytes);

	if (code == 0)
		code = check_shared(swx, lease, error, error_bytes);
	if (code < 0)
		return code;
	if (!copy_lease(lease, &held))
		return refuse(-ENOMEM, error, error_bytes, "no memory");
	code = clear_cells(swx, lease, error, error_bytes);
	if (code == 0)
		code = change_lease(swx, &held, true, error, error_bytes);
	if (code < 0)
		forget(&held);
	else
		swx->leases[lease->id] = held;
	return code;
}

static struct swx_lease *find_lease(struct swx *swx, uint16_t id, char *error, size_t error_bytes) {
	if (id < HD_SWITCH_LEASES_MAX && swx->leases[id].copies)
		return &swx->leases[id];
	(void)refuse(-ENOENT, error, error_bytes, "lease: %u is not there", id);
	return NULL;
}

int swx_lease_waits(void *self, uint16_t id, uint64_t waits, char *error, size_t error_bytes) {
	struct swx *swx = self;
	struct swx_lease *held = find_lease(swx, id, error, error_bytes);
	char key[24];
	struct entry entry;
	int code;

	if (!held)
		return -ENOENT;
	if (waits == 0 || (waits & ~held->lease.waits) != 0)
		return refuse(
			-EINVAL, error, error_bytes, "lease: waits for new members, or for none"
		);
	entry = lease_entry(held, waits, key);
	code = change_all(swx, &entry, 1, error, error_bytes);
	if (code == 0)
		held->lease.waits = waits;
	return code;
}

int swx_lease_end(void *self, uint16_t id, char *error, size_t error_bytes) {
	struct swx *swx = self;
	struct swx_lease *held = find_lease(swx, id, error, error_bytes);
	int code;

	if (!held)
		return -ENOENT;
	code = change_lease(swx, held, false, error, error_bytes);
	if (code == 0)
		forget(held);
	return code;
}

int swx_lease_stats(const void *self, uint16_t id, struct hd_switch_lease_stats *stats) {
	(void)self;
	(void)id;
	(void)stats;
	return -ENOTSUP;
}

/* --- ordinary frames ----------------------------------------------------------------------- */

int swx_mac_set(void *self, const uint8_t mac[6], uint16_t port, char *error, size_t error_bytes) {
	char key[24];
	const struct entry entry = {
		.table = "macs",
		.action = "forward",
		.key = key,
		.count = 1,
		.values = {port},
	};

	if ((mac[0] & 1) || mac_number(mac) == 0 || port >= HD_SWITCH_PORTS_MAX)
		return refuse(
			-EINVAL,
			error,
			error_bytes,
			"mac: not a station's, or a port beyond %d",
			HD_SWITCH_PORTS_MAX
		);
	(void)snprintf(key, sizeof key, "0x%" PRIx64, mac_number(mac));
	return change_all(self, &entry, 1, error, error_bytes);
}

int swx_route_set(
	void *self,
	const struct hd_switch_route *route,
	char *error,
	size_t error_bytes
) {
	uint32_t mask = route->bits == 0 || route->bits > 32 ? 0 : UINT32_MAX << (32 - route->bits);
	char key[32];
	const struct entry entry = {
		.table = "routes",
		.action = "route",
		.key = key,
		.count = 2,
		.values = {route->port, mac_number(route->mac)},
	};

	if (route->bits > 32 || (route->prefix & ~mask) != 0 || route->port >= HD_SWITCH_PORTS_MAX
	    || (route->mac[0] & 1) || mac_number(route->mac) == 0)
		return refuse(-EINVAL, error, error_bytes, "route: prefix, port or mac");
	(void)snprintf(key, sizeof key, "0x%x/0x%x", route->prefix, mask);
	return change_all(self, &entry, 1, error, error_bytes);
}

int swx_simulate(void *self, uint32_t seed, uint32_t threshold, char *error, size_t error_bytes) {
	int code;

	if (threshold > 1u << 24 || (threshold != 0 && seed == 0))
		return refuse(
			-EINVAL, error, error_bytes, "simulate: a threshold beyond 2^24, or seed 0"
		);
	code = write_register(self, "simulator", 0, seed, error, error_bytes);
	return code == 0 ? write_register(self, "simulator", 1, threshold, error, error_bytes) :
			   code;
}

void swx_counters(const void *self, uint64_t counters[HD_SWITCH_COUNTER_COUNT]) {
	const struct swx *swx = self;
	const char *registers = find_registers(swx, "counters");

	if (!registers)
		registers = find_registers(swx, "counters_bytes");
	memset(counters, 0, HD_SWITCH_COUNTER_COUNT * sizeof *counters);
	for (uint32_t i = 0; registers && i < HD_SWITCH_COUNTER_COUNT; i++)
		(void)rte_swx_ctl_pipeline_regarray_read(swx->pipeline, registers, i, &counters[i]);
}
