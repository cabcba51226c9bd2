/* SPDX-License-Identifier: BSD-3-Clause */
/* One codec for every message: it walks the kind's table of fields, made from the lists in hd_message.h. No message has
 * code of its own. */
#include "hd_bytes.h"
#include "hd_message.h"
#include "hd_text.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

struct fields {
	const struct hd_field_info *rows;
	size_t count;
};

#define FIELD_ROW(type, field)                                                                     \
	{#field, #type, (uint16_t)(body_offset + offsetof(body_type, field)), HD_FIELD_##type},
#define FIELD_CASE(upper, lower, number, from)                                                     \
	case HD_MSG_##upper: {                                                                     \
		typedef struct hd_msg_##lower body_type;                                           \
		enum {                                                                             \
			body_offset = offsetof(struct hd_message, lower)                           \
		};                                                                                 \
		static const struct hd_field_info rows[] = {HD_FIELDS_##upper(FIELD_ROW)};         \
		return (struct fields){rows, sizeof(rows) / sizeof(rows[0])};                      \
	}

static struct fields fields_of(uint8_t kind) {
	switch (kind) {
		HD_MESSAGES(FIELD_CASE)
	default:
		return (struct fields){NULL, 0};
	}
}

static_assert(sizeof(struct hd_message) <= UINT16_MAX, "offsets in field tables are 16 bits");

/* --- encoding -------------------------------------------------------------------------------- */

struct writer {
	uint8_t *at, *end;
};

/* Room for `bytes` more, or NULL. */
static uint8_t *reserve(struct writer *w, size_t bytes) {
	uint8_t *at = w->at;

	if ((size_t)(w->end - at) < bytes)
		return NULL;
	w->at = at + bytes;
	return at;
}

static int put_integer(struct writer *w, const void *value, size_t bytes) {
	uint8_t *at = reserve(w, bytes);
	uint16_t x16;
	uint32_t x32;
	uint64_t x64;

	if (!at)
		return -EMSGSIZE;
	switch (bytes) {
	case 2:
		memcpy(&x16, value, 2);
		hd_put16(at, x16);
		break;
	case 4:
		memcpy(&x32, value, 4);
		hd_put32(at, x32);
		break;
	case 8:
		memcpy(&x64, value, 8);
		hd_put64(at, x64);
		break;
	default:
		memcpy(at, value, 1);
	}
	return 0;
}

static int put_string(struct writer *w, const char *string, size_t limit, size_t length_bytes) {
	const char *end = memchr(string, '\0', limit + 1);
	size_t bytes;
	uint8_t *at;

	if (!end)
		return -EINVAL;
	bytes = (size_t)(end - string);
	if (!hd_text_valid(string, bytes))
		return -EINVAL;
	at = reserve(w, length_bytes + bytes);
	if (!at)
		return -EMSGSIZE;
	if (length_bytes == 1)
		at[0] = (uint8_t)bytes;
	else
		hd_put16(at, (uint16_t)bytes);
	memcpy(at + length_bytes, string, bytes);
	return 0;
}

static int put_blob(struct writer *w, const struct hd_blob *blob) {
	uint8_t *at;

	if (blob->bytes > HD_MESSAGE_BYTES_MAX)
		return -EMSGSIZE;
	at = reserve(w, 4 + (size_t)blob->bytes);
	if (!at)
		return -EMSGSIZE;
	hd_put32(at, blob->bytes);
	if (blob->bytes > 0)
		memcpy(at + 4, blob->data, blob->bytes);
	return 0;
}

static int put_segs(struct writer *w, const struct hd_segs *segs) {
	uint8_t *at;

	if (segs->count > HD_SEGMENTS_MAX)
		return -EINVAL;
	at = reserve(w, 1 + (size_t)segs->count * 24);
	if (!at)
		return -EMSGSIZE;
	*at++ = segs->count;
	for (size_t i = 0; i < segs->count; i++, at += 24) {
		hd_put64(at, segs->item[i].start_ns);
		hd_put64(at + 8, segs->item[i].rate_bps);
		hd_put64(at + 16, segs->item[i].bytes);
	}
	return 0;
}

static bool ranges_valid(const struct hd_ranges *ranges) {
	for (size_t i = 0; i < ranges->count; i++) {
		if (ranges->item[i].first > ranges->item[i].last)
			return false;
		if (i > 0 && ranges->item[i].last >= ranges->item[i - 1].first)
			return false;
	}
	return true;
}

static int put_ranges(struct writer *w, const struct hd_ranges *ranges) {
	uint8_t *at;

	if (ranges->count > HD_SACK_RANGES_MAX || !ranges_valid(ranges))
		return -EINVAL;
	at = reserve(w, 1 + (size_t)ranges->count * 8);
	if (!at)
		return -EMSGSIZE;
	*at++ = ranges->count;
	for (size_t i = 0; i < ranges->count; i++, at += 8) {
		hd_put32(at, ranges->item[i].first);
		hd_put32(at + 4, ranges->item[i].last);
	}
	return 0;
}

static int put_nonce(struct writer *w, const void *nonce) {
	uint8_t *at = reserve(w, sizeof(hd_nonce));

	if (!at)
		return -EMSGSIZE;
	memcpy(at, nonce, sizeof(hd_nonce));
	return 0;
}

static int put_field(struct writer *w, uint8_t code, const void *value) {
	switch (code) {
	case HD_FIELD_u8:
		return put_integer(w, value, 1);
	case HD_FIELD_u16:
		return put_integer(w, value, 2);
	case HD_FIELD_u32:
	case HD_FIELD_f32:
		return put_integer(w, value, 4);
	case HD_FIELD_u64:
	case HD_FIELD_f64:
		return put_integer(w, value, 8);
	case HD_FIELD_name:
		return put_string(w, value, HD_NAME_BYTES_MAX, 1);
	case HD_FIELD_text:
		return put_string(w, value, HD_TEXT_BYTES_MAX, 2);
	case HD_FIELD_nonce:
		return put_nonce(w, value);
	case HD_FIELD_blob:
		return put_blob(w, value);
	case HD_FIELD_segs:
		return put_segs(w, value);
	default:
		return put_ranges(w, value);
	}
}

int hd_message_encode(const struct hd_message *message, uint8_t *data, size_t capacity) {
	struct fields fields = fields_of(message->kind);
	struct writer w;

	if (fields.count == 0)
		return -EINVAL;
	if (capacity > HD_MESSAGE_BYTES_MAX)
		capacity = HD_MESSAGE_BYTES_MAX;
	w = (struct writer){data, data + capacity};
	for (size_t i = 0; i < fields.count; i++) {
		const struct hd_field_info *f = &fields.rows[i];
		int result = put_field(&w, f->code, (const uint8_t *)message + f->offset);

		if (result < 0)
			return result;
	}
	return (int)(w.at - data);
}

/* --- decoding -------------------------------------------------------------------------------- */

struct reader {
	const uint8_t *at, *end;
};

/* The next `bytes` bytes, or NULL. */
static const uint8_t *take(struct reader *r, size_t bytes) {
	const uint8_t *at = r->at;

	if ((size_t)(r->end - at) < bytes)
		return NULL;
	r->at = at + bytes;
	return at;
}

static bool get_integer(struct reader *r, void *value, size_t bytes) {
	const uint8_t *at = take(r, bytes);
	uint16_t x16;
	uint32_t x32;
	uint64_t x64;

	if (!at)
		return false;
	switch (bytes) {
	case 2:
		x16 = hd_get16(at);
		memcpy(value, &x16, 2);
		break;
	case 4:
		x32 = hd_get32(at);
		memcpy(value, &x32, 4);
		break;
	case 8:
		x64 = hd_get64(at);
		memcpy(value, &x64, 8);
		break;
	default:
		memcpy(value, at, 1);
	}
	return true;
}

static bool get_string(struct reader *r, char *string, size_t limit, size_t length_bytes) {
	const uint8_t *at = take(r, length_bytes);
	size_t bytes;

	if (!at)
		return false;
	bytes = length_bytes == 1 ? at[0] : hd_get16(at);
	if (bytes > limit)
		return false;
	at = take(r, bytes);
	if (!at || !hd_text_valid((const char *)at, bytes))
		return false;
	memcpy(string, at, bytes);
	string[bytes] = '\0';
	return true;
}

static bool get_blob(struct reader *r, struct hd_blob *blob) {
	const uint8_t *at = take(r, 4);

	if (!at)
		return false;
	blob->bytes = hd_get32(at);
	blob->data = take(r, blob->bytes);
	return blob->data;
}

static bool get_segs(struct reader *r, struct hd_segs *segs) {
	const uint8_t *at = take(r, 1);

	if (!at || *at > HD_SEGMENTS_MAX)
		return false;
	memset(segs, 0, sizeof *segs);
	segs->count = *at;
	at = take(r, (size_t)segs->count * 24);
	if (!at)
		return false;
	for (size_t i = 0; i < segs->count; i++, at += 24) {
		segs->item[i].start_ns = hd_get64(at);
		segs->item[i].rate_bps = hd_get64(at + 8);
		segs->item[i].bytes = hd_get64(at + 16);
	}
	return true;
}

static bool get_ranges(struct reader *r, struct hd_ranges *ranges) {
	const uint8_t *at = take(r, 1);

	if (!at || *at > HD_SACK_RANGES_MAX)
		return false;
	memset(ranges, 0, sizeof *ranges);
	ranges->count = *at;
	at = take(r, (size_t)ranges->count * 8);
	if (!at)
		return false;
	for (size_t i = 0; i < ranges->count; i++, at += 8) {
		ranges->item[i].first = hd_get32(at);
		ranges->item[i].last = hd_get32(at + 4);
	}
	return ranges_valid(ranges);
}

static bool get_nonce(struct reader *r, void *nonce) {
	const uint8_t *at = take(r, sizeof(hd_nonce));

	if (!at)
		return false;
	memcpy(nonce, at, sizeof(hd_nonce));
	return true;
}

static bool get_field(struct reader *r, uint8_t code, void *value) {
	switch (code) {
	case HD_FIELD_u8:
		return get_integer(r, value, 1);
	case HD_FIELD_u16:
		return get_integer(r, value, 2);
	case HD_FIELD_u32:
	case HD_FIELD_f32:
		return get_integer(r, value, 4);
	case HD_FIELD_u64:
	case HD_FIELD_f64:
		return get_integer(r, value, 8);
	case HD_FIELD_name:
		return get_string(r, value, HD_NAME_BYTES_MAX, 1);
	case HD_FIELD_text:
		return get_string(r, value, HD_TEXT_BYTES_MAX, 2);
	case HD_FIELD_nonce:
		return get_nonce(r, value);
	case HD_FIELD_blob:
		return get_blob(r, value);
	case HD_FIELD_segs:
		return get_segs(r, value);
	default:
		return get_ranges(r, value);
	}
}

int hd_message_decode(uint8_t kind, const uint8_t *data, size_t bytes, struct hd_message *message) {
	struct fields fields = fields_of(kind);
	struct reader r;

	/* Every kind has at least one field, so an empty body is invalid (and data may be NULL). */
	if (fields.count == 0 || bytes == 0 || bytes > HD_MESSAGE_BYTES_MAX)
		return -EBADMSG;
	r = (struct reader){data, data + bytes};
	message->kind = kind;
	for (size_t i = 0; i < fields.count; i++) {
		const struct hd_field_info *f = &fields.rows[i];

		if (!get_field(&r, f->code, (uint8_t *)message + f->offset))
			return -EBADMSG;
	}
	return r.at == r.end ? 0 : -EBADMSG;
}

/* --- names ----------------------------------------------------------------------------------- */

const char *hd_message_name(uint8_t kind) {
	static const char *const names[] = {
#define NAME_ROW(upper, lower, number, from) [HD_MSG_##upper] = #lower,
		HD_MESSAGES(NAME_ROW)
#undef NAME_ROW
	};

	/* Two members end in an underscore, as their names are C keywords. */
	if (kind == HD_MSG_REGISTER)
		return "register";
	if (kind == HD_MSG_VOID)
		return "void";
	if (kind >= sizeof names / sizeof names[0] || !names[kind])
		return "unknown";
	return names[kind];
}

uint32_t hd_message_senders(uint8_t kind) {
	static const uint32_t senders[] = {
#define SENDERS_ROW(upper, lower, number, from) [HD_MSG_##upper] = (from),
		HD_MESSAGES(SENDERS_ROW)
#undef SENDERS_ROW
	};

	return kind < sizeof senders / sizeof senders[0] ? senders[kind] : 0;
}

const char *hd_role_name(uint8_t role) {
	static const char *const names[HD_ROLE_COUNT] = {
		[HD_ROLE_NONE] = "none",
		[HD_ROLE_CONTROLLER] = "controller",
		[HD_ROLE_SERVER] = "server",
		[HD_ROLE_WORKER] = "worker",
		[HD_ROLE_SHELL] = "shell",
		[HD_ROLE_AGGREGATOR] = "aggregator",
		[HD_ROLE_REPLICA] = "replica",
		[HD_ROLE_SWITCH] = "switch",
		[HD_ROLE_MONITOR] = "monitor",
	};

	return role < HD_ROLE_COUNT ? names[role] : "unknown";
}

const char *hd_verb_name(uint8_t verb) {
	static const char *const names[HD_VERB_COUNT]
		= {[HD_VERB_NONE] = "none",
#define VERB_ROW(upper, text, number) [HD_VERB_##upper] = (text),
		   HD_VERBS(VERB_ROW)
#undef VERB_ROW
		};

	return verb < HD_VERB_COUNT ? names[verb] : "unknown";
}

const struct hd_field_info *hd_message_field(uint8_t kind, size_t index) {
	struct fields fields = fields_of(kind);

	return index < fields.count ? &fields.rows[index] : NULL;
}
