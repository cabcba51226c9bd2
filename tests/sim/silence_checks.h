/* SPDX-License-Identifier: BSD-3-Clause */
/* Worlds without faults in which workers are silent. Each returns the number of failures. */
#ifndef SILENCE_CHECKS_H
#define SILENCE_CHECKS_H

#include "allreduce_world.h"

/* One of four falls silent: it costs the others the detection time once, and it takes part again. */
uint64_t check_falls_silent(struct allreduce_world *w);
/* All are silent at times, and rounds wait in all ways: by the model, no worker misses one that waits for it. */
uint64_t check_silences(struct allreduce_world *w);

#endif
