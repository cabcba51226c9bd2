/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_udp_private.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define RECEIVE_BUFFER_DEFAULT (8u << 20)
#define SEND_BUFFER_DEFAULT (4u << 20)

hd_ns hd_udp_now(void) {
	return hd_wait_now();
}

static int fail(char *error, size_t error_bytes, const char *what) {
	int code = -errno;

	if (error_bytes > 0)
		(void)snprintf(error, error_bytes, "%s: %s", what, strerror(-code));
	return code;
}

/* The privileged option exceeds net.core.*mem_max; without the privilege the kernel caps. */
static void set_buffer(int fd, int force, int normal, uint32_t bytes) {
	int size = bytes > INT32_MAX / 2 ? INT32_MAX / 2 : (int)bytes;

	if (setsockopt(fd, SOL_SOCKET, force, &size, sizeof size) < 0)
		(void)setsockopt(fd, SOL_SOCKET, normal, &size, sizeof size);
}

static int get_int(int fd, int level, int option) {
	int value = 0;
	socklen_t bytes = sizeof value;

	return getsockopt(fd, level, option, &value, &bytes) < 0 ? -errno : value;
}

static void set_options(struct hd_udp *udp, int fd) {
	const struct hd_udp_config *config = &udp->config;
	int on = 1, mtu = IP_PMTUDISC_OMIT;
	uint32_t receive = config->receive_buffer_bytes, send = config->send_buffer_bytes;

	set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, receive ? receive : RECEIVE_BUFFER_DEFAULT);
	set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, send ? send : SEND_BUFFER_DEFAULT);
	(void)setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof on);
	(void)setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
	/* Whole packets up to the interface's MTU, fragments beyond it, here or at a router: too large a chunk size is
	 * slow, not silent. ICMP, which can be forged, is not used: one packet would cost every peer its GSO. */
	(void)setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &mtu, sizeof mtu);
	if (!config->no_gro)
		(void)setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof on);
	udp->receive_window = (uint32_t)get_int(fd, SOL_SOCKET, SO_RCVBUF) / 2;
}

static int bind_socket(struct hd_udp *udp, int fd) {
	struct sockaddr_in name = {
		.sin_family = AF_INET,
		.sin_port = htons(udp->config.bind.port),
		.sin_addr.s_addr = htonl(udp->config.bind.ipv4),
	};
	socklen_t bytes = sizeof name;

	if (bind(fd, (struct sockaddr *)&name, sizeof name) < 0)
		return -errno;
	if (getsockname(fd, (struct sockaddr *)&name, &bytes) < 0)
		return -errno;
	udp->bound.ipv4 = ntohl(name.sin_addr.s_addr);
	udp->bound.port = ntohs(name.sin_port);
	return 0;
}

static void udp_event(struct hd_sink *sink, const struct hd_event *event) {
	struct hd_udp *udp = (struct hd_udp *)sink;

	udp->config.event(udp->config.owner, event);
}

/* --- the driver's part of a poll ------------------------------------------------------------ */

static int receive(void *driver, struct hd_node node, hd_ns now, hd_ns until) {
	struct hd_udp *udp = driver;
	bool readable = until <= now; /* busy: read the socket without asking epoll first */
	uint64_t before = udp->stats.received_packets;
	int code = 0;

	if (!readable && now < udp->hold.until) {
		code = hd_wait_pause(&udp->loop.wait, now, hd_ns_min(until, udp->hold.until));
		readable = true;
	} else if (!readable) {
		code = hd_wait_sleep(&udp->loop.wait, now, until, &readable);
	}
	if (code < 0)
		return code;
	udp->sink.whole_at = HD_NEVER;
	for (int round = 0; readable && round < UDP_RECV_ROUNDS_MAX; round++) {
		code = udp_receive(udp, node);
		if (code < 0)
			return code;
		readable = code > 0;
	}
	before = udp->stats.received_packets - before;
	udp_hold_note(&udp->hold, hd_udp_now(), (uint32_t)before, udp->sink.whole_at);
	return before > 0;
}

static void flush(void *driver) {
	udp_flush(driver);
}

static hd_ns deadline(const void *driver) {
	const struct hd_udp *udp = driver;

	return udp->backlog.retry_at;
}

/* The flush that follows tries again. */
static void tick(void *driver, hd_ns now) {
	struct hd_udp *udp = driver;

	udp->backlog.retry_at = now + UDP_BACKLOG_WAIT;
}

static const struct hd_loop_ops loop_ops
	= {.receive = receive, .flush = flush, .deadline = deadline, .tick = tick};

/* --- open and close -------------------------------------------------------------------------- */

int hd_udp_open(
	const struct hd_udp_config *config,
	struct hd_udp **udp,
	char *error,
	size_t error_bytes
) {
	struct hd_udp *u = calloc(1, sizeof *u);
	int fd, code = -ENOMEM;

	errno = ENOMEM;
	if (!u)
		return fail(error, error_bytes, "memory");
	u->config = *config;
	u->sink.send = udp_send;
	u->sink.send_stranger = udp_send_stranger;
	u->backlog.retry_at = HD_NEVER;
	u->sink.event = config->event ? udp_event : NULL;
	u->loop = (struct hd_loop){
		.ops = &loop_ops,
		.driver = u,
		.sink = &u->sink,
		.woken = config->woken,
		.owner = config->owner,
	};
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		code = fail(error, error_bytes, "socket");
		goto free_udp;
	}
	set_options(u, fd);
	if (bind_socket(u, fd) < 0) {
		code = fail(error, error_bytes, "bind");
		goto close_socket;
	}
	code = hd_wait_init(&u->loop.wait);
	if (code < 0) {
		errno = -code;
		code = fail(error, error_bytes, "epoll");
		goto close_socket;
	}
	code = hd_wait_watch(&u->loop.wait, fd);
	if (code == 0)
		code = udp_receiver_init(&u->receiver, fd);
	if (code < 0) {
		errno = -code;
		code = fail(error, error_bytes, "epoll");
		goto fini_wait;
	}
	udp_sender_init(&u->sender, fd, !config->no_gso && get_int(fd, SOL_UDP, UDP_SEGMENT) >= 0);
	udp_room_init(&u->room, u->sender.buffer_bytes);
	*udp = u;
	return 0;

fini_wait:
	hd_wait_fini(&u->loop.wait);
close_socket:
	close(fd);
free_udp:
	free(u);
	return code;
}

void hd_udp_close(struct hd_udp *udp) {
	if (!udp)
		return;
	hd_wait_fini(&udp->loop.wait);
	close(udp->sender.fd);
	udp_receiver_fini(&udp->receiver);
	free(udp->backlog.bytes);
	free(udp);
}

struct hd_addr hd_udp_bound(const struct hd_udp *udp) {
	return udp->bound;
}

uint32_t hd_udp_receive_window(const struct hd_udp *udp) {
	return udp->receive_window;
}

struct hd_udp_memory hd_udp_memory(const struct hd_udp *udp) {
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t bytes = sizeof info;

	(void)getsockopt(udp->sender.fd, SOL_SOCKET, SO_MEMINFO, info, &bytes);
	return (struct hd_udp_memory){
		.receive_bytes = info[SK_MEMINFO_RMEM_ALLOC],
		.receive_limit = info[SK_MEMINFO_RCVBUF],
		.send_bytes = info[SK_MEMINFO_WMEM_ALLOC],
		.send_limit = info[SK_MEMINFO_SNDBUF],
	};
}

const struct hd_udp_stats *hd_udp_stats(const struct hd_udp *udp) {
	return &udp->stats;
}

int hd_udp_fd(const struct hd_udp *udp) {
	return udp->loop.wait.epoll_fd;
}

void hd_udp_stop(struct hd_udp *udp) {
	hd_wait_stop(&udp->loop.wait);
}

void hd_udp_wake(struct hd_udp *udp) {
	hd_wait_wake(&udp->loop.wait);
}

int hd_udp_poll(struct hd_udp *udp, struct hd_node node, hd_ns until) {
	int code = hd_loop_poll(&udp->loop, node, until);

	udp->stats.polls = udp->loop.polls;
	udp->stats.idle_polls = udp->loop.idle_polls;
	return code;
}

int hd_udp_run(struct hd_udp *udp, struct hd_node node) {
	int code = 0;

	while (!hd_wait_stopped(&udp->loop.wait) && code == 0)
		code = hd_udp_poll(udp, node, HD_NEVER);
	return code;
}
