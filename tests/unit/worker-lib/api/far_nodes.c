/* SPDX-License-Identifier: BSD-3-Clause */
/* A controller and an aggregator, the real cores, on the loopback interface; and workers of their jobs. */
#include "far_nodes.h"
#include "hd_aggregator.h"
#include "hd_controller.h"
#include "hd_program.h"
#include "hd_topology.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct node {
	struct hd_driver *driver;
	struct hd_node core;
	pthread_t thread;
	struct hd_addr address;
	uint32_t window;
};

struct far_nodes {
	struct hd_keyring keys;
	char key_path[64], address[32];
	pthread_mutex_t lock;
	char log[512]; // lock
	void (*heed)(const char *text);
	struct node controller, aggregator;
	struct hd_controller *c;
	struct hd_aggregator *a;
};

static void *serve(void *arg) {
	const struct node *node = arg;

	assert_int_equal(hd_driver_run(node->driver, node->core), 0);
	return NULL;
}

static void node_open(struct node *node) {
	struct hd_driver_config config = {.bind = {.ipv4 = 0x7f000001}};
	char error[256];

	assert_int_equal(hd_driver_open(&config, &node->driver, error, sizeof error), 0);
	node->address = hd_driver_bound(node->driver);
	node->window = hd_driver_receive_window(node->driver);
}

static void node_start(struct node *node, const struct hd_core_ops *ops, void *core) {
	node->core = (struct hd_node){ops, core};
	assert_int_equal(pthread_create(&node->thread, NULL, serve, node), 0);
}

static void node_stop(struct node *node) {
	hd_driver_stop(node->driver);
	pthread_join(node->thread, NULL);
}

static void read_key(struct far_nodes *nodes) {
	char error[256];
	FILE *file;
	int fd;

	(void)snprintf(nodes->key_path, sizeof nodes->key_path, "/tmp/heddle-key-XXXXXX");
	fd = mkstemp(nodes->key_path);
	file = fd >= 0 ? fdopen(fd, "w") : NULL;
	assert_non_null(file);
	(void)fprintf(file, "1 %064d\n", 7);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(
		hd_program_read_keys(nodes->key_path, &nodes->keys, error, sizeof error), 0
	);
}

struct far_nodes *far_nodes_start(void) {
	struct far_nodes *nodes = calloc(1, sizeof *nodes);
	struct hd_controller_config controller = {.name = "c", .keys = &nodes->keys, .epoch = 1};
	struct hd_aggregator_config aggregator = {.name = "a", .host = "a", .keys = &nodes->keys};

	assert_int_equal(pthread_mutex_init(&nodes->lock, NULL), 0);
	read_key(nodes);
	node_open(&nodes->controller);
	node_open(&nodes->aggregator);
	controller.key_id = aggregator.key_id = nodes->keys.keys[0].id;
	assert_int_equal(hd_program_entropy(controller.seed), 0);
	assert_int_equal(hd_program_entropy(aggregator.seed), 0);
	assert_int_equal(hd_topology_create_star(&controller.topology), 0);
	assert_int_equal(hd_controller_create(&controller, &nodes->c), 0);
	aggregator.controller = nodes->controller.address;
	aggregator.data = nodes->aggregator.address;
	aggregator.receive_window_bytes = nodes->aggregator.window;
	assert_int_equal(hd_aggregator_create(&aggregator, &nodes->a), 0);
	node_start(&nodes->controller, &hd_controller_ops, nodes->c);
	node_start(&nodes->aggregator, &hd_aggregator_ops, nodes->a);
	(void)snprintf(
		nodes->address,
		sizeof nodes->address,
		"127.0.0.1:%u",
		nodes->controller.address.port
	);
	return nodes;
}

void far_nodes_stop(struct far_nodes *nodes) {
	node_stop(&nodes->aggregator);
	node_stop(&nodes->controller);
	hd_aggregator_destroy(nodes->a);
	hd_controller_destroy(nodes->c);
	hd_driver_close(nodes->aggregator.driver);
	hd_driver_close(nodes->controller.driver);
	hd_keyring_fini(&nodes->keys);
	unlink(nodes->key_path);
	pthread_mutex_destroy(&nodes->lock);
	free(nodes);
}

static void keep_log(void *arg, enum heddle_log_level level, const char *text) {
	struct far_nodes *nodes = arg;

	if (level != HEDDLE_LOG_ERROR)
		return;
	if (nodes->heed)
		nodes->heed(text);
	pthread_mutex_lock(&nodes->lock);
	(void)snprintf(nodes->log, sizeof nodes->log, "%s", text);
	pthread_mutex_unlock(&nodes->lock);
}

void far_nodes_on_error(struct far_nodes *nodes, void (*heed)(const char *text)) {
	nodes->heed = heed;
}

bool far_nodes_logged(struct far_nodes *nodes, const char *text) {
	bool is;

	pthread_mutex_lock(&nodes->lock);
	is = strcmp(nodes->log, text) == 0;
	pthread_mutex_unlock(&nodes->lock);
	return is;
}

struct heddle *
far_nodes_join(struct far_nodes *nodes, const char *job, const char *host, int rank) {
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	struct heddle_spec *spec;
	struct heddle *fabric;

	assert_int_equal(heddle_spec_create("tests", job, &spec), 0);
	options.controller = nodes->address;
	options.key_file = nodes->key_path;
	options.host = host;
	options.bind = "127.0.0.1";
	options.rank = rank;
	options.log = keep_log;
	options.log_arg = nodes;
	assert_int_equal(heddle_open(spec, &options, &fabric), 0);
	heddle_spec_destroy(spec);
	return fabric;
}
