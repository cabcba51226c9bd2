/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A checkpoint as a safetensors file: pure, no file access here.
 *
 *   8 bytes    length N of the header, little-endian, a multiple of 8
 *   N bytes    JSON: {"__metadata__": {text fields}, "model/<tensor>": {dtype, shape, data_offsets}, ...,
 *              "momentum/<tensor>": ...}, padded with spaces
 *   data       the model's tensors in the job's order, then the momentum's, fp32 little-endian
 *
 * Any reader of safetensors reads it. Ours also needs the metadata: format, version, lives (earlier incarnations),
 * rounds, the job's description (`spec`: its wire encoding in hexadecimal; tenant, name, seed, learning_rate ... repeat
 * it for people), and `blake2b`: the hash of everything else in the file, so that any flipped bit is found.
 */
#ifndef HD_SAFETENSORS_H
#define HD_SAFETENSORS_H

#include "hd_server.h"

#define HD_SAFETENSORS_LENGTH_BYTES 8
#define HD_SAFETENSORS_HEADER_MAX (UINT64_C(64) << 20)

/* Makes the length and the header of a checkpoint: malloc'ed, *bytes long; the data follow as they are in memory:
 * model, then momentum. Reads all of both, for the hash. 0, -ENOMEM, -EMSGSIZE. */
int hd_safetensors_write(const struct hd_checkpoint *checkpoint, uint8_t **header, size_t *bytes);

/* The header's length from the first 8 bytes, or -EBADMSG (0, or beyond HD_SAFETENSORS_HEADER_MAX). */
int64_t hd_safetensors_length(const uint8_t first[HD_SAFETENSORS_LENGTH_BYTES]);

/* Reads a header of `bytes` (without the length). On success *checkpoint has everything but model and momentum (NULL),
 * and `hash` is what hd_safetensors_check() compares; free with hd_safetensors_free(). -EBADMSG, -ENOMEM; error says
 * what. Accepts any bytes. */
#define HD_SAFETENSORS_HASH_BYTES 32
int hd_safetensors_read(
	const uint8_t *header,
	size_t bytes,
	struct hd_checkpoint *checkpoint,
	uint8_t hash[HD_SAFETENSORS_HASH_BYTES],
	char *error,
	size_t error_bytes
);
/* With model and momentum filled in: 0, or -EBADMSG if the hash does not match. */
int hd_safetensors_check(
	const struct hd_checkpoint *checkpoint,
	const uint8_t hash[HD_SAFETENSORS_HASH_BYTES]
);
/* Frees every array and the description. */
void hd_safetensors_free(struct hd_checkpoint *checkpoint);

#endif
