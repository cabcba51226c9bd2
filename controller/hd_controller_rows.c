/* SPDX-License-Identifier: BSD-3-Clause */
/* What an operator sees: one flat object for each node, job, link, transfer, drop and counter. Times
 * are against the moment of the answer; tokens are secrets and never shown. */
#include "hd_controller_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void put_text(json_t *row, const char *key, const char *text) {
	json_object_set_new(row, key, json_string(text));
}

static void put_count(json_t *row, const char *key, uint64_t value) {
	json_object_set_new(row, key, json_integer((json_int_t)value));
}

/* Rounded to three decimals: what an eye can use. */
static void put_real(json_t *row, const char *key, double value) {
	json_object_set_new(
		row, key, isfinite(value) ? json_real(round(value * 1000) / 1000) : json_null()
	);
}

static double ms_from(hd_ns from, hd_ns to) {
	return to >= from ? (double)(to - from) / 1e6 : -(double)(from - to) / 1e6;
}

static void put_addr(json_t *row, const char *key, struct hd_addr addr) {
	char text[32];

	(void)snprintf(
		text,
		sizeof(text),
		"%u.%u.%u.%u:%u",
		addr.ipv4 >> 24,
		addr.ipv4 >> 16 & 255,
		addr.ipv4 >> 8 & 255,
		addr.ipv4 & 255,
		addr.port
	);
	put_text(row, key, text);
}

static void put_version(json_t *row, const char *key, hd_version version) {
	char text[32];

	(void)snprintf(
		text,
		sizeof(text),
		"%u.%llu",
		hd_version_incarnation(version),
		(unsigned long long)hd_version_counter(version)
	);
	put_text(row, key, text);
}

static const char *job_name(const struct hd_controller *c, uint32_t id) {
	const struct ctl_job *job = ctl_job_find(c, id);

	return job ? job->name : "";
}

/* --- nodes --- */

void ctl_rows_nodes(const struct hd_controller *c, struct ctl_rows *rows) {
	const struct ctl_node *node;

	TAILQ_FOREACH (node, &c->nodes, entry) {
		struct hd_clock clock = hd_session_clock(node->session);
		bool worker = node->role == HD_ROLE_WORKER;
		json_t *row;

		if (ctl_rows_skip(rows))
			continue;
		row = json_object();
		put_text(row, "name", hd_session_peer_name(node->session));
		put_text(row, "role", hd_role_name(hd_session_peer_role(node->session)));
		put_text(row, "host", node->host);
		put_text(row, "job", worker ? node->job->name : "");
		put_text(row, "tenant", worker ? node->job->tenant_name : "");
		if (worker)
			put_count(row, "worker", node->worker);
		else
			json_object_set_new(row, "worker", json_null());
		put_addr(row, "address", hd_session_peer(node->session));
		put_real(row, "up_s", node->role ? ms_from(node->registered, c->now) / 1e3 : 0);
		put_real(row, "heard_ms", ms_from(hd_session_heard(node->session), c->now));
		put_real(row, "rtt_us", (double)hd_session_rtt(node->session) / 1e3);
		put_real(row, "clock_offset_us", clock.valid ? (double)clock.offset_ns / 1e3 : NAN);
		put_real(row, "clock_error_us", clock.valid ? (double)clock.error_ns / 1e3 : NAN);
		put_count(row, "incarnation", node->incarnation);
		put_count(row, "memory_bytes", node->memory_bytes);
		put_count(row, "transfers", node->tracked);
		ctl_rows_add(rows, row);
	}
}

/* --- jobs --- */

static const char *const job_states[] = {
	[CTL_JOB_WAITING] = "no-server",
	[CTL_JOB_SETTLING] = "settling",
	[CTL_JOB_READY] = "ready",
};

static void job_numbers(json_t *row, const struct ctl_job *job) {
	put_version(row, "version", job->version);
	put_count(row, "position", job->position);
	put_count(row, "planned_version", ctl_job_v_init(job));
	put_count(row, "tau_max", job->tau_max);
	put_count(row, "pending", job->pending);
	put_count(row, "running", job->open);
	put_count(row, "granted", job->granted);
	put_count(row, "applied", job->applied);
	put_count(row, "dropped", job->dropped);
	put_count(row, "failed", job->failed);
	put_count(row, "voided", job->voided);
	put_count(row, "pulls_granted", job->pulls_granted);
	put_count(row, "pulls_delivered", job->pulls_delivered);
	put_count(row, "granted_bytes", job->granted_bytes);
	put_count(row, "model_bytes", job->model_bytes);
}

void ctl_rows_jobs(const struct hd_controller *c, struct ctl_rows *rows) {

	for (uint32_t i = 0; i < c->job_count; i++) {
		const struct ctl_job *job = c->jobs[i];
		json_t *row;

		if (ctl_rows_skip(rows))
			continue;
		row = json_object();
		put_text(row, "tenant", job->tenant_name);
		put_text(row, "job", job->name);
		put_count(row, "id", job->id);
		put_text(row, "state", job_states[job->state]);
		put_text(row, "server", job->server_host);
		put_count(row, "workers", job->worker_count);
		job_numbers(row, job);
		put_real(row, "weight", job->weight);
		put_real(row, "owed_bytes", job->tenant ? job->tenant->deficit : 0);
		put_text(
			row,
			"warning",
			job->tau_max < job->worker_count ?
				"tau_max is below the number of workers" :
				""
		);
		ctl_rows_add(rows, row);
	}
}

/* --- links --- */

static void link_use(const struct hd_controller *c, uint32_t link, json_t *row) {
	const struct ctl_transfer *t;
	unsigned running = 0, queued = 0, pending = 0;

	TAILQ_FOREACH (t, &c->open, entry)
		for (uint8_t i = 0; i < t->path_count; i++)
			if (t->path[i] == link && t->book_count) {
				running += t->book[0].start <= c->now;
				queued += t->book[0].start > c->now;
			}
	TAILQ_FOREACH (t, &c->pending, entry)
		for (uint8_t i = 0; i < t->path_count; i++)
			pending += t->path[i] == link;
	put_count(row, "running", running);
	put_count(row, "queued", queued);
	put_count(row, "pending", pending);
}

void ctl_rows_links(const struct hd_controller *c, struct ctl_rows *rows) {

	for (uint32_t link = 0; link < ctl_link_count(c); link++) {
		struct hd_estimate e;
		json_t *row;

		if (ctl_rows_skip(rows))
			continue;
		row = json_object();
		e = hd_view_estimate(c->view, link);
		put_text(row, "link", ctl_link_name(c, link));
		put_real(row, "estimate_mbps", e.capacity_bps / 1e6);
		put_real(row, "spread_mbps", e.spread_bps / 1e6);
		put_real(row, "age_s", e.samples ? ms_from(e.updated, c->now) / 1e3 : NAN);
		put_count(row, "samples", e.samples);
		put_real(row, "reserved_mbps", hd_controller_reserved_bps(c, link, c->now) / 1e6);
		link_use(c, link, row);
		ctl_rows_add(rows, row);
	}
}

/* --- transfers and drops --- */

static void why_put(json_t *row, const struct ctl_why *why, hd_ns now) {
	char text[64] = "";

	if (why->runner_up_round)
		(void)snprintf(
			text, sizeof(text), "w%u/%u", why->runner_up_worker, why->runner_up_round
		);
	put_text(row, "rule", why->decided ? hd_plan_rule_name(why->plan.rule) : "");
	put_real(
		row,
		"planned_finish_ms",
		why->decided ? why->plan.finish * 1e3 - ms_from(why->decided, now) : NAN
	);
	put_text(row, "runner_up", text);
	put_real(
		row,
		"runner_up_finish_ms",
		why->runner_up_round ?
			why->plan.runner_up_finish * 1e3 - ms_from(why->decided, now) :
			NAN
	);
	put_count(row, "deadline", why->plan.deadline);
	put_real(row, "slack", why->plan.slack);
}

static const char *transfer_state(const struct ctl_transfer *t, hd_ns now) {
	if (t->state == CTL_PENDING)
		return "pending";
	if (t->held)
		return "held";
	if (t->book_count && t->book[0].start > now)
		return "queued";
	return t->overrun_since ? "late" : "running";
}

static json_t *transfer_row(const struct hd_controller *c, const struct ctl_transfer *t) {
	json_t *row = json_object();
	bool open = t->state == CTL_OPEN;

	put_count(row, "id", t->id);
	put_text(row, "job", t->job->name);
	put_count(row, "worker", t->worker);
	put_text(row, "direction", t->direction == HD_PUSH ? "push" : "pull");
	put_count(row, "round", t->round);
	put_count(row, "attempt", t->attempt);
	put_text(row, "state", transfer_state(t, c->now));
	put_count(row, "bytes", t->bytes);
	put_version(row, "base", t->direction == HD_PUSH ? t->base : t->have);
	put_count(row, "position", t->position);
	put_real(row, "waited_ms", ms_from(t->asked, open ? t->granted : c->now));
	put_real(row, "start_ms", open ? ms_from(c->now, t->start) : NAN);
	put_real(row, "finish_ms", open ? ms_from(c->now, t->finish) : NAN);
	put_real(
		row,
		"rate_mbps",
		open && t->segments.count ? (double)t->segments.item[0].rate_bps / 1e6 : NAN
	);
	put_real(row, "weight", (double)t->weight);
	put_real(row, "cc_weight", (double)t->cc_weight);
	why_put(row, &t->why, c->now);
	return row;
}

void ctl_rows_transfers(const struct hd_controller *c, struct ctl_rows *rows) {
	const struct ctl_transfer *t;

	TAILQ_FOREACH (t, &c->open, entry)
		if (!ctl_rows_skip(rows))
			ctl_rows_add(rows, transfer_row(c, t));
	TAILQ_FOREACH (t, &c->pending, entry)
		if (!ctl_rows_skip(rows))
			ctl_rows_add(rows, transfer_row(c, t));
}

void ctl_rows_drops(const struct hd_controller *c, struct ctl_rows *rows) {
	uint64_t kept = c->drop_count < CTL_DROPS_KEPT ? c->drop_count : CTL_DROPS_KEPT;

	for (uint64_t i = 1; i <= kept; i++) {
		const struct ctl_drop *drop = &c->drops[(c->drop_count - i) % CTL_DROPS_KEPT];
		json_t *row;

		if (ctl_rows_skip(rows))
			continue;
		row = json_object();
		put_real(row, "ago_s", ms_from(drop->at, c->now) / 1e3);
		put_text(row, "job", job_name(c, drop->job));
		put_count(row, "worker", drop->worker);
		put_text(row, "direction", drop->direction == HD_PUSH ? "push" : "pull");
		put_count(row, "round", drop->round);
		put_count(row, "attempt", drop->attempt);
		put_text(row, "reason", hd_reason_name(drop->reason));
		put_count(row, "bytes", drop->bytes);
		put_version(row, "base", drop->base);
		why_put(row, &drop->why, c->now);
		ctl_rows_add(rows, row);
	}
}

/* --- counters --- */

static void counter_row(
	struct ctl_rows *rows,
	const char *name,
	const char *unit,
	uint64_t value,
	const char *help
) {
	json_t *row;

	if (ctl_rows_skip(rows))
		return;
	row = json_object();
	put_text(row, "counter", name);
	put_count(row, "value", value);
	put_text(row, "unit", unit);
	put_text(row, "help", help);
	ctl_rows_add(rows, row);
}

static void reason_rows(const struct hd_controller *c, struct ctl_rows *rows) {
	char name[64];

	for (unsigned reason = 1; reason < HD_REASON_COUNT; reason++) {
		uint64_t sum = 0;

		for (uint32_t i = 0; i < c->job_count; i++)
			sum += c->jobs[i]->dropped_for[reason];
		(void)snprintf(name, sizeof(name), "ended_%s", hd_reason_name(reason));
		if (sum)
			counter_row(rows, name, "updates", sum, "not applied, for this reason");
	}
}

void ctl_rows_counters(const struct hd_controller *c, struct ctl_rows *rows) {
	const struct hd_endpoint_stats *e = hd_endpoint_stats(c->endpoint);

#define COUNTER_ROW(name, unit, help) counter_row(rows, #name, unit, c->counters.name, help);
	CTL_COUNTERS(COUNTER_ROW)
#undef COUNTER_ROW
	reason_rows(c, rows);
#define ENDPOINT_ROW(name, help) counter_row(rows, "endpoint_" #name, "packets", e->name, help)
	ENDPOINT_ROW(received, "control packets accepted");
	ENDPOINT_ROW(sent, "control packets sent");
	ENDPOINT_ROW(resent, "of these, sent again");
	ENDPOINT_ROW(opened, "sessions opened");
	ENDPOINT_ROW(closed, "sessions closed");
	ENDPOINT_ROW(drop_malformed, "not decodable");
	ENDPOINT_ROW(drop_tag, "wrong authentication tag");
	ENDPOINT_ROW(drop_replay, "replayed");
	ENDPOINT_ROW(drop_unknown_session, "no such session");
	ENDPOINT_ROW(drop_unknown_key, "no such key");
	ENDPOINT_ROW(drop_version, "other wire version");
	ENDPOINT_ROW(drop_candidates, "hellos that gave way to newer ones");
	ENDPOINT_ROW(drop_out_of_window, "fragments beyond the window");
	ENDPOINT_ROW(drop_role, "role not served");
#undef ENDPOINT_ROW
}
