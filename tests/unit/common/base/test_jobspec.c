/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_jobspec.h"
#include "hd_random.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct hd_tensor tensors[2] = {
	{.name = "fc1.weight",
	 .dimension_count = 2,
	 .dimension = {64, 100},
	 .init = HD_INIT_UNIFORM,
	 .init_scale = 0.1F},
	{.name = "fc1.bias", .dimension_count = 1, .dimension = {64}},
};

static struct hd_jobspec sample(void) {
	return (struct hd_jobspec){
		.tenant = "lab",
		.name = "digits",
		.seed = 42,
		.learning_rate = 0.05F,
		.momentum = 0.9F,
		.weight_decay = 1e-4F,
		.staleness_rule = HD_STALENESS_ADADELAY,
		.staleness_c = 2,
		.tau_max = 16,
		.tensor_count = 2,
		.tensors = tensors,
	};
}

static void test_round_trip_and_truncation(void **state) {
	struct hd_jobspec spec = sample(), out;
	uint8_t data[1000];
	char difference[200];
	int bytes = hd_jobspec_encode(&spec, data, sizeof data);

	(void)state;
	assert_true(bytes > 0);
	assert_int_equal(hd_jobspec_decode(data, (size_t)bytes, &out), 0);
	assert_true(hd_jobspec_equal(&spec, &out, difference, sizeof difference));
	assert_string_equal(out.tensors[0].name, "fc1.weight");
	hd_jobspec_fini(&out);
	for (int cut = 0; cut < bytes; cut++) {
		uint8_t *exact = test_malloc((size_t)cut + 1);

		memcpy(exact + 1, data, (size_t)cut);
		assert_int_equal(hd_jobspec_decode(exact + 1, (size_t)cut, &out), -EBADMSG);
		test_free(exact);
		assert_int_equal(hd_jobspec_encode(&spec, data, (size_t)cut), -EMSGSIZE);
		assert_int_equal(hd_jobspec_encode(&spec, data, sizeof data), bytes);
	}
	data[bytes] = 0;
	assert_int_equal(hd_jobspec_decode(data, (size_t)bytes + 1, &out), -EBADMSG);
	data[1] = 8; /* a version that is not known */
	assert_int_equal(hd_jobspec_decode(data, (size_t)bytes, &out), -EBADMSG);
}

/* A bound for the replica makes it the second version of the description; none is still the first. */
static void test_bounded(void **state) {
	struct hd_jobspec spec = sample(), out;
	uint8_t plain[1000], bounded[1000];
	int bytes = hd_jobspec_encode(&spec, plain, sizeof plain), more;
	char difference[200];

	(void)state;
	spec.div_max = 2.5F;
	more = hd_jobspec_encode(&spec, bounded, sizeof bounded);
	assert_int_equal(more, bytes + 4);
	assert_int_equal(plain[1], 1);
	assert_int_equal(bounded[1], 2);
	assert_int_equal(hd_jobspec_decode(bounded, (size_t)more, &out), 0);
	assert_true(out.div_max >= 2.5F && out.div_max <= 2.5F);
	assert_true(hd_jobspec_equal(&spec, &out, difference, sizeof difference));
	hd_jobspec_fini(&out);
	assert_int_equal(hd_jobspec_decode(plain, (size_t)bytes, &out), 0);
	assert_true(out.div_max <= 0);
	assert_false(hd_jobspec_equal(&spec, &out, difference, sizeof difference));
	assert_string_equal(difference, "div_max: 2.5, the job has 0");
	hd_jobspec_fini(&out);
	spec.div_max = -1;
	assert_int_equal(hd_jobspec_check(&spec, difference, sizeof difference), -EINVAL);
}

/* A bit of the flags: the same size, and the same version. */
static void test_unsealed(void **state) {
	struct hd_jobspec spec = sample(), out;
	uint8_t sealed[1000], data[1000];
	const size_t flags
		= 2 + 1 + 3 + 1 + 6 + 8 + 1 + 3 * 4 + 1 + 4 + 4; /* what stands before it */
	int bytes = hd_jobspec_encode(&spec, sealed, sizeof sealed);
	char text[200];

	(void)state;
	assert_int_equal(sealed[flags], 0);
	for (uint8_t set = 0; set < 4; set++) {
		spec.allow_not_finite = (set & 1) != 0;
		spec.unsealed = (set & 2) != 0;
		assert_int_equal(hd_jobspec_encode(&spec, data, sizeof data), bytes);
		assert_int_equal(data[flags], set);
		assert_int_equal(hd_jobspec_decode(data, (size_t)bytes, &out), 0);
		assert_int_equal(out.allow_not_finite, spec.allow_not_finite);
		assert_int_equal(out.unsealed, spec.unsealed);
		hd_jobspec_fini(&out);
		data[flags] = 0;
		assert_memory_equal(data, sealed, (size_t)bytes);
	}
	for (unsigned wrong = 4; wrong <= UINT8_MAX; wrong++) {
		data[flags] = (uint8_t)wrong;
		assert_int_equal(hd_jobspec_decode(data, (size_t)bytes, &out), -EBADMSG);
	}
	out = sample();
	spec = sample();
	spec.unsealed = true;
	assert_false(hd_jobspec_equal(&spec, &out, text, sizeof text));
	assert_string_equal(text, "integrity: off, the job has on");
	assert_false(hd_jobspec_equal(&out, &spec, text, sizeof text));
	assert_string_equal(text, "integrity: on, the job has off");
}

/* The seventh version is that of a synchronous job (the third) whose rate is right for a number of workers. */
static void test_scaled(void **state) {
	struct hd_jobspec spec = sample(), out;
	uint8_t data[1000];
	char text[200];
	int bytes, more;

	(void)state;
	spec.sync = HD_SYNC_ALL;
	spec.staleness_rule = HD_STALENESS_CONSTANT;
	bytes = hd_jobspec_encode(&spec, data, sizeof data);
	assert_int_equal(data[1], 3);
	spec.scale_base = 6;
	more = hd_jobspec_encode(&spec, data, sizeof data);
	assert_int_equal(more, bytes + 4);
	assert_int_equal(data[1], 7);
	assert_int_equal(hd_jobspec_decode(data, (size_t)more, &out), 0);
	assert_int_equal(out.scale_base, 6);
	assert_true(hd_jobspec_equal(&spec, &out, text, sizeof text));
	spec.scale_base = 5;
	assert_false(hd_jobspec_equal(&spec, &out, text, sizeof text));
	assert_string_equal(text, "scale_base: 5, the job has 6");
	hd_jobspec_fini(&out);
	spec.scale_base = HD_WORKERS_MAX + 1;
	assert_int_equal(hd_jobspec_check(&spec, text, sizeof text), -EINVAL);
	assert_string_equal(text, "scale_base: 4097 (0..HD_WORKERS_MAX 4096)");
	spec.scale_base = 0; /* has one encoding: the third */
	more = hd_jobspec_encode(&spec, data, sizeof data);
	data[1] = 7;
	assert_int_equal(hd_jobspec_decode(data, (size_t)more, &out), -EBADMSG);
	spec.scale_base = 1;
	spec.sync = HD_SYNC_NONE;
	assert_int_equal(hd_jobspec_check(&spec, text, sizeof text), -EINVAL);
	assert_string_equal(text, "scale_base: only of synchronous steps");
}

/* The fourth version has rounds, the fifth what becomes of late updates (dropped is the fourth), the sixth how long
 * rounds wait for clients. */
static void test_federated(void **state) {
	struct hd_jobspec spec = sample(), out;
	uint8_t data[1000];
	char text[200];
	int bytes, more;

	(void)state;
	spec.sync = HD_SYNC_FEDERATED;
	spec.staleness_rule = HD_STALENESS_CONSTANT;
	spec.federated = (struct hd_federated
	){.seed = 3, .clients = 10, .clients_least = 2, .epochs = 20, .mu = 0.5F};
	bytes = hd_jobspec_encode(&spec, data, sizeof data);
	assert_int_equal(data[1], 4);
	assert_int_equal(hd_jobspec_decode(data, (size_t)bytes, &out), 0);
	assert_true(hd_jobspec_equal(&spec, &out, text, sizeof text));
	spec.federated.late = HD_LATE_WEIGHT;
	assert_false(hd_jobspec_equal(&spec, &out, text, sizeof text));
	assert_string_equal(text, "late: 1, the job has 0");
	hd_jobspec_fini(&out);
	more = hd_jobspec_encode(&spec, data, sizeof data);
	assert_int_equal(more, bytes + 1);
	assert_int_equal(data[1], 5);
	assert_int_equal(hd_jobspec_decode(data, (size_t)more, &out), 0);
	assert_int_equal(out.federated.late, HD_LATE_WEIGHT);
	hd_jobspec_fini(&out);
	data[1] = 6;
	assert_int_equal(hd_jobspec_decode(data, (size_t)more, &out), -EBADMSG);
	spec.federated.late = HD_LATE_DROP;
	spec.federated.wait_ms = 60000;
	more = hd_jobspec_encode(&spec, data, sizeof data);
	assert_int_equal(more, bytes + 5);
	assert_int_equal(data[1], 6);
	assert_int_equal(hd_jobspec_decode(data, (size_t)more, &out), 0);
	assert_int_equal(out.federated.wait_ms, 60000);
	spec.federated.wait_ms = 1;
	assert_false(hd_jobspec_equal(&spec, &out, text, sizeof text));
	assert_string_equal(text, "wait_ms: 1, the job has 60000");
	hd_jobspec_fini(&out);
	spec.federated.wait_ms = HD_ROUND_MS_MAX + 1;
	assert_int_equal(hd_jobspec_check(&spec, text, sizeof text), -EINVAL);
	assert_string_equal(text, "wait_ms: 86400001 (0..HD_ROUND_MS_MAX 86400000)");
	spec.federated.wait_ms = 0;
	data[1] = 8;
	assert_int_equal(hd_jobspec_decode(data, (size_t)more, &out), -EBADMSG);
	data[1] = 7; /* of another kind of job */
	assert_int_equal(hd_jobspec_decode(data, (size_t)more, &out), -EBADMSG);
	spec.federated.late = HD_LATE_WEIGHT + 1;
	assert_int_equal(hd_jobspec_check(&spec, text, sizeof text), -EINVAL);
	assert_string_equal(text, "late: 2 is unknown");
}

/* The third version says when the server makes its steps. */
static void test_synchronous(void **state) {
	struct hd_jobspec spec = sample(), out;
	uint8_t data[1000];
	char text[200];
	int bytes;

	(void)state;
	spec.sync = HD_SYNC_N;
	assert_int_equal(hd_jobspec_check(&spec, text, sizeof text), -EINVAL);
	assert_string_equal(text, "sync_count: 0 (1..HD_WORKERS_MAX 4096)");
	spec.sync_count = HD_WORKERS_MAX + 1;
	assert_int_equal(hd_jobspec_check(&spec, text, sizeof text), -EINVAL);
	spec.sync_count = 4;
	spec.staleness_rule = HD_STALENESS_ADADELAY;
	assert_int_equal(hd_jobspec_check(&spec, text, sizeof text), -EINVAL);
	assert_string_equal(text, "staleness_rule: must be constant with sync");
	spec.staleness_rule = HD_STALENESS_CONSTANT;
	assert_int_equal(hd_jobspec_check(&spec, text, sizeof text), 0);
	bytes = hd_jobspec_encode(&spec, data, sizeof data);
	assert_true(bytes > 0);
	assert_int_equal(data[1], 3);
	assert_int_equal(hd_jobspec_decode(data, (size_t)bytes, &out), 0);
	assert_int_equal(out.sync, HD_SYNC_N);
	assert_int_equal(out.sync_count, 4);
	assert_true(hd_jobspec_equal(&spec, &out, text, sizeof text));
	spec.sync_count = 3;
	assert_false(hd_jobspec_equal(&spec, &out, text, sizeof text));
	assert_string_equal(text, "sync_count: 3, the job has 4");
	hd_jobspec_fini(&out);
	spec.sync = HD_SYNC_ALL;
	assert_int_equal(hd_jobspec_check(&spec, text, sizeof text), -EINVAL);
	spec.sync_count = 0;
	assert_int_equal(hd_jobspec_check(&spec, text, sizeof text), 0);
	assert_false(hd_jobspec_equal(&spec, &out, text, sizeof text));
	spec.sync = HD_SYNC_COUNT;
	assert_int_equal(hd_jobspec_check(&spec, text, sizeof text), -EINVAL);
}

static void test_changed_bytes_are_checked(void **state) {
	struct hd_jobspec spec = sample(), out;
	uint8_t data[1000];
	int bytes = hd_jobspec_encode(&spec, data, sizeof data);
	struct hd_random r;
	char error[200];
	unsigned accepted = 0;

	(void)state;
	hd_random_init(&r, 1);
	for (int i = 0; i < 100000; i++) {
		uint8_t changed[1000];

		memcpy(changed, data, (size_t)bytes);
		for (uint64_t k = 1 + hd_random_below(&r, 3); k > 0; k--)
			changed[hd_random_below(&r, (uint64_t)bytes)] = (uint8_t)hd_random_u64(&r);
		if (hd_jobspec_decode(changed, (size_t)bytes, &out) < 0)
			continue;
		accepted++;
		assert_int_equal(hd_jobspec_check(&out, error, sizeof error), 0);
		assert_int_equal(hd_jobspec_encode(&out, data, sizeof data), bytes);
		assert_memory_equal(data, changed, (size_t)bytes);
		hd_jobspec_fini(&out);
		hd_jobspec_encode(&spec, data, sizeof data);
	}
	assert_in_range(accepted, 1000, 99000);
}

static void refused(const struct hd_jobspec *spec, const char *words) {
	char error[200] = "";

	assert_int_equal(hd_jobspec_check(spec, error, sizeof error), -EINVAL);
	assert_non_null(strstr(error, words));
}

static void test_checks_of_the_job(void **state) {
	struct hd_jobspec spec = sample();
	char error[200];

	(void)state;
	assert_int_equal(hd_jobspec_check(&spec, error, sizeof error), 0);
	spec.tenant[0] = '\0';
	refused(&spec, "tenant:");
	spec = sample();
	spec.name[1] = '\n';
	refused(&spec, "name:");
	spec = sample();
	spec.tau_max = 0;
	refused(&spec, "tau_max: 0");
	spec.tau_max = HD_TAU_MAX_LIMIT + 1;
	refused(&spec, "HD_TAU_MAX_LIMIT");
	spec = sample();
	spec.optimizer = 1;
	refused(&spec, "optimizer: 1");
	spec = sample();
	spec.learning_rate = NAN;
	refused(&spec, "learning_rate:");
	spec = sample();
	spec.momentum = 1;
	refused(&spec, "momentum:");
	spec = sample();
	spec.weight_decay = -1;
	refused(&spec, "weight_decay:");
	spec = sample();
	spec.staleness_rule = HD_STALENESS_COUNT;
	refused(&spec, "staleness_rule: 3");
	spec = sample();
	spec.staleness_c = 0;
	refused(&spec, "staleness_c:");
	spec.staleness_rule = HD_STALENESS_CONSTANT; /* which does not look at it */
	assert_int_equal(hd_jobspec_check(&spec, error, sizeof error), 0);
}

static void test_checks_of_tensors(void **state) {
	struct hd_jobspec spec = sample(), decoded;
	struct hd_tensor own[2];
	uint8_t data[1000];
	char error[200];
	int bytes;

	(void)state;
	spec.tensors = own;
	memcpy(own, tensors, sizeof own);
	own[1].dtype = HD_DTYPE_FP16;
	refused(&spec, "tensors[1].dtype: 1");
	memcpy(own, tensors, sizeof own);
	own[0].dimension[1] = 0;
	refused(&spec, "tensors[0].shape:");
	own[0].dimension[1] = UINT64_C(1) << 63;
	refused(&spec, "tensors[0].shape:");
	own[0].dimension_count = HD_DIMENSIONS_MAX + 1;
	refused(&spec, "HD_DIMENSIONS_MAX");
	memcpy(own, tensors, sizeof own);
	own[0].dimension[0] = own[1].dimension[0] = UINT64_C(1) << 37; /* 2^39 bytes and more */
	own[0].dimension[1] = 1;
	assert_true(hd_jobspec_values(&spec) > 0);
	own[0].dimension[1] = 2;
	refused(&spec, "together");
	assert_int_equal(hd_jobspec_values(&spec), 0);
	assert_int_equal(hd_jobspec_model_bytes(&spec), 0);
	memcpy(own, tensors, sizeof own);
	own[0].init = 9;
	refused(&spec, "tensors[0].init: 9");
	own[0].init = HD_INIT_UNIFORM;
	own[0].init_scale = INFINITY;
	refused(&spec, "init_scale");
	memcpy(own, tensors, sizeof own);
	memcpy(own[1].name, own[0].name, sizeof own[0].name);
	refused(&spec, "two are named \"fc1.weight\"");
	/* No model: fine for a job of all-reduces, which is never sent to a server. */
	spec.tensor_count = 0;
	assert_int_equal(hd_jobspec_check(&spec, error, sizeof error), 0);
	assert_int_equal(hd_jobspec_model_bytes(&spec), 0);
	bytes = hd_jobspec_encode(&spec, data, sizeof data);
	assert_true(bytes > 0);
	assert_int_equal(hd_jobspec_decode(data, (size_t)bytes, &decoded), -EBADMSG);
	spec.tensor_count = HD_TENSORS_MAX + 1;
	refused(&spec, "HD_TENSORS_MAX");
}

static void differs(const struct hd_jobspec *spec, const char *words) {
	struct hd_jobspec job = sample();
	char difference[200] = "";

	assert_false(hd_jobspec_equal(spec, &job, difference, sizeof difference));
	assert_string_equal(difference, words);
}

static void test_differences_in_words(void **state) {
	struct hd_jobspec spec = sample();
	struct hd_tensor own[2];

	(void)state;
	memcpy(own, tensors, sizeof own);
	spec.tensors = own;
	spec.tau_max = 8;
	differs(&spec, "tau_max: 8, the job has 16");
	spec = sample();
	spec.seed = 43;
	differs(&spec, "seed: 43, the job has 42");
	spec = sample();
	spec.momentum = 0.5F;
	differs(&spec, "momentum: 0.5, the job has 0.9");
	spec = sample();
	/* The next float: both texts say which it is. */
	spec.momentum = nextafterf(0.9F, 1);
	differs(&spec, "momentum: 0.90000004, the job has 0.9");
	spec = sample();
	spec.tensor_count = 1;
	differs(&spec, "tensors: 1, the job has 2");
	spec = sample();
	spec.tensors = own;
	own[0].dimension[1] = 128;
	differs(&spec, "tensor 0 (fc1.weight): shape 64x128, the job has 64x100");
	own[0].dimension_count = 0;
	differs(&spec, "tensor 0 (fc1.weight): shape scalar, the job has 64x100");
	memcpy(own, tensors, sizeof own);
	(void)snprintf(own[1].name, sizeof own[1].name, "bias");
	differs(&spec, "tensor 1: name bias, the job has fc1.bias");
	memcpy(own, tensors, sizeof own);
	own[1].init = HD_INIT_UNIFORM;
	differs(&spec, "tensor 1 (fc1.bias): init 1 scale 0, the job has 0 scale 0");
}

static void test_initial_values(void **state) {
	struct hd_jobspec spec = sample();
	uint64_t values = hd_jobspec_values(&spec);
	float *a = malloc(values * sizeof(float)), *b = malloc(values * sizeof(float));
	double sum = 0, sum2 = 0;

	(void)state;
	assert_int_equal(values, 6464);
	assert_int_equal(hd_jobspec_model_bytes(&spec), 4 * 6464);
	assert_non_null(a);
	assert_non_null(b);
	hd_jobspec_initialize(&spec, a);
	hd_jobspec_initialize(&spec, b);
	assert_memory_equal(a, b, values * sizeof(float));
	for (int i = 0; i < 6400; i++) {
		assert_true(a[i] >= -0.1F && a[i] < 0.1F);
		sum += (double)a[i];
		sum2 += (double)a[i] * (double)a[i];
	}
	assert_true(fabs(sum / 6400) < 0.003); /* five deviations of the mean of 6400 */
	assert_true(fabs(sum2 / 6400 - 0.01 / 3) < 0.0002);
	for (int i = 6400; i < 6464; i++)
		assert_true(a[i] == 0);
	spec.seed++;
	hd_jobspec_initialize(&spec, b);
	assert_memory_not_equal(a, b, values * sizeof(float));
	free(a);
	free(b);
}

static void test_weights(void **state) {
	static const float c[] = {NAN, INFINITY, -1, 0, 1e-38F, 1e-45F, 3e38F, 2};
	static const uint64_t t[] = {0, 1, 1000, UINT64_MAX};

	(void)state;
	for (unsigned rule = 0; rule < 5; rule++)
		for (size_t i = 0; i < 8; i++)
			for (size_t k = 0; k < 4; k++)
				for (uint32_t tau = 0; tau <= 16; tau += 16) {
					float w = hd_staleness_weight(
						(uint8_t)rule, c[i], tau, t[k], tau
					);

					assert_true(isfinite(w) && w > 0);
				}
	assert_true(hd_staleness_weight(HD_STALENESS_CONSTANT, 5, 16, 100, 3) == 1);
	assert_true(hd_staleness_weight(HD_STALENESS_INV_SQRT, 2, 16, 4, 3) == 0.25F);
	assert_true(hd_staleness_weight(HD_STALENESS_ADADELAY, 2, 16, 13, 3) == 0.5F);
}

static void test_job_ids(void **state) {
	(void)state;
	assert_int_equal(hd_job_id("", ""), 0x2a0c975e); /* FNV-1a of "/" */
	assert_int_not_equal(hd_job_id("a", "b/c"), 0);
	assert_int_not_equal(hd_job_id("lab", "one"), hd_job_id("lab", "two"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip_and_truncation),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_unsealed),
		cmocka_unit_test(test_scaled),
		cmocka_unit_test(test_federated),
		cmocka_unit_test(test_synchronous),
		cmocka_unit_test(test_changed_bytes_are_checked),
		cmocka_unit_test(test_checks_of_the_job),
		cmocka_unit_test(test_checks_of_tensors),
		cmocka_unit_test(test_differences_in_words),
		cmocka_unit_test(test_initial_values),
		cmocka_unit_test(test_weights),
		cmocka_unit_test(test_job_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
