/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets. Two families share their first 8 bytes; every integer of a header is big-endian, payload values are
 * little-endian IEEE 754 (fixed-point lanes: big-endian int32).
 *
 *  data chunk (56 bytes, then count values)     control packet (32 bytes, body, 16-byte tag)
 *   0  magic:16  version:4 type:4  flags:8       0  magic:16  version:4 type:4  flags:8
 *   4  job:32                                    4  session:32     the receiver's index
 *   8  epoch:16  worker:16                       8  sequence:64    never reused: replay window
 *  12  round:32                                 16  message:32     reliable fragment number, 0 = none
 *  16  attempt:8 dtype:8 exponent:16            20  ack:32         peer's fragments held, cumulative
 *  20  shard:16  slot:16                        24  ack_mask:32    bit i: ack + 2 + i is held too
 *  24  chunk:32       index within the part     28  kind:8 key:16 reserved:8
 *  28  packet:32      never reused in a         32  body ...
 *  32  model version:64         transfer         -16 tag: keyed BLAKE2b-128 over all before it
 *  40  count:16 next:16 total:32
 *  48  token:64       of the grant or credit
 *
 * Decoders accept any bytes: they return a value or a negative errno, and never read past `bytes`.
 */
#ifndef HD_WIRE_H
#define HD_WIRE_H

#include "hd_types.h"

#define HD_MAGIC 0x4844 /* "HD" */
#define HD_WIRE_VERSION 1

#define HD_CHUNK_HEADER_BYTES 56
#define HD_SEAL_BYTES 8 /* of a sealed chunk: its MAC, between header and values */
#define HD_TOKEN_SEALED (UINT64_C(1) << 63) /* in a token: the chunks of this transfer are sealed */
#define HD_CONTROL_HEADER_BYTES 32
#define HD_TAG_BYTES 16
#define HD_PROBE_HEADER_BYTES 18

enum hd_packet_type {
	HD_PACKET_CHUNK = 1, /* worker -> server/aggregator, server -> worker */
	HD_PACKET_RESULT = 2, /* switch on the path -> worker; a receiver's answer -> switch */
	HD_PACKET_CONTROL = 3, /* inside a session, authenticated with its key */
	HD_PACKET_HELLO
		= 4, /* begin and end of sessions: authenticated with the node key, or hints */
	HD_PACKET_PROBE = 5, /* of a packet train: worker or server -> worker or server */
	HD_PACKET_SEALED = 6 /* a chunk with a MAC, as its token says; slot is the node key's id */
};

enum hd_chunk_flag {
	HD_CHUNK_RESEND = 1 << 0,
	HD_CHUNK_ECN = 1 << 1, /* reserved: congestion experienced, set by a switch */
	HD_CHUNK_NOT_FINITE = 1 << 2, /* a lane of the sum, so far, is NaN or Inf, or overflowed */
	HD_CHUNK_LAST = 1 << 3, /* the chunk with the highest index of the part */
	HD_CHUNK_SCALED = 1 << 4, /* reserved: fixed point */
	HD_CHUNK_PARTIAL = 1 << 5, /* reserved: not every member is in the sum */
	HD_CHUNK_ASK = 1 << 6, /* the sender asks for an acknowledgement now */
	/* Sent while the granted pacing, or data that had yet to come, was the limit, not the path or the peer. */
	HD_CHUNK_PACED = 1 << 7
};

enum hd_control_flag {
	HD_CONTROL_MORE = 1 << 0, /* the message continues in the next fragment */
	/* Sent by the side that answered HELLO. Both directions share one key; the receiver checks this bit, so that a
	 * packet cannot be reflected to its sender. */
	HD_CONTROL_ANSWERER = 1 << 1
};

struct hd_chunk_header {
	uint8_t flags;
	uint8_t attempt;
	uint8_t dtype;
	uint32_t job;
	uint16_t epoch;
	uint16_t worker;
	uint32_t round;
	int16_t exponent;
	uint16_t shard;
	uint16_t slot; /* of a switch; of a sealed chunk: the id of the node key */
	uint32_t chunk;
	uint32_t packet; /* in a switch's slot: hd_slots_packet() */
	hd_version version; /* of a switch's result: its members, a bit each */
	uint16_t count; /* values in this packet */
	int16_t next; /* fixed point in a switch's slot: exponent proposed for its next chunk */
	uint32_t
		total; /* bytes of the transfer if its receiver does not know them: on a credit; in the last chunk of a
			  merged sum; else 0 */
	uint64_t token;
};

struct hd_control_header {
	uint8_t type; /* HD_PACKET_CONTROL or HD_PACKET_HELLO */
	uint8_t flags;
	uint8_t kind; /* enum hd_message_kind; HD_MSG_NONE: acknowledgement only */
	uint16_t key_id;
	uint32_t session;
	uint64_t sequence;
	uint32_t message;
	uint32_t ack;
	uint32_t ack_mask;
};

/* magic:16 version:4 type:4 flags:8, index:16 count:16, token:64, then anything. */
struct hd_probe_header {
	uint16_t index, count; /* index < count */
	uint64_t token;
	uint16_t key; /* id of the node key of its MAC */
};

/* Examines the first bytes only. Returns the type, -EBADMSG (not ours: magic, length) or -EPROTONOSUPPORT (ours, of
 * another version: *version is set then too). */
int hd_packet_classify(const uint8_t *data, size_t bytes, uint8_t *version);

static inline bool hd_token_is_sealed(uint64_t token) {
	return (token & HD_TOKEN_SEALED) != 0;
}

/* Writes HD_CHUNK_HEADER_BYTES. For a sealed token the type is SEALED, and HD_SEAL_BYTES of MAC must follow. */
void hd_chunk_encode(const struct hd_chunk_header *header, uint8_t *data);

/* Returns 0 with *header set and *payload pointing at header->count values, or -EBADMSG: short, wrong type, unknown
 * dtype, a payload length other than that of `count` >= 1 values, or type and token disagree about the seal. Does not
 * verify the MAC: that is hd_seal_check(). */
int hd_chunk_decode(
	const uint8_t *data,
	size_t bytes,
	struct hd_chunk_header *header,
	const uint8_t **payload,
	size_t *payload_bytes
);

/* The same for a RESULT, whose count may be 0 (an answer). */
int hd_result_decode(
	const uint8_t *data,
	size_t bytes,
	struct hd_chunk_header *header,
	const uint8_t **payload,
	size_t *payload_bytes
);
/* Writes HD_CHUNK_HEADER_BYTES: a RESULT, without values if the header's count is 0. */
void hd_result_encode(const struct hd_chunk_header *header, uint8_t *data);

/* Writes HD_PROBE_HEADER_BYTES. */
void hd_probe_encode(const struct hd_probe_header *header, uint8_t *data);
/* 0 with *header set, or -EBADMSG: short, wrong type, index beyond count, token 0. */
int hd_probe_decode(const uint8_t *data, size_t bytes, struct hd_probe_header *header);

/* Writes HD_CONTROL_HEADER_BYTES. */
void hd_control_encode(const struct hd_control_header *header, uint8_t *data);

/* Returns 0 with *header set and *body, *body_bytes the bytes between header and tag; or -EBADMSG. Does not verify the
 * tag: that is hd_auth_verify(). Also accepts a REFUSE of another version, whose layout is the same in every version,
 * as it reports a version mismatch. */
int hd_control_decode(
	const uint8_t *data,
	size_t bytes,
	struct hd_control_header *header,
	const uint8_t **body,
	size_t *body_bytes
);

#endif
