/* SPDX-License-Identifier: BSD-3-Clause */
/* The state that a controller left for its next incarnation, or any other bytes: an error with a line, or a state that
 * writes the same again. */
#include "controller_net.h"
#include "fuzz.h"

#include <string.h>

static const struct net_config config = {.epoch = 2};

static int restore(struct net *net, const char *text, char *error, size_t bytes) {
	net_open(net, &config);
	return hd_controller_restore(net->controller, text, error, bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	char *text = malloc(bytes + 1), *left, error[256] = "";
	static struct net first, second;

	CHECK(text);
	if (bytes > 0)
		memcpy(text, data, bytes);
	text[bytes] = '\0';
	if (restore(&first, text, error, sizeof error) == 0) {
		char *again;

		left = hd_controller_kept(first.controller);
		CHECK(left && restore(&second, left, error, sizeof error) == 0);
		again = hd_controller_kept(second.controller);
		CHECK(again && strcmp(left, again) == 0);
		free(again);
		free(left);
		net_close(&second);
	} else {
		CHECK(strncmp(error, "line ", 5) == 0);
		CHECK(first.controller->job_count == 0 && first.controller->drained_count == 0);
	}
	net_close(&first);
	free(text);
	return 0;
}
