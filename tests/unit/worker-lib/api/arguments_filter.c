/* SPDX-License-Identifier: BSD-3-Clause */
/* NULL and nonsense for the significance filter. */
#include "arguments.h"

#include <math.h>
#include <stdint.h>

static void filter_create(struct arguments_scene *s) {
	struct heddle_filter_options options = HEDDLE_FILTER_OPTIONS_INIT;
	struct heddle_filter *filter = ANY;

	(void)s;
	refused(heddle_filter_create(VALUES, NULL, &filter), "filter options: NULL, or size");
	refused(heddle_filter_create(VALUES, &options, NULL), "filter: NULL");
	refused(heddle_filter_create(0, &options, &filter), "values: 0");
	refused(heddle_filter_create(UINT64_MAX, &options, &filter), "values: too many");
	options.v = NAN;
	refused(heddle_filter_create(VALUES, &options, &filter), "v: nan");
	options.v = 0;
	options.factor = 0;
	refused(heddle_filter_create(VALUES, &options, &filter), "factor: 0");
	options.factor = 1;
	options.block = UINT32_MAX;
	refused(heddle_filter_create(VALUES, &options, &filter), "block");
	options.block = 0;
	options.decay = (enum heddle_filter_decay)NONSENSE;
	refused(heddle_filter_create(VALUES, &options, &filter), "decay: 256");
	options.size++;
	refused(heddle_filter_create(VALUES, &options, &filter), "size");
	assert_ptr_equal(filter, ANY);
}

static void filter_destroy(struct arguments_scene *s) {
	(void)s;
	heddle_filter_destroy(NULL);
}

/* Nothing is done of a push that cannot be: the caller corrects it, and comes again with the same step. */
static void filter_refuses(
	struct arguments_scene *s,
	struct heddle *fabric,
	const struct heddle_push_options *options,
	const char *words
) {
	struct heddle_filter_stats before = HEDDLE_FILTER_STATS_INIT, after = before;
	float x[VALUES] = {0}, update[VALUES] = {1, 1, 1, 1};
	struct heddle_filter_step step = {x, update, 1, 0};

	assert_int_equal(heddle_filter_get_stats(s->filter, &before), 0);
	refused(heddle_filter_push_start(s->filter, fabric, &step, options, &s->none), words);
	assert_int_equal(heddle_filter_get_stats(s->filter, &after), 0);
	assert_int_equal(after.steps, before.steps);
	assert_true(after.held_norm == 0);
	for (int i = 0; i < VALUES; i++)
		assert_true(x[i] == 0 && update[i] == 1 && heddle_filter_held(s->filter)[i] == 0);
	refused(heddle_filter_flush_start(s->filter, fabric, 0, options, &s->none), words);
}

static void filter_push_options(struct arguments_scene *s) {
	struct heddle_push_options options = HEDDLE_PUSH_OPTIONS_INIT;
	const float scales[] = {NAN, INFINITY, -1};

	filter_refuses(s, s->federated, NULL, "heddle_round_push_start()");
	options.payload = (enum heddle_payload)NONSENSE;
	filter_refuses(s, s->fabric, &options, "payload: type 256");
	options.payload = HEDDLE_PAYLOAD_FP32;
	options.memory = (enum heddle_memory)NONSENSE;
	filter_refuses(s, s->fabric, &options, "memory: kind 256");
	options.memory = HEDDLE_MEMORY_HOST;
	for (int i = 0; i < 3; i++) {
		options.scale = scales[i];
		filter_refuses(s, s->fabric, &options, "must be finite and above 0");
	}
	options.scale = 0;
	options.borrow = 1;
	filter_refuses(s, s->fabric, &options, "borrow");
}

/* Packets in which no run has room: all of the step's update goes. */
static void filter_push_short(struct arguments_scene *s) {
	struct heddle_filter_options of = HEDDLE_FILTER_OPTIONS_INIT;
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	struct heddle_status status = HEDDLE_STATUS_INIT;
	float x[VALUES] = {0}, update[VALUES] = {1};
	struct heddle_filter_step step = {x, update, 1, 0};
	struct heddle_filter *filter;
	struct heddle_ticket *ticket;
	struct heddle *fabric;

	of.v = 0.5f;
	assert_int_equal(heddle_filter_create(VALUES, &of, &filter), 0);
	options.server = "127.0.0.1:9";
	options.key_file = s->key_path;
	options.rank = 0;
	options.chunk_bytes = 8;
	assert_int_equal(heddle_open(s->spec, &options, &fabric), 0);
	assert_int_equal(heddle_filter_push_start(filter, fabric, &step, NULL, &ticket), 0);
	assert_int_equal(heddle_ticket_test(ticket, &status), 0);
	assert_int_equal(status.bytes, sizeof update);
	heddle_ticket_free(ticket);
	(void)heddle_close(fabric, 0);
	heddle_filter_destroy(filter);
}

static void filter_push(struct arguments_scene *s) {
	struct heddle_push_options options = HEDDLE_PUSH_OPTIONS_INIT;
	struct heddle_filter_step step = {s->data, s->data, 1, 0};

	refused(heddle_filter_push_start(NULL, s->fabric, &step, NULL, &s->none),
		"filter or ticket: NULL");
	refused(heddle_filter_push_start(s->filter, NULL, &step, NULL, &s->none), "handle: NULL");
	refused(heddle_filter_push_start(s->filter, s->fabric, NULL, NULL, &s->none), "step");
	refused(heddle_filter_push_start(s->filter, s->fabric, &step, NULL, NULL), "ticket: NULL");
	refused(heddle_filter_push_start(s->filter, s->empty, &step, NULL, &s->none),
		"filter: of 4 values");
	options.size = 1;
	refused(heddle_filter_push_start(s->filter, s->fabric, &step, &options, &s->none), "size");
	step.step = 0;
	refused(heddle_filter_push_start(s->filter, s->fabric, &step, NULL, &s->none), "step");
	step = (struct heddle_filter_step){NULL, s->data, 1, 0};
	refused(heddle_filter_push_start(s->filter, s->fabric, &step, NULL, &s->none),
		"x or update");
	step = (struct heddle_filter_step){s->data, NULL, 1, 0};
	refused(heddle_filter_push_start(s->filter, s->fabric, &step, NULL, &s->none),
		"x or update");
	filter_push_options(s);
	filter_push_short(s);
}

static void filter_apply(struct arguments_scene *s) {
	struct heddle_sparse sparse;
	float *d = s->data;

	refused(heddle_filter_apply(NULL, d, d, 1, &sparse), "NULL");
	refused(heddle_filter_apply(s->filter, NULL, d, 1, &sparse), "NULL");
	refused(heddle_filter_apply(s->filter, d, NULL, 1, &sparse), "NULL");
	refused(heddle_filter_apply(s->filter, d, d, 0, &sparse), "step: 0");
	refused(heddle_filter_apply(s->filter, d, d, 1, NULL), "NULL");
}

static void filter_flush(struct arguments_scene *s) {
	struct heddle_push_options options = HEDDLE_PUSH_OPTIONS_INIT;

	refused(heddle_filter_flush_start(NULL, s->fabric, 0, NULL, &s->none),
		"filter or ticket: NULL");
	refused(heddle_filter_flush_start(s->filter, NULL, 0, NULL, &s->none), "handle: NULL");
	refused(heddle_filter_flush_start(s->filter, s->fabric, 0, NULL, NULL), "ticket: NULL");
	options.size = 1;
	refused(heddle_filter_flush_start(s->filter, s->fabric, 0, &options, &s->none), "size");
}

static void filter_take(struct arguments_scene *s) {
	struct heddle_sparse sparse;

	refused(heddle_filter_take(NULL, s->data, &sparse), "NULL");
	refused(heddle_filter_take(s->filter, NULL, &sparse), "NULL");
	refused(heddle_filter_take(s->filter, s->data, NULL), "NULL");
}

static void filter_return(struct arguments_scene *s) {
	refused(heddle_filter_return(NULL, s->data), "NULL");
	refused(heddle_filter_return(s->filter, NULL), "NULL");
}

static void filter_reapply(struct arguments_scene *s) {
	refused(heddle_filter_reapply(NULL, s->data), "NULL");
	refused(heddle_filter_reapply(s->filter, NULL), "NULL");
}

static void filter_set_factor(struct arguments_scene *s) {
	refused(heddle_filter_set_factor(NULL, 1), "filter: NULL");
	refused(heddle_filter_set_factor(s->filter, 0), "factor: 0");
	refused(heddle_filter_set_factor(s->filter, NAN), "factor: nan");
}

static void filter_keep(struct arguments_scene *s) {
	refused(heddle_filter_keep(NULL, 1), "filter: NULL");
	refused(heddle_filter_keep(s->filter, NAN), "part: nan");
	refused(heddle_filter_keep(s->filter, 2), "part: 2");
}

static void filter_held(struct arguments_scene *s) {
	(void)s;
	assert_null(heddle_filter_held(NULL));
}

static void filter_get_stats(struct arguments_scene *s) {
	struct heddle_filter_stats stats = HEDDLE_FILTER_STATS_INIT;

	refused(heddle_filter_get_stats(NULL, &stats), "filter or stats: NULL, or size");
	refused(heddle_filter_get_stats(s->filter, NULL), "filter or stats: NULL, or size");
	stats.size++;
	refused(heddle_filter_get_stats(s->filter, &stats), "filter or stats: NULL, or size");
}

const struct arguments_row arguments_filter[] = {
	{"heddle_filter_apply", filter_apply},
	{"heddle_filter_create", filter_create},
	{"heddle_filter_destroy", filter_destroy},
	{"heddle_filter_flush_start", filter_flush},
	{"heddle_filter_get_stats", filter_get_stats},
	{"heddle_filter_held", filter_held},
	{"heddle_filter_keep", filter_keep},
	{"heddle_filter_push_start", filter_push},
	{"heddle_filter_reapply", filter_reapply},
	{"heddle_filter_return", filter_return},
	{"heddle_filter_set_factor", filter_set_factor},
	{"heddle_filter_take", filter_take},
	{0},
};
