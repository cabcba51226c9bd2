/* SPDX-License-Identifier: BSD-3-Clause */
/* NULL and nonsense for sends and receives. The worker is rank 0. */
#include "arguments.h"

#define NONE (&s->none)

/* The options that both refuse. */
static void check_options(
	struct arguments_scene *s,
	int (*call)(struct arguments_scene *s, const struct heddle_collective_options *options)
) {
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;
	const struct heddle_collective_options plain = options;

	options.size--;
	refused(call(s, &options), "options: size");
	options = plain;
	options.memory = (enum heddle_memory)NONSENSE;
	refused(call(s, &options), "memory: kind");
	options = plain;
	options.stream = s->data;
	refused(call(s, &options), "stream");
	options = plain;
	options.payload = HEDDLE_PAYLOAD_FP16;
	refused(call(s, &options), "payload");
	options = plain;
	options.reduce_op = HEDDLE_REDUCE_OP_AVERAGE;
	refused(call(s, &options), "reduce_op");
	options = plain;
	options.ranked = 1;
	refused(call(s, &options), "ranked");
	options = plain;
	options.type = (enum heddle_type)NONSENSE;
	refused(call(s, &options), "type: 256");
	options = plain;
	options.exact = 2;
	refused(call(s, &options), "exact");
	options = plain;
	options.out_count = VALUES;
	refused(call(s, &options), "out_count");
	options = plain;
	options.tag = "\x01";
	refused(call(s, &options), "tag: not UTF-8");
	options.tag = "0123456789012345678901234567890123456789012345678901234567890123";
	refused(call(s, &options), "tag: longer");
}

static int call_send(struct arguments_scene *s, const struct heddle_collective_options *options) {
	return heddle_send_start(s->fabric, s->data, VALUES, 1, options, NONE);
}

static void send_start(struct arguments_scene *s) {
	const float *d = s->data;
	const int own = heddle_rank(s->fabric);

	refused(heddle_send_start(NULL, d, VALUES, 1, NULL, NONE), "handle: NULL");
	refused(heddle_send_start(s->fabric, NULL, VALUES, 1, NULL, NONE), "data: NULL");
	refused(heddle_send_start(s->fabric, d, VALUES, 1, NULL, NULL), "ticket: NULL");
	refused(heddle_send_start(s->fabric, d, VALUES, -1, NULL, NONE), "to: -1");
	refused(heddle_send_start(s->fabric, d, VALUES, HEDDLE_WORKERS_MAX, NULL, NONE),
		"to: 4096");
	refused(heddle_send_start(s->fabric, d, VALUES, own, NULL, NONE), "own rank");
	refused(heddle_send_start(s->fabric, d, 0, own + 1, NULL, NONE), "count: 0");
	refused(heddle_send_start(s->fabric, d, UINT64_MAX, own + 1, NULL, NONE), "count: ");
	says(heddle_send_start(s->fabric, d, VALUES, own + 1, NULL, NONE),
	     -EDESTADDRREQ,
	     "controller: sends");
	check_options(s, call_send);
}

static void send_waits(struct arguments_scene *s) {
	struct heddle_status status = HEDDLE_STATUS_INIT;
	const int own = heddle_rank(s->fabric);

	refused(heddle_send(NULL, s->data, VALUES, 1, NULL, -1, NULL), "handle: NULL");
	refused(heddle_send(s->fabric, NULL, VALUES, 1, NULL, -1, NULL), "data: NULL");
	refused(heddle_send(s->fabric, s->data, VALUES, own, NULL, -1, NULL), "own rank");
	status.size = 0;
	refused(heddle_send(s->fabric, s->data, VALUES, own + 1, NULL, -1, &status),
		"status: size");
}

static int call_recv(struct arguments_scene *s, const struct heddle_collective_options *options) {
	return heddle_recv_start(s->fabric, s->data, VALUES, 1, options, NONE);
}

static void recv_start(struct arguments_scene *s) {
	float *d = s->data;
	const int own = heddle_rank(s->fabric);

	refused(heddle_recv_start(NULL, d, VALUES, 1, NULL, NONE), "handle: NULL");
	refused(heddle_recv_start(s->fabric, NULL, VALUES, 1, NULL, NONE), "data: NULL");
	refused(heddle_recv_start(s->fabric, d, VALUES, 1, NULL, NULL), "ticket: NULL");
	refused(heddle_recv_start(s->fabric, d, VALUES, -1, NULL, NONE), "from: -1");
	refused(heddle_recv_start(s->fabric, d, VALUES, HEDDLE_WORKERS_MAX, NULL, NONE),
		"from: 4096");
	refused(heddle_recv_start(s->fabric, d, VALUES, own, NULL, NONE), "own rank");
	refused(heddle_recv_start(s->fabric, d, 0, own + 1, NULL, NONE), "count: 0");
	says(heddle_recv_start(s->fabric, d, VALUES, own + 1, NULL, NONE),
	     -EDESTADDRREQ,
	     "controller: receives");
	check_options(s, call_recv);
}

static void recv_waits(struct arguments_scene *s) {
	struct heddle_status status = HEDDLE_STATUS_INIT;
	const int own = heddle_rank(s->fabric);

	refused(heddle_recv(NULL, s->data, VALUES, 1, NULL, -1, NULL), "handle: NULL");
	refused(heddle_recv(s->fabric, NULL, VALUES, 1, NULL, -1, NULL), "data: NULL");
	refused(heddle_recv(s->fabric, s->data, VALUES, own, NULL, -1, NULL), "own rank");
	status.size = 0;
	refused(heddle_recv(s->fabric, s->data, VALUES, own + 1, NULL, -1, &status),
		"status: size");
}

const struct arguments_row arguments_send[] = {
	{"heddle_recv", recv_waits},
	{"heddle_recv_start", recv_start},
	{"heddle_send", send_waits},
	{"heddle_send_start", send_start},
	{0},
};
