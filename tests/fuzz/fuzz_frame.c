/* SPDX-License-Identifier: BSD-3-Clause */
/* One byte says what hardware has checked and whether the port is virtual, the rest is a frame. */
#include "fuzz.h"
#include "hd_frame.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	struct hd_frame_self self = {{{2, 0, 0, 0, 0, 1}}, 0x0a4d0001, 4773, false};
	uint8_t answer[65600];
	struct hd_frame got, again;
	size_t length;

	if (bytes == 0)
		return 0;
	self.unfinished_sums = data[0] & 4;
	(void)hd_frame_parse(&self, data + 1, bytes - 1, data[0] & 3, &got);
	CHECK((got.kind == HD_FRAME_DROP) == (got.reason != HD_FRAME_OK));
	CHECK(got.reason < HD_FRAME_REASON_COUNT);
	if (got.kind == HD_FRAME_UDP || got.kind == HD_FRAME_ECHO) {
		CHECK(got.data > data && got.data + got.bytes <= data + bytes);
		CHECK(got.source != 0 && got.source != self.ipv4);
	}
	if (got.kind == HD_FRAME_UDP)
		CHECK(got.source_port != 0 && got.bytes <= bytes - 1 - HD_FRAME_UDP_BYTES);
	if (got.kind == HD_FRAME_ARP)
		CHECK(got.source != 0 && got.source != self.ipv4);
	if (got.kind != HD_FRAME_ECHO)
		return 0;
	length = hd_frame_put_echo_reply(&self, &got, answer, sizeof answer);
	CHECK(length == 34 + got.bytes && length <= bytes - 1);
	/* The answer is a good packet for who asked: it is dropped for being an answer alone. */
	memcpy(self.mac.bytes, got.source_mac.bytes, sizeof self.mac);
	self.ipv4 = got.source;
	(void)hd_frame_parse(&self, answer, length, 0, &again);
	CHECK(again.reason == HD_FRAME_ICMP_TYPE);
	return 0;
}
