/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Assertions in code that also runs inside other people's processes. In our programs hd_assert() is assert(). A library
 * that must not end its user's process sets a hook for the thread while its core runs:
 *
 *   hd_assert(x) false --> hook, if this thread has one: it does not return (longjmp)
 *                     \--> assert(x)
 *
 * They are for programming errors only, never for input from a peer.
 */
#ifndef HD_ASSERT_H
#define HD_ASSERT_H

#include <assert.h>

#define hd_assert(condition)                                                                       \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			hd_assert_failed(#condition, __FILE__, __LINE__);                          \
			assert(condition);                                                         \
		}                                                                                  \
	} while (0)

/* Gets the condition and its place in the source. Must not return. */
typedef void hd_assert_function(void *arg, const char *condition, const char *file, int line);

struct hd_assert_hook {
	hd_assert_function *failed; /* NULL: none */
	void *arg;
};

/* Sets the hook of this thread; returns the previous one. */
struct hd_assert_hook hd_assert_set(struct hd_assert_hook hook);
/* Calls the hook, if there is one. */
void hd_assert_failed(const char *condition, const char *file, int line);

#endif
