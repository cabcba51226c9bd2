/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns the text into configuration calls: definitions come before their uses. */
#include "hd_swx_private.h"

#include <rte_common.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANY_NODE (-1) /* of memory */
#define STRUCT_BYTES_MAX 256

static int fail(int code, const char *what, const char *name, char *error, size_t error_bytes) {
	(void)snprintf(
		error,
		error_bytes,
		"spec: %s '%s': %s",
		what,
		name,
		strerror(code < 0 ? -code : code)
	);
	return code < 0 ? code : -EINVAL;
}

static int load_struct(struct swx *swx, const struct hd_spec_struct *s) {
	struct rte_swx_field_params *fields = calloc(s->field_count, sizeof *fields);
	int code;

	if (!fields)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->field_count; i++) {
		fields[i].name = s->fields[i].name;
		fields[i].n_bits = s->fields[i].bits;
	}
	code = rte_swx_pipeline_struct_type_register(
		swx->pipeline, s->name, fields, s->field_count, s->variable
	);
	free(fields);
	return code;
}

/* An instruction has one byte for a field's offset: a larger one would silently address another field. */
static bool fits(const struct hd_spec_struct *s) {
	uint32_t bits = 0;

	for (uint32_t i = 0; i < s->field_count; i++)
		bits += s->fields[i].bits;
	return s->variable || bits <= STRUCT_BYTES_MAX * 8;
}

static int load_types(struct swx *swx, char *error, size_t error_bytes) {
	const struct hd_spec *spec = swx->spec;
	int code;

	for (uint32_t i = 0; i < spec->struct_count; i++) {
		code = fits(&spec->structs[i]) ? load_struct(swx, &spec->structs[i]) : -E2BIG;
		if (code)
			return fail(code, "struct", spec->structs[i].name, error, error_bytes);
	}
	for (uint32_t i = 0; i < spec->header_count; i++) {
		code = rte_swx_pipeline_packet_header_register(
			swx->pipeline, spec->headers[i].name, spec->headers[i].type
		);
		if (code)
			return fail(code, "header", spec->headers[i].name, error, error_bytes);
	}
	code = rte_swx_pipeline_packet_metadata_register(swx->pipeline, spec->metadata);
	return code ? fail(code, "metadata", spec->metadata, error, error_bytes) : 0;
}

static int load_arrays(struct swx *swx, char *error, size_t error_bytes) {
	const struct hd_spec *spec = swx->spec;

	for (uint32_t i = 0; i < spec->register_count; i++) {
		const struct hd_spec_array *array = &spec->registers[i];
		/* It would take as many as the power of two below. */
		int code = rte_swx_pipeline_regarray_config(
			swx->pipeline, array->name, rte_align32pow2(array->size), array->initial
		);

		if (code)
			return fail(code, "registers", array->name, error, error_bytes);
	}
	for (uint32_t i = 0; i < spec->meter_count; i++) {
		const struct hd_spec_array *array = &spec->meters[i];
		int code
			= rte_swx_pipeline_metarray_config(swx->pipeline, array->name, array->size);

		if (code)
			return fail(code, "meters", array->name, error, error_bytes);
	}
	return 0;
}

static int load_actions(struct swx *swx, char *error, size_t error_bytes) {
	for (uint32_t i = 0; i < swx->spec->action_count; i++) {
		const struct hd_spec_action *action = &swx->spec->actions[i];
		int code;

		code = rte_swx_pipeline_action_config(
			swx->pipeline,
			action->name,
			action->arguments,
			(const char **)action->lines,
			action->line_count
		);

		if (code)
			return fail(code, "action", action->name, error, error_bytes);
	}
	return 0;
}

static int load_table(struct swx *swx, const struct hd_spec_table *table) {
	static const enum rte_swx_table_match_type kinds[] = {
		[HD_SPEC_EXACT] = RTE_SWX_TABLE_MATCH_EXACT,
		[HD_SPEC_WILDCARD] = RTE_SWX_TABLE_MATCH_WILDCARD,
		[HD_SPEC_LPM] = RTE_SWX_TABLE_MATCH_LPM,
	};
	struct rte_swx_match_field_params *keys = calloc(table->key_count + 1, sizeof *keys);
	const char **names = calloc(table->choice_count + 1, sizeof *names);
	int *entries = calloc(table->choice_count + 1, sizeof *entries);
	int *defaults = calloc(table->choice_count + 1, sizeof *defaults);
	struct rte_swx_pipeline_table_params params = {
		.fields = table->key_count > 0 ? keys : NULL,
		.n_fields = table->key_count,
		.action_names = names,
		.action_is_for_table_entries = entries,
		.action_is_for_default_entry = defaults,
		.n_actions = table->choice_count,
		.default_action_name = table->default_action,
		.default_action_args = table->default_arguments,
		.default_action_is_const = table->default_const,
		.hash_func_name = table->hash,
	};
	int code = -ENOMEM;

	for (uint32_t i = 0; keys && i < table->key_count; i++) {
		keys[i].name = table->keys[i].field;
		keys[i].match_type = kinds[table->keys[i].match];
	}
	for (uint32_t i = 0; names && entries && defaults && i < table->choice_count; i++) {
		names[i] = table->choices[i].action;
		entries[i] = table->choices[i].for_entries;
		defaults[i] = table->choices[i].for_default;
	}
	if (keys && names && entries && defaults)
		code = rte_swx_pipeline_table_config(
			swx->pipeline,
			table->name,
			&params,
			table->type,
			table->options,
			table->size
		);
	free(keys);
	free(names);
	free(entries);
	free(defaults);
	return code;
}

static int load_tables(struct swx *swx, char *error, size_t error_bytes) {
	for (uint32_t i = 0; i < swx->spec->table_count; i++) {
		int code = load_table(swx, &swx->spec->tables[i]);

		if (code)
			return fail(code, "table", swx->spec->tables[i].name, error, error_bytes);
	}
	return 0;
}

int swx_load(struct swx *swx, const char *name, char *error, size_t error_bytes) {
	int code = rte_swx_pipeline_config(&swx->pipeline, name, ANY_NODE);

	if (code)
		return fail(code, "pipeline", name, error, error_bytes);
	code = load_types(swx, error, error_bytes);
	if (code == 0)
		code = load_arrays(swx, error, error_bytes);
	if (code == 0)
		code = load_actions(swx, error, error_bytes);
	if (code == 0)
		code = load_tables(swx, error, error_bytes);
	if (code)
		return code;
	code = rte_swx_pipeline_instructions_config(
		swx->pipeline, (const char **)swx->spec->lines, swx->spec->line_count
	);
	return code ? fail(code, "instructions of", "apply", error, error_bytes) : 0;
}

/* --- ports --------------------------------------------------------------------------------- */

/* For both directions: the argument is the port. */
static void *port_create(void *argument) {
	return argument;
}

static void port_free(void *port) {
	(void)port;
}

static int port_receive(void *port, struct rte_swx_pkt *packet) {
	struct swx *swx = port;
	struct hd_switch_packet *next;

	if (swx->fed == swx->count)
		return 0;
	next = &swx->packets[swx->fed++];
	swx_packet_in(next, packet);
	packet->handle = next;
	return 1;
}

static void port_send(void *port, struct rte_swx_pkt *packet) {
	((struct swx *)port)->done++;
	swx_packet_out(packet, packet->handle);
}

static void port_drop(void *port, struct rte_swx_pkt *packet) {
	((struct swx *)port)->done++;
	((struct hd_switch_packet *)packet->handle)->verdict = HD_SWITCH_DROP;
}

static void port_clone(void *port, struct rte_swx_pkt *packet) {
	(void)port;
	(void)packet;
}

static void port_clone_cut(void *port, struct rte_swx_pkt *packet, uint32_t bytes) {
	(void)bytes;
	port_clone(port, packet);
}

static void in_stats(void *port, struct rte_swx_port_in_stats *stats) {
	(void)port;
	memset(stats, 0, sizeof *stats);
}

static void out_stats(void *port, struct rte_swx_port_out_stats *stats) {
	(void)port;
	memset(stats, 0, sizeof *stats);
}

static struct rte_swx_port_in_ops in_ops = {
	.create = port_create,
	.free = port_free,
	.pkt_rx = port_receive,
	.stats_read = in_stats,
};

static struct rte_swx_port_out_ops out_ops = {
	.create = port_create,
	.free = port_free,
	.pkt_tx = port_send,
	.pkt_fast_clone_tx = port_clone,
	.pkt_clone_tx = port_clone_cut,
	.stats_read = out_stats,
};

static struct rte_swx_port_out_ops drop_ops = {
	.create = port_create,
	.free = port_free,
	.pkt_tx = port_drop,
	.pkt_fast_clone_tx = port_clone,
	.pkt_clone_tx = port_clone_cut,
	.stats_read = out_stats,
};

int swx_build(struct swx *swx, char *error, size_t error_bytes) {
	struct rte_swx_pipeline *p = swx->pipeline;
	int code = rte_swx_pipeline_port_in_type_register(p, "heddle", &in_ops);

	if (code == 0)
		code = rte_swx_pipeline_port_out_type_register(p, "heddle", &out_ops);
	if (code == 0)
		code = rte_swx_pipeline_port_out_type_register(p, "heddle-drop", &drop_ops);
	if (code == 0)
		code = rte_swx_pipeline_port_in_config(p, 0, "heddle", swx);
	if (code == 0)
		code = rte_swx_pipeline_port_out_config(p, 0, "heddle", swx);
	if (code == 0)
		code = rte_swx_pipeline_port_out_config(p, SWX_DROP_PORT, "heddle-drop", swx);
	if (code)
		return fail(code, "ports of", "the pipeline", error, error_bytes);
	code = rte_swx_pipeline_build(p);
	if (code)
		return fail(code, "building", "the pipeline", error, error_bytes);
	swx->ctl = rte_swx_ctl_pipeline_create(p);
	return swx->ctl ? 0 : fail(-ENOMEM, "control of", "the pipeline", error, error_bytes);
}
