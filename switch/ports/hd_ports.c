/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop of the ports, and calls from other threads. */
#include "hd_ports_private.h"

#include <rte_lcore.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- calls from other threads -------------------------------------------------------------- */

static void serve_call(struct hd_ports *p) {
	pthread_mutex_lock(&p->lock);
	if (p->call) {
		p->call(p->argument);
		p->call = NULL;
		pthread_cond_broadcast(&p->done);
	}
	pthread_mutex_unlock(&p->lock);
}

/* Makes the call directly if no thread runs the loop (which cannot begin meanwhile), or this one does. */
static bool call_here(struct hd_ports *p, void (*call)(void *argument), void *argument) {
	bool idle, ours;

	pthread_mutex_lock(&p->lock);
	idle = !p->running;
	ours = p->running && pthread_equal(p->thread, pthread_self());
	if (idle)
		call(argument);
	pthread_mutex_unlock(&p->lock);
	if (ours)
		call(argument);
	return idle || ours;
}

int hd_ports_call(struct hd_ports *p, void (*call)(void *argument), void *argument) {
	int code;

	if (call_here(p, call, argument))
		return 0;
	pthread_mutex_lock(&p->turn);
	pthread_mutex_lock(&p->lock);
	p->call = call;
	p->argument = argument;
	hd_wait_wake(&p->wait);
	while (p->call && p->running)
		pthread_cond_wait(&p->done, &p->lock);
	code = p->call ? -ECANCELED : 0;
	p->call = NULL;
	pthread_mutex_unlock(&p->lock);
	pthread_mutex_unlock(&p->turn);
	return code;
}

static void set_running(struct hd_ports *p, bool running) {
	pthread_mutex_lock(&p->lock);
	p->running = running;
	p->thread = pthread_self();
	pthread_cond_broadcast(&p->done);
	pthread_mutex_unlock(&p->lock);
}

/* --- the loop ------------------------------------------------------------------------------ */

/* Naps grow with the silence: each is a 64th of it, so that the delay after it stays small. */
static hd_ns nap_until(const struct hd_ports *p, hd_ns now) {
	hd_ns nap = now > p->busy_at ? (now - p->busy_at) / 64 : 0;

	nap = hd_ns_max(nap, PORTS_NAP_MIN_US * HD_US);
	return hd_ns_add(now, hd_ns_min(nap, PORTS_NAP_MAX_US * HD_US));
}

static void clear_errors(struct hd_ports *p) {
	for (uint32_t i = 0; i < p->count; i++)
		p->ports[i].counts.errors += dpdk_clear_port_errors(&p->ports[i].eth);
}

static void tell_time(struct hd_ports *p, hd_ns now) {
	if (now < hd_ns_add(p->reported_at, PORTS_TIME_NS))
		return;
	p->reported_at = now;
	clear_errors(p); /* a loop that never sleeps gets no events for them */
	if (p->executor.ops->time)
		p->executor.ops->time(p->executor.self, now);
}

static void stay_awake(struct hd_ports *p, uint32_t frames) {
	p->awake_frames += frames;
	if (p->watched && p->awake_frames >= (uint64_t)PORTS_AWAKE_FRAMES * p->sockets)
		ports_unwatch(p);
}

/* Frames that came before the sockets are watched again still make them readable. */
static int fall_asleep(struct hd_ports *p, hd_ns now, hd_ns until, bool *readable) {
	int code = p->watched ? 0 : ports_watch(p);

	p->awake_frames = 0;
	return code < 0 ? code : hd_wait_sleep(&p->wait, now, until, readable);
}

/* Sleeps if there are no frames. 1: frames came, 0: none, or -errno. */
static int receive(struct hd_ports *p, hd_ns until) {
	uint32_t frames = ports_receive(p);
	bool readable = false;
	hd_ns now;
	int code;

	if (frames > 0) {
		stay_awake(p, frames);
		return 1;
	}
	now = hd_wait_now();
	until = hd_ns_min(until, ports_send_deadline(p));
	until = hd_ns_min(until, hd_ns_add(p->reported_at, PORTS_TIME_NS));
	if (p->busy_poll || until <= now)
		return 0;
	if (p->naps)
		until = hd_ns_min(until, nap_until(p, now));
	code = fall_asleep(p, now, until, &readable);
	if (code < 0)
		return code;
	if (ports_receive(p) > 0)
		return 1;
	if (readable)
		clear_errors(p);
	return 0;
}

/* A thread not started by EAL gets no mempool cache until it is registered. */
static void register_thread(struct hd_ports *p) {
	p->registered = true;
	if (rte_lcore_id() == LCORE_ID_ANY)
		(void)rte_thread_register();
}

int hd_ports_poll(struct hd_ports *p, hd_ns until) {
	int came;

	if (!p->registered)
		register_thread(p);
	came = receive(p, until);
	if (came < 0)
		return came;
	p->now = hd_wait_now();
	if (came)
		p->busy_at = p->now;
	ports_send(p);
	tell_time(p, p->now);
	if (hd_wait_woken(&p->wait)) {
		serve_call(p);
		if (p->woken)
			p->woken(p->owner, p->now);
	}
	p->polls++;
	p->idle += !came;
	return 0;
}

int hd_ports_run(struct hd_ports *p) {
	int code = 0;

	set_running(p, true);
	while (!hd_wait_stopped(&p->wait) && code == 0)
		code = hd_ports_poll(p, HD_NEVER);
	set_running(p, false);
	return code;
}

void hd_ports_stop(struct hd_ports *p) {
	hd_wait_stop(&p->wait);
}

void hd_ports_wake(struct hd_ports *p) {
	hd_wait_wake(&p->wait);
}

/* --- neighbours ---------------------------------------------------------------------------- */

static void ask(struct hd_ports *p, uint32_t ipv4) {
	struct rte_mbuf *frame = rte_pktmbuf_alloc(p->pool);
	char *data = frame ? rte_pktmbuf_append(frame, HD_STATIONS_ARP_BYTES) : NULL;

	if (!data) {
		rte_pktmbuf_free(frame);
		return;
	}
	hd_switch_stations_question(p->self.mac, ipv4, (uint8_t *)data);
	ports_flood(p, p->count, frame);
}

int hd_ports_neighbour(struct hd_ports *p, uint32_t ipv4, struct hd_switch_copy *copy) {
	struct hd_switch_station station;

	if (!hd_switch_stations_find(p->stations, ipv4, &station)) {
		if (hd_switch_stations_are_closed(p->stations))
			return -ENOENT;
		if (hd_switch_stations_ask(p->stations, hd_wait_now(), ipv4))
			ask(p, ipv4);
		return -EAGAIN;
	}
	copy->port = station.port;
	memcpy(copy->mac, station.mac, sizeof copy->mac);
	return 0;
}

struct hd_switch_stations *hd_ports_stations(const struct hd_ports *p) {
	return p->stations;
}

uint32_t hd_ports_mtu(const struct hd_ports *p) {
	uint32_t mtu = UINT32_MAX;

	for (uint32_t i = 0; i < p->count; i++)
		mtu = RTE_MIN(mtu, p->ports[i].eth.mtu);
	return mtu;
}

/* --- open and close ------------------------------------------------------------------------ */

static bool is_zero(const uint8_t mac[6]) {
	static const uint8_t zero[6];

	return memcmp(mac, zero, sizeof zero) == 0;
}

static int
set_up(struct hd_ports *p, const struct hd_ports_config *config, char *error, size_t error_bytes) {
	int code = hd_wait_init(&p->wait);

	if (code < 0) {
		(void)snprintf(error, error_bytes, "epoll: %s", strerror(-code));
		return code;
	}
	code = hd_switch_stations_create(PORTS_STATIONS, &p->stations);
	if (code == 0)
		code = ports_open_all(p, config, error, error_bytes);
	if (code < 0) {
		ports_close_all(p);
		hd_switch_stations_destroy(p->stations);
		hd_wait_fini(&p->wait);
		return code;
	}
	if (is_zero(p->self.mac))
		memcpy(p->self.mac, p->ports[0].eth.mac, sizeof p->self.mac);
	return 0;
}

int hd_ports_open(
	const struct hd_ports_config *config,
	struct hd_ports **ports,
	char *error,
	size_t error_bytes
) {
	struct hd_ports *p;
	int code;

	(void)snprintf(error, error_bytes, "no memory");
	if (config->count == 0 || config->count > HD_SWITCH_PORTS_MAX) {
		(void)snprintf(error, error_bytes, "port: 1 to %d of them", HD_SWITCH_PORTS_MAX);
		return -EINVAL;
	}
	p = calloc(1, sizeof *p);
	if (!p)
		return -ENOMEM;
	p->ports = calloc(config->count, sizeof *p->ports);
	if (!p->ports) {
		free(p);
		return -ENOMEM;
	}
	p->count = config->count;
	p->now = hd_wait_now();
	p->self = config->self;
	p->busy_poll = config->busy_poll;
	p->woken = config->woken;
	p->owner = config->owner;
	pthread_mutex_init(&p->turn, NULL);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->done, NULL);
	code = set_up(p, config, error, error_bytes);
	if (code < 0) {
		free(p->ports);
		free(p);
		return code;
	}
	*ports = p;
	return 0;
}

void hd_ports_close(struct hd_ports *p) {
	if (!p)
		return;
	ports_close_all(p);
	hd_switch_stations_destroy(p->stations);
	hd_wait_fini(&p->wait);
	pthread_cond_destroy(&p->done);
	pthread_mutex_destroy(&p->lock);
	pthread_mutex_destroy(&p->turn);
	free(p->ports);
	free(p);
}

void hd_ports_set_executor(struct hd_ports *p, const struct hd_switch_executor *executor) {
	p->executor = *executor;
}

/* --- counters ------------------------------------------------------------------------------ */

uint32_t hd_ports_count(const struct hd_ports *p) {
	return p->count;
}

const char *hd_ports_name(const struct hd_ports *p, uint32_t port) {
	return p->ports[port].name;
}

const struct hd_switch_self *hd_ports_self(const struct hd_ports *p) {
	return &p->self;
}

void hd_ports_counts(struct hd_ports *p, uint32_t index, struct hd_ports_counts *counts) {
	struct switch_port *port = &p->ports[index];

	port->counts.missed = 0;
	for (uint16_t q = 0; q < port->eth.queues; q++)
		port->counts.missed += dpdk_port_lost(&port->eth, q, &port->lost);
	*counts = port->counts;
}

struct hd_switch_queue *hd_ports_queue(const struct hd_ports *p, uint32_t port) {
	return p->ports[port].queue;
}

uint64_t hd_ports_polls(const struct hd_ports *p, uint64_t *idle) {
	*idle = p->idle;
	return p->polls;
}
