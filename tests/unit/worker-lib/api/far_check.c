/* SPDX-License-Identifier: BSD-3-Clause */
/* libheddle with values on a device, beside the real server core on the loopback interface. */
#include "device_check.h"
#include "far_check.h"
#include "hd_program.h"
#include "hd_server.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_MS 20000
#define MANY 24
#define BEFORE 400 /* stages in a stream ahead of a pull */

struct far_scene {
	struct hd_device *device;
	struct hd_keyring keys;
	struct hd_driver *driver;
	struct hd_server *server;
	pthread_t thread;
	char key_path[64], address[32];
	char log[512];
	enum heddle_staleness staleness; /* of the jobs that are opened */
	float *values; /* of gradients, on the host */
};

static void *serve(void *arg) {
	struct far_scene *scene = arg;
	struct hd_node node = {&hd_server_ops, scene->server};

	assert_int_equal(hd_driver_run(scene->driver, node), 0);
	return NULL;
}

static void write_key(struct far_scene *scene) {
	int fd;

	(void)snprintf(scene->key_path, sizeof scene->key_path, "/tmp/heddle-key-XXXXXX");
	fd = mkstemp(scene->key_path);
	assert_true(fd >= 0);
	for (int i = 0; i < 66; i++)
		assert_int_equal(write(fd, i == 0 ? "1" : i == 1 ? " " : "a", 1), 1);
	assert_int_equal(write(fd, "\n", 1), 1);
	close(fd);
}

struct far_scene *far_scene_create(struct hd_device *device) {
	struct far_scene *scene = calloc(1, sizeof *scene);
	struct hd_driver_config driver = {.bind = {.ipv4 = 0x7f000001}};
	struct hd_server_config config = {.name = "s", .host = "ps", .keys = &scene->keys};
	char error[256];

	scene->device = device;
	write_key(scene);
	assert_int_equal(
		hd_program_read_keys(scene->key_path, &scene->keys, error, sizeof error), 0
	);
	config.key_id = scene->keys.keys[0].id;
	assert_int_equal(hd_program_entropy(config.seed), 0);
	assert_int_equal(hd_driver_open(&driver, &scene->driver, error, sizeof error), 0);
	config.data = hd_driver_bound(scene->driver);
	config.receive_window_bytes = hd_driver_receive_window(scene->driver);
	assert_int_equal(hd_server_create(&config, &scene->server), 0);
	(void)snprintf(scene->address, sizeof scene->address, "127.0.0.1:%u", config.data.port);
	assert_int_equal(pthread_create(&scene->thread, NULL, serve, scene), 0);
	scene->values = malloc((FAR_VALUES + 1) * sizeof(float));
	for (int i = 0; i <= FAR_VALUES; i++)
		scene->values[i] = (float)(i * 7919 % 20011 - 10005) * 0x1.3p-12F;
	return scene;
}

void far_scene_destroy(struct far_scene *scene) {
	hd_driver_stop(scene->driver);
	pthread_join(scene->thread, NULL);
	hd_server_destroy(scene->server);
	hd_driver_close(scene->driver);
	hd_keyring_fini(&scene->keys);
	unlink(scene->key_path);
	free(scene->values);
	free(scene);
}

static void keep_log(void *arg, enum heddle_log_level level, const char *text) {
	struct far_scene *scene = arg;

	if (level == HEDDLE_LOG_ERROR)
		(void)snprintf(scene->log, sizeof scene->log, "%s", text);
}

uint64_t far_base(struct heddle *fabric) {
	uint64_t version;

	assert_int_equal(heddle_wait_joined(fabric, PATIENCE_MS, &version, NULL), 0);
	return version;
}

const char *far_log(const struct far_scene *scene) {
	return scene->log;
}

struct hd_device *far_device(const struct far_scene *scene) {
	return scene->device;
}

struct heddle *far_open(struct far_scene *scene, const char *job, uint64_t values) {
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	struct heddle_spec *spec;
	struct heddle *fabric;

	assert_int_equal(heddle_spec_create("tests", job, &spec), 0);
	assert_int_equal(
		heddle_spec_add_tensor(spec, "w", &values, 1, HEDDLE_INIT_UNIFORM, 0.5f), 0
	);
	heddle_spec_set_sgd(spec, 0.5f, 0.25f, 0.0f);
	heddle_spec_set_tau_max(spec, 1000);
	heddle_spec_set_seed(spec, 11);
	heddle_spec_set_staleness(spec, scene->staleness, 0.7f);
	options.server = scene->address;
	options.key_file = scene->key_path;
	options.host = "h1";
	options.bind = "127.0.0.1";
	options.rank = 0;
	options.log = keep_log;
	options.log_arg = scene;
	assert_int_equal(heddle_open(spec, &options, &fabric), 0);
	heddle_spec_destroy(spec);
	assert_int_equal(heddle_wait_joined(fabric, PATIENCE_MS, NULL, NULL), 0);
	return fabric;
}

static float *on_device(struct far_scene *scene) {
	return device_filled(scene->device, scene->values, FAR_VALUES + 1);
}

/* --- bits ----------------------------------------------------------------------------------- */

static void push_both(
	struct heddle *fabric,
	struct heddle *other,
	const float *far,
	const float *near,
	struct heddle_push_options options
) {
	struct heddle_status status = HEDDLE_STATUS_INIT;

	options.memory = HEDDLE_MEMORY_CUDA;
	assert_int_equal(
		heddle_push(fabric, far, far_base(fabric), &options, PATIENCE_MS, &status), 0
	);
	assert_int_equal(
		status.state >= HEDDLE_STATE_APPLIED && status.state <= HEDDLE_STATE_DURABLE, 1
	);
	options.memory = HEDDLE_MEMORY_HOST;
	assert_int_equal(heddle_push(other, near, far_base(other), &options, PATIENCE_MS, NULL), 0);
}

static void pull_both(
	struct far_scene *scene,
	struct heddle *fabric,
	struct heddle *other,
	float *far,
	enum heddle_payload payload
) {
	struct heddle_pull_options options = HEDDLE_PULL_OPTIONS_INIT;
	float *ours = malloc(FAR_VALUES * sizeof *ours),
	      *theirs = malloc(FAR_VALUES * sizeof *theirs);
	struct heddle_status pulled[] = {HEDDLE_STATUS_INIT, HEDDLE_STATUS_INIT};

	options.payload = payload;
	options.memory = HEDDLE_MEMORY_CUDA;
	assert_int_equal(heddle_pull(fabric, far, &options, PATIENCE_MS, &pulled[0]), 0);
	options.memory = HEDDLE_MEMORY_HOST;
	assert_int_equal(heddle_pull(other, theirs, &options, PATIENCE_MS, &pulled[1]), 0);
	assert_int_equal(
		HEDDLE_VERSION_COUNTER(pulled[0].version), HEDDLE_VERSION_COUNTER(pulled[1].version)
	);
	device_fetch(scene->device, far, ours, FAR_VALUES);
	assert_memory_equal(ours, theirs, FAR_VALUES * sizeof *ours);
	free(ours);
	free(theirs);
}

void far_check_bits(struct far_scene *scene) {
	struct heddle *fabric, *other;
	float *gradient = on_device(scene), *model = on_device(scene);

	scene->staleness = HEDDLE_STALENESS_INV_SQRT;
	fabric = far_open(scene, "far", FAR_VALUES);
	other = far_open(scene, "near", FAR_VALUES);
	scene->staleness = HEDDLE_STALENESS_CONSTANT;
	for (int i = 0; i < 4 * 2 * 2 * 2; i++) {
		struct heddle_push_options options = HEDDLE_PUSH_OPTIONS_INIT;
		int shift = i / 16;

		options.payload = (enum heddle_payload)(i % 4);
		options.borrow = i / 4 % 2;
		options.scale = i / 8 % 2 ? 0.3F : 0;
		push_both(fabric, other, gradient + shift, scene->values + shift, options);
		pull_both(
			scene,
			fabric,
			other,
			model + shift,
			i % 4 == 3 ? HEDDLE_PAYLOAD_FP32 : (enum heddle_payload)(i % 4)
		);
	}
	assert_int_equal(heddle_close(fabric, PATIENCE_MS), 0);
	assert_int_equal(heddle_close(other, PATIENCE_MS), 0);
	scene->device->ops->release(scene->device, gradient);
	scene->device->ops->release(scene->device, model);
}

/* --- order ---------------------------------------------------------------------------------- */

void far_check_copies(struct far_scene *scene) {
	struct heddle *fabric = far_open(scene, "copy-far", FAR_VALUES),
		      *other = far_open(scene, "copy-near", FAR_VALUES);
	struct heddle_push_options options = HEDDLE_PUSH_OPTIONS_INIT;
	struct hd_stage_job job = {.kind = HD_STAGE_UNPACK};
	struct heddle_status status = HEDDLE_STATUS_INIT;
	float *gradient = on_device(scene), *model = on_device(scene);
	float *zeros = device_host(scene->device, FAR_VALUES * sizeof *zeros);
	struct heddle_ticket *ticket;
	void *event;

	memset(zeros, 0, FAR_VALUES * sizeof *zeros);
	job.unpack = (struct hd_unpack){.from = zeros, .to = gradient, .values = FAR_VALUES};
	options.memory = HEDDLE_MEMORY_CUDA;
	options.payload = HEDDLE_PAYLOAD_BF16;
	assert_int_equal(scene->device->ops->stream_create(scene->device, &options.stream), 0);
	assert_int_equal(scene->device->ops->event_create(scene->device, &event), 0);
	assert_int_equal(
		heddle_push_start(fabric, gradient, far_base(fabric), &options, &ticket), 0
	);
	assert_int_equal(scene->device->ops->launch(scene->device, options.stream, &job), 0);
	assert_int_equal(scene->device->ops->record(scene->device, event, options.stream), 0);
	assert_int_equal(heddle_ticket_wait(ticket, HEDDLE_WAIT_OUTCOME, PATIENCE_MS, &status), 0);
	assert_int_equal(status.state, HEDDLE_STATE_APPLIED);
	assert_int_equal(hd_device_wait(scene->device, event, 10 * HD_SECOND), 0);
	heddle_ticket_free(ticket);
	scene->device->ops->stream_destroy(scene->device, options.stream);
	scene->device->ops->event_destroy(scene->device, event);
	options.stream = NULL;
	options.memory = HEDDLE_MEMORY_HOST;
	assert_int_equal(
		heddle_push(other, scene->values, far_base(other), &options, PATIENCE_MS, NULL), 0
	);
	pull_both(scene, fabric, other, model, HEDDLE_PAYLOAD_FP32);
	assert_int_equal(heddle_close(fabric, PATIENCE_MS), 0);
	assert_int_equal(heddle_close(other, PATIENCE_MS), 0);
	scene->device->ops->release(scene->device, gradient);
	scene->device->ops->release(scene->device, model);
	scene->device->ops->host_release(scene->device, zeros);
}

void far_check_pull_order(struct far_scene *scene) {
	struct heddle *fabric = far_open(scene, "pull-far", FAR_VALUES);
	struct heddle *other = far_open(scene, "pull-near", FAR_VALUES);
	struct heddle_pull_options options = HEDDLE_PULL_OPTIONS_INIT;
	struct hd_stage_job job = {.kind = HD_STAGE_UNPACK};
	struct heddle_status status = HEDDLE_STATUS_INIT;
	float *model = on_device(scene), *ours = malloc(FAR_VALUES * sizeof *ours);
	float *theirs = malloc(FAR_VALUES * sizeof *theirs);
	float *zeros = device_host(scene->device, FAR_VALUES * sizeof *zeros);
	struct heddle_ticket *ticket;

	memset(zeros, 0, FAR_VALUES * sizeof *zeros);
	job.width = 1;
	job.unpack = (struct hd_unpack){.from = zeros, .to = model, .values = FAR_VALUES};
	options.memory = HEDDLE_MEMORY_CUDA;
	assert_int_equal(scene->device->ops->stream_create(scene->device, &options.stream), 0);
	for (int i = 0; i < BEFORE; i++)
		assert_int_equal(
			scene->device->ops->launch(scene->device, options.stream, &job), 0
		);
	assert_int_equal(heddle_pull_start(fabric, model, &options, &ticket), 0);
	assert_int_equal(heddle_ticket_wait(ticket, HEDDLE_WAIT_OUTCOME, PATIENCE_MS, &status), 0);
	assert_int_equal(status.state, HEDDLE_STATE_APPLIED);
	heddle_ticket_free(ticket);
	assert_int_equal(heddle_pull(other, theirs, NULL, PATIENCE_MS, NULL), 0);
	device_fetch(scene->device, model, ours, FAR_VALUES);
	assert_memory_equal(ours, theirs, FAR_VALUES * sizeof *ours);
	assert_int_equal(heddle_close(fabric, PATIENCE_MS), 0);
	assert_int_equal(heddle_close(other, PATIENCE_MS), 0);
	scene->device->ops->stream_destroy(scene->device, options.stream);
	scene->device->ops->release(scene->device, model);
	scene->device->ops->host_release(scene->device, zeros);
	free(ours);
	free(theirs);
}

void far_check_many(struct far_scene *scene) {
	struct heddle *fabric = far_open(scene, "many-far", FAR_VALUES),
		      *other = far_open(scene, "many-near", FAR_VALUES);
	float *gradient = on_device(scene), *model[MANY];
	struct heddle_ticket *push[MANY], *pull[MANY];
	void *stream[3];

	for (int i = 0; i < 3; i++)
		assert_int_equal(scene->device->ops->stream_create(scene->device, &stream[i]), 0);
	for (int i = 0; i < MANY; i++) {
		struct heddle_push_options options = HEDDLE_PUSH_OPTIONS_INIT;
		struct heddle_pull_options pulled = HEDDLE_PULL_OPTIONS_INIT;

		model[i] = on_device(scene);
		options.memory = pulled.memory = HEDDLE_MEMORY_CUDA;
		options.stream = stream[i % 3];
		pulled.stream = stream[(i + 1) % 3];
		options.borrow = i % 2;
		assert_int_equal(
			heddle_push_start(fabric, gradient, far_base(fabric), &options, &push[i]), 0
		);
		assert_int_equal(heddle_pull_start(fabric, model[i], &pulled, &pull[i]), 0);
		assert_int_equal(
			heddle_push(other, scene->values, far_base(other), NULL, PATIENCE_MS, NULL),
			0
		);
	}
	for (int i = 0; i < MANY; i++) {
		struct heddle_status status = HEDDLE_STATUS_INIT;

		assert_int_equal(
			heddle_ticket_wait(push[i], HEDDLE_WAIT_RELEASED, PATIENCE_MS, &status), 0
		);
		assert_int_equal(status.state, HEDDLE_STATE_APPLIED);
		assert_int_equal(
			heddle_ticket_wait(pull[i], HEDDLE_WAIT_OUTCOME, PATIENCE_MS, &status), 0
		);
		assert_int_equal(status.state, HEDDLE_STATE_APPLIED);
		heddle_ticket_free(push[i]);
		heddle_ticket_free(pull[i]);
		scene->device->ops->release(scene->device, model[i]);
	}
	model[0] = on_device(scene);
	pull_both(scene, fabric, other, model[0], HEDDLE_PAYLOAD_FP32);
	assert_int_equal(heddle_close(fabric, PATIENCE_MS), 0);
	assert_int_equal(heddle_close(other, PATIENCE_MS), 0);
	for (int i = 0; i < 3; i++)
		scene->device->ops->stream_destroy(scene->device, stream[i]);
	scene->device->ops->release(scene->device, model[0]);
	scene->device->ops->release(scene->device, gradient);
}

/* --- what is wrong -------------------------------------------------------------------------- */

void far_check_not_finite(struct far_scene *scene) {
	struct heddle *fabric = far_open(scene, "nan", FAR_VALUES);
	struct heddle_push_options options = HEDDLE_PUSH_OPTIONS_INIT;
	struct heddle_status status = HEDDLE_STATUS_INIT;
	const float bad[] = {NAN, INFINITY, 65520.0F};

	options.memory = HEDDLE_MEMORY_CUDA;
	options.payload = HEDDLE_PAYLOAD_FP16;
	for (int i = 0; i < 3; i++) {
		int at = 3 * HD_STAGE_VALUES + 5;
		float before = scene->values[at], *gradient;

		scene->values[at] = bad[i];
		gradient = on_device(scene);
		scene->values[at] = before;
		scene->log[0] = '\0';
		assert_int_equal(
			heddle_push(
				fabric, gradient, far_base(fabric), &options, PATIENCE_MS, &status
			),
			-EIO
		);
		assert_int_equal(status.reason, HEDDLE_REASON_NOT_FINITE);
		assert_non_null(strstr(scene->log, "tensor w: value 49157 is NaN, Inf"));
		scene->device->ops->release(scene->device, gradient);
	}
	assert_int_equal(heddle_close(fabric, PATIENCE_MS), 0);
}

void far_check_refusals(struct far_scene *scene) {
	struct heddle *fabric = far_open(scene, "refusals", FAR_VALUES);
	struct heddle_push_options options = HEDDLE_PUSH_OPTIONS_INIT;
	struct heddle_pull_options pulled = HEDDLE_PULL_OPTIONS_INIT;
	float *gradient = on_device(scene);
	struct heddle_ticket *ticket = NULL;

	options.memory = pulled.memory = HEDDLE_MEMORY_CUDA;
	assert_int_equal(
		heddle_push_start(fabric, scene->values, far_base(fabric), &options, &ticket),
		-EINVAL
	);
	assert_non_null(strstr(heddle_last_error(), "is not memory of a"));
	assert_int_equal(heddle_pull_start(fabric, scene->values, &pulled, &ticket), -EINVAL);
	assert_int_equal(
		heddle_push_start(fabric, gradient + 2, far_base(fabric), &options, &ticket),
		-EINVAL
	);
	assert_non_null(strstr(heddle_last_error(), "beyond their allocation"));
	scene->device->ops->release(scene->device, gradient);
	assert_int_equal(
		heddle_push_start(fabric, gradient, far_base(fabric), &options, &ticket), -EINVAL
	);
	assert_non_null(strstr(heddle_last_error(), "freed"));
	assert_null(ticket);
	assert_int_equal(heddle_close(fabric, PATIENCE_MS), 0);
}
