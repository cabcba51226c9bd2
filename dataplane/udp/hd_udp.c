/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_udp_private.h"

#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define RECEIVE_BUFFER_DEFAULT (8u << 20)
#define SEND_BUFFER_DEFAULT (4u << 20)
#define TIMER_SLACK_NS 1000

hd_ns hd_udp_now(void) {
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (hd_ns)ts.tv_sec * HD_SECOND + (hd_ns)ts.tv_nsec;
}

static int fail(char *error, size_t error_bytes, const char *what) {
	int code = -errno;

	if (error_bytes > 0)
		(void)snprintf(error, error_bytes, "%s: %s", what, strerror(-code));
	return code;
}

/* The privileged option passes net.core.*mem_max; without the privilege the kernel caps. */
static void set_buffer(int fd, int force, int normal, uint32_t bytes) {
	int size = bytes > INT32_MAX / 2 ? INT32_MAX / 2 : (int)bytes;

	if (setsockopt(fd, SOL_SOCKET, force, &size, sizeof(size)) < 0)
		(void)setsockopt(fd, SOL_SOCKET, normal, &size, sizeof(size));
}

static int get_int(int fd, int level, int option) {
	int value = 0;
	socklen_t bytes = sizeof(value);

	return getsockopt(fd, level, option, &value, &bytes) < 0 ? -errno : value;
}

static void set_options(struct hd_udp *udp, int fd) {
	const struct hd_udp_config *config = &udp->config;
	int on = 1, mtu = IP_PMTUDISC_WANT;
	uint32_t receive = config->receive_buffer_bytes, send = config->send_buffer_bytes;

	set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, receive ? receive : RECEIVE_BUFFER_DEFAULT);
	set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, send ? send : SEND_BUFFER_DEFAULT);
	(void)setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof(on));
	/* Whole packets up to the known path MTU, local fragments beyond it: too large a chunk size
	 * is slow, not silent. */
	(void)setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &mtu, sizeof(mtu));
	if (!config->no_gro)
		(void)setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof(on));
	udp->receive_window = (uint32_t)get_int(fd, SOL_SOCKET, SO_RCVBUF) / 2;
}

static int bind_socket(struct hd_udp *udp, int fd) {
	struct sockaddr_in name = {
		.sin_family = AF_INET,
		.sin_port = htons(udp->config.bind.port),
		.sin_addr.s_addr = htonl(udp->config.bind.ipv4),
	};
	socklen_t bytes = sizeof(name);

	if (bind(fd, (struct sockaddr *)&name, sizeof(name)) < 0)
		return -errno;
	if (getsockname(fd, (struct sockaddr *)&name, &bytes) < 0)
		return -errno;
	udp->bound.ipv4 = ntohl(name.sin_addr.s_addr);
	udp->bound.port = ntohs(name.sin_port);
	return 0;
}

static int watch(struct hd_udp *udp, int fd) {
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(udp->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void udp_event(struct hd_sink *sink, const struct hd_event *event) {
	struct hd_udp *udp = (struct hd_udp *)sink;

	udp->config.event(udp->config.owner, event);
}

int hd_udp_open(
	const struct hd_udp_config *config,
	struct hd_udp **udp,
	char *error,
	size_t error_bytes
) {
	struct hd_udp *u = calloc(1, sizeof(*u));
	int fd, code = -ENOMEM;

	errno = ENOMEM;
	if (!u)
		return fail(error, error_bytes, "memory");
	u->config = *config;
	u->sink.send = udp_send;
	u->sink.event = config->event ? udp_event : NULL;
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
	u->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (u->event_fd < 0) {
		code = fail(error, error_bytes, "eventfd");
		goto close_socket;
	}
	u->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (u->epoll_fd < 0) {
		code = fail(error, error_bytes, "epoll");
		goto close_event;
	}
	errno = ENOMEM;
	if (watch(u, fd) < 0 || watch(u, u->event_fd) < 0
	    || udp_receiver_init(&u->receiver, fd) < 0) {
		code = fail(error, error_bytes, "epoll");
		goto close_epoll;
	}
	udp_sender_init(&u->sender, fd, !config->no_gso && get_int(fd, SOL_UDP, UDP_SEGMENT) >= 0);
	*udp = u;
	return 0;

close_epoll:
	close(u->epoll_fd);
close_event:
	close(u->event_fd);
close_socket:
	close(fd);
free_udp:
	free(u);
	return code;
}

void hd_udp_close(struct hd_udp *udp) {
	if (!udp)
		return;
	close(udp->epoll_fd);
	close(udp->event_fd);
	close(udp->sender.fd);
	udp_receiver_fini(&udp->receiver);
	free(udp);
}

struct hd_addr hd_udp_bound(const struct hd_udp *udp) {
	return udp->bound;
}

uint32_t hd_udp_receive_window(const struct hd_udp *udp) {
	return udp->receive_window;
}

const struct hd_udp_stats *hd_udp_stats(const struct hd_udp *udp) {
	return &udp->stats;
}

int hd_udp_fd(const struct hd_udp *udp) {
	return udp->epoll_fd;
}

static void poke(struct hd_udp *udp) {
	uint64_t one = 1;
	int saved = errno; /* this runs in signal handlers */

	if (write(udp->event_fd, &one, sizeof(one)) < 0) {
		/* EAGAIN: the counter is full, so the driver is being woken already. */
	}
	errno = saved;
}

void hd_udp_stop(struct hd_udp *udp) {
	atomic_store(&udp->stop, true);
	poke(udp);
}

void hd_udp_wake(struct hd_udp *udp) {
	atomic_store(&udp->wake, true);
	poke(udp);
}

/* The kernel's default slack of 50 us would blur the pacing of packets. */
static void sharpen_timers(struct hd_udp *udp) {
	if (udp->slack_set && pthread_equal(udp->slack_thread, pthread_self()))
		return;
	(void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
	udp->slack_thread = pthread_self();
	udp->slack_set = true;
}

static int wait_exactly(struct hd_udp *udp, struct epoll_event *events, const struct timespec *ts) {
	struct pollfd wait = {.fd = udp->epoll_fd, .events = POLLIN};

	if (!udp->no_pwait2) {
		int n = epoll_pwait2(udp->epoll_fd, events, 2, ts, NULL);

		if (n >= 0 || errno != ENOSYS)
			return n;
		udp->no_pwait2 = true;
	}
	if (ppoll(&wait, 1, ts, NULL) < 0)
		return -1;
	return epoll_wait(udp->epoll_fd, events, 2, 0);
}

/* Sleeps until `until` at the latest. *readable: the socket has packets. */
static int sleep_until(struct hd_udp *udp, hd_ns now, hd_ns until, bool *readable) {
	struct epoll_event events[2];
	hd_ns span = until > now ? until - now : 0;
	struct timespec ts = {
		.tv_sec = (time_t)(span / HD_SECOND),
		.tv_nsec = (long)(span % HD_SECOND),
	};
	int n = wait_exactly(udp, events, until == HD_NEVER ? NULL : &ts);

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		uint64_t count;

		if (events[i].data.fd != udp->event_fd)
			*readable = true;
		else if (read(udp->event_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
			return -errno;
	}
	return 0;
}

static void drain(struct hd_udp *udp) {
	uint64_t count;

	if (read(udp->event_fd, &count, sizeof(count)) < 0) {
		/* EAGAIN: the sleep has read it. */
	}
}

int hd_udp_step(struct hd_udp *udp, struct hd_node node, hd_ns until) {
	hd_ns now = hd_udp_now();
	hd_ns wait = hd_ns_min(node.ops->deadline(node.core), until);
	bool readable = wait <= now; /* busy: look at the socket without asking epoll first */
	int code = 0, n;

	sharpen_timers(udp);
	if (!readable && !atomic_load(&udp->stop) && !atomic_load(&udp->wake))
		code = sleep_until(udp, now, wait, &readable);
	if (code < 0)
		return code;
	for (int round = 0; readable && round < UDP_RECV_ROUNDS_MAX; round++) {
		n = udp_receive(udp, node);
		if (n < 0)
			return n;
		readable = n == UDP_RECV_BUFFERS;
	}
	if (atomic_exchange(&udp->wake, false) && udp->config.woken) {
		/* When nobody slept on it, it still reads as a wake-up: hd_udp_fd() would stay so. */
		drain(udp);
		udp->config.woken(udp->config.owner, hd_udp_now(), &udp->sink);
		udp_flush(udp);
	}
	now = hd_udp_now();
	if (node.ops->deadline(node.core) <= now) {
		node.ops->tick(node.core, now, &udp->sink);
		udp_flush(udp);
	}
	return 0;
}

int hd_udp_run(struct hd_udp *udp, struct hd_node node) {
	int code = 0;

	while (!atomic_load(&udp->stop) && code == 0)
		code = hd_udp_step(udp, node, HD_NEVER);
	return code;
}
