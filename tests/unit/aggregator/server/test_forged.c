/* SPDX-License-Identifier: BSD-3-Clause */
/* An attacker that sees a token and forges chunks with it changes no model: neither the server's nor the replica's. */
#include "forge.h"
#include "replica_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PUSHES 6

static const enum forged_as forgeries[]
	= {FORGED_BY_STRANGER, FORGED_BY_PORT, FORGED_VALUES, FORGED_HEADER, FORGED_PLAIN};

/* Every forged chunk was dropped, for the reason that fits. */
static void assert_dropped(const struct hd_server *server, enum forged_as as) {
	const struct hd_server_stats *stats = hd_server_stats(server);

	if (as == FORGED_BY_STRANGER || as == FORGED_BY_PORT)
		assert_int_equal(stats->drop_source, forge_count());
	else if (as == FORGED_PLAIN)
		assert_int_equal(stats->drop_malformed, forge_count());
	else
		assert_int_equal(stats->drop_mac + stats->drop_malformed, forge_count());
	if (as == FORGED_VALUES)
		assert_int_equal(stats->drop_malformed, 0);
}

/* The model after PUSHES updates, with and without a forger: the same draws make the same updates. */
static void push_all(struct scene *s, float model[VALUES]) {
	uint64_t values;

	for (int i = 0; i < PUSHES; i++)
		push(s, HD_DTYPE_FP32, 1);
	memcpy(model,
	       hd_server_model(s->net.server, s->worker->job, &values),
	       VALUES * sizeof(float));
	assert_int_equal(values, VALUES);
}

static void test_server(void **state) {
	static float honest[VALUES], model[VALUES];
	struct scene *s = scene_open(0);

	(void)state;
	push_all(s, honest);
	scene_close(s);
	for (size_t w = 0; w < sizeof forgeries / sizeof forgeries[0]; w++) {
		s = scene_open(0);
		forge_to((struct hd_addr){SERVER_IP, HD_PORT}, forgeries[w]);
		s->net.lose = forge;
		push_all(s, model);
		assert_memory_equal(model, honest, sizeof model);
		assert_true(forge_count() >= PUSHES);
		assert_dropped(s->net.server, forgeries[w]);
		scene_close(s);
	}
}

/* Its state comes in two parts, then copies of updates. run_until() holds it to the server's bits. */
static void test_replica(void **state) {
	(void)state;
	for (size_t w = 0; w < sizeof forgeries / sizeof forgeries[0]; w++) {
		struct scene *s = scene_open(0);
		uint64_t of_state;

		push(s, HD_DTYPE_FP32, 1);
		forge_to((struct hd_addr){REPLICA_IP, HD_PORT}, forgeries[w]);
		s->net.lose = forge;
		follow(s, -1);
		of_state = forge_count();
		assert_true(of_state > 0);
		for (int i = 0; i < PUSHES; i++)
			push(s, HD_DTYPE_FP32, 1);
		run_until(s, sent_durable, s->base);
		assert_true(replica_at(s, s->base));
		assert_true(forge_count() > of_state);
		assert_dropped(s->replica, forgeries[w]);
		assert_int_equal(hd_server_stats(s->replica)->states_taken, 1);
		assert_int_equal(hd_server_stats(s->replica)->replicated, PUSHES);
		scene_close(s);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_server),
		cmocka_unit_test(test_replica),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
