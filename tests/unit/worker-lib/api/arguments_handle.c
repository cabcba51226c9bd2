/* SPDX-License-Identifier: BSD-3-Clause */
/* NULL and nonsense for handles, pushes, pulls and all-reduces. */
#include "arguments.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* --- the handle ------------------------------------------------------------------------------- */

static void open_(struct arguments_scene *s) {
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	struct heddle *fabric = ANY;

	options.server = "127.0.0.1:9";
	options.key_file = s->key_path;
	refused(heddle_open(NULL, &options, &fabric), "spec: NULL");
	refused(heddle_open(s->spec, &options, NULL), "fabric: NULL");
	options.size--;
	refused(heddle_open(s->spec, &options, &fabric), "options: size");
	options.size++;
	options.rank = INT_MAX;
	refused(heddle_open(s->spec, &options, &fabric), "is beyond 4095");
	options.rank = 0;
	options.chunk_bytes = 3;
	refused(heddle_open(s->spec, &options, &fabric), "chunk_bytes");
	options.chunk_bytes = 0;
	assert_int_equal(setenv("HEDDLE_CHUNK_BYTES", "60", 1), 0);
	refused(heddle_open(s->spec, &options, &fabric),
		"HEDDLE_CHUNK_BYTES: '60' is not a whole number in 64..8896");
	/* Digits alone, as options. */
	assert_int_equal(setenv("HEDDLE_CHUNK_BYTES", "+1000", 1), 0);
	refused(heddle_open(s->spec, &options, &fabric),
		"HEDDLE_CHUNK_BYTES: '+1000' is not a whole number in 64..8896");
	assert_int_equal(setenv("HEDDLE_CHUNK_BYTES", "1001", 1), 0);
	refused(heddle_open(s->spec, &options, &fabric),
		"HEDDLE_CHUNK_BYTES: 1001 is not a multiple of 4");
	assert_int_equal(unsetenv("HEDDLE_CHUNK_BYTES"), 0);
	assert_int_equal(setenv("HEDDLE_AGGREGATOR_MB", "much", 1), 0);
	refused(heddle_open(s->spec, &options, &fabric),
		"HEDDLE_AGGREGATOR_MB: 'much' is not a whole number in 0..");
	assert_int_equal(unsetenv("HEDDLE_AGGREGATOR_MB"), 0);
	options.aggregator_mb = 5; /* without a controller */
	refused(heddle_open(s->spec, &options, &fabric), "aggregator_mb: 5, but");
	options.controller = "127.0.0.1:9";
	options.manual = 1;
	refused(heddle_open(s->spec, &options, &fabric), "aggregator_mb: 5, but");
	options.aggregator_mb = INT_MAX;
	refused(heddle_open(s->spec, &options, &fabric), "aggregator_mb: more than");
	options.aggregator_mb = options.manual = 0;
	options.world_size = 4097;
	refused(heddle_open(s->spec, &options, &fabric), "world_size: 4097 is not in 1..4096");
	options.world_size = -1;
	refused(heddle_open(s->spec, &options, &fabric), "world_size: -1 is not in 1..4096");
	options.world_size = 0;
	options.controller = NULL;
	options.job_weight = NAN;
	refused(heddle_open(s->spec, &options, &fabric), "job_weight: nan");
	options.job_weight = -1;
	refused(heddle_open(s->spec, &options, &fabric), "job_weight: -1");
	options.job_weight = INFINITY;
	refused(heddle_open(s->spec, &options, &fabric), "job_weight: inf must be finite");
	assert_ptr_equal(fabric, ANY);
}

static void wait_joined(struct arguments_scene *s) {
	(void)s;
	refused(heddle_wait_joined(NULL, 0, NULL, NULL), "handle: NULL");
}

static void leave(struct arguments_scene *s) {
	(void)s;
	refused(heddle_leave(NULL, 0), "handle: NULL");
}

static void close_(struct arguments_scene *s) {
	(void)s;
	assert_int_equal(heddle_close(NULL, 0), 0);
}

static void group_open(struct arguments_scene *s) {
	const int mine = heddle_rank(s->fabric), other = mine + 1;
	const int twice[] = {mine, other, other}, far[] = {mine, 4096}, others[] = {other};
	struct heddle *group = ANY;
	char name[256];

	memset(name, 'x', sizeof name);
	name[sizeof name - 1] = '\0';
	refused(heddle_group_open(NULL, "g", &mine, 1, &group), "handle: NULL");
	refused(heddle_group_open(s->fabric, "g", &mine, 1, NULL), "group: NULL");
	refused(heddle_group_open(s->fabric, "g", NULL, 1, &group), "ranks: NULL");
	refused(heddle_group_open(s->fabric, "g", &mine, 0, &group), "count: 0 is not in 1..");
	refused(heddle_group_open(s->fabric, "g", &mine, 5000, &group),
		"count: 5000 is not in 1..");
	refused(heddle_group_open(s->fabric, "g", far, 2, &group), "ranks: 4096 is not in 0..4095");
	refused(heddle_group_open(s->fabric, "g", twice, 3, &group), "is there twice");
	refused(heddle_group_open(s->fabric, "g", others, 1, &group), "is missing");
	refused(heddle_group_open(s->fabric, NULL, &mine, 1, &group), "name: empty");
	refused(heddle_group_open(s->fabric, "", &mine, 1, &group), "name: empty");
	refused(heddle_group_open(s->fabric, name, &mine, 1, &group), "name: 255 bytes");
	refused(heddle_group_open(s->fabric, "a/b", &mine, 1, &group), "name: a/b has a /");
	refused(heddle_group_open(s->fabric, "a\n", &mine, 1, &group), "job name: not UTF-8");
	assert_ptr_equal(group, ANY);
}

static void rank(struct arguments_scene *s) {
	(void)s;
	refused(heddle_rank(NULL), "handle: NULL");
}

static void world_size(struct arguments_scene *s) {
	(void)s;
	refused(heddle_world_size(NULL), "handle: NULL");
}

static void fd(struct arguments_scene *s) {
	(void)s;
	refused(heddle_fd(NULL), "handle: NULL");
}

static void progress(struct arguments_scene *s) {
	(void)s;
	refused(heddle_progress(NULL, 0), "handle: NULL");
}

static void timeout_ms(struct arguments_scene *s) {
	(void)s;
	refused(heddle_timeout_ms(NULL), "handle: NULL");
}

static void get_stats(struct arguments_scene *s) {
	struct heddle_stats stats = HEDDLE_STATS_INIT;

	refused(heddle_get_stats(NULL, &stats), "handle: NULL");
	refused(heddle_get_stats(s->fabric, NULL), "stats: NULL, or size");
	stats.size++;
	refused(heddle_get_stats(s->fabric, &stats), "stats: NULL, or size");
}

static void get_times(struct arguments_scene *s) {
	struct heddle_times times = HEDDLE_TIMES_INIT;

	refused(heddle_get_times(NULL, HEDDLE_TIME_PUSH, &times), "handle: NULL");
	refused(heddle_get_times(s->fabric, (enum heddle_time)NONSENSE, &times), "which");
	refused(heddle_get_times(s->fabric, HEDDLE_TIME_PUSH, NULL), "times: NULL, or size");
	times.size++;
	refused(heddle_get_times(s->fabric, HEDDLE_TIME_PUSH, &times), "times: NULL, or size");
}

/* --- pushes and pulls ------------------------------------------------------------------------- */

static void push_start(struct arguments_scene *s) {
	struct heddle_push_options options = HEDDLE_PUSH_OPTIONS_INIT;

	refused(heddle_push_start(NULL, s->data, 0, NULL, &s->none), "handle: NULL");
	refused(heddle_push_start(s->fabric, NULL, 0, NULL, &s->none), "data or ticket: NULL");
	refused(heddle_push_start(s->fabric, s->data, 0, NULL, NULL), "data or ticket: NULL");
	refused(heddle_push_start(s->empty, s->data, 0, NULL, &s->none), "the job has no model");
	refused(heddle_push_start(s->federated, s->data, 0, NULL, &s->none),
		"heddle_round_push_start()");
	options.size = 1;
	refused(heddle_push_start(s->fabric, s->data, 0, &options, &s->none), "push options: size");
	options.size = sizeof options;
	options.memory = (enum heddle_memory)NONSENSE;
	refused(heddle_push_start(s->fabric, s->data, 0, &options, &s->none), "memory: kind 256");
	options.memory = HEDDLE_MEMORY_HOST;
	options.stream = &options;
	refused(heddle_push_start(s->fabric, s->data, 0, &options, &s->none), "stream");
	options.stream = NULL;
	options.payload = (enum heddle_payload)NONSENSE;
	refused(heddle_push_start(s->fabric, s->data, 0, &options, &s->none), "payload: type 256");
	options.payload = HEDDLE_PAYLOAD_FP32;
	options.scale = NAN;
	refused(heddle_push_start(s->fabric, s->data, 0, &options, &s->none), "scale: nan");
	options.scale = INFINITY;
	refused(heddle_push_start(s->fabric, s->data, 0, &options, &s->none),
		"scale: inf must be finite");
}

static void push_sparse_start(struct arguments_scene *s) {
	const struct heddle_range backwards[] = {{2, 1}, {0, 1}}, beyond = {UINT64_MAX, 2};
	struct heddle_sparse update = {backwards, 2, s->data};

	refused(heddle_push_sparse_start(NULL, &update, 0, NULL, &s->none), "handle: NULL");
	refused(heddle_push_sparse_start(s->fabric, NULL, 0, NULL, &s->none), "update: NULL");
	refused(heddle_push_sparse_start(s->fabric, &update, 0, NULL, NULL), "ticket: NULL");
	refused(heddle_push_sparse_start(s->fabric, &update, 0, NULL, &s->none), "ranges");
	update = (struct heddle_sparse){&beyond, 1, s->data};
	refused(heddle_push_sparse_start(s->fabric, &update, 0, NULL, &s->none), "ranges");
	refused(heddle_push_sparse_start(s->empty, &update, 0, NULL, &s->none), "ranges");
	update.ranges = NULL;
	refused(heddle_push_sparse_start(s->fabric, &update, 0, NULL, &s->none), "ranges");
	update = (struct heddle_sparse){backwards, 1, NULL};
	refused(heddle_push_sparse_start(s->fabric, &update, 0, NULL, &s->none),
		"data or ticket: NULL");
}

static void pull_start(struct arguments_scene *s) {
	struct heddle_pull_options options = HEDDLE_PULL_OPTIONS_INIT;

	refused(heddle_pull_start(NULL, s->data, NULL, &s->none), "handle: NULL");
	refused(heddle_pull_start(s->fabric, NULL, NULL, &s->none), "data or ticket: NULL");
	refused(heddle_pull_start(s->fabric, s->data, NULL, NULL), "data or ticket: NULL");
	refused(heddle_pull_start(s->empty, s->data, NULL, &s->none), "the job has no model");
	options.size--;
	refused(heddle_pull_start(s->fabric, s->data, &options, &s->none), "pull options: size");
	options.size++;
	options.payload = HEDDLE_PAYLOAD_FIXED32; /* of updates */
	refused(heddle_pull_start(s->fabric, s->data, &options, &s->none), "payload: type 3");
}

static void is_superseded(struct arguments_scene *s) {
	(void)s;
	assert_int_equal(heddle_is_superseded(NULL, 0), 0);
}

static void ticket_test(struct arguments_scene *s) {
	struct heddle_status status = HEDDLE_STATUS_INIT;

	refused(heddle_ticket_test(NULL, &status), "ticket: NULL");
	status.size = 0;
	refused(heddle_ticket_test(s->ticket, &status), "status: size");
	status.size = SIZE_MAX;
	refused(heddle_ticket_test(s->ticket, &status), "status: size");
}

/* A call that waits refuses arguments before it waits. */
static void ticket_wait(struct arguments_scene *s) {
	struct heddle_status status = HEDDLE_STATUS_INIT;

	refused(heddle_ticket_wait(NULL, HEDDLE_WAIT_OUTCOME, -1, &status), "ticket: NULL");
	refused(heddle_ticket_wait(s->ticket, (enum heddle_wait)NONSENSE, -1, NULL), "until: 256");
	status.size = 0;
	refused(heddle_ticket_wait(s->ticket, HEDDLE_WAIT_OUTCOME, -1, &status), "status: size");
}

static void never(struct heddle_ticket *ticket, void *argument) {
	fail_msg("called for %p, %p", (void *)ticket, argument);
}

static void ticket_then(struct arguments_scene *s) {
	refused(heddle_ticket_then(NULL, HEDDLE_WAIT_OUTCOME, never, s), "ticket: NULL");
	refused(heddle_ticket_then(s->ticket, HEDDLE_WAIT_OUTCOME, NULL, s), "function: NULL");
	refused(heddle_ticket_then(s->ticket, (enum heddle_wait)NONSENSE, never, s), "until: 256");
}

static void ticket_cancel(struct arguments_scene *s) {
	(void)s;
	refused(heddle_ticket_cancel(NULL), "ticket: NULL");
}

static void ticket_error(struct arguments_scene *s) {
	assert_string_equal(heddle_ticket_error(NULL), "");
	assert_string_equal(heddle_ticket_error(s->ticket), ""); /* it has not ended */
}

static void ticket_free(struct arguments_scene *s) {
	(void)s;
	heddle_ticket_free(NULL);
}

static void push(struct arguments_scene *s) {
	struct heddle_status status = HEDDLE_STATUS_INIT;
	struct heddle_stats before = HEDDLE_STATS_INIT, after = HEDDLE_STATS_INIT;

	refused(heddle_push(NULL, s->data, 0, NULL, -1, NULL), "handle: NULL");
	refused(heddle_push(s->fabric, NULL, 0, NULL, -1, NULL), "data");
	status.size = 0;
	assert_int_equal(heddle_get_stats(s->fabric, &before), 0);
	refused(heddle_push(s->fabric, s->data, 0, NULL, -1, &status), "status: size");
	assert_int_equal(heddle_get_stats(s->fabric, &after), 0);
	assert_int_equal(after.pushed, before.pushed);
}

static void push_sparse(struct arguments_scene *s) {
	const struct heddle_range backwards[] = {{2, 1}, {0, 1}};
	const struct heddle_sparse update = {backwards, 2, s->data};
	struct heddle_status status = HEDDLE_STATUS_INIT;

	refused(heddle_push_sparse(NULL, &update, 0, NULL, -1, NULL), "handle: NULL");
	refused(heddle_push_sparse(s->fabric, NULL, 0, NULL, -1, NULL), "update: NULL");
	refused(heddle_push_sparse(s->fabric, &update, 0, NULL, -1, NULL), "ranges");
	status.size = 0;
	refused(heddle_push_sparse(s->fabric, &update, 0, NULL, -1, &status), "status: size");
}

static void pull(struct arguments_scene *s) {
	struct heddle_status status = HEDDLE_STATUS_INIT;

	status.version = 7;
	refused(heddle_pull(NULL, s->data, NULL, -1, &status), "handle: NULL");
	refused(heddle_pull(s->fabric, NULL, NULL, -1, &status), "data");
	assert_int_equal(status.version, 7);
	status.size = 0;
	refused(heddle_pull(s->fabric, s->data, NULL, -1, &status), "status: size");
}

/* --- all-reduces ------------------------------------------------------------------------------ */

static void agree(struct arguments_scene *s) {
	struct heddle_status status = HEDDLE_STATUS_INIT;

	refused(heddle_agree(NULL, "x", 1, -1, NULL), "handle: NULL");
	refused(heddle_agree(s->fabric, NULL, 1, -1, NULL), "data: NULL");
	status.size = 1;
	refused(heddle_agree(s->fabric, "x", 1, -1, &status), "status: size");
}

static void allreduce_start(struct arguments_scene *s) {
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;
	float *d = s->data;

	refused(heddle_allreduce_start(NULL, d, d, VALUES, NULL, &s->none), "handle: NULL");
	refused(heddle_allreduce_start(s->fabric, NULL, d, VALUES, NULL, &s->none), "in, out");
	refused(heddle_allreduce_start(s->fabric, d, NULL, VALUES, NULL, &s->none), "in, out");
	refused(heddle_allreduce_start(s->fabric, d, d, VALUES, NULL, NULL), "ticket: NULL");
	refused(heddle_allreduce_start(s->fabric, d, d, 0, NULL, &s->none), "count: 0");
	refused(heddle_allreduce_start(s->fabric, d, d, UINT64_MAX, NULL, &s->none), "count");
	options.size--;
	refused(heddle_allreduce_start(s->fabric, d, d, VALUES, &options, &s->none), "size");
	options.size++;
	options.reduce_op = (enum heddle_reduce_op)NONSENSE;
	refused(heddle_allreduce_start(s->fabric, d, d, VALUES, &options, &s->none), "reduce_op");
	options.reduce_op = HEDDLE_REDUCE_OP_SUM;
	options.payload = (enum heddle_payload)NONSENSE;
	refused(heddle_allreduce_start(s->fabric, d, d, VALUES, &options, &s->none), "payload");
	options.payload = HEDDLE_PAYLOAD_FP32;
	options.type = (enum heddle_type)NONSENSE;
	refused(heddle_allreduce_start(s->fabric, d, d, VALUES, &options, &s->none), "type");
	options.type = (enum heddle_type)(HEDDLE_TYPE_INT64 + 1);
	refused(heddle_allreduce_start(s->fabric, d, d, VALUES, &options, &s->none), "type: 8");
	options.type = HEDDLE_TYPE_INT64;
	refused(heddle_allreduce_start(s->fabric, d, d, UINT64_MAX / 8, &options, &s->none),
		"count");
	options.payload = HEDDLE_PAYLOAD_FP16;
	refused(heddle_allreduce_start(s->fabric, d, d, VALUES, &options, &s->none), "payload");
	options.payload = HEDDLE_PAYLOAD_FP32;
	options.exact = HEDDLE_WORKERS_MAX + 1;
	refused(heddle_allreduce_start(s->fabric, d, d, VALUES, &options, &s->none), "exact");
	options.exact = 0;
	options.tag = "a tag of 64 bytes, of which the last one is one too many: too long";
	refused(heddle_allreduce_start(s->fabric, d, d, VALUES, &options, &s->none), "tag: longer");
	options.tag = "two\nlines";
	refused(heddle_allreduce_start(s->fabric, d, d, VALUES, &options, &s->none), "tag: not");
	says(heddle_allreduce_start(s->fabric, d, d, VALUES, NULL, &s->none),
	     -EDESTADDRREQ,
	     "controller");
}

static void allreduce(struct arguments_scene *s) {
	struct heddle_status status = HEDDLE_STATUS_INIT;
	float *d = s->data;

	refused(heddle_allreduce(NULL, d, d, VALUES, NULL, -1, NULL), "handle: NULL");
	refused(heddle_allreduce(s->fabric, NULL, d, VALUES, NULL, -1, NULL), "in or out: NULL");
	refused(heddle_allreduce(s->fabric, d, NULL, VALUES, NULL, -1, NULL), "in or out: NULL");
	status.size = 0;
	refused(heddle_allreduce(s->fabric, d, d, VALUES, NULL, -1, &status), "status: size");
}

const struct arguments_row arguments_handle[] = {
	{"heddle_agree", agree},
	{"heddle_allreduce", allreduce},
	{"heddle_allreduce_start", allreduce_start},
	{"heddle_close", close_},
	{"heddle_fd", fd},
	{"heddle_get_stats", get_stats},
	{"heddle_get_times", get_times},
	{"heddle_is_superseded", is_superseded},
	{"heddle_leave", leave},
	{"heddle_open", open_},
	{"heddle_progress", progress},
	{"heddle_pull", pull},
	{"heddle_pull_start", pull_start},
	{"heddle_push", push},
	{"heddle_push_sparse", push_sparse},
	{"heddle_push_sparse_start", push_sparse_start},
	{"heddle_push_start", push_start},
	{"heddle_group_open", group_open},
	{"heddle_rank", rank},
	{"heddle_ticket_cancel", ticket_cancel},
	{"heddle_ticket_error", ticket_error},
	{"heddle_ticket_free", ticket_free},
	{"heddle_ticket_test", ticket_test},
	{"heddle_ticket_then", ticket_then},
	{"heddle_ticket_wait", ticket_wait},
	{"heddle_timeout_ms", timeout_ms},
	{"heddle_wait_joined", wait_joined},
	{"heddle_world_size", world_size},
	{0},
};
