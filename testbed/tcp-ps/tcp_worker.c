/* SPDX-License-Identifier: BSD-3-Clause */
#include "tcp_ps.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#define CONNECT_PATIENCE_S 20
#define EVALUATIONS_MAX 1000000

struct evaluation {
	hd_ns at;
	uint64_t version;
	double accuracy, loss;
};

struct work {
	struct tcp_ps *ps;
	int fd;
	uint64_t version; /* of the weights in w */
	uint32_t pulls, pushes, applied;
	float *w, *g;
	struct hd_sampler sampler;
	struct hd_compute compute;
	struct evaluation *evaluations;
	size_t evaluation_count;
	hd_ns started;
};

static bool send_all(int fd, const void *data, size_t bytes) {
	const char *from = data;
	while (bytes > 0 && !tcp_ps_stopping()) {
		ssize_t sent = send(fd, from, bytes, MSG_NOSIGNAL);
		if (sent < 0 && errno != EINTR)
			return false;
		from += sent > 0 ? sent : 0;
		bytes -= sent > 0 ? (size_t)sent : 0;
	}
	return bytes == 0;
}

static bool recv_all(int fd, void *data, size_t bytes) {
	char *to = data;
	while (bytes > 0 && !tcp_ps_stopping()) {
		ssize_t got = recv(fd, to, bytes, 0);
		if (got == 0 || (got < 0 && errno != EINTR))
			return false;
		to += got > 0 ? got : 0;
		bytes -= got > 0 ? (size_t)got : 0;
	}
	return bytes == 0;
}

static bool ask(struct work *work, uint16_t kind, uint32_t round, const float *body) {
	const struct tcp_ps *ps = work->ps;
	struct tcp_ps_header header = {
		.magic = TCP_PS_MAGIC,
		.kind = kind,
		.rank = (uint16_t)ps->options->rank,
		.round = round,
		.version = work->version,
		.bytes = kind == TCP_PS_PULL ? 0 : ps->bytes,
	};
	return send_all(work->fd, &header, sizeof header)
		&& (!body || send_all(work->fd, body, ps->bytes));
}

static bool expect(struct work *work, uint16_t kind, struct tcp_ps_header *header) {
	return recv_all(work->fd, header, sizeof *header) && header->magic == TCP_PS_MAGIC
		&& header->kind == kind
		&& header->bytes == (kind == TCP_PS_MODEL ? work->ps->bytes : 0);
}

static void work_event(
	struct work *work,
	enum hd_event_kind kind,
	bool push,
	const struct tcp_ps_header *answer
) {
	struct hd_event event = {
		.at = hd_compute_now(),
		.kind = kind,
		.job = 1,
		.worker = (uint16_t)work->ps->options->rank,
		.direction = push ? HD_PUSH : HD_PULL,
		.round = push ? work->pushes : work->pulls,
		.version = answer ? answer->version : work->version,
		.bytes = work->ps->bytes,
		.aux = kind == HD_EVENT_OUTCOME ? HD_OUTCOME_APPLIED : 0,
	};
	tcp_ps_event(work->ps, &event);
}

static bool pull(struct work *work) {
	struct tcp_ps_header header;
	work->pulls++;
	work_event(work, HD_EVENT_PULLED, false, NULL);
	if (!ask(work, TCP_PS_PULL, work->pulls, NULL) || !expect(work, TCP_PS_MODEL, &header))
		return false;
	work_event(work, HD_EVENT_RECV_START, false, &header);
	if (!recv_all(work->fd, work->w, work->ps->bytes))
		return false;
	work->version = header.version;
	work_event(work, HD_EVENT_RECV_END, false, &header);
	return true;
}

static bool push(struct work *work) {
	struct tcp_ps_header header;
	work->pushes++;
	work_event(work, HD_EVENT_PUSHED, true, NULL);
	work_event(work, HD_EVENT_SEND_START, true, NULL);
	if (!ask(work, TCP_PS_PUSH, work->pushes, work->g)
	    || !expect(work, TCP_PS_APPLIED, &header))
		return false;
	work->applied++;
	work_event(work, HD_EVENT_OUTCOME, true, &header);
	return true;
}

static bool evaluate(struct work *work) {
	size_t bytes = (work->evaluation_count + 1) * sizeof(struct evaluation);
	if (work->evaluation_count == EVALUATIONS_MAX)
		return true;
	struct evaluation *grown = realloc(work->evaluations, bytes);
	if (!grown)
		return false;
	work->evaluations = grown;
	struct evaluation *e = &grown[work->evaluation_count++];
	hd_model_evaluate(work->ps->model, work->w, &work->ps->test, &e->accuracy, &e->loss);
	e->at = hd_compute_now();
	e->version = work->version;
	printf("{\"at_ns\": %llu, \"version\": %llu, \"accuracy\": %.6f, \"loss\": %.6g}\n",
	       (unsigned long long)e->at,
	       (unsigned long long)e->version,
	       e->accuracy,
	       e->loss);
	(void)fflush(stdout);
	return true;
}

/* An observer's step: it only evaluates. */
static bool observe(struct work *work) {
	uint32_t ms = work->ps->options->observe_ms;
	struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
	nanosleep(&pause, NULL);
	return tcp_ps_stopping() || (pull(work) && evaluate(work));
}

static bool step(struct work *work) {
	char error[256];
	if (!pull(work))
		return false;
	hd_ns begun = hd_compute_now();
	struct hd_sampler *s = &work->sampler;
	hd_sampler_next(s);
	hd_model_gradient(work->ps->model, work->w, s->x, s->y, s->batch, work->g);
	int rc = hd_compute_pad(&work->compute, begun, error, sizeof error);
	if (rc == -EINVAL)
		(void)fprintf(stderr, "heddle-tcp-ps: %s\n", error);
	return rc == 0 && push(work);
}

static int connect_once(const char *address, uint16_t port) {
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	int on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	/* As at the server, for the other direction: Debian's default. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", strlen("cubic"));
	if (inet_pton(AF_INET, address, &at.sin_addr) != 1
	    || connect(fd, (struct sockaddr *)&at, sizeof at) != 0) {
		close(fd);
		return -1;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	return fd;
}

static bool open_session(struct work *work) {
	const struct tcp_ps_options *o = work->ps->options;
	struct timespec pause = {.tv_nsec = 50000000};
	struct tcp_ps_header header;
	hd_ns until = hd_compute_now() + CONNECT_PATIENCE_S * HD_SECOND;
	do {
		work->fd = connect_once(o->address, (uint16_t)o->port);
		if (work->fd >= 0) {
			return ask(work, TCP_PS_HELLO, 0, NULL)
				&& expect(work, TCP_PS_READY, &header);
		}
		nanosleep(&pause, NULL);
	} while (!tcp_ps_stopping() && hd_compute_now() < until);
	if (tcp_ps_stopping())
		return false;
	(void)fprintf(
		stderr, "heddle-tcp-ps: connect: %s:%u: %s\n", o->address, o->port, strerror(errno)
	);
	return false;
}

static json_t *evaluations_json(const struct work *work) {
	json_t *array = json_array();
	for (size_t i = 0; i < work->evaluation_count; i++) {
		const struct evaluation *e = &work->evaluations[i];
		json_array_append_new(
			array,
			json_pack(
				"{s:I,s:I,s:f,s:f}",
				"at_ns",
				(json_int_t)e->at,
				"version",
				(json_int_t)e->version,
				"accuracy",
				e->accuracy,
				"loss",
				e->loss
			)
		);
	}
	return array;
}

static bool summarize(const struct work *work) {
	const struct tcp_ps_options *o = work->ps->options;
	json_t *summary = json_pack(
		"{s:i,s:i,s:i,s:i,s:i,s:i,s:f,s:f,s:f,s:o}",
		"rank",
		(int)o->rank,
		"pushed",
		(int)work->pushes,
		"applied",
		(int)work->applied,
		"dropped",
		0,
		"failed",
		(int)(work->pushes - work->applied),
		"pulled",
		(int)work->pulls,
		"seconds",
		(double)(hd_compute_now() - work->started) / 1e9,
		"compute_s",
		(double)work->compute.compute_ns / 1e9,
		"padded_s",
		(double)work->compute.padded_ns / 1e9,
		"evaluations",
		evaluations_json(work)
	);
	bool ok = summary && (!o->json || json_dump_file(summary, o->json, 0) == 0);
	json_decref(summary);
	return ok;
}

static bool work_open(struct work *work) {
	const struct tcp_ps_options *o = work->ps->options;
	char error[256] = "no memory";
	work->w = malloc(work->ps->bytes);
	work->g = malloc(work->ps->bytes);
	if (!work->w || !work->g
	    || (o->observe_ms == 0
		&& hd_sampler_init(
			   &work->sampler, &work->ps->train, o->rank, o->world, o->batch, o->seed
		   ) != 0)) {
		(void)fprintf(
			stderr, "heddle-tcp-ps: worker %u: no memory, or no row for it\n", o->rank
		);
		return false;
	}
	if (hd_compute_init(&work->compute, o->compute_ms, o->compute_schedule, error, sizeof error)
	    != 0) {
		(void)fprintf(stderr, "heddle-tcp-ps: compute: %s\n", error);
		return false;
	}
	return true;
}

int tcp_ps_work(struct tcp_ps *ps) {
	struct work work = {.ps = ps, .fd = -1, .compute = {.fd = -1}};
	int status = EX_UNAVAILABLE;
	if (!work_open(&work)) {
		status = EX_CONFIG;
	} else if (open_session(&work)) {
		work.started = hd_compute_now();
		bool (*turn)(struct work *) = work.ps->options->observe_ms > 0 ? observe : step;
		while (!tcp_ps_stopping() && turn(&work)) {}
		status = EX_PROTOCOL;
	}
	if (tcp_ps_stopping())
		status = EX_OK;
	if (!summarize(&work))
		status = EX_CANTCREAT;
	if (work.fd >= 0)
		close(work.fd);
	hd_compute_fini(&work.compute);
	hd_sampler_fini(&work.sampler);
	free(work.evaluations);
	free(work.w);
	free(work.g);
	return status;
}
