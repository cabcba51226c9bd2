/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every public call that takes a timeout returns in time, whichever node does not answer: there is no server, no path
 * to it, the server has stopped, a synchronous step is not complete, there is no controller, or it knows no server.
 * Buffers handed over are the caller's then, where heddle.h says so. A wait for ever ends when this worker has left. A
 * call that hangs ends the test by SIGALRM.
 */
#include "hd_controller.h"
#include "hd_program.h"
#include "hd_server.h"
#include "hd_topology.h"
#include "timeouts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <glob.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define SLACK_MS 900 /* for a machine that is busy; a hang is not within it */
#define HANG_S 20

static const char *const situation_names[SITUATIONS] = {
	"no server",
	"cut off",
	"stopped server",
	"incomplete step",
	"no controller",
	"controller alone",
};

static void *serve(void *arg) {
	struct scene *scene = arg;
	const struct hd_node server = {&hd_server_ops, scene->server};
	const struct hd_node controller = {&hd_controller_ops, scene->controller};

	while (!scene->ended) {
		struct hd_node node;

		if (scene->stopping) {
			(void)usleep(100);
			continue;
		}
		pthread_mutex_lock(&scene->gate);
		node = scene->situation == CONTROLLER_ALONE ? controller : server;
		(void)hd_driver_poll(scene->driver, node, hd_driver_now() + 10 * HD_MS);
		pthread_mutex_unlock(&scene->gate);
	}
	return NULL;
}

static void stop_server(struct scene *scene) {
	scene->stopping = true;
	pthread_mutex_lock(&scene->gate);
	scene->stopping = false;
	scene->stopped = true;
}

static void go_on(struct scene *scene) {
	if (scene->stopped)
		pthread_mutex_unlock(&scene->gate);
	scene->stopped = false;
}

static void write_key(struct scene *scene) {
	FILE *file;
	int fd;

	(void)snprintf(scene->key_path, sizeof scene->key_path, "/tmp/heddle-key-XXXXXX");
	fd = mkstemp(scene->key_path);
	file = fd >= 0 ? fdopen(fd, "w") : NULL;
	assert_non_null(file);
	(void)fprintf(file, "1 %064d\n", 7);
	assert_int_equal(fclose(file), 0);
}

static void be_silent(struct scene *scene) {
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
	socklen_t bytes = sizeof name;

	scene->silent_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(scene->silent_fd, (struct sockaddr *)&name, bytes), 0);
	assert_int_equal(getsockname(scene->silent_fd, (struct sockaddr *)&name, &bytes), 0);
	(void)snprintf(scene->silent, sizeof scene->silent, "127.0.0.1:%u", ntohs(name.sin_port));
}

static void make_controller(struct scene *scene) {
	struct hd_controller_config config = {
		.name = "c",
		.keys = &scene->keys,
		.key_id = scene->keys.keys[0].id,
		.epoch = 1,
	};

	assert_int_equal(hd_program_entropy(config.seed), 0);
	assert_int_equal(hd_topology_create_star(&config.topology), 0);
	assert_int_equal(hd_controller_create(&config, &scene->controller), 0);
}

static int setup(void **state) {
	struct scene *scene = calloc(1, sizeof *scene);
	struct hd_driver_config driver = {.bind = {.ipv4 = 0x7f000001}};
	struct hd_server_config config = {.name = "s", .host = "ps", .keys = &scene->keys};
	char error[256];

	write_key(scene);
	be_silent(scene);
	assert_int_equal(
		hd_program_read_keys(scene->key_path, &scene->keys, error, sizeof error), 0
	);
	config.key_id = scene->keys.keys[0].id;
	assert_int_equal(hd_program_entropy(config.seed), 0);
	assert_int_equal(hd_driver_open(&driver, &scene->driver, error, sizeof error), 0);
	config.data = hd_driver_bound(scene->driver);
	config.receive_window_bytes = hd_driver_receive_window(scene->driver);
	assert_int_equal(hd_server_create(&config, &scene->server), 0);
	make_controller(scene);
	(void)snprintf(scene->address, sizeof scene->address, "127.0.0.1:%u", config.data.port);
	assert_int_equal(pthread_mutex_init(&scene->gate, NULL), 0);
	assert_int_equal(pthread_create(&scene->thread, NULL, serve, scene), 0);
	(void)alarm(HANG_S);
	*state = scene;
	return 0;
}

static int teardown(void **state) {
	struct scene *scene = *state;

	(void)alarm(0);
	scene->ended = true;
	go_on(scene);
	pthread_join(scene->thread, NULL);
	pthread_mutex_destroy(&scene->gate);
	hd_server_destroy(scene->server);
	hd_controller_destroy(scene->controller);
	hd_driver_close(scene->driver);
	hd_keyring_fini(&scene->keys);
	close(scene->silent_fd);
	unlink(scene->key_path);
	free(scene);
	return 0;
}

static struct heddle_spec *make_spec(const struct scene *scene, const char *job, bool federated) {
	struct heddle_federated rounds = HEDDLE_FEDERATED_INIT;
	struct heddle_spec *spec;
	uint64_t values = VALUES;

	assert_int_equal(heddle_spec_create("tests", job, &spec), 0);
	assert_int_equal(heddle_spec_add_tensor(spec, "w", &values, 1, HEDDLE_INIT_ZERO, 0), 0);
	heddle_spec_set_sgd(spec, 0.5f, 0.0f, 0.0f);
	if (federated) {
		rounds.clients_per_round = rounds.min_clients = 9;
		assert_int_equal(heddle_spec_set_federated(spec, &rounds), 0);
	} else if (scene->situation == INCOMPLETE) {
		heddle_spec_set_sync(spec, HEDDLE_SYNC_N, 9);
	}
	return spec;
}

static void open_job(struct scene *scene, int manual, bool federated) {
	static unsigned jobs;
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	struct heddle_spec *spec;
	char job[32];

	(void)snprintf(job, sizeof job, "job%u", jobs++);
	spec = make_spec(scene, job, federated);
	options.key_file = scene->key_path;
	options.host = "h1";
	options.bind = "127.0.0.1";
	options.rank = 0;
	options.manual = manual;
	if (scene->situation == NO_CONTROLLER)
		options.controller = scene->silent;
	else if (scene->situation == CONTROLLER_ALONE)
		options.controller = scene->address;
	else if (scene->situation == CUT_OFF)
		options.server = "192.0.2.1:4773"; /* RFC 5737: no node's */
	else
		options.server = scene->situation == NO_SERVER ? scene->silent : scene->address;
	assert_int_equal(heddle_open(spec, &options, &scene->fabric), 0);
	heddle_spec_destroy(spec);
	if (scene->situation == STOPPED || scene->situation == INCOMPLETE)
		assert_int_equal(heddle_wait_joined(scene->fabric, 5000, NULL, NULL), 0);
	if (scene->situation == STOPPED)
		stop_server(scene);
}

/* --- the calls -------------------------------------------------------------------------------- */

#define BIT(situation) (1u << (situation))
#define ALL (BIT(SITUATIONS) - 1)
#define UNJOINED (ALL & ~(BIT(STOPPED) | BIT(INCOMPLETE)))
#define SCHEDULED (BIT(NO_CONTROLLER) | BIT(CONTROLLER_ALONE))

static const struct call {
	const char *name;
	int (*call)(struct scene *scene);
	unsigned times_out; /* in these situations; in others it ends sooner or later, in time */
	unsigned situations;
	bool federated;
} calls[] = {
	{"heddle_wait_joined", call_wait_joined, UNJOINED, ALL, false},
	{"heddle_ticket_wait", call_ticket_wait, ALL, ALL, false},
	{"heddle_push", call_push, ALL, ALL, false},
	{"heddle_push_sparse", call_push_sparse, ALL, ALL, false},
	{"heddle_pull", call_pull, ALL, ALL, false},
	{"heddle_allreduce", call_allreduce, SCHEDULED, SCHEDULED, false},
	{"heddle_agree", call_agree, SCHEDULED, SCHEDULED, false},
	{"heddle_share_state", call_share_state, SCHEDULED, SCHEDULED, false},
	/* Of one worker, values that are not added need no other node. */
	{"heddle_barrier", call_barrier, BIT(NO_CONTROLLER), SCHEDULED, false},
	{"heddle_broadcast", call_broadcast, BIT(NO_CONTROLLER), SCHEDULED, false},
	{"heddle_reduce", call_reduce, SCHEDULED, SCHEDULED, false},
	{"heddle_allreduce_list", call_allreduce_list, SCHEDULED, SCHEDULED, false},
	{"heddle_broadcast_list", call_broadcast_list, BIT(NO_CONTROLLER), SCHEDULED, false},
	{"heddle_reduce_list", call_reduce_list, SCHEDULED, SCHEDULED, false},
	{"heddle_allgather", call_allgather, BIT(NO_CONTROLLER), SCHEDULED, false},
	{"heddle_gather", call_gather, BIT(NO_CONTROLLER), SCHEDULED, false},
	{"heddle_reduce_scatter", call_reduce_scatter, SCHEDULED, SCHEDULED, false},
	{"heddle_alltoall", call_alltoall, BIT(NO_CONTROLLER), SCHEDULED, false},
	{"heddle_scatter", call_scatter, BIT(NO_CONTROLLER), SCHEDULED, false},
	{"heddle_send", call_send, SCHEDULED, SCHEDULED, false},
	{"heddle_recv", call_recv, SCHEDULED, SCHEDULED, false},
	{"heddle_progress", call_progress, 0, ALL, false},
	{"heddle_round_wait", call_round_wait, ALL, ALL, true},
	{"heddle_leave", call_leave, ALL & ~BIT(INCOMPLETE), ALL, false},
	{"heddle_close", call_close, ALL & ~BIT(INCOMPLETE), ALL, false},
};

static double now_ms(void) {
	return (double)hd_driver_now() * 1e-6;
}

static void play(struct scene *scene, const struct call *call, int manual) {
	double begun;
	int rc;

	open_job(scene, manual, call->federated);
	begun = now_ms();
	rc = call->call(scene);
	print_message(
		"%s, %s%s: %d after %.0f ms\n",
		call->name,
		situation_names[scene->situation],
		manual ? ", manual" : "",
		rc,
		now_ms() - begun
	);
	if (call->times_out & BIT(scene->situation))
		assert_int_equal(rc, -ETIMEDOUT);
	/* Two waits at most: a pull of what the worker starts from does not count. */
	assert_true(now_ms() - begun < 2 * TIMEOUT_MS + SLACK_MS);
	if (scene->fabric)
		(void)heddle_close(scene->fabric, TIMEOUT_MS);
	scene->fabric = NULL;
}

static void restart(void **state) {
	assert_int_equal(teardown(state), 0);
	assert_int_equal(setup(state), 0);
}

static void play_all(void **state, enum situation situation) {
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		for (int manual = 0; manual < 2; manual++) {
			struct scene *scene;

			if (!(calls[i].situations & BIT(situation)))
				continue;
			restart(state);
			scene = *state;
			scene->situation = situation;
			play(scene, &calls[i], manual);
		}
}

static void test_no_server(void **state) {
	play_all(state, NO_SERVER);
}

static void test_cut_off(void **state) {
	play_all(state, CUT_OFF);
}

static void test_stopped(void **state) {
	play_all(state, STOPPED);
}

static void test_incomplete(void **state) {
	play_all(state, INCOMPLETE);
}

static void test_no_controller(void **state) {
	play_all(state, NO_CONTROLLER);
}

static void test_controller_alone(void **state) {
	play_all(state, CONTROLLER_ALONE);
}

/* No node answers, and this worker's machine has been taken away: what waits for ever ends. */
static void test_waits_end_when_left(void **state) {
	for (int manual = 0; manual < 2; manual++) {
		struct heddle_round round = HEDDLE_ROUND_INIT;
		struct heddle_ticket *ticket;
		struct scene *scene;
		int rc;

		restart(state);
		scene = *state;
		scene->situation = NO_SERVER;
		open_job(scene, manual, true);
		assert_int_equal(heddle_notify_preemption(scene->fabric, 0.05), 0);
		assert_int_equal(heddle_wait_joined(scene->fabric, -1, NULL, NULL), -ESHUTDOWN);
		assert_int_equal(heddle_round_wait(scene->fabric, &round, -1), -ESHUTDOWN);
		do {
			rc = heddle_progress(scene->fabric, -1);
		} while (rc == 1);
		assert_int_equal(rc, -ESHUTDOWN);
		assert_int_equal(
			heddle_pull_start(scene->fabric, scene->model, NULL, &ticket), -ESHUTDOWN
		);
		assert_int_equal(heddle_leave(scene->fabric, -1), 0);
		assert_int_equal(heddle_close(scene->fabric, -1), 0);
		scene->fabric = NULL;
	}
}

/* The buffer of a pull that timed out is not written when the server comes back. */
static void test_buffer_is_the_callers(void **state) {
	struct scene *scene = *state;
	static float other[VALUES];

	scene->situation = STOPPED;
	open_job(scene, 0, false);
	assert_int_equal(heddle_pull(scene->fabric, scene->model, NULL, 50, NULL), -ETIMEDOUT);
	for (int i = 0; i < VALUES; i++)
		scene->model[i] = 42;
	go_on(scene);
	assert_int_equal(heddle_pull(scene->fabric, other, NULL, 10000, NULL), 0);
	for (int i = 0; i < VALUES; i++)
		assert_true(scene->model[i] == 42 && other[i] == 0);
	assert_int_equal(heddle_close(scene->fabric, 5000), 0);
}

/* Whatever takes `int timeout_ms` in the public headers is in the table. */
static void test_table_is_whole(void **state) {
	static char text[1 << 17];
	unsigned found = 0;
	glob_t headers;

	(void)state;
	assert_int_equal(glob(HEADERS "/*.h", 0, NULL, &headers), 0);
	for (size_t h = 0; h < headers.gl_pathc; h++) {
		FILE *file = fopen(headers.gl_pathv[h], "r");

		assert_non_null(file);
		text[fread(text, 1, sizeof text - 1, file)] = '\0';
		assert_int_equal(fclose(file), 0);
		for (char *at = text; (at = strstr(at, "int timeout_ms")); at++) {
			char *name = at, *end;
			bool known = false;

			while (name > text && *name != '(')
				name--;
			end = name;
			while (name > text && name[-1] != ' ' && name[-1] != '\n' && name[-1] != '*'
			)
				name--;
			for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
				known |= strlen(calls[i].name) == (size_t)(end - name)
					&& strncmp(calls[i].name, name, (size_t)(end - name)) == 0;
			if (!known)
				fail_msg("%.*s is not in the table", (int)(end - name), name);
			found++;
		}
	}
	globfree(&headers);
	assert_int_equal(found, sizeof calls / sizeof *calls);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_server, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cut_off, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stopped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_incomplete, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_controller, setup, teardown),
		cmocka_unit_test_setup_teardown(test_controller_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_waits_end_when_left, setup, teardown),
		cmocka_unit_test_setup_teardown(test_buffer_is_the_callers, setup, teardown),
		cmocka_unit_test(test_table_is_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
