/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the records. */
#include "hd_results.h"

#include <errno.h>
#include <jansson.h>

static json_t *reasons(const struct hd_check_stats *s) {
	json_t *object = json_object();

	for (int i = 0; i < HD_REASON_COUNT; i++)
		if (s->reasons[i] > 0)
			json_object_set_new(
				object,
				hd_reason_name((enum hd_reason)i),
				json_integer((json_int_t)s->reasons[i])
			);
	return object;
}

static json_t *staleness(const struct hd_results_run *run) {
	const struct hd_check_stats *s = &run->result.pushes;

	return json_pack(
		"{s:f, s:f, s:I, s:i}",
		"mean",
		hd_results_mean(s),
		"variance",
		hd_results_variance(s),
		"max",
		(json_int_t)s->delay_max,
		"bound",
		(int)run->tau_max
	);
}

/* Updates by their delay; the last counts all larger ones. */
static json_t *histogram(const struct hd_check_stats *s) {
	json_t *object = json_object();
	char delay[8];

	for (unsigned i = 0; i < HD_CHECK_DELAYS; i++) {
		if (s->delays[i] == 0)
			continue;
		(void)snprintf(delay, sizeof delay, "%u", i);
		json_object_set_new(object, delay, json_integer((json_int_t)s->delays[i]));
	}
	return object;
}

static json_t *evaluations(const struct hd_curve *curve) {
	json_t *list = json_array();

	for (uint32_t i = 0; i < curve->count; i++) {
		const struct hd_evaluation *e = &curve->points[i];

		json_array_append_new(
			list,
			json_pack(
				"{s:f, s:I, s:f, s:f}",
				"t",
				e->at_s,
				"version",
				(json_int_t)e->updates,
				"accuracy",
				e->accuracy,
				"loss",
				e->loss
			)
		);
	}
	return list;
}

static json_t *tried(const struct hd_results_rate *rates, size_t count) {
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(
			list,
			json_pack(
				"{s:f, s:f, s:b, s:i, s:i}",
				"learning_rate",
				rates[i].rate,
				"mean_s",
				rates[i].mean_s,
				"more_than",
				(int)rates[i].lost,
				"reached",
				(int)rates[i].reached,
				"seeds",
				(int)rates[i].seeds
			)
		);
	return list;
}

static json_t *known(bool is, json_t *value) {
	if (is)
		return value;
	json_decref(value);
	return json_null();
}

static json_t *filter(const struct hd_results_run *run) {
	const struct hd_cluster_result *r = &run->result;

	return json_pack(
		"{s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I}",
		"v",
		run->filter,
		"held_norm",
		r->held_norm,
		"steps",
		(json_int_t)r->filtered,
		"returned",
		(json_int_t)r->returned,
		"undone",
		(json_int_t)r->undone,
		"regained",
		(json_int_t)r->regained,
		"doubled",
		(json_int_t)r->doubled,
		"flushed",
		(json_int_t)r->flushed
	);
}

/* Fields of training; null without. */
static void put_training(json_t *json, const struct hd_results_run *run) {
	const struct hd_cluster_result *r = &run->result;
	bool reached = r->time_to_accuracy_s >= 0;

	json_object_set_new(
		json, "learning_rate", known(run->trains, json_real(run->learning_rate))
	);
	json_object_set_new(
		json, "target_accuracy", known(run->trains, json_real(run->target_accuracy))
	);
	json_object_set_new(
		json, "final_accuracy", known(r->final_accuracy >= 0, json_real(r->final_accuracy))
	);
	json_object_set_new(
		json, "time_to_accuracy_s", known(reached, json_real(r->time_to_accuracy_s))
	);
	json_object_set_new(
		json,
		"updates_to_accuracy",
		known(reached, json_integer((json_int_t)r->updates_to_accuracy))
	);
	if (!run->trains)
		return;
	json_object_set_new(json, "evaluations", evaluations(&run->curve));
	if (run->filter > 0)
		json_object_set_new(json, "filter", filter(run));
	if (run->tried_count > 0)
		json_object_set_new(json, "grid", tried(run->tried, run->tried_count));
}

static json_t *aggregation(const struct hd_cluster_aggregation *a) {
	return json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I}",
		"groups",
		(json_int_t)a->groups,
		"delivered",
		(json_int_t)a->delivered,
		"failed",
		(json_int_t)a->failed,
		"refused",
		(json_int_t)a->refused,
		"inputs_held",
		(json_int_t)a->inputs_held,
		"bytes_in",
		(json_int_t)a->bytes_in
	);
}

static json_t *record(const struct hd_results_run *run) {
	const struct hd_cluster_result *r = &run->result;
	const struct hd_check_stats *s = &r->pushes;
	json_t *estimate = r->estimate_error < 0 ? json_null() : json_real(r->estimate_error);

	json_t *json = json_pack(
		"{s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:o, "
		"s:o, s:n, s:f, s:f, s:f, s:I, s:I, s:I, s:f}",
		"mode",
		hd_results_mode(run->mode, run->aggregators),
		"scenario",
		run->scenario,
		"simulated",
		1,
		"seed",
		(json_int_t)run->seed,
		"pushed",
		(json_int_t)s->pushed,
		"applied",
		(json_int_t)s->applied,
		"dropped",
		(json_int_t)s->dropped,
		"failed",
		(json_int_t)s->failed,
		"reasons",
		reasons(s),
		"rolled_back",
		(json_int_t)s->rolled_back,
		"granted_bytes",
		(json_int_t)r->granted_bytes,
		"credited_bytes",
		(json_int_t)r->credited_bytes,
		"direct_bytes",
		(json_int_t)r->direct_bytes,
		"staleness",
		staleness(run),
		"estimate_error",
		estimate,
		"cpu",
		"applied_per_s",
		hd_results_applied_s(run),
		"duration_s",
		r->duration_s,
		"settle_s",
		r->settle_s,
		"crashes",
		(json_int_t)r->crashes,
		"events",
		(json_int_t)r->network.events,
		"packets",
		(json_int_t)r->network.packets,
		"wall_s",
		run->wall_s
	);

	json_object_set_new(json, "aggregation", aggregation(&r->aggregation));
	json_object_set_new(json, "grouped", json_integer((json_int_t)s->grouped));
	json_object_set_new(json, "sums", json_integer((json_int_t)s->sums));
	json_object_set_new(
		json, "server_link_bytes", json_integer((json_int_t)r->server_link_bytes)
	);
	json_object_set_new(json, "staleness_histogram", histogram(s));
	put_training(json, run);
	return json;
}

int hd_results_json(const char *path, const struct hd_results_run *runs, size_t count) {
	json_t *list = json_array();
	int code = 0;

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, record(&runs[i]));
	errno = 0;
	if (json_dump_file(list, path, JSON_INDENT(1)) < 0)
		code = errno ? -errno : -EIO;
	json_decref(list);
	return code;
}
