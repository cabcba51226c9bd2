/* SPDX-License-Identifier: BSD-3-Clause */
/* Which chunks of a job carry a MAC: what a server grants by itself, and the state that its replica gets. */
#include "hd_wire.h"
#include "replica_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PUSHES 4

/* Chunks that came by, by who they were for. */
enum ends {
	TO_SERVER,
	TO_REPLICA,
	TO_WORKERS,
	ENDS
};

static uint64_t plain[ENDS], sealed[ENDS];

static bool look(struct net *net, const struct net_packet *packet) {
	uint8_t version;
	int type = hd_packet_classify(packet->data, packet->bytes, &version);
	enum ends to = TO_WORKERS;

	(void)net;
	if (packet->to.ipv4 == SERVER_IP)
		to = TO_SERVER;
	else if (packet->to.ipv4 == REPLICA_IP)
		to = TO_REPLICA;
	plain[to] += type == HD_PACKET_CHUNK;
	sealed[to] += type == HD_PACKET_SEALED;
	return false;
}

static bool is_pulled(struct scene *s, uint64_t number) {
	(void)number;
	return s->worker->pulled_done;
}

/* Pushes and a pull that the server grants, and a replica that comes meanwhile. */
static void live(struct scene *s) {
	static float pulled[VALUES];
	uint64_t values;

	memset(plain, 0, sizeof plain);
	memset(sealed, 0, sizeof sealed);
	s->net.lose = look;
	for (int i = 0; i < PUSHES; i++)
		push(s, HD_DTYPE_FP32, 1);
	follow(s, -1);
	for (int i = 0; i < PUSHES; i++)
		push(s, HD_DTYPE_FP32, 1);
	run_until(s, sent_durable, s->base);
	assert_true(replica_at(s, s->base));
	fake_pull_into(s->worker, pulled, VALUES, 1);
	fake_request_pull(s->worker, 1, 0, false);
	run_until(s, is_pulled, 0);
	assert_memory_equal(
		pulled, hd_server_model(s->net.server, s->worker->job, &values), sizeof pulled
	);
	scene_close(s);
}

static void test_on(void **state) {
	(void)state;
	live(scene_open(0));
	for (int to = 0; to < ENDS; to++) {
		assert_true(sealed[to] > 0);
		assert_int_equal(plain[to], 0);
	}
}

static void test_off(void **state) {
	(void)state;
	live(scene_open_unsealed());
	for (int to = 0; to < ENDS; to++) {
		assert_true(plain[to] > 0);
		assert_int_equal(sealed[to], 0);
	}
}

/* The first worker says it for all. */
static void test_agreement(void **state) {
	struct scene *s = scene_open_unsealed();
	struct hd_jobspec spec = s->spec;
	struct fake *other = fake_worker(&s->net, 2);

	(void)state;
	spec.unsealed = false;
	fake_join(other, &spec);
	(void)fake_wait(other, HD_MSG_REFUSE, 0);
	assert_non_null(strstr(other->refused, "integrity: on, the job has off"));
	fake_close(other);
	scene_close(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_on),
		cmocka_unit_test(test_off),
		cmocka_unit_test(test_agreement),
	};

	return cmocka_run_group_tests_name("server_integrity", tests, NULL, NULL);
}
