/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Leases: SLOTS --> FINDING (where are its members?) --> HELD --> over. Ids and slots belong to a lease from SLOTS on;
 * the executor knows it while it is held.
 */
#include "hd_switch_agent_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

/* --- the executor ---------------------------------------------------------------------------- */

/* Keeps the executor's text if it failed. */
static int keep_error(struct hd_switch_agent *agent, int rc, const char *what, const char *words) {
	if (rc == 0 || rc == -EAGAIN)
		return rc;
	agent->stats.executor_errors++;
	(void)snprintf(
		agent->error,
		sizeof agent->error,
		"%s: %.400s",
		what,
		words[0] ? words : strerror(-rc)
	);
	return rc;
}

static int tell_set(struct hd_switch_agent *agent, const struct agent_lease *lease) {
	char words[HD_TEXT_BYTES_MAX] = "";
	int rc = agent->config.ops->lease_set(agent->config.owner, &lease->is, words, sizeof words);

	return keep_error(agent, rc, "lease_set", words);
}

static int tell_waits(struct hd_switch_agent *agent, const struct agent_lease *lease) {
	char words[HD_TEXT_BYTES_MAX] = "";
	int rc = agent->config.ops->lease_waits(
		agent->config.owner, lease->is.id, lease->is.waits, words, sizeof words
	);

	return keep_error(agent, rc, "lease_waits", words);
}

static void tell_end(struct hd_switch_agent *agent, const struct agent_lease *lease) {
	char words[HD_TEXT_BYTES_MAX] = "";
	int rc = agent->config.ops->lease_end(
		agent->config.owner, lease->is.id, words, sizeof words
	);

	(void)keep_error(agent, rc, "lease_end", words);
}

static int ask_neighbour(struct hd_switch_agent *agent, struct hd_switch_copy *copy) {
	char words[HD_TEXT_BYTES_MAX] = "";
	int rc = agent->config.ops->neighbour(
		agent->config.owner, copy->ipv4, copy, words, sizeof words
	);

	agent->stats.neighbours_asked += rc == -EAGAIN;
	return keep_error(agent, rc, "neighbour", words);
}

/* --- the table ------------------------------------------------------------------------------- */

static struct agent_lease *find(const struct hd_switch_agent *agent, uint64_t name) {
	for (uint32_t i = 0; i < HD_SWITCH_LEASES_MAX; i++)
		if (agent->leases[i] && agent->leases[i]->name == name)
			return agent->leases[i];
	return NULL;
}

/* A free id; HD_SWITCH_LEASES_MAX: none. */
static uint16_t free_id(const struct hd_switch_agent *agent) {
	for (uint32_t i = 0; i < HD_SWITCH_LEASES_MAX; i++) {
		uint32_t id = (agent->id_next + i) % HD_SWITCH_LEASES_MAX;

		if (!agent->leases[id])
			return (uint16_t)id;
	}
	return HD_SWITCH_LEASES_MAX;
}

/* The first run of this many free slots in [from, end of the slots); HD_SWITCH_SLOTS: none. */
static uint16_t
free_slots_from(const struct hd_switch_agent *agent, uint32_t from, uint32_t count) {
	uint32_t run = 0;

	for (uint32_t i = from; i < agent->config.slots; i++) {
		run = agent->slot_taken[i] ? 0 : run + 1;
		if (run == count)
			return (uint16_t)(i + 1 - count);
	}
	return HD_SWITCH_SLOTS;
}

static uint16_t free_slots(const struct hd_switch_agent *agent, uint32_t count) {
	uint16_t first = free_slots_from(agent, agent->slot_next, count);

	return first < HD_SWITCH_SLOTS ? first : free_slots_from(agent, 0, count);
}

static void take(struct hd_switch_agent *agent, struct agent_lease *lease) {
	uint16_t first = lease->is.first_slot, count = lease->is.slot_count;

	assert(!agent->leases[lease->is.id] && !agent->slot_taken[first]);
	agent->leases[lease->is.id] = lease;
	agent->id_next = (uint16_t)((lease->is.id + 1) % HD_SWITCH_LEASES_MAX);
	memset(agent->slot_taken + first, 1, count);
	agent->slot_next = (uint16_t)((first + count) % agent->config.slots);
	agent->stats.leases_now++;
	agent->stats.slots_now += count;
	if (lease->is.receiver_count > 0) {
		agent->stats.leases_pushes++;
		agent->stats.slots_pushes += count;
	}
}

static void give(struct hd_switch_agent *agent, struct agent_lease *lease) {
	assert(agent->leases[lease->is.id] == lease);
	assert(agent->stats.leases_now > 0 && agent->stats.slots_now >= lease->is.slot_count);
	agent->leases[lease->is.id] = NULL;
	memset(agent->slot_taken + lease->is.first_slot, 0, lease->is.slot_count);
	agent->stats.leases_now--;
	agent->stats.slots_now -= lease->is.slot_count;
	if (lease->is.receiver_count > 0) {
		agent->stats.leases_pushes--;
		agent->stats.slots_pushes -= lease->is.slot_count;
	}
	free(lease);
}

/* --- answers --------------------------------------------------------------------------------- */

static enum hd_reason reason_of(int rc) {
	switch (rc) {
	case 0:
		return HD_REASON_NONE;
	case -ENOMEM:
	case -ENOSPC:
		return HD_REASON_NO_MEMORY;
	case -EINVAL:
	case -ENOTSUP:
		return HD_REASON_REFUSED;
	case -EAGAIN:
		return HD_REASON_TIMEOUT;
	default:
		return HD_REASON_CLOSED;
	}
}

static void end(struct agent_turn *turn, struct agent_lease *lease) {
	if (lease->held)
		tell_end(turn->agent, lease);
	turn->agent->stats.leases_ended += lease->held;
	give(turn->agent, lease);
}

static void fail(struct agent_turn *turn, struct agent_lease *lease, enum hd_reason reason) {
	uint64_t name = lease->name;
	uint32_t job = lease->is.job;

	turn->agent->stats.leases_refused += !lease->held;
	end(turn, lease);
	agent_report(turn, job, name, reason, 0);
}

/* --- contents of SLOTS ----------------------------------------------------------------------- */

static bool is_token_known(const struct hd_switch_agent *agent, uint64_t token) {
	for (uint32_t i = 0; i < HD_SWITCH_LEASES_MAX; i++) {
		const struct agent_lease *lease = agent->leases[i];

		for (uint32_t k = 0; lease && k < lease->is.member_count; k++)
			if (lease->members[k].token == token)
				return true;
		for (uint32_t k = 0; lease && k < lease->is.receiver_count; k++)
			if (lease->receivers[k].token == token)
				return true;
	}
	return false;
}

/* Reads the members. False: too many or none, a token that is 0 or in use, or one worker twice in an all-reduce. In
 * sums to receivers a worker may have several updates. */
static bool take_members(
	const struct hd_switch_agent *agent,
	struct agent_lease *lease,
	const struct hd_msg_slots *m
) {
	int members = hd_group_count(&m->members, HD_GROUP_SEAT_BYTES);

	if (members < 1 || members > HD_SWITCH_MEMBERS_MAX)
		return false;
	for (uint32_t i = 0; i < (uint32_t)members; i++) {
		struct hd_group_seat seat = hd_group_get_seat(&m->members, i);

		for (uint32_t k = 0; k < i; k++)
			if (lease->members[k].token == seat.token
			    || (lease->members[k].worker == seat.worker && m->receivers.bytes == 0))
				return false;
		if (!seat.token || !seat.result_token || is_token_known(agent, seat.token))
			return false;
		lease->members[i].token = seat.token;
		lease->members[i].worker = seat.worker;
		lease->members[i].copy.token = seat.result_token;
		lease->members[i].copy.ipv4 = seat.ipv4;
		lease->members[i].copy.udp_port = seat.port;
	}
	lease->is.member_count = (uint32_t)members;
	return true;
}

/* The same for the receivers, of which there may be none. */
static bool take_receivers(
	const struct hd_switch_agent *agent,
	struct agent_lease *lease,
	const struct hd_msg_slots *m
) {
	int receivers = hd_group_count(&m->receivers, HD_GROUP_RECEIVER_BYTES);

	receivers = m->receivers.bytes == 0 ? 0 : receivers;
	if (receivers < 0 || receivers > HD_SWITCH_RECEIVERS_MAX)
		return false;
	for (uint32_t i = 0; i < (uint32_t)receivers; i++) {
		struct hd_group_receiver receiver = hd_group_get_receiver(&m->receivers, i);

		for (uint32_t k = 0; k < lease->is.member_count; k++)
			if (lease->members[k].token == receiver.token)
				return false;
		for (uint32_t k = 0; k < i; k++)
			if (lease->receivers[k].token == receiver.token)
				return false;
		if (!receiver.token || is_token_known(agent, receiver.token))
			return false;
		lease->receivers[i].token = receiver.token;
		lease->receivers[i].ipv4 = receiver.ipv4;
		lease->receivers[i].udp_port = receiver.port;
	}
	lease->is.receiver_count = (uint32_t)receivers;
	return true;
}

static uint64_t all_members(const struct agent_lease *lease) {
	uint32_t count = lease->is.member_count;

	return count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
}

/* NONE, or why the lease is refused. */
static enum hd_reason take_shape(
	const struct hd_switch_agent *agent,
	struct agent_lease *lease,
	const struct hd_msg_slots *m
) {
	const struct hd_switch_agent_config *config = &agent->config;

	if (m->epoch != agent->epoch)
		return HD_REASON_EPOCH;
	if (m->dtype >= HD_DTYPE_COUNT || (config->dtypes >> m->dtype & 1) == 0
	    || m->count < config->count_min || m->count > config->count_max || m->slots == 0
	    || m->slots > config->slots || !take_members(agent, lease, m)
	    || !take_receivers(agent, lease, m))
		return HD_REASON_REFUSED;
	if (m->waits == 0 || (m->waits & ~all_members(lease)) != 0)
		return HD_REASON_REFUSED;
	lease->is.id = free_id(agent);
	lease->is.first_slot = free_slots(agent, m->slots);
	if (lease->is.id == HD_SWITCH_LEASES_MAX || lease->is.first_slot == HD_SWITCH_SLOTS)
		return HD_REASON_NO_MEMORY;
	lease->name = m->lease;
	lease->is.job = m->job;
	lease->is.epoch = m->epoch;
	lease->is.attempt = m->attempt;
	lease->is.shard = m->shard;
	lease->is.dtype = m->dtype;
	lease->is.count = m->count;
	lease->is.slot_count = m->slots;
	lease->is.waits = m->waits;
	lease->is.members = lease->members;
	lease->is.receivers = lease->receivers;
	lease->expires_us = m->expires_us;
	lease->expires_at = HD_NEVER;
	return HD_REASON_NONE;
}

/* --- finding members, and then setting it ----------------------------------------------------- */

/* 0: all are found; -EAGAIN: try again; else it is refused. */
static int look(struct hd_switch_agent *agent, struct agent_lease *lease) {
	uint32_t members = lease->is.member_count;
	int rc = 0;

	while (rc == 0 && lease->found < members + lease->is.receiver_count) {
		rc = ask_neighbour(
			agent,
			lease->found < members ? &lease->members[lease->found].copy :
						 &lease->receivers[lease->found - members]
		);
		lease->found += rc == 0;
	}
	return rc;
}

/* Executors first get a lease that waits for all members; those not in `waits` are removed from the existing one. */
static int set(struct hd_switch_agent *agent, struct agent_lease *lease) {
	uint64_t waits = lease->is.waits;
	int rc;

	lease->is.waits = all_members(lease);
	rc = tell_set(agent, lease);
	lease->is.waits = waits;
	lease->held = rc == 0;
	return rc == 0 && waits != all_members(lease) ? tell_waits(agent, lease) : rc;
}

static void go_on(struct agent_turn *turn, struct agent_lease *lease) {
	int rc = look(turn->agent, lease);

	if (rc == -EAGAIN && turn->now < lease->find_until) {
		lease->look_at = hd_ns_min(turn->now + AGENT_ASK_NS, lease->find_until);
		return;
	}
	if (rc == -EAGAIN)
		(void)snprintf(
			turn->agent->error,
			sizeof turn->agent->error,
			"neighbour: member %u does not answer (AGENT_FIND_NS)",
			lease->found
		);
	if (rc == 0)
		rc = set(turn->agent, lease);
	if (rc < 0) {
		fail(turn, lease, reason_of(rc));
		return;
	}
	turn->agent->stats.leases++;
	agent_report(turn, lease->is.job, lease->name, HD_REASON_NONE, lease->is.waits);
}

static void
change_waits(struct agent_turn *turn, struct agent_lease *lease, const struct hd_msg_slots *m) {
	int rc = 0;

	if (m->waits == 0 || (m->waits & ~lease->is.waits) != 0) {
		turn->agent->stats.refused_messages++;
		return;
	}
	turn->agent->stats.waits_changed += m->waits != lease->is.waits;
	lease->is.waits = m->waits;
	if (!lease->held)
		return; /* its answer will locate them */
	rc = tell_waits(turn->agent, lease);
	if (rc < 0)
		fail(turn, lease, reason_of(rc));
	else
		agent_report(turn, lease->is.job, lease->name, HD_REASON_NONE, lease->is.waits);
}

void agent_slots(struct agent_turn *turn, const struct hd_msg_slots *m) {
	struct agent_lease *lease = find(turn->agent, m->lease);
	enum hd_reason reason;

	if (lease) {
		change_waits(turn, lease, m);
		return;
	}
	lease = calloc(1, sizeof *lease);
	reason = lease ? take_shape(turn->agent, lease, m) : HD_REASON_NO_MEMORY;
	if (reason) {
		free(lease);
		turn->agent->stats.leases_refused++;
		agent_report(turn, m->job, m->lease, reason, 0);
		return;
	}
	lease->made = turn->now;
	lease->find_until = hd_ns_add(turn->now, AGENT_FIND_NS);
	take(turn->agent, lease);
	go_on(turn, lease);
}

void agent_void(struct agent_turn *turn, const struct hd_msg_void_ *m) {
	struct agent_lease *lease = find(turn->agent, m->token);

	if (lease && lease->is.job == m->job)
		end(turn, lease);
}

/* --- time and ends --------------------------------------------------------------------------- */

void agent_leases_alone(struct agent_turn *turn) {
	for (uint32_t i = 0; i < HD_SWITCH_LEASES_MAX; i++) {
		struct agent_lease *lease = turn->agent->leases[i];

		if (lease && !lease->held)
			end(turn, lease);
		else if (lease && lease->expires_at == HD_NEVER)
			lease->expires_at = hd_ns_add(turn->now, (hd_ns)lease->expires_us * HD_US);
	}
}

void agent_leases_restart(struct agent_turn *turn) {
	for (uint32_t i = 0; i < HD_SWITCH_LEASES_MAX; i++) {
		struct agent_lease *lease = turn->agent->leases[i];

		if (lease && lease->is.epoch == turn->agent->epoch)
			end(turn, lease);
	}
}

void agent_leases_end_all(struct agent_turn *turn) {
	for (uint32_t i = 0; i < HD_SWITCH_LEASES_MAX; i++)
		if (turn->agent->leases[i])
			end(turn, turn->agent->leases[i]);
}

void agent_leases_check(struct agent_turn *turn) {
	for (uint32_t i = 0; i < HD_SWITCH_LEASES_MAX && turn->agent->stats.leases_now; i++) {
		struct agent_lease *lease = turn->agent->leases[i];

		if (lease && !lease->held && turn->now >= lease->look_at)
			go_on(turn, lease);
		else if (lease && turn->now >= lease->expires_at) {
			turn->agent->stats.leases_expired++;
			fail(turn, lease, HD_REASON_EXPIRED);
		}
	}
	agent_tell_slots(turn);
}

hd_ns agent_leases_deadline(const struct hd_switch_agent *agent) {
	hd_ns at = HD_NEVER;

	for (uint32_t i = 0; i < HD_SWITCH_LEASES_MAX && agent->stats.leases_now; i++) {
		const struct agent_lease *lease = agent->leases[i];

		if (lease)
			at = hd_ns_min(at, lease->held ? lease->expires_at : lease->look_at);
	}
	return at;
}
