/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State that outlives the controller: settings of operators, and which host's server has which job. The core writes it
 * as a text after each change, and reads a text before the first event; the program stores it.
 *
 *   {"version": 1, "paused": true, "log-level": "debug", "settings": {"theta": 0.5}, "drained": ["h3"],
 *    "jobs": [{"tenant": "default", "job": "mnist", "server": "ps", "serving-epoch": 1, "serving": 7, "paused": true,
 *              "tau": 4, "weight": 2, "div-max": 0.5, "allreduce": 120, "elastic": {...}, "left": true}],
 *    "ended": [{"tenant": "default", "job": "cifar", "server": "ps", "serving-epoch": 1, "serving": 3}]}
 *
 * "left": all workers have left the job. "ended": ended jobs, with the host that may have a checkpoint. Each field but
 * version may be missing when it is not set. A div-max of 0 is off: no limit, whatever the job's own is.
 */
#include "ctl_base.h"
#include "ctl_commands.h"
#include "ctl_copies.h"
#include "ctl_elastic.h"
#include "ctl_kept.h"
#include "ctl_possible.h"
#include "ctl_registry.h"
#include "hd_jobspec.h"
#include "hd_json.h"
#include "hd_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 1
#define SERVING_BITS 48 /* of the counter within an epoch */
#define SERVING_MOST ((UINT64_C(1) << SERVING_BITS) - 1)

/* --- writing --- */

static void put_true(json_t *object, const char *key, bool value) {
	if (value)
		(void)json_object_set_new(object, key, json_true());
}

static void put_text(json_t *object, const char *key, const char *text) {
	if (text[0])
		(void)json_object_set_new(object, key, json_string(text));
}

static void put_number(json_t *object, const char *key, double value) {
	(void)json_object_set_new(
		object,
		key,
		value >= 0 && value < 1e15 && (double)(json_int_t)value >= value ?
			json_integer((json_int_t)value) :
			json_real(value)
	);
}

static void put_some(json_t *object, const char *key, json_t *value) {
	if (json_object_size(value) || json_array_size(value))
		(void)json_object_set(object, key, value);
	json_decref(value);
}

static json_t *settings_out(const struct hd_controller *c) {
	json_t *object = json_object();
	const struct ctl_setting *s;

	for (uint64_t i = 0; (s = ctl_setting(i)); i++)
		if (c->kept.set >> i & 1)
			put_number(object, s->name, c->kept.value[i]);
	return object;
}

static json_t *drained_out(const struct hd_controller *c) {
	json_t *array = json_array();

	for (uint32_t i = 0; i < c->drained_count; i++)
		(void)json_array_append_new(array, json_string(c->drained[i]));
	return array;
}

/* The generation of the host's assignment: a server with an older one is recognised by it. */
static void put_serving(json_t *object, uint64_t generation) {
	if (!generation)
		return;
	put_number(object, "serving-epoch", (double)(generation >> SERVING_BITS));
	put_number(object, "serving", (double)(generation & SERVING_MOST));
}

/* A job that is known from STATE only has no name; the next STATE restores it. */
static bool is_kept(const struct ctl_job *job) {
	return job->name[0]
		&& (job->server_host[0] || job->paused || job->tau_set || job->weight_set > 0
		    || job->replica.div_set >= 0 || job->reduce_kept > 0 || job->elastic);
}

static json_t *jobs_out(const struct hd_controller *c) {
	json_t *array = json_array();

	for (uint32_t i = 0; i < c->job_count; i++) {
		const struct ctl_job *job = c->jobs[i];
		json_t *object;

		if (!is_kept(job))
			continue;
		object = json_object();
		put_text(object, "tenant", job->tenant_name);
		put_text(object, "job", job->name);
		put_text(object, "server", job->server_host);
		if (job->server_host[0])
			put_serving(object, job->serving);
		put_true(object, "paused", job->paused);
		if (job->tau_set)
			put_number(object, "tau", job->tau_set);
		if (job->weight_set > 0)
			put_number(object, "weight", job->weight_set);
		if (job->replica.div_set >= 0)
			put_number(object, "div-max", job->replica.div_set);
		if (job->reduce_kept > 0)
			put_number(object, "allreduce", job->reduce_kept);
		put_some(object, "elastic", ctl_elastic_out(job));
		put_true(object, "left", job->left && ctl_job_is_idle(job));
		(void)json_array_append_new(array, object);
	}
	return array;
}

static json_t *ended_out(const struct hd_controller *c) {
	json_t *array = json_array();

	for (uint32_t i = 0; i < c->ended_count; i++) {
		const struct ctl_ended *ended = &c->ended[i];
		json_t *object;

		if (!ended->host[0])
			continue;
		object = json_object();
		put_text(object, "tenant", ended->tenant);
		put_text(object, "job", ended->name);
		put_text(object, "server", ended->host);
		put_serving(object, ended->serving);
		(void)json_array_append_new(array, object);
	}
	return array;
}

char *hd_controller_kept(const struct hd_controller *c) {
	json_t *root = json_object();
	char *text;

	put_number(root, "version", VERSION);
	put_true(root, "paused", c->paused);
	put_text(root, "log-level", c->kept.log_level);
	put_some(root, "settings", settings_out(c));
	put_some(root, "drained", drained_out(c));
	put_some(root, "jobs", jobs_out(c));
	put_some(root, "ended", ended_out(c));
	text = json_dumps(root, JSON_INDENT(1));
	json_decref(root);
	return text;
}

void ctl_keep(struct hd_controller *c) {
	const struct hd_controller_ops *ops = c->config.ops;
	char *text;

	if (!c->kept.changed && c->now < c->kept.due) {
		ctl_check_by(c, c->kept.due);
		return;
	}
	c->kept.changed = false;
	c->kept.due = HD_NEVER;
	text = ops && ops->keep ? hd_controller_kept(c) : NULL;
	if (text)
		ops->keep(c->config.owner, text);
}

/* --- reading: the whole text is checked before any of it is applied --- */

struct restore {
	struct hd_controller *c;
	struct hd_json_reader reader;
	json_t *root;
	bool apply; /* in the second pass */
};

static int take_flag(const struct hd_json_object *in, const char *key, bool *value) {
	json_t *found = json_object_get(in->object, key);
	char field[2 * HD_NAME_BYTES_MAX];

	*value = json_is_true(found);
	if (!found || json_is_boolean(found))
		return 0;
	(void)snprintf(field, sizeof field, "%s%s%s", in->prefix, *in->prefix ? "." : "", key);
	return hd_json_fail(in->reader, field, "must be true or false");
}

/* A name as a message could have it. */
static int
take_name(const struct hd_json_object *in, const char *key, bool required, const char **value) {
	char field[2 * HD_NAME_BYTES_MAX];

	if (hd_json_name(in, key, required, value) < 0)
		return -EINVAL;
	if (!*value || hd_text_valid(*value, strlen(*value)))
		return 0;
	(void)snprintf(field, sizeof field, "%s%s%s", in->prefix, *in->prefix ? "." : "", key);
	return hd_json_fail(in->reader, field, "control characters in it");
}

static int take_setting(struct restore *r, const struct hd_json_object *in, uint64_t index) {
	const struct ctl_setting *s = ctl_setting(index);
	struct hd_json_range range = {.least = s->off ? 0 : s->least, .most = s->most};
	char field[HD_NAME_BYTES_MAX];
	double value = 0;

	if (!json_object_get(in->object, s->name))
		return 0;
	range.whole = s->whole;
	if (hd_json_number(in, s->name, &range, &value) < 0)
		return -EINVAL;
	(void)snprintf(field, sizeof field, "settings.%s", s->name);
	if (value > 0 && value < s->least)
		return hd_json_fail(&r->reader, field, "must be 0 (off), or %g at least", s->least);
	if (r->apply) {
		s->apply(r->c, NULL, value);
		ctl_kept_setting(r->c, s, value);
	}
	return 0;
}

static int take_settings(struct restore *r) {
	const struct hd_json_object in
		= {&r->reader, json_object_get(r->root, "settings"), "settings"};
	const char *names[CTL_SETTINGS_MAX + 1];
	const struct ctl_setting *s;
	size_t count = 0;

	if (!in.object)
		return 0;
	for (uint64_t i = 0; (s = ctl_setting(i)); i++)
		if (s->apply && !s->of_a_job)
			names[count++] = s->name;
	names[count] = NULL;
	if (hd_json_known(&in, names) < 0)
		return -EINVAL;
	for (uint64_t i = 0; (s = ctl_setting(i)); i++)
		if (s->apply && !s->of_a_job && take_setting(r, &in, i) < 0)
			return -EINVAL;
	return 0;
}

static int take_drained(struct restore *r) {
	const struct hd_json_object in = {&r->reader, r->root, ""};
	json_t *array = NULL;

	if (hd_json_array(&in, "drained", false, CTL_DRAINED_MAX, &array) < 0)
		return -EINVAL;
	for (size_t i = 0; i < json_array_size(array); i++) {
		const char *host = json_string_value(json_array_get(array, i));
		char field[32];

		(void)snprintf(field, sizeof field, "drained[%zu]", i);
		if (!host || !host[0] || strlen(host) > HD_NAME_BYTES_MAX
		    || !hd_text_valid(host, strlen(host)))
			return hd_json_fail(
				&r->reader,
				field,
				"must be a host, 1 to %d bytes",
				HD_NAME_BYTES_MAX
			);
		if (r->apply && !ctl_host_drained(r->c, host))
			hd_text_copy(
				r->c->drained[r->c->drained_count++], sizeof r->c->drained[0], host
			);
	}
	return 0;
}

struct kept_job {
	const char *tenant, *name, *server;
	bool paused, left;
	double tau, weight, div_max, allreduce, serving_epoch, serving;
	struct ctl_elastic *elastic; /* the job's, in the second pass */
};

static uint64_t kept_generation(const struct kept_job *kept) {
	return (uint64_t)kept->serving_epoch << SERVING_BITS | (uint64_t)kept->serving;
}

static struct ctl_ended ended_of(const struct restore *r, const struct kept_job *kept) {
	struct ctl_ended ended = {.id = hd_job_id(kept->tenant, kept->name)};

	hd_text_copy(ended.tenant, sizeof ended.tenant, kept->tenant);
	hd_text_copy(ended.name, sizeof ended.name, kept->name);
	if (kept->server) {
		hd_text_copy(ended.host, sizeof ended.host, kept->server);
		ended.serving = ctl_generation_kept(r->c, kept_generation(kept));
	}
	return ended;
}

static int apply_job(struct restore *r, struct kept_job *kept) {
	const struct ctl_ended as = ended_of(r, kept);
	struct ctl_job *job = ctl_job_get(r->c, as.id, NULL);

	if (!job)
		return -ENOMEM;
	ctl_job_recall(job, &as, kept->left);
	ctl_job_set_again(job, kept->paused, (uint32_t)kept->tau, kept->weight);
	ctl_replica_set(&job->replica, kept->div_max);
	job->reduce_known = job->reduce_kept = (uint32_t)kept->allreduce;
	ctl_elastic_again(job, kept->elastic);
	kept->elastic = NULL;
	return 0;
}

static int take_job(struct restore *r, json_t *object, const char *prefix) {
	static const char *const keys[]
		= {"tenant",
		   "job",
		   "server",
		   "serving-epoch",
		   "serving",
		   "paused",
		   "tau",
		   "weight",
		   "div-max",
		   "allreduce",
		   "elastic",
		   "left",
		   NULL};
	const struct hd_json_object in = {&r->reader, object, prefix};
	struct kept_job kept = {0};
	const struct hd_json_wanted numbers[] = {
		{"tau", {.least = 1, .most = HD_TAU_MAX_LIMIT, .whole = true}, &kept.tau},
		{"weight", {.least = CTL_WEIGHT_MIN, .most = CTL_WEIGHT_MAX}, &kept.weight},
		{"div-max", {.most = CTL_DIV_MAX_MOST, .fallback = -1}, &kept.div_max},
		{"allreduce", {.least = 1, .most = UINT32_MAX, .whole = true}, &kept.allreduce},
		{"serving-epoch", {.most = UINT16_MAX, .whole = true}, &kept.serving_epoch},
		{"serving", {.most = SERVING_MOST, .whole = true}, &kept.serving},
	};
	char field[2 * HD_NAME_BYTES_MAX];
	int status;

	if (hd_json_known(&in, keys) < 0 || take_name(&in, "tenant", true, &kept.tenant) < 0
	    || take_name(&in, "job", true, &kept.name) < 0
	    || take_name(&in, "server", false, &kept.server) < 0
	    || take_flag(&in, "paused", &kept.paused) < 0 || take_flag(&in, "left", &kept.left) < 0
	    || hd_json_numbers(&in, numbers, 6) < 0)
		return -EINVAL;
	if (kept.div_max > 0 && kept.div_max < CTL_DIV_MAX_LEAST) {
		(void)snprintf(field, sizeof field, "%s.div-max", prefix);
		return hd_json_fail(
			&r->reader, field, "must be 0 (off), or %g at least", CTL_DIV_MAX_LEAST
		);
	}
	status = ctl_elastic_in(&in, &kept.elastic);
	if (!status && r->apply)
		status = apply_job(r, &kept);
	free(kept.elastic);
	return status;
}

static int take_jobs(struct restore *r) {
	const struct hd_json_object in = {&r->reader, r->root, ""};
	json_t *array = NULL;
	int status = hd_json_array(&in, "jobs", false, HD_JOBS_MAX, &array);

	for (size_t i = 0; !status && i < json_array_size(array); i++) {
		char prefix[32];

		(void)snprintf(prefix, sizeof prefix, "jobs[%zu]", i);
		status = take_job(r, json_array_get(array, i), prefix);
	}
	return status;
}

static int take_one_ended(struct restore *r, json_t *object, const char *prefix) {
	static const char *const keys[]
		= {"tenant", "job", "server", "serving-epoch", "serving", NULL};
	const struct hd_json_object in = {&r->reader, object, prefix};
	struct kept_job kept = {0};
	const struct hd_json_wanted numbers[] = {
		{"serving-epoch", {.most = UINT16_MAX, .whole = true}, &kept.serving_epoch},
		{"serving", {.most = SERVING_MOST, .whole = true}, &kept.serving},
	};
	struct ctl_ended ended;

	if (hd_json_known(&in, keys) < 0 || take_name(&in, "tenant", true, &kept.tenant) < 0
	    || take_name(&in, "job", true, &kept.name) < 0
	    || take_name(&in, "server", true, &kept.server) < 0
	    || hd_json_numbers(&in, numbers, 2) < 0)
		return -EINVAL;
	if (!r->apply)
		return 0;
	ended = ended_of(r, &kept);
	ctl_ended_add(r->c, &ended);
	return 0;
}

static int take_ended(struct restore *r) {
	const struct hd_json_object in = {&r->reader, r->root, ""};
	json_t *array = NULL;
	int status = hd_json_array(&in, "ended", false, HD_ENDED_MAX, &array);

	for (size_t i = 0; !status && i < json_array_size(array); i++) {
		char prefix[32];

		(void)snprintf(prefix, sizeof prefix, "ended[%zu]", i);
		status = take_one_ended(r, json_array_get(array, i), prefix);
	}
	return status;
}

static int take_level(struct restore *r, const struct hd_json_object *in) {
	const struct hd_controller_ops *ops = r->c->config.ops;
	static const char *const levels[] = {"error", "warning", "info", "debug"};
	const char *level = NULL;
	size_t known = 0;

	if (hd_json_name(in, "log-level", false, &level) < 0)
		return -EINVAL;
	if (!level)
		return 0;
	while (known < sizeof levels / sizeof levels[0] && strcmp(levels[known], level) != 0)
		known++;
	if (known == sizeof levels / sizeof levels[0])
		return hd_json_fail(
			&r->reader, "log-level", "must be error, warning, info or debug"
		);
	if (r->apply) {
		hd_text_copy(r->c->kept.log_level, sizeof r->c->kept.log_level, level);
		if (ops && ops->set_log_level)
			(void)ops->set_log_level(r->c->config.owner, level);
	}
	return 0;
}

static int take_all(struct restore *r) {
	static const char *const keys[]
		= {"version", "paused", "log-level", "settings", "drained", "jobs", "ended", NULL};
	static const struct hd_json_range versions
		= {.least = VERSION, .most = VERSION, .whole = true, .required = true};
	const struct hd_json_object in = {&r->reader, r->root, ""};
	double version = 0;
	bool paused = false;
	int status = hd_json_known(&in, keys);

	if (status < 0 || hd_json_number(&in, "version", &versions, &version) < 0
	    || take_flag(&in, "paused", &paused) < 0 || take_level(r, &in) < 0
	    || take_settings(r) < 0 || take_drained(r) < 0)
		return -EINVAL;
	if (r->apply)
		r->c->paused = paused;
	status = take_jobs(r);
	return status ? status : take_ended(r);
}

int hd_controller_restore(
	struct hd_controller *c,
	const char *text,
	char *error,
	size_t error_bytes
) {
	struct restore r = {.c = c, .reader = {text, error, error_bytes}};
	int status;

	r.root = hd_json_load(&r.reader);
	if (!r.root)
		return -EINVAL;
	status = take_all(&r);
	r.apply = true;
	if (!status)
		status = take_all(&r);
	if (status == -ENOMEM)
		(void)snprintf(error, error_bytes, "no memory");
	json_decref(r.root);
	c->kept.changed = false;
	c->kept.due = HD_NEVER;
	return status;
}
