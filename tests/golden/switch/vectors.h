/* SPDX-License-Identifier: BSD-3-Clause */
/* Vectors as text: one JSON object a line, in order; README.md has the format. */
#ifndef VECTORS_H
#define VECTORS_H

#include "golden.h"

#include <stdio.h>

/* Does it, and writes down what came of it. */
struct recorder {
	FILE *file;
	const struct golden_executor *executor;
	void *self;
	struct golden_config config;
	struct golden_outs outs; /* of the last frame */
};

void record_begin(
	struct recorder *recorder,
	FILE *file,
	const struct golden_executor *executor,
	const struct golden_config *config
);
void record_end(struct recorder *recorder);

void record_case(struct recorder *recorder, const char *name, const char *shows);
void record_mac(struct recorder *recorder, const uint8_t mac[6], uint16_t port);
void record_route(struct recorder *recorder, const struct golden_route *route);
void record_lease_set(struct recorder *recorder, const struct hd_switch_lease *lease);
void record_lease_waits(struct recorder *recorder, uint16_t id, uint64_t waits);
void record_lease_end(struct recorder *recorder, uint16_t id);
void record_simulate(struct recorder *recorder, uint32_t seed, uint32_t threshold);
void record_frame(struct recorder *recorder, uint16_t port, const uint8_t *frame, uint32_t bytes);
/* All of them, as they are now. */
void record_counters(struct recorder *recorder);

/* Runs a file; 0, or 1 with words on stderr. Says how many frames there were. */
int replay(const char *path, const struct golden_executor *executor, size_t *frames);

#endif
