/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts what a program allocates, at the linker (count_allocations in meson.build). */
#ifndef ALLOCATIONS_H
#define ALLOCATIONS_H

extern unsigned long allocations;

#endif
