/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HD_CONTAINER_H
#define HD_CONTAINER_H

#include <stddef.h>

/* The object of this type whose member the pointer points to, such as a timer's owner. A pointer of another type does
 * not compile; NULL is not allowed (C11 6.5.6: undefined even if the member is the first). */
#define hd_container_of(pointer, type, member)                                                     \
	((type *)(void *)((char *)(pointer)-offsetof(type, member)                                 \
			  + 0 * sizeof((pointer) == &((type *)0)->member)))

#endif
