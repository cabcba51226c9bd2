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
static void open_fixture_with(struct fixture *f, bool late) {
	net_open(&f->net);
	spec_make(&f->spec, f->tensors, VALUES);
	f->job = hd_job_id(f->spec.tenant, f->spec.name);
	f->controller = fake_controller(&f->net, 3);
	f->controller->silent = true;
	f->controller->node.down = late;
	f->config.controller = f->controller->node.addr;
	net_server(&f->net, &f->config);
	if (!late)
		net_run_until(&f->net, is_registered, f->controller, HD_SECOND);
	f->worker = fake_worker(&f->net, 0);
}

static void open_fixture(struct fixture *f, bool late) {
	*f = (struct fixture){0};
	open_fixture_with(f, late);
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
static void comes_again(struct fixture *f, hd_ns patience) {
	net_run_until(&f->net, was_closed, f->worker, patience);
	net_run_until(&f->net, is_open, f->worker, HD_SECOND);
}

static hd_version joins_again(struct fixture *f, hd_ns patience) {
	comes_again(f, patience);
	return fake_joined(f->worker, &f->spec)->version;
}

/* Joins a job that may start: the server reports it first, and no worker has joined before the answer. */
static void begin(struct fixture *f, uint64_t generation) {
	fake_join(f->worker, &f->spec);
	assert_int_equal(fake_wait(f->controller, HD_MSG_STATE, 0)->state.generation, 0);
	net_run(&f->net, HD_SECOND / 2);
	assert_int_equal(fake_count(f->worker, HD_MSG_JOINED), 0);
	order(f, HD_REPLICA_SERVE, generation);
	assert_true(fake_wait(f->worker, HD_MSG_JOINED, 0)->joined.version != 0);
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
	comes_again(&f, HD_SECOND);
	begin(&f, 77);
	close_fixture(&f);
}

/* REGISTERED does not revoke an order that came just ahead of it, but it does revoke one of another incarnation of the
 * controller. */
static void test_word_before_registered(void **state) {
	struct fixture f;

	(void)state;
	open_fixture(&f, true);
	f.controller->serves_first = true;
	f.controller->node.down = false;
	net_run_until(&f.net, is_registered, f.controller, HD_SECOND);
	net_run(&f.net, HD_MS);
	begin(&f, 77);
	close_fixture(&f);

	open_fixture(&f, true);
	f.controller->serves_first = true;
	f.controller->node.down = false;
	net_run_until(&f.net, is_registered, f.controller, HD_SECOND);
	fake_kill(f.controller);
	f.controller = fake_controller(&f.net, 4);
	f.controller->silent = true;
	net_run_until(&f.net, is_registered, f.controller, 5 * HD_SECOND);
	net_run(&f.net, HD_MS);
	fake_join(f.worker, &f.spec);
	net_run(&f.net, 3 * HD_SECOND);
	assert_int_equal(fake_count(f.worker, HD_MSG_JOINED), 0);
	assert_int_equal(fake_count(f.controller, HD_MSG_STATE), 0);
	close_fixture(&f);
}

/* A server that already serves a job is notified of the order's generation. */
static void test_newer_word(void **state) {
	struct fixture f;

	(void)state;
	open_fixture(&f, false);
	order(&f, HD_REPLICA_SERVE, 77);
	net_run(&f.net, HD_MS);
	begin(&f, 77);
	order(&f, HD_REPLICA_SERVE, 99);
	order(&f, HD_REPLICA_ALONE, 88); /* of before: no step back */
	net_run(&f.net, HD_MS);
	f.controller->node.down = true;
	net_run(&f.net, 2 * HD_SECOND);
	f.controller->node.down = false;
	assert_int_equal(fake_wait(f.controller, HD_MSG_STATE, 1)->state.generation, 99);
	close_fixture(&f);
}

/* Another node holds more: the job that was started here is dropped, and no worker has seen it. */
static void test_another_holds_more(void **state) {
	struct fixture f;

	(void)state;
	open_fixture(&f, false);
	order(&f, HD_REPLICA_SERVE, 77);
	net_run(&f.net, HD_MS);
	fake_join(f.worker, &f.spec);
	fake_wait(f.controller, HD_MSG_STATE, 0);
	order(&f, HD_REPLICA_RETIRE, 78);
	comes_again(&f, HD_SECOND);
	fake_join(f.worker, &f.spec);
	net_run(&f.net, HD_SECOND);
	assert_int_equal(fake_count(f.worker, HD_MSG_JOINED), 0);
	assert_int_equal(fake_count(f.controller, HD_MSG_STATE), 1);
	assert_true(hd_server_version(f.net.server, f.job) == 0);
	close_fixture(&f);
}

/* The controller is gone before it has answered: as if there had been none. */
static void test_no_answer(void **state) {
	struct fixture f;

	(void)state;
	open_fixture(&f, false);
	order(&f, HD_REPLICA_SERVE, 77);
	net_run(&f.net, HD_MS);
	fake_join(f.worker, &f.spec);
	fake_wait(f.controller, HD_MSG_STATE, 0);
	f.controller->node.down = true;
	net_run(&f.net, HD_FALLBACK_US * HD_US / 2);
	assert_int_equal(fake_count(f.worker, HD_MSG_JOINED), 0);
	fake_wait(f.worker, HD_MSG_JOINED, 0);
	assert_int_equal(hd_server_stats(f.net.server)->begun_alone, 1);
	close_fixture(&f);
}

/* One that is to begin by the controller's word only waits for it however long: before the job is named, and before its
 * STATE is answered. */
static void test_never_alone(void **state) {
	for (int named = 0; named < 2; named++) {
		struct fixture f = {.config = {.never_alone = true}};

		(void)state;
		open_fixture_with(&f, false);
		if (named) {
			order(&f, HD_REPLICA_SERVE, 77);
			net_run(&f.net, HD_MS);
		}
		fake_join(f.worker, &f.spec);
		net_run(&f.net, 10 * HD_MS);
		f.controller->node.down = true;
		net_run(&f.net, 5 * HD_SECOND);
		assert_int_equal(fake_count(f.worker, HD_MSG_JOINED), 0);
		assert_int_equal(hd_server_version(f.net.server, f.job) != 0, named);
		assert_int_equal(hd_server_stats(f.net.server)->begun_alone, 0);
		f.controller->node.down = false;
		net_run(&f.net, HD_SECOND);
		order(&f, HD_REPLICA_SERVE, 78);
		if (named) {
			fake_wait(f.worker, HD_MSG_JOINED, 0);
		} else {
			comes_again(&f, HD_SECOND);
			begin(&f, 78);
		}
		close_fixture(&f);
	}
}

static int write_at_once(void *owner, const struct hd_checkpoint *checkpoint) {
	struct net *net = owner;

	hd_server_checkpoint_done(
		net->server, net->now, checkpoint->job, 0, &net->server_node.sink
	);
	return 0;
}

/* A job that was started without an order of the controller may be lost to another node: no checkpoint makes it durable
 * before the controller has confirmed it. */
static void test_durable_by_the_word(void **state) {
	static const struct hd_server_ops ops = {.checkpoint = write_at_once};
	float g[VALUES] = {1};
	struct fixture f;
	hd_version base;

	(void)state;
	f = (struct fixture){.config = {.ops = &ops, .owner = &f.net, .checkpoint_commits = 1}};
	open_fixture_with(&f, true);
	fake_join(f.worker, &f.spec);
	base = joins_again(&f, 2 * HD_SECOND);
	assert_int_equal(
		fake_push_direct(f.worker, 1, base, g, VALUES)->outcome, HD_OUTCOME_APPLIED
	);
	net_run(&f.net, 100 * HD_MS);
	assert_true(hd_server_stats(f.net.server)->checkpoints > 0);
	assert_int_equal(net_events(&f.net, HD_EVENT_DURABLE), 0);
	assert_int_equal(fake_count(f.worker, HD_MSG_DURABLE), 0);
	f.controller->node.down = false;
	fake_wait(f.controller, HD_MSG_STATE, 0);
	net_run(&f.net, 100 * HD_MS);
	assert_int_equal(fake_count(f.worker, HD_MSG_DURABLE), 0);
	order(&f, HD_REPLICA_SERVE, 77);
	assert_true(fake_wait(f.worker, HD_MSG_DURABLE, 0)->durable.version == base + 1);
	assert_true(fake_push_direct(f.worker, 2, base + 1, g, VALUES)->durable >= base + 1);
	assert_true(fake_wait(f.worker, HD_MSG_DURABLE, 1)->durable.version == base + 2);
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
	assert_int_equal(hd_server_stats(f.net.server)->begun_alone, 1);
	assert_int_equal(net_events(&f.net, HD_EVENT_FALLBACK), 1);
	f.controller->node.down = false;
	assert_int_equal(fake_wait(f.controller, HD_MSG_STATE, 0)->state.generation, 0);
	close_fixture(&f);
}

/* A controller that falls silent: as if there had been none. Its earlier orders count. */
static void test_alone_later(void **state) {
	for (int retired = 0; retired < 2; retired++) {
		struct fixture f;

		(void)state;
		open_fixture(&f, false);
		if (retired)
			order(&f, HD_REPLICA_RETIRE, 5);
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

static struct fake *comes_from(struct fixture *f, uint32_t ipv4) {
	struct fake *fake = fake_worker_at(&f->net, 0, ipv4, (struct hd_addr){SERVER_IP, HD_PORT});

	fake_join(fake, &f->spec);
	net_run(&f->net, HD_MS);
	return fake;
}

static uint8_t refusal(const struct fake *fake) {
	for (size_t i = fake->inbox_count; i-- > 0;)
		if (fake->inbox[i].kind == HD_MSG_REFUSE)
			return fake->inbox[i].refuse.reason;
	return HD_REASON_NONE;
}

/* Another host's process asks for the rank of a worker that is there. */
static void test_rank_held(void **state) {
	struct fixture f;
	struct fake *other, *third;

	(void)state;
	open_fixture(&f, false);
	order(&f, HD_REPLICA_SERVE, 77);
	net_run(&f.net, HD_MS);
	begin(&f, 77);
	other = comes_from(&f, 0x0a000180);
	assert_int_equal(refusal(other), HD_REASON_RANK_HELD);
	assert_string_equal(other->refused, "worker: rank 0 of job job is alive at 10.0.1.0");
	net_run(&f.net, UINT64_C(2) * HD_DETECTION_US * HD_US);
	assert_int_equal(f.worker->closed, 0);
	fake_join(other, &f.spec);
	net_run(&f.net, HD_MS);
	assert_int_equal(refusal(other), HD_REASON_REFUSED);
	/* It dies, and the rank is free with its session. */
	fake_kill(f.worker);
	third = comes_from(&f, 0x0a000181);
	assert_int_equal(refusal(third), HD_REASON_RANK_HELD);
	net_run(&f.net, HD_DETECTION_US * HD_US);
	fake_join(third, &f.spec);
	fake_wait(third, HD_MSG_JOINED, 0);
	fake_close(other);
	f.worker = third;
	close_fixture(&f);
}

/* A worker says that it will be preempted: the log names it, its job and where it is. */
static void test_notice(void **state) {
	struct hd_message notice = {.kind = HD_MSG_NOTICE, .notice = {.left_us = 1500000}};
	struct fixture f;

	(void)state;
	open_fixture(&f, true);
	fake_join(f.worker, &f.spec);
	assert_true(joins_again(&f, 2 * HD_SECOND) != 0);
	notice.notice.job = f.worker->job;
	fake_send(f.worker, &notice);
	net_run(&f.net, HD_MS);
	assert_int_equal(net_events(&f.net, HD_EVENT_NOTICE), 1);
	assert_int_equal(net_event(&f.net, HD_EVENT_NOTICE, 0)->job, f.worker->job);
	assert_true(net_event(&f.net, HD_EVENT_NOTICE, 0)->value == 1.5);
	assert_string_equal(f.net.who, "worker 0a000100:4773 t/job");
	notice.notice.worker = 1; /* of another */
	fake_send(f.worker, &notice);
	net_run(&f.net, HD_MS);
	assert_int_equal(net_events(&f.net, HD_EVENT_NOTICE), 1);
	close_fixture(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waits_for_the_word),
		cmocka_unit_test(test_word_before_registered),
		cmocka_unit_test(test_newer_word),
		cmocka_unit_test(test_another_holds_more),
		cmocka_unit_test(test_no_answer),
		cmocka_unit_test(test_never_alone),
		cmocka_unit_test(test_durable_by_the_word),
		cmocka_unit_test(test_alone_from_the_start),
		cmocka_unit_test(test_alone_later),
		cmocka_unit_test(test_rank_held),
		cmocka_unit_test(test_notice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
