/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"
#include "hd_keys.h"
#include "hd_limits.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	struct hd_keyring ring;
	char *text = malloc(bytes + 1), error[80] = "";

	CHECK(text);
	if (bytes > 0)
		memcpy(text, data, bytes);
	text[bytes] = '\0';
	if (hd_keyring_parse(text, &ring, error, sizeof error) == 0) {
		CHECK(ring.count >= 1 && ring.count <= HD_KEYS_MAX);
		for (size_t i = 0; i < ring.count; i++)
			CHECK(hd_keyring_find(&ring, ring.keys[i].id) == &ring.keys[i]);
		hd_keyring_fini(&ring);
	} else {
		CHECK(error[0] != '\0');
	}
	free(text);
	return 0;
}
