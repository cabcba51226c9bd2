/* SPDX-License-Identifier: BSD-3-Clause */
/* What is counted, and what a shell may ask a switch: its slots, its counters, and the program's ports, queues and
 * cores. */
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
	STAT(drop_malformed, "packets", "dropped: not decodable", HD_STAT_COUNTER),
	STAT(drop_version, "packets", "dropped: other wire version", HD_STAT_COUNTER),
	STAT(drop_type, "packets", "dropped: a type that a switch's agent does not take", HD_STAT_COUNTER),
	STAT(refused_messages, "messages", "out of place: role, kind, members", HD_STAT_COUNTER),
	STAT(leases, "leases", "leases put in force", HD_STAT_COUNTER),
	STAT(leases_refused, "leases", "leases refused: slots, shape, epoch, a member that is not found", HD_STAT_COUNTER),
	STAT(leases_ended, "leases", "leases that were in force and are over", HD_STAT_COUNTER),
	STAT(leases_expired, "leases", "of these, for want of a controller", HD_STAT_COUNTER),
	STAT(waits_changed, "changes", "members taken out of a lease", HD_STAT_COUNTER),
	STAT(executor_errors, "calls", "calls of the executor that failed", HD_STAT_COUNTER),
	STAT(neighbours_asked, "calls", "looks for a member whose place was not known", HD_STAT_COUNTER),
	STAT(leases_now, "leases", "leases now, in force or about to be", HD_STAT_GAUGE),
	STAT(slots_now, "slots", "slots of these", HD_STAT_GAUGE),
	STAT(slots_all, "slots", "slots that can be leased", HD_STAT_GAUGE),
	STAT(leases_pushes, "leases", "of the leases now, those of pushes: their sums go to a server", HD_STAT_GAUGE),
	STAT(slots_pushes, "slots", "slots of these", HD_STAT_GAUGE),
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
	.help = "packets of a switch on the path",
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
	hd_stats_add(stats, &hd_switch_agent_group, NULL, &agent->stats);
	hd_stats_add(stats, &hd_endpoint_group, NULL, hd_endpoint_stats(agent->endpoint));
}

/* --- tables ----------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	const struct hd_stat_group *group; /* NULL: all without labels, counter by counter */
} tables[] = {
	{"ports", &hd_port_group},
	{"queues", &hd_queue_group},
	{"cores", &hd_core_group},
	{"counters", NULL},
};

static void lease_row(struct hd_rows *rows, hd_ns now, const struct agent_lease *lease) {
	const struct hd_switch_lease *is = &lease->is;
	char text[24];

	if (!hd_row_begin(rows))
		return;
	hd_row_count(rows, "id", is->id);
	(void)snprintf(text, sizeof text, "%08x", is->job);
	hd_row_text(rows, "job", text);
	(void)snprintf(text, sizeof text, "%016llx", (unsigned long long)lease->name);
	hd_row_text(rows, "lease", text);
	hd_row_text(
		rows,
		"state",
		!lease->held                          ? "finding" :
			lease->expires_at == HD_NEVER ? "held" :
							"expiring"
	);
	hd_row_count(rows, "epoch", is->epoch);
	hd_row_count(rows, "attempt", is->attempt);
	hd_row_text(rows, "type", is->dtype == HD_DTYPE_FIXED32 ? "fixed32" : "fp32");
	hd_row_count(rows, "count", is->count);
	hd_row_count(rows, "first_slot", is->first_slot);
	hd_row_count(rows, "slots", is->slot_count);
	hd_row_count(rows, "members", is->member_count);
	hd_row_count(rows, "waits", (uint64_t)__builtin_popcountll(is->waits));
	hd_row_count(rows, "receivers", is->receiver_count);
	hd_row_real(rows, "age_s", (double)(now - lease->made) * 1e-9);
	hd_row_end(rows);
}

static uint64_t rows_leases(struct hd_rows *rows, hd_ns now, const struct hd_switch_agent *agent) {
	for (uint32_t i = 0; i < HD_SWITCH_LEASES_MAX && !rows->full; i++)
		if (agent->leases[i])
			lease_row(rows, now, agent->leases[i]);
	return agent->stats.leases_now;
}

/* One row: the switch, its slots, and what its executor counted. */
static uint64_t rows_switch(struct hd_rows *rows, const struct hd_switch_agent *agent) {
	const struct hd_switch_agent_config *config = &agent->config;
	uint64_t counters[HD_SWITCH_COUNTER_COUNT] = {0};
	char words[HD_TEXT_BYTES_MAX] = "";

	if (!hd_row_begin(rows))
		return 1;
	hd_row_text(rows, "switch", agent->host);
	hd_row_text(
		rows,
		"state",
		agent->upstream.closed             ? "draining" :
			agent->upstream.refused    ? "refused" :
			agent->upstream.registered ? "led" :
						     "alone"
	);
	hd_row_count(rows, "slots", agent->stats.slots_all);
	hd_row_count(rows, "leased", agent->stats.slots_now);
	hd_row_count(rows, "leases", agent->stats.leases_now);
	if (config->ops->counters(config->owner, counters, words, sizeof words) == 0)
		for (size_t i = 0; i < HD_SWITCH_COUNTER_COUNT; i++)
			hd_row_count(rows, counters_of[i].name, counters[i]);
	hd_row_end(rows);
	return 1;
}

static uint64_t
rows_stats(struct hd_rows *rows, const struct hd_switch_agent *agent, size_t table) {
	static const struct hd_stat_group *const own[] = {&hd_switch_counter_group, NULL};
	struct hd_stats *stats = hd_stats_create();
	uint64_t total;

	if (!stats)
		return 0;
	hd_switch_agent_gather(agent, stats);
	if (agent->config.ops->gather)
		agent->config.ops->gather(agent->config.owner, stats);
	total = tables[table].group ? hd_rows_group(rows, stats, tables[table].group) :
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
	const size_t count = sizeof tables / sizeof tables[0];
	const bool leases = strcmp(table, "slots") == 0, whole = strcmp(table, "switch") == 0;
	struct hd_rows rows;
	const char *wrong;
	uint64_t total;
	size_t i = 0;

	while (i < count && strcmp(tables[i].name, table) != 0)
		i++;
	if (i == count && !leases && !whole)
		wrong = "no such table (of a switch: switch, slots, ports, queues, cores, counters)";
	else
		wrong = hd_rows_begin(&rows, table, filter, now, agent->epoch);
	if (wrong) {
		*error = wrong;
		return NULL;
	}
	if (i < count)
		total = rows_stats(&rows, agent, i);
	else
		total = whole ? rows_switch(&rows, agent) : rows_leases(&rows, now, agent);
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
