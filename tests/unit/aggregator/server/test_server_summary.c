/* SPDX-License-Identifier: BSD-3-Clause */
/* The summary of a job that all workers have left: when it comes, and that its sums agree. */
#include "server_net.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 3000
#define BYTES (VALUES * sizeof(float))

struct fixture {
	struct net net;
	struct hd_server_config config;
	struct hd_jobspec spec;
	struct hd_tensor tensors[2];
	struct fake *one, *two;
	hd_version base;
	float g[VALUES];
	/* The reports that came. */
	uint32_t reports;
	struct hd_job_summary newest;
	struct hd_worker_summary workers[4];
	char name[HD_NAME_BYTES_MAX + 1];
	/* The disk. */
	uint32_t begun;
	int disk_error; /* what begin answers; 0: the write ends when the test says so */
};

static void on_summary(void *owner, const struct hd_job_summary *summary) {
	struct fixture *f = owner;

	f->reports++;
	f->newest = *summary;
	assert_in_range(summary->worker_count, 1, 4);
	memcpy(f->workers, summary->workers, summary->worker_count * sizeof f->workers[0]);
	hd_text_copy(f->name, sizeof f->name, summary->spec->name);
}

static int on_checkpoint(void *owner, const struct hd_checkpoint *checkpoint) {
	struct fixture *f = owner;

	f->begun++;
	return f->disk_error;
}

static const struct hd_server_ops summary_ops = {.summary = on_summary};
static const struct hd_server_ops both_ops = {.summary = on_summary, .checkpoint = on_checkpoint};

static struct fixture *open_fixture(const struct hd_server_ops *ops) {
	struct fixture *f = calloc(1, sizeof *f);

	net_open(&f->net);
	f->config.ops = ops;
	f->config.owner = f;
	net_server(&f->net, &f->config);
	spec_make(&f->spec, f->tensors, VALUES);
	f->spec.tau_max = 2;
	f->one = fake_worker(&f->net, 0);
	f->two = fake_worker(&f->net, 3);
	f->base = fake_joined(f->one, &f->spec)->version;
	fake_joined(f->two, &f->spec);
	for (size_t i = 0; i < VALUES; i++)
		f->g[i] = 0.01F;
	return f;
}

static void close_fixture(struct fixture *f) {
	fake_close(f->one);
	fake_close(f->two);
	net_close(&f->net);
	free(f);
}

static void leave(struct fixture *f, struct fake *fake) {
	struct hd_message message = {.kind = HD_MSG_LEAVE};

	message.leave.job = fake->job;
	message.leave.worker = fake->rank;
	fake_send(fake, &message);
	net_run(&f->net, 10 * HD_MS);
}

static void test_everything_is_counted_once(void **state) {
	struct fixture *f = open_fixture(&summary_ops);
	hd_ns begun = f->net.now;
	float broken[VALUES];

	memcpy(broken, f->g, BYTES);
	broken[17] = NAN;
	fake_push_direct(f->one, 1, f->base, f->g, VALUES);
	fake_push_direct(f->two, 1, f->base, f->g, VALUES);
	fake_push_direct(f->one, 2, f->base + 2, f->g, VALUES);
	fake_push_direct(f->two, 2, f->base + 2, broken, VALUES);
	fake_request_push(f->two, 3, 1, f->base, BYTES); /* too late: delay 4 */
	assert_int_equal(fake_outcome(f->two, 3)->reason, HD_REASON_LATE);
	fake_request_push(f->two, 3, 2, f->base, BYTES); /* asked again: not another one */
	fake_push_direct(f->two, 6, f->base + 3, f->g, VALUES); /* 4 and 5 ended elsewhere */
	net_run(&f->net, HD_SECOND);
	leave(f, f->one);
	assert_int_equal(f->reports, 0);
	leave(f, f->two);
	assert_int_equal(f->reports, 1);
	assert_string_equal(f->name, "job");
	assert_int_equal(f->newest.job, f->one->job);
	assert_int_equal(f->newest.applied, 4);
	assert_int_equal(f->newest.direct, 4);
	assert_int_equal(f->newest.dropped[HD_REASON_LATE], 1);
	assert_int_equal(f->newest.failed[HD_REASON_NOT_FINITE], 1);
	assert_int_equal(f->newest.rounds, 8);
	assert_int_equal(f->newest.delay_sum, 1 + 2 + 1 + 1);
	assert_int_equal(f->newest.delay_squares, 1 + 4 + 1 + 1);
	assert_int_equal(f->newest.delay_max, 2);
	assert_int_equal(f->newest.version, f->base + 4);
	assert_int_equal(f->newest.bytes, BYTES);
	assert_false(f->newest.resumed);
	assert_true(f->newest.ended - f->newest.begun >= HD_SECOND);
	assert_true(f->newest.ended - f->newest.begun <= f->net.now - begun + HD_SECOND);
	assert_int_equal(f->newest.worker_count, 2);
	assert_int_equal(f->workers[1].worker, 3);
	assert_true(f->workers[1].left);
	assert_int_equal(f->workers[1].rounds, 6);
	assert_int_equal(f->workers[1].applied, 2);
	assert_int_equal(f->workers[1].dropped, 1);
	assert_int_equal(f->workers[1].failed, 1);
	/* Joined again: it goes on counting. */
	fake_joined(f->one, &f->spec);
	fake_push_direct(f->one, 3, f->base + 4, f->g, VALUES);
	assert_int_equal(f->reports, 1);
	leave(f, f->one);
	assert_int_equal(f->reports, 2);
	assert_int_equal(f->newest.applied, 5);
	close_fixture(f);
}

/* Lost counts as gone; a lost worker's update in flight ended its transfer, not its round. */
static void test_after_the_last_is_lost(void **state) {
	struct fixture *f = open_fixture(&summary_ops);

	fake_push_direct(f->one, 1, f->base, f->g, VALUES);
	fake_request_push(f->two, 1, 1, f->base, BYTES);
	fake_wait(f->two, HD_MSG_GRANT, 0);
	leave(f, f->one);
	f->two->node.down = true;
	net_run(&f->net, 3 * HD_SECOND);
	assert_int_equal(f->reports, 1);
	assert_int_equal(f->newest.interrupted[HD_REASON_LEASE], 1);
	assert_false(f->workers[1].left);
	close_fixture(f);
}

/* The last checkpoint is tried first, and the summary says what came of it. */
static void test_after_the_last_checkpoint(void **state) {
	struct fixture *f = open_fixture(&both_ops);
	struct hd_sink *sink = &f->net.server_node.sink;

	fake_push_direct(f->one, 1, f->base, f->g, VALUES);
	leave(f, f->one);
	leave(f, f->two);
	assert_int_equal(f->begun, 1);
	net_run(&f->net, HD_SECOND);
	assert_int_equal(f->reports, 0);
	hd_server_checkpoint_done(f->net.server, f->net.now, f->one->job, 0, sink);
	net_run(&f->net, HD_MS);
	assert_int_equal(f->reports, 1);
	assert_int_equal(f->newest.durable, f->base + 1);
	/* A disk that fails holds nothing up. */
	fake_joined(f->one, &f->spec);
	fake_push_direct(f->one, 2, f->base + 1, f->g, VALUES);
	f->disk_error = -ENOSPC;
	leave(f, f->one);
	assert_int_equal(f->reports, 2);
	assert_int_equal(f->newest.version, f->base + 2);
	assert_int_equal(f->newest.durable, f->base + 1);
	close_fixture(f);
}

static void test_when_the_server_ends(void **state) {
	struct fixture *f = open_fixture(&summary_ops);
	struct hd_sink *sink = &f->net.server_node.sink;

	fake_push_direct(f->one, 1, f->base, f->g, VALUES);
	assert_true(hd_server_drain(f->net.server, f->net.now, sink));
	assert_int_equal(f->reports, 1);
	assert_int_equal(f->newest.applied, 1);
	assert_false(f->workers[0].left);
	assert_true(hd_server_drain(f->net.server, f->net.now, sink));
	assert_int_equal(f->reports, 1);
	close_fixture(f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everything_is_counted_once),
		cmocka_unit_test(test_after_the_last_is_lost),
		cmocka_unit_test(test_after_the_last_checkpoint),
		cmocka_unit_test(test_when_the_server_ends),
	};

	return cmocka_run_group_tests_name("server-summary", tests, NULL, NULL);
}
