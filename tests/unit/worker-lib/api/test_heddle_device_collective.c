/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of values on a device, whose part the host plays: late, and failing wherever it can. */
#include "device_check.h"
#include "far_check_collective.h"
#include "far_patience.h"
#include "far_round.h"
#include "hd_device_fake.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PATIENCE_MS 30000
#define LONG 40001 /* values: three blocks of a copy, of fp32 */
#define STILL (UINT32_C(1) << 30) /* a delay: the device moves only when it is settled */

static const char *const APART[FAR_WORKERS] = {"h0", "h1", "h2"};

static struct hd_device *begin(struct hd_fake_config config) {
	struct hd_device *device;

	assert_int_equal(hd_fake_open(&config, &device), 0);
	hd_device_use(hd_fake_find);
	return device;
}

static void end(struct hd_device *device) {
	assert_int_equal(hd_fake_close(device), 0);
	hd_device_use(NULL);
}

static void test_values_over_the_network(void **state) {
	struct hd_device *device = begin((struct hd_fake_config){.seed = 1, .delay = 1});

	far_check_collectives(device, false);
	end(device);
}

static void test_values_in_shared_memory(void **state) {
	struct hd_device *device = begin((struct hd_fake_config){.seed = 2});

	far_check_collectives(device, true);
	end(device);
}

static void test_order(void **state) {
	struct hd_device *device = begin((struct hd_fake_config){.seed = 3});

	far_check_collective_order(device);
	end(device);
}

static void test_refusals(void **state) {
	struct hd_device *device = begin((struct hd_fake_config){.seed = 4});

	far_check_collective_refusals(device);
	end(device);
}

static void test_timeout(void **state) {
	struct hd_device *device = begin((struct hd_fake_config){.seed = 5, .delay = 1});

	far_check_collective_timeout(device);
	end(device);
}

static void test_foreign_stream(void **state) {
	struct hd_device *device = begin((struct hd_fake_config){.seed = 6});
	struct far_group group = {.is_far = {true, false, false}};
	int foreign;

	far_group_open(&group, device, "foreign", APART);
	group.stream = &foreign;
	for (unsigned i = 0; i < FAR_KINDS * 2; i++) {
		const struct far_how how = {
			.kind = (enum far_kind)(i / 2),
			.count = LONG,
			.root = i % 2 == 0 ? 0 : FAR_WORKERS - 1,
		};
		struct far_part part;

		far_part_init(&part, &group, &how, 0);
		assert_int_equal(far_part_start(&part, &group, &how, 0), -EINVAL);
		assert_string_equal(heddle_last_error(), "stream: it is not of fake device");
		far_part_fini(&part, &group);
	}
	far_group_close(&group, PATIENCE_MS);
	end(device);
}

/* Without a simulated device: as on most machines. Where there is a GPU, what is given is not its memory. */
static void test_no_driver(void **state) {
	struct hd_device *device = begin((struct hd_fake_config){.seed = 10});
	struct far_group group = {0};

	far_group_open(&group, device, "none", APART);
	hd_device_use(NULL);
	for (unsigned i = 0; i < FAR_KINDS * 2; i++) {
		const struct far_how how = {
			.kind = (enum far_kind)(i / 2),
			.count = LONG,
			.root = i % 2 == 0 ? 0 : FAR_WORKERS - 1,
		};
		struct far_part part;
		int rc;

		far_part_init(&part, &group, &how, 0);
		group.is_far[0] = true;
		rc = far_part_start(&part, &group, &how, 0);
		group.is_far[0] = false;
		assert_non_null(strstr(heddle_last_error(), "CUDA"));
		assert_true(rc == -ENOTSUP || rc == -EINVAL);
		far_part_fini(&part, &group);
	}
	far_group_close(&group, PATIENCE_MS);
	end(device);
}

/* --- rounds step by step -------------------------------------------------------------------- */

struct scene {
	struct far_group group; /* worker 0 is the device's */
	struct far_part part[FAR_WORKERS];
	struct far_how how;
};

/* Their buffers are there; from then on the device is as `config` says. */
static void
scene_init(struct scene *scene, enum far_kind kind, unsigned root, struct hd_fake_config config) {
	memset(scene->part, 0, sizeof scene->part);
	scene->how = (struct far_how){.kind = kind, .count = LONG, .root = root};
	for (unsigned i = 0; i < FAR_WORKERS; i++)
		if (far_takes_part(&scene->how, i))
			far_part_init(&scene->part[i], &scene->group, &scene->how, i);
	hd_fake_change(scene->group.device, &config);
}

static void scene_open(struct scene *scene, struct hd_fake_config config) {
	memset(scene, 0, sizeof *scene);
	scene->group.is_far[0] = true;
	far_group_open(&scene->group, begin(config), "scene", APART);
}

static void scene_close(struct scene *scene) {
	far_group_close(&scene->group, PATIENCE_MS);
	end(scene->group.device);
}

static void start_all(struct scene *scene) {
	for (unsigned i = 0; i < FAR_WORKERS; i++)
		if (far_takes_part(&scene->how, i))
			assert_int_equal(
				far_part_start(&scene->part[i], &scene->group, &scene->how, i), 0
			);
}

static void check_all(struct scene *scene) {
	for (unsigned i = 0; i < FAR_WORKERS; i++)
		if (far_takes_part(&scene->how, i))
			far_part_check(&scene->part[i], &scene->group, &scene->how, i);
}

static void fini_all(struct scene *scene) {
	for (unsigned i = 0; i < FAR_WORKERS; i++)
		if (far_takes_part(&scene->how, i))
			far_part_fini(&scene->part[i], &scene->group);
}

/* Every kind, with worker 0 as the root and not; of a send: as the sender and the receiver. */
static void for_each(void (*check)(enum far_kind kind, unsigned root, void *arg), void *arg) {
	for (unsigned kind = 0; kind < FAR_KINDS; kind++) {
		const bool has_root = kind != FAR_ALLREDUCE && kind != FAR_ALLGATHER
			&& kind != FAR_REDUCE_SCATTER && kind != FAR_ALLTOALL;

		check((enum far_kind)kind, 0, arg);
		if (has_root)
			check((enum far_kind)kind, FAR_WORKERS - 1, arg);
	}
}

/* --- a device that has stalled -------------------------------------------------------------- */

static bool has_ended(struct far_part *part, int within_ms) {
	return heddle_ticket_wait(part->ticket, HEDDLE_WAIT_OUTCOME, within_ms, NULL) == 0;
}

static void check_still(enum far_kind kind, unsigned root, void *arg) {
	struct scene *scene = arg;
	const struct hd_fake_config goes = {0};

	scene_init(scene, kind, root, (struct hd_fake_config){.delay = STILL});
	start_all(scene);
	if (far_gives(&scene->how, 0)) {
		/* Nothing of it has gone to the others, who wait for it. */
		assert_false(has_ended(&scene->part[0], 50));
		for (unsigned i = 1; i < FAR_WORKERS; i++)
			assert_false(scene->part[i].ticket && has_ended(&scene->part[i], 0));
	} else {
		/* It waits for nothing on its stream; the others are done before the device has it. */
		for (unsigned i = 1; i < FAR_WORKERS; i++)
			assert_true(
				!scene->part[i].ticket || has_ended(&scene->part[i], PATIENCE_MS)
			);
		assert_false(has_ended(&scene->part[0], 50));
	}
	hd_fake_change(scene->group.device, &goes);
	check_all(scene);
	fini_all(scene);
}

static void test_waits_for_the_stream(void **state) {
	struct scene scene;

	scene_open(&scene, (struct hd_fake_config){.seed = 7});
	for_each(check_still, &scene);
	scene_close(&scene);
}

/* Withdrawn before the stream has come to it: what it gives is used until then, and its result is not written. */
static void check_cancelled(enum far_kind kind, unsigned root, void *arg) {
	const struct hd_fake_config goes = {0};
	struct heddle_status status = HEDDLE_STATUS_INIT;
	struct scene *scene = arg;
	struct far_part *part = &scene->part[0];

	scene_init(scene, kind, root, (struct hd_fake_config){.delay = STILL});
	assert_int_equal(far_part_start(part, &scene->group, &scene->how, 0), 0);
	assert_int_equal(heddle_ticket_cancel(part->ticket), 0);
	status = far_part_end(part);
	assert_int_equal(status.state, HEDDLE_STATE_FAILED);
	assert_int_equal(status.reason, HEDDLE_REASON_CANCELLED);
	if (far_gives(&scene->how, 0)) {
		assert_int_equal(status.released, 0);
		hd_fake_change(scene->group.device, &goes);
	}
	assert_int_equal(
		heddle_ticket_wait(part->ticket, HEDDLE_WAIT_RELEASED, PATIENCE_MS, NULL), 0
	);
	hd_fake_change(scene->group.device, &goes);
	far_part_untouched(part, &scene->group, &scene->how, 0);
	fini_all(scene);
}

static void test_cancelled(void **state) {
	struct scene scene;

	scene_open(&scene, (struct hd_fake_config){.seed = 8});
	for_each(check_cancelled, &scene);
	scene_close(&scene);
}

/* Closed while the device has not come to it: nothing of the caller's is used after that. */
static void check_close(enum far_kind kind, unsigned root, void *arg) {
	const uint64_t seed = *(const uint64_t *)arg;
	struct scene scene;

	scene_open(&scene, (struct hd_fake_config){.seed = seed + kind});
	scene_init(&scene, kind, root, (struct hd_fake_config){.delay = 4});
	start_all(&scene);
	if (seed % 2 == 0)
		(void)has_ended(&scene.part[root == 0 ? 1 : root], (int)(kind + seed));
	(void)heddle_close(scene.group.worker[0], (int)(seed % 3));
	scene.group.worker[0] = NULL;
	assert_int_equal(heddle_ticket_test(scene.part[0].ticket, NULL), 1);
	/* At once: a search for early releases follows. */
	scene.group.device->ops->release(scene.group.device, scene.part[0].in_memory);
	scene.group.device->ops->release(scene.group.device, scene.part[0].out_memory);
	scene.part[0].in_memory = scene.part[0].out_memory = NULL;
	scene.part[0].far_in = scene.part[0].far_out = NULL;
	far_group_close(&scene.group, 0);
	fini_all(&scene);
	end(scene.group.device);
}

static void test_closes_meanwhile(void **state) {
	far_patience = true;
	for (uint64_t seed = 1; seed <= 3; seed++)
		for_each(check_close, &seed);
	far_patience = false;
}

/* --- failures ------------------------------------------------------------------------------- */

static uint64_t blocks(uint64_t values) {
	return hd_stage_blocks(values); /* of fp32 */
}

/* On the host, by those of which no call is open. */
static void check_goes_on(struct scene *scene) {
	const struct far_how how
		= {.kind = FAR_SEND,
		   .count = LONG,
		   .root = scene->how.root == 0 ? FAR_WORKERS - 1 : 0};

	scene->group.is_far[0] = false;
	far_round(&scene->group, &how);
}

/* Before its values have come to the host the others have nothing of it; when they have, the others go on, and only
 * this worker's result is lost. */
static void check_failure(enum far_kind kind, unsigned root, uint64_t at) {
	struct heddle_status status;
	struct scene scene;
	bool is_in;

	scene_open(&scene, (struct hd_fake_config){.seed = at});
	scene_init(&scene, kind, root, (struct hd_fake_config){.delay = 1, .fails_at = at});
	is_in = at <= (far_gives(&scene.how, 0) ? blocks(LONG) : 0);
	start_all(&scene);
	status = far_part_end(&scene.part[0]);
	assert_int_equal(status.state, HEDDLE_STATE_FAILED);
	assert_int_equal(status.reason, HEDDLE_REASON_DEVICE);
	assert_true(far_nodes_logged(scene.group.nodes, "fake device: fell off the bus"));
	for (unsigned i = 1; i < FAR_WORKERS; i++) {
		if (!far_takes_part(&scene.how, i))
			continue;
		if (!is_in) {
			far_part_check(&scene.part[i], &scene.group, &scene.how, i);
			continue;
		}
		/* Of an exact round the first that withdraws ends it for all. */
		(void)heddle_ticket_cancel(scene.part[i].ticket);
		assert_int_equal(far_part_end(&scene.part[i]).state, HEDDLE_STATE_FAILED);
	}
	fini_all(&scene);
	check_goes_on(&scene);
	scene_close(&scene);
}

/* In the first and the last block of what it gives, and of its result. */
static void check_failures(enum far_kind kind, unsigned root, void *arg) {
	const struct far_how how = {.kind = kind, .count = LONG, .root = root};
	const uint64_t in = far_gives(&how, 0) ? blocks(LONG) : 0;
	const uint64_t out = blocks(far_result_count(&how, 0));

	if (in > 0)
		check_failure(kind, root, 1);
	if (in > 1)
		check_failure(kind, root, in);
	if (out > 0)
		check_failure(kind, root, in + 1);
	if (out > 1)
		check_failure(kind, root, in + out);
}

static void test_falls_off_the_bus(void **state) {
	for_each(check_failures, NULL);
}

/* Whatever cannot be had (a stream, an event, memory): the call says so, and leaves nothing. */
static void test_no_memory(void **state) {
	const struct hd_fake_config goes = {0};
	struct scene scene;

	scene_open(&scene, (struct hd_fake_config){.seed = 9});
	for (unsigned kind = 0; kind < FAR_KINDS; kind++) {
		struct far_part *part = &scene.part[0];

		scene_init(&scene, (enum far_kind)kind, 0, goes);
		for (uint64_t at = 1; at <= 3; at++) {
			hd_fake_change(scene.group.device, &(struct hd_fake_config){.refuses = at});
			assert_int_equal(
				far_part_start(part, &scene.group, &scene.how, 0), -ENOMEM
			);
			assert_null(part->ticket);
			assert_non_null(strstr(heddle_last_error(), "fake device: no memory for"));
		}
		fini_all(&scene);
	}
	hd_fake_change(scene.group.device, &goes);
	far_round(&scene.group, &(struct far_how){.kind = FAR_ALLTOALL, .count = LONG});
	scene_close(&scene);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values_over_the_network),
		cmocka_unit_test(test_values_in_shared_memory),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_foreign_stream),
		cmocka_unit_test(test_no_driver),
		cmocka_unit_test(test_waits_for_the_stream),
		cmocka_unit_test(test_cancelled),
		cmocka_unit_test(test_closes_meanwhile),
		cmocka_unit_test(test_falls_off_the_bus),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
