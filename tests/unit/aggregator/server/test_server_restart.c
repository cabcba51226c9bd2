/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints and incarnations of the server: durable state survives, other state is recognised as lost. */
#include "hd_kernels.h"
#include "server_net.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define VALUES 3000
#define BYTES (VALUES * sizeof(float))

/* A disk of one job. Writes end when the test says so, or at once. */
struct disk {
	struct hd_checkpoint saved; /* deep copy */
	bool exists;
	const struct hd_checkpoint *writing;
	uint32_t begun;
	bool at_once;
	int fail; /* what begin answers */
	int restore_error;
	struct net *net;
};

struct fixture {
	struct net net;
	struct hd_server_config config;
	struct hd_jobspec spec;
	struct hd_tensor tensors[2];
	struct disk disk;
	struct fake *worker;
	hd_version base;
	float g[VALUES];
};

static void *copy_of(const void *data, size_t bytes) {
	void *copy = malloc(bytes + 1);

	memcpy(copy, data, bytes);
	return copy;
}

static void copy_checkpoint(struct hd_checkpoint *to, const struct hd_checkpoint *from) {
	uint8_t data[4096];
	int bytes = hd_jobspec_encode(&from->spec, data, sizeof data);

	*to = *from;
	assert_int_equal(hd_jobspec_decode(data, (size_t)bytes, &to->spec), 0);
	to->model = copy_of(from->model, BYTES);
	to->momentum = copy_of(from->momentum, BYTES);
	to->rounds = copy_of(from->rounds, from->round_count * sizeof *from->rounds);
	to->prior = copy_of(from->prior, from->prior_count * sizeof *from->prior);
}

static void free_checkpoint(struct hd_checkpoint *checkpoint) {
	free(checkpoint->model);
	free(checkpoint->momentum);
	free(checkpoint->rounds);
	free(checkpoint->prior);
	hd_jobspec_fini(&checkpoint->spec);
}

static void disk_save(struct disk *disk) {
	if (disk->exists)
		free_checkpoint(&disk->saved);
	copy_checkpoint(&disk->saved, disk->writing);
	disk->exists = true;
}

/* The write in progress ends well (0) or not. */
static void disk_end(struct disk *disk, int status) {
	const struct hd_checkpoint *writing = disk->writing;

	assert_non_null(writing);
	if (status == 0)
		disk_save(disk);
	disk->writing = NULL;
	hd_server_checkpoint_done(
		disk->net->server,
		disk->net->now,
		writing->job,
		status,
		&disk->net->server_node.sink
	);
}

static int disk_begin(void *owner, const struct hd_checkpoint *checkpoint) {
	struct disk *disk = owner;

	assert_null(disk->writing);
	if (disk->fail < 0)
		return disk->fail;
	disk->writing = checkpoint;
	disk->begun++;
	if (disk->at_once)
		disk_end(disk, 0);
	return 0;
}

static int disk_restore(void *owner, uint32_t job, struct hd_checkpoint *checkpoint) {
	struct disk *disk = owner;

	if (disk->restore_error < 0)
		return disk->restore_error;
	if (!disk->exists || disk->saved.job != job)
		return -ENOENT;
	copy_checkpoint(checkpoint, &disk->saved);
	return 0;
}

static const struct hd_server_ops disk_ops = {.checkpoint = disk_begin, .restore = disk_restore};

static int setup(void **state) {
	struct fixture *f = calloc(1, sizeof *f);

	net_open(&f->net);
	spec_make(&f->spec, f->tensors, VALUES);
	f->disk.net = &f->net;
	f->config.ops = &disk_ops;
	f->config.owner = &f->disk;
	f->config.checkpoint_commits = 3;
	net_server(&f->net, &f->config);
	f->worker = fake_worker(&f->net, 0);
	f->base = fake_joined(f->worker, &f->spec)->version;
	*state = f;
	return 0;
}

static int teardown(void **state) {
	struct fixture *f = *state;

	fake_close(f->worker);
	net_close(&f->net);
	if (f->disk.exists)
		free_checkpoint(&f->disk.saved);
	free(f);
	return 0;
}

static const struct hd_msg_outcome *push(struct fixture *f, uint32_t round) {
	for (size_t i = 0; i < VALUES; i++)
		f->g[i] = (float)((i + round) % 23) * 0.01F;
	return fake_push_direct(f->worker, round, f->base, f->g, VALUES);
}

/* The server dies without notice; the next incarnation has the same disk, the worker is another process. */
static void restart(struct fixture *f) {
	f->disk.writing = NULL;
	net_server(&f->net, &f->config);
	fake_close(f->worker);
	f->worker = fake_worker(&f->net, 0);
}

static void test_checkpoint_every_so_many_commits(void **state) {
	struct fixture *f = *state;
	struct disk *disk = &f->disk;
	const struct hd_msg_durable *durable;
	float model[VALUES], momentum[VALUES];
	uint64_t values;

	push(f, 1);
	push(f, 2);
	assert_int_equal(disk->begun, 0);
	push(f, 3);
	assert_int_equal(disk->begun, 1);
	assert_int_equal(disk->writing->version, f->base + 3);
	assert_int_equal(disk->writing->values, VALUES);
	assert_int_equal(disk->writing->round_count, 3);
	assert_int_equal(disk->writing->rounds[1].round, 2);
	assert_int_equal(disk->writing->rounds[1].version, f->base + 2);
	memcpy(model, hd_server_model(f->net.server, f->worker->job, &values), BYTES);
	memcpy(momentum, hd_server_momentum(f->net.server, f->worker->job), BYTES);
	/* It is written while commits go on; only one at a time. */
	for (uint32_t round = 4; round <= 8; round++)
		assert_int_equal(push(f, round)->durable, 0);
	assert_int_equal(disk->begun, 1);
	assert_memory_equal(disk->writing->model, model, BYTES);
	assert_memory_equal(disk->writing->momentum, momentum, BYTES);
	assert_int_equal(fake_count(f->worker, HD_MSG_DURABLE), 0);
	disk_end(disk, 0);
	durable = &fake_wait(f->worker, HD_MSG_DURABLE, 0)->durable;
	assert_int_equal(durable->version, f->base + 3);
	assert_int_equal(push(f, 9)->durable, f->base + 3);
	assert_int_equal(disk->begun, 2);
	assert_int_equal(net_event(&f->net, HD_EVENT_DURABLE, 0)->version, f->base + 3);
}

static void test_a_failed_checkpoint_is_tried_again(void **state) {
	struct fixture *f = *state;
	struct disk *disk = &f->disk;

	disk->fail = -ENOSPC;
	for (uint32_t round = 1; round <= 5; round++)
		push(f, round);
	assert_int_equal(hd_server_stats(f->net.server)->checkpoint_errors, 1);
	assert_int_equal(net_event(&f->net, HD_EVENT_CHECKPOINT, 1)->aux, ENOSPC);
	disk->fail = 0;
	net_run(&f->net, 1100 * HD_MS);
	assert_int_equal(disk->begun, 1);
	disk_end(disk, -EIO); /* begun, and then not */
	assert_int_equal(hd_server_stats(f->net.server)->checkpoint_errors, 2);
	assert_int_equal(fake_count(f->worker, HD_MSG_DURABLE), 0);
	net_run(&f->net, 1900 * HD_MS); /* twice as long as before */
	assert_int_equal(disk->begun, 1);
	net_run(&f->net, 200 * HD_MS);
	disk_end(disk, 0);
	assert_int_equal(fake_wait(f->worker, HD_MSG_DURABLE, 0)->durable.version, f->base + 5);
}

/* A disk that stays full is asked less and less often, but once more at the end. */
static void test_a_full_disk_is_asked_less_often(void **state) {
	struct fixture *f = *state;
	const struct hd_server_stats *stats = hd_server_stats(f->net.server);
	uint64_t errors;

	f->disk.fail = -ENOSPC;
	for (uint32_t round = 1; round <= 3; round++)
		push(f, round);
	net_run(&f->net, 64 * HD_SECOND); /* after 0, 1, 3, 7, 15, 31, 63 s */
	assert_int_equal(stats->checkpoint_errors, 7);
	errors = stats->checkpoint_errors;
	assert_false(hd_server_drain(f->net.server, f->net.now, &f->net.server_node.sink));
	f->disk.fail = 0;
	net_run(&f->net, 10 * HD_MS);
	assert_int_equal(f->disk.begun, 1);
	assert_int_equal(stats->checkpoint_errors, errors);
	disk_end(&f->disk, 0);
	assert_true(hd_server_drain(f->net.server, f->net.now, &f->net.server_node.sink));
}

static void test_restart_goes_on_from_the_checkpoint(void **state) {
	struct fixture *f = *state;
	hd_version old = f->base;
	const struct hd_msg_joined *joined;
	const struct hd_msg_outcome *outcome;
	float *model, *momentum;
	uint64_t values;

	f->disk.at_once = true;
	for (uint32_t round = 1; round <= 5; round++)
		push(f, round); /* durable: 3; lost: 4, 5 */
	model = copy_of(f->disk.saved.model, BYTES);
	momentum = copy_of(f->disk.saved.momentum, BYTES);
	restart(f);
	joined = fake_joined(f->worker, &f->spec);
	assert_int_equal(hd_version_counter(joined->version), 3);
	assert_int_equal(hd_version_incarnation(joined->version), hd_version_incarnation(old) + 1);
	assert_int_equal(joined->durable, joined->version);
	assert_int_equal(joined->last_round, 3);
	assert_memory_equal(hd_server_model(f->net.server, f->worker->job, &values), model, BYTES);
	assert_memory_equal(hd_server_momentum(f->net.server, f->worker->job), momentum, BYTES);
	/* In the model: the recorded outcome. */
	fake_request_push(f->worker, 2, 2, old, BYTES);
	outcome = fake_outcome(f->worker, 2);
	assert_int_equal(outcome->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(outcome->version, old + 2);
	assert_int_equal(outcome->delay, 2);
	/* Lost: taken again, as its base is in our history. */
	f->base = old + 3;
	assert_int_equal(push(f, 4)->version, joined->version + 1);
	/* Computed on what was lost: refused, also when our counter has passed it. */
	f->base = old + 3;
	push(f, 6);
	push(f, 7);
	fake_request_push(f->worker, 8, 1, old + 5, BYTES);
	assert_int_equal(fake_outcome(f->worker, 8)->reason, HD_REASON_LOST_BASE);
	fake_request_push(f->worker, 9, 1, old + 3, BYTES);
	fake_wait(f->worker, HD_MSG_GRANT, 3);
	free(model);
	free(momentum);
}

/* No life's versions are given out twice, also when it left no checkpoint of its own. */
static void test_incarnations_do_not_repeat(void **state) {
	struct fixture *f = *state;
	hd_version first = f->base, second, third;

	f->disk.at_once = true;
	for (uint32_t round = 1; round <= 3; round++)
		push(f, round);
	f->disk.at_once = false;
	restart(f);
	fake_join(f->worker, &f->spec);
	net_run(&f->net, 100 * HD_MS);
	/* Until the new incarnation is on disk no worker joins. */
	assert_int_equal(fake_count(f->worker, HD_MSG_JOINED), 0);
	assert_int_equal(f->disk.begun, 2);
	disk_end(&f->disk, 0);
	second = fake_wait(f->worker, HD_MSG_JOINED, 0)->joined.version;
	restart(f);
	f->disk.at_once = true;
	third = fake_joined(f->worker, &f->spec)->version;
	assert_int_equal(hd_version_incarnation(second), hd_version_incarnation(first) + 1);
	assert_int_equal(hd_version_incarnation(third), hd_version_incarnation(first) + 2);
	assert_int_equal(f->disk.saved.prior_count, 2);
	assert_int_equal(f->disk.saved.prior[0].last, 3);
	/* Bases of both former incarnations are known. */
	fake_request_push(f->worker, 4, 1, first + 3, BYTES);
	fake_wait(f->worker, HD_MSG_GRANT, 0);
	fake_request_push(f->worker, 5, 1, second, BYTES);
	fake_wait(f->worker, HD_MSG_GRANT, 1);
}

/* Without any checkpoint a new process draws another incarnation: bases of the old one are lost. */
static void test_start_without_checkpoint(void **state) {
	struct fixture *f = *state;
	hd_version old = f->base, joined;

	push(f, 1);
	restart(f);
	joined = fake_joined(f->worker, &f->spec)->version;
	assert_int_equal(hd_version_counter(joined), 0);
	assert_int_not_equal(hd_version_incarnation(joined), hd_version_incarnation(old));
	fake_request_push(f->worker, 2, 1, old, BYTES);
	assert_int_equal(fake_outcome(f->worker, 2)->reason, HD_REASON_LOST_BASE);
}

static void test_restore_refuses_what_differs(void **state) {
	struct fixture *f = *state;

	f->disk.at_once = true;
	for (uint32_t round = 1; round <= 3; round++)
		push(f, round);
	restart(f);
	f->spec.tau_max = 99;
	fake_join(f->worker, &f->spec);
	fake_wait(f->worker, HD_MSG_REFUSE, 0);
	assert_non_null(strstr(f->worker->refused, "checkpoint"));
	assert_non_null(strstr(f->worker->refused, "tau_max"));
	f->spec.tau_max = 16;
	f->disk.restore_error = -EBADMSG;
	fake_join(f->worker, &f->spec);
	fake_wait(f->worker, HD_MSG_REFUSE, 1);
	assert_non_null(strstr(f->worker->refused, "restored"));
	f->disk.restore_error = 0;
	assert_int_equal(hd_version_counter(fake_joined(f->worker, &f->spec)->version), 3);
}

static void test_drain_writes_a_last_one(void **state) {
	struct fixture *f = *state;
	struct hd_sink *sink = &f->net.server_node.sink;

	push(f, 1);
	assert_false(hd_server_drain(f->net.server, f->net.now, sink));
	assert_int_equal(f->disk.begun, 1);
	assert_false(hd_server_drain(f->net.server, f->net.now, sink));
	disk_end(&f->disk, 0);
	assert_int_equal(f->disk.saved.version, f->base + 1);
	assert_true(hd_server_drain(f->net.server, f->net.now, sink));
	net_run(&f->net, 10 * HD_MS);
	assert_int_equal(f->worker->closed, 1); /* and said so */
}

/* The disk is full when the server comes back: no worker waits for it, and no version is given out twice. */
static void test_restart_on_a_full_disk(void **state) {
	struct fixture *f = *state;
	const struct hd_msg_joined *joined;
	hd_version old = f->base, second;

	f->disk.at_once = true;
	for (uint32_t round = 1; round <= 4; round++)
		push(f, round); /* durable: 3 */
	f->disk.fail = -ENOSPC;
	restart(f);
	joined = fake_joined(f->worker, &f->spec);
	second = joined->version;
	assert_int_equal(hd_version_counter(second), 3);
	assert_true(hd_version_incarnation(second) > hd_version_incarnation(old) + 1);
	assert_int_equal(joined->durable, old + 3);
	f->base = second;
	assert_int_equal(push(f, 4)->version, second + 1);
	/* So again, with what that life gave out lost. */
	restart(f);
	joined = fake_joined(f->worker, &f->spec);
	assert_int_equal(hd_version_counter(joined->version), 3);
	assert_true(hd_version_incarnation(joined->version) > hd_version_incarnation(old) + 1);
	assert_int_not_equal(joined->version, second);
	/* With room again it becomes durable. */
	f->disk.fail = 0;
	f->base = joined->version;
	push(f, 4);
	assert_int_equal(fake_wait(f->worker, HD_MSG_DURABLE, 0)->durable.version, f->base + 1);
}

static const struct hd_msg_outcome *
ask_again(struct fixture *f, uint32_t round, uint64_t have, size_t index) {
	struct hd_message message = {.kind = HD_MSG_REQUEST};

	message.request = (struct hd_msg_request){
		.job = f->worker->job,
		.round = round,
		.direction = HD_PUSH,
		.attempt = 2,
		.bytes = BYTES,
		.base = f->base + round - 1,
		.have = have,
	};
	fake_send(f->worker, &message);
	return &fake_wait(f->worker, HD_MSG_OUTCOME, index)->outcome;
}

/* A worker that was away from before the last checkpoint until after the restart asks about a round that is older
 * than those remembered: it is in the model, as the version that it was told is in this history. */
static void test_old_rounds_stand(void **state) {
	struct fixture *f = *state;
	const struct hd_msg_outcome *outcome;
	uint32_t last = HD_ROUNDS_KEPT + 20;

	f->disk.at_once = true;
	for (uint32_t round = 1; round <= last; round++)
		fake_push_direct(f->worker, round, f->base + round - 1, f->g, VALUES);
	f->disk.at_once = false;
	fake_push_direct(f->worker, last + 1, f->base + last, f->g, VALUES);
	restart(f);
	f->disk.at_once = true;
	fake_joined(f->worker, &f->spec);
	outcome = ask_again(f, 2, f->base + 2, 0);
	assert_int_equal(outcome->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(outcome->version, f->base + 2);
	assert_int_equal(outcome->delay, 1);
	/* Outcomes that were not reported, were lost with the restart, or are impossible. */
	outcome = ask_again(f, 3, 0, 1);
	assert_int_equal(outcome->outcome, HD_OUTCOME_FAILED);
	assert_int_equal(outcome->reason, HD_REASON_DUPLICATE);
	assert_int_equal(ask_again(f, 4, f->base + last + 1, 2)->outcome, HD_OUTCOME_FAILED);
	assert_int_equal(ask_again(f, 5, f->base + 4, 3)->outcome, HD_OUTCOME_FAILED);
}

/* Rounds that were applied, and pushed out of the list by as many later ones that were not: a checkpoint records that
 * such rounds exist, with the newest. No push is taken twice, and a worker that was told its outcome keeps it. */
static void test_pushed_out_by_dropped_rounds(void **state) {
	const uint32_t first = 20, last = first + HD_ROUNDS_KEPT;
	struct fixture *f = *state;
	struct fake *other = fake_worker(&f->net, 1);
	const struct hd_msg_outcome *outcome;

	fake_joined(other, &f->spec);
	for (uint32_t round = 1; round <= first; round++)
		fake_push_direct(f->worker, round, f->base + round - 1, f->g, VALUES);
	for (uint32_t round = first + 1; round <= last; round++) {
		fake_request_push(f->worker, round, 1, f->base, BYTES);
		assert_int_equal(fake_outcome(f->worker, round)->reason, HD_REASON_LATE);
	}
	f->disk.at_once = true;
	disk_end(&f->disk, 0);
	fake_push_direct(other, 1, f->base + first, f->g, VALUES);
	fake_push_direct(other, 2, f->base + first + 1, f->g, VALUES);
	fake_push_direct(other, 3, f->base + first + 2, f->g, VALUES);
	restart(f);
	fake_close(other);
	fake_joined(f->worker, &f->spec);
	outcome = ask_again(f, first - 1, f->base + first - 1, 0);
	assert_int_equal(outcome->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(outcome->version, f->base + first - 1);
	outcome = ask_again(f, first, 0, 1);
	assert_int_equal(outcome->outcome, HD_OUTCOME_FAILED);
	assert_int_equal(outcome->reason, HD_REASON_DUPLICATE);
}

/* A worker that joins while the server ends is not refused, which would be final: it asks the next incarnation. */
static void test_join_while_draining(void **state) {
	struct fixture *f = *state;
	struct hd_sink *sink = &f->net.server_node.sink;
	struct fake *late = fake_worker(&f->net, 1);

	net_run(&f->net, 10 * HD_MS);
	assert_true(late->open);
	push(f, 1);
	assert_false(hd_server_drain(f->net.server, f->net.now, sink));
	fake_join(late, &f->spec);
	net_run(&f->net, 50 * HD_MS);
	assert_int_equal(fake_count(late, HD_MSG_REFUSE), 0);
	disk_end(&f->disk, 0);
	assert_true(hd_server_drain(f->net.server, f->net.now, sink));
	net_run(&f->net, 10 * HD_MS);
	assert_int_equal(late->closed, 1);
	assert_int_equal(fake_count(late, HD_MSG_JOINED), 0);
	fake_close(late);
}

/* The last worker leaves while a checkpoint is being written that lacks its commits: another checkpoint follows. */
static void test_left_while_one_is_written(void **state) {
	struct fixture *f = *state;
	struct hd_message leave = {.kind = HD_MSG_LEAVE};

	for (uint32_t round = 1; round <= 4; round++)
		push(f, round);
	assert_int_equal(f->disk.begun, 1);
	leave.leave.job = f->worker->job;
	fake_send(f->worker, &leave);
	net_run(&f->net, 10 * HD_MS);
	assert_int_equal(f->disk.begun, 1);
	disk_end(&f->disk, 0);
	assert_int_equal(f->disk.begun, 2);
	assert_int_equal(f->disk.writing->version, f->base + 4);
	disk_end(&f->disk, 0);
	net_run(&f->net, HD_SECOND);
	assert_int_equal(f->disk.begun, 2);
}

/* The last worker's leave writes one too; such a job gives way when memory is needed. */
static void test_left_jobs_make_room(void **state) {
	struct fixture *f = *state;
	struct hd_message leave = {.kind = HD_MSG_LEAVE};
	struct fake *other;

	f->disk.at_once = true;
	f->config.memory_bytes = 6 * BYTES;
	net_server(&f->net, &f->config);
	fake_close(f->worker);
	f->worker = fake_worker(&f->net, 0);
	f->base = fake_joined(f->worker, &f->spec)->version;
	push(f, 1);
	other = fake_worker(&f->net, 1);
	hd_text_copy(f->spec.name, sizeof f->spec.name, "other");
	fake_join(other, &f->spec);
	fake_wait(other, HD_MSG_REFUSE, 0);
	assert_non_null(strstr(other->refused, "memory"));
	leave.leave.job = f->worker->job;
	fake_send(f->worker, &leave);
	net_run(&f->net, 10 * HD_MS);
	assert_int_equal(f->disk.saved.version, f->base + 1);
	assert_int_equal(hd_version_counter(fake_joined(other, &f->spec)->version), 0);
	assert_int_equal(hd_server_version(f->net.server, f->worker->job), 0);
	fake_close(other);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_checkpoint_every_so_many_commits, setup, teardown
		),
		cmocka_unit_test_setup_teardown(
			test_a_failed_checkpoint_is_tried_again, setup, teardown
		),
		cmocka_unit_test_setup_teardown(
			test_a_full_disk_is_asked_less_often, setup, teardown
		),
		cmocka_unit_test_setup_teardown(
			test_restart_goes_on_from_the_checkpoint, setup, teardown
		),
		cmocka_unit_test_setup_teardown(test_incarnations_do_not_repeat, setup, teardown),
		cmocka_unit_test_setup_teardown(test_start_without_checkpoint, setup, teardown),
		cmocka_unit_test_setup_teardown(test_restore_refuses_what_differs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_drain_writes_a_last_one, setup, teardown),
		cmocka_unit_test_setup_teardown(test_join_while_draining, setup, teardown),
		cmocka_unit_test_setup_teardown(test_old_rounds_stand, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pushed_out_by_dropped_rounds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_restart_on_a_full_disk, setup, teardown),
		cmocka_unit_test_setup_teardown(test_left_while_one_is_written, setup, teardown),
		cmocka_unit_test_setup_teardown(test_left_jobs_make_room, setup, teardown),
	};

	return cmocka_run_group_tests_name("server-restart", tests, NULL, NULL);
}
