/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_bytes.h"
#include "hd_limits.h"
#include "hd_message.h"
#include "hd_switch_numbers.h"
#include "hd_wire.h"

#include <assert.h>
#include <errno.h>

/* The wire's layout as structs. They are never overlaid on packets; the offsets below and those in the header's figure
 * are checked against them at compile time. */
struct wire_chunk {
	uint8_t magic[2], version_type, flags, job[4];
	uint8_t epoch[2], worker[2], round[4];
	uint8_t attempt, dtype, exponent[2], shard[2], slot[2];
	uint8_t chunk[4], packet[4], version[8], count[2], next[2], total[4], token[8];
};

struct wire_control {
	uint8_t magic[2], version_type, flags, session[4];
	uint8_t sequence[8], message[4], ack[4], ack_mask[4];
	uint8_t kind, key[2], reserved;
};

#define AT_CHUNK(field) offsetof(struct wire_chunk, field)
#define AT_CONTROL(field) offsetof(struct wire_control, field)

static_assert(sizeof(struct wire_chunk) == HD_CHUNK_HEADER_BYTES, "chunk header is 56 bytes");
static_assert(AT_CHUNK(job) == 4 && AT_CHUNK(epoch) == 8 && AT_CHUNK(worker) == 10, "chunk layout");
static_assert(AT_CHUNK(round) == 12 && AT_CHUNK(attempt) == 16 && AT_CHUNK(dtype) == 17, "");
static_assert(AT_CHUNK(exponent) == 18 && AT_CHUNK(shard) == 20 && AT_CHUNK(slot) == 22, "");
static_assert(AT_CHUNK(chunk) == 24 && AT_CHUNK(packet) == 28 && AT_CHUNK(version) == 32, "");
static_assert(AT_CHUNK(count) == 40 && AT_CHUNK(next) == 42 && AT_CHUNK(total) == 44, "");
static_assert(AT_CHUNK(token) == 48, "the token ends the chunk header");
static_assert(sizeof(struct wire_control) == HD_CONTROL_HEADER_BYTES, "control header is 32 bytes");
static_assert(AT_CONTROL(session) == 4 && AT_CONTROL(sequence) == 8, "control layout");
static_assert(AT_CONTROL(message) == 16 && AT_CONTROL(ack) == 20, "");
static_assert(AT_CONTROL(ack_mask) == 24 && AT_CONTROL(kind) == 28, "");
static_assert(AT_CONTROL(key) == 29 && AT_CONTROL(reserved) == 31, "");
/* The plain numbers that the P4 switch program uses. */
static_assert(HD_SWITCH_UDP_PORT == HD_PORT && HD_SWITCH_MAGIC == HD_MAGIC, "");
static_assert(HD_SWITCH_WIRE_VERSION == HD_WIRE_VERSION, "");
static_assert(HD_SWITCH_TYPE_CHUNK == HD_PACKET_CHUNK, "");
static_assert(HD_SWITCH_TYPE_RESULT == HD_PACKET_RESULT, "");
static_assert(HD_SWITCH_CHUNK_HEADER_BYTES == HD_CHUNK_HEADER_BYTES, "");
static_assert(HD_SWITCH_DTYPE_FIXED32 == HD_DTYPE_FIXED32, "");
static_assert(HD_SWITCH_FLAG_RESEND == HD_CHUNK_RESEND && HD_SWITCH_FLAG_ECN == HD_CHUNK_ECN, "");
static_assert(HD_SWITCH_FLAG_NOT_FINITE == HD_CHUNK_NOT_FINITE, "");
static_assert(HD_SWITCH_FLAG_LAST == HD_CHUNK_LAST, "");
static_assert(HD_SWITCH_FLAG_PARTIAL == HD_CHUNK_PARTIAL, "");
static_assert(HD_SWITCH_SLOT_CELLS == 2 * HD_SWITCH_SLOTS, "");
static_assert(HD_SWITCH_SLOTS <= HD_SWITCH_SLOT_VERSION, "a slot leaves room for its version bit");
static_assert(
	HD_CHUNK_HEADER_BYTES + HD_SEAL_BYTES + HD_CHUNK_BYTES_MAX <= HD_PACKET_BYTES_MAX,
	"a full chunk fits"
);
static_assert(
	HD_CHUNK_HEADER_BYTES + HD_SEAL_BYTES + HD_CHUNK_BYTES_DEFAULT <= HD_PACKET_BYTES_DEFAULT,
	"a default chunk fits"
);
static_assert(
	HD_CONTROL_HEADER_BYTES + HD_FRAGMENT_BYTES_MAX + HD_TAG_BYTES <= HD_PACKET_BYTES_DEFAULT,
	"a full fragment fits"
);

static void put_prefix(uint8_t *data, uint8_t type, uint8_t flags) {
	hd_put16(data, HD_MAGIC);
	data[2] = (uint8_t)(HD_WIRE_VERSION << 4 | (type & 0x0f));
	data[3] = flags;
}

int hd_packet_classify(const uint8_t *data, size_t bytes, uint8_t *version) {
	uint8_t type;

	if (bytes < 8 || hd_get16(data) != HD_MAGIC)
		return -EBADMSG;
	*version = data[2] >> 4;
	if (*version != HD_WIRE_VERSION)
		return -EPROTONOSUPPORT;
	type = data[2] & 0x0f;
	if (type < HD_PACKET_CHUNK || type > HD_PACKET_SEALED)
		return -EBADMSG;
	return type;
}

static void encode(const struct hd_chunk_header *header, uint8_t type, uint8_t *data) {
	put_prefix(data, type, header->flags);
	hd_put32(data + AT_CHUNK(job), header->job);
	hd_put16(data + AT_CHUNK(epoch), header->epoch);
	hd_put16(data + AT_CHUNK(worker), header->worker);
	hd_put32(data + AT_CHUNK(round), header->round);
	data[AT_CHUNK(attempt)] = header->attempt;
	data[AT_CHUNK(dtype)] = header->dtype;
	hd_put16(data + AT_CHUNK(exponent), (uint16_t)header->exponent);
	hd_put16(data + AT_CHUNK(shard), header->shard);
	hd_put16(data + AT_CHUNK(slot), header->slot);
	hd_put32(data + AT_CHUNK(chunk), header->chunk);
	hd_put32(data + AT_CHUNK(packet), header->packet);
	hd_put64(data + AT_CHUNK(version), header->version);
	hd_put16(data + AT_CHUNK(count), header->count);
	hd_put16(data + AT_CHUNK(next), (uint16_t)header->next);
	hd_put32(data + AT_CHUNK(total), header->total);
	hd_put64(data + AT_CHUNK(token), header->token);
}

void hd_chunk_encode(const struct hd_chunk_header *header, uint8_t *data) {
	encode(header, hd_token_is_sealed(header->token) ? HD_PACKET_SEALED : HD_PACKET_CHUNK, data
	);
}

void hd_result_encode(const struct hd_chunk_header *header, uint8_t *data) {
	encode(header, HD_PACKET_RESULT, data);
}

/* Whether it has this type, with whole values after the header of `head` bytes. */
static bool is_whole(const uint8_t *data, size_t bytes, enum hd_packet_type type, size_t head) {
	uint8_t version;
	size_t value_bytes;

	if (bytes < head || bytes > HD_PACKET_BYTES_MAX
	    || hd_packet_classify(data, bytes, &version) != (int)type)
		return false;
	value_bytes = hd_dtype_bytes(data[AT_CHUNK(dtype)]);
	return value_bytes > 0 && bytes - head == hd_get16(data + AT_CHUNK(count)) * value_bytes;
}

static void decode(const uint8_t *data, struct hd_chunk_header *header) {
	header->flags = data[AT_CHUNK(flags)];
	header->attempt = data[AT_CHUNK(attempt)];
	header->dtype = data[AT_CHUNK(dtype)];
	header->job = hd_get32(data + AT_CHUNK(job));
	header->epoch = hd_get16(data + AT_CHUNK(epoch));
	header->worker = hd_get16(data + AT_CHUNK(worker));
	header->round = hd_get32(data + AT_CHUNK(round));
	header->exponent = (int16_t)hd_get16(data + AT_CHUNK(exponent));
	header->shard = hd_get16(data + AT_CHUNK(shard));
	header->slot = hd_get16(data + AT_CHUNK(slot));
	header->chunk = hd_get32(data + AT_CHUNK(chunk));
	header->packet = hd_get32(data + AT_CHUNK(packet));
	header->version = hd_get64(data + AT_CHUNK(version));
	header->count = hd_get16(data + AT_CHUNK(count));
	header->next = (int16_t)hd_get16(data + AT_CHUNK(next));
	header->total = hd_get32(data + AT_CHUNK(total));
	header->token = hd_get64(data + AT_CHUNK(token));
}

int hd_chunk_decode(
	const uint8_t *data,
	size_t bytes,
	struct hd_chunk_header *header,
	const uint8_t **payload,
	size_t *payload_bytes
) {
	enum hd_packet_type type = HD_PACKET_CHUNK;
	size_t head = HD_CHUNK_HEADER_BYTES;

	if (bytes < head)
		return -EBADMSG;
	if (hd_token_is_sealed(hd_get64(data + AT_CHUNK(token)))) {
		type = HD_PACKET_SEALED;
		head += HD_SEAL_BYTES;
	}
	if (!is_whole(data, bytes, type, head) || hd_get16(data + AT_CHUNK(count)) == 0)
		return -EBADMSG;
	decode(data, header);
	*payload = data + head;
	*payload_bytes = bytes - head;
	return 0;
}

int hd_result_decode(
	const uint8_t *data,
	size_t bytes,
	struct hd_chunk_header *header,
	const uint8_t **payload,
	size_t *payload_bytes
) {
	if (!is_whole(data, bytes, HD_PACKET_RESULT, HD_CHUNK_HEADER_BYTES))
		return -EBADMSG;
	decode(data, header);
	*payload = data + HD_CHUNK_HEADER_BYTES;
	*payload_bytes = bytes - HD_CHUNK_HEADER_BYTES;
	return 0;
}

void hd_probe_encode(const struct hd_probe_header *header, uint8_t *data) {
	put_prefix(data, HD_PACKET_PROBE, 0);
	hd_put16(data + 4, header->index);
	hd_put16(data + 6, header->count);
	hd_put64(data + 8, header->token);
	hd_put16(data + 16, header->key);
}

int hd_probe_decode(const uint8_t *data, size_t bytes, struct hd_probe_header *header) {
	struct hd_probe_header h;
	uint8_t version;

	if (bytes < HD_PROBE_HEADER_BYTES
	    || hd_packet_classify(data, bytes, &version) != HD_PACKET_PROBE)
		return -EBADMSG;
	h.index = hd_get16(data + 4);
	h.count = hd_get16(data + 6);
	h.token = hd_get64(data + 8);
	h.key = hd_get16(data + 16);
	if (h.index >= h.count || h.token == 0)
		return -EBADMSG;
	*header = h;
	return 0;
}

void hd_control_encode(const struct hd_control_header *header, uint8_t *data) {
	put_prefix(data, header->type, header->flags);
	hd_put32(data + AT_CONTROL(session), header->session);
	hd_put64(data + AT_CONTROL(sequence), header->sequence);
	hd_put32(data + AT_CONTROL(message), header->message);
	hd_put32(data + AT_CONTROL(ack), header->ack);
	hd_put32(data + AT_CONTROL(ack_mask), header->ack_mask);
	data[AT_CONTROL(kind)] = header->kind;
	hd_put16(data + AT_CONTROL(key), header->key_id);
	data[AT_CONTROL(reserved)] = 0;
}

/* Only REFUSE keeps its layout in every version, as it reports a version mismatch. */
static bool control_type(const uint8_t *data, size_t bytes, uint8_t *type) {
	uint8_t version;
	int result = hd_packet_classify(data, bytes, &version);

	*type = data[2] & 0x0f;
	if (result == -EPROTONOSUPPORT)
		return *type == HD_PACKET_HELLO && data[AT_CONTROL(kind)] == HD_MSG_REFUSE;
	return result == HD_PACKET_CONTROL || result == HD_PACKET_HELLO;
}

int hd_control_decode(
	const uint8_t *data,
	size_t bytes,
	struct hd_control_header *header,
	const uint8_t **body,
	size_t *body_bytes
) {
	uint8_t type;

	if (bytes < HD_CONTROL_HEADER_BYTES + HD_TAG_BYTES
	    || bytes > HD_CONTROL_HEADER_BYTES + HD_FRAGMENT_BYTES_MAX + HD_TAG_BYTES
	    || !control_type(data, bytes, &type))
		return -EBADMSG;
	header->type = type;
	header->flags = data[AT_CONTROL(flags)];
	header->kind = data[AT_CONTROL(kind)];
	header->key_id = hd_get16(data + AT_CONTROL(key));
	header->session = hd_get32(data + AT_CONTROL(session));
	header->sequence = hd_get64(data + AT_CONTROL(sequence));
	header->message = hd_get32(data + AT_CONTROL(message));
	header->ack = hd_get32(data + AT_CONTROL(ack));
	header->ack_mask = hd_get32(data + AT_CONTROL(ack_mask));
	*body = data + HD_CONTROL_HEADER_BYTES;
	*body_bytes = bytes - HD_CONTROL_HEADER_BYTES - HD_TAG_BYTES;
	return 0;
}
