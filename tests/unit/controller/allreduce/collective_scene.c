/* SPDX-License-Identifier: BSD-3-Clause */
#include "collective_scene.h"
#include "hd_roster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

void call(
	struct scene *s,
	uint16_t rank,
	uint32_t round,
	uint8_t attempt,
	const struct wish *wish
) {
	struct hd_message m = net_push(s->workers[rank], round, wish->bytes, 0);

	m.request.direction = HD_REDUCE;
	m.request.attempt = attempt;
	m.request.have = round;
	m.request.collective = wish->collective;
	m.request.root = wish->root;
	m.request.room = wish->room;
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

void call_all(struct scene *s, uint32_t round, const struct wish *wish) {
	for (uint16_t i = 0; i < WORKERS; i++)
		call(s, i, round, 1, wish);
}

/* The worker has its result. */
void finish(struct scene *s, uint16_t rank) {
	const struct hd_msg_reduce *reduce = reduce_sent(s, rank);
	struct hd_message m = {.kind = HD_MSG_REPORT};

	m.report = (struct hd_msg_report
	){.job = reduce->job,
	  .worker = rank,
	  .round = reduce->round,
	  .direction = HD_REDUCE,
	  .attempt = reduce->attempt,
	  .token = reduce->sum_id,
	  .outcome = HD_OUTCOME_APPLIED};
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

/* An aggregator's group has failed. */
void lose_group(struct scene *s, uint32_t k) {
	struct hd_message m = {.kind = HD_MSG_REPORT};

	m.report.job = reduce_sent(s, 0)->job;
	m.report.outcome = HD_OUTCOME_FAILED;
	m.report.reason = HD_REASON_LEASE;
	m.report.token = peer_last(s->aggregators[k], HD_MSG_GROUP)->group.group;
	post(s->aggregators[k], m);
	net_run(&s->net, HD_MS);
}

uint32_t released(const struct scene *s, uint16_t rank) {
	return peer_count(s->workers[rank], HD_MSG_REDUCED);
}

uint32_t open_rounds(const struct scene *s) {
	return s->net.controller->jobs[0]->reduce_count;
}

/* The bytes that a worker is told to give, and to receive; its members. */
struct share {
	uint64_t out, in;
};

static struct share share_of(const struct scene *s, uint16_t rank) {
	const struct hd_msg_reduce *m = reduce_sent(s, rank);
	struct share share = {0};
	struct hd_roster roster;
	uint64_t end = 0;

	assert_non_null(m);
	assert_int_equal(hd_roster_read(&roster, m->workers, m->members.data, m->members.bytes), 0);
	assert_true(hd_roster_has(&roster, rank));
	for (uint32_t i = 0; i < m->shards.bytes / HD_GROUP_SHARD_BYTES; i++) {
		const struct hd_group_shard shard = hd_group_get_shard(&m->shards, i);

		assert_true(shard.out_token != 0 || shard.in_token != 0);
		assert_true(shard.first >= end);
		end = shard.first + shard.bytes;
		share.out += shard.out_token ? shard.bytes : 0;
		share.in += shard.in_token ? shard.bytes : 0;
	}
	assert_true(end <= m->bytes);
	return share;
}

void check_share(const struct scene *s, uint16_t rank, uint64_t out, uint64_t in) {
	const struct share share = share_of(s, rank);

	assert_int_equal(share.out, out);
	assert_int_equal(share.in, in);
}
