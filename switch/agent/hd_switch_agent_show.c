/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters, and answers to a shell: the slots, counters, and the program's ports, queues and cores. */
#include "hd_poll.h"
#include "hd_rows.h"
#include "hd_stat_groups.h"
#include "hd_switch_agent_internal.h"

#include <assert.h>
#include <stdio.h>

/* --- counters --------------------------------------------------------------------------------- */

/* clang-format off */
#define STAT(name, unit, help, kind) \
	{#name, unit, help, kind, HD_STAT_U64, offsetof(struct hd_switch_agent_stats, name)}

static const struct hd_stat stats_of[] = {
	STAT(drop_malformed, "packets", "dropped: cannot be decoded", HD_STAT_COUNTER),
	STAT(drop_version, "packets", "dropped: another wire version", HD_STAT_COUNTER),
	STAT(drop_type, "packets",
		"dropped: a packet type that the agent of a switch does not accept", HD_STAT_COUNTER),
	STAT(refused_messages, "messages", "messages refused: unexpected role, kind or members", HD_STAT_COUNTER),
	STAT(leases, "leases", "leases put in force", HD_STAT_COUNTER),
	STAT(leases_refused, "leases",
		"leases refused: slots, shape, epoch, or a member that was not found", HD_STAT_COUNTER),
	STAT(leases_ended, "leases", "leases in force that have ended", HD_STAT_COUNTER),
	STAT(leases_expired, "leases", "ended leases: no controller", HD_STAT_COUNTER),
	STAT(leases_lost, "leases", "ended leases: the executor had lost them", HD_STAT_COUNTER),
	STAT(waits_changed, "changes", "members removed from a lease", HD_STAT_COUNTER),
	STAT(executor_errors, "calls", "failed calls of the executor", HD_STAT_COUNTER),
	STAT(executor_losses, "times", "times that the executor did not answer, or had restarted", HD_STAT_COUNTER),
	STAT(neighbours_asked, "calls", "lookups of members whose port was not known", HD_STAT_COUNTER),
	STAT(leases_now, "leases", "leases in force or being installed", HD_STAT_GAUGE),
	STAT(slots_now, "slots", "slots of these leases", HD_STAT_GAUGE),
	STAT(slots_all, "slots", "slots that can be leased", HD_STAT_GAUGE),
	STAT(leases_pushes, "leases", "leases of groups of pushes: their sums go to a server", HD_STAT_GAUGE),
	STAT(slots_pushes, "slots", "slots of the leases of groups of pushes", HD_STAT_GAUGE),
};

#define COUNTER(name, help) \
	{#name, "", help, HD_STAT_COUNTER, HD_STAT_U64, HD_SWITCH_COUNTER_##name * sizeof(uint64_t)},
static const struct hd_stat counters_of[] = {HD_SWITCH_COUNTERS(COUNTER)};
/* clang-format on */

static_assert(
	sizeof stats_of / sizeof stats_of[0] == sizeof(struct hd_switch_agent_stats) / 8,
	"every counter of the struct is in the table"
);

const struct hd_stat_group hd_switch_agent_group = {
	.name = "switch_agent",
	.help = "the agent of a switch on the path",
	.stats = stats_of,
	.count = sizeof stats_of / sizeof stats_of[0],
};

const struct hd_stat_group hd_switch_counter_group = {
	.name = "switch",
	.help = "frames and chunks of a switch on the path",
	.stats = counters_of,
	.count = sizeof counters_of / sizeof counters_of[0],
};

const struct hd_stat_group *const hd_switch_agent_groups[]
	= {&hd_switch_counter_group, &hd_switch_agent_group, &hd_endpoint_group, NULL};

void hd_switch_agent_gather(const struct hd_switch_agent *agent, struct hd_stats *stats) {
	uint64_t counters[HD_SWITCH_COUNTER_COUNT] = {0};
	char words[HD_TEXT_BYTES_MAX] = "";

	if (agent->config.ops->counters(agent->config.owner, counters, words, sizeof words) == 0)
		hd_stats_add(stats, &hd_switch_counter_group, NULL, counters);
	else
		hd_stats_leave_out(stats);
	hd_stats_add(stats, &hd_switch_agent_group, NULL, &agent->stats);
	hd_stats_add(stats, &hd_endpoint_group, NULL, hd_endpoint_stats(agent->endpoint));
}

/* --- tables ----------------------------------------------------------------------------------- */

/* clang-format off */
#define SLOTS(F, row) \
	F(row, id, COUNT, "number of the lease in the executor") \
	F(row, job, TEXT, "id of the job") \
	F(row, lease, TEXT, "number of the lease at the controller") \
	F(row, state, TEXT, "finding (locates its members), held, expiring (no controller)") \
	F(row, epoch, COUNT, "epoch of the controller that leased it") \
	F(row, attempt, COUNT, "attempt of its chunks") \
	F##_OF(row, type, "fixed32 fp32", "type of the values: fixed32 or fp32") \
	F(row, count, COUNT, "values in a chunk") \
	F(row, first_slot, COUNT, "first slot, in the executor's registers") \
	F(row, slots, COUNT, "number of slots") \
	F(row, members, COUNT, "workers of the lease") \
	F(row, waits, COUNT, "members that a sum still waits for") \
	F(row, receivers, COUNT, "receivers of sums other than the members") \
	F(row, age_s, REAL, "seconds since the lease was requested")
/* clang-format on */

HD_ROW_SHAPE(agent_slots_shape, slots_row, SLOTS, "slots", "leases of a switch (--server)");

/* clang-format off */
#define SWITCH(F, row) \
	F##_AS(row, at, "switch", TEXT, "name of the switch in the topology") \
	F(row, state, TEXT, "led (by a controller), alone, refused, draining, lost (the executor does not answer)") \
	F(row, slots, COUNT, "slots that can be leased") \
	F(row, leased, COUNT, "slots that are leased") \
	F(row, leases, COUNT, "leases in force or being installed")
/* clang-format on */

HD_ROW_SHAPE(
	agent_switch_shape,
	switch_row,
	SWITCH,
	"switch",
	"state and counters of a switch (--server); the counters are missing while its executor does not answer",
	.group = &hd_switch_counter_group,
	.partial = true
);

const struct hd_row_shape *const hd_switch_agent_shapes[] = {
	&agent_switch_shape,
	&agent_slots_shape,
	&hd_ports_shape,
	&hd_queues_shape,
	&hd_cores_shape,
	&hd_counters_shape,
	NULL,
};

static void lease_row(struct hd_rows *rows, hd_ns now, const struct agent_lease *lease) {
	const struct hd_switch_lease *is = &lease->is;
	char job[24], name[24];

	if (!hd_row_begin(rows))
		return;
	(void)snprintf(job, sizeof job, "%08x", is->job);
	(void)snprintf(name, sizeof name, "%016llx", (unsigned long long)lease->name);
	hd_row_put(
		rows,
		&agent_slots_shape,
		&(struct slots_row){
			.id = is->id,
			.job = job,
			.lease = name,
			.state = !lease->held                 ? "finding" :
				lease->expires_at == HD_NEVER ? "held" :
								"expiring",
			.epoch = is->epoch,
			.attempt = is->attempt,
			.type = is->dtype == HD_DTYPE_FIXED32 ? "fixed32" : "fp32",
			.count = is->count,
			.first_slot = is->first_slot,
			.slots = is->slot_count,
			.members = is->member_count,
			.waits = (uint64_t)__builtin_popcountll(is->waits),
			.receivers = is->receiver_count,
			.age_s = (double)(now - lease->made) * 1e-9,
		}
	);
	hd_row_end(rows);
}

static uint64_t rows_leases(struct hd_rows *rows, hd_ns now, const struct hd_switch_agent *agent) {
	for (uint32_t i = 0; i < HD_SWITCH_LEASES_MAX && !rows->full; i++)
		if (agent->leases[i])
			lease_row(rows, now, agent->leases[i]);
	return agent->stats.leases_now;
}

/* One row: the switch, its slots, and its executor's counters. */
static uint64_t rows_switch(struct hd_rows *rows, const struct hd_switch_agent *agent) {
	const struct hd_switch_agent_config *config = &agent->config;
	uint64_t counters[HD_SWITCH_COUNTER_COUNT] = {0};
	union hd_stat_value values[HD_SWITCH_COUNTER_COUNT];
	const struct hd_stats_row row = {.group = &hd_switch_counter_group, .value = values};
	char words[HD_TEXT_BYTES_MAX] = "";

	if (!hd_row_begin(rows))
		return 1;
	hd_row_put(
		rows,
		&agent_switch_shape,
		&(struct switch_row){
			.at = agent->host,
			.state = agent->upstream.closed    ? "draining" :
				agent->lost                ? "lost" :
				agent->upstream.refused    ? "refused" :
				agent->upstream.registered ? "led" :
							     "alone",
			.slots = agent->stats.slots_all,
			.leased = agent->stats.slots_now,
			.leases = agent->stats.leases_now,
		}
	);
	if (config->ops->counters(config->owner, counters, words, sizeof words) == 0) {
		for (size_t i = 0; i < HD_SWITCH_COUNTER_COUNT; i++)
			values[i].u64 = counters[i];
		hd_row_put_group(rows, &row);
	}
	hd_row_end(rows);
	return 1;
}

static void gather(const void *node, struct hd_stats *stats) {
	const struct hd_switch_agent *agent = node;

	hd_switch_agent_gather(agent, stats);
	if (agent->config.ops->gather)
		agent->config.ops->gather(agent->config.owner, stats);
}

static uint64_t rows_stats(struct hd_rows *rows, const struct hd_switch_agent *agent) {
	static const struct hd_stat_group *const own[] = {&hd_switch_counter_group, NULL};
	struct hd_stats *stats = hd_stats_create();
	uint64_t total;

	if (!stats)
		return 0;
	gather(agent, stats);
	total = rows->shape->group ? hd_rows_group(rows, stats) :
				     hd_rows_counters(rows, stats, own, NULL);
	hd_stats_destroy(stats);
	return total;
}

char *hd_switch_agent_table(
	const struct hd_switch_agent *agent,
	hd_ns now,
	const char *table,
	const char *filter,
	const char **error
) {
	const struct hd_row_shape *shape = hd_row_shape_find(hd_switch_agent_shapes, table);
	const char *wrong
		= "no such table (of a switch: switch, slots, ports, queues, cores, counters)";
	struct hd_rows rows;
	uint64_t total;

	if (shape)
		wrong = hd_rows_begin(&rows, shape, filter, now, agent->epoch);
	if (wrong) {
		*error = wrong;
		return NULL;
	}
	if (shape == &agent_switch_shape)
		total = rows_switch(&rows, agent);
	else if (shape == &agent_slots_shape)
		total = rows_leases(&rows, now, agent);
	else
		total = rows_stats(&rows, agent);
	return hd_rows_end(&rows, total, error);
}

void agent_refuse(struct agent_turn *turn, struct hd_session *session, const char *words) {
	struct hd_message message = {.kind = HD_MSG_REFUSE};

	message.refuse.reason = HD_REASON_REFUSED;
	(void)snprintf(message.refuse.text, sizeof message.refuse.text, "%s", words);
	(void)hd_session_send(session, &message, turn->now, turn->sink);
}

void agent_show(
	struct agent_turn *turn,
	struct hd_session *session,
	const struct hd_msg_show *show
) {
	struct hd_message message = {.kind = HD_MSG_TABLE};
	char words[HD_TEXT_BYTES_MAX];
	const char *error = NULL;
	char *json
		= hd_switch_agent_table(turn->agent, turn->now, show->table, show->filter, &error);

	if (!json) {
		(void)snprintf(words, sizeof words, "show %s: %s", show->table, error);
		agent_refuse(turn, session, words);
		return;
	}
	memcpy(message.table.table, show->table, sizeof message.table.table);
	message.table.json.data = (const uint8_t *)json;
	message.table.json.bytes = (uint32_t)strlen(json);
	(void)hd_session_send(session, &message, turn->now, turn->sink);
	free(json);
}

void agent_poll(
	struct agent_turn *turn,
	struct hd_session *session,
	const struct hd_msg_poll *poll
) {
	hd_poll_answer(session, poll, gather, turn->agent, turn->now, turn->sink);
}
