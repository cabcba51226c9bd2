/* SPDX-License-Identifier: BSD-3-Clause */
/* One worker core between a scripted server and a scripted controller, in virtual time. */
#ifndef WORKER_WORLD_H
#define WORKER_WORLD_H

#include "worker_peers.h"

#define VALUES 5000
#define LOG_MAX 4096

struct world {
	uint8_t dtype; /* of pushes */
	struct hd_sim *sim;
	struct peer server, controller;
	struct hd_worker *worker;
	int node;
	struct hd_jobspec spec;
	struct hd_tensor tensor;
	float data[4][VALUES];
	/* The worker's events. */
	unsigned joined, refused, trouble, released, events, rosters, steps;
	hd_version newest; /* of the newest step */
	char text[128], worry[HD_TEXT_BYTES_MAX]; /* of refused, of trouble */
	struct hd_ticket ticket[HD_REDUCE + 1][64]; /* newest word, by direction and round */
	unsigned ends[HD_REDUCE + 1][64]; /* OUTCOME events */
	enum hd_event_kind log[LOG_MAX];
	uint64_t trace; /* a sum over every event */
};

enum mode {
	DIRECT,
	SCHEDULED,
	REDUCES /* a job without a model: no server */
};

/* Of more->spec (NULL: none) the kind of synchronous job and the integrity count. */
struct world *build(enum mode mode, const struct hd_worker_config *more);
void destroy(struct world *world);
void run_ms(struct world *world, unsigned ms);
int push(struct world *world, int which, hd_version base);
int pull(struct world *world, int which, hd_version have, bool conditional);
int cancel(struct world *world, uint8_t direction, uint32_t round);
/* pushed = applied + dropped + failed + pending */
void check_sums(const struct world *world, unsigned pending);
bool logged(const struct world *world, enum hd_event_kind kind);

#endif
