/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Assertions of code that also runs inside of other people's processes. In a program of ours hd_assert() is assert().
 * A library that is not to end its user's process sets a hook for the thread while its core is at work:
 *
 *   hd_assert(x) false --> hook, if this thread has one: it does not return (longjmp)
 *                     \--> assert(x)
 *
 * They are for what only a programmer can get wrong, never for what a peer says.
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

/* Gets the condition and where it stands. Must not return. */
typedef void hd_assert_function(void *arg, const char *condition, const char *file, int line);

struct hd_assert_hook {
	hd_assert_function *failed; /* NULL: none */
	void *arg;
};

/* Sets the hook of this thread; returns the one before. */
struct hd_assert_hook hd_assert_set(struct hd_assert_hook hook);
/* Calls the hook, if there is one. */
void hd_assert_failed(const char *condition, const char *file, int line);

#endif
