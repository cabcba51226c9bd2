/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside libheddle: memory that processes of one host share (heddle_segment.c). */
#ifndef HEDDLE_SEGMENT_H
#define HEDDLE_SEGMENT_H

#include "hd_shared.h"

#include <stdbool.h>

struct heddle_segment {
	uint64_t token; /* 0: none is mapped */
	struct hd_shared_map map;
	void *memory;
	size_t bytes;
	int fd; /* locked while it is mapped */
};

/* Processes for which this is the same, and not 0, can map the same segments; 0: it cannot be shared. */
uint64_t heddle_segment_identity(const char *host);
/* The segment of this token, made if no other member has made it. -errno: it cannot be had. */
int heddle_segment_open(struct heddle_segment *segment, uint64_t token, uint32_t members);
void heddle_segment_close(struct heddle_segment *segment);
/* Removes what processes that were killed have left. */
void heddle_segment_sweep(void);

#endif
