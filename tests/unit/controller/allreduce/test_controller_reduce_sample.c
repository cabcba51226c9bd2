/* SPDX-License-Identifier: BSD-3-Clause */
/* The bandwidth samples from an all-reduce's transfers. */
#include "ctl_core.h"
#include "reduce_scene.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SHARD (BYTES / WORKERS)
#define TOOK (100 * HD_MS)

static uint32_t shard_count(const struct scene *s) {
	return (uint32_t)hd_group_count(&reduce_sent(s, 0)->shards, HD_GROUP_SHARD_BYTES);
}

/* Shard j of a round is the aggregator's at this host. */
static uint32_t host_of(const struct scene *s, uint32_t shard) {
	const struct hd_group_shard sent = hd_group_get_shard(&reduce_sent(s, 0)->shards, shard);

	for (uint32_t k = 0; k < WORKERS; k++)
		if (s->aggregators[k]->addr.ipv4 == sent.ipv4
		    && s->aggregators[k]->addr.port == sent.port)
			return k;
	fail_msg("shard %u has no aggregator", shard);
	return 0;
}

/* The receiver's word: it had `bytes` within `took`. */
static struct hd_message
word(const struct scene *s, uint16_t rank, uint32_t shard, uint64_t bytes, hd_ns took) {
	struct hd_message m = {.kind = HD_MSG_REPORT};

	m.report.job = reduce_sent(s, rank)->job;
	m.report.worker = rank;
	m.report.round = reduce_sent(s, rank)->round;
	m.report.attempt = reduce_sent(s, rank)->attempt;
	m.report.outcome = HD_OUTCOME_PENDING;
	m.report.bytes = bytes;
	m.report.duration_ns = took;
	m.report.rate_bps = bytes * 8 * HD_SECOND / took;
	m.report.position = shard;
	return m;
}

/* All values come to the aggregators, all sums to the workers; host `slow` needs twice as long for what it sends. */
static void transfers(struct scene *s, uint32_t slow) {
	net_run(&s->net, 2 * TOOK);
	for (uint32_t shard = 0; shard < shard_count(s); shard++) {
		const uint32_t host = host_of(s, shard);
		const uint64_t bytes = hd_group_get_shard(&reduce_sent(s, 0)->shards, shard).bytes;

		for (uint16_t i = 0; i < WORKERS; i++) {
			struct hd_message m = word(s, i, shard, bytes, i == slow ? 2 * TOOK : TOOK);

			m.report.direction = HD_PUSH;
			post(s->aggregators[host], m);
			m = word(s, i, shard, bytes, host == slow ? 2 * TOOK : TOOK);
			m.report.direction = HD_REDUCE;
			post(s->workers[i], m);
		}
	}
	net_run(&s->net, HD_MS);
}

static void begin(struct scene *s, uint32_t round) {
	for (uint16_t i = 0; i < WORKERS; i++)
		ask(s, i, round, 1);
	assert_int_equal(reduce_sent(s, 0)->round, round);
}

static void end(struct scene *s) {
	for (uint16_t i = 0; i < WORKERS; i++)
		done(s, i, HD_OUTCOME_APPLIED);
}

static uint32_t in_flight(const struct scene *s) {
	const struct hd_controller *c = s->net.controller;
	uint32_t reduces = 0;

	for (uint32_t l = 0; l < c->scratch.link_capacity; l++)
		reduces += c->scratch.link_probe[l].reduces;
	return reduces;
}

/* Of three rounds each transfer between two hosts is a sample once, when its round has ended. */
static void test_every_path_is_sampled(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	for (uint32_t round = 1; round <= WORKERS; round++) {
		const uint64_t before = counters(&s.net)->samples;

		begin(&s, round);
		assert_true(in_flight(&s) >= 2 * WORKERS);
		transfers(&s, WORKERS);
		assert_int_equal(counters(&s.net)->samples, before);
		end(&s);
		assert_int_equal(in_flight(&s), 0);
	}
	assert_int_equal(counters(&s.net)->samples, 2 * WORKERS * (WORKERS - 1));
	assert_int_equal(counters(&s.net)->reports_unknown, 0);
	net_close(&s.net);
}

static double estimate_mbps(const struct scene *s, const char *name) {
	struct hd_controller *c = s->net.controller;

	for (uint32_t l = 0; l < hd_controller_link_count(c); l++)
		if (strcmp(hd_controller_link_name(c, l), name) == 0)
			return hd_controller_estimate_bps(c, l, 1) / 1e6;
	fail_msg("no link %s", name);
	return 0;
}

/* Each link carries four transfers at once; the slow host's sends them half as fast. */
static void test_estimates_follow(void **state) {
	const double full = 4 * 8 * ((double)BYTES / WORKERS) / ((double)TOOK / 1e9) / 1e6;
	struct scene s;

	(void)state;
	open_scene(&s);
	for (uint32_t round = 1; round <= 12; round++) {
		begin(&s, round);
		transfers(&s, 1);
		end(&s);
	}
	assert_true(estimate_mbps(&s, "h2>star") < 0.6 * full);
	assert_true(estimate_mbps(&s, "h1>star") > 0.7 * full);
	net_close(&s.net);
}

/* The share of the newest round that the aggregator at a host adds. */
static uint64_t share_of(const struct scene *s, uint32_t host) {
	for (uint32_t shard = 0; shard < shard_count(s); shard++)
		if (host_of(s, shard) == host)
			return hd_group_get_shard(&reduce_sent(s, 0)->shards, shard).bytes;
	return 0;
}

/* Whether the slow host's link is taken to be wider than it is believed to be in the newest round. */
static bool tried(const struct scene *s) {
	const struct hd_controller *c = s->net.controller;

	for (uint32_t l = 0; l < hd_controller_link_count(c); l++)
		if (strcmp(hd_controller_link_name(c, l), "h2>star") == 0)
			return c->scratch.link_probe[l].tried > 0;
	return false;
}

/* A host that was slow has little of each round, which does not show that it is fast by now: it is tried. */
static void test_slow_ones_are_tried(void **state) {
	struct scene s;

	(void)state;
	open_scene(&s);
	for (uint32_t round = 1; round <= 8; round++) {
		begin(&s, round);
		transfers(&s, 1);
		end(&s);
	}
	assert_true(share_of(&s, 1) < SHARD / 2);
	assert_false(tried(&s));
	/* The attempt finds no gain: the next one comes later. */
	net_run(&s.net, 3 * HD_SECOND);
	begin(&s, 9);
	assert_true(tried(&s));
	transfers(&s, 1);
	end(&s);
	net_run(&s.net, 3 * HD_SECOND);
	begin(&s, 10);
	assert_false(tried(&s));
	transfers(&s, 1);
	end(&s);
	net_run(&s.net, 5 * HD_SECOND);
	begin(&s, 11);
	assert_true(tried(&s));
	net_close(&s.net);
}

/* Reports about no transfer of the round are counted, and are no samples. */
static void test_nonsense(void **state) {
	struct hd_message m;
	struct scene s;

	(void)state;
	open_scene(&s);
	begin(&s, 1);
	net_run(&s.net, 2 * TOOK);
	for (uint32_t k = 0; k < 4; k++) {
		m = word(&s, 0, k == 0 ? WORKERS : 1, k == 1 ? SHARD + 4 : SHARD, TOOK);
		m.report.direction = HD_REDUCE;
		m.report.attempt += k == 2;
		m.report.round += k == 3;
		post(s.workers[0], m);
		net_run(&s.net, HD_MS);
		assert_int_equal(counters(&s.net)->reports_unknown, k + 1);
	}
	m = word(&s, 0, 1, SHARD, TOOK);
	m.report.worker = UINT16_MAX;
	post(s.aggregators[1], m);
	m = word(&s, 0, 1, SHARD + 4, TOOK);
	post(s.aggregators[1], m);
	end(&s);
	assert_int_equal(counters(&s.net)->samples, 0);
	assert_int_equal(counters(&s.net)->reduces_failed, 0);
	net_close(&s.net);
}

/* A round of few bytes gives no samples, whatever its members report. */
static void test_short_rounds(void **state) {
	const double before = net_plain.initial_bps / 1e6;
	struct scene s;

	(void)state;
	open_scene(&s);
	for (uint32_t round = 1; round <= 4; round++) {
		for (uint16_t i = 0; i < WORKERS; i++) {
			struct hd_message m
				= net_push(s.workers[i], round, HD_REDUCE_REPORT_BYTES_MIN - 4, 0);

			m.request.direction = HD_REDUCE;
			m.request.attempt = 1;
			post(s.workers[i], m);
		}
		net_run(&s.net, HD_MS);
		assert_int_equal(reduce_sent(&s, 0)->round, round);
		transfers(&s, WORKERS);
		end(&s);
	}
	assert_int_equal(counters(&s.net)->samples, 0);
	assert_float_equal(estimate_mbps(&s, "h1>star"), before, 0.01 * before);
	net_close(&s.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_path_is_sampled),
		cmocka_unit_test(test_estimates_follow),
		cmocka_unit_test(test_slow_ones_are_tried),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_short_rounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
