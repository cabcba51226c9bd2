/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of all-reduces, 64 bytes at a time. */
#if defined(__x86_64__)
#define HD_TARGET __attribute__((target("avx512f,avx512bw")))
#define HD_WIDTH 64
#define HD_VERSION(name) name##_avx512
#include "hd_combine_lanes.h"
#endif
