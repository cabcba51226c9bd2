/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of payloads: sizes and types, MACs, norms. */
#include "hd_kernels.h"
#include "hd_runs.h"
#include "hd_switch_numbers.h"
#include "srv_incoming.h"

#define NORM_BLOCK 256 /* values converted to fp32 at a time */

bool srv_payload_fits(const struct srv_job *job, uint8_t dtype, uint64_t bytes) {
	if (dtype == HD_DTYPE_SPARSE32)
		return bytes >= HD_RUN_BYTES_MIN && bytes % 4 == 0 && bytes <= job->bytes;
	return hd_dtype_is_dense(dtype) && bytes == job->values * hd_dtype_bytes(dtype);
}

/* Checks its MAC, if it is sealed. */
bool srv_chunk_is_true(
	struct srv_turn *turn,
	struct hd_seal *seal,
	const struct hd_chunk_header *header,
	const struct hd_packet *packet
) {
	if (hd_seal_check(seal, turn->server->config.keys, header, packet->data, packet->bytes))
		return true;
	turn->server->stats.drop_mac++;
	return false;
}

bool srv_stream_fits(const struct hd_msg_members *message, uint16_t members) {
	if (message->count == 0)
		return true;
	return message->dtype == HD_DTYPE_FIXED32 && members <= HD_SWITCH_MEMBERS_MAX
		&& message->count <= HD_CHUNK_BYTES_MAX / sizeof(uint32_t)
		&& message->receiver < HD_SWITCH_RECEIVERS_MAX;
}

static double norm2_half(uint8_t dtype, const uint16_t *values, size_t count) {
	float wide[NORM_BLOCK];
	double sum = 0;

	for (size_t at = 0; at < count; at += NORM_BLOCK) {
		size_t n = count - at < NORM_BLOCK ? count - at : NORM_BLOCK;

		hd_half_to_f32(dtype, wide, values + at, n);
		sum += hd_norm2_f32(wide, n);
	}
	return sum;
}

static double norm2_runs(const uint8_t *chunk, size_t bytes, uint64_t values) {
	struct hd_runs_cursor cursor;
	struct hd_run run;
	const float *x;
	double sum = 0;

	hd_runs_begin(&cursor, chunk, bytes, values);
	while (hd_runs_next(&cursor, &run, &x) > 0)
		sum += hd_norm2_f32(x, run.count);
	return sum;
}

double
srv_payload_norm2(const struct srv_job *job, uint8_t dtype, const void *values, size_t bytes) {
	if (dtype == HD_DTYPE_SPARSE32)
		return norm2_runs(values, bytes, job->values);
	return hd_dtype_is_half(dtype) ? norm2_half(dtype, values, bytes / sizeof(uint16_t)) :
					 hd_norm2_f32(values, bytes / sizeof(float));
}
