/* SPDX-License-Identifier: BSD-3-Clause */
#include "wait_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

const struct how plain = {0};

void call(struct scene *s, uint16_t rank, uint32_t round, const struct how *how) {
	const bool barrier = how->collective == HD_COLLECTIVE_BARRIER;
	struct hd_message m = net_push(s->workers[rank], round, barrier ? 0 : BYTES, 0);

	m.request.direction = HD_REDUCE;
	m.request.attempt = 1;
	m.request.have = round;
	m.request.collective = how->collective;
	m.request.root = how->root;
	m.request.exact = how->exact;
	m.request.least = how->least;
	m.request.wait_ms = how->wait_ms;
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

/* Members of the round in progress at this worker; 0: it is in none. */
uint16_t members(const struct scene *s, uint16_t rank, uint32_t round) {
	const struct hd_msg_reduce *reduce = reduce_sent(s, rank);

	return reduce && reduce->round == round ? reduce->workers : 0;
}

const struct hd_msg_drop *drop(const struct scene *s, uint16_t rank) {
	const struct hd_message *m = peer_last(s->workers[rank], HD_MSG_DROP);

	assert_non_null(m);
	return &m->drop;
}

/* A round of all workers, from its calls to its end. */
void make_round(struct scene *s, uint32_t round) {
	for (uint16_t i = 0; i < WORKERS; i++)
		call(s, i, round, &plain);
	for (uint16_t i = 0; i < WORKERS; i++) {
		assert_int_equal(members(s, i, round), WORKERS);
		done(s, i, HD_OUTCOME_APPLIED);
	}
}

void call_two(struct scene *s, uint32_t round, const struct how *how) {
	call(s, 0, round, how);
	call(s, 1, round, how);
}

void end_two(struct scene *s) {
	done(s, 0, HD_OUTCOME_APPLIED);
	done(s, 1, HD_OUTCOME_APPLIED);
}

void open_after_one(struct scene *s) {
	open_scene(s);
	make_round(s, 1);
}
