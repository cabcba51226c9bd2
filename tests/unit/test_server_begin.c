/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a job may begin: with a controller it says so, for another node may have it. */
#include "server_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define VALUES 300

struct fixture {
	struct net net;
	struct hd_server_config config;
	struct hd_jobspec spec;
	struct hd_tensor tensors[2];
	struct fake *controller, *worker;
	uint32_t job;
};

static bool is_registered(void *what) {
	return fake_count(what, HD_MSG_REGISTER) > 0;
}

static bool is_open(void *what) {
	return ((struct fake *)what)->open;
}

static bool was_closed(void *what) {
	return ((struct fake *)what)->closed > 0;
}

/* A controller that is there from the start, or `late`. */
static void open_fixture(struct fixture *f, bool late) {
	*f = (struct fixture){0};
	net_open(&f->net);
	spec_make(&f->spec, f->tensors, VALUES);
	f->job = hd_job_id(f->spec.tenant, f->spec.name);
	f->controller = fake_controller(&f->net, 3);
	f->controller->silent = true;
	f->controller->node.down = late;
	f->config.controller = f->controller->node.addr;
	net_server(&f->net, &f->config);
	if (!late) {
		net_run_until(&f->net, is_registered, f->controller, HD_SECOND);
	}
	f->worker = fake_worker(&f->net, 0);
}

static void close_fixture(struct fixture *f) {
	fake_close(f->worker);
	fake_close(f->controller);
	net_close(&f->net);
}

static void order(struct fixture *f, enum hd_replica_order order, uint64_t generation) {
	struct hd_message message = {.kind = HD_MSG_REPLICA};

	message.replica.job = f->job;
	message.replica.generation = generation;
	message.replica.epoch = 3;
	message.replica.order = (uint8_t)order;
	fake_send(f->controller, &message);
}

/* Its JOIN had no answer; it is asked for another one by the end of its session. */
static hd_version joins_again(struct fixture *f, hd_ns patience) {
	net_run_until(&f->net, was_closed, f->worker, patience);
	net_run_until(&f->net, is_open, f->worker, HD_SECOND);
	return fake_joined(f->worker, &f->spec)->version;
}

/* A worker that was cut off and falls back to this address finds no job here, and none begins. */
static void test_waits_for_the_word(void **state) {
	struct fixture f;

	(void)state;
	open_fixture(&f, false);
	fake_join(f.worker, &f.spec);
	net_run(&f.net, 3 * HD_SECOND);
	assert_int_equal(fake_count(f.worker, HD_MSG_JOINED), 0);
	assert_int_equal(fake_count(f.controller, HD_MSG_STATE), 0);
	assert_int_equal(f.worker->closed, 0);
	order(&f, HD_REPLICA_SERVE, 77);
	assert_true(joins_again(&f, HD_SECOND) != 0);
	assert_int_equal(fake_wait(f.controller, HD_MSG_STATE, 0)->state.generation, 77);
	close_fixture(&f);
}

/* Who serves a job already hears by which word it does. */
static void test_newer_word(void **state) {
	struct fixture f;

	(void)state;
	open_fixture(&f, false);
	order(&f, HD_REPLICA_SERVE, 77);
	net_run(&f.net, HD_MS);
	fake_joined(f.worker, &f.spec);
	order(&f, HD_REPLICA_SERVE, 99);
	order(&f, HD_REPLICA_ALONE, 88); /* of before: no step back */
	net_run(&f.net, HD_MS);
	f.controller->node.down = true;
	net_run(&f.net, 2 * HD_SECOND);
	f.controller->node.down = false;
	assert_int_equal(fake_wait(f.controller, HD_MSG_STATE, 1)->state.generation, 99);
	close_fixture(&f);
}

/* No controller from the start: jobs begin after a while, without a generation. */
static void test_alone_from_the_start(void **state) {
	struct fixture f;
	hd_ns began;

	(void)state;
	open_fixture(&f, true);
	began = f.net.now;
	fake_join(f.worker, &f.spec);
	net_run(&f.net, HD_FALLBACK_US * HD_US / 2);
	assert_int_equal(fake_count(f.worker, HD_MSG_JOINED), 0);
	assert_true(joins_again(&f, HD_SECOND) != 0);
	assert_true(f.net.now - began >= HD_FALLBACK_US * HD_US - 10 * HD_MS);
	f.controller->node.down = false;
	assert_int_equal(fake_wait(f.controller, HD_MSG_STATE, 0)->state.generation, 0);
	close_fixture(&f);
}

/* A controller that goes silent: as if there had been none. What it has said before counts. */
static void test_alone_later(void **state) {
	for (int retired = 0; retired < 2; retired++) {
		struct fixture f;

		(void)state;
		open_fixture(&f, false);
		if (retired) {
			order(&f, HD_REPLICA_RETIRE, 5);
		}
		net_run(&f.net, HD_SECOND);
		f.controller->node.down = true;
		fake_join(f.worker, &f.spec);
		net_run(&f.net, HD_FALLBACK_US * HD_US / 2);
		assert_int_equal(fake_count(f.worker, HD_MSG_JOINED), 0);
		if (!retired) {
			assert_true(joins_again(&f, 2 * HD_SECOND) != 0);
		} else {
			net_run(&f.net, 2 * HD_SECOND);
			fake_join(f.worker, &f.spec);
			net_run(&f.net, HD_SECOND);
			assert_int_equal(fake_count(f.worker, HD_MSG_JOINED), 0);
		}
		close_fixture(&f);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waits_for_the_word),
		cmocka_unit_test(test_newer_word),
		cmocka_unit_test(test_alone_from_the_start),
		cmocka_unit_test(test_alone_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
