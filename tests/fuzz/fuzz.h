/* SPDX-License-Identifier: BSD-3-Clause */
/* A fuzz target: any bytes in, no crash, and CHECK()s that hold whatever the bytes are. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);      \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#endif
