/* SPDX-License-Identifier: BSD-3-Clause */
#include "switch_executor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "executor: %s\n", #condition);                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static int on_neighbour(
	void *owner,
	uint32_t ipv4,
	struct hd_switch_copy *copy,
	char *error,
	size_t error_bytes
) {
	struct executor *e = owner;

	if (e->incarnation != e->seen)
		return -EIO;
	e->asked++;
	if (e->unknown > 0) {
		e->unknown--;
		return -EAGAIN;
	}
	if (e->fail_neighbour) {
		(void)snprintf(error, error_bytes, "no way there");
		return e->fail_neighbour;
	}
	copy->port = (uint16_t)(ipv4 & 0x3f);
	memcpy(copy->mac, &(uint8_t[]){2, 0, 0, 0, 0, (uint8_t)ipv4}, 6);
	return 0;
}

static void check_against(const struct executor *e, const struct hd_switch_lease *new) {
	for (uint32_t id = 0; id < HD_SWITCH_LEASES_MAX; id++) {
		const struct hd_switch_lease *old = &e->lease[id];

		if (!e->held[id])
			continue;
		MUST(new->first_slot + new->slot_count <= old->first_slot
		     || old->first_slot + old->slot_count <= new->first_slot);
		for (uint32_t i = 0; i < old->member_count; i++)
			for (uint32_t k = 0; k < new->member_count; k++)
				MUST(old->members[i].token != new->members[k].token);
	}
}

static int
on_set(void *owner, const struct hd_switch_lease *lease, char *error, size_t error_bytes) {
	struct executor *e = owner;
	uint64_t all
		= lease->member_count == 64 ? UINT64_MAX : (UINT64_C(1) << lease->member_count) - 1;

	if (e->fail_set || e->incarnation != e->seen)
		return e->fail_set ? e->fail_set : -EIO;
	MUST(lease->id < HD_SWITCH_LEASES_MAX && !e->held[lease->id]);
	MUST(lease->slot_count > 0 && lease->first_slot + lease->slot_count <= HD_SWITCH_SLOTS);
	MUST(lease->member_count > 0 && lease->member_count <= HD_SWITCH_MEMBERS_MAX);
	MUST(lease->receiver_count <= HD_SWITCH_RECEIVERS_MAX);
	MUST(lease->waits == all);
	for (uint32_t i = 0; i < lease->member_count; i++)
		MUST(lease->members[i].token != 0
		     && lease->members[i].copy.port == (lease->members[i].copy.ipv4 & 0x3f));
	check_against(e, lease);
	e->held[lease->id] = true;
	e->lease[lease->id] = *lease;
	memcpy(e->members[lease->id], lease->members, lease->member_count * sizeof *lease->members);
	if (lease->receiver_count > 0)
		memcpy(e->receivers[lease->id],
		       lease->receivers,
		       lease->receiver_count * sizeof *lease->receivers);
	e->lease[lease->id].members = e->members[lease->id];
	e->lease[lease->id].receivers = e->receivers[lease->id];
	e->count++;
	e->sets++;
	return 0;
}

static int on_waits(void *owner, uint16_t id, uint64_t waits, char *error, size_t error_bytes) {
	struct executor *e = owner;

	if (e->incarnation != e->seen)
		return -EIO;
	MUST(id < HD_SWITCH_LEASES_MAX && e->held[id]);
	MUST(waits != 0 && (waits & ~e->lease[id].waits) == 0);
	if (e->fail_waits)
		return e->fail_waits;
	e->lease[id].waits = waits;
	return 0;
}

static int on_end(void *owner, uint16_t id, char *error, size_t error_bytes) {
	struct executor *e = owner;

	if (e->incarnation != e->seen)
		return -EIO;
	MUST(id < HD_SWITCH_LEASES_MAX && e->held[id]);
	e->held[id] = false;
	e->count--;
	e->ends++;
	return 0;
}

static int on_counters(
	void *owner,
	uint64_t counters[HD_SWITCH_COUNTER_COUNT],
	char *error,
	size_t error_bytes
) {
	const struct executor *e = owner;

	if (e->fail_counters)
		return e->fail_counters;
	counters[HD_SWITCH_COUNTER_drop_token] = 5;
	return 0;
}

static int on_watch(void *owner, uint64_t *incarnation, char *error, size_t error_bytes) {
	struct executor *e = owner;

	e->watched++;
	if (e->fail_watch) {
		(void)snprintf(error, error_bytes, "no such process");
		return e->fail_watch;
	}
	*incarnation = e->seen = e->incarnation;
	return 0;
}

void executor_restart(struct executor *e) {
	memset(e->held, 0, sizeof e->held);
	e->count = 0;
	e->incarnation++;
}

uint32_t executor_disturb(struct executor *e, uint64_t dice) {
	uint32_t lost = dice < 8 ? e->count : 0;

	e->fail_watch = dice >= 5 && dice < 8 ? -EIO : 0;
	if (dice < 8)
		executor_restart(e);
	return lost;
}

void executor_recover(struct executor *e) {
	e->unknown = 0;
	e->fail_neighbour = e->fail_set = e->fail_waits = e->fail_counters = e->fail_watch = 0;
}

const struct hd_switch_agent_ops executor_ops = {
	.neighbour = on_neighbour,
	.lease_set = on_set,
	.lease_waits = on_waits,
	.lease_end = on_end,
	.counters = on_counters,
	.watch = on_watch,
};
