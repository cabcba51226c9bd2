/* SPDX-License-Identifier: BSD-3-Clause */
/* A round that began without this worker's knowledge: REDUCE was lost with its session. The worker, rank 3, gives to
 * rank 5, the root. */
#include "reduce_peers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define SUM_ID 77

static const struct hd_msg_request *last_request(const struct scene *s) {
	return &peer_last(&s->world->controller, HD_MSG_REQUEST)->request;
}

static void send_reduced(struct scene *s, uint64_t sum_id) {
	struct hd_message message = {.kind = HD_MSG_REDUCED};

	message.reduced = (struct hd_msg_reduced){hd_job_id("t", "job"), 3, 1, sum_id, 0};
	peer_send(&s->world->controller, &message);
	run_ms(s->world, 5);
}

/* The answer to its last request. */
static void send_late(struct scene *s, uint64_t sum_id) {
	struct hd_message message = {.kind = HD_MSG_DROP};

	message.drop = (struct hd_msg_drop
	){.job = hd_job_id("t", "job"),
	  .worker = 3,
	  .round = 1,
	  .direction = HD_REDUCE,
	  .attempt = last_request(s)->attempt,
	  .reason = HD_REASON_LATE,
	  .sum_id = sum_id};
	peer_send(&s->world->controller, &message);
	run_ms(s->world, 5);
}

/* It has called, and after its session was lost it has asked again. */
static struct scene *asked_again(void) {
	struct scene *s = open_scene(REDUCES);
	const struct hd_reduce_args args
		= {.collective = HD_COLLECTIVE_REDUCE, .root = 5, .in = s->in, .values = VALUES};

	assert_int_equal(call(s, args), 1);
	peer_stop(&s->world->controller);
	run_ms(s->world, 2000);
	peer_start(&s->world->controller);
	run_ms(s->world, 2000);
	assert_int_equal(last_request(s)->attempt, 2);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_REQUESTED);
	return s;
}

/* The round has ended without its values: it is not released, but asks what became of them. */
static void test_released(void **state) {
	struct scene *s = asked_again();

	(void)state;
	send_reduced(s, SUM_ID);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_REQUESTED);
	assert_int_equal(last_request(s)->attempt, 3);
	send_late(s, SUM_ID);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_FAILED);
	assert_int_equal(ticket(s, 1)->reason, HD_REASON_LATE);
	assert_int_equal(s->world->released, 1);
	close_scene(s);
}

/* No round has ended: a REDUCED without a sum id says nothing. */
static void test_without_sum_id(void **state) {
	struct scene *s = asked_again();

	(void)state;
	send_reduced(s, 0);
	assert_int_equal(ticket(s, 1)->state, HD_TICKET_REQUESTED);
	assert_int_equal(last_request(s)->attempt, 2);
	close_scene(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_released),
		cmocka_unit_test(test_without_sum_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
