/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs without workers: they give way, or end, and no kept state is lost. */
#include "server_net.h"

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 300
#define BYTES (VALUES * sizeof(float))
#define JOBS 1000

struct fixture {
	struct net net;
	struct hd_server_config config;
	struct hd_jobspec spec;
	struct hd_tensor tensors[2];
	struct fake *controller, *worker;
	float g[VALUES];
	/* The disk. */
	const struct hd_checkpoint *writing;
	bool slow; /* writes end when the test says so */
	hd_version saved;
	uint32_t saves, restores, reports;
};

static void disk_end(struct fixture *f) {
	const struct hd_checkpoint *writing = f->writing;

	assert_non_null(writing);
	f->writing = NULL;
	f->saved = writing->version;
	f->saves++;
	hd_server_checkpoint_done(
		f->net.server, f->net.now, writing->job, 0, &f->net.server_node.sink
	);
}

static int on_checkpoint(void *owner, const struct hd_checkpoint *checkpoint) {
	struct fixture *f = owner;

	f->writing = checkpoint;
	if (!f->slow)
		disk_end(f);
	return 0;
}

static int on_restore(void *owner, uint32_t job, struct hd_checkpoint *checkpoint) {
	((struct fixture *)owner)->restores++;
	return -ENOENT;
}

static void on_summary(void *owner, const struct hd_job_summary *summary) {
	((struct fixture *)owner)->reports++;
}

static const struct hd_server_ops no_disk = {.summary = on_summary};
static const struct hd_server_ops disk
	= {.summary = on_summary, .checkpoint = on_checkpoint, .restore = on_restore};

static bool is_registered(void *what) {
	return fake_count(what, HD_MSG_REGISTER) > 0;
}

static struct fixture *open_fixture(const struct hd_server_ops *ops, bool controller) {
	struct fixture *f = calloc(1, sizeof *f);

	net_open(&f->net);
	spec_make(&f->spec, f->tensors, VALUES);
	f->config.ops = ops;
	f->config.owner = f;
	for (size_t i = 0; i < VALUES; i++)
		f->g[i] = 0.01F;
	if (controller) {
		f->controller = fake_controller(&f->net, 3);
		f->controller->silent = true;
		f->config.controller = f->controller->node.addr;
	}
	return f;
}

static void start(struct fixture *f) {
	net_server(&f->net, &f->config);
	if (f->controller)
		net_run_until(&f->net, is_registered, f->controller, HD_SECOND);
	f->worker = fake_worker(&f->net, 0);
}

static void close_fixture(struct fixture *f) {
	fake_close(f->worker);
	if (f->controller)
		fake_close(f->controller);
	net_close(&f->net);
	free(f);
}

static uint32_t job_of(const struct fixture *f) {
	return hd_job_id(f->spec.tenant, f->spec.name);
}

static bool is_here(const struct fixture *f, uint32_t job) {
	return hd_server_version(f->net.server, job) != 0;
}

static void order(struct fixture *f, enum hd_replica_order order, uint64_t generation) {
	struct hd_message message = {.kind = HD_MSG_REPLICA};

	message.replica.job = job_of(f);
	message.replica.generation = generation;
	message.replica.epoch = 3;
	message.replica.order = (uint8_t)order;
	fake_send(f->controller, &message);
	net_run(&f->net, 2 * HD_MS);
}

static void leave(struct fixture *f) {
	struct hd_message message = {.kind = HD_MSG_LEAVE};

	message.leave.job = f->worker->job;
	message.leave.worker = f->worker->rank;
	message.leave.reason = HD_REASON_LEFT;
	fake_send(f->worker, &message);
	net_run(&f->net, 5 * HD_MS);
}

static void name_job(struct fixture *f, uint32_t number) {
	(void)snprintf(f->spec.name, sizeof f->spec.name, "j%u", number);
}

/* Joins, pushes, leaves. */
static void one_job(struct fixture *f, uint32_t number) {
	hd_version base;

	name_job(f, number);
	f->worker->inbox_count = 0;
	base = fake_joined(f->worker, &f->spec)->version;
	assert_int_equal(
		fake_push_direct(f->worker, 1, base, f->g, VALUES)->outcome, HD_OUTCOME_APPLIED
	);
	leave(f);
}

static size_t held(void) {
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* With and without checkpoints. */
static void test_in_a_row(void **state) {
	for (int i = 0; i < 2; i++) {
		struct fixture *f = open_fixture(i ? &disk : &no_disk, false);
		size_t before = 0;

		start(f);
		for (uint32_t n = 0; n < JOBS; n++) {
			one_job(f, n);
			assert_true(is_here(f, job_of(f))); /* it may be joined again */
			f->net.event_count = 0;
			if (n == HD_JOBS_MAX + 100)
				before = held();
		}
		if (held() > before + 100000)
			fail_msg("%zu bytes, after %u jobs %zu", held(), HD_JOBS_MAX + 100, before);
		assert_int_equal(hd_server_stats(f->net.server)->ended, JOBS - HD_JOBS_MAX);
		assert_int_equal(f->reports, JOBS);
		if (i)
			assert_in_range(f->saves, JOBS, 2 * JOBS);
		close_fixture(f);
	}
	(void)state;
}

/* Room for two models: the one that was left first gives way to the next. */
static void test_memory_in_a_row(void **state) {
	struct fixture *f = open_fixture(&no_disk, false);

	(void)state;
	f->config.memory_bytes = (uint64_t)2 * 4 * (BYTES + 64) + 100;
	start(f);
	for (uint32_t n = 0; n < 20; n++) {
		one_job(f, n);
		assert_true(hd_server_stats(f->net.server)->memory_bytes <= f->config.memory_bytes);
	}
	name_job(f, 18);
	assert_true(is_here(f, job_of(f)));
	name_job(f, 17);
	assert_false(is_here(f, job_of(f)));
	assert_int_equal(hd_server_stats(f->net.server)->ended, 18);
	close_fixture(f);
}

/* Workers that were lost may come back: without checkpoints their model is not thrown away at once. */
static void test_lost_workers_may_return(void **state) {
	struct fixture *f = open_fixture(&no_disk, false);
	struct fake *other;
	uint32_t first;

	(void)state;
	f->config.memory_bytes = 4 * (BYTES + 64) + 100;
	start(f);
	name_job(f, 1);
	first = job_of(f);
	fake_joined(f->worker, &f->spec);
	fake_kill(f->worker);
	net_run(&f->net, 3 * HD_SECOND);
	f->worker = fake_worker(&f->net, 1);
	name_job(f, 2);
	fake_join(f->worker, &f->spec);
	net_run(&f->net, HD_SECOND);
	assert_non_null(strstr(f->worker->refused, "memory: the job needs"));
	assert_true(is_here(f, first));
	net_run(&f->net, (HD_JOB_AWAY_US + 1000000) * HD_US);
	other = fake_worker(&f->net, 2);
	fake_joined(other, &f->spec);
	assert_false(is_here(f, first));
	fake_close(other);
	close_fixture(f);
}

/* No worker joins any more: a last checkpoint, LEAVE, and its memory is free. */
static void test_idle_for_too_long(void **state) {
	for (int i = 0; i < 2; i++) {
		struct fixture *f = open_fixture(i ? &disk : &no_disk, true);
		const struct hd_msg_leave *left;

		(void)state;
		f->config.job_idle_us = 5000000;
		start(f);
		name_job(f, 1);
		order(f, HD_REPLICA_SERVE, 77);
		fake_join(f->worker, &f->spec);
		order(f, HD_REPLICA_SERVE, 77);
		fake_wait(f->worker, HD_MSG_JOINED, 0);
		net_run(&f->net, 10 * HD_SECOND);
		assert_true(is_here(f, job_of(f)));
		leave(f);
		net_run(&f->net, 4 * HD_SECOND);
		assert_true(is_here(f, job_of(f)));
		left = &fake_wait(f->controller, HD_MSG_LEAVE, 0)->leave;
		assert_int_equal(left->job, job_of(f));
		assert_int_equal(left->reason, i ? HD_REASON_NONE : HD_REASON_LEFT);
		assert_false(is_here(f, job_of(f)));
		assert_int_equal(hd_server_stats(f->net.server)->memory_bytes, 0);
		close_fixture(f);
	}
}

/* A job with a commit that is in no checkpoint yet. */
static hd_version begin(struct fixture *f) {
	const struct hd_msg_outcome *outcome;
	hd_version base;

	name_job(f, 1);
	order(f, HD_REPLICA_SERVE, 77);
	fake_join(f->worker, &f->spec);
	order(f, HD_REPLICA_SERVE, 77);
	base = fake_wait(f->worker, HD_MSG_JOINED, 0)->joined.version;
	outcome = fake_push_direct(f->worker, 1, base, f->g, VALUES);
	assert_int_equal(outcome->outcome, HD_OUTCOME_APPLIED);
	return outcome->version;
}

static bool is_open(void *what) {
	return ((struct fake *)what)->open;
}

/* The controller says that it has ended, while a worker is in it. */
static void test_ended_by_the_controller(void **state) {
	for (int i = 0; i < 2; i++) {
		struct fixture *f = open_fixture(i ? &disk : &no_disk, true);
		hd_version version;

		(void)state;
		start(f);
		version = begin(f);
		order(f, HD_REPLICA_EVICT, 78);
		assert_int_equal(
			fake_wait(f->controller, HD_MSG_LEAVE, 0)->leave.reason,
			i ? HD_REASON_NONE : HD_REASON_LEFT
		);
		assert_false(is_here(f, job_of(f)));
		assert_int_equal(f->reports, 1);
		assert_int_equal(hd_server_stats(f->net.server)->memory_bytes, 0);
		if (i)
			assert_int_equal(f->saved, version);
		/* A worker that joins waits for the controller's order, and starts from the checkpoint if there is
		 * one. */
		net_run_until(&f->net, is_open, f->worker, HD_SECOND);
		fake_join(f->worker, &f->spec);
		net_run(&f->net, HD_SECOND);
		assert_false(is_here(f, job_of(f)));
		f->restores = 0;
		order(f, HD_REPLICA_SERVE, 79);
		net_run_until(&f->net, is_open, f->worker, HD_SECOND);
		fake_join(f->worker, &f->spec);
		order(f, HD_REPLICA_SERVE, 79);
		fake_wait(f->worker, HD_MSG_JOINED, 1);
		assert_int_equal(f->restores, i);
		/* One that is not here has ended, too. */
		name_job(f, 99);
		order(f, HD_REPLICA_END, 80);
		assert_int_equal(fake_wait(f->controller, HD_MSG_LEAVE, 1)->leave.job, job_of(f));
		close_fixture(f);
	}
}

/* The controller knows of no worker, because the worker cannot reach it: the job goes on, and is reported when it is
 * asked for. */
static void test_not_while_a_worker_is_left(void **state) {
	struct fixture *f = open_fixture(&disk, true);
	size_t states;

	(void)state;
	start(f);
	(void)begin(f);
	order(f, HD_REPLICA_END, 78);
	net_run(&f->net, HD_SECOND);
	assert_true(is_here(f, job_of(f)));
	assert_int_equal(fake_count(f->controller, HD_MSG_LEAVE), 0);
	states = fake_count(f->controller, HD_MSG_STATE);
	order(f, HD_REPLICA_SERVE, 79);
	assert_int_equal(fake_count(f->controller, HD_MSG_STATE), states + 1);
	order(f, HD_REPLICA_SERVE, 80);
	assert_int_equal(fake_count(f->controller, HD_MSG_STATE), states + 1);
	leave(f);
	order(f, HD_REPLICA_END, 81);
	(void)fake_wait(f->controller, HD_MSG_LEAVE, 0);
	assert_false(is_here(f, job_of(f)));
	close_fixture(f);
}

/* As many commits as make one due, while one is written: workers may wait for those to be durable, and push nothing. */
static void test_due_while_one_is_written(void **state) {
	struct fixture *f = open_fixture(&disk, true);
	hd_version version;

	(void)state;
	f->config.checkpoint_commits = 1;
	f->slow = true;
	start(f);
	version = begin(f);
	assert_int_equal(f->writing->version, version);
	version = fake_push_direct(f->worker, 2, version, f->g, VALUES)->version;
	assert_int_equal(f->saves, 0);
	disk_end(f);
	assert_non_null(f->writing);
	assert_int_equal(f->writing->version, version);
	disk_end(f);
	assert_null(f->writing);
	assert_int_equal(f->saves, 2);
	close_fixture(f);
}

/* A worker joins while the last checkpoint is written: the job goes on, nothing is read back. */
static void test_goes_on(void **state) {
	struct fixture *f = open_fixture(&disk, true);
	hd_version version;

	(void)state;
	start(f);
	version = begin(f);
	f->slow = true;
	order(f, HD_REPLICA_EVICT, 78);
	assert_non_null(f->writing);
	assert_true(is_here(f, job_of(f)));
	net_run_until(&f->net, is_open, f->worker, HD_SECOND);
	fake_join(f->worker, &f->spec);
	net_run(&f->net, HD_SECOND);
	assert_int_equal(fake_count(f->worker, HD_MSG_JOINED), 1);
	f->restores = 0;
	order(f, HD_REPLICA_SERVE, 79);
	net_run_until(&f->net, is_open, f->worker, HD_SECOND);
	assert_int_equal(fake_joined(f->worker, &f->spec)->version, version);
	disk_end(f);
	net_run(&f->net, HD_SECOND);
	assert_int_equal(f->restores, 0);
	assert_int_equal(fake_count(f->controller, HD_MSG_LEAVE), 0);
	assert_true(is_here(f, job_of(f)));
	close_fixture(f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_a_row),
		cmocka_unit_test(test_memory_in_a_row),
		cmocka_unit_test(test_lost_workers_may_return),
		cmocka_unit_test(test_idle_for_too_long),
		cmocka_unit_test(test_ended_by_the_controller),
		cmocka_unit_test(test_not_while_a_worker_is_left),
		cmocka_unit_test(test_goes_on),
		cmocka_unit_test(test_due_while_one_is_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
