/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers of replication that are none, or that say what cannot be. */
#include "replica_scene.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define OTHER_IP 0x0a000005

/* A node that is no replica: it refuses the session, again and again, and is tried again, but not in a tight loop. The
 * rest of a refused session is discarded. */
static void test_refused(void **state) {
	struct scene *s = scene_open(0);
	struct fake *other = fake_controller_at(&s->net, 1, OTHER_IP);
	uint32_t times = 0;

	(void)state;
	order_to(s, OTHER_IP, ++s->generation);
	for (hd_ns until = s->net.now + 4500 * HD_MS; s->net.now < until; run_for(s, HD_MS)) {
		if (!other->open)
			continue;
		times++;
		hd_session_close(
			other->session, HD_REASON_REFUSED, "no", s->net.now, &other->node.sink
		);
		other->open = false;
	}
	assert_in_range(times, 4, 5);
	push(s, HD_DTYPE_FP32, 1); /* no replica is waited for */
	order(s, s->minds, HD_REPLICA_ALONE, s->generation, 0);
	run_for(s, 2 * HD_SECOND);
	assert_false(other->open);
	follow(s, -1);
	run_until(s, replica_at, s->base);
	fake_close(other);
	scene_close(s);
}

/* A version that nothing can follow: no copy of it could ever be the server. */
static void test_last_incarnation(void **state) {
	struct scene *s = scene_open(0);
	struct fake *other = fake_node_at(&s->net, HD_ROLE_SERVER, OTHER_IP, s->replica_node.addr);
	const struct hd_server_stats *stats = hd_server_stats(s->replica);
	struct hd_message m = {.kind = HD_MSG_SEED};
	uint8_t spec[4096];
	int bytes = hd_jobspec_encode(&s->spec, spec, sizeof spec);

	(void)state;
	assert_in_range(bytes, 1, sizeof spec);
	m.seed.spec = (struct hd_blob){spec, (uint32_t)bytes};
	m.seed.job = s->worker->job;
	m.seed.generation = 7;
	m.seed.bytes = VALUES * sizeof(float);
	m.seed.model_token = 8;
	m.seed.momentum_token = 9;
	m.seed.version = hd_version_make(UINT16_MAX, 1);
	fake_send(other, &m);
	run_for(s, 100 * HD_MS);
	assert_int_equal(stats->refused_messages, 1);
	assert_int_equal(fake_count(other, HD_MSG_FOLLOW), 0);
	m.seed.version = hd_version_make(UINT16_MAX - 1, 1);
	fake_send(other, &m);
	run_for(s, 100 * HD_MS);
	assert_int_equal(stats->refused_messages, 1);
	assert_int_equal(fake_wait(other, HD_MSG_FOLLOW, 0)->follow.state, HD_FOLLOW_SEEDING);
	fake_close(other);
	scene_close(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_last_incarnation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
