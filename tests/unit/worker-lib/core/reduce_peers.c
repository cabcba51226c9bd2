/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_kernels.h"
#include "reduce_peers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct hd_worker_config plain;

uint64_t out_token(uint32_t round, uint8_t attempt, int k) {
	return 10000 * (uint64_t)round + 100 * (uint64_t)attempt + (uint64_t)k + 1;
}

uint64_t in_token(uint32_t round, uint8_t attempt, int k) {
	return out_token(round, attempt, k) + 10;
}

struct scene *open_scene(enum mode mode) {
	struct scene *s = calloc(1, sizeof *s);

	s->world = build(mode, &plain);
	s->world->controller.silent = true;
	for (int k = 0; k < SHARDS; k++) {
		peer_init(&s->aggregators[k], s->world->sim, HD_ROLE_AGGREGATOR, 1);
		peer_start(&s->aggregators[k]);
		s->aggregators[k].forger = &s->world->controller.node;
	}
	for (int i = 0; i < VALUES; i++)
		s->in[i] = s->before[i] = (float)(i % 251) - 100;
	run_ms(s->world, 20);
	return s;
}

void close_scene(struct scene *s) {
	for (int i = 0; i < VALUES; i++)
		assert_float_equal(s->in[i], s->before[i], 0);
	for (int k = 0; k < SHARDS; k++)
		peer_fini(&s->aggregators[k]);
	destroy(s->world);
	free(s);
}

const struct hd_ticket *ticket(const struct scene *s, uint32_t round) {
	return &s->world->ticket[HD_REDUCE][round];
}

int call(struct scene *s, struct hd_reduce_args args) {
	struct world *world = s->world;
	uint32_t round = 0;
	int rc = hd_worker_reduce(
		world->worker,
		hd_sim_node_now(world->sim, world->node),
		&args,
		hd_sim_node_sink(world->sim, world->node),
		&round
	);

	hd_sim_node_poke(world->sim, world->node);
	run_ms(world, 5);
	return rc < 0 ? rc : (int)round;
}

int reduce(struct scene *s, uint8_t dtype, uint8_t op) {
	struct hd_reduce_args args = {
		.in = s->in,
		.out = s->out,
		.values = VALUES,
		.type = hd_dtype_is_half(dtype) ? HD_DTYPE_FP32 : dtype,
		.dtype = dtype,
		.op = op,
		.order = HD_GROUP_RANKED,
	};

	return call(s, args);
}

struct order order(uint8_t attempt, uint8_t dtype) {
	uint64_t each = hd_dtype_bytes(dtype);

	return (struct order){
		.attempt = attempt,
		.dtype = dtype,
		.workers = WORKERS,
		.bytes = VALUES * each,
		.first = {0, FIRST * each},
		.shard = {FIRST * each, (VALUES - FIRST) * each},
		.shards = SHARDS,
	};
}

void send_reduce(struct scene *s, uint32_t round, const struct order *t) {
	struct hd_message message = {.kind = HD_MSG_REDUCE, .reduce = {.scale = 1}};
	struct hd_msg_reduce *m = &message.reduce;
	struct hd_group_shard shards[SHARDS];
	uint8_t blob[256];

	for (int k = 0; k < SHARDS; k++) {
		struct hd_addr address = hd_sim_node_address(s->world->sim, s->aggregators[k].node);

		shards[k] = (struct hd_group_shard){
			.out_token = t->not_out[k] ? 0 : out_token(round, t->attempt, k),
			.in_token = t->not_in[k] ? 0 : in_token(round, t->attempt, k),
			.bytes = t->shard[k],
			.ipv4 = address.ipv4,
			.port = address.port,
			.cc_weight = 1,
			.first = t->first[k],
		};
	}
	m->job = hd_job_id("t", "job");
	m->worker = 3;
	m->round = round;
	m->attempt = t->attempt;
	m->dtype = t->dtype;
	m->op = t->op;
	m->bytes = t->bytes;
	m->workers = t->workers;
	m->sum_id = t->sum_id;
	m->channel = t->channel;
	m->peer_boot = t->peer_boot;
	m->shards.data = blob;
	m->shards.bytes
		= (uint32_t)hd_group_put_shards(shards, (uint32_t)t->shards, blob, sizeof blob);
	if (t->members) {
		m->members.data = t->members->ranks;
		m->members.bytes = (uint32_t)hd_roster_bytes(t->members);
	}
	peer_send(&s->world->controller, &message);
}

void begin(struct scene *s, uint32_t round, const struct order *t) {
	for (int k = 0; k < SHARDS; k++) {
		struct hd_msg_request request = {
			.job = hd_job_id("t", "job"),
			.worker = 3,
			.round = round,
			.attempt = t->attempt,
			.dtype = t->dtype,
			.bytes = t->shard[k],
		};

		if (k < t->shards && !t->not_out[k])
			peer_expect(&s->aggregators[k], out_token(round, t->attempt, k), &request);
	}
	send_reduce(s, round, t);
	run_ms(s->world, 60);
}

/* The values that aggregator k holds of a token; NULL: not all of them. */
const void *held(struct scene *s, int k, uint64_t token) {
	struct peer *peer = &s->aggregators[k];

	for (int i = 0; i < PEER_TRANSFERS_MAX; i++)
		if (peer->transfers[i].token == token && peer->transfers[i].recv
		    && hd_recv_missing(peer->transfers[i].recv) == 0)
			return peer->transfers[i].data;
	return NULL;
}

static struct peer_transfer *free_transfer(struct peer *peer) {
	for (int i = 0; i < PEER_TRANSFERS_MAX; i++)
		if (peer->transfers[i].token == 0)
			return &peer->transfers[i];
	abort();
}

/* Aggregator k sends these bytes as its sum. */
void serve(struct scene *s, int k, uint32_t round, const struct order *t, const void *sum) {
	struct peer *peer = &s->aggregators[k];
	struct peer_transfer *transfer = free_transfer(peer);
	struct hd_send_config config = {
		.peer = hd_session_peer(peer->session),
		.header = {
			.attempt = t->attempt,
			.dtype = t->dtype,
			.job = hd_job_id("t", "job"),
			.worker = 3,
			.round = round,
			.token = in_token(round, t->attempt, k),
		},
		.bytes = t->shard[k],
		.chunk_bytes = HD_CHUNK_BYTES_DEFAULT,
		.cc_weight = 1,
		.path = &peer->path,
	};

	transfer->token = config.header.token;
	transfer->data = malloc(t->shard[k]);
	memcpy(transfer->data, sum, t->shard[k]);
	config.data = transfer->data;
	assert_int_equal(
		hd_send_create(&config, hd_sim_node_now(peer->sim, peer->node), &transfer->send), 0
	);
	hd_send_poll(
		transfer->send,
		hd_sim_node_now(peer->sim, peer->node),
		64,
		hd_sim_node_sink(peer->sim, peer->node)
	);
	hd_sim_node_poke(peer->sim, peer->node);
}

void answer(struct scene *s, int k, uint32_t round, const struct order *t) {
	uint64_t values = t->shard[k] / hd_dtype_bytes(t->dtype);
	const void *mine = held(s, k, out_token(round, t->attempt, k));
	static float sum[VALUES];
	static uint16_t half[VALUES];

	assert_non_null(mine);
	memcpy(sum, mine, t->shard[k]);
	if (hd_dtype_is_half(t->dtype))
		hd_half_to_f32(t->dtype, sum, mine, values);
	hd_scale_f32(sum, sum, values, t->op == HD_REDUCE_OP_SUM ? WORKERS : 1);
	if (hd_dtype_is_half(t->dtype))
		hd_half_from_f32(t->dtype, half, sum, values, 1);
	serve(s, k, round, t, hd_dtype_is_half(t->dtype) ? (void *)half : (void *)sum);
	run_ms(s->world, 60);
}

void send_drop(struct scene *s, uint32_t round, uint8_t attempt, uint8_t reason, uint32_t newest) {
	struct hd_message message = {.kind = HD_MSG_DROP};

	message.drop = (struct hd_msg_drop
	){.job = hd_job_id("t", "job"),
	  .worker = 3,
	  .round = round,
	  .direction = HD_REDUCE,
	  .attempt = attempt,
	  .reason = reason,
	  .deadline = newest};
	peer_send(&s->world->controller, &message);
	run_ms(s->world, 5);
}

void send_void(struct scene *s, struct peer *peer, uint64_t token) {
	struct hd_message message = {.kind = HD_MSG_VOID};

	message.void_ = (struct hd_msg_void_){hd_job_id("t", "job"), 0, token, HD_REASON_LEASE};
	peer_send(peer, &message);
	run_ms(s->world, 5);
}
