/* SPDX-License-Identifier: BSD-3-Clause */
#include "inline_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const uint32_t given[WORKERS][COUNT] = {
	{0x80000000, 0x7fc12345, 1, 2, 3, 4, 5},
	{0xff800001, 0x00000001, 11, 12, 13, 14, 15},
	{0xffffffff, 0x7f800000, 21, 22, 23, 24, 25},
};

void give(struct scene *s, uint16_t rank, uint32_t round, const struct offer *offer) {
	struct hd_message m = net_push(s->workers[rank], round, offer->wish.bytes, 0);

	m.request.direction = HD_REDUCE;
	m.request.attempt = offer->attempt ? offer->attempt : 1;
	m.request.have = round;
	m.request.collective = offer->wish.collective;
	m.request.root = offer->wish.root;
	m.request.dtype = offer->dtype;
	m.request.op = offer->op;
	m.request.state = offer->state;
	m.request.values.data = offer->values;
	m.request.values.bytes = offer->bytes;
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

struct offer offer_of(uint8_t collective, uint16_t root, uint16_t rank, bool gives) {
	return (struct offer){
		.wish = {.collective = collective, .root = root, .bytes = CALL_BYTES},
		.values = gives ? given[rank] : NULL,
		.bytes = gives ? CALL_BYTES : 0,
	};
}

void check_values(const struct scene *s, uint16_t rank, const void *want, size_t bytes) {
	const struct hd_msg_reduce *m = reduce_sent(s, rank);

	assert_non_null(m);
	assert_true(m->inlined);
	assert_int_equal(m->shards.bytes, 0);
	assert_int_equal(m->workers, WORKERS);
	assert_int_equal(m->values.bytes, bytes);
	if (bytes > 0)
		assert_memory_equal(m->values.data, want, bytes);
}

void check_nothing_left(const struct scene *s) {
	assert_int_equal(open_rounds(s), 0);
	assert_int_equal(s->net.controller->inline_held, 0);
	for (uint32_t k = 0; k < WORKERS; k++)
		assert_null(peer_last(s->aggregators[k], HD_MSG_GROUP));
}

/* Those that receive have it; the others end when all of these have. */
void finish_all(struct scene *s, unsigned receivers) {
	uint32_t before[WORKERS];

	for (uint16_t i = 0; i < WORKERS; i++)
		before[i] = released(s, i);
	for (uint16_t i = 0; i < WORKERS; i++)
		if (receivers >> i & 1) {
			for (uint16_t k = 0; k < WORKERS; k++)
				assert_int_equal(released(s, k), before[k]);
			finish(s, i);
		}
	for (uint16_t i = 0; i < WORKERS; i++)
		assert_int_equal(released(s, i), before[i] + !(receivers >> i & 1));
}
