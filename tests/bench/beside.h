/* SPDX-License-Identifier: BSD-3-Clause */
/* A kernel beside what memory allows: a loop that moves the same streams and computes nothing. Best of several rounds,
 * alternating, so that a slow moment hits both. */
#ifndef BESIDE_H
#define BESIDE_H

#include "hd_kernels_impl.h"

#include <stddef.h>

#define BESIDE_ROUNDS 12

struct beside {
	const char *name;
	double bytes_per_value; /* read and written */
	void (*streams)(void *arrays, size_t values);
	void (*kernel)(const struct hd_kernels *table, void *arrays, size_t values);
};

double now_s(void);
/* Or ends the program. */
float *array(size_t values, float value);
/* The number of passes over `values` values in one timing. */
size_t passes_of(size_t values);
/* A line for each table of kernels that this processor supports. */
void beside(const struct beside *what, void *arrays, size_t values);

#endif
