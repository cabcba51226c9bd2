/* SPDX-License-Identifier: BSD-3-Clause */
/* Every message by its field table: random contents there and back, every truncation refused. */
#include "hd_entry.h"
#include "hd_event.h"
#include "hd_message.h"
#include "hd_random.h"
#include "hd_text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static uint8_t blob_bytes[40000];

static void random_string(struct hd_random *r, char *string, size_t limit) {
	static const char *const pieces[] = {"a", "Z", "7", "-", " ", "é", "€", "𝄞"};
	size_t used = 0, want = hd_random_below(r, limit + 1);

	memset(string, 0, limit + 1);
	while (used < want) {
		const char *piece = pieces[hd_random_below(r, 8)];

		if (used + strlen(piece) > limit)
			break;
		while (*piece)
			string[used++] = *piece++;
	}
}

static void random_ranges(struct hd_random *r, struct hd_ranges *ranges) {
	uint32_t top = UINT32_MAX;

	memset(ranges, 0, sizeof *ranges);
	ranges->count = (uint8_t)hd_random_below(r, HD_SACK_RANGES_MAX + 1);
	for (size_t i = 0; i < ranges->count; i++) {
		ranges->item[i].last = top - 1 - (uint32_t)hd_random_below(r, 1000);
		ranges->item[i].first = ranges->item[i].last - (uint32_t)hd_random_below(r, 1000);
		top = ranges->item[i].first;
	}
}

static void random_segs(struct hd_random *r, struct hd_segs *segs) {
	memset(segs, 0, sizeof *segs);
	segs->count = (uint8_t)hd_random_below(r, HD_SEGMENTS_MAX + 1);
	for (size_t i = 0; i < segs->count; i++)
		segs->item[i]
			= (struct hd_segment){hd_random_u64(r), hd_random_u64(r), hd_random_u64(r)};
}

static void random_field(struct hd_random *r, uint8_t code, void *value) {
	static const size_t plain[] = {
		[HD_FIELD_u8] = 1,
		[HD_FIELD_u16] = 2,
		[HD_FIELD_u32] = 4,
		[HD_FIELD_u64] = 8,
		[HD_FIELD_f32] = 4,
		[HD_FIELD_f64] = 8,
		[HD_FIELD_nonce] = 16,
	};
	struct hd_blob blob = {blob_bytes, (uint32_t)hd_random_below(r, 300)};

	switch (code) {
	case HD_FIELD_name:
		random_string(r, value, HD_NAME_BYTES_MAX);
		break;
	case HD_FIELD_text:
		random_string(r, value, HD_TEXT_BYTES_MAX);
		break;
	case HD_FIELD_blob:
		memcpy(value, &blob, sizeof blob);
		break;
	case HD_FIELD_segs:
		random_segs(r, value);
		break;
	case HD_FIELD_ranges:
		random_ranges(r, value);
		break;
	default:
		for (size_t i = 0; i < plain[code]; i++)
			((uint8_t *)value)[i] = (uint8_t)hd_random_u64(r);
	}
}

static void random_message(struct hd_random *r, uint8_t kind, struct hd_message *message) {
	const struct hd_field_info *f;

	memset(message, 0, sizeof *message);
	message->kind = kind;
	for (size_t i = 0; (f = hd_message_field(kind, i)); i++)
		random_field(r, f->code, (uint8_t *)message + f->offset);
}

static size_t field_bytes(const struct hd_field_info *f, const void *value) {
	static const size_t bytes[] = {
		[HD_FIELD_u8] = 1,
		[HD_FIELD_u16] = 2,
		[HD_FIELD_u32] = 4,
		[HD_FIELD_u64] = 8,
		[HD_FIELD_f32] = 4,
		[HD_FIELD_f64] = 8,
		[HD_FIELD_nonce] = 16,
		[HD_FIELD_segs] = sizeof(struct hd_segs),
		[HD_FIELD_ranges] = sizeof(struct hd_ranges),
	};

	if (f->code == HD_FIELD_name || f->code == HD_FIELD_text)
		return strlen(value) + 1;
	return bytes[f->code];
}

static void assert_same(const struct hd_message *a, const struct hd_message *b) {
	const struct hd_field_info *f;

	assert_int_equal(a->kind, b->kind);
	for (size_t i = 0; (f = hd_message_field(a->kind, i)); i++) {
		const uint8_t *x = (const uint8_t *)a + f->offset;
		const uint8_t *y = (const uint8_t *)b + f->offset;
		struct hd_blob p, q;

		if (f->code != HD_FIELD_blob) {
			assert_memory_equal(x, y, field_bytes(f, x));
			continue;
		}
		memcpy(&p, x, sizeof p);
		memcpy(&q, y, sizeof q);
		assert_int_equal(p.bytes, q.bytes);
		assert_memory_equal(p.data, q.data, p.bytes);
	}
}

static void test_every_message_round_trips(void **state) {
	struct hd_random r;
	static uint8_t data[HD_MESSAGE_BYTES_MAX], padded[HD_MESSAGE_BYTES_MAX];
	struct hd_message in, out;
	unsigned kinds = 0;

	(void)state;
	hd_random_init(&r, 1);
	for (size_t i = 0; i < sizeof blob_bytes; i++)
		blob_bytes[i] = (uint8_t)hd_random_u64(&r);
	for (unsigned kind = 0; kind < 256; kind++) {
		if (!hd_message_field((uint8_t)kind, 0))
			continue;
		kinds++;
		for (int repeat = 0; repeat < 200; repeat++) {
			int bytes;

			random_message(&r, (uint8_t)kind, &in);
			bytes = hd_message_encode(&in, data, sizeof data);
			assert_true(bytes > 0);
			memset(&out, 0xa5, sizeof out);
			assert_int_equal(
				hd_message_decode((uint8_t)kind, data, (size_t)bytes, &out), 0
			);
			assert_same(&in, &out);
			/* Too little room: an error, not a shorter message. */
			assert_int_equal(
				hd_message_encode(&in, data, (size_t)bytes - 1), -EMSGSIZE
			);
			assert_int_equal(hd_message_encode(&in, data, (size_t)bytes), bytes);
			/* Bytes after the last field are refused. */
			memcpy(padded, data, (size_t)bytes);
			padded[bytes] = 0;
			assert_int_equal(
				hd_message_decode((uint8_t)kind, padded, (size_t)bytes + 1, &out),
				-EBADMSG
			);
		}
	}
	assert_int_equal(kinds, 57);
}

static void test_every_truncation_is_refused(void **state) {
	struct hd_random r;
	static uint8_t data[HD_MESSAGE_BYTES_MAX];
	struct hd_message in, out;

	(void)state;
	hd_random_init(&r, 2);
	for (unsigned kind = 0; kind < 256; kind++) {
		int bytes;

		if (!hd_message_field((uint8_t)kind, 0))
			continue;
		random_message(&r, (uint8_t)kind, &in);
		bytes = hd_message_encode(&in, data, sizeof data);
		assert_true(bytes > 0);
		for (int cut = 0; cut < bytes; cut++) {
			/* A copy of its exact size, so that a sanitizer sees any read past it. */
			uint8_t *exact = test_malloc((size_t)cut + 1);

			memcpy(exact + 1, data, (size_t)cut);
			assert_int_equal(
				hd_message_decode((uint8_t)kind, exact + 1, (size_t)cut, &out),
				-EBADMSG
			);
			test_free(exact);
		}
	}
}

static void test_random_bytes_never_crash(void **state) {
	struct hd_random r;
	uint8_t data[600];
	struct hd_message out;
	unsigned accepted = 0;

	(void)state;
	hd_random_init(&r, 3);
	for (int i = 0; i < 200000; i++) {
		size_t bytes = hd_random_below(&r, sizeof data);
		uint8_t kind = (uint8_t)hd_random_below(&r, 70);

		for (size_t k = 0; k < bytes; k++)
			data[k] = (uint8_t)hd_random_u64(&r);
		if (hd_message_decode(kind, data, bytes, &out) == 0) {
			uint8_t again[600];

			/* An accepted message encodes to the same bytes: one form for each message. */
			assert_int_equal(hd_message_encode(&out, again, sizeof again), bytes);
			assert_memory_equal(data, again, bytes);
			accepted++;
		}
	}
	assert_true(accepted > 0);
}

static void test_encode_refuses_bad_values(void **state) {
	static uint8_t data[HD_MESSAGE_BYTES_MAX];
	struct hd_message m;

	(void)state;
	memset(&m, 0, sizeof m);
	m.kind = 200;
	assert_int_equal(hd_message_encode(&m, data, sizeof data), -EINVAL);
	m.kind = HD_MSG_NONE;
	assert_int_equal(hd_message_encode(&m, data, sizeof data), -EINVAL);
	m.kind = HD_MSG_SHOW;
	memset(m.show.table, 'x', sizeof m.show.table);
	assert_int_equal(hd_message_encode(&m, data, sizeof data), -EINVAL);
	(void)snprintf(m.show.table, sizeof m.show.table, "%s", "a\nb");
	assert_int_equal(hd_message_encode(&m, data, sizeof data), -EINVAL);
	(void)snprintf(m.show.table, sizeof m.show.table, "%s", "a\xff");
	assert_int_equal(hd_message_encode(&m, data, sizeof data), -EINVAL);
	memset(&m, 0, sizeof m);
	m.kind = HD_MSG_GRANT;
	m.grant.segments.count = HD_SEGMENTS_MAX + 1;
	assert_int_equal(hd_message_encode(&m, data, sizeof data), -EINVAL);
	memset(&m, 0, sizeof m);
	m.kind = HD_MSG_SACK;
	m.sack.packets.count = HD_SACK_RANGES_MAX + 1;
	assert_int_equal(hd_message_encode(&m, data, sizeof data), -EINVAL);
	m.sack.packets.count = 2;
	m.sack.packets.item[0] = (struct hd_range){5, 9};
	m.sack.packets.item[1] = (struct hd_range){3, 5};
	assert_int_equal(hd_message_encode(&m, data, sizeof data), -EINVAL);
	m.sack.packets.item[1] = (struct hd_range){3, 2};
	assert_int_equal(hd_message_encode(&m, data, sizeof data), -EINVAL);
	m.sack.packets.item[1] = (struct hd_range){3, 4};
	assert_true(hd_message_encode(&m, data, sizeof data) > 0);
	memset(&m, 0, sizeof m);
	m.kind = HD_MSG_TABLE;
	m.table.json = (struct hd_blob){blob_bytes, HD_MESSAGE_BYTES_MAX};
	assert_int_equal(hd_message_encode(&m, data, sizeof data), -EMSGSIZE);
}

/* Well-formed but for their count, so that only the check of the count can refuse them. */
static void test_counts_beyond_limits_are_refused(void **state) {
	static const struct hd_message grant = {.kind = HD_MSG_GRANT}, sack = {.kind = HD_MSG_SACK};
	uint8_t data[1000] = {0};
	struct hd_message out;
	int bytes = hd_message_encode(&sack, data, sizeof data);

	(void)state;
	for (uint32_t count = HD_SACK_RANGES_MAX; count <= HD_SACK_RANGES_MAX + 1; count++) {
		memset(data, 0, sizeof data);
		data[bytes - 1] = (uint8_t)count;
		for (uint32_t i = 0; i < count; i++) {
			data[bytes + 8 * (int)i + 3] = (uint8_t)(100 - i);
			data[bytes + 8 * (int)i + 7] = (uint8_t)(100 - i);
		}
		assert_int_equal(
			hd_message_decode(
				HD_MSG_SACK, data, (size_t)bytes + (size_t)8 * count, &out
			),
			count <= HD_SACK_RANGES_MAX ? 0 : -EBADMSG
		);
	}
	bytes = hd_message_encode(&grant, data, sizeof data);
	for (uint8_t count = HD_SEGMENTS_MAX; count <= HD_SEGMENTS_MAX + 1; count++) {
		memset(data, 0, sizeof data);
		/* after the segments: peer:48 bytes:64 have:64 conditional:8 dtype:8 exponent:16, and of slots
		 * result_token:64 slots:16 count:16 member:8 members:8 receivers:8 */
		data[bytes - 42] = count;
		assert_int_equal(
			hd_message_decode(
				HD_MSG_GRANT, data, (size_t)bytes + 24 * (size_t)count, &out
			),
			count <= HD_SEGMENTS_MAX ? 0 : -EBADMSG
		);
	}
}

static void test_names(void **state) {
	(void)state;
	assert_string_equal(hd_message_name(HD_MSG_GRANT), "grant");
	assert_string_equal(hd_message_name(HD_MSG_VOID), "void");
	assert_string_equal(hd_message_name(HD_MSG_REGISTER), "register");
	assert_string_equal(hd_message_name(HD_MSG_PULL_STATE), "pull_state");
	assert_string_equal(hd_message_name(HD_MSG_NONE), "unknown");
	assert_string_equal(hd_message_name(255), "unknown");
	assert_string_equal(hd_role_name(HD_ROLE_WORKER), "worker");
	assert_string_equal(hd_role_name(255), "unknown");
	assert_null(hd_message_field(HD_MSG_GO, 2));
	assert_string_equal(hd_message_field(HD_MSG_GO, 1)->name, "token");
	assert_string_equal(hd_message_field(HD_MSG_GO, 1)->type, "u64");
	assert_int_equal(
		hd_message_field(HD_MSG_GO, 1)->offset, offsetof(struct hd_message, go.token)
	);
}

static void test_text(void **state) {
	static const struct {
		const char *text;
		bool valid;
	} rows[] = {
		{"", true},
		{"plain", true},
		{"é€𝄞", true},
		{"\x7f", false},
		{"tab\t", false},
		{"\xc2\x80", false}, /* C1 */
		{"\xc2\xa0", true},
		{"\xc0\x80", false}, /* overlong */
		{"\xc1\xbf", false},
		{"\xe0\x9f\xbf", false},
		{"\xe0\xa0\x80", true},
		{"\xed\xa0\x80", false}, /* surrogate */
		{"\xed\x9f\xbf", true},
		{"\xf0\x8f\xbf\xbf", false},
		{"\xf0\x90\x80\x80", true},
		{"\xf4\x8f\xbf\xbf", true},
		{"\xf4\x90\x80\x80", false},
		{"\xf5\x80\x80\x80", false},
		{"\xe2\x82", false},
		{"\x80", false},
	};
	char field[6];

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		assert_int_equal(hd_text_valid(rows[i].text, strlen(rows[i].text)), rows[i].valid);
	assert_false(hd_text_valid("a\0b", 3));
	assert_int_equal(hd_text_copy(field, sizeof field, "ab\n€x"), 3);
	assert_string_equal(field, "ab?");
	assert_int_equal(hd_text_copy(field, sizeof field, "a\xff€x"), 5);
	assert_string_equal(field, "a?€");
	assert_int_equal(hd_text_copy(field, sizeof field, NULL), 0);
	assert_string_equal(field, "");
}

/* Bytes that were written down once: what an older shell says is understood. */
static void test_operator_golden(void **state) {
	static const uint8_t command[] = "\0\0\3\xe8"
					 "\1"
					 "\3"
					 "tau"
					 "\0\xd"
					 "vision/resnet"
					 "\0\2"
					 "12";
	static const uint8_t done[] = "\0\0\3\xe8"
				      "\xb"
				      "\0\0\0\3"
				      "\0\x10"
				      "tau: 12 (1 to 8)";
	uint8_t data[128];
	struct hd_message m;

	(void)state;
	assert_int_equal(hd_message_decode(66, command, sizeof command - 1, &m), 0);
	assert_int_equal(m.command.request, 1000);
	assert_int_equal(m.command.verb, HD_VERB_SET);
	assert_string_equal(m.command.object, "tau");
	assert_string_equal(m.command.target, "vision/resnet");
	assert_string_equal(m.command.value, "12");
	assert_int_equal(hd_message_encode(&m, data, sizeof data), sizeof command - 1);
	assert_memory_equal(data, command, sizeof command - 1);
	assert_int_equal(hd_message_decode(67, done, sizeof done - 1, &m), 0);
	assert_int_equal(m.done.reason, HD_REASON_REFUSED);
	assert_int_equal(m.done.affected, 3);
	assert_string_equal(m.done.text, "tau: 12 (1 to 8)");
	assert_int_equal(hd_message_encode(&m, data, sizeof data), sizeof done - 1);
	assert_memory_equal(data, done, sizeof done - 1);
	assert_string_equal(hd_verb_name(HD_VERB_EVICT), "evict");
	assert_string_equal(hd_verb_name(99), "unknown");
}

/* Of a replica: that it follows, and the log's entries. */
static void test_replica_golden(void **state) {
	static const uint8_t follow[] = "\0\0\0\x7"
					"\0\0\0\1\0\0\0\2"
					"\2"
					"\0\3\0\0\0\0\0\x9"
					"\0\0\0\4"
					"\x3f\xe0\0\0\0\0\0\0"
					"\1"
					"\x0a\0\0\1"
					"\x12\xa5";
	static const uint8_t bytes[] = "\0\3\0\0\0\0\0\x9"
				       "\0\0\0\0\0\0\1\x90"
				       "\x3f\xd0\0\0\0\0\0\0"
				       "\x3f\x80\0\0"
				       "\0"
				       "\0\1\0\2"
				       "\x3f\0\0\0"
				       "\0\3\0\0\0\0\0\x7"
				       "\0\0\0\0\0\0\0\x0c"
				       "\0\0\0\5"
				       "\0\0\0\2"
				       "\0\1";
	struct hd_blob entries = {bytes, sizeof bytes - 1};
	struct hd_entry_member member;
	struct hd_entry entry;
	uint8_t data[128];
	uint32_t at = 0;
	struct hd_message m;

	(void)state;
	assert_int_equal(hd_message_decode(59, follow, sizeof follow - 1, &m), 0);
	assert_int_equal(m.follow.state, HD_FOLLOW_CAUGHT_UP);
	assert_int_equal(m.follow.behind, 4);
	assert_true(m.follow.divergence >= 0.5 && m.follow.divergence <= 0.5);
	assert_int_equal(m.follow.peer_port, HD_PORT);
	assert_int_equal(hd_message_encode(&m, data, sizeof data), sizeof follow - 1);
	assert_memory_equal(data, follow, sizeof follow - 1);

	assert_int_equal(hd_entry_next(&entries, &at, &entry), 1);
	assert_int_equal(entry.bytes, 400);
	assert_int_equal(entry.member_count, 1);
	assert_int_equal(entry.more, 2);
	assert_float_equal(entry.scale, 0.5, 0);
	member = hd_entry_member(&entry, 0);
	assert_int_equal(member.round, 5);
	assert_int_equal(member.delay, 2);
	assert_int_equal(member.position, 12);
	assert_int_equal(hd_entry_put(&entry, &member, data, sizeof data), sizeof bytes - 1);
	assert_memory_equal(data, bytes, sizeof bytes - 1);
	assert_int_equal(hd_entry_put(&entry, &member, data, sizeof bytes - 2), -EMSGSIZE);
	assert_int_equal(hd_entry_next(&entries, &at, &entry), 0);
	at = 1;
	assert_int_equal(hd_entry_next(&entries, &at, &entry), -EBADMSG);
	entry.member_count = 0;
	assert_int_equal(hd_entry_put(&entry, &member, data, sizeof data), -EINVAL);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_message_round_trips),
		cmocka_unit_test(test_every_truncation_is_refused),
		cmocka_unit_test(test_random_bytes_never_crash),
		cmocka_unit_test(test_encode_refuses_bad_values),
		cmocka_unit_test(test_counts_beyond_limits_are_refused),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_operator_golden),
		cmocka_unit_test(test_replica_golden),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
