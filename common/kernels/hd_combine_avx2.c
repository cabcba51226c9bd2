/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of all-reduces, 32 bytes at a time. */
#if defined(__x86_64__)
#define HD_TARGET __attribute__((target("avx2")))
#define HD_WIDTH 32
#define HD_VERSION(name) name##_avx2
#include "hd_combine_lanes.h"
#endif
