/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints what hd_scenario_read() made of a file, as JSON in the shape of the file. */
#include "hd_jobspec.h"
#include "hd_scenario.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

static json_t *variation(const struct hd_variation *v, const char *fraction) {
	if (v->kind == HD_VARIATION_FRACTION)
		return json_pack(
			"{s:s, s:f, s:f}",
			"kind",
			fraction,
			"fraction",
			v->fraction,
			"factor",
			v->factor
		);
	if (v->kind == HD_VARIATION_REDRAW)
		return json_pack(
			"{s:s, s:f, s:f, s:f}",
			"kind",
			"redraw",
			"low",
			v->low,
			"high",
			v->high,
			"every_s",
			v->every_s
		);
	return json_pack("{s:s}", "kind", "none");
}

static json_t *place(struct hd_place p) {
	static const char *const names[]
		= {"worker", "server", "controller", "extra", "aggregator", "replica"};

	if (p.kind == HD_PLACE_WORKER || p.kind == HD_PLACE_AGGREGATOR)
		return json_sprintf("%s:%u", names[p.kind], p.worker);
	return json_string(names[p.kind]);
}

static json_t *tenants(const struct hd_scenario *s) {
	json_t *list = json_array();

	for (uint32_t i = 0; i < s->tenant_count; i++) {
		const struct hd_scenario_tenant *t = &s->tenants[i];

		json_array_append_new(
			list,
			json_pack(
				"{s:i, s:o, s:o, s:f, s:f}",
				"flows",
				(int)t->flows,
				"from",
				place(t->from),
				"to",
				place(t->to),
				"start_s",
				t->start_s,
				"stop_s",
				t->stop_s
			)
		);
	}
	return list;
}

static json_t *events(const struct hd_scenario *s) {
	static const char *const words[] = {"kill", "join", "leave", "preempt"};
	json_t *list = json_array();

	for (uint32_t i = 0; i < s->event_count; i++)
		json_array_append_new(
			list,
			json_pack(
				"{s:f, s:f, s:i, s:s}",
				"at_s",
				s->events[i].at_s,
				"notice_s",
				s->events[i].notice_s,
				"worker",
				(int)s->events[i].worker,
				"do",
				words[s->events[i].what]
			)
		);
	return list;
}

static json_t *node_events(const struct hd_scenario *s) {
	json_t *list = json_array();

	for (uint32_t i = 0; i < s->node_event_count; i++)
		json_array_append_new(
			list,
			json_pack(
				"{s:f, s:o, s:s}",
				"at_s",
				s->node_events[i].at_s,
				"node",
				place(s->node_events[i].node),
				"do",
				s->node_events[i].what == HD_DO_KILL ? "kill" : "start"
			)
		);
	return list;
}

static json_t *job(const struct hd_scenario_job *j) {
	static const char *const rules[] = {
		[HD_STALENESS_CONSTANT] = "constant",
		[HD_STALENESS_INV_SQRT] = "inverse-sqrt",
		[HD_STALENESS_ADADELAY] = "adadelay",
	};
	static const char *const payloads[] = {"fp32", "fp16", "bf16", "fixed32", "sparse"};
	json_t *hidden = json_array();
	char sync[16];
	json_t *out;

	for (uint32_t i = 0; i < j->hidden_count; i++)
		json_array_append_new(hidden, json_integer(j->hidden[i]));
	out = json_pack(
		"{s:s, s:o, s:i, s:f, s:i, s:f, s:f, s:f}",
		"model",
		j->model,
		"hidden",
		hidden,
		"batch",
		(int)j->batch,
		"compute_ms",
		j->compute_ms,
		"tau_max",
		(int)j->tau_max,
		"learning_rate",
		j->learning_rate,
		"momentum",
		j->momentum,
		"weight_decay",
		j->weight_decay
	);
	json_object_set_new(out, "target_accuracy", json_real(j->target_accuracy));
	(void)snprintf(
		sync,
		sizeof sync,
		j->sync_count > 0 ? "%s:%u" : "%s",
		hd_sync_name(j->sync),
		j->sync_count
	);
	json_object_set_new(out, "sync", json_string(sync));
	json_object_set_new(out, "payload", json_string(payloads[j->payload]));
	json_object_set_new(out, "pull_payload", json_string(payloads[j->pull_payload]));
	json_object_set_new(out, "update_bytes", json_integer((json_int_t)j->update_bytes));
	json_object_set_new(
		out,
		"staleness",
		json_pack("{s:s, s:f}", "rule", rules[j->staleness_rule], "c", j->staleness_c)
	);
	return out;
}

static json_t *show(const struct hd_scenario *s) {
	json_t *out = json_pack(
		"{s:s, s:s, s:I, s:i, s:f, s:f, s:f, s:f, s:f, s:i}",
		"name",
		s->name,
		"about",
		s->about,
		"seed",
		(json_int_t)s->seed,
		"workers",
		(int)s->workers,
		"link_mbps",
		s->link_mbps,
		"server_link_mbps",
		s->server_link_mbps,
		"latency_us",
		s->latency_us,
		"queue_kb",
		s->queue_kb,
		"duration_s",
		s->duration_s,
		"monitors",
		(int)s->monitors
	);

	json_object_set_new(out, "racks", json_integer(s->racks));
	json_object_set_new(out, "switches", json_string(s->switches));
	json_object_set_new(out, "trunk_mbps", json_real(s->trunk_mbps));
	json_object_set_new(out, "aggregators", json_integer(s->aggregators));
	json_object_set_new(out, "aggregator_link_mbps", json_real(s->aggregator_link_mbps));
	json_object_set_new(out, "job", job(&s->job));
	json_object_set_new(out, "compute", variation(&s->compute, "slow-fraction"));
	json_object_set_new(out, "links", variation(&s->links, "scale-fraction"));
	json_object_set_new(out, "tenants", tenants(s));
	json_object_set_new(out, "workers_events", events(s));
	json_object_set_new(out, "nodes_events", node_events(s));
	json_object_set_new(out, "replica", json_integer(s->replica));
	json_object_set_new(out, "never_alone", json_integer(s->never_alone));
	json_object_set_new(out, "div_max", json_real(s->div_max));
	json_object_set_new(out, "replicate_every", json_integer(s->replicate_every));
	return out;
}

int main(int argc, char **argv) {
	static struct hd_scenario scenario;
	char error[512];
	json_t *shown;
	int code;

	if (argc != 2)
		return EX_USAGE;
	if (hd_scenario_read(argv[1], &scenario, error, sizeof error) < 0) {
		(void)fprintf(stderr, "%s\n", error);
		return EX_DATAERR;
	}
	shown = show(&scenario);
	code = json_dumpf(shown, stdout, 0);
	json_decref(shown);
	return code < 0 ? EX_SOFTWARE : 0;
}
