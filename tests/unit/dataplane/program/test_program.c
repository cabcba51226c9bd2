/* SPDX-License-Identifier: BSD-3-Clause */
/* Event log, key file, entropy and signals. */
#include "hd_message.h"
#include "hd_program.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/heddle-program-XXXXXX";

static int make_directory(void **state) {
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state) {
	return rmdir(directory);
}

static const char *path_of(const char *name) {
	static char path[128];

	(void)snprintf(path, sizeof path, "%s/%s", directory, name);
	return path;
}

static void write_file(const char *name, const void *data, size_t bytes) {
	FILE *file = fopen(path_of(name), "w");

	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, bytes, file), bytes);
	assert_int_equal(fclose(file), 0);
}

static void test_event_json(void **state) {
	struct hd_event event = {
		.at = INT64_MAX,
		.kind = HD_EVENT_COMMITTED,
		.reason = HD_REASON_LOST_BASE,
		.job = UINT32_MAX,
		.worker = 3,
		.direction = HD_PULL,
		.round = UINT32_MAX,
		.token = 0x0123456789abcdefu,
		.position = INT64_MAX,
		.version = hd_version_make(2, 77),
		.base = hd_version_make(1, 70),
		.bytes = INT64_MAX,
		.aux = INT64_MAX,
		.value = -1.25e-300,
	};
	char line[HD_EVENT_JSON_BYTES], node[2 * HD_NAME_BYTES_MAX + 1];
	char longest[HD_NAME_BYTES_MAX + 1];
	json_t *json;
	size_t bytes;

	memset(longest, '"', HD_NAME_BYTES_MAX);
	longest[HD_NAME_BYTES_MAX] = '\0';
	hd_event_json_name(longest, node, sizeof node);
	bytes = hd_event_json(&event, node, line);
	assert_int_equal(line[bytes - 1], '\n');
	json = json_loadb(line, bytes, 0, NULL);
	assert_non_null(json);
	assert_string_equal(json_string_value(json_object_get(json, "event")), "committed");
	assert_string_equal(json_string_value(json_object_get(json, "reason")), "lost-base");
	assert_string_equal(json_string_value(json_object_get(json, "direction")), "pull");
	assert_string_equal(json_string_value(json_object_get(json, "token")), "0123456789abcdef");
	assert_int_equal(json_integer_value(json_object_get(json, "version")), 77);
	assert_int_equal(json_integer_value(json_object_get(json, "incarnation")), 2);
	assert_int_equal(json_integer_value(json_object_get(json, "base")), 70);
	assert_int_equal(json_integer_value(json_object_get(json, "worker")), 3);
	assert_true(json_real_value(json_object_get(json, "value")) == -1.25e-300);
	json_decref(json);

	event = (struct hd_event){.kind = HD_EVENT_PLAN, .value = NAN};
	bytes = hd_event_json(&event, "c", line);
	assert_int_equal(bytes, strlen("{\"at_ns\":0,\"node\":\"c\",\"event\":\"plan\"}\n"));
}

static size_t count_lines(const char *path, uint64_t *last_round) {
	FILE *file = fopen(path, "r");
	char line[HD_EVENT_JSON_BYTES + 1];
	size_t lines = 0;

	assert_non_null(file);
	while (fgets(line, sizeof line, file)) {
		json_t *json = json_loads(line, 0, NULL);

		assert_non_null(json);
		*last_round = (uint64_t)json_integer_value(json_object_get(json, "round"));
		assert_int_equal(*last_round, ++lines);
		json_decref(json);
	}
	(void)fclose(file);
	return lines;
}

static void add_events(struct hd_event_log *log, uint32_t first, uint32_t last) {
	for (uint32_t i = first; i <= last; i++)
		hd_event_log_add(
			log,
			&(struct hd_event){.at = i, .kind = HD_EVENT_PUSHED, .job = 1, .round = i}
		);
}

static void test_event_log(void **state) {
	struct hd_event_log *log = NULL;
	struct timespec pause = {.tv_nsec = 20000000};
	uint64_t round = 0;
	const char *path = path_of("events");

	assert_int_equal(hd_event_log_open(path, "w1", &log), 0);
	add_events(log, 1, 10);
	/* It comes to the file by itself, soon. */
	for (int i = 0; i < 150 && count_lines(path, &round) < 10; i++)
		nanosleep(&pause, NULL);
	assert_int_equal(count_lines(path, &round), 10);
	/* Many more than a buffer holds. */
	add_events(log, 11, 60000);
	assert_int_equal(hd_event_log_close(log), 0);
	assert_int_equal(count_lines(path, &round), 60000);
	unlink(path);
	assert_int_equal(hd_event_log_close(NULL), 0);
	hd_event_log_add(NULL, &(struct hd_event){0});
}

/* kB that the process has. */
static long resident(void) {
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char line[128];
	long kb = -1;

	assert_non_null(file);
	while (kb < 0 && fgets(line, sizeof line, file))
		(void)sscanf(line, "Rss: %ld", &kb);
	(void)fclose(file);
	return kb;
}

static size_t drain(int fd, size_t bytes) {
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	char data[4096];
	size_t done = 0;

	while (done < bytes && poll(&ready, 1, 10000) == 1) {
		ssize_t n = read(fd, data, sizeof data);

		assert_true(n > 0);
		done += (size_t)n;
	}
	return done;
}

/* Its shadow of pages that are given back stays. */
#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER 1
#elif defined(__has_feature)
#define THREAD_SANITIZER __has_feature(thread_sanitizer)
#else
#define THREAD_SANITIZER 0
#endif

/* Events that cannot be written take memory only for that long. */
static void test_event_log_stall(void **state) {
	struct timespec pause = {.tv_nsec = 20000000};
	struct hd_event_log *log = NULL;
	char line[HD_EVENT_JSON_BYTES + 1];
	size_t bytes = 0;
	const char *path = path_of("stall");
	long before, after;
	int fd;

	if (THREAD_SANITIZER)
		skip();
	for (uint32_t i = 1; i <= 8000; i++)
		bytes += hd_event_json(
			&(struct hd_event){.at = i, .kind = HD_EVENT_PUSHED, .job = 1, .round = i},
			"w1",
			line
		);
	assert_in_range(bytes, 600000, 1000000);
	assert_int_equal(mkfifo(path, 0600), 0);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(hd_event_log_open(path, "w1", &log), 0);
	before = resident();
	add_events(log, 1, 8000);
	assert_true(resident() >= before + 550);
	assert_int_equal(drain(fd, bytes), bytes);
	after = resident();
	for (int i = 0; i < 500 && after > before + 350; i++) {
		nanosleep(&pause, NULL);
		after = resident();
	}
	assert_true(after <= before + 350);
	assert_int_equal(hd_event_log_close(log), 0);
	close(fd);
	unlink(path);
}

struct said {
	int count;
	char last[128];
};

static void on_trouble(void *owner, const char *sentence) {
	struct said *said = owner;

	said->count++;
	(void)snprintf(said->last, sizeof said->last, "%s", sentence);
}

static double seconds(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A pipe that is not read: neither an add nor a close waits for it longer than a session lives. */
static void test_event_log_unread(void **state) {
	struct hd_event_log *log = NULL;
	struct said said = {0};
	const char *path = path_of("unread");
	double before, longest = 0;
	int fd;

	assert_int_equal(mkfifo(path, 0600), 0);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(hd_event_log_open(path, "w1", &log), 0);
	hd_event_log_on_trouble(log, on_trouble, &said);
	for (uint32_t i = 0; i < 80; i++) {
		before = seconds();
		add_events(log, 1000 * i + 1, 1000 * i + 1000);
		if (seconds() - before > longest)
			longest = seconds() - before;
	}
	assert_true(longest < 0.7);
	assert_true(hd_event_log_lost(log) > 10000);
	assert_int_equal(said.count, 1);
	assert_non_null(strstr(said.last, "no reader"));
	before = seconds();
	assert_int_equal(hd_event_log_close(log), -EAGAIN);
	assert_true(seconds() - before < 1);
	close(fd);
	unlink(path);
}

static void test_event_log_errors(void **state) {
	struct hd_event_log *log = NULL;

	assert_int_equal(hd_event_log_open("/nonexistent/x", "w1", &log), -ENOENT);
	assert_null(log);
	if (access("/dev/full", W_OK) < 0)
		skip();
	assert_int_equal(hd_event_log_open("/dev/full", "w1", &log), 0);
	add_events(log, 1, 2);
	assert_int_equal(hd_event_log_close(log), -ENOSPC);
}

/* A full disk is spoken of once, however often it is tried. */
static void test_event_log_full(void **state) {
	struct hd_event_log *log = NULL;
	struct said said = {0};

	if (access("/dev/full", W_OK) < 0)
		skip();
	assert_int_equal(hd_event_log_open("/dev/full", "w1", &log), 0);
	hd_event_log_on_trouble(log, on_trouble, &said);
	for (uint32_t i = 0; i < 5; i++) {
		add_events(log, 10 * i + 1, 10 * i + 10);
		assert_int_equal(hd_event_log_sync(log), -ENOSPC);
	}
	assert_int_equal(hd_event_log_lost(log), 50);
	assert_int_equal(said.count, 1);
	assert_non_null(strstr(said.last, "events are lost"));
	assert_int_equal(hd_event_log_close(log), -ENOSPC);
}

/* The disk fills up within a line: the file ends with a whole one; with room again a line says what is missing. */
static void test_event_log_gap(void **state) {
	struct hd_event_log *log = NULL;
	struct said said = {0};
	struct rlimit was, little;
	const char *path = path_of("gap");
	uint64_t lines, lost;
	char line[512];
	FILE *file;

	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	little = was;
	little.rlim_cur = 1000;
	assert_int_equal(hd_event_log_open(path, "w1", &log), 0);
	hd_event_log_on_trouble(log, on_trouble, &said);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
	add_events(log, 1, 100);
	assert_int_equal(hd_event_log_sync(log), -ENOSPC);
	lost = hd_event_log_lost(log);
	assert_in_range(lost, 80, 99);
	add_events(log, 101, 110);
	assert_int_equal(hd_event_log_sync(log), -ENOSPC);
	assert_int_equal(hd_event_log_lost(log), lost + 10);
	assert_int_equal(said.count, 1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	add_events(log, 111, 120);
	assert_int_equal(hd_event_log_sync(log), 0);
	assert_int_equal(said.count, 2);
	(void)hd_event_log_close(log);
	file = fopen(path, "r");
	assert_non_null(file);
	for (lines = 0; fgets(line, sizeof line, file); lines++) {
		assert_int_equal(line[0], '{');
		assert_string_equal(line + strlen(line) - 2, "}\n");
		if (lines == 100 - lost) {
			assert_non_null(strstr(line, "log-gap"));
			assert_int_equal(
				strtoull(strstr(line, "\"aux\":") + 6, NULL, 10), lost + 10
			);
		}
	}
	assert_int_equal(lines, 100 - lost + 1 + 10);
	assert_int_equal(fclose(file), 0);
	unlink(path);
}

/* Events that were added are in the file when sync returns, not 200 ms later. */
static void test_event_log_sync(void **state) {
	struct hd_event_log *log = NULL;
	const char *path = path_of("sync");
	uint64_t round;

	assert_int_equal(hd_event_log_open(path, "w1", &log), 0);
	assert_int_equal(hd_event_log_sync(log), 0);
	for (uint32_t i = 0; i < 20; i++) {
		round = 0;
		add_events(log, i + 1, i + 1);
		assert_int_equal(hd_event_log_sync(log), 0);
		assert_int_equal(count_lines(path, &round), i + 1);
	}
	assert_int_equal(hd_event_log_close(log), 0);
	assert_int_equal(hd_event_log_sync(NULL), 0);
	unlink(path);
}

/* A warning for keys that other users can read, with the command to type. */
static void test_exposed_keys(void **state) {
	char warning[512] = "";

	(void)state;
	write_file("keys", "7 zz\n", 5);
	assert_int_equal(chmod(path_of("keys"), 0600), 0);
	assert_false(hd_program_keys_exposed(path_of("keys"), warning, sizeof warning));
	assert_string_equal(warning, "");
	assert_int_equal(chmod(path_of("keys"), 0640), 0);
	assert_true(hd_program_keys_exposed(path_of("keys"), warning, sizeof warning));
	assert_non_null(strstr(warning, "its group can read the node keys (mode 0640)"));
	assert_int_equal(chmod(path_of("keys"), 0644), 0);
	assert_true(hd_program_keys_exposed(path_of("keys"), warning, sizeof warning));
	assert_non_null(strstr(warning, "any user can read the node keys (mode 0644)"));
	assert_non_null(strstr(warning, "chmod 600 "));
	assert_false(hd_program_keys_exposed(path_of("none"), warning, sizeof warning));
}

static void test_keys(void **state) {
	static char big[70000];
	struct hd_keyring ring = {0};
	char line[80] = "7 ", error[256] = "";

	memset(line + 2, 'a', 64);
	line[66] = '\n';
	write_file("keys", line, strlen(line));
	assert_int_equal(hd_program_read_keys(path_of("keys"), &ring, error, sizeof error), 0);
	assert_int_equal(ring.count, 1);
	assert_int_equal(ring.keys[0].id, 7);
	assert_int_equal(ring.keys[0].secret[31], 0xaa);
	hd_keyring_fini(&ring);

	ring.count = 99;
	write_file("keys", "7 zz\n", 5);
	assert_int_equal(
		hd_program_read_keys(path_of("keys"), &ring, error, sizeof error), -EINVAL
	);
	assert_non_null(strstr(error, "keys: line 1"));
	write_file("keys", "7\0a\n", 4);
	assert_int_equal(
		hd_program_read_keys(path_of("keys"), &ring, error, sizeof error), -EINVAL
	);
	memset(big, '#', sizeof big);
	write_file("keys", big, sizeof big);
	assert_int_equal(hd_program_read_keys(path_of("keys"), &ring, error, sizeof error), -EFBIG);
	unlink(path_of("keys"));
	assert_int_equal(
		hd_program_read_keys(path_of("keys"), &ring, error, sizeof error), -ENOENT
	);
	assert_int_equal(ring.count, 99);
}

static void test_entropy(void **state) {
	uint8_t a[32] = {0}, b[32] = {0};

	assert_int_equal(hd_program_entropy(a), 0);
	assert_int_equal(hd_program_entropy(b), 0);
	assert_memory_not_equal(a, b, sizeof a);
}

static void idle_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {}

static void idle_tick(void *core, hd_ns now, struct hd_sink *sink) {
	(void)raise(SIGTERM);
	*(hd_ns *)core = HD_NEVER;
}

static hd_ns idle_deadline(const void *core) {
	return *(const hd_ns *)core;
}

static void test_signals(void **state) {
	static const struct hd_core_ops ops = {idle_receive, idle_tick, idle_deadline};
	struct hd_driver_config config = {.bind = {.ipv4 = 0x7f000001}};
	struct hd_driver *driver;
	hd_ns deadline = hd_driver_now() + 5 * HD_MS;
	char error[128];

	assert_int_equal(hd_driver_open(&config, &driver, error, sizeof error), 0);
	assert_int_equal(hd_program_signal(), 0);
	assert_int_equal(hd_program_stop_on_signals(driver), 0);
	assert_int_equal(hd_driver_run(driver, (struct hd_node){&ops, &deadline}), 0);
	assert_int_equal(hd_program_signal(), SIGTERM);
	(void)signal(SIGINT, SIG_DFL);
	hd_driver_close(driver);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_event_json),
		cmocka_unit_test(test_event_log),
		cmocka_unit_test(test_event_log_stall),
		cmocka_unit_test(test_event_log_errors),
		cmocka_unit_test(test_event_log_unread),
		cmocka_unit_test(test_event_log_full),
		cmocka_unit_test(test_event_log_gap),
		cmocka_unit_test(test_event_log_sync),
		cmocka_unit_test(test_exposed_keys),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_entropy),
		cmocka_unit_test(test_signals),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
