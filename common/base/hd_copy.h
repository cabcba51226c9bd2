/* SPDX-License-Identifier: BSD-3-Clause */
/* Copying what is longer than the caches. */
#ifndef HD_COPY_H
#define HD_COPY_H

#include "hd_types.h"

/* Copies without leaving `to` in the caches. Another thread may read it after hd_copy_stream_end(). The areas
 * do not overlap. */
void hd_copy_stream(void *to, const void *from, size_t bytes);
void hd_copy_stream_end(void);

#endif
