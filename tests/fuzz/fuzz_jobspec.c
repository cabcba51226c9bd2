/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"
#include "hd_jobspec.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	static uint8_t again[HD_MESSAGE_BYTES_MAX];
	static float values[4096];
	struct hd_jobspec spec;
	char words[300];

	if (hd_jobspec_decode(data, bytes, &spec) < 0)
		return 0;
	CHECK(hd_jobspec_check(&spec, words, sizeof words) == 0);
	CHECK(hd_jobspec_equal(&spec, &spec, words, sizeof words));
	CHECK(hd_jobspec_encode(&spec, again, sizeof again) == (int)bytes);
	CHECK(memcmp(again, data, bytes) == 0);
	CHECK(hd_jobspec_model_bytes(&spec) <= HD_MODEL_BYTES_MAX);
	CHECK(hd_jobspec_values(&spec) > 0);
	if (hd_jobspec_values(&spec) <= 4096)
		hd_jobspec_initialize(&spec, values);
	hd_jobspec_fini(&spec);
	return 0;
}
