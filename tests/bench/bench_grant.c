/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From REQUEST to GRANT over real UDP sockets on loopback: a controller, a server and some workers,
 * each with a driver and a thread of its own that sleeps when idle. Every worker asks, is granted,
 * the server reports the end at once, and the worker asks again after a random pause: the controller
 * is active, the path mostly idle. Beside it: the round trip of the bare sockets (the same threads
 * and drivers, one packet there and back, no controller).
 *
 *     bench_grant                                        controller in this process
 *     bench_grant --controller ADDR[:PORT] [--workers N] [--asks N] [--pause-ms N]
 *
 * With --controller that one is asked (its first key must be the bench's), from sockets on any address, N times
 * by each worker with pauses of N/2 to 3N/2 ms; prints JSON. bench_dpdk.py uses it.
 */
#include "hd_controller.h"
#include "hd_endpoint.h"
#include "hd_jobspec.h"
#include "hd_random.h"
#include "hd_topology.h"
#include "hd_udp.h"

#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS_MAX 8
#define ASKS_MAX 400 /* of each worker */
#define UPDATE_BYTES 1000000
#define WAIT_LIMIT (20 * HD_SECOND)

static struct hd_keyring keys;
static struct {
	struct hd_addr controller; /* none: our own */
	uint32_t asks;
	double pause_ms;
	uint16_t workers;
} options = {.asks = ASKS_MAX, .pause_ms = 3, .workers = 1};

struct party {
	uint8_t role;
	uint16_t worker;
	struct hd_udp *udp;
	struct hd_endpoint *endpoint;
	struct hd_session *session, *server;
	struct hd_random random;
	pthread_t thread;
	bool ready;
	hd_ns next_at, asked_at, ends_at;
	uint32_t asked, count;
	hd_ns took[ASKS_MAX];
};

static void need(bool good, const char *what) {
	if (good)
		return;
	(void)fprintf(stderr, "bench_grant: %s\n", what);
	exit(1);
}

/* --- what workers and the server say --- */

static void on_opened(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink) {
	struct party *p = owner;
	struct hd_message m = {.kind = HD_MSG_REGISTER};

	m.register_.role = p->role;
	(void)snprintf(m.register_.host, sizeof m.register_.host, "h%u", p->worker);
	m.register_.memory_bytes = 1 << 30;
	if (p->role == HD_ROLE_WORKER) {
		m.register_.job = hd_job_id("t", "j");
		(void)snprintf(m.register_.tenant, sizeof m.register_.tenant, "t");
		(void)snprintf(m.register_.job_name, sizeof m.register_.job_name, "j");
		m.register_.worker = p->worker;
		m.register_.model_bytes = UPDATE_BYTES;
		m.register_.tau_max = HD_TAU_MAX_LIMIT;
	}
	need(hd_session_send(session, &m, now, sink) == 0, "register");
}

static void on_granted(struct party *p, hd_ns now) {
	hd_ns pause = (hd_ns)(options.pause_ms * 1e6);

	if (!p->asked_at || p->count == options.asks)
		return;
	p->took[p->count++] = now - p->asked_at;
	p->asked_at = 0;
	p->next_at = now + pause / 2 + hd_random_below(&p->random, pause);
}

/* The transfer is taken to end as soon as it was announced. */
static void on_expect(
	struct hd_session *session,
	const struct hd_msg_expect *e,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_message m = {.kind = HD_MSG_REPORT};

	m.report.job = e->job;
	m.report.worker = e->worker;
	m.report.round = e->round;
	m.report.attempt = e->attempt;
	m.report.token = e->token;
	m.report.outcome = HD_OUTCOME_APPLIED;
	m.report.version = hd_version_make(1, e->position);
	m.report.position = e->position;
	m.report.bytes
		= e->bytes; /* else they pass for small ones, and the next is granted in advance */
	need(hd_session_send(session, &m, now, sink) == 0, "report");
}

static void on_message(
	void *owner,
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
) {
	struct party *p = owner;

	(void)now;
	if (message->kind == HD_MSG_REGISTERED && !p->ready) {
		p->ready = true;
		p->next_at = hd_udp_now() + 300 * HD_MS; /* the server is taken to be settled */
	} else if (message->kind == HD_MSG_GRANT) {
		on_granted(p, hd_udp_now());
	} else if (message->kind == HD_MSG_EXPECT) {
		on_expect(session, &message->expect, now, sink);
	} else if (message->kind == HD_MSG_REFUSE || message->kind == HD_MSG_DROP) {
		need(false, "refused or dropped");
	}
}

static void on_closed(
	void *owner,
	struct hd_session *session,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	(void)owner;
	(void)session;
	(void)now;
	(void)sink;
	(void)fprintf(stderr, "bench_grant: session closed: %s %s\n", hd_reason_name(reason), text);
}

static const struct hd_endpoint_ops party_endpoint_ops = {
	.opened = on_opened,
	.message = on_message,
	.closed = on_closed,
};

static void ask(struct party *p, hd_ns now, struct hd_sink *sink) {
	struct hd_message m = {.kind = HD_MSG_REQUEST};

	m.request.job = hd_job_id("t", "j");
	m.request.worker = p->worker;
	m.request.round = ++p->asked;
	m.request.attempt = 1;
	m.request.bytes = UPDATE_BYTES;
	p->next_at = HD_NEVER;
	p->asked_at = hd_udp_now();
	need(hd_session_send(p->session, &m, now, sink) == 0, "request");
}

static void party_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *s
) {
	struct party *p = core;

	for (size_t i = 0; i < count; i++)
		hd_endpoint_receive(p->endpoint, now, &packets[i], s);
}

static void party_tick(void *core, hd_ns now, struct hd_sink *sink) {
	struct party *p = core;

	hd_endpoint_tick(p->endpoint, now, sink);
	if (now >= p->next_at)
		ask(p, now, sink);
	if (p->count == options.asks || now >= p->ends_at)
		hd_udp_stop(p->udp);
}

static hd_ns party_deadline(const void *core) {
	const struct party *p = core;
	hd_ns at = hd_ns_min(p->next_at, p->ends_at);

	return p->count == options.asks ? 0 : hd_ns_min(at, hd_endpoint_deadline(p->endpoint));
}

static const struct hd_core_ops party_ops = {
	.receive = party_receive,
	.tick = party_tick,
	.deadline = party_deadline,
};

/* --- threads --- */

static struct hd_udp *open_udp(void) {
	struct hd_udp_config config = {.bind = {.ipv4 = 0x7f000001}};
	struct hd_udp *udp;
	char error[256];

	if (!hd_addr_is_none(options.controller))
		config.bind.ipv4 = 0;
	need(hd_udp_open(&config, &udp, error, sizeof error) == 0, "socket");
	return udp;
}

static void party_open(struct party *p, uint8_t role, uint16_t number, struct hd_addr controller) {
	struct hd_endpoint_config config = {
		.name = "bench",
		.role = role,
		.key_id = 1,
		.keys = &keys,
		.seed = {(uint8_t)number, role},
		.ops = &party_endpoint_ops,
		.owner = p,
	};

	memset(p, 0, sizeof *p);
	p->role = role;
	p->worker = number;
	p->next_at = HD_NEVER;
	p->ends_at = hd_udp_now() + WAIT_LIMIT + (hd_ns)(options.asks * options.pause_ms * 1.5e6);
	hd_random_init(&p->random, number + 1);
	p->udp = open_udp();
	need(hd_endpoint_create(&config, &p->endpoint) == 0, "endpoint");
	need(hd_endpoint_connect(p->endpoint, controller, hd_udp_now(), &p->session) == 0,
	     "connect");
}

static void *party_run(void *arg) {
	struct party *p = arg;

	hd_udp_run(p->udp, (struct hd_node){&party_ops, p});
	return NULL;
}

struct controller {
	struct hd_udp *udp;
	struct hd_controller *core;
	pthread_t thread;
};

static void *controller_run(void *arg) {
	struct controller *c = arg;

	hd_udp_run(c->udp, (struct hd_node){&hd_controller_ops, c->core});
	return NULL;
}

static void controller_open(struct controller *c) {
	struct hd_controller_config config = {
		.name = "controller",
		.keys = &keys,
		.key_id = 1,
		.epoch = 1,
		/* So fast that a transfer's reservation is over before its report is here. */
		.initial_bps = 1e12,
	};

	need(hd_topology_create_star(&config.topology) == 0, "topology");
	need(hd_controller_create(&config, &c->core) == 0, "controller");
	c->udp = open_udp();
	need(pthread_create(&c->thread, NULL, controller_run, c) == 0, "thread");
}

static int by_value(const void *a, const void *b) {
	hd_ns x = *(const hd_ns *)a, y = *(const hd_ns *)b;

	return (x > y) - (x < y);
}

static void print(const char *what, hd_ns *took, uint32_t count, const char *beside) {
	uint32_t middle = count / 2, late = count - 1 - count / 100;

	qsort(took, count, sizeof took[0], by_value);
	(void
	)printf("%s: median %6.0f us, p99 %6.0f us, max %6.0f us, of %u%s\n",
		what,
		(double)took[middle] / 1e3,
		(double)took[late] / 1e3,
		(double)took[count - 1] / 1e3,
		count,
		beside);
}

/* Server and workers ask until they have enough; returns how many answers `took` has. */
static uint32_t
run_parties(struct party *party, uint16_t workers, struct hd_addr controller, hd_ns *took) {
	uint32_t count = 0;

	party_open(&party[workers], HD_ROLE_SERVER, workers, controller);
	need(pthread_create(&party[workers].thread, NULL, party_run, &party[workers]) == 0,
	     "thread");
	for (uint16_t i = 0; i < workers; i++) {
		party_open(&party[i], HD_ROLE_WORKER, i, controller);
		need(pthread_create(&party[i].thread, NULL, party_run, &party[i]) == 0, "thread");
	}
	for (uint16_t i = 0; i < workers; i++) {
		pthread_join(party[i].thread, NULL);
		need(party[i].count == options.asks, "not every request was granted");
		memcpy(took + count, party[i].took, options.asks * sizeof took[0]);
		count += options.asks;
	}
	hd_udp_stop(party[workers].udp);
	pthread_join(party[workers].thread, NULL);
	for (uint16_t i = 0; i <= workers; i++) {
		hd_endpoint_destroy(party[i].endpoint);
		hd_udp_close(party[i].udp);
	}
	return count;
}

static void measure(uint16_t workers) {
	struct party *party = calloc(WORKERS_MAX + 1, sizeof *party);
	hd_ns *took = calloc((size_t)WORKERS_MAX * ASKS_MAX, sizeof *took);
	struct controller c;
	uint32_t count;
	char what[64];

	need(party && took, "memory");
	controller_open(&c);
	count = run_parties(party, workers, hd_udp_bound(c.udp), took);
	hd_udp_stop(c.udp);
	pthread_join(c.thread, NULL);
	(void)snprintf(
		what, sizeof what, "request to grant, %u worker%s", workers, workers > 1 ? "s" : ""
	);
	print(what, took, count, "  (target: median 300 us)");
	hd_controller_destroy(c.core);
	hd_udp_close(c.udp);
	free(party);
	free(took);
}

/* An external controller, which is not of this process. */
static void measure_other(void) {
	struct party *party = calloc(WORKERS_MAX + 1, sizeof *party);
	hd_ns *took = calloc((size_t)WORKERS_MAX * ASKS_MAX, sizeof *took);
	uint32_t count, middle, late;

	need(party && took, "memory");
	count = run_parties(party, options.workers, options.controller, took);
	middle = count / 2;
	late = count - 1 - count / 100;
	qsort(took, count, sizeof took[0], by_value);
	(void
	)printf("{\"asked\": %u, \"median_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}\n",
		count,
		(double)took[middle] / 1e3,
		(double)took[late] / 1e3,
		(double)took[count - 1] / 1e3);
	free(party);
	free(took);
}

/* --- the sockets alone --- */

struct echo {
	struct hd_udp *udp;
	struct hd_addr peer; /* none: answers */
	pthread_t thread;
	hd_ns next_at, sent_at;
	uint32_t count;
	hd_ns took[ASKS_MAX];
};

static void echo_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *s
) {
	struct echo *e = core;

	for (size_t i = 0; i < count; i++) {
		if (hd_addr_is_none(e->peer)) {
			s->send(s, packets[i].peer, packets[i].data, packets[i].bytes, NULL, 0);
		} else if (e->count < ASKS_MAX) {
			e->took[e->count++] = hd_udp_now() - e->sent_at;
			e->next_at = now + 2 * HD_MS;
		}
	}
}

static void echo_tick(void *core, hd_ns now, struct hd_sink *sink) {
	struct echo *e = core;
	uint8_t packet[128] = {0};

	if (e->count == ASKS_MAX)
		hd_udp_stop(e->udp);
	if (hd_addr_is_none(e->peer) || now < e->next_at)
		return;
	e->next_at = now + 100 * HD_MS; /* again, if it was lost */
	e->sent_at = hd_udp_now();
	sink->send(sink, e->peer, packet, sizeof packet, NULL, 0);
}

static hd_ns echo_deadline(const void *core) {
	const struct echo *e = core;

	return e->count == ASKS_MAX ? 0 : hd_addr_is_none(e->peer) ? HD_NEVER : e->next_at;
}

static const struct hd_core_ops echo_ops = {
	.receive = echo_receive,
	.tick = echo_tick,
	.deadline = echo_deadline,
};

static void *echo_run(void *arg) {
	struct echo *e = arg;

	hd_udp_run(e->udp, (struct hd_node){&echo_ops, e});
	return NULL;
}

static void measure_sockets(void) {
	struct echo *pair = calloc(2, sizeof *pair);

	need(pair, "memory");
	for (int i = 0; i < 2; i++)
		pair[i].udp = open_udp();
	pair[1].peer = hd_udp_bound(pair[0].udp);
	for (int i = 0; i < 2; i++)
		need(pthread_create(&pair[i].thread, NULL, echo_run, &pair[i]) == 0, "thread");
	pthread_join(pair[1].thread, NULL);
	hd_udp_stop(pair[0].udp);
	pthread_join(pair[0].thread, NULL);
	print("bare sockets, there and back", pair[1].took, ASKS_MAX, "");
	for (int i = 0; i < 2; i++)
		hd_udp_close(pair[i].udp);
	free(pair);
}

static void parse(int argc, char **argv) {
	static const struct option long_options[] = {
		{"controller", required_argument, NULL, 'c'},
		{"workers", required_argument, NULL, 'w'},
		{"asks", required_argument, NULL, 'a'},
		{"pause-ms", required_argument, NULL, 'p'},
		{0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		if (c == 'c')
			need(hd_udp_resolve(optarg, &options.controller) == 0, "--controller");
		else if (c == 'w')
			options.workers = (uint16_t)strtoul(optarg, NULL, 10);
		else if (c == 'a')
			options.asks = (uint32_t)strtoul(optarg, NULL, 10);
		else if (c == 'p')
			options.pause_ms = strtod(optarg, NULL);
		else
			exit(64);
	need(options.workers >= 1 && options.workers <= WORKERS_MAX, "--workers: 1 to 8");
	need(options.asks >= 1 && options.asks <= ASKS_MAX, "--asks: 1 to 400");
	need(options.pause_ms >= 0 && options.pause_ms <= 10000, "--pause-ms: at most 10000");
}

int main(int argc, char **argv) {
	char error[128];

	parse(argc, argv);
	need(hd_keyring_parse(
		     "1 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n",
		     &keys,
		     error,
		     sizeof error
	     ) == 0,
	     "keys");
	if (!hd_addr_is_none(options.controller)) {
		measure_other();
	} else {
		measure_sockets();
		measure(1);
		measure(8);
	}
	hd_keyring_fini(&keys);
	return 0;
}
