/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One process of bench_bytes.py: a worker that pushes an update of VALUES fp32 values and pulls the model, ROUNDS
 * times, through Heddle or through a plain TCP server, or that server.
 *
 *   bench_bytes heddle VALUES ROUNDS
 *   bench_bytes tcp ADDRESS VALUES ROUNDS
 *   bench_bytes tcp-server ADDRESS VALUES WORKERS
 *
 * A worker makes one round, prints "ready", and begins at the line that it reads then. It prints "done SECONDS", and
 * ends when its input does. The TCP server has a thread for each worker, which reads the update, subtracts it from the
 * model and writes the model.
 */
#include "heddle.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	PATIENCE_MS = 120000,
	TAU_MAX = 1000,
	PORT = 5202
};

struct run {
	uint64_t values;
	float *update, *model;
	struct heddle *heddle;
	uint64_t version;
	int socket;
};

static void die(const char *what, const char *why) {
	(void)fprintf(stderr, "bench_bytes: %s: %s\n", what, why);
	exit(1);
}

static double now(void) {
	struct timespec at;

	(void)clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* --- Heddle ------------------------------------------------------------------------------------ */

static void join(struct run *run) {
	struct heddle_spec *spec;

	if (heddle_spec_create(NULL, NULL, &spec) < 0
	    || heddle_spec_add_tensor(spec, "w", &run->values, 1, HEDDLE_INIT_ZERO, 0) < 0)
		die("description", heddle_last_error());
	heddle_spec_set_tau_max(spec, TAU_MAX);
	heddle_spec_set_integrity(spec, 0);
	if (heddle_open(spec, NULL, &run->heddle) < 0
	    || heddle_wait_joined(run->heddle, PATIENCE_MS, &run->version, NULL) < 0)
		die("join", heddle_last_error());
	heddle_spec_destroy(spec);
}

static void round_heddle(struct run *run) {
	const struct heddle_push_options options = {.size = sizeof options, .borrow = 1};
	struct heddle_status status = HEDDLE_STATUS_INIT;

	if (heddle_push(run->heddle, run->update, run->version, &options, PATIENCE_MS, &status) < 0)
		die("push", heddle_last_error());
	if (heddle_pull(run->heddle, run->model, NULL, PATIENCE_MS, &status) < 0)
		die("pull", heddle_last_error());
	run->version = status.version;
}

/* --- TCP --------------------------------------------------------------------------------------- */

static void send_all(int socket, const float *values, uint64_t count) {
	const char *at = (const char *)values;
	size_t left = count * sizeof *values;

	while (left > 0) {
		const ssize_t n = send(socket, at, left, MSG_NOSIGNAL);

		if (n <= 0)
			die("tcp", "send");
		at += n;
		left -= (size_t)n;
	}
}

/* False: the other end has closed. */
static int recv_all(int socket, float *values, uint64_t count) {
	return recv(socket, values, count * sizeof *values, MSG_WAITALL)
		== (ssize_t)(count * sizeof *values);
}

static struct sockaddr_in name_of(const char *address) {
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	if (inet_pton(AF_INET, address, &name.sin_addr) != 1)
		die(address, "want an IPv4 address");
	return name;
}

static void dial(struct run *run, const char *address) {
	const struct sockaddr_in name = name_of(address);
	int on = 1;

	run->socket = socket(AF_INET, SOCK_STREAM, 0);
	(void)setsockopt(run->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (connect(run->socket, (const struct sockaddr *)&name, sizeof name) < 0)
		die(address, "connect");
}

static void round_tcp(struct run *run) {
	send_all(run->socket, run->update, run->values);
	if (!recv_all(run->socket, run->model, run->values))
		die("tcp", "the server has gone");
}

static struct {
	pthread_mutex_t lock;
	uint64_t values;
	float *model;
} server = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *serve(void *argument) {
	const int socket = *(const int *)argument;
	float *update = malloc(server.values * sizeof *update);

	if (!update)
		die("memory", "none left");
	while (recv_all(socket, update, server.values)) {
		(void)pthread_mutex_lock(&server.lock);
		for (uint64_t i = 0; i < server.values; i++)
			server.model[i] -= update[i];
		(void)pthread_mutex_unlock(&server.lock);
		send_all(socket, server.model, server.values);
	}
	free(update);
	(void)close(socket);
	return NULL;
}

static void run_server(const char *address, uint64_t values, unsigned long workers) {
	const struct sockaddr_in name = name_of(address);
	const int listening = socket(AF_INET, SOCK_STREAM, 0);
	pthread_t *threads = calloc(workers, sizeof *threads);
	int *sockets = calloc(workers, sizeof *sockets), on = 1;

	server.values = values;
	server.model = calloc(values, sizeof *server.model);
	if (!threads || !sockets || !server.model)
		die("memory", "none left");
	(void)setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(listening, (const struct sockaddr *)&name, sizeof name) < 0
	    || listen(listening, (int)workers) < 0)
		die(address, "bind");
	(void)printf("listening\n");
	(void)fflush(stdout);
	for (unsigned long i = 0; i < workers; i++) {
		sockets[i] = accept(listening, NULL, NULL);
		(void)setsockopt(sockets[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		(void)pthread_create(&threads[i], NULL, serve, &sockets[i]);
	}
	for (unsigned long i = 0; i < workers; i++)
		(void)pthread_join(threads[i], NULL);
	(void)close(listening);
	free(server.model);
	free(sockets);
	free(threads);
}

/* ----------------------------------------------------------------------------------------------- */

static void run_worker(struct run *run, void (*round)(struct run *run), uint64_t rounds) {
	double began;

	round(run); /* opens connections, and touches all memory */
	(void)printf("ready\n");
	(void)fflush(stdout);
	if (getchar() == EOF)
		return;
	began = now();
	for (uint64_t i = 0; i < rounds; i++)
		round(run);
	(void)printf("done %.6f\n", now() - began);
	(void)fflush(stdout);
	while (getchar() != EOF)
		continue;
}

int main(int argc, char **argv) {
	const int tcp = argc == 5 && strcmp(argv[1], "tcp") == 0;
	struct run run = {.values = argc > 2 ? strtoull(argv[argc - 2], NULL, 10) : 0};

	if (argc == 5 && strcmp(argv[1], "tcp-server") == 0) {
		run_server(argv[2], run.values, strtoul(argv[4], NULL, 10));
		return 0;
	}
	if (run.values == 0 || (!tcp && (argc != 4 || strcmp(argv[1], "heddle") != 0)))
		die("usage",
		    "bench_bytes heddle VALUES ROUNDS | tcp ADDRESS VALUES ROUNDS | "
		    "tcp-server ADDRESS VALUES WORKERS");
	run.update = malloc(run.values * sizeof *run.update);
	run.model = malloc(run.values * sizeof *run.model);
	if (!run.update || !run.model)
		die("memory", "none left");
	for (uint64_t i = 0; i < run.values; i++)
		run.update[i] = (float)(i % 8) * 0.125f;
	if (tcp)
		dial(&run, argv[2]);
	else
		join(&run);
	run_worker(&run, tcp ? round_tcp : round_heddle, strtoull(argv[argc - 1], NULL, 10));
	if (run.heddle)
		(void)heddle_close(run.heddle, 2000);
	if (tcp)
		(void)close(run.socket);
	free(run.update);
	free(run.model);
	return 0;
}
