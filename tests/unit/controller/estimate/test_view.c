/* SPDX-License-Identifier: BSD-3-Clause */
/* The view against synthetic truths: what a transfer of ours would have measured on links of known
 * capacities. */
#include "hd_random.h"
#include "hd_view.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define HOSTS 16
#define SERVER HOSTS
#define LINKS (HOSTS + 1)
#define PROBE 1.25
#define MBIT 1e6

struct world {
	struct hd_view *view;
	double truth[LINKS];
	hd_ns now;
	struct hd_random random;
	double noise;
};

static void world_init(struct world *world, double initial, double capacity) {
	*world = (struct world){0};
	assert_int_equal(hd_view_create(initial, &world->view), 0);
	hd_random_init(&world->random, 1);
	for (uint32_t l = 0; l < LINKS; l++)
		world->truth[l] = capacity;
}

static double estimate(const struct world *world, uint32_t link) {
	return hd_view_estimate(world->view, link).capacity_bps;
}

static double believed_rate(const struct world *world, const uint32_t *path, double beside) {
	return fmin(estimate(world, path[0]), estimate(world, path[1]) - beside);
}

/* One push from a host: paced at 1.25x of what the view believes, it gets what the links give beside
 * `beside` on the server's. */
static double push(struct world *world, uint32_t host, double beside) {
	const uint32_t path[2] = {host, SERVER};
	const double beside_bps[2] = {0, beside};
	const double paced = PROBE * fmax(believed_rate(world, path, beside), 1e6);
	const double given = fmin(world->truth[host], world->truth[SERVER] - beside);
	const double jitter = 1 + world->noise * (2 * hd_random_unit(&world->random) - 1);
	const double rate = fmin(paced, given) * jitter;

	world->now += 100 * HD_MS;
	const struct hd_view_sample sample = {
		.at = world->now,
		.started = world->now - 100 * HD_MS,
		.bytes = (uint64_t)(rate / 8 / 10),
		.rate_bps = rate,
		.limited = paced < given ? 1 : 0,
		.path_count = 2,
		.path = path,
		.beside_bps = beside_bps,
	};
	hd_view_sample(world->view, &sample);
	return rate;
}

static void assert_within(double value, double truth, double share) {
	if (fabs(value - truth) > share * truth)
		fail_msg("%g is not within %g of %g", value, share, truth);
}

/* The planner's capacity for a push from the host is that of its path. */
static void assert_paths(const struct world *world, double share) {
	for (uint32_t h = 0; h < HOSTS; h++)
		assert_within(
			fmin(estimate(world, h), estimate(world, SERVER)),
			fmin(world->truth[h], world->truth[SERVER]),
			share
		);
}

static void rounds(struct world *world, int count) {
	for (int r = 0; r < count; r++)
		for (uint32_t h = 0; h < HOSTS; h++)
			push(world, h, 0);
}

static void nothing_seen(void **state) {
	struct hd_view *view = NULL;

	(void)state;
	assert_int_equal(hd_view_create(0, &view), -EINVAL);
	assert_int_equal(hd_view_create(NAN, &view), -EINVAL);
	assert_null(view);
	assert_int_equal(hd_view_create(1e9, &view), 0);
	const struct hd_estimate e = hd_view_estimate(view, 123456);
	assert_true(e.capacity_bps == 1e9 && e.samples == 0 && e.updated == 0);
	hd_view_destroy(view);
}

/* A link that is another one from now on is taken for what any new link is. */
static void forgotten(void **state) {
	struct world w;

	(void)state;
	world_init(&w, 100e6, 800e6);
	w.truth[0] = 50e6;
	for (int i = 0; i < 40; i++)
		push(&w, (uint32_t)(i % 2), 0);
	assert_true(estimate(&w, 0) < 80e6);
	assert_true(estimate(&w, 1) > 300e6);
	hd_view_forget(w.view, 0);
	assert_int_equal(hd_view_estimate(w.view, 0).samples, 0);
	assert_true(estimate(&w, 0) > 300e6); /* as wide as the best one that was seen */
	hd_view_forget(w.view, 12345);
	hd_view_forget(w.view, 1);
	hd_view_forget(w.view, SERVER);
	assert_true(estimate(&w, 0) == 100e6); /* nothing is known any more */
	hd_view_destroy(w.view);
}

/* All alike and slower than assumed: four samples in all, and hosts not yet seen profit. */
static void converges_down(void **state) {
	struct world w;

	(void)state;
	world_init(&w, 1000 * MBIT, 200 * MBIT);
	for (uint32_t h = 0; h < 4; h++)
		push(&w, h, 0);
	assert_paths(&w, 0.1);
	hd_view_destroy(w.view);
}

/* Faster than assumed: probing gains a quarter a sample, 10x in eleven. */
static void converges_up(void **state) {
	struct world w;

	(void)state;
	world_init(&w, 100 * MBIT, 1000 * MBIT);
	for (uint32_t n = 0; n < 11; n++)
		push(&w, n % HOSTS, 0);
	assert_paths(&w, 0.1);
	hd_view_destroy(w.view);
}

static void probing_is_bounded(void **state) {
	struct world w;

	(void)state;
	world_init(&w, 100 * MBIT, 1000 * MBIT);
	for (int n = 0; n < 5; n++) {
		const double before = estimate(&w, 0);

		push(&w, 0, 0);
		assert_true(estimate(&w, 0) <= before * PROBE * 1.0000001);
		assert_true(estimate(&w, 0) > before);
	}
	hd_view_destroy(w.view);
}

/* Some uplinks are slow: they are found, and the server's link stays what it is. */
static void slow_uplinks(void **state) {
	struct world w;

	(void)state;
	world_init(&w, 1000 * MBIT, 200 * MBIT);
	w.truth[3] = 50 * MBIT;
	w.truth[7] = 100 * MBIT;
	w.truth[8] = 20 * MBIT;
	rounds(&w, 4);
	assert_within(estimate(&w, SERVER), 200 * MBIT, 0.1);
	assert_within(estimate(&w, 3), 50 * MBIT, 0.1);
	assert_within(estimate(&w, 7), 100 * MBIT, 0.1);
	assert_within(estimate(&w, 8), 20 * MBIT, 0.1);
	assert_paths(&w, 0.1);
	hd_view_destroy(w.view);
}

/* The very first sample comes from a slow host. */
static void slow_one_first(void **state) {
	struct world w;

	(void)state;
	world_init(&w, 1000 * MBIT, 200 * MBIT);
	w.truth[0] = 20 * MBIT;
	rounds(&w, 4);
	assert_within(estimate(&w, 0), 20 * MBIT, 0.1);
	assert_within(estimate(&w, SERVER), 200 * MBIT, 0.1);
	hd_view_destroy(w.view);
}

/* The server's link is the slow one: it is found, not every uplink blamed in turn. */
static void slow_server(void **state) {
	struct world w;

	(void)state;
	world_init(&w, 1000 * MBIT, 200 * MBIT);
	rounds(&w, 2);
	w.truth[SERVER] = 80 * MBIT;
	rounds(&w, 1);
	assert_within(estimate(&w, SERVER), 80 * MBIT, 0.1);
	uint32_t blamed = 0;
	for (uint32_t h = 0; h < HOSTS; h++)
		blamed += estimate(&w, h) < 150 * MBIT;
	assert_true(blamed <= 2);
	/* and back */
	w.truth[SERVER] = 200 * MBIT;
	rounds(&w, 1);
	assert_within(estimate(&w, SERVER), 200 * MBIT, 0.1);
	hd_view_destroy(w.view);
}

/* Two at a time on the server's link: what runs beside counts as carried. */
static void beside(void **state) {
	struct world w;

	(void)state;
	world_init(&w, 1000 * MBIT, 200 * MBIT);
	for (uint32_t h = 0; h < HOSTS; h++)
		w.truth[h] = 100 * MBIT;
	for (int r = 0; r < 4; r++)
		for (uint32_t h = 0; h < HOSTS; h++)
			push(&w, h, 100 * MBIT);
	assert_within(estimate(&w, SERVER), 200 * MBIT, 0.1);
	hd_view_destroy(w.view);
}

static void sample_of(struct world *world, uint32_t host, double rate, double beside) {
	const uint32_t path[2] = {host, SERVER};
	const double beside_bps[2] = {0, beside};

	world->now += 100 * HD_MS;
	hd_view_sample(
		world->view,
		&(struct hd_view_sample){
			.at = world->now,
			.started = world->now - 100 * HD_MS,
			.bytes = 1000000,
			.rate_bps = rate,
			.path_count = 2,
			.path = path,
			.beside_bps = beside_bps,
		}
	);
}

/* Two uplinks of 200 have estimates of 100: together they fill the server's link, so neither can ever show more. A
 * transfer that falls short beside another on a full link lowers no estimate, and a link that carries its estimate
 * there is tried with more. */
static void underestimates_do_not_last(void **state) {
	struct world w;

	(void)state;
	world_init(&w, 1000 * MBIT, 200 * MBIT);
	w.truth[0] = w.truth[1] = 100 * MBIT;
	rounds(&w, 4);
	assert_within(estimate(&w, 0), 100 * MBIT, 0.1);
	assert_within(estimate(&w, 1), 100 * MBIT, 0.1);
	for (int n = 0; n < 12; n++) {
		const double share = estimate(&w, 0) / (estimate(&w, 0) + estimate(&w, 1));

		sample_of(&w, 0, share * 200 * MBIT, (1 - share) * 200 * MBIT);
		sample_of(&w, 1, (1 - share) * 200 * MBIT, share * 200 * MBIT);
		assert_true(estimate(&w, 0) >= 99 * MBIT);
	}
	assert_true(estimate(&w, 0) > 105 * MBIT);
	assert_within(estimate(&w, SERVER), 200 * MBIT, 0.1);
	sample_of(&w, 2, 30 * MBIT, 160 * MBIT); /* 190 of 200: full */
	assert_within(estimate(&w, 2), 200 * MBIT, 0.1);
	hd_view_destroy(w.view);
}

/* A host's link drops to a fifth and recovers after a long time without traffic: it is tried with what
 * was last known, and probing brings it back within a few transfers. */
static void recovers_after_idling(void **state) {
	struct world w;

	(void)state;
	world_init(&w, 1000 * MBIT, 200 * MBIT);
	rounds(&w, 2);
	w.truth[5] = 40 * MBIT;
	for (int n = 0; n < 4; n++)
		push(&w, 5, 0);
	assert_within(estimate(&w, 5), 40 * MBIT, 0.1);
	w.truth[5] = 200 * MBIT;
	w.now += 3600 * HD_SECOND;
	for (int n = 0; n < 6; n++)
		push(&w, 5, 0);
	assert_within(estimate(&w, 5), 200 * MBIT, 0.1);
	hd_view_destroy(w.view);
}

/* A sample that its own pacing limited never lowers anything. */
static void pacing_never_lowers(void **state) {
	const uint32_t path[2] = {0, SERVER};
	const double none[2] = {0, 0};
	struct world w;

	(void)state;
	world_init(&w, 1000 * MBIT, 200 * MBIT);
	rounds(&w, 2);
	const double uplink = estimate(&w, 0), server = estimate(&w, SERVER);
	for (int n = 0; n < 50; n++) {
		const struct hd_view_sample sample = {
			.at = w.now,
			.bytes = 1000000,
			.rate_bps = 1 * MBIT,
			.limited = 0.9,
			.path_count = 2,
			.path = path,
			.beside_bps = none,
		};
		hd_view_sample(w.view, &sample);
	}
	assert_true(estimate(&w, 0) == uplink && estimate(&w, SERVER) == server);
	hd_view_destroy(w.view);
}

/* Transfers that share the server's link use it less well: seven eighths of it in all. That is no reason to
 * believe less of the hosts' links, of which each carried a small part. */
static void sharing_blames_no_host(void **state) {
	const uint32_t path[2] = {3, SERVER};
	const double others[2] = {0, 130 * MBIT};
	struct world w;

	(void)state;
	world_init(&w, 1000 * MBIT, 200 * MBIT);
	rounds(&w, 2);
	const double uplink = estimate(&w, 3);
	for (int n = 0; n < 5; n++) {
		const struct hd_view_sample sample = {
			.at = w.now += 100 * HD_MS,
			.bytes = 1000000,
			.rate_bps = 45 * MBIT,
			.path_count = 2,
			.path = path,
			.beside_bps = others,
		};
		hd_view_sample(w.view, &sample);
	}
	assert_true(estimate(&w, 3) >= uplink);
	assert_within(estimate(&w, SERVER), 180 * MBIT, 0.15);
	hd_view_destroy(w.view);
}

/* One transfer that was unlucky costs its link less than what lets others start beside the next. */
static void one_shortfall(void **state) {
	const uint32_t path[2] = {3, SERVER};
	const double none[2] = {0, 0};
	struct world w;

	(void)state;
	world_init(&w, 1000 * MBIT, 200 * MBIT);
	rounds(&w, 2);
	struct hd_view_sample sample = {
		.at = w.now + 100 * HD_MS,
		.bytes = 1000000,
		.rate_bps = 60 * MBIT,
		.path_count = 2,
		.path = path,
		.beside_bps = none,
	};
	hd_view_sample(w.view, &sample);
	assert_true(fmin(estimate(&w, 3), estimate(&w, SERVER)) > 150 * MBIT);
	/* Two in a row are the truth. */
	sample.at += 100 * HD_MS;
	hd_view_sample(w.view, &sample);
	assert_within(fmin(estimate(&w, 3), estimate(&w, SERVER)), 60 * MBIT, 0.05);
	hd_view_destroy(w.view);
}

/* Each link redrawn at U[0.25, 1] of 200 Mbit/s, with 5 % noise; after three rounds of each draw paths
 * are known within 15 %. */
static void redrawn(void **state) {
	struct world w;

	(void)state;
	world_init(&w, 1000 * MBIT, 200 * MBIT);
	w.noise = 0.05;
	for (int draw = 0; draw < 20; draw++) {
		for (uint32_t h = 0; h < HOSTS; h++)
			w.truth[h] = 200 * MBIT * (0.25 + 0.75 * hd_random_unit(&w.random));
		rounds(&w, 8);
		assert_paths(&w, 0.15);
	}
	hd_view_destroy(w.view);
}

/* Several hosts' links fall at once, while their transfers overlap on the server's: each one's transfers agree with
 * each other whatever else passed the server's, which is not to blame, and gets back what a single one took. */
static void several_fall_at_once(void **state) {
	static const double fallen[4] = {57 * MBIT, 97 * MBIT, 118 * MBIT, 73 * MBIT};
	static const double others[4] = {20 * MBIT, 47 * MBIT, 9 * MBIT, 0};
	struct world w;

	(void)state;
	world_init(&w, 1000 * MBIT, 200 * MBIT);
	rounds(&w, 2);
	for (uint32_t r = 0; r < 3; r++)
		for (uint32_t h = 0; h < 4; h++)
			sample_of(&w, h, fallen[h], others[(h + r) % 4]);
	for (uint32_t h = 0; h < 4; h++)
		assert_within(estimate(&w, h), fallen[h], 0.03);
	assert_within(estimate(&w, SERVER), 200 * MBIT, 0.03);
	hd_view_destroy(w.view);
}

/* On a full link equal parts say nothing about the hosts' own links. */
static void equal_parts_blame_no_host(void **state) {
	struct world w;

	(void)state;
	world_init(&w, 1000 * MBIT, 200 * MBIT);
	rounds(&w, 2);
	for (uint32_t n = 0; n < 12; n++)
		sample_of(&w, n % 4, 50 * MBIT, 148 * MBIT);
	for (uint32_t h = 0; h < 4; h++)
		assert_within(estimate(&w, h), 200 * MBIT, 0.03);
	hd_view_destroy(w.view);
}

/* Trials beside a full link stay near the measured rate. */
static void tries_stay_near(void **state) {
	struct world w;

	(void)state;
	world_init(&w, 1000 * MBIT, 200 * MBIT);
	w.truth[0] = 60 * MBIT;
	rounds(&w, 4);
	for (uint32_t n = 0; n < 20; n++)
		sample_of(&w, 0, 60 * MBIT, 130 * MBIT + (n % 3) * 5 * MBIT);
	assert_within(estimate(&w, 0), 60 * MBIT, 0.081);
	hd_view_destroy(w.view);
}

/* Two transfers in a row that their grants held back: the next is allowed more than a quarter above. */
static void strides(void **state) {
	double before[3];
	struct world w;

	(void)state;
	world_init(&w, 1000 * MBIT, 200 * MBIT);
	w.truth[5] = 40 * MBIT;
	rounds(&w, 4);
	w.truth[5] = 200 * MBIT;
	for (uint32_t n = 0; n < 3; n++) {
		before[n] = estimate(&w, 5);
		push(&w, 5, 0);
	}
	assert_within(before[1], PROBE * before[0], 0.01);
	assert_within(before[2], PROBE * PROBE * before[1], 0.01);
	assert_true(estimate(&w, 5) > 120 * MBIT);
	assert_true(estimate(&w, 5) <= 200.1 * MBIT);
	hd_view_destroy(w.view);
}

static void nonsense(void **state) {
	const uint32_t path[2] = {0, SERVER}, far[1] = {UINT32_MAX};
	const double none[2] = {0, 0}, odd[2] = {0, NAN};
	struct world w;

	(void)state;
	world_init(&w, 1000 * MBIT, 200 * MBIT);
	rounds(&w, 2);
	const double before = estimate(&w, SERVER);
	struct hd_view_sample sample
		= {.bytes = 1000000,
		   .rate_bps = NAN,
		   .path_count = 2,
		   .path = path,
		   .beside_bps = none};
	hd_view_sample(w.view, &sample);
	sample.rate_bps = -1;
	hd_view_sample(w.view, &sample);
	sample.rate_bps = INFINITY;
	hd_view_sample(w.view, &sample);
	sample.rate_bps = 1e9;
	sample.beside_bps = odd;
	hd_view_sample(w.view, &sample);
	sample.path = far;
	sample.beside_bps = none;
	sample.path_count = 1;
	hd_view_sample(w.view, &sample);
	sample.path_count = 0;
	hd_view_sample(w.view, &sample);
	assert_true(estimate(&w, SERVER) == before);
	hd_view_destroy(w.view);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_seen),
		cmocka_unit_test(forgotten),
		cmocka_unit_test(converges_down),
		cmocka_unit_test(converges_up),
		cmocka_unit_test(probing_is_bounded),
		cmocka_unit_test(slow_uplinks),
		cmocka_unit_test(slow_one_first),
		cmocka_unit_test(slow_server),
		cmocka_unit_test(beside),
		cmocka_unit_test(underestimates_do_not_last),
		cmocka_unit_test(recovers_after_idling),
		cmocka_unit_test(pacing_never_lowers),
		cmocka_unit_test(sharing_blames_no_host),
		cmocka_unit_test(one_shortfall),
		cmocka_unit_test(redrawn),
		cmocka_unit_test(several_fall_at_once),
		cmocka_unit_test(equal_parts_blame_no_host),
		cmocka_unit_test(tries_stay_near),
		cmocka_unit_test(strides),
		cmocka_unit_test(nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
