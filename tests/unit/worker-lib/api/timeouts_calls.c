/* SPDX-License-Identifier: BSD-3-Clause */
/* Each call in the way that makes it wait. */
#include "timeouts.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

int call_wait_joined(struct scene *scene) {
	return heddle_wait_joined(scene->fabric, TIMEOUT_MS, NULL, NULL);
}

/* The version that a step which is not complete begins with. */
uint64_t base_of(struct scene *scene) {
	struct heddle_status status = HEDDLE_STATUS_INIT;

	if (scene->situation == INCOMPLETE)
		assert_int_equal(heddle_pull(scene->fabric, scene->model, NULL, 5000, &status), 0);
	return status.version;
}

struct heddle_ticket *start_push(struct scene *scene, uint64_t base) {
	struct heddle_ticket *ticket;

	assert_int_equal(heddle_push_start(scene->fabric, scene->update, base, NULL, &ticket), 0);
	return ticket;
}

int call_ticket_wait(struct scene *scene) {
	struct heddle_ticket *ticket = start_push(scene, base_of(scene));
	int rc = heddle_ticket_wait(ticket, HEDDLE_WAIT_DURABLE, TIMEOUT_MS, NULL);

	heddle_ticket_free(ticket);
	return rc;
}

int call_push(struct scene *scene) {
	uint64_t base = base_of(scene);

	return heddle_push(scene->fabric, scene->update, base, NULL, TIMEOUT_MS, NULL);
}

/* In a step that is not complete, this worker's part is in already: a newer model is what it waits for. */
int call_pull(struct scene *scene) {
	struct heddle_pull_options newer = HEDDLE_PULL_OPTIONS_INIT;
	uint64_t version = base_of(scene);
	struct heddle_ticket *ticket = version != 0 ? start_push(scene, version) : NULL;
	int rc;

	newer.have = version;
	newer.conditional = version != 0;
	rc = heddle_pull(scene->fabric, scene->model, &newer, TIMEOUT_MS, NULL);
	heddle_ticket_free(ticket);
	return rc;
}

int call_push_sparse(struct scene *scene) {
	const struct heddle_range first = {0, 1};
	const struct heddle_sparse update = {&first, 1, scene->update};
	uint64_t base = base_of(scene);

	return heddle_push_sparse(scene->fabric, &update, base, NULL, TIMEOUT_MS, NULL);
}

int call_allreduce(struct scene *scene) {
	float *x = scene->update;

	return heddle_allreduce(scene->fabric, x, x, VALUES, NULL, TIMEOUT_MS, NULL);
}

int call_agree(struct scene *scene) {
	return heddle_agree(scene->fabric, scene->update, sizeof scene->update, TIMEOUT_MS, NULL);
}

int call_share_state(struct scene *scene) {
	const struct heddle_state_item item = {"update", scene->update, sizeof scene->update};
	uint64_t version = 1;

	return heddle_share_state(scene->fabric, &item, 1, &version, NULL, TIMEOUT_MS, NULL);
}

int call_barrier(struct scene *scene) {
	return heddle_barrier(scene->fabric, NULL, TIMEOUT_MS, NULL);
}

int call_broadcast(struct scene *scene) {
	return heddle_broadcast(scene->fabric, scene->update, VALUES, 0, NULL, TIMEOUT_MS, NULL);
}

int call_reduce(struct scene *scene) {
	float *x = scene->update;

	return heddle_reduce(scene->fabric, x, x, VALUES, 0, NULL, TIMEOUT_MS, NULL);
}

/* In two parts. */
static struct heddle_part *halves(struct scene *scene) {
	static struct heddle_part parts[2];

	parts[0] = (struct heddle_part){scene->update, VALUES / 2};
	parts[1] = (struct heddle_part){scene->update + VALUES / 2, VALUES / 2};
	return parts;
}

int call_allreduce_list(struct scene *scene) {
	return heddle_allreduce_list(scene->fabric, halves(scene), 2, NULL, TIMEOUT_MS, NULL);
}

int call_broadcast_list(struct scene *scene) {
	return heddle_broadcast_list(scene->fabric, halves(scene), 2, 0, NULL, TIMEOUT_MS, NULL);
}

int call_reduce_list(struct scene *scene) {
	return heddle_reduce_list(scene->fabric, halves(scene), 2, 0, NULL, TIMEOUT_MS, NULL);
}

static struct heddle_collective_options alone(void) {
	struct heddle_collective_options options = HEDDLE_COLLECTIVE_OPTIONS_INIT;

	options.exact = 1;
	return options;
}

int call_allgather(struct scene *scene) {
	const struct heddle_collective_options options = alone();
	float *x = scene->update;

	return heddle_allgather(scene->fabric, x, x, VALUES, &options, TIMEOUT_MS, NULL);
}

int call_gather(struct scene *scene) {
	const struct heddle_collective_options options = alone();
	float *x = scene->update;

	return heddle_gather(scene->fabric, x, x, VALUES, 0, &options, TIMEOUT_MS, NULL);
}

int call_reduce_scatter(struct scene *scene) {
	const struct heddle_collective_options options = alone();
	float *x = scene->update;

	return heddle_reduce_scatter(scene->fabric, x, x, VALUES, &options, TIMEOUT_MS, NULL);
}

int call_alltoall(struct scene *scene) {
	const struct heddle_collective_options options = alone();
	float *x = scene->update;

	return heddle_alltoall(scene->fabric, x, x, VALUES, &options, TIMEOUT_MS, NULL);
}

/* There is no rank 1. */
int call_send(struct scene *scene) {
	return heddle_send(scene->fabric, scene->update, VALUES, 1, NULL, TIMEOUT_MS, NULL);
}

int call_recv(struct scene *scene) {
	return heddle_recv(scene->fabric, scene->update, VALUES, 1, NULL, TIMEOUT_MS, NULL);
}

int call_scatter(struct scene *scene) {
	const struct heddle_collective_options options = alone();
	float *x = scene->update;

	return heddle_scatter(scene->fabric, x, x, VALUES, 0, &options, TIMEOUT_MS, NULL);
}

int call_progress(struct scene *scene) {
	return heddle_progress(scene->fabric, TIMEOUT_MS);
}

int call_round_wait(struct scene *scene) {
	struct heddle_round round = HEDDLE_ROUND_INIT;

	return heddle_round_wait(scene->fabric, &round, TIMEOUT_MS);
}

/* With a push that does not end. */
int call_close(struct scene *scene) {
	struct heddle_ticket *ticket = start_push(scene, base_of(scene));
	int rc = heddle_close(scene->fabric, TIMEOUT_MS);

	assert_int_equal(heddle_ticket_test(ticket, NULL), 1);
	heddle_ticket_free(ticket);
	scene->fabric = NULL;
	return rc;
}

/* The handle stays: the ticket goes on, or has ended, and the handle is closed later. */
int call_leave(struct scene *scene) {
	uint64_t base = base_of(scene);
	struct heddle_ticket *ticket = start_push(scene, base), *more;
	int rc = heddle_leave(scene->fabric, TIMEOUT_MS);

	/* Where it can end, it ends before the worker has left: a slow machine's time may be over between the two. */
	if (rc == 0 || scene->situation != INCOMPLETE)
		assert_int_equal(heddle_ticket_test(ticket, NULL), rc == 0);
	heddle_ticket_free(ticket);
	assert_int_equal(
		heddle_push_start(scene->fabric, scene->update, base, NULL, &more), -ESHUTDOWN
	);
	return rc;
}
