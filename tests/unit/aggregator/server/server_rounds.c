/* SPDX-License-Identifier: BSD-3-Clause */
#include "server_rounds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void rounds_open(struct rounds *f, const struct hd_federated *rounds, uint16_t workers) {
	memset(f, 0, sizeof *f);
	net_open(&f->net);
	spec_make(&f->spec, f->tensors, ROUNDS_VALUES);
	f->spec.sync = HD_SYNC_FEDERATED;
	f->spec.staleness_rule = HD_STALENESS_CONSTANT;
	f->spec.federated = *rounds;
	f->spec.learning_rate = 1;
	f->spec.momentum = f->spec.weight_decay = 0;
	net_server(&f->net, &f->config);
	hd_jobspec_initialize(&f->spec, f->initial);
	for (uint16_t i = 0; i < workers; i++)
		rounds_join(f, i);
	net_run(&f->net, 30 * HD_MS);
}

void rounds_join(struct rounds *f, uint16_t rank) {
	f->worker[rank] = fake_worker(&f->net, rank);
	(void)fake_joined(f->worker[rank], &f->spec);
}

void rounds_lose(struct rounds *f, uint16_t rank) {
	fake_kill(f->worker[rank]);
	f->worker[rank] = NULL;
}

void rounds_close(struct rounds *f) {
	for (uint16_t i = 0; i < ROUNDS_WORKERS; i++)
		if (f->worker[i])
			fake_close(f->worker[i]);
	net_close(&f->net);
}

struct hd_federated rounds_of(uint32_t clients, uint32_t least, uint32_t deadline_ms) {
	return (struct hd_federated){
		.clients = clients,
		.clients_least = least,
		.available = 4,
		.deadline_ms = deadline_ms,
		.epochs = 20,
	};
}

/* The newest round that it was told; NULL: none. */
const struct hd_msg_round *rounds_sent(struct rounds *f, uint16_t rank) {
	size_t count = fake_count(f->worker[rank], HD_MSG_ROUND);

	return count > 0 ? &fake_wait(f->worker[rank], HD_MSG_ROUND, count - 1)->round : NULL;
}

uint32_t rounds_drawn(struct rounds *f, uint16_t rank) {
	const struct hd_msg_round *round = rounds_sent(f, rank);

	return round ? round->round : 0;
}

void rounds_work(struct rounds *f, uint16_t rank, float weight, double loss, bool gives) {
	struct hd_message message = {.kind = HD_MSG_WORK};

	message.work = (struct hd_msg_work){
		.job = f->worker[rank]->job,
		.worker = rank,
		.round = rounds_drawn(f, rank),
		.epochs = gives ? 20 : 0,
		.gives = gives,
		.weight = weight,
		.gamma = -1,
		.loss = loss,
	};
	fake_send(f->worker[rank], &message);
}

/* A whole push directly, of these two values' deltas; the grant's weight has been multiplied. */
void rounds_give_at(
	struct rounds *f,
	uint16_t rank,
	float weight,
	const float *delta,
	hd_version base
) {
	struct hd_message message = {.kind = HD_MSG_REQUEST};
	struct fake *worker = f->worker[rank];
	size_t grants = fake_count(worker, HD_MSG_GRANT);
	const struct hd_msg_grant *grant;
	float data[ROUNDS_VALUES] = {0};
	uint32_t round = ++f->pushes[rank];

	message.request = (struct hd_msg_request){
		.job = worker->job,
		.worker = rank,
		.round = round,
		.attempt = 1,
		.direction = HD_PUSH,
		.base = base,
		.bytes = ROUNDS_BYTES,
		.weight = weight,
	};
	fake_send(worker, &message);
	net_run(&f->net, 30 * HD_MS);
	if (fake_count(worker, HD_MSG_GRANT) == grants)
		return; /* refused: its outcome says so */
	grant = &fake_wait(worker, HD_MSG_GRANT, grants)->grant;
	assert_true(grant->weight == weight);
	for (int i = 0; i < 2; i++)
		data[i] = weight * delta[i];
	(void)fake_push(worker, grant->token, round, 1, data, ROUNDS_VALUES);
	net_run(&f->net, 30 * HD_MS);
}

void rounds_give(struct rounds *f, uint16_t rank, float weight, const float *delta) {
	rounds_give_at(f, rank, weight, delta, rounds_sent(f, rank)->version);
}

void rounds_moved(const struct rounds *f, double first, double second) {
	const float *model = hd_server_model(f->net.server, f->worker[0]->job, &(uint64_t){0});

	assert_float_equal((double)(model[0] - f->initial[0]), first, 1e-5);
	assert_float_equal((double)(model[1] - f->initial[1]), second, 1e-5);
	assert_true(model[2] == f->initial[2]);
}

uint8_t rounds_outcome(struct rounds *f, uint16_t rank) {
	return fake_outcome(f->worker[rank], f->pushes[rank])->outcome;
}

/* The row of a round, which is the only one with that number. */
static json_t *only_row(struct rounds *f, const char *of, const char *filter) {
	const char *error = NULL;
	char *text = hd_server_table(f->net.server, f->net.now, of, filter, &error);
	json_t *table = json_loads(text ? text : "", 0, NULL), *row;

	free(text);
	assert_non_null(table);
	assert_int_equal(json_array_size(json_object_get(table, "rows")), 1);
	row = json_incref(json_array_get(json_object_get(table, "rows"), 0));
	json_decref(table);
	return row;
}

json_t *rounds_row(struct rounds *f, const char *filter) {
	return only_row(f, "rounds", filter);
}

void rounds_weights(struct rounds *f, double received, double applied) {
	json_t *row = only_row(f, "models", "");

	assert_float_equal(rounds_number(row, "weight_received"), received, 0);
	assert_float_equal(rounds_number(row, "weight_applied"), applied, 0);
	json_decref(row);
}

double rounds_number(const json_t *row, const char *key) {
	return json_number_value(json_object_get(row, key));
}
