/* SPDX-License-Identifier: BSD-3-Clause */
/* Copying areas larger than the caches. */
#ifndef HD_MEMCPY_H
#define HD_MEMCPY_H

#include "hd_types.h"

/* Copies without leaving `to` in the caches. Another thread may read it after hd_memcpy_stream_end(). The areas
 * do not overlap. */
void hd_memcpy_stream(void *to, const void *from, size_t bytes);
void hd_memcpy_stream_end(void);

#endif
