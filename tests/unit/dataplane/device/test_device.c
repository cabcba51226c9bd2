/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake device does what any device must, late, in another order, and not at all when it fails. */
#include "device_check.h"
#include "hd_device_fake.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define BLOCKS ((size_t)8)

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

static void test_stages(void **state) {
	struct hd_device *device = begin((struct hd_fake_config){.seed = 1});

	device_check_stages(device);
	end(device);
}

static void test_layers(void **state) {
	struct hd_device *device = begin((struct hd_fake_config){.seed = 1});

	device_check_layers(device);
	end(device);
}

static void test_copies(void **state) {
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct hd_device *device
			= begin((struct hd_fake_config){.seed = seed, .delay = (uint32_t)seed});

		device_check_copies(device);
		end(device);
	}
}

static void test_flags_come_before_the_end(void **state) {
	for (uint32_t seed = 1; seed <= 5; seed++) {
		struct hd_device *device
			= begin((struct hd_fake_config){.seed = seed, .delay = seed % 3});

		assert_true(device_check_flags(device, seed) > 0);
		end(device);
	}
}

static void test_streams_keep_their_order(void **state) {
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct hd_device *device = begin((struct hd_fake_config){.seed = seed, .delay = 1});

		device_check_order(device, seed);
		end(device);
	}
}

static void test_memory(void **state) {
	struct hd_device *device = begin((struct hd_fake_config){.seed = 1});

	device_check_memory(device);
	end(device);
}

static void test_a_foreign_stream(void **state) {
	struct hd_device *device = begin((struct hd_fake_config){.seed = 1});
	int foreign;
	void *stream;

	assert_int_equal(device->ops->check_stream(device, NULL), 0);
	assert_int_equal(device->ops->stream_create(device, &stream), 0);
	assert_int_equal(device->ops->check_stream(device, stream), 0);
	assert_int_equal(device->ops->check_stream(device, &foreign), -EINVAL);
	assert_string_equal(hd_device_words(), "stream: it is not of fake device");
	device->ops->stream_destroy(device, stream);
	assert_int_equal(device->ops->check_stream(device, stream), -EINVAL);
	end(device);
}

static void test_refuses_an_allocation(void **state) {
	struct hd_device *device = begin((struct hd_fake_config){.seed = 1, .refuses = 2});
	void *memory, *none = &memory;

	assert_int_equal(device->ops->allocate(device, 100, &memory), 0);
	assert_int_equal(device->ops->host_allocate(device, 12345, &none), -ENOMEM);
	assert_ptr_equal(none, &memory);
	assert_string_equal(hd_device_words(), "fake device: no memory for 12345 bytes");
	device->ops->release(device, memory);
	end(device);
}

struct scene {
	struct hd_stage_job job;
	void *event;
};

static void launch(struct scene *scene, struct hd_device *device) {
	const size_t count = BLOCKS * HD_STAGE_VALUES;
	float *values = calloc(count, sizeof *values);

	scene->job.kind = HD_STAGE_PACK;
	scene->job.pack = (struct hd_pack){
		.from = device_filled(device, values, count),
		.to = device_host(device, count * sizeof(float)),
		.flags = (uint64_t *)(void *)device_host(device, BLOCKS * sizeof(uint64_t)),
		.values = count,
		.weight = 1,
		.generation = 1,
	};
	memset(scene->job.pack.flags, 0, BLOCKS * sizeof(uint64_t));
	free(values);
	assert_int_equal(device->ops->event_create(device, &scene->event), 0);
	assert_int_equal(device->ops->launch(device, NULL, &scene->job), 0);
	assert_int_equal(device->ops->record(device, scene->event, NULL), 0);
}

static void clear(struct scene *scene, struct hd_device *device) {
	union {
		const float *from;
		void *memory;
	} from = {scene->job.pack.from};

	device->ops->release(device, from.memory);
	device->ops->host_release(device, scene->job.pack.to);
	device->ops->host_release(device, scene->job.pack.flags);
	device->ops->event_destroy(device, scene->event);
}

static uint64_t flagged(const struct scene *scene) {
	uint64_t count = 0;

	for (size_t b = 0; b < BLOCKS; b++)
		count += scene->job.pack.flags[b] == 1;
	return count;
}

/* The blocks before it have their flags, the others never will; every call says so from then on. */
static void test_falls_off_the_bus(void **state) {
	for (uint64_t at = 1; at <= BLOCKS; at++) {
		struct hd_device *device = begin((struct hd_fake_config
		){.seed = at, .delay = 1, .fails_at = BLOCKS + at}); /* BLOCKS: to fill it */
		struct scene scene = {0};
		void *none = NULL;

		launch(&scene, device);
		assert_int_equal(hd_device_wait(device, scene.event, 60 * HD_SECOND), -EIO);
		assert_string_equal(hd_device_words(), "fake device: fell off the bus");
		assert_int_equal(flagged(&scene), at - 1);
		assert_int_equal(device->ops->done(device, scene.event), -EIO);
		assert_int_equal(device->ops->launch(device, NULL, &scene.job), -EIO);
		assert_int_equal(device->ops->allocate(device, 1, &none), -EIO);
		assert_null(none);
		clear(&scene, device);
		end(device);
	}
}

/* In a copy, of which the blocks before it are there. */
static void test_falls_off_the_bus_in_a_copy(void **state) {
	const size_t bytes = BLOCKS * HD_STAGE_VALUES * sizeof(float);

	for (uint64_t at = 1; at <= BLOCKS; at++) {
		struct hd_device *device
			= begin((struct hd_fake_config){.seed = at, .delay = 1, .fails_at = at});
		unsigned char *near = (unsigned char *)device_host(device, bytes);
		void *memory, *event;

		assert_int_equal(device->ops->allocate(device, bytes, &memory), 0);
		assert_int_equal(device->ops->event_create(device, &event), 0);
		memset(memory, 1, bytes); /* the host's, too */
		memset(near, 0, bytes);
		assert_int_equal(device->ops->copy(device, NULL, near, memory, bytes), 0);
		assert_int_equal(device->ops->record(device, event, NULL), 0);
		assert_int_equal(hd_device_wait(device, event, 60 * HD_SECOND), -EIO);
		for (size_t i = 0; i < bytes; i++)
			assert_int_equal(near[i], i / (bytes / BLOCKS) < at - 1);
		assert_int_equal(device->ops->copy(device, NULL, near, memory, bytes), -EIO);
		device->ops->release(device, memory);
		device->ops->host_release(device, near);
		device->ops->event_destroy(device, event);
		end(device);
	}
}

/* How many calls each step takes is the seed's. */
static void trace(uint64_t seed, uint64_t *calls) {
	struct hd_device *device = begin((struct hd_fake_config){.seed = seed, .delay = 3});
	struct scene scene = {0};

	launch(&scene, device);
	*calls = 1;
	for (uint64_t k = 1; device->ops->done(device, scene.event) == 0; k++)
		*calls = *calls * 31 + flagged(&scene) + k;
	clear(&scene, device);
	end(device);
}

static void test_a_seed_is_one_run(void **state) {
	uint64_t calls[2][4];
	bool differ = false;

	for (size_t seed = 0; seed < 4; seed++) {
		trace(seed, &calls[0][seed]);
		trace(seed, &calls[1][seed]);
		assert_int_equal(calls[0][seed], calls[1][seed]);
		differ |= calls[0][seed] != calls[0][0];
	}
	assert_true(differ);
}

static void test_a_wait_ends(void **state) {
	struct hd_device *device = begin((struct hd_fake_config){.seed = 1, .delay = 1U << 30});
	void *event;

	assert_int_equal(device->ops->event_create(device, &event), 0);
	assert_int_equal(device->ops->record(device, event, NULL), 0);
	assert_int_equal(hd_device_wait(device, event, HD_MS), -ETIMEDOUT);
	hd_fake_settle(device);
	assert_int_equal(hd_device_wait(device, event, HD_MS), 0);
	device->ops->event_destroy(device, event);
	end(device);
}

/* Resources that are released too early, or never, are counted. */
static void test_counts_misuse(void **state) {
	struct hd_device *device = begin((struct hd_fake_config){.seed = 1});
	struct scene scene = {0};
	void *left;

	launch(&scene, device);
	device->ops->host_release(device, scene.job.pack.to);
	device->ops->event_destroy(device, scene.event);
	assert_int_equal(device->ops->allocate(device, 1, &left), 0);
	/* Memory too early (an event may end before its stream comes to it), and values, flags and this one never. */
	assert_int_equal(hd_fake_close(device), 4);
	hd_device_use(NULL);
}

static void test_counts_misuse_by_a_copy(void **state) {
	struct hd_device *device = begin((struct hd_fake_config){.seed = 1});
	float *near = device_host(device, 64);
	void *memory;

	assert_int_equal(device->ops->allocate(device, 64, &memory), 0);
	assert_int_equal(device->ops->copy(device, NULL, memory, near, 64), 0);
	device->ops->release(device, memory);
	device->ops->host_release(device, near);
	assert_int_equal(hd_fake_close(device), 2);
	hd_device_use(NULL);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stages),
		cmocka_unit_test(test_layers),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_flags_come_before_the_end),
		cmocka_unit_test(test_streams_keep_their_order),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_a_foreign_stream),
		cmocka_unit_test(test_refuses_an_allocation),
		cmocka_unit_test(test_falls_off_the_bus),
		cmocka_unit_test(test_falls_off_the_bus_in_a_copy),
		cmocka_unit_test(test_a_seed_is_one_run),
		cmocka_unit_test(test_a_wait_ends),
		cmocka_unit_test(test_counts_misuse),
		cmocka_unit_test(test_counts_misuse_by_a_copy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
