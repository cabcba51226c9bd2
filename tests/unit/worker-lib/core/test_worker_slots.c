/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces of a worker through the slots of a switch, and every way in which they can end; when its pushes begin. */
#include "hd_group.h"
#include "hd_kernels.h"
#include "hd_switch_numbers.h"
#include "worker_world.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SLOTS 16
#define COUNT 32
#define CHUNKS ((VALUES + COUNT - 1) / COUNT)
#define OUT 501
#define IN 502
#define MEMBER 5
#define OTHER 2 /* has the same values as the worker */

static const struct hd_worker_config plain;

/* A switch that has the other member's chunk of the same values already, whatever comes. */
struct fake {
	struct hd_sim *sim;
	int node;
	bool deaf;
	uint64_t members[2]; /* of sums of even and of odd chunks */
	uint8_t flags; /* of one sum */
	uint32_t flagged; /* its chunk */
	uint64_t token; /* of results */
	uint64_t chunks, places_wrong;
	uint64_t first; /* of the round in flight */
	struct hd_chunk_header last;
};

struct scene {
	struct world *world;
	struct fake fake;
	float in[VALUES], out[VALUES], other[VALUES];
};

static void fake_tick(void *core, hd_ns now, struct hd_sink *sink) {
	(void)core;
	(void)now;
	(void)sink;
}

static hd_ns fake_deadline(const void *core) {
	(void)core;
	return HD_NEVER;
}

static void answer(struct fake *fake, const struct hd_packet *packet, struct hd_sink *sink) {
	struct hd_chunk_header header;
	const uint8_t *payload;
	size_t bytes;
	uint32_t lanes[COUNT];
	uint8_t data[HD_CHUNK_HEADER_BYTES];
	uint64_t place;

	if (hd_chunk_decode(packet->data, packet->bytes, &header, &payload, &bytes) < 0)
		return;
	assert_int_equal(bytes, sizeof lanes);
	fake->chunks++;
	fake->last = header;
	place = fake->first + header.chunk;
	fake->places_wrong += header.slot
		!= (place % SLOTS | (place / SLOTS % 2 ? HD_SWITCH_SLOT_VERSION : 0));
	if (fake->deaf)
		return;
	memcpy(lanes, payload, bytes);
	if (header.dtype == HD_DTYPE_FIXED32) {
		(void)hd_add_fixed(lanes, (const uint32_t *)(const void *)payload, COUNT);
	} else {
		float values[COUNT];

		memcpy(values, lanes, sizeof values);
		hd_scale_f32(values, values, COUNT, 2);
		memcpy(lanes, values, sizeof values);
	}
	header.version = fake->members[header.chunk % 2];
	header.flags |= header.chunk == fake->flagged ? fake->flags : 0;
	header.worker = UINT16_MAX;
	header.token = fake->token;
	hd_chunk_encode(&header, data);
	data[2] = HD_WIRE_VERSION << 4 | HD_PACKET_RESULT;
	sink->send(sink, packet->peer, data, sizeof data, lanes, sizeof lanes);
}

static void fake_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	(void)now;
	for (size_t i = 0; i < count; i++)
		answer(core, &packets[i], sink);
}

static const struct hd_core_ops fake_ops = {
	.receive = fake_receive,
	.tick = fake_tick,
	.deadline = fake_deadline,
};

static struct scene *open_world(enum mode mode) {
	struct hd_sim_link link = {.rate_bps = 1000000000, .latency = 50000};
	struct hd_sim_node_config node = {0};
	struct scene *s = calloc(1, sizeof *s);

	s->world = build(mode, &plain);
	s->world->controller.silent = true;
	node.host = hd_sim_host(s->world->sim, &link);
	s->fake.sim = s->world->sim;
	s->fake.node = hd_sim_node(s->world->sim, &node);
	s->fake.members[0] = s->fake.members[1] = 1U << MEMBER | 1U << OTHER;
	s->fake.token = IN;
	hd_sim_node_start(s->world->sim, s->fake.node, (struct hd_node){&fake_ops, &s->fake});
	for (int i = 0; i < VALUES; i++)
		s->in[i] = (float)(i % 251) - 100;
	run_ms(s->world, 20);
	return s;
}

static struct scene *open_scene(void) {
	return open_world(REDUCES);
}

static void close_scene(struct scene *s) {
	assert_int_equal(s->fake.places_wrong, 0);
	destroy(s->world);
	free(s);
}

static const struct hd_ticket *ticket(const struct scene *s, uint32_t round) {
	return &s->world->ticket[HD_REDUCE][round];
}

static const struct hd_msg_request *request(const struct scene *s) {
	return &peer_last(&s->world->controller, HD_MSG_REQUEST)->request;
}

static void reduce(struct scene *s, float *out, uint8_t op) {
	struct hd_reduce_args args = {.in = s->in, .out = out, .values = VALUES, .op = op};
	struct world *world = s->world;
	uint32_t round = 0;

	assert_int_equal(
		hd_worker_reduce(
			world->worker,
			hd_sim_node_now(world->sim, world->node),
			&args,
			hd_sim_node_sink(world->sim, world->node),
			&round
		),
		0
	);
	hd_sim_node_poke(world->sim, world->node);
	run_ms(world, 5);
}

/* The controller's message for a round that goes through the lease. */
static struct hd_msg_reduce
order(const struct scene *s, uint32_t round, uint8_t attempt, uint8_t *blob) {
	struct hd_addr address = hd_sim_node_address(s->world->sim, s->fake.node);
	struct hd_group_shard shard = {
		.out_token = OUT,
		.in_token = IN,
		.bytes = VALUES * sizeof(float),
		.ipv4 = address.ipv4,
		.port = address.port,
	};

	return (struct hd_msg_reduce){
		.job = hd_job_id("t", "job"),
		.worker = 3,
		.round = round,
		.attempt = attempt,
		.epoch = 9,
		.dtype = HD_DTYPE_FIXED32,
		.exponent = (uint16_t)hd_fixed_exponent(300, 2),
		.bytes = VALUES * sizeof(float),
		.workers = 2,
		.scale = 0.5F,
		.shards
		= {blob, (uint32_t)hd_group_put_shards(&shard, 1, blob, HD_GROUP_SHARD_BYTES)},
		.slots = SLOTS,
		.count = COUNT,
		.member = MEMBER,
		.lease_attempt = 4,
		.turn = round,
		.first = (uint64_t)(round - 1) * CHUNKS,
		.rate_bps = 500000000,
	};
}

static void send_reduce(struct scene *s, const struct hd_msg_reduce *reduce) {
	struct hd_message message = {.kind = HD_MSG_REDUCE, .reduce = *reduce};

	peer_send(&s->world->controller, &message);
}

static void order_slots(struct scene *s, uint32_t round, uint8_t attempt) {
	uint8_t blob[HD_GROUP_SHARD_BYTES];
	struct hd_msg_reduce reduce = order(s, round, attempt, blob);

	send_reduce(s, &reduce);
}

static void check_out(const float *out, float factor) {
	for (int i = 0; i < VALUES; i++)
		assert_float_equal(out[i], factor * ((float)(i % 251) - 100), 0);
}

/* --- how it goes well ------------------------------------------------------------------------ */

static void check_kind(uint8_t dtype, uint8_t op, uint64_t rate_bps) {
	struct scene *s = open_scene();
	uint8_t blob[HD_GROUP_SHARD_BYTES];
	const struct hd_msg_register_ *registered;
	const struct hd_msg_report *report;
	struct hd_msg_reduce m;

	registered = &peer_last(&s->world->controller, HD_MSG_REGISTER)->register_;
	assert_int_equal(registered->count_max, HD_CHUNK_BYTES_DEFAULT / 4);
	assert_int_equal(registered->dtypes, 1 << HD_DTYPE_FP32 | 1 << HD_DTYPE_FIXED32);
	reduce(s, s->out, op);
	assert_float_equal(request(s)->peak, 150, 0);
	assert_int_equal(request(s)->avoid, 0);
	m = order(s, 1, 1, blob);
	m.dtype = dtype;
	m.op = op;
	m.exponent = dtype == HD_DTYPE_FP32 ? 0 : m.exponent;
	m.rate_bps = rate_bps;
	send_reduce(s, &m);
	run_ms(s->world, 100);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	assert_float_equal(ticket(s, 1)->scale, 0.5F, 0);
	assert_int_equal(ticket(s, 1)->delay, 2);
	check_out(s->out, op == HD_REDUCE_OP_SUM ? 2 : 1);
	assert_int_equal(s->fake.chunks, CHUNKS);
	assert_int_equal(s->fake.last.attempt, 4);
	assert_int_equal(s->fake.last.epoch, 9);
	assert_int_equal(s->fake.last.worker, 3);
	report = &peer_last(&s->world->controller, HD_MSG_REPORT)->report;
	assert_int_equal(report->direction, HD_REDUCE);
	assert_int_equal(report->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(hd_worker_stats(s->world->worker)->in_slots, 1);
	assert_int_equal(peer_count(&s->world->controller, HD_MSG_REQUEST), 1);
	close_scene(s);
}

static void test_sum(void **state) {
	check_kind(HD_DTYPE_FIXED32, HD_REDUCE_OP_SUM, 500000000);
	check_kind(HD_DTYPE_FIXED32, HD_REDUCE_OP_AVERAGE, 0);
	check_kind(HD_DTYPE_FP32, HD_REDUCE_OP_SUM, 0);
	check_kind(HD_DTYPE_FP32, HD_REDUCE_OP_AVERAGE, 500000000);
}

static void test_losses(void **state) {
	struct hd_sim_faults faults = {.loss = 0.1, .duplicate = 0.1, .reorder = 0.2};
	struct scene *s = open_scene();

	hd_sim_set_faults(s->world->sim, &faults);
	reduce(s, s->out, HD_REDUCE_OP_SUM);
	run_ms(s->world, 200);
	order_slots(s, 1, 1);
	run_ms(s->world, 1500);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	check_out(s->out, 2);
	close_scene(s);
}

/* Two rounds of one lease: the second waits for the first, whatever is told when, and goes on in its slots. */
static void test_rounds(void **state) {
	struct scene *s = open_scene();

	reduce(s, s->out, HD_REDUCE_OP_SUM);
	reduce(s, s->other, HD_REDUCE_OP_SUM);
	s->fake.deaf = true;
	order_slots(s, 1, 1);
	order_slots(s, 2, 1);
	run_ms(s->world, 50);
	assert_int_equal(ticket(s, 2)->state, HD_TICKET_SENDING);
	assert_int_equal(s->fake.last.round, 1);
	s->fake.deaf = false;
	while (ticket(s, 1)->state != HD_TICKET_APPLIED)
		run_ms(s->world, 1);
	s->fake.first = CHUNKS;
	s->fake.places_wrong = 0; /* of this millisecond */
	run_ms(s->world, 100);
	assert_int_equal(ticket(s, 2)->state, HD_TICKET_APPLIED);
	assert_int_equal(s->fake.last.round, 2);
	check_out(s->out, 2);
	check_out(s->other, 2);
	close_scene(s);
}

/* --- asked again ----------------------------------------------------------------------------- */

/* The first attempt ends so; the second, told as before, is good. */
static void check_again(void (*lose)(struct scene *s), uint8_t avoid) {
	struct scene *s = open_scene();

	reduce(s, s->out, HD_REDUCE_OP_SUM);
	lose(s);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_REQUESTED);
	assert_int_equal(request(s)->attempt, 2);
	assert_int_equal(request(s)->avoid, avoid);
	s->fake.deaf = false;
	s->fake.flags = 0;
	s->fake.members[1] = s->fake.members[0] = 1U << MEMBER | 1U << OTHER;
	order_slots(s, 1, 2);
	run_ms(s->world, 200);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	check_out(s->out, 2);
	assert_int_equal(s->world->released, 1);
	close_scene(s);
}

static void overflow(struct scene *s) {
	s->fake.flags = HD_CHUNK_NOT_FINITE; /* and the places say nothing */
	s->fake.flagged = 70;
	order_slots(s, 1, 1);
	run_ms(s->world, 50);
}

static void members_differ(struct scene *s) {
	s->fake.members[1] = 1U << MEMBER;
	order_slots(s, 1, 1);
	run_ms(s->world, 50);
}

static void taken_out(struct scene *s) {
	s->fake.members[0] = s->fake.members[1] = 1U << OTHER;
	order_slots(s, 1, 1);
	run_ms(s->world, 50);
}

static void voided(struct scene *s) {
	struct hd_message message = {.kind = HD_MSG_VOID};

	s->fake.deaf = true;
	order_slots(s, 1, 1);
	run_ms(s->world, 50);
	message.void_ = (struct hd_msg_void_){hd_job_id("t", "job"), 0, OUT, HD_REASON_LEASE};
	peer_send(&s->world->controller, &message);
	run_ms(s->world, 5);
}

static void stalled(struct scene *s) {
	s->fake.deaf = true;
	order_slots(s, 1, 1);
	run_ms(s->world, HD_STALL_US / 1000 + HD_STALL_US / 2000);
}

static void test_asked_again(void **state) {
	check_again(overflow, HD_GROUP_AVOID_VALUES);
	check_again(members_differ, HD_GROUP_AVOID_NOT);
	check_again(taken_out, HD_GROUP_AVOID_NOT);
	check_again(voided, HD_GROUP_AVOID_NOT);
	check_again(stalled, HD_GROUP_AVOID_STILL);
}

/* One word ends all rounds of a lease. */
static void test_void_of_all(void **state) {
	struct hd_message message = {.kind = HD_MSG_VOID};
	struct scene *s = open_scene();

	s->fake.deaf = true;
	reduce(s, s->out, HD_REDUCE_OP_SUM);
	reduce(s, s->other, HD_REDUCE_OP_SUM);
	order_slots(s, 1, 1);
	order_slots(s, 2, 1);
	run_ms(s->world, 20);
	message.void_ = (struct hd_msg_void_){hd_job_id("t", "job"), 0, IN, HD_REASON_LEASE};
	peer_send(&s->world->controller, &message);
	run_ms(s->world, 5);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_REQUESTED);
	assert_int_equal(ticket(s, 2)->state, HD_TICKET_REQUESTED);
	assert_int_equal(peer_count(&s->world->controller, HD_MSG_REQUEST), 4);
	close_scene(s);
}

/* NaN and Inf go through slots like any values, and count in no exponent. The other member has the same. */
static void test_not_finite(void **state) {
	struct scene *s = open_scene();

	s->in[17] = NAN;
	s->in[VALUES - 1] = -INFINITY;
	reduce(s, s->out, HD_REDUCE_OP_SUM);
	assert_float_equal(request(s)->peak, 150, 0);
	order_slots(s, 1, 1);
	run_ms(s->world, 100);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	assert_int_equal(peer_last(&s->world->controller, HD_MSG_REPORT)->report.duration_ns, 0);
	assert_true(isnan(s->out[17]) && isinf(s->out[VALUES - 1]) == -1);
	s->out[17] = 2.0F * (17 - 100);
	s->out[VALUES - 1] = 2.0F * ((VALUES - 1) % 251 - 100);
	check_out(s->out, 2);
	close_scene(s);
}

/* --- what others may say --------------------------------------------------------------------- */

static void refused(void (*change)(struct hd_msg_reduce *m)) {
	struct scene *s = open_scene();
	uint8_t blob[HD_GROUP_SHARD_BYTES];
	struct hd_msg_reduce m;

	reduce(s, s->out, HD_REDUCE_OP_SUM);
	m = order(s, 1, 1, blob);
	change(&m);
	send_reduce(s, &m);
	run_ms(s->world, 10);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_FAILED);
	assert_int_equal(ticket(s, 1)->reason, HD_REASON_REFUSED);
	assert_int_equal(
		peer_last(&s->world->controller, HD_MSG_REPORT)->report.outcome, HD_OUTCOME_FAILED
	);
	assert_int_equal(s->fake.chunks, 0);
	close_scene(s);
}

static void no_count(struct hd_msg_reduce *m) {
	m->count = 0;
}

static void long_chunks(struct hd_msg_reduce *m) {
	m->count = HD_CHUNK_BYTES_DEFAULT / 4 + 1;
}

static void many_slots(struct hd_msg_reduce *m) {
	m->slots = HD_SWITCH_SLOTS + 1;
}

static void no_member(struct hd_msg_reduce *m) {
	m->member = 64;
}

static void halves(struct hd_msg_reduce *m) {
	m->dtype = HD_DTYPE_BF16;
}

static void two_shards(struct hd_msg_reduce *m) {
	static uint8_t two[2 * HD_GROUP_SHARD_BYTES];

	memcpy(two, m->shards.data, HD_GROUP_SHARD_BYTES);
	memcpy(two + HD_GROUP_SHARD_BYTES, m->shards.data, HD_GROUP_SHARD_BYTES);
	m->shards = (struct hd_blob){two, sizeof two};
}

static void no_turn(struct hd_msg_reduce *m) {
	m->turn = 0;
}

static void test_refused(void **state) {
	refused(no_count);
	refused(long_chunks);
	refused(many_slots);
	refused(no_member);
	refused(halves);
	refused(two_shards);
	refused(no_turn);
}

/* Results under another token are ignored; those that disagree with the round change nothing. */
static void test_strangers(void **state) {
	struct scene *s = open_scene();
	uint64_t before;

	reduce(s, s->out, HD_REDUCE_OP_SUM);
	s->fake.token = IN + 1;
	order_slots(s, 1, 1);
	run_ms(s->world, 30);
	before = hd_worker_stats(s->world->worker)->drop_token;
	assert_true(before > 0);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	s->fake.token = IN;
	s->fake.members[0] = s->fake.members[1] = 7; /* more than there are */
	run_ms(s->world, 100);
	assert_true(hd_worker_stats(s->world->worker)->drop_mismatch > 0);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_SENDING);
	s->fake.members[0] = s->fake.members[1] = 1U << MEMBER | 1U << OTHER;
	run_ms(s->world, 1000);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_APPLIED);
	check_out(s->out, 2);
	close_scene(s);
}

/* --- pushes ---------------------------------------------------------------------------------- */

static void send_go(struct scene *s) {
	struct hd_message go = {.kind = HD_MSG_GO};

	go.go.job = hd_job_id("t", "job");
	go.go.token = OUT;
	peer_send(&s->world->server, &go);
	run_ms(s->world, 10);
}

/* Planned to begin a second from now. */
static void grant_push(struct scene *s, uint64_t after) {
	const struct hd_addr address = hd_sim_node_address(s->world->sim, s->fake.node);
	const struct hd_msg_request *asked = request(s);
	struct hd_message message = {.kind = HD_MSG_GRANT};

	message.grant = (struct hd_msg_grant){
		.job = asked->job,
		.worker = asked->worker,
		.round = asked->round,
		.direction = HD_PUSH,
		.attempt = asked->attempt,
		.token = OUT,
		.result_token = IN,
		.after = after,
		.weight = 1,
		.cc_weight = 1,
		.bytes = asked->bytes,
		.exponent = (uint16_t)hd_fixed_exponent(300, 2),
		.peer_ipv4 = address.ipv4,
		.peer_port = address.port,
		.slots = SLOTS,
		.count = COUNT,
		.member = MEMBER,
		.members = 2,
		.receivers = 1,
		.origin_ns = hd_sim_node_now(s->world->sim, s->world->controller.node),
		.segments = {1, {{HD_SECOND, 100000000, asked->bytes}}},
	};
	peer_send(&s->world->controller, &message);
	run_ms(s->world, 10);
	assert_true(s->world->ticket[HD_PUSH][1].state >= HD_TICKET_GRANTED);
}

static struct scene *open_push(void) {
	struct scene *s = open_world(SCHEDULED);

	s->fake.deaf = true;
	s->world->dtype = HD_DTYPE_FIXED32;
	assert_int_equal(push(s->world, 0, 1), 1);
	run_ms(s->world, 10);
	return s;
}

/* Nothing leaves before go, or its time; a go that came before its grant counts when that comes, whether the grant knew
 * of one or not. */
static void test_go(void **state) {
	struct scene *s = open_push();

	grant_push(s, 99);
	run_ms(s->world, 900);
	assert_int_equal(s->fake.chunks, 0);
	send_go(s);
	assert_int_equal(s->fake.chunks, SLOTS);
	close_scene(s);
	for (uint64_t after = 0; after < 100; after += 99) {
		s = open_push();
		send_go(s);
		grant_push(s, after);
		assert_int_equal(s->fake.chunks, SLOTS);
		close_scene(s);
	}
	s = open_push();
	grant_push(s, 0);
	assert_int_equal(s->fake.chunks, 0);
	run_ms(s->world, HD_SECOND / HD_MS);
	assert_true(s->fake.chunks > 0);
	close_scene(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sum),
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_rounds),
		cmocka_unit_test(test_asked_again),
		cmocka_unit_test(test_void_of_all),
		cmocka_unit_test(test_not_finite),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
