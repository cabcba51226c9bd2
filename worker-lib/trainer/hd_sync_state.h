/* SPDX-License-Identifier: BSD-3-Clause */
/* What the source of a roll call (hd_roll.h) says in synchronous training before it gives its model. */
#ifndef HD_SYNC_STATE_H
#define HD_SYNC_STATE_H

#include "hd_types.h"

#define HD_SETTINGS_WORDS 256
#define HD_STATE_BYTES 1024 /* of the text that the source gives first */

/* The state besides the model, as text: the step, whether the run ends with it, whether its scale is owned, and the
 * settings on which all must agree. */
struct hd_state {
	uint64_t step;
	bool ended;
	bool owned; /* the owner of the worker count has set a scale */
	const char *settings;
};
/* text: HD_STATE_BYTES, filled with 0 behind the text. -E2BIG: the settings are too long. */
int hd_state_write(const struct hd_state *state, char text[HD_STATE_BYTES]);
/* state->settings points into the text. Total: -EINVAL for any other text. */
int hd_state_read(const char text[HD_STATE_BYTES], struct hd_state *state);
/* Whether two settings (words "name=value", in one order) differ; if so, writes where: "lr=0.1, not lr=0.2". */
bool hd_settings_differ(const char *theirs, const char *ours, char words[HD_SETTINGS_WORDS]);

#endif
