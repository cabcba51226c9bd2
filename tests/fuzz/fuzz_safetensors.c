/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoint headers: any bytes are an error in words or a checkpoint that writes the same header. */
#include "fuzz.h"
#include "hd_safetensors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	uint8_t hash[HD_SAFETENSORS_HASH_BYTES], first[HD_SAFETENSORS_LENGTH_BYTES] = {0};
	struct hd_checkpoint checkpoint = {0};
	char error[128] = "";
	uint8_t *header;
	size_t header_bytes;
	int rc = hd_safetensors_read(data, bytes, &checkpoint, hash, error, sizeof error);

	memcpy(first, data, bytes < sizeof first ? bytes : sizeof first);
	(void)hd_safetensors_length(first);
	if (rc < 0) {
		CHECK(error[0] != '\0' || rc == -ENOMEM);
		CHECK(!checkpoint.rounds && !checkpoint.prior);
		return 0;
	}
	CHECK(checkpoint.values > 0 && checkpoint.job != 0);
	if (checkpoint.values > 1 << 20) {
		hd_safetensors_free(&checkpoint);
		return 0;
	}
	checkpoint.model = calloc(checkpoint.values, sizeof(float));
	checkpoint.momentum = calloc(checkpoint.values, sizeof(float));
	CHECK(hd_safetensors_write(&checkpoint, &header, &header_bytes) == 0);
	CHECK(header_bytes % 8 == 0);
	free(header);
	hd_safetensors_free(&checkpoint);
	return 0;
}
