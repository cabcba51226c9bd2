/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The round-trip time of one packet on this machine and kernel between two processes that sleep in between: plain
 * blocking sockets, no epoll, no driver of ours. No answer after silence can be faster.
 *
 *     bench_ping echo ADDR                     prints "ready PORT" and answers until it is killed
 *     bench_ping ADDR:PORT [--asks N] [--pause-ms N] [--bytes N]
 *
 * The asking side pauses N/2 to 3N/2 ms before each packet, as bench_grant does; prints JSON.
 */
#include "hd_random.h"
#include "hd_udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#define ASKS_MAX 10000
#define BYTES_MAX 1400

static void need(bool good, const char *what) {
	if (good)
		return;
	(void)fprintf(stderr, "bench_ping: %s: %s\n", what, strerror(errno));
	exit(1);
}

static struct sockaddr_in name_of(struct hd_addr addr) {
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(addr.port),
		.sin_addr.s_addr = htonl(addr.ipv4),
	};
}

static _Noreturn void echo(const char *text) {
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in name, peer;
	struct hd_addr addr = {0};
	uint8_t packet[BYTES_MAX];
	socklen_t bytes = sizeof name;

	need(fd >= 0 && hd_udp_resolve(text, &addr) == 0, text);
	addr.port = 0;
	name = name_of(addr);
	need(bind(fd, (struct sockaddr *)&name, sizeof name) == 0, "bind");
	need(getsockname(fd, (struct sockaddr *)&name, &bytes) == 0, "getsockname");
	(void)printf("ready %u\n", ntohs(name.sin_port));
	(void)fflush(stdout);
	for (;;) {
		socklen_t peer_bytes = sizeof peer;
		ssize_t n = recvfrom(
			fd, packet, sizeof packet, 0, (struct sockaddr *)&peer, &peer_bytes
		);

		need(n >= 0, "recvfrom");
		(void)sendto(fd, packet, (size_t)n, 0, (struct sockaddr *)&peer, peer_bytes);
	}
}

static int by_value(const void *a, const void *b) {
	hd_ns x = *(const hd_ns *)a, y = *(const hd_ns *)b;

	return (x > y) - (x < y);
}

static void pause_ns(hd_ns span) {
	const struct timespec ts = {
		.tv_sec = (time_t)(span / HD_SECOND),
		.tv_nsec = (long)(span % HD_SECOND),
	};

	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
}

static int ping(const char *text, uint32_t asks, double pause_ms, size_t bytes) {
	const struct timeval limit = {.tv_sec = 2};
	hd_ns *took = calloc(asks, sizeof *took), span = (hd_ns)(pause_ms * 1e6);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	uint8_t packet[BYTES_MAX] = {0};
	struct hd_random random;
	uint32_t median, late;
	struct hd_addr addr = {0};
	struct sockaddr_in name;

	need(took && fd >= 0 && hd_udp_resolve(text, &addr) == 0, text);
	name = name_of(addr);
	need(connect(fd, (struct sockaddr *)&name, sizeof name) == 0, "connect");
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	(void)prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0); /* as the drivers */
	hd_random_init(&random, 1);
	for (uint32_t i = 0; i < asks; i++) {
		hd_ns asked_at;

		if (span > 0)
			pause_ns(span / 2 + hd_random_below(&random, span));
		asked_at = hd_udp_now();
		need(send(fd, packet, bytes, 0) == (ssize_t)bytes, "send");
		need(recv(fd, packet, sizeof packet, 0) == (ssize_t)bytes, "recv");
		took[i] = hd_udp_now() - asked_at;
	}
	median = asks / 2;
	late = asks - 1 - asks / 100;
	qsort(took, asks, sizeof took[0], by_value);
	(void
	)printf("{\"asked\": %u, \"median_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}\n",
		asks,
		(double)took[median] / 1e3,
		(double)took[late] / 1e3,
		(double)took[asks - 1] / 1e3);
	free(took);
	return 0;
}

int main(int argc, char **argv) {
	static const struct option long_options[] = {
		{"asks", required_argument, NULL, 'a'},
		{"pause-ms", required_argument, NULL, 'p'},
		{"bytes", required_argument, NULL, 'b'},
		{0},
	};
	uint32_t asks = 1000;
	double pause_ms = 0;
	size_t bytes = 128;
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		if (c == 'a')
			asks = (uint32_t)strtoul(optarg, NULL, 10);
		else if (c == 'p')
			pause_ms = strtod(optarg, NULL);
		else if (c == 'b')
			bytes = strtoul(optarg, NULL, 10);
		else
			exit(64);
	errno = EINVAL;
	need(asks >= 1 && asks <= ASKS_MAX, "--asks: 1 to 10000");
	need(pause_ms >= 0 && pause_ms <= 10000, "--pause-ms: at most 10000");
	need(bytes >= 1 && bytes <= BYTES_MAX, "--bytes: 1 to 1400");
	if (optind + 2 == argc && strcmp(argv[optind], "echo") == 0)
		echo(argv[optind + 1]);
	need(optind + 1 == argc, "see its first lines");
	return ping(argv[optind], asks, pause_ms, bytes);
}
