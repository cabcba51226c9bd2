/* SPDX-License-Identifier: BSD-3-Clause */
/* A command as it was typed, for logs and the journal. */
#include "hd_controller.h"

#include <stdio.h>

size_t hd_command_words(const struct hd_msg_command *m, char *text, size_t bytes) {
	const char *const words[] = {hd_verb_name(m->verb), m->object, m->target, m->value};
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
		int more = words[i][0] ?
			snprintf(text + used, bytes - used, "%s%s", used ? " " : "", words[i]) :
			0;

		if (more < 0 || used + (size_t)more >= bytes)
			break;
		used += (size_t)more;
	}
	return used;
}
