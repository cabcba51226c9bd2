/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Consensus ADMM against a straight reference in double precision, on quadratics
 *   f_k(x) = 1/2 sum_i a_ki (x_i - b_ki)^2      whose sum is least at z_i = sum_k a_ki b_ki / sum_k a_ki,
 * through the server's own step, with updates that get lost, and as fixed-point lanes in every order.
 */
#include "hd_admm.h"
#include "hd_kernels.h"
#include "hd_random.h"
#include "hd_types.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define WORKERS 3
#define VALUES 37
#define RATE 0.25f
#define RHO 0.8f
#define NEAR 2e-5

struct world {
	double a[WORKERS][VALUES], b[WORKERS][VALUES], least[VALUES];
	struct hd_admm admm[WORKERS];
	bool applied[WORKERS];
	float z[VALUES], momentum[VALUES], update[WORKERS][VALUES];
	/* The reference: the same letters as in Boyd et al., 7.1. */
	double rx[WORKERS][VALUES], ru[WORKERS][VALUES], rz[VALUES];
};

static double between(struct hd_random *random, double low, double high) {
	return low + (high - low) * hd_random_unit(random);
}

static void world_init(struct world *world, uint64_t seed) {
	struct hd_random random;

	memset(world, 0, sizeof *world);
	hd_random_init(&random, seed);
	for (int i = 0; i < VALUES; i++) {
		double weight = 0, sum = 0;

		world->z[i] = (float)between(&random, -1, 1);
		world->rz[i] = (double)world->z[i];
		for (int k = 0; k < WORKERS; k++) {
			world->a[k][i] = (double)(float)between(&random, 0.1, 1.5);
			world->b[k][i] = (double)(float)between(&random, -3, 3);
			world->rx[k][i] = world->rz[i];
			weight += world->a[k][i];
			sum += world->a[k][i] * world->b[k][i];
		}
		world->least[i] = sum / weight;
	}
	for (int k = 0; k < WORKERS; k++)
		assert_int_equal(hd_admm_init(&world->admm[k], VALUES, RATE, RHO), 0);
}

static void world_fini(struct world *world) {
	for (int k = 0; k < WORKERS; k++)
		hd_admm_fini(&world->admm[k]);
}

/* Each worker's local steps and its update. */
static void compute(struct world *world, int steps) {
	float grad[VALUES];

	for (int k = 0; k < WORKERS; k++) {
		struct hd_admm *admm = &world->admm[k];

		hd_admm_begin(admm, world->z, world->applied[k]);
		for (int s = 0; s < steps; s++) {
			for (int i = 0; i < VALUES; i++)
				grad[i] = (float
				)(world->a[k][i] * ((double)admm->x[i] - world->b[k][i]));
			hd_admm_step(admm, grad);
		}
		hd_admm_update(admm, world->update[k]);
	}
}

/* The server's step: of the mean of those that came. */
static void serve(struct world *world, const bool came[WORKERS]) {
	const struct hd_sgd sgd = {.learning_rate = RATE};
	float sum[VALUES] = {0};
	uint32_t count = 0;

	for (int k = 0; k < WORKERS; k++) {
		world->applied[k] = came[k];
		if (!came[k])
			continue;
		hd_add_f32(sum, world->update[k], VALUES);
		count++;
	}
	/* A step of the mean, as a synchronous job's: their sum divided by their number. */
	hd_scale_f32(sum, sum, VALUES, 1.0f / (float)count);
	(void)hd_sgd_apply(world->z, world->momentum, sum, VALUES, &sgd);
}

/* One round as the paper writes it, in double; gradient steps, or the exact least x when steps is 0. */
static void reference(struct world *world, int steps) {
	for (int i = 0; i < VALUES; i++) {
		double mean = 0;

		for (int k = 0; k < WORKERS; k++) {
			double centre = world->rz[i] - world->ru[k][i], a = world->a[k][i],
			       x = world->rx[k][i];

			for (int s = 0; s < steps; s++)
				x -= (double)RATE
					* (a * (x - world->b[k][i]) + (double)RHO * (x - centre));
			if (steps == 0)
				x = (a * world->b[k][i] + (double)RHO * centre) / (a + (double)RHO);
			world->rx[k][i] = x;
			mean += (x + world->ru[k][i]) / WORKERS;
		}
		for (int k = 0; k < WORKERS; k++)
			world->ru[k][i] += world->rx[k][i] - mean;
		world->rz[i] = mean;
	}
}

static const bool all[WORKERS] = {true, true, true};

static void assert_near(double a, double b, double limit) {
	if (!(fabs(a - b) <= limit))
		fail_msg("%.9g is not within %g of %.9g", a, limit, b);
}

/* Round by round what the reference says, then the known fixed point, with its duals. */
static void test_reference(void **state) {
	struct world world;

	(void)state;
	world_init(&world, 11);
	for (int round = 0; round < 400; round++) {
		compute(&world, 5);
		serve(&world, all);
		reference(&world, 5);
		for (int i = 0; i < VALUES; i++)
			assert_near((double)world.z[i], world.rz[i], NEAR);
	}
	compute(&world, 5);
	for (int i = 0; i < VALUES; i++) {
		double duals = 0;

		assert_near((double)world.z[i], world.least[i], NEAR);
		for (int k = 0; k < WORKERS; k++) {
			double u = (double)world.admm[k].u[i];

			/* grad f_k(z) + rho u_k = 0 */
			assert_near(
				world.a[k][i] * (world.least[i] - world.b[k][i]),
				-(double)RHO * u,
				5 * NEAR
			);
			duals += u;
		}
		assert_near(duals, 0, NEAR);
	}
	world_fini(&world);
}

/* With many local steps they are the argmin: the paper's iteration itself. */
static void test_exact_steps(void **state) {
	struct world world;

	(void)state;
	world_init(&world, 12);
	for (int round = 0; round < 20; round++) {
		compute(&world, 200);
		serve(&world, all);
		reference(&world, 0);
		for (int i = 0; i < VALUES; i++)
			assert_near((double)world.z[i], world.rz[i], NEAR);
	}
	world_fini(&world);
}

/* Updates that are dropped: after each step the duals of those in it add up to 0, and all arrive at the same point. */
static void test_dropped(void **state) {
	struct hd_random random;
	struct world world;

	(void)state;
	world_init(&world, 13);
	hd_random_init(&random, 14);
	for (int round = 0; round < 600; round++) {
		bool came[WORKERS];
		uint64_t draw = round < 200 ? hd_random_u64(&random) : 7;

		for (int k = 0; k < WORKERS; k++)
			came[k] = (draw >> k & 1) || k == round % WORKERS;
		compute(&world, 5);
		serve(&world, came);
		compute(&world, 0); /* duals follow z now; x stays */
		for (int i = 0; i < VALUES; i++) {
			double duals = 0;

			for (int k = 0; k < WORKERS; k++)
				duals += came[k] ? (double)world.admm[k].u[i] : 0;
			assert_near(duals, 0, 10 * NEAR);
		}
		memset(world.applied, 0, sizeof world.applied); /* they have followed */
	}
	for (int i = 0; i < VALUES; i++)
		assert_near((double)world.z[i], world.least[i], NEAR);
	world_fini(&world);
}

/* The same z, bit for bit, in whatever order fixed-point updates are added. */
static void test_order(void **state) {
	static const int orders[6][WORKERS]
		= {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
	struct world world;
	float first[VALUES] = {0};

	(void)state;
	world_init(&world, 15);
	for (int round = 0; round < 30; round++) {
		double peaks = 0;
		int exponent;
		float from[VALUES];

		compute(&world, 5);
		for (int k = 0; k < WORKERS; k++)
			peaks += (double)hd_peak_f32(world.update[k], VALUES);
		exponent = hd_fixed_exponent(peaks, WORKERS);
		memcpy(from, world.z, sizeof from);
		for (int o = 0; o < 6; o++) {
			const struct hd_sgd sgd = {.learning_rate = RATE};
			uint32_t sum[VALUES] = {0}, lanes[VALUES];
			float mean[VALUES];

			for (int k = 0; k < WORKERS; k++) {
				const float *update = world.update[orders[o][k]];

				assert_false(hd_fixed_from_f32(lanes, update, VALUES, 1, exponent));
				assert_false(hd_add_fixed(sum, lanes, VALUES));
			}
			hd_fixed_to_f32(mean, sum, VALUES, exponent);
			hd_scale_f32(mean, mean, VALUES, 1.0f / WORKERS);
			memcpy(world.z, from, sizeof from);
			(void)hd_sgd_apply(world.z, world.momentum, mean, VALUES, &sgd);
			if (o == 0)
				memcpy(first, world.z, sizeof first);
			assert_memory_equal(world.z, first, sizeof first);
		}
		for (int k = 0; k < WORKERS; k++)
			world.applied[k] = true;
	}
	world_fini(&world);
}

/* Alone, a worker agrees with itself: u stays 0, z is x. */
static void test_alone(void **state) {
	struct hd_admm admm;
	float z[2] = {1, -2}, grad[2] = {1, 1}, update[2];

	(void)state;
	assert_int_equal(hd_admm_init(&admm, 2, 0.5f, 1), 0);
	for (int round = 0; round < 4; round++) {
		hd_admm_begin(&admm, z, true);
		hd_admm_step(&admm, grad);
		hd_admm_update(&admm, update);
		for (int i = 0; i < 2; i++) {
			z[i] -= 0.5f * update[i];
			assert_true(z[i] == admm.x[i]);
			assert_true(admm.u[i] == 0);
		}
	}
	assert_true(z[0] == -1 && z[1] == -4);
	hd_admm_fini(&admm);
}

static void test_limits(void **state) {
	struct hd_admm admm = {.values = 99};

	(void)state;
	assert_int_equal(hd_admm_init(&admm, 0, 0.1f, 1), -EINVAL);
	assert_int_equal(hd_admm_init(&admm, 4, 0, 1), -EINVAL);
	assert_int_equal(hd_admm_init(&admm, 4, 0.1f, 0), -EINVAL);
	assert_int_equal(hd_admm_init(&admm, 4, NAN, 1), -EINVAL);
	assert_int_equal(hd_admm_init(&admm, 4, 0.1f, INFINITY), -EINVAL);
	assert_int_equal(hd_admm_init(&admm, 4, 0.5f, 2.5f), -EINVAL);
	assert_int_equal(hd_admm_init(&admm, UINT64_MAX / 4, 0.1f, 1), -EINVAL);
	assert_int_equal(admm.values, 99);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reference),
		cmocka_unit_test(test_exact_steps),
		cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
