/* SPDX-License-Identifier: BSD-3-Clause */
#include "allocations.h"

#include <stddef.h>

unsigned long allocations;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);

void *__wrap_malloc(size_t bytes) {
	allocations++;
	return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes) {
	allocations++;
	return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes) {
	allocations++;
	return __real_realloc(memory, bytes);
}
