/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_jobspec.h"
#include "hd_kernels.h"
#include "tcp_ps.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

/* Requests and answers alternate, so a connection either reads or writes: `in` fills up to the
 * header, then up to the body; `out` drains the header, then the copy of the weights. */
struct connection {
	int fd; /* -1: free */
	bool known; /* it has sent HELLO */
	uint16_t rank;
	uint32_t pulls;
	struct tcp_ps_header in, out;
	uint64_t in_done, out_done, out_bytes;
	float *body; /* an incoming gradient, or outgoing weights */
};

struct server {
	struct tcp_ps *ps;
	int listener, epoll;
	uint64_t version;
	float *w, *h;
	struct connection connections[TCP_PS_WORKERS_MAX];
};

static void connection_close(struct connection *c) {
	close(c->fd);
	free(c->body);
	*c = (struct connection){.fd = -1};
}

static void server_event(
	struct server *s,
	enum hd_event_kind kind,
	const struct connection *c,
	bool push,
	uint64_t aux
) {
	struct hd_event event = {
		.at = hd_compute_now(),
		.kind = kind,
		.job = 1,
		.worker = c->rank,
		.direction = push ? HD_PUSH : HD_PULL,
		.round = push ? c->in.round : c->pulls,
		.version = s->version,
		.base = push ? c->in.version : 0,
		.bytes = s->ps->bytes,
		.aux = aux,
	};
	tcp_ps_event(s->ps, &event);
}

static void answer(struct server *s, struct connection *c, uint16_t kind, uint64_t bytes) {
	struct epoll_event writable = {.events = EPOLLOUT, .data.ptr = c};
	c->out = (struct tcp_ps_header){
		.magic = TCP_PS_MAGIC,
		.kind = kind,
		.rank = c->rank,
		.round = c->in.round,
		.version = s->version,
		.bytes = bytes,
	};
	c->out_done = 0;
	c->out_bytes = sizeof c->out + bytes;
	c->in_done = 0;
	epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->fd, &writable);
}

static void apply(struct server *s, struct connection *c) {
	const struct tcp_ps_options *o = s->ps->options;
	const struct hd_sgd sgd = {o->learning_rate, o->momentum, o->weight_decay};
	server_event(s, HD_EVENT_RECV_END, c, true, 0);
	hd_sgd_apply(s->w, s->h, c->body, s->ps->values, &sgd);
	s->version++;
	uint64_t delay = s->version - c->in.version;
	server_event(s, HD_EVENT_COMMITTED, c, true, delay);
	answer(s, c, TCP_PS_APPLIED, 0);
	c->out.delay = (uint32_t)delay;
}

/* A header is complete. False: it is invalid, and the connection is closed. */
static bool begin(struct server *s, struct connection *c) {
	struct tcp_ps *ps = s->ps;
	if (c->in.magic != TCP_PS_MAGIC || c->in.version > s->version)
		return false;
	if (c->in.kind == TCP_PS_HELLO && !c->known && c->in.bytes == ps->bytes) {
		c->body = malloc(ps->bytes);
		c->known = c->body != NULL;
		c->rank = c->in.rank;
		answer(s, c, TCP_PS_READY, 0);
		return c->known;
	}
	if (c->in.kind == TCP_PS_PULL && c->known && c->in.bytes == 0) {
		c->pulls++;
		memcpy(c->body, s->w, ps->bytes);
		answer(s, c, TCP_PS_MODEL, ps->bytes);
		server_event(s, HD_EVENT_SEND_START, c, false, 0);
		return true;
	}
	if (c->in.kind == TCP_PS_PUSH && c->known && c->in.bytes == ps->bytes) {
		server_event(s, HD_EVENT_RECV_START, c, true, 0);
		return true;
	}
	return false;
}

static bool readable(struct server *s, struct connection *c) {
	const uint64_t head = sizeof c->in;
	for (;;) {
		bool in_head = c->in_done < head;
		uint64_t end = in_head ? head : head + s->ps->bytes;
		char *to = in_head ? (char *)&c->in + c->in_done :
				     (char *)c->body + (c->in_done - head);
		ssize_t got = recv(c->fd, to, end - c->in_done, 0);
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return true;
		if (got <= 0)
			return false;
		c->in_done += (uint64_t)got;
		if (c->in_done != end)
			continue;
		if (!in_head) {
			apply(s, c);
			return true;
		}
		if (!begin(s, c))
			return false;
		if (c->in.kind != TCP_PS_PUSH)
			return true;
	}
}

static bool writable(struct server *s, struct connection *c) {
	const uint64_t head = sizeof c->out;
	while (c->out_done < c->out_bytes) {
		bool in_head = c->out_done < head;
		uint64_t end = in_head ? head : c->out_bytes;
		const char *from = in_head ? (char *)&c->out + c->out_done :
					     (char *)c->body + (c->out_done - head);
		ssize_t sent = send(c->fd, from, end - c->out_done, MSG_NOSIGNAL);
		if (sent < 0 && (errno == EAGAIN || errno == EINTR))
			return true;
		if (sent < 0)
			return false;
		c->out_done += (uint64_t)sent;
	}
	if (c->out.kind == TCP_PS_MODEL)
		server_event(s, HD_EVENT_SEND_END, c, false, 0);
	struct epoll_event want = {.events = EPOLLIN, .data.ptr = c};
	epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->fd, &want);
	return true;
}

static void accept_one(struct server *s) {
	int fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0)
		return;
	for (size_t i = 0; i < TCP_PS_WORKERS_MAX; i++) {
		struct connection *c = &s->connections[i];
		if (c->fd >= 0)
			continue;
		struct epoll_event want = {.events = EPOLLIN, .data.ptr = c};
		int on = 1;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		*c = (struct connection){.fd = fd};
		epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &want);
		return;
	}
	close(fd);
}

static int listen_at(const char *address, uint16_t port) {
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	int on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	/* Debian's default, whatever this machine's is. Some machines refuse it: theirs stays. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", strlen("cubic"));
	if (fd >= 0 && inet_pton(AF_INET, address, &at.sin_addr) == 1
	    && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0
	    && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 128) == 0)
		return fd;
	(void)fprintf(stderr, "heddle-tcp-ps: listen: %s:%u: %s\n", address, port, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

static void initialize(struct server *s) {
	struct tcp_ps *ps = s->ps;
	struct hd_jobspec spec = {
		.seed = ps->options->seed,
		.tau_max = 1,
		.tensor_count = hd_model_tensor_count(ps->model),
		.tensors = (struct hd_tensor *)hd_model_tensors(ps->model),
	};
	hd_jobspec_initialize(&spec, s->w);
}

static void loop(struct server *s) {
	struct epoll_event ready[64];
	while (!tcp_ps_stopping()) {
		int count = epoll_wait(s->epoll, ready, 64, 1000);
		for (int i = 0; i < count; i++) {
			struct connection *c = ready[i].data.ptr;
			if (!c)
				accept_one(s);
			else if (!((ready[i].events & EPOLLOUT) ? writable(s, c) : readable(s, c)))
				connection_close(c);
		}
	}
}

int tcp_ps_serve(struct tcp_ps *ps) {
	int status = EX_UNAVAILABLE;
	struct server *s = calloc(1, sizeof *s);
	if (!s)
		return EX_OSERR;
	s->ps = ps;
	for (size_t i = 0; i < TCP_PS_WORKERS_MAX; i++)
		s->connections[i].fd = -1;
	s->w = calloc(ps->values, sizeof(float));
	s->h = calloc(ps->values, sizeof(float));
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->listener = listen_at(ps->options->address, (uint16_t)ps->options->port);
	struct epoll_event want = {.events = EPOLLIN};
	if (s->w && s->h && s->listener >= 0
	    && epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->listener, &want) == 0) {
		initialize(s);
		loop(s);
		status = EX_OK;
	}
	for (size_t i = 0; i < TCP_PS_WORKERS_MAX; i++)
		if (s->connections[i].fd >= 0)
			connection_close(&s->connections[i]);
	if (s->listener >= 0)
		close(s->listener);
	close(s->epoll);
	free(s->w);
	free(s->h);
	free(s);
	return status;
}
