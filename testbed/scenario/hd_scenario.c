/* SPDX-License-Identifier: BSD-3-Clause */
/* Scenario files: one table of fields for each object, walked by one function. */
#include "hd_fields.h"
#include "hd_message.h"
#include "hd_scenario.h"
#include "hd_scenario_job.h"

#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_INPUTS 64 /* of the digits data set, which scenarios train on */
#define DIGITS_CLASSES 10
#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

/* "worker:3" and the like; prefix includes the colon. */
static bool parse_numbered(const char *text, const char *prefix, uint32_t *number) {
	size_t bytes = strlen(prefix);
	unsigned long n;
	char *end;

	if (strncmp(text, prefix, bytes) != 0 || text[bytes] < '0' || text[bytes] > '9')
		return false;
	n = strtoul(text + bytes, &end, 10);
	if (*end != '\0' || n >= HD_SCENARIO_WORKERS_MAX)
		return false;
	*number = (uint32_t)n;
	return true;
}

/* `other` is the permitted place besides workers and the server. */
static void read_place(
	struct hd_reader *reader,
	const json_t *value,
	const char *path,
	struct hd_place *place,
	enum hd_place_kind other
) {
	const char *text = json_string_value(value);
	const char *name = other == HD_PLACE_EXTRA ? "extra" : "controller";

	place->worker = 0;
	if (text && parse_numbered(text, "worker:", &place->worker))
		place->kind = HD_PLACE_WORKER;
	else if (text && other == HD_PLACE_CONTROLLER && parse_numbered(text, "aggregator:", &place->worker))
		place->kind = HD_PLACE_AGGREGATOR;
	else if (text && strcmp(text, "server") == 0)
		place->kind = HD_PLACE_SERVER;
	else if (text && strcmp(text, "replica") == 0 && other == HD_PLACE_CONTROLLER)
		place->kind = HD_PLACE_REPLICA;
	else if (text && strcmp(text, name) == 0)
		place->kind = (uint8_t)other;
	else
		hd_reader_fail(
			reader,
			path,
			"must be worker:N, server%s or %s",
			other == HD_PLACE_CONTROLLER ? ", replica, aggregator:N" : "",
			name
		);
}

static void read_end(struct hd_reader *reader, const json_t *value, const char *path, void *into) {
	read_place(reader, value, path, into, HD_PLACE_EXTRA);
}

static void read_node(struct hd_reader *reader, const json_t *value, const char *path, void *into) {
	read_place(reader, value, path, into, HD_PLACE_CONTROLLER);
}

static void read_do(struct hd_reader *reader, const json_t *value, const char *path, void *into) {
	const char *text = json_string_value(value);
	uint8_t *what = into;

	if (text && strcmp(text, "kill") == 0)
		*what = HD_DO_KILL;
	else if (text && strcmp(text, "join") == 0)
		*what = HD_DO_JOIN;
	else if (text && strcmp(text, "leave") == 0)
		*what = HD_DO_LEAVE;
	else if (text && strcmp(text, "preempt") == 0)
		*what = HD_DO_PREEMPT;
	else
		hd_reader_fail(reader, path, "must be one of kill, join, leave, preempt");
}

#define AT(type, member) offsetof(struct type, member)

/* A kind of `compute` or `links`: its fields, all required. */
struct variation {
	const char *name;
	uint8_t kind; /* enum hd_variation_kind */
	struct hd_field fields[5];
};

#define VARIATION(member, low, high)                                                               \
	{ #member, HD_FIELD_NUMBER, AT(hd_variation, member), low, high, true, NULL }
#define KIND                                                                                       \
	{ "kind", HD_FIELD_OTHER, 0, 0, 0, true, read_nothing }

/* The kind itself is read before its fields. */
static void
read_nothing(struct hd_reader *reader, const json_t *value, const char *path, void *into) {}

static const struct variation compute_kinds[] = {
	{"none", HD_VARIATION_NONE, {KIND}},
	{"exponential", HD_VARIATION_EXPONENTIAL, {KIND}},
	{"slow-fraction",
	 HD_VARIATION_FRACTION,
	 {KIND, VARIATION(fraction, 0, 1), VARIATION(factor, 1, 1000)}},
	{"redraw",
	 HD_VARIATION_REDRAW,
	 {KIND,
	  VARIATION(low, 0.01, 1000),
	  VARIATION(high, 0.01, 1000),
	  VARIATION(every_s, 0.1, 3600)}},
	{0},
};
#define COMPUTE_KINDS "none, exponential, slow-fraction, redraw"

static const struct variation links_kinds[] = {
	{"none", HD_VARIATION_NONE, {KIND}},
	{"scale-fraction",
	 HD_VARIATION_FRACTION,
	 {KIND, VARIATION(fraction, 0, 1), VARIATION(factor, 0.001, 1000)}},
	{"redraw",
	 HD_VARIATION_REDRAW,
	 {KIND,
	  VARIATION(low, 0.001, 1000),
	  VARIATION(high, 0.001, 1000),
	  VARIATION(every_s, 0.1, 3600)}},
	{0},
};
#define LINKS_KINDS "none, scale-fraction, redraw"

static void read_variation(
	struct hd_reader *reader,
	const json_t *value,
	const char *path,
	const struct variation *kinds,
	const char *names,
	struct hd_variation *variation
) {
	const char *kind = json_string_value(json_object_get(value, "kind"));
	const struct variation *known = kinds;
	char where[HD_FIELD_PATH_BYTES];

	while (known->name && (!kind || strcmp(kind, known->name) != 0))
		known++;
	if (!known->name) {
		hd_field_join(where, path, "kind");
		hd_reader_fail(reader, where, "must be one of %s", names);
		return;
	}
	variation->kind = known->kind;
	hd_read_object(reader, value, path, known->fields, variation);
	if (variation->kind == HD_VARIATION_REDRAW && variation->low > variation->high) {
		hd_field_join(where, path, "low");
		hd_reader_fail(reader, where, "%g is above high", variation->low);
	}
}

static void
read_compute(struct hd_reader *reader, const json_t *value, const char *path, void *into) {
	read_variation(reader, value, path, compute_kinds, COMPUTE_KINDS, into);
}

static void
read_links(struct hd_reader *reader, const json_t *value, const char *path, void *into) {
	read_variation(reader, value, path, links_kinds, LINKS_KINDS, into);
}

static const struct hd_field tenant_fields[] = {
	{"flows", HD_FIELD_U32, AT(hd_scenario_tenant, flows), 1, 64, true, NULL},
	{"from", HD_FIELD_OTHER, AT(hd_scenario_tenant, from), 0, 0, true, read_end},
	{"to", HD_FIELD_OTHER, AT(hd_scenario_tenant, to), 0, 0, true, read_end},
	{"start_s", HD_FIELD_NUMBER, AT(hd_scenario_tenant, start_s), 0, 86400, false, NULL},
	{"stop_s", HD_FIELD_NUMBER, AT(hd_scenario_tenant, stop_s), 0, 86400, false, NULL},
	{0},
};

static const struct hd_field event_fields[] = {
	{"at_s", HD_FIELD_NUMBER, AT(hd_scenario_event, at_s), 0, 86400, true, NULL},
	{"worker", HD_FIELD_U32, AT(hd_scenario_event, worker), 0, 4095, true, NULL},
	{"do", HD_FIELD_OTHER, AT(hd_scenario_event, what), 0, 0, true, read_do},
	{"notice_s", HD_FIELD_NUMBER, AT(hd_scenario_event, notice_s), 0.01, 3600, false, NULL},
	{0},
};

static void
read_node_do(struct hd_reader *reader, const json_t *value, const char *path, void *into) {
	const char *text = json_string_value(value);
	uint8_t *what = into;

	if (text && strcmp(text, "kill") == 0)
		*what = HD_DO_KILL;
	else if (text && strcmp(text, "start") == 0)
		*what = HD_DO_JOIN;
	else
		hd_reader_fail(reader, path, "must be one of kill, start");
}

static const struct hd_field node_event_fields[] = {
	{"at_s", HD_FIELD_NUMBER, AT(hd_scenario_node_event, at_s), 0, 86400, true, NULL},
	{"node", HD_FIELD_OTHER, AT(hd_scenario_node_event, node), 0, 0, true, read_node},
	{"do", HD_FIELD_OTHER, AT(hd_scenario_node_event, what), 0, 0, true, read_node_do},
	{0},
};

static const struct hd_field crash_fields[] = {
	{"at_s", HD_FIELD_NUMBER, AT(hd_scenario_fault, at_s), 0, 86400, true, NULL},
	{"node", HD_FIELD_OTHER, AT(hd_scenario_fault, node), 0, 0, true, read_node},
	{"down_s", HD_FIELD_NUMBER, AT(hd_scenario_fault, for_s), 0, 86400, true, NULL},
	{0},
};

static const struct hd_field partition_fields[] = {
	{"at_s", HD_FIELD_NUMBER, AT(hd_scenario_fault, at_s), 0, 86400, true, NULL},
	{"node", HD_FIELD_OTHER, AT(hd_scenario_fault, node), 0, 0, true, read_node},
	{"for_s", HD_FIELD_NUMBER, AT(hd_scenario_fault, for_s), 0, 86400, true, NULL},
	{0},
};

static void
read_tenants(struct hd_reader *reader, const json_t *value, const char *path, void *into) {
	struct hd_scenario *scenario = into;

	for (size_t i = 0; i < HD_SCENARIO_TENANTS_MAX; i++)
		scenario->tenants[i].stop_s = 86400;
	hd_read_array(
		reader,
		value,
		path,
		&(struct hd_field_array){
			scenario->tenants,
			&scenario->tenant_count,
			HD_SCENARIO_TENANTS_MAX,
			sizeof scenario->tenants[0],
			tenant_fields,
		}
	);
}

static void
read_events(struct hd_reader *reader, const json_t *value, const char *path, void *into) {
	struct hd_scenario *scenario = into;

	for (size_t i = 0; i < HD_SCENARIO_EVENTS_MAX; i++)
		scenario->events[i].notice_s = HD_SCENARIO_NOTICE_S;
	hd_read_array(
		reader,
		value,
		path,
		&(struct hd_field_array){
			scenario->events,
			&scenario->event_count,
			HD_SCENARIO_EVENTS_MAX,
			sizeof scenario->events[0],
			event_fields,
		}
	);
}

static void
read_node_events(struct hd_reader *reader, const json_t *value, const char *path, void *into) {
	struct hd_scenario *scenario = into;

	hd_read_array(
		reader,
		value,
		path,
		&(struct hd_field_array){
			scenario->node_events,
			&scenario->node_event_count,
			HD_SCENARIO_EVENTS_MAX,
			sizeof scenario->node_events[0],
			node_event_fields,
		}
	);
}

static void read_list(
	struct hd_reader *reader,
	const json_t *value,
	const char *path,
	const struct hd_field *fields,
	struct hd_scenario_fault *faults,
	uint32_t *count
) {
	struct hd_field_array array
		= {faults, count, HD_SCENARIO_EVENTS_MAX, sizeof faults[0], fields};

	hd_read_array(reader, value, path, &array);
}

static void
read_crashes(struct hd_reader *reader, const json_t *value, const char *path, void *into) {
	struct hd_scenario *s = into;

	read_list(reader, value, path, crash_fields, s->crashes, &s->crash_count);
}

static void
read_partitions(struct hd_reader *reader, const json_t *value, const char *path, void *into) {
	struct hd_scenario *s = into;

	read_list(reader, value, path, partition_fields, s->partitions, &s->partition_count);
}

static void
read_stops(struct hd_reader *reader, const json_t *value, const char *path, void *into) {
	struct hd_scenario *s = into;

	read_list(reader, value, path, partition_fields, s->stops, &s->stop_count);
}

static const struct hd_field fault_fields[] = {
	{"loss", HD_FIELD_NUMBER, AT(hd_scenario, loss), 0, 1, false, NULL},
	{"duplicate", HD_FIELD_NUMBER, AT(hd_scenario, duplicate), 0, 1, false, NULL},
	{"reorder", HD_FIELD_NUMBER, AT(hd_scenario, reorder), 0, 1, false, NULL},
	{"skew_ppm", HD_FIELD_U32, AT(hd_scenario, skew_ppm), 0, 100000, false, NULL},
	{"crash", HD_FIELD_OTHER, 0, 0, 0, false, read_crashes},
	{"partition", HD_FIELD_OTHER, 0, 0, 0, false, read_partitions},
	{"stop", HD_FIELD_OTHER, 0, 0, 0, false, read_stops},
	{0},
};

static void
read_faults(struct hd_reader *reader, const json_t *value, const char *path, void *into) {
	hd_read_object(reader, value, path, fault_fields, into);
}

static const struct hd_field sim_fields[] = {
	{"depth", HD_FIELD_U32, AT(hd_scenario_sim, depth), 1, 16, false, NULL},
	{"cancel", HD_FIELD_NUMBER, AT(hd_scenario_sim, cancel), 0, 1, false, NULL},
	{"conditional", HD_FIELD_NUMBER, AT(hd_scenario_sim, conditional), 0, 1, false, NULL},
	{"checkpoint_commits",
	 HD_FIELD_U32,
	 AT(hd_scenario_sim, checkpoint_commits),
	 0,
	 1e9,
	 false,
	 NULL},
	{"disk_ms", HD_FIELD_NUMBER, AT(hd_scenario_sim, disk_ms), 0, 60000, false, NULL},
	{"disk_error", HD_FIELD_NUMBER, AT(hd_scenario_sim, disk_error), 0, 1, false, NULL},
	{"updates", HD_FIELD_U64, AT(hd_scenario_sim, updates), 0, 1e12, false, NULL},
	{"settle_s", HD_FIELD_NUMBER, AT(hd_scenario_sim, settle_s), 0.1, 3600, false, NULL},
	{"hold_ms", HD_FIELD_U32, AT(hd_scenario_sim, hold_ms), 0, 60000, false, NULL},
	{"credit_kb", HD_FIELD_U32, AT(hd_scenario_sim, credit_kb), 0, 1 << 20, false, NULL},
	{0},
};

static void read_sim(struct hd_reader *reader, const json_t *value, const char *path, void *into) {
	hd_read_object(reader, value, path, sim_fields, into);
}

static const struct hd_field scenario_fields[] = {
	{"name", HD_FIELD_TEXT, AT(hd_scenario, name), 0, 65, true, NULL},
	{"about", HD_FIELD_TEXT, AT(hd_scenario, about), 0, HD_SCENARIO_TEXT_BYTES, false, NULL},
	{"seed", HD_FIELD_U64, AT(hd_scenario, seed), 0, 9.2e18, false, NULL},
	{"workers", HD_FIELD_U32, AT(hd_scenario, workers), 1, HD_SCENARIO_WORKERS_MAX, true, NULL},
	{"racks", HD_FIELD_U32, AT(hd_scenario, racks), 1, HD_SCENARIO_RACKS_MAX, false, NULL},
	{"switches", HD_FIELD_TEXT, AT(hd_scenario, switches), 0, 16, false, NULL},
	{"trunk_mbps", HD_FIELD_NUMBER, AT(hd_scenario, trunk_mbps), 0.1, 100000, false, NULL},
	{"link_mbps", HD_FIELD_NUMBER, AT(hd_scenario, link_mbps), 0.1, 100000, true, NULL},
	{"server_link_mbps",
	 HD_FIELD_NUMBER,
	 AT(hd_scenario, server_link_mbps),
	 0.1,
	 100000,
	 false,
	 NULL},
	{"aggregators",
	 HD_FIELD_U32,
	 AT(hd_scenario, aggregators),
	 0,
	 HD_SCENARIO_AGGREGATORS_MAX,
	 false,
	 NULL},
	{"aggregator_link_mbps",
	 HD_FIELD_NUMBER,
	 AT(hd_scenario, aggregator_link_mbps),
	 0.1,
	 100000,
	 false,
	 NULL},
	{"latency_us", HD_FIELD_NUMBER, AT(hd_scenario, latency_us), 0, 1000000, false, NULL},
	{"queue_kb", HD_FIELD_NUMBER, AT(hd_scenario, queue_kb), 16, 65536, false, NULL},
	{"duration_s", HD_FIELD_NUMBER, AT(hd_scenario, duration_s), 1, 86400, false, NULL},
	{"monitors", HD_FIELD_U32, AT(hd_scenario, monitors), 0, 1, false, NULL},
	{"replica", HD_FIELD_U32, AT(hd_scenario, replica), 0, 1, false, NULL},
	{"never_alone", HD_FIELD_U32, AT(hd_scenario, never_alone), 0, 1, false, NULL},
	{"div_max", HD_FIELD_NUMBER, AT(hd_scenario, div_max), 0, 1e12, false, NULL},
	{"replicate_every", HD_FIELD_U32, AT(hd_scenario, replicate_every), 0, 1e9, false, NULL},
	{"job", HD_FIELD_OTHER, AT(hd_scenario, job), 0, 0, true, hd_scenario_read_job},
	{"compute", HD_FIELD_OTHER, AT(hd_scenario, compute), 0, 0, false, read_compute},
	{"links", HD_FIELD_OTHER, AT(hd_scenario, links), 0, 0, false, read_links},
	{"tenants", HD_FIELD_OTHER, 0, 0, 0, false, read_tenants},
	{"workers_events", HD_FIELD_OTHER, 0, 0, 0, false, read_events},
	{"nodes_events", HD_FIELD_OTHER, 0, 0, 0, false, read_node_events},
	{"faults", HD_FIELD_OTHER, 0, 0, 0, false, read_faults},
	{"sim", HD_FIELD_OTHER, AT(hd_scenario, sim), 0, 0, false, read_sim},
	{0},
};

void hd_scenario_init(struct hd_scenario *scenario) {
	*scenario = (struct hd_scenario){
		.seed = 1,
		.racks = 1,
		.switches = "bridge",
		.queue_kb = 128,
		.duration_s = 60,
		.job = {
			.model = "mlp",
			.hidden_count = 2,
			.hidden = {512, 512},
			.batch = 32,
			.compute_ms = 150,
			.tau_max = 16,
			.learning_rate = 0.05,
			.momentum = 0.9,
			.weight_decay = 1e-4,
			.staleness_c = 1,
			.target_accuracy = 0.95,
		},
		.sim = {.depth = 1, .disk_ms = 5, .settle_s = 60, .credit_kb = HD_CREDIT_BYTES / 1024},
	};
}

/* Checks that `list[index].member` names an existing worker or aggregator. */
static void check_place(
	struct hd_reader *reader,
	const char *list,
	uint32_t index,
	const char *member,
	struct hd_place place,
	const struct hd_scenario *s
) {
	char path[HD_FIELD_PATH_BYTES];

	(void)snprintf(path, sizeof path, "%s[%u].%s", list, index, member);
	if (place.kind == HD_PLACE_WORKER && place.worker >= s->workers)
		hd_reader_fail(reader, path, "there are %u workers", s->workers);
	if (place.kind == HD_PLACE_AGGREGATOR && place.worker >= s->aggregators)
		hd_reader_fail(reader, path, "there are %u aggregators", s->aggregators);
}

/* Workers have events of their own; a replica must exist to be killed. */
static void check_node_event(
	struct hd_reader *reader,
	uint32_t i,
	struct hd_place node,
	const struct hd_scenario *s
) {
	char path[HD_FIELD_PATH_BYTES];

	check_place(reader, "nodes_events", i, "node", node, s);
	(void)snprintf(path, sizeof path, "nodes_events[%u].node", i);
	if (node.kind == HD_PLACE_WORKER)
		hd_reader_fail(reader, path, "is a worker (workers_events)");
	if (node.kind == HD_PLACE_REPLICA && !s->replica)
		hd_reader_fail(reader, path, "there is no replica");
}

static void check_tenant(struct hd_reader *reader, uint32_t i, const struct hd_scenario_tenant *t) {
	char path[HD_FIELD_PATH_BYTES];

	if (t->from.kind == t->to.kind && t->from.worker == t->to.worker) {
		(void)snprintf(path, sizeof path, "tenants[%u].to", i);
		hd_reader_fail(reader, path, "is where it comes from");
	}
	if (t->stop_s <= t->start_s) {
		(void)snprintf(path, sizeof path, "tenants[%u].stop_s", i);
		hd_reader_fail(reader, path, "is not after start_s");
	}
}

/* Checks fields that depend on each other. */
static void check_together(struct hd_reader *reader, const struct hd_scenario *s) {
	for (uint32_t i = 0; i < s->tenant_count; i++) {
		check_place(reader, "tenants", i, "from", s->tenants[i].from, s);
		check_place(reader, "tenants", i, "to", s->tenants[i].to, s);
		check_tenant(reader, i, &s->tenants[i]);
	}
	for (uint32_t i = 0; i < s->event_count; i++) {
		struct hd_place worker = {HD_PLACE_WORKER, s->events[i].worker};

		check_place(reader, "workers_events", i, "worker", worker, s);
	}
	for (uint32_t i = 0; i < s->node_event_count; i++)
		check_node_event(reader, i, s->node_events[i].node, s);
	for (uint32_t i = 0; i < s->crash_count; i++)
		check_place(reader, "faults.crash", i, "node", s->crashes[i].node, s);
	for (uint32_t i = 0; i < s->partition_count; i++)
		check_place(reader, "faults.partition", i, "node", s->partitions[i].node, s);
	for (uint32_t i = 0; i < s->stop_count; i++)
		check_place(reader, "faults.stop", i, "node", s->stops[i].node, s);
	if (s->racks > s->workers)
		hd_reader_fail(reader, "racks", "there are %u workers", s->workers);
	if (s->racks > 1 && s->trunk_mbps == 0)
		hd_reader_fail(reader, "racks", "%u racks need trunk_mbps", s->racks);
	if (s->racks == 1 && s->trunk_mbps > 0)
		hd_reader_fail(reader, "trunk_mbps", "there is one rack");
	if (strcmp(s->switches, "bridge") != 0 && strcmp(s->switches, "bmv2") != 0)
		hd_reader_fail(reader, "switches", "must be one of bridge, bmv2");
	if (s->name[strspn(s->name, NAME_CHARACTERS)] || !*s->name)
		hd_reader_fail(reader, "name", "must be 1..64 letters, digits, . _ -");
}

/* Bytes of the trainer's model on the digits. */
static uint64_t model_bytes(const struct hd_scenario_job *job) {
	uint64_t inputs = DIGITS_INPUTS, values = 0;
	uint32_t layers = strcmp(job->model, "mlp") == 0 ? job->hidden_count : 0;

	for (uint32_t i = 0; i < layers; i++) {
		values += (inputs + 1) * job->hidden[i];
		inputs = job->hidden[i];
	}
	return 4 * (values + (inputs + 1) * DIGITS_CLASSES);
}

int hd_scenario_parse(
	const char *text,
	const char *name,
	struct hd_scenario *scenario,
	char *error,
	size_t error_bytes
) {
	struct hd_reader reader
		= {.file = name, .text = text, .error = error, .error_bytes = error_bytes};
	json_error_t where;
	json_t *tree = json_loads(text, JSON_REJECT_DUPLICATES, &where);
	struct hd_scenario *read = malloc(sizeof *read);

	if (!read || !tree) {
		(void)snprintf(
			error,
			error_bytes,
			"%s: line %d: %s",
			name,
			where.line,
			tree ? "out of memory" : where.text
		);
		reader.failed = true;
	} else {
		hd_scenario_init(read);
		hd_read_object(&reader, tree, "", scenario_fields, read);
		check_together(&reader, read);
		if (read->server_link_mbps == 0)
			read->server_link_mbps = read->link_mbps;
		if (read->aggregator_link_mbps == 0)
			read->aggregator_link_mbps = read->link_mbps;
		read->job.bytes_of_model = read->job.update_bytes == 0;
		if (read->job.bytes_of_model)
			read->job.update_bytes = model_bytes(&read->job);
	}
	if (!reader.failed)
		*scenario = *read;
	free(read);
	json_decref(tree);
	return reader.failed ? -EINVAL : 0;
}
