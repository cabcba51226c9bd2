/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums from a switch's slots at the server: hostile RESULTs are counted and dropped, and change nothing. */
#include "hd_kernels.h"
#include "hd_wire.h"
#include "server_sums.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT 100 /* values of a chunk */
#define CHUNKS (SUM_VALUES / COUNT)
#define EXPONENT (-8)
#define FLOOD 500

static const struct hd_server_config plain;

/* Workers 0 and 1, through a switch at the address of worker 3, which no other node sends to. */
static struct sums *open_stream(void) {
	struct sums *s = sums_open(16, &plain);

	sums_make(s, "01", 50);
	s->message.dtype = HD_DTYPE_FIXED32;
	s->message.count = COUNT;
	s->message.peer_ipv4 = s->worker[3]->node.addr.ipv4;
	s->message.peer_port = s->worker[3]->node.addr.port;
	sums_send(s, "01");
	return s;
}

static struct hd_chunk_header good(const struct sums *s, uint32_t chunk) {
	return (struct hd_chunk_header){
		.flags = chunk == CHUNKS - 1 ? HD_CHUNK_LAST : 0,
		.attempt = 1,
		.dtype = HD_DTYPE_FIXED32,
		.job = s->job,
		.epoch = 3,
		.round = 1,
		.exponent = EXPONENT,
		.chunk = chunk,
		.packet = chunk,
		.version = 3, /* both are in it */
		.count = COUNT,
		.token = SUM_TOKEN + 50,
	};
}

/* Every lane is `value`. */
static void send_result(struct sums *s, const struct hd_chunk_header *header, int32_t value) {
	struct net_node *node = &s->worker[3]->node;
	uint8_t head[HD_CHUNK_HEADER_BYTES];
	uint32_t lanes[2 * COUNT];

	for (uint32_t i = 0; i < 2 * COUNT; i++)
		lanes[i] = __builtin_bswap32((uint32_t)value);
	hd_result_encode(header, head);
	node->sink.send(
		&node->sink,
		s->worker[3]->server,
		head,
		sizeof head,
		lanes,
		header->count * sizeof(uint32_t)
	);
	sums_run_ms(s, 1);
}

static void send_all(struct sums *s, int32_t value) {
	for (uint32_t chunk = 0; chunk < CHUNKS; chunk++) {
		const struct hd_chunk_header header = good(s, chunk);

		send_result(s, &header, value);
	}
	sums_run_ms(s, 20);
}

/* The model took one step of 2 updates whose sum is `value` lanes of 2^EXPONENT in each place. */
static void assert_applied(const struct sums *s, int32_t value) {
	const struct hd_sgd sgd = {s->spec.learning_rate, s->spec.momentum, s->spec.weight_decay};
	float *model = malloc(SUM_BYTES), *momentum = calloc(SUM_VALUES, sizeof(float));
	float *mean = malloc(SUM_BYTES);
	uint64_t values;

	for (uint32_t i = 0; i < SUM_VALUES; i++)
		mean[i] = (float)value / 256.0F / 2;
	hd_jobspec_initialize(&s->spec, model);
	hd_sgd_apply_scalar(model, momentum, mean, SUM_VALUES, &sgd);
	hd_sgd_apply_scalar(model, momentum, mean, SUM_VALUES, &sgd);
	assert_memory_equal(hd_server_model(s->net.server, s->job, &values), model, SUM_BYTES);
	free(model);
	free(momentum);
	free(mean);
}

static void test_sum(void **state) {
	struct sums *s = open_stream();

	(void)state;
	send_all(s, 512);
	assert_int_equal(fake_outcome(s->worker[1], 1)->outcome, HD_OUTCOME_APPLIED);
	assert_applied(s, 512);
	sums_close(s);
}

static void test_hostile(void **state) {
	struct sums *s = open_stream();
	const struct hd_server_stats *stats = hd_server_stats(s->net.server);
	struct hd_chunk_header header = good(s, 0);

	(void)state;
	send_result(s, &header, 512);
	for (int wrong = 0; wrong < 9; wrong++) {
		uint64_t tokens = stats->drop_token, mismatches = stats->drop_mismatch;

		header = good(s, 1);
		header.token ^= wrong == 0 ? 1 : 0;
		header.token = wrong == 1 ? PART_TOKEN + 50 : header.token; /* a member's */
		header.job += wrong == 2;
		header.dtype = wrong == 3 ? HD_DTYPE_FP32 : header.dtype;
		header.count = wrong == 4 ? COUNT - 1 : wrong == 5 ? COUNT + 1 : header.count;
		header.version = wrong == 6 ? 1 : wrong == 7 ? 7 : header.version;
		header.chunk = wrong == 8 ? CHUNKS : header.chunk;
		send_result(s, &header, 77);
		assert_int_equal(stats->drop_token - tokens, wrong < 2 ? 1 : 0);
		assert_int_equal(stats->drop_mismatch - mismatches, wrong < 2 ? 0 : 1);
	}
	/* Replays, with other values: what came first stands. */
	header = good(s, 0);
	for (int i = 0; i < FLOOD; i++)
		send_result(s, &header, 99);
	assert_true(stats->duplicates >= FLOOD);
	send_all(s, 512);
	assert_int_equal(fake_outcome(s->worker[0], 1)->outcome, HD_OUTCOME_APPLIED);
	assert_applied(s, 512);
	/* And after its end. */
	send_all(s, 99);
	assert_applied(s, 512);
	assert_true(stats->duplicates >= FLOOD + CHUNKS);
	sums_close(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sum),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
