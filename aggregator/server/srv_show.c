/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers a shell: jobs, counters, and the driver's ports, queues and cores. The controller has the rest. */
#include "hd_poll.h"
#include "hd_rows.h"
#include "hd_stat_groups.h"
#include "srv_peer.h"

#include <stdio.h>

static const struct hd_row_shape models_shape = {
	.name = "models",
	.help = "jobs of a server (--server)",
	.group = &hd_server_job_group,
};

const struct hd_row_shape *const hd_server_shapes[] = {
	&models_shape,
	&srv_federated_shape,
	&hd_ports_shape,
	&hd_queues_shape,
	&hd_cores_shape,
	&hd_counters_shape,
	&hd_histograms_shape,
	NULL,
};

static void gather(const void *node, struct hd_stats *stats) {
	const struct hd_server *server = node;

	hd_server_gather(server, stats);
	if (server->config.ops && server->config.ops->gather)
		server->config.ops->gather(server->config.owner, stats);
}

char *hd_server_table(
	const struct hd_server *server,
	hd_ns now,
	const char *table,
	const char *filter,
	const char **error
) {
	static const struct hd_stat_group *const own[] = {&hd_server_group, NULL};
	const struct hd_row_shape *shape = hd_row_shape_find(hd_server_shapes, table);
	const char *wrong
		= "no such table (of a server: models, rounds, ports, queues, cores, counters, "
		  "histograms)";
	struct hd_stats *stats;
	struct hd_rows rows;
	uint64_t total;

	if (shape)
		wrong = hd_rows_begin(&rows, shape, filter, now, server->epoch);
	if (wrong) {
		*error = wrong;
		return NULL;
	}
	*error = "no memory";
	if (shape == &srv_federated_shape) {
		total = srv_federated_rows(server, now, &rows);
		return hd_rows_end(&rows, total, error);
	}
	stats = hd_stats_create();
	if (!stats) {
		hd_out_fini(&rows.out);
		return NULL;
	}
	gather(server, stats);
	total = shape == &hd_histograms_shape ? hd_rows_histograms(&rows, stats) :
		shape->group                  ? hd_rows_group(&rows, stats) :
						hd_rows_counters(&rows, stats, own, NULL);
	hd_stats_destroy(stats);
	return hd_rows_end(&rows, total, error);
}

void srv_refuse_command(struct srv_turn *turn, struct srv_peer *peer) {
	struct hd_message message = {.kind = HD_MSG_REFUSE};

	message.refuse.reason = HD_REASON_REFUSED;
	(void)snprintf(
		message.refuse.text,
		sizeof message.refuse.text,
		"a server takes no commands: send it to the controller"
	);
	srv_peer_send(turn, peer, &message);
}

void srv_show(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_show *show) {
	struct hd_message message = {.kind = HD_MSG_TABLE};
	const char *error = NULL;
	char *json = hd_server_table(turn->server, turn->now, show->table, show->filter, &error);

	if (!json) {
		message = (struct hd_message){.kind = HD_MSG_REFUSE};
		message.refuse.reason = HD_REASON_REFUSED;
		(void)snprintf(
			message.refuse.text,
			sizeof message.refuse.text,
			"show %s: %s",
			show->table,
			error
		);
		srv_peer_send(turn, peer, &message);
		return;
	}
	memcpy(message.table.table, show->table, sizeof message.table.table);
	message.table.json.data = (const uint8_t *)json;
	message.table.json.bytes = (uint32_t)strlen(json);
	srv_peer_send(turn, peer, &message);
	free(json);
}

void srv_poll(struct srv_turn *turn, const struct hd_msg_poll *poll) {
	hd_poll_answer(
		turn->server->upstream.session, poll, gather, turn->server, turn->now, turn->sink
	);
}
