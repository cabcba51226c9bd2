/* SPDX-License-Identifier: BSD-3-Clause */
/* A server with a federated job of some workers without a controller, for tests of its rounds. */
#ifndef SERVER_ROUNDS_H
#define SERVER_ROUNDS_H

#include "server_net.h"

#include <jansson.h>

#define ROUNDS_VALUES 10
#define ROUNDS_BYTES (ROUNDS_VALUES * sizeof(float))
#define ROUNDS_WORKERS 5

struct rounds {
	struct net net;
	struct hd_server_config config;
	struct hd_jobspec spec;
	struct hd_tensor tensors[2];
	struct fake *worker[ROUNDS_WORKERS];
	uint32_t pushes[ROUNDS_WORKERS]; /* rounds of the worker: its pushes */
	float initial[ROUNDS_VALUES];
};

/* Rounds of `clients` clients, with at least `least` of them, when four are there. */
struct hd_federated rounds_of(uint32_t clients, uint32_t least, uint32_t deadline_ms);
void rounds_open(struct rounds *f, const struct hd_federated *rounds, uint16_t workers);
void rounds_close(struct rounds *f);
/* A client joins; one dies without notice. */
void rounds_join(struct rounds *f, uint16_t rank);
void rounds_lose(struct rounds *f, uint16_t rank);
/* The newest round that it was told; NULL, 0: none. */
const struct hd_msg_round *rounds_sent(struct rounds *f, uint16_t rank);
uint32_t rounds_drawn(struct rounds *f, uint16_t rank);
void rounds_work(struct rounds *f, uint16_t rank, float weight, double loss, bool gives);
/* A whole push directly, of these two values' deltas. */
void rounds_give(struct rounds *f, uint16_t rank, float weight, const float *delta);
void rounds_give_at(
	struct rounds *f,
	uint16_t rank,
	float weight,
	const float *delta,
	hd_version base
);
/* The first two values have moved so far in all, the others have not. */
void rounds_moved(const struct rounds *f, double first, double second);
/* Of its newest push. */
uint8_t rounds_outcome(struct rounds *f, uint16_t rank);
/* The row of a round, which is the only one that the filter lets through. */
json_t *rounds_row(struct rounds *f, const char *filter);
/* The total weight of the updates in sums so far, and of those in the model. */
void rounds_weights(struct rounds *f, double received, double applied);
double rounds_number(const json_t *row, const char *key);

#endif
