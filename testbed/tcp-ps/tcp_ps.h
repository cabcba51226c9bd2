/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plain TCP parameter server, for comparison: as a user would write it in an afternoon. One TCP connection for each
 * worker, alternating requests and answers, asynchronous, no schedule, no bound on delay. The arithmetic (model, data,
 * compute padding, SGD) is the trainer's and the server's own.
 *
 *   worker                      server
 *     | HELLO(rank, values) ----->|
 *     |<------------------- READY |
 *     | PULL -------------------->|
 *     |<--- MODEL(version, bytes) |  a copy of the weights
 *     | PUSH(base, bytes) ------->|  applied when its last byte has arrived
 *     |<---- APPLIED(version, delay)
 */
#ifndef TCP_PS_H
#define TCP_PS_H

#include "hd_event.h"
#include "hd_message.h"
#include "hd_trainer.h"

#define TCP_PS_MAGIC 0x50544448u
#define TCP_PS_WORKERS_MAX 1024

enum tcp_ps_kind {
	TCP_PS_HELLO = 1,
	TCP_PS_READY,
	TCP_PS_PULL,
	TCP_PS_MODEL,
	TCP_PS_PUSH,
	TCP_PS_APPLIED
};

/* In front of every message, in the machine's byte order: both ends run the same binary. */
struct tcp_ps_header {
	uint32_t magic;
	uint16_t kind;
	uint16_t rank;
	uint32_t round; /* of this worker, in its direction */
	uint32_t delay;
	uint64_t version;
	uint64_t bytes; /* that follow; in HELLO the model's, and nothing follows */
};

struct tcp_ps_options {
	bool server;
	const char *address; /* listen or connect */
	uint32_t port;
	const char *model, *data, *name, *events, *json, *compute_schedule;
	uint32_t rank, world, batch, observe_ms;
	uint64_t seed;
	double compute_ms;
	float learning_rate, momentum, weight_decay;
};

/* Used by both roles, opened from the options. */
struct tcp_ps {
	const struct tcp_ps_options *options;
	struct hd_dataset train, test;
	struct hd_model *model;
	uint64_t values, bytes;
	struct hd_event_log *log;
};

/* Set by SIGINT and SIGTERM. */
bool tcp_ps_stopping(void);
void tcp_ps_event(struct tcp_ps *ps, const struct hd_event *event);

/* Both return a sysexits code. */
int tcp_ps_serve(struct tcp_ps *ps);
int tcp_ps_work(struct tcp_ps *ps);

#endif
