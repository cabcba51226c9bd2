/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes whose bytes a packer makes. */
#include "hd_kernels.h"
#include "worker_world.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct hd_worker_config plain;

/* Makes them as a device would. */
static struct {
	const float *values;
	uint8_t dtype;
	int fails; /* with this */
	unsigned calls, looks;
	int64_t most; /* bytes that are ready, and no more for now; 0: all at once */
	int later; /* what ready() says once they are; 0: nothing */
	float weight; /* of the last call */
	uint8_t bytes[2][VALUES * sizeof(float)]; /* in turns: the former are as good as gone */
} device;

static int pack(void *user, float weight, int16_t exponent, bool whole, const void **payload) {
	uint8_t *to = device.bytes[device.calls % 2];

	device.calls++;
	device.weight = weight;
	memset(device.bytes, 0xee, sizeof device.bytes);
	if (device.fails < 0)
		return device.fails;
	if (hd_dtype_is_half(device.dtype))
		hd_half_from_f32(
			device.dtype, (uint16_t *)(void *)to, device.values, VALUES, weight
		);
	else if (device.dtype == HD_DTYPE_FIXED32)
		(void
		)hd_fixed_from_f32((uint32_t *)(void *)to, device.values, VALUES, weight, exponent);
	else
		hd_scale_f32((float *)(void *)to, device.values, VALUES, weight);
	*payload = to;
	assert_false(whole); /* there is no sum on the path */
	return 0;
}

static int64_t ready(void *user) {
	int64_t all = (int64_t)(VALUES * hd_dtype_bytes(device.dtype));

	device.looks++;
	if (device.most > 0 && device.later < 0 && device.looks > 3)
		return device.later;
	return device.most > 0 && device.most < all ? device.most : all;
}

static int push_packed(struct world *world, int which, uint8_t dtype, double norm) {
	const struct hd_packer packer
		= {.norm = norm,
		   .peak = hd_peak_f32(world->data[which], VALUES),
		   .pack = pack,
		   .ready = ready};
	struct hd_push_args args = {.packer = &packer, .values = VALUES, .base = 1, .dtype = dtype};
	uint32_t round = 0;
	int rc;

	device.values = world->data[which];
	device.dtype = dtype;
	device.fails = 0;
	device.calls = device.looks = 0;
	device.most = 0;
	device.later = 0;
	rc = hd_worker_push(
		world->worker,
		hd_sim_node_now(world->sim, world->node),
		&args,
		hd_sim_node_sink(world->sim, world->node),
		&round
	);
	hd_sim_node_poke(world->sim, world->node);
	return rc < 0 ? rc : (int)round;
}

/* The server gets what the same push of data gives it, with the norm that the packer named. */
static void test_the_bytes_are_the_packers(void **state) {
	static const uint8_t dtypes[]
		= {HD_DTYPE_FP32, HD_DTYPE_FP16, HD_DTYPE_BF16, HD_DTYPE_FIXED32};

	for (size_t i = 0; i < 4; i++) {
		struct world *world = build(SCHEDULED, &plain), *other = build(SCHEDULED, &plain);

		world->controller.weight = other->controller.weight = 0.3f;
		world->controller.exponent = other->controller.exponent = -20;
		other->dtype = dtypes[i];
		run_ms(world, 20);
		run_ms(other, 20);
		assert_int_equal(push_packed(world, 0, dtypes[i], 7.5), 1);
		assert_int_equal(push(other, 0, 1), 1);
		run_ms(world, 200);
		run_ms(other, 200);
		assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
		assert_int_equal(device.calls, 1);
		assert_float_equal(device.weight, 0.3f, 0);
		assert_float_equal(
			peer_last(&world->controller, HD_MSG_REQUEST)->request.norm, 7.5f, 0
		);
		assert_memory_equal(
			world->server.model, other->server.model, VALUES * hd_dtype_bytes(dtypes[i])
		);
		assert_int_equal(world->released, 1);
		check_sums(world, 0);
		destroy(world);
		destroy(other);
	}
}

/* Another grant, another weight: the bytes are packed again, and the former ones not sent any more. */
static void test_made_again_for_another_weight(void **state) {
	struct world *world = build(SCHEDULED, &plain);

	world->controller.weight = 0.5f;
	run_ms(world, 20);
	world->server.deaf = true;
	assert_int_equal(push_packed(world, 0, HD_DTYPE_FP32, 1), 1);
	run_ms(world, 100);
	assert_int_equal(device.calls, 1);
	world->server.weight = 0.25f;
	run_ms(world, 3000);
	world->server.deaf = false;
	run_ms(world, 3000);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_int_equal(device.calls, 2); /* the attempts after that had the same weight */
	for (int i = 0; i < VALUES; i++)
		assert_float_equal(world->server.model[i], 0.25f * world->data[0][i], 0);
	destroy(world);
}

/* Each way in which they cannot be made ends the push with its reason; the next one goes. */
static void test_cannot_be_made(void **state) {
	static const struct {
		int code;
		enum hd_reason reason;
	} ends[]
		= {{-EIO, HD_REASON_DEVICE},
		   {-EDOM, HD_REASON_NOT_FINITE},
		   {-ENOMEM, HD_REASON_NO_MEMORY}};

	for (size_t i = 0; i < 3; i++) {
		struct world *world = build(SCHEDULED, &plain);

		run_ms(world, 20);
		assert_int_equal(push_packed(world, 0, HD_DTYPE_BF16, 1), 1);
		device.fails = ends[i].code;
		run_ms(world, 200);
		assert_int_equal(device.calls, 1);
		assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_FAILED);
		assert_int_equal(world->ticket[HD_PUSH][1].reason, ends[i].reason);
		assert_int_equal(
			peer_last(&world->controller, HD_MSG_CANCEL)->cancel.reason, ends[i].reason
		);
		assert_int_equal(world->released, 1);
		assert_int_equal(push(world, 1, 1), 2);
		run_ms(world, 200);
		assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_APPLIED);
		check_sums(world, 0);
		destroy(world);
	}
}

/* Packed bytes leave; the rest when it is packed, and not before. */
static void test_leaves_while_it_is_made(void **state) {
	struct world *world = build(SCHEDULED, &plain);
	uint64_t sent;

	run_ms(world, 20);
	assert_int_equal(push_packed(world, 0, HD_DTYPE_FP32, 1), 1);
	device.most = 9000;
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_SENDING);
	assert_true(device.looks > 1000); /* every 50 us */
	sent = hd_recv_stats(world->server.transfers[0].recv)->bytes_held;
	assert_int_equal(sent, 9000 / HD_CHUNK_BYTES_DEFAULT * HD_CHUNK_BYTES_DEFAULT);
	device.most = 0;
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_APPLIED);
	assert_memory_equal(world->server.model, world->data[0], VALUES * sizeof(float));
	check_sums(world, 0);
	destroy(world);
}

/* The device fails when some of it has left: server and controller are told, and the next push goes. */
static void test_fails_in_the_middle(void **state) {
	static const int codes[] = {-EIO, -EDOM};

	for (size_t i = 0; i < 2; i++) {
		struct world *world = build(SCHEDULED, &plain);
		enum hd_reason reason = codes[i] == -EIO ? HD_REASON_DEVICE : HD_REASON_NOT_FINITE;

		run_ms(world, 20);
		assert_int_equal(push_packed(world, 0, HD_DTYPE_FP32, 1), 1);
		device.most = 9000;
		device.later = codes[i];
		run_ms(world, 100);
		assert_int_equal(world->ticket[HD_PUSH][1].state, HD_TICKET_FAILED);
		assert_int_equal(world->ticket[HD_PUSH][1].reason, reason);
		assert_int_equal(world->released, 1);
		assert_int_equal(world->ends[HD_PUSH][1], 1);
		assert_int_equal(
			peer_last(&world->controller, HD_MSG_CANCEL)->cancel.reason, reason
		);
		assert_int_equal(peer_last(&world->server, HD_MSG_CANCEL)->cancel.reason, reason);
		assert_int_equal(push(world, 1, 1), 2);
		run_ms(world, 200);
		assert_int_equal(world->ticket[HD_PUSH][2].state, HD_TICKET_APPLIED);
		assert_memory_equal(world->server.model, world->data[1], VALUES * sizeof(float));
		check_sums(world, 0);
		destroy(world);
	}
}

static void test_refuses_what_it_cannot_take(void **state) {
	struct world *world = build(DIRECT, &plain);

	run_ms(world, 20);
	assert_int_equal(push_packed(world, 0, HD_DTYPE_SPARSE32, 1), -EINVAL);
	assert_int_equal(push_packed(world, 0, HD_DTYPE_FP32, NAN), -EDOM);
	assert_int_equal(hd_worker_stats(world->worker)->pushed, 0);
	destroy(world);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_bytes_are_the_packers),
		cmocka_unit_test(test_made_again_for_another_weight),
		cmocka_unit_test(test_cannot_be_made),
		cmocka_unit_test(test_leaves_while_it_is_made),
		cmocka_unit_test(test_fails_in_the_middle),
		cmocka_unit_test(test_refuses_what_it_cannot_take),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
