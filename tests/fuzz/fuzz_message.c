/* SPDX-License-Identifier: BSD-3-Clause */
/* The first byte is the kind, the rest the body. Accepted messages have exactly one encoding. */
#include "fuzz.h"
#include "hd_message.h"
#include "hd_text.h"

#include <string.h>

static void check_field(const struct hd_field_info *f, const void *value) {
	if (f->code == HD_FIELD_name)
		CHECK(strlen(value) <= HD_NAME_BYTES_MAX && hd_text_valid(value, strlen(value)));
	if (f->code == HD_FIELD_text)
		CHECK(strlen(value) <= HD_TEXT_BYTES_MAX && hd_text_valid(value, strlen(value)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	static uint8_t again[HD_MESSAGE_BYTES_MAX];
	const struct hd_field_info *f;
	struct hd_message message;

	if (bytes == 0 || hd_message_decode(data[0], data + 1, bytes - 1, &message) < 0)
		return 0;
	CHECK(message.kind == data[0]);
	for (size_t i = 0; (f = hd_message_field(message.kind, i)); i++)
		check_field(f, (const uint8_t *)&message + f->offset);
	CHECK(hd_message_encode(&message, again, sizeof again) == (int)bytes - 1);
	CHECK(memcmp(again, data + 1, bytes - 1) == 0);
	return 0;
}
