/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_roll.h"
#include "hd_sync_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int hd_state_write(const struct hd_state *state, char text[HD_STATE_BYTES]) {
	int length;

	memset(text, 0, HD_STATE_BYTES);
	length = snprintf(
		text,
		HD_STATE_BYTES,
		"%llu %d %d %s",
		(unsigned long long)state->step,
		state->ended,
		state->owned,
		state->settings
	);
	return length < HD_STATE_BYTES ? 0 : -E2BIG;
}

static bool is_flag(const char *text) {
	return text[0] == ' ' && (text[1] == '0' || text[1] == '1');
}

int hd_state_read(const char text[HD_STATE_BYTES], struct hd_state *state) {
	unsigned long long step;
	char *end;

	if (!memchr(text, '\0', HD_STATE_BYTES) || text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	step = strtoull(text, &end, 10);
	if (errno != 0 || step >= HD_ROLL_STEPS_MAX || !is_flag(end) || !is_flag(end + 2)
	    || end[4] != ' ')
		return -EINVAL;
	*state = (struct hd_state){step, end[1] == '1', end[3] == '1', end + 5};
	return 0;
}

bool hd_settings_differ(const char *theirs, const char *ours, char words[HD_SETTINGS_WORDS]) {
	for (;;) {
		const int a = (int)strcspn(theirs, " "), b = (int)strcspn(ours, " ");

		if (a != b || strncmp(theirs, ours, (size_t)a) != 0) {
			(void
			)snprintf(words, HD_SETTINGS_WORDS, "%.*s, not %.*s", a, theirs, b, ours);
			return true;
		}
		if (theirs[a] == '\0' && ours[a] == '\0')
			return false;
		theirs += a + (theirs[a] == ' ');
		ours += b + (ours[b] == ' ');
	}
}
