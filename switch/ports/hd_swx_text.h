/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes to the text of a program before DPDK gets it. */
#ifndef HD_SWX_TEXT_H
#define HD_SWX_TEXT_H

#include <stddef.h>

#define SWX_DROP_PORT 1

/*
 * DPDK's own port of dropped packets frees them as buffers of a pool, which ours are not: `drop` at the end of a line,
 * also after a label, is replaced by a send to a port of ours. In place: both have four letters.
 */
void swx_replace_drops(char *text, size_t bytes);

#endif
