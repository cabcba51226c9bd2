/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_problem_internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adds a name; its index is the number of names so far. -EEXIST, -ENOMEM. */
static int add_name(json_t *index, const char *name) {
	const json_int_t next = (json_int_t)json_object_size(index);

	if (json_object_get(index, name))
		return -EEXIST;
	return json_object_set_new(index, name, json_integer(next)) == 0 ? 0 : -ENOMEM;
}

int hd_problem_find_name(const json_t *index, const char *name) {
	const json_t *found = json_object_get(index, name);

	return !found ? -ENOENT : (int)json_integer_value(found);
}

int hd_problem_add_name(
	const struct hd_problem_reader *reader,
	const char *prefix,
	json_t *index,
	const char *name
) {
	const int rc = add_name(index, name);

	if (rc != -EEXIST)
		return rc;
	return hd_json_fail(&reader->json, prefix, "\"%s\" is named twice", name);
}

static int read_tenant(const struct hd_problem_reader *reader, json_t *object, size_t index) {
	static const char *const keys[] = {"name", "weight", "deficit", NULL};
	struct hd_plan_tenant *tenant = &reader->problem->tenant[index];
	char prefix[64];
	const struct hd_json_object in = {&reader->json, object, prefix};
	const char *name = NULL;
	const struct hd_json_wanted wanted[] = {
		{"weight", {.least = 1e-9, .most = 1e9, .fallback = 1}, &tenant->weight},
		{"deficit", {.least = -UNITS_MAX, .most = UNITS_MAX}, &tenant->deficit},
	};

	(void)snprintf(prefix, sizeof prefix, "tenants[%zu]", index);
	int rc = hd_json_known(&in, keys);
	if (rc == 0)
		rc = hd_json_name(&in, "name", true, &name);
	if (rc == 0)
		rc = READ_NUMBERS(&in, wanted);
	if (rc < 0)
		return rc;
	return hd_problem_add_name(reader, prefix, reader->problem->tenants, name);
}

static int read_tenants(const struct hd_problem_reader *reader, const struct hd_json_object *root) {
	json_t *list = NULL, *object;
	size_t i;
	int rc = hd_json_array(root, "tenants", false, HD_JOBS_MAX, &list);

	if (rc < 0 || !list)
		return rc;
	reader->problem->listed_tenants = true;
	json_array_foreach(list, i, object) {
		rc = read_tenant(reader, object, i);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Index of a tenant. An unlisted one is created, with weight 1, unless there is a list. */
static int tenant_of(const struct hd_problem_reader *reader, const char *prefix, const char *name) {
	struct hd_problem *s = reader->problem;
	const int found = hd_problem_find_name(s->tenants, name);
	const size_t count = json_object_size(s->tenants);

	if (found >= 0)
		return found;
	if (s->listed_tenants)
		return hd_json_fail(
			&reader->json, prefix, "tenant \"%s\" is not among the tenants", name
		);
	if (count == HD_JOBS_MAX)
		return hd_json_fail(
			&reader->json, prefix, "more than %d tenants (HD_JOBS_MAX)", HD_JOBS_MAX
		);
	s->tenant[count].weight = 1;
	return add_name(s->tenants, name) < 0 ? -ENOMEM : (int)count;
}

/* v_init, tau_max, theta and server_free, of a job or, for all jobs, of the root. */
static int read_bounds(
	const struct hd_json_object *in,
	const struct hd_plan_job *fallback,
	bool required,
	struct hd_plan_job *job
) {
	double v_init = 0, tau_max = 0;
	const struct hd_json_wanted wanted[] = {
		{"v_init",
		 {.most = (double)HD_VERSION_COUNTER_MAX,
		  .fallback = (double)fallback->v_init,
		  .whole = true},
		 &v_init},
		{"tau_max",
		 {.most = HD_TAU_MAX_LIMIT,
		  .fallback = fallback->tau_max,
		  .whole = true,
		  .required = required},
		 &tau_max},
		{"theta",
		 {.most = 1e9, .fallback = fallback->theta, .infinite = true},
		 &job->theta},
		{"server_free",
		 {.most = SECONDS_MAX, .fallback = fallback->server_free},
		 &job->server_free},
	};
	const int rc = READ_NUMBERS(in, wanted);

	if (rc < 0)
		return rc;
	job->v_init = (uint64_t)v_init;
	job->tau_max = (uint32_t)tau_max;
	return 0;
}

static int read_job(const struct hd_problem_reader *reader, json_t *object, size_t index) {
	static const char *const keys[]
		= {"name", "tenant", "v_init", "tau_max", "theta", "server_free", NULL};
	struct hd_problem *s = reader->problem;
	struct hd_plan_job *job = &s->job[index];
	char prefix[64];
	const struct hd_json_object in = {&reader->json, object, prefix};
	const char *name = NULL, *tenant = NULL;

	(void)snprintf(prefix, sizeof prefix, "jobs[%zu]", index);
	int rc = hd_json_known(&in, keys);
	if (rc == 0)
		rc = hd_json_name(&in, "name", true, &name);
	if (rc == 0)
		rc = hd_json_name(&in, "tenant", false, &tenant);
	if (rc == 0)
		rc = read_bounds(
			&in, &s->defaults, json_object_get(s->root, "tau_max") == NULL, job
		);
	if (rc == 0)
		rc = tenant_of(reader, prefix, !tenant ? "default" : tenant);
	if (rc < 0)
		return rc;
	job->tenant = (uint32_t)rc;
	return hd_problem_add_name(reader, prefix, s->jobs, name);
}

static int read_jobs(const struct hd_problem_reader *reader, const struct hd_json_object *root) {
	json_t *list = NULL, *object;
	size_t i;
	int rc = hd_json_array(root, "jobs", false, HD_JOBS_MAX, &list);

	reader->problem->defaults.theta = INFINITY;
	if (rc == 0)
		rc = read_bounds(
			root, &reader->problem->defaults, !list, &reader->problem->defaults
		);
	if (rc < 0 || !list)
		return rc;
	reader->problem->listed_jobs = true;
	json_array_foreach(list, i, object) {
		rc = read_job(reader, object, i);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* The job of an update. Without a list of jobs it is created, with the root's bounds. */
static int job_of(const struct hd_problem_reader *reader, const struct hd_json_object *in) {
	struct hd_problem *s = reader->problem;
	const char *name = NULL, *tenant = NULL;
	int rc = hd_json_name(in, "job", false, &name);

	if (rc == 0)
		rc = hd_json_name(in, "tenant", false, &tenant);
	if (rc < 0)
		return rc;
	if (!name && s->listed_jobs && json_object_size(s->jobs) != 1)
		return hd_json_fail(in->reader, in->prefix, "job is missing");
	if (!name && s->listed_jobs)
		name = json_object_iter_key(json_object_iter(s->jobs));
	if (!name)
		name = !tenant ? "default" : tenant;
	const int found = hd_problem_find_name(s->jobs, name);
	if (found < 0 && s->listed_jobs)
		return hd_json_fail(
			in->reader, in->prefix, "job \"%s\" is not among the jobs", name
		);
	const size_t count = json_object_size(s->jobs);
	if (found < 0 && count == HD_JOBS_MAX)
		return hd_json_fail(
			in->reader, in->prefix, "more than %d jobs (HD_JOBS_MAX)", HD_JOBS_MAX
		);
	if (found >= 0 && !tenant)
		return found;
	const int owner = tenant_of(reader, in->prefix, !tenant ? "default" : tenant);
	if (owner < 0)
		return owner;
	if (found >= 0 && s->job[found].tenant != (uint32_t)owner)
		return hd_json_fail(in->reader, in->prefix, "job \"%s\" is another tenant's", name);
	if (found >= 0)
		return found;
	s->job[count] = s->defaults;
	s->job[count].tenant = (uint32_t)owner;
	return add_name(s->jobs, name) < 0 ? -ENOMEM : (int)count;
}

static int read_path(
	const struct hd_problem_reader *reader,
	const struct hd_json_object *in,
	struct hd_plan_item *item
) {
	json_t *list = NULL, *value;
	size_t k;
	int rc = hd_json_array(in, "path", true, HD_PLAN_PATH_MAX, &list);

	if (rc < 0)
		return rc;
	json_array_foreach(list, k, value) {
		char field[96];

		(void)snprintf(field, sizeof field, "%s.path[%zu]", in->prefix, k);
		rc = hd_problem_link(reader, field, value);
		if (rc < 0)
			return rc;
		for (uint8_t o = 0; o < item->path_count; o++)
			if (item->path[o] == (uint32_t)rc)
				return hd_json_fail(in->reader, field, "a link twice");
		item->path[item->path_count++] = (uint32_t)rc;
	}
	return 0;
}

static int read_direction(const struct hd_json_object *in, struct hd_plan_item *item) {
	json_t *value = json_object_get(in->object, "direction");
	const char *text = json_string_value(value);
	char field[96];

	if (!value || (text && strcmp(text, "push") == 0))
		item->direction = HD_PLAN_PUSH;
	else if (text && strcmp(text, "pull") == 0)
		item->direction = HD_PLAN_PULL;
	else {
		(void)snprintf(field, sizeof field, "%s.direction", in->prefix);
		return hd_json_fail(in->reader, field, "must be \"push\" or \"pull\"");
	}
	return 0;
}

static int read_keep(const struct hd_json_object *in, struct hd_plan_item *item) {
	json_t *value = json_object_get(in->object, "keep");
	char field[96];

	if (value && !json_is_boolean(value)) {
		(void)snprintf(field, sizeof field, "%s.keep", in->prefix);
		return hd_json_fail(in->reader, field, "must be true or false");
	}
	item->keep = json_is_true(value);
	return 0;
}

static int read_update(const struct hd_problem_reader *reader, json_t *object, size_t index) {
	static const char *const keys[]
		= {"id",
		   "bytes",
		   "version",
		   "path",
		   "direction",
		   "tenant",
		   "job",
		   "waited",
		   "keep",
		   "kind",
		   "room",
		   "apart",
		   NULL};
	struct hd_plan_item *item = &reader->problem->items[index];
	char prefix[64], field[80];
	const struct hd_json_object in = {&reader->json, object, prefix};
	double version = 0, kind = 0;

	(void)snprintf(prefix, sizeof prefix, "updates[%zu]", index);
	int rc = hd_json_known(&in, keys);
	if (rc == 0)
		rc = read_direction(&in, item);
	if (rc < 0)
		return rc;
	const struct hd_json_wanted wanted[] = {
		{"bytes", {.least = 1e-9, .most = UNITS_MAX, .required = true}, &item->amount},
		{"version",
		 {.most = (double)HD_VERSION_COUNTER_MAX,
		  .whole = true,
		  .required = item->direction == HD_PLAN_PUSH},
		 &version},
		{"waited", {.most = SECONDS_MAX}, &item->waited},
		{"kind", {.most = UINT8_MAX, .whole = true}, &kind},
		{"room", {.most = UNITS_MAX}, &item->room},
		{"apart", {.most = 1}, &item->apart},
	};
	const json_t *id = json_object_get(object, "id");
	if (!json_is_integer(id) && json_string_length(id) == 0) {
		(void)snprintf(field, sizeof field, "%s.id", prefix);
		return hd_json_fail(&reader->json, field, "must be a whole number or a string");
	}
	reader->problem->ids[index].value = id;
	rc = READ_NUMBERS(&in, wanted);
	if (rc == 0)
		rc = read_path(reader, &in, item);
	if (rc == 0)
		rc = read_keep(&in, item);
	if (rc == 0)
		rc = job_of(reader, &in);
	if (rc < 0)
		return rc;
	item->job = (uint32_t)rc;
	item->version = (uint64_t)version;
	item->kind = (uint8_t)kind;
	return 0;
}

struct named {
	const json_t *id;
	size_t index;
};

/* Whole numbers before strings, each in their order: this decides ties between updates. */
static int compare_ids(const void *a, const void *b) {
	const json_t *x = ((const struct named *)a)->id, *y = ((const struct named *)b)->id;

	if (json_is_integer(x) != json_is_integer(y))
		return json_is_integer(x) ? -1 : 1;
	if (json_is_integer(x))
		return (json_integer_value(x) > json_integer_value(y))
			- (json_integer_value(x) < json_integer_value(y));
	return strcmp(json_string_value(x), json_string_value(y));
}

/* The planner's ids are the ranks, from 1. */
static int number_ids(const struct hd_problem_reader *reader) {
	struct hd_problem *s = reader->problem;
	const size_t count = s->input.item_count;
	struct named *all = calloc(count + 1, sizeof *all);
	int rc = 0;

	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		all[i] = (struct named){s->ids[i].value, i};
	qsort(all, count, sizeof *all, compare_ids);
	for (size_t i = 0; i < count; i++) {
		s->items[all[i].index].id = i + 1;
		s->ids[i].value = all[i].id;
	}
	for (size_t i = 1; rc == 0 && i < count; i++) {
		const size_t a = all[i - 1].index, b = all[i].index;
		char field[64];

		if (compare_ids(&all[i - 1], &all[i]) != 0)
			continue;
		(void)snprintf(field, sizeof field, "updates[%zu].id", a > b ? a : b);
		rc = hd_json_fail(&reader->json, field, "another update has it too");
	}
	free(all);
	return rc;
}

static int read_updates(const struct hd_problem_reader *reader, const struct hd_json_object *root) {
	struct hd_problem *s = reader->problem;
	json_t *list = NULL, *object;
	size_t i;
	int rc = hd_json_array(root, "updates", true, HD_PENDING_MAX, &list);

	if (rc < 0)
		return rc;
	s->items = calloc(json_array_size(list) + 1, sizeof *s->items);
	s->ids = calloc(json_array_size(list) + 1, sizeof *s->ids);
	if (!s->items || !s->ids)
		return -ENOMEM;
	s->input.items = s->items;
	s->input.item_count = (uint32_t)json_array_size(list);
	json_array_foreach(list, i, object) {
		rc = read_update(reader, object, i);
		if (rc < 0)
			return rc;
	}
	return number_ids(reader);
}

static int read_root(const struct hd_problem_reader *reader) {
	static const char *const keys[]
		= {"links",
		   "updates",
		   "v_init",
		   "tau_max",
		   "theta",
		   "server_free",
		   "ageing",
		   "share_min",
		   "jobs",
		   "tenants",
		   "busy",
		   "aggregators",
		   "streaming",
		   "about",
		   NULL};
	struct hd_problem *s = reader->problem;
	const struct hd_json_object root = {&reader->json, s->root, ""};
	const struct hd_json_wanted wanted[] = {
		{"ageing",
		 {.most = SECONDS_MAX, .fallback = INFINITY, .infinite = true},
		 &s->input.ageing_s},
		{"share_min", {.most = 1, .fallback = HD_PLAN_SHARE_MIN}, &s->input.share_min},
	};
	int rc = hd_json_known(&root, keys);

	if (rc == 0)
		rc = READ_NUMBERS(&root, wanted);
	if (rc == 0)
		rc = hd_problem_read_links(reader, &root);
	if (rc == 0)
		rc = hd_problem_read_busy(reader, &root);
	if (rc == 0)
		rc = read_tenants(reader, &root);
	if (rc == 0)
		rc = read_jobs(reader, &root);
	if (rc == 0)
		rc = read_updates(reader, &root);
	if (rc == 0)
		rc = hd_problem_read_aggregators(reader, &root);
	s->input.tenants = s->tenant;
	s->input.tenant_count = (uint32_t)json_object_size(s->tenants);
	s->input.jobs = s->job;
	s->input.job_count = (uint32_t)json_object_size(s->jobs);
	return rc;
}

int hd_problem_parse(
	const char *text,
	struct hd_problem **problem,
	char *error,
	size_t error_bytes
) {
	struct hd_problem_reader reader = {.json = {text, error, error_bytes}};
	json_t *root = hd_json_load(&reader.json);

	if (!root)
		return -EINVAL;
	reader.problem = calloc(1, sizeof *reader.problem);
	if (!reader.problem) {
		json_decref(root);
		return -ENOMEM;
	}
	reader.problem->root = root;
	reader.problem->links = json_object();
	reader.problem->jobs = json_object();
	reader.problem->tenants = json_object();
	reader.problem->aggregator_names = json_object();
	const int rc = read_root(&reader);
	if (rc < 0) {
		hd_problem_destroy(reader.problem);
		return rc;
	}
	*problem = reader.problem;
	return 0;
}

void hd_problem_destroy(struct hd_problem *problem) {
	if (!problem)
		return;
	json_decref(problem->root);
	json_decref(problem->links);
	json_decref(problem->jobs);
	json_decref(problem->tenants);
	json_decref(problem->aggregator_names);
	free(problem->capacity);
	free(problem->busy);
	free(problem->items);
	free(problem->ids);
	free(problem);
}
