/* SPDX-License-Identifier: BSD-3-Clause */
/* The controller asks what a worker has counted. */
#include "worker_world.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A chunk from another node than the server, and one of a pull that the worker has not asked for. */
static void forge_and_be_late(struct world *world) {
	struct hd_msg_request request;

	world->server.forger = &world->controller.node;
	assert_int_equal(pull(world, 3, 0, false), 1);
	run_ms(world, 100);
	assert_int_equal(world->ticket[HD_PULL][1].state, HD_TICKET_APPLIED);
	request = peer_last(&world->controller, HD_MSG_REQUEST)->request;
	world->server.forger = NULL;
	peer_serve(&world->server, 33, &request);
	run_ms(world, 100);
}

static void test_polled(void **state) {
	const struct hd_message poll = {.kind = HD_MSG_POLL, .poll = {.mark = 9}};
	struct world *world = build(SCHEDULED, &(struct hd_worker_config){0});
	const struct hd_worker_stats *stats = hd_worker_stats(world->worker);
	const struct hd_dataplane *counted = &world->controller.counted;
	const struct hd_msg_stats *said;

	run_ms(world, 20);
	assert_int_equal(push(world, 0, 1), 1);
	run_ms(world, 100);
	forge_and_be_late(world);
	assert_true(stats->drop_source > 0 && stats->drop_token > 0);
	assert_int_equal(peer_send(&world->controller, &poll), 0);
	run_ms(world, 10);
	assert_int_equal(peer_count(&world->controller, HD_MSG_STATS), 1);
	said = &peer_last(&world->controller, HD_MSG_STATS)->stats;
	assert_int_equal(said->mark, 9);
	assert_true(said->at_ns > 0);
	assert_int_equal(counted->drop_source, stats->drop_source);
	assert_int_equal(counted->drop_token, stats->drop_token);
	assert_int_equal(counted->drop_mismatch, stats->drop_mismatch);
	assert_int_equal(counted->drop_mac, stats->drop_mac);
	/* The transfers' and the endpoint's are there, too. */
	assert_in_range(counted->chunks_sent, VALUES * 4 / HD_CHUNK_BYTES_DEFAULT + 1, 100);
	assert_true(counted->control_sent > 0);
	/* Other nodes get no answer. */
	assert_int_equal(peer_send(&world->server, &poll), 0);
	run_ms(world, 10);
	assert_int_equal(peer_count(&world->server, HD_MSG_STATS), 0);
	destroy(world);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_polled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
