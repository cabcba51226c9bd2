/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of the shell's tables, and the message that asks for one. hd_rows.h has documents and pages. */
#include "ctl_base.h"
#include "ctl_dataplane.h"
#include "ctl_elastic.h"
#include "ctl_grouping.h"
#include "ctl_slots.h"
#include "ctl_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct table {
	const struct hd_row_shape *shape;
	uint64_t (*rows)(const struct hd_controller *c, struct hd_rows *rows);
};

static const struct table tables[] = {
	{&ctl_nodes_row_shape, ctl_rows_nodes},
	{&ctl_jobs_row_shape, ctl_rows_jobs},
	{&ctl_links_row_shape, ctl_rows_links},
	{&ctl_transfers_row_shape, ctl_rows_transfers},
	{&ctl_drops_row_shape, ctl_rows_drops},
	{&ctl_estimates_row_shape, ctl_rows_estimates},
	{&ctl_staleness_row_shape, ctl_rows_staleness},
	{&ctl_plan_row_shape, ctl_rows_plan},
	{&ctl_groups_row_shape, ctl_rows_groups},
	{&ctl_switches_row_shape, ctl_rows_switches},
	{&ctl_leases_row_shape, ctl_rows_leases},
	{&ctl_elastic_row_shape, ctl_rows_elastic},
	{&ctl_settings_row_shape, ctl_rows_settings},
	{&hd_ports_shape, ctl_rows_group},
	{&hd_queues_shape, ctl_rows_group},
	{&hd_cores_shape, ctl_rows_group},
	{&hd_counters_shape, ctl_rows_counters},
	{&hd_histograms_shape, ctl_rows_histograms},
	{&ctl_dataplane_shape, ctl_rows_dataplane},
	{&ctl_dataplane_hosts_shape, ctl_rows_dataplane_hosts},
	{&ctl_dataplane_jobs_shape, ctl_rows_dataplane_jobs},
	{&ctl_dataplane_links_shape, ctl_rows_dataplane_links},
};

const struct hd_row_shape *hd_controller_shape(size_t index) {
	return index < sizeof tables / sizeof tables[0] ? tables[index].shape : NULL;
}

static const struct table *table_find(const char *name) {
	for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
		if (strcmp(tables[i].shape->name, name) == 0)
			return &tables[i];
	return NULL;
}

char *hd_controller_table(
	const struct hd_controller *c,
	const char *name,
	const char *filter,
	const char **error
) {
	const struct table *table = table_find(name);
	struct hd_rows rows;
	const char *wrong = "no such table";

	if (table)
		wrong = hd_rows_begin(&rows, table->shape, filter, c->now, c->config.epoch);
	if (wrong) {
		*error = wrong;
		return NULL;
	}
	return hd_rows_end(&rows, table->rows(c, &rows), error);
}

void ctl_show(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_show *m,
	struct hd_sink *sink
) {
	struct hd_message message = {.kind = HD_MSG_TABLE};
	const char *error = NULL;
	char *json;

	c->counters.shows++;
	if (ctl_dataplane_has(m->table))
		ctl_dataplane_watch(c);
	json = hd_controller_table(c, m->table, m->filter, &error);
	if (!json) {
		char text[HD_TEXT_BYTES_MAX];

		(void)snprintf(text, sizeof text, "show %s: %s", m->table, error);
		ctl_refuse(c, node, 0, text, sink);
		return;
	}
	(void)snprintf(message.table.table, sizeof message.table.table, "%s", m->table);
	message.table.json.data = (const uint8_t *)json;
	message.table.json.bytes = (uint32_t)strlen(json);
	ctl_send(c, node, &message, sink);
	free(json);
}
