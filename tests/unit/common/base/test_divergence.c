/* SPDX-License-Identifier: BSD-3-Clause */
/* The bound of a replica's distance: the case worked by hand, the closed form, and true distances. */
#include "hd_divergence.h"
#include "hd_kernels.h"
#include "hd_random.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CASES 300
#define VALUES 97
#define STEPS 24

static struct hd_divergence d; /* tens of kilobytes */

static void add(double update, double momentum) {
	assert_int_equal(
		hd_divergence_add(
			&d, &(struct hd_divergence_step){.update = update, .momentum = momentum}
		),
		0
	);
}

static void near(double a, double b) {
	assert_true(fabs(a - b) <= 1e-12 * (1 + fabs(b)));
}

/* gamma = 9/10, u1 = (1, 0), u2 = (0, 1), w = h = 0. */
static void test_case_by_hand(void **state) {
	(void)state;
	hd_divergence_init(&d, 0.9, 0, 0, 0);
	near(hd_divergence_bound(&d), 0);
	near(hd_divergence_after(&d, 1, 1), 1);
	add(1, 1); /* h = (1, 0) */
	near(hd_divergence_bound(&d), 1);
	/* With Div_max 2 the second commit must wait. */
	near(hd_divergence_after(&d, 1, 1), 2.9);
	add(1, sqrt(0.81 + 1)); /* h = (0.9, 1) */
	near(hd_divergence_bound(&d), 2.9);
	assert_true(hd_divergence_bound(&d) > 2.147091);
	/* u1 went ahead: the replica is one behind, at h = (1, 0). */
	hd_divergence_confirm(&d, 1);
	near(hd_divergence_bound(&d), 1.9);
	assert_true(hd_divergence_bound(&d) > 1.345362);
	hd_divergence_confirm(&d, 1);
	near(hd_divergence_bound(&d), 0);
	near(hd_divergence_after(&d, 0, 1), 0.9 * sqrt(1.81));
}

static double closed_form(double gamma, double h, const double *x, int n) {
	double sum = 0;

	for (int m = 1; m <= n; m++)
		sum += h * pow(gamma, m);
	for (int j = 1; j <= n; j++)
		sum += gamma > 0 ? x[j - 1] * (1 - pow(gamma, n - j + 1)) / (1 - gamma) : x[j - 1];
	return sum;
}

static void test_closed_form(void **state) {
	struct hd_random r;
	double x[STEPS];

	(void)state;
	hd_random_init(&r, 11);
	for (int i = 0; i < CASES; i++) {
		double gamma = i % 5 == 0 ? 0 : 0.99 * hd_random_unit(&r);
		double h = 3 * hd_random_unit(&r);

		hd_divergence_init(&d, gamma, 0, h, 5);
		for (int n = 0; n < STEPS; n++) {
			x[n] = hd_random_unit(&r);
			near(hd_divergence_after(&d, x[n], 1), closed_form(gamma, h, x, n + 1));
			add(x[n], 1);
			near(hd_divergence_bound(&d), closed_form(gamma, h, x, n + 1));
		}
	}
}

/* Sums are steps like others, and confirmed whole. */
static void test_sums(void **state) {
	struct hd_random r;
	double x[STEPS];

	(void)state;
	hd_random_init(&r, 12);
	for (int i = 0; i < CASES; i++) {
		double gamma = 0.99 * hd_random_unit(&r), h = 3 * hd_random_unit(&r);
		struct hd_divergence_step step = {.momentum = 7};
		int n = 0;

		hd_divergence_init(&d, gamma, 0, h, 5);
		while (n + 4 <= STEPS) {
			uint32_t steps = 1 + (uint32_t)hd_random_below(&r, 4);

			step.update = hd_random_unit(&r);
			step.more = steps - 1;
			for (uint32_t k = 0; k < steps; k++)
				x[n++] = step.update;
			near(hd_divergence_after(&d, step.update, steps),
			     closed_form(gamma, h, x, n));
			assert_int_equal(hd_divergence_add(&d, &step), 0);
			near(hd_divergence_bound(&d), closed_form(gamma, h, x, n));
		}
		hd_divergence_confirm(&d, d.count - 1);
		for (uint32_t k = 0; k <= step.more; k++)
			x[k] = step.update;
		near(hd_divergence_bound(&d), closed_form(gamma, 7, x, (int)step.more + 1));
	}
}

static void test_limit(void **state) {
	(void)state;
	hd_divergence_init(&d, 0.5, 0, 0, 0);
	for (int i = 0; i < HD_REPLICA_LAG_MAX; i++)
		add(1, 1);
	assert_int_equal(
		hd_divergence_add(&d, &(struct hd_divergence_step){.update = 1}), -ENOBUFS
	);
	assert_int_equal(d.count, HD_REPLICA_LAG_MAX);
	hd_divergence_confirm(&d, 3 * HD_REPLICA_LAG_MAX);
	assert_int_equal(d.count, 0);
	near(hd_divergence_bound(&d), 0);
}

/* --- against the arithmetic that servers and replicas really do --------------------------------- */

struct node {
	float w[VALUES], h[VALUES];
};

struct update {
	float g[VALUES];
	uint32_t from, to; /* values that it names; all of them: dense */
	uint32_t steps; /* of a sum: one for each member */
};

static double norm(const float *x) {
	return sqrt(hd_norm2_f32(x, VALUES));
}

/* Returns the norm of each step. */
static double apply(struct node *node, const struct update *u, const struct hd_sgd *sgd) {
	const struct hd_sgd_sum how = {*sgd, u->steps, HD_DTYPE_FP32};
	size_t count = u->to - u->from;

	hd_sgd_apply_sum(node->w + u->from, node->h + u->from, u->g + u->from, count, &how);
	return (double)sgd->learning_rate * sqrt(hd_norm2_f32(u->g + u->from, count)) / u->steps;
}

static double distance(const struct node *a, const struct node *b) {
	double sum = 0;

	for (int i = 0; i < VALUES; i++)
		sum += ((double)a->w[i] - (double)b->w[i]) * ((double)a->w[i] - (double)b->w[i]);
	return sqrt(sum);
}

static void draw(struct hd_random *r, struct update *u) {
	double size = pow(10, 2 * hd_random_unit(r) - 1);

	for (int i = 0; i < VALUES; i++)
		u->g[i] = (float
		)(size * (hd_random_unit(r) - 0.3)); /* updates that agree: the worst */
	u->from = 0;
	u->to = VALUES;
	u->steps = 1 + (uint32_t)(hd_random_below(r, 2) * hd_random_below(r, 5));
	if (hd_random_below(r, 3) == 0) {
		u->from = (uint32_t)hd_random_below(r, VALUES - 1);
		u->to = u->from + 1 + (uint32_t)hd_random_below(r, VALUES - u->from);
	}
}

/* A server that runs ahead and a replica that follows by jumps: always within the bound, and in the end equal. */
static void follow(struct hd_random *r, const struct hd_sgd *sgd, double *tightest) {
	static struct update updates[STEPS];
	struct node server, replica;
	int applied = 0;

	memset(&server, 0, sizeof server);
	for (int i = 0; i < VALUES; i++) {
		server.w[i] = (float)(2 * hd_random_unit(r) - 1);
		server.h[i] = (float)(0.2 * hd_random_unit(r));
	}
	replica = server;
	hd_divergence_init(
		&d,
		(double)sgd->momentum,
		(double)sgd->learning_rate * (double)sgd->decay,
		norm(server.h),
		norm(server.w)
	);
	for (int i = 0; i < STEPS; i++) {
		struct hd_divergence_step step;
		double said, real;

		draw(r, &updates[i]);
		step.update = apply(&server, &updates[i], sgd);
		step.more = updates[i].steps - 1;
		step.momentum = norm(server.h);
		step.weights = norm(server.w);
		said = hd_divergence_after(&d, step.update, step.more + 1);
		assert_int_equal(hd_divergence_add(&d, &step), 0);
		near(hd_divergence_bound(&d), said);
		real = distance(&server, &replica);
		assert_true(real <= said * (1 + 1e-5) + 1e-5);
		*tightest = fmax(*tightest, real / said);
		while (applied <= i && hd_random_below(r, 4) == 0) {
			apply(&replica, &updates[applied++], sgd);
			hd_divergence_confirm(&d, 1);
			assert_true(
				distance(&server, &replica)
				<= hd_divergence_bound(&d) * (1 + 1e-5) + 1e-5
			);
		}
	}
	while (applied < STEPS)
		apply(&replica, &updates[applied++], sgd);
	assert_memory_equal(&server, &replica, sizeof server);
}

static void test_true_distance(void **state) {
	double tightest = 0;
	struct hd_random r;

	(void)state;
	hd_random_init(&r, 5);
	for (int i = 0; i < CASES; i++) {
		struct hd_sgd sgd = {
			.learning_rate = (float)(0.01 + 0.5 * hd_random_unit(&r)),
			.momentum = i % 3 ? (float)(0.95 * hd_random_unit(&r)) : 0,
			.decay = i % 2 ? (float)(0.3 * hd_random_unit(&r)) : 0,
		};

		follow(&r, &sgd, &tightest);
	}
	/* A bound that is never nearly reached would prove little. */
	assert_true(tightest > 0.9);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_case_by_hand),
		cmocka_unit_test(test_closed_form),
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_true_distance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
