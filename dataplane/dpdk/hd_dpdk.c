/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_dpdk_private.h"

#include <rte_lcore.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the driver's part of a poll ----------------------------------------------------------- */

/* A receive interrupt fires once after it was enabled, and increments its descriptor's count. */
static void arm_interrupts(struct hd_dpdk *d) {
	for (uint16_t q = 0; q < d->port.queues; q++)
		(void)rte_eth_dev_rx_intr_enable(d->port.id, q);
}

static void disarm_interrupts(struct hd_dpdk *d) {
	for (uint16_t q = 0; q < d->port.queues; q++) {
		uint64_t fired;

		(void)rte_eth_dev_rx_intr_disable(d->port.id, q);
		if (read(d->port.descriptor[q], &fired, sizeof fired) < 0) {
			/* EAGAIN: it was another queue's. */
		}
	}
}

/* Naps grow with the silence: each is a 64th of it, so that the delay after it stays small. */
static hd_ns nap_until(const struct hd_dpdk *d, hd_ns now) {
	hd_ns nap = now > d->busy_at ? (now - d->busy_at) / 64 : 0;

	nap = hd_ns_max(nap, DPDK_NAP_MIN_US * HD_US);
	return hd_ns_add(now, hd_ns_min(nap, DPDK_NAP_MAX_US * HD_US));
}

static void clear_errors(struct hd_dpdk *d) {
	dpdk_count(&d->counters.port_errors, dpdk_clear_port_errors(&d->port));
}

static int sleep_until(struct hd_dpdk *d, struct hd_node node, hd_ns now, hd_ns until) {
	bool readable = false, came = false;
	int code;

	if (d->backlog)
		until = hd_ns_min(until, hd_ns_add(now, DPDK_KICK_US * HD_US));
	if (d->port.sleep == DPDK_NAPS)
		until = hd_ns_min(until, nap_until(d, now));
	if (d->port.sleep == DPDK_INTERRUPTS) {
		arm_interrupts(d);
		/* Packets that came before arming fire no interrupt. */
		came = dpdk_receive(d, node) > 0;
		if (came)
			until = now;
	}
	code = hd_wait_sleep(&d->loop.wait, now, until, &readable);
	if (d->port.sleep == DPDK_INTERRUPTS)
		disarm_interrupts(d);
	if (code < 0)
		return code;
	if (d->backlog)
		dpdk_kick(d);
	came |= dpdk_receive(d, node) > 0;
	if (came)
		d->busy_at = hd_wait_now();
	else if (readable)
		clear_errors(d);
	return came;
}

/* A driver that never sleeps must look for the errors that would wake a sleeper. */
static void look_for_errors(struct hd_dpdk *d, hd_ns now) {
	if (now < hd_ns_add(d->errors_at, DPDK_ERRORS_NS))
		return;
	d->errors_at = now;
	clear_errors(d);
}

/* A thread not started by EAL gets no mempool cache until it is registered. */
static void register_thread(struct hd_dpdk *d) {
	d->registered = true;
	if (rte_lcore_id() == LCORE_ID_ANY)
		(void)rte_thread_register();
}

static int receive(void *driver, struct hd_node node, hd_ns now, hd_ns until) {
	struct hd_dpdk *d = driver;

	if (!d->registered)
		register_thread(d);
	/* The ring is memory: checking it costs less than asking epoll. */
	if (dpdk_receive(d, node) > 0) {
		d->busy_at = now;
		return 1;
	}
	if (until > now && !d->config.busy_poll)
		return sleep_until(d, node, now, until);
	if (d->backlog)
		dpdk_kick(d);
	look_for_errors(d, now);
	return 0;
}

static void flush(void *driver) {
	dpdk_flush(driver);
}

static hd_ns deadline(const void *driver) {
	const struct hd_dpdk *d = driver;

	return hd_ns_min(hd_neighbours_deadline(d->neighbours), d->retry_at);
}

/* The flush that follows tries full rings again. */
static void tick(void *driver, hd_ns now) {
	hd_neighbours_tick(((struct hd_dpdk *)driver)->neighbours, now);
}

static const struct hd_loop_ops loop_ops
	= {.receive = receive, .flush = flush, .deadline = deadline, .tick = tick};

/* --- open and close ------------------------------------------------------------------------ */

static void dpdk_event(struct hd_sink *sink, const struct hd_event *event) {
	struct hd_dpdk *d = (struct hd_dpdk *)sink;

	d->config.event(d->config.owner, event);
}

static int check(const struct hd_dpdk_config *config, char *error, size_t error_bytes) {
	uint32_t mask = config->prefix == 0 ? 0 : UINT32_MAX << (32 - config->prefix);

	if (config->ipv4 >> 24 == 0 || config->ipv4 >= 0xe0000000 || config->prefix > 32) {
		(void)snprintf(error, error_bytes, "address: not a host's");
		return -EINVAL;
	}
	if (config->gateway != 0 && (config->gateway & mask) != (config->ipv4 & mask)) {
		(void)snprintf(error, error_bytes, "gateway: not in the address's network");
		return -EINVAL;
	}
	return 0;
}

static int start_eal(const struct hd_dpdk *d, const char *words, char *error, size_t error_bytes) {
	const uint32_t ip = d->config.ipv4;
	char prefix[64];
	const struct dpdk_eal eal = {
		.words = words,
		.prefix = prefix,
		.ports = &d->port,
		.port_count = 1,
		.memory_bytes = DPDK_OTHER_MEMORY,
	};

	(void)snprintf(
		prefix,
		sizeof prefix,
		"heddle-%u.%u.%u.%u-%u",
		ip >> 24,
		ip >> 16 & 255,
		ip >> 8 & 255,
		ip & 255,
		d->config.udp_port
	);
	return dpdk_start_eal(&eal, error, error_bytes);
}

static int set_up(struct hd_dpdk *d, char *error, size_t error_bytes) {
	const struct hd_dpdk_config *config = &d->config;
	int code;

	d->self.ipv4 = config->ipv4;
	d->self.port = config->udp_port;
	d->mask = config->prefix == 0 ? 0 : UINT32_MAX << (32 - config->prefix);
	d->network = config->ipv4 & d->mask;
	code = hd_neighbours_create(HD_NEIGHBOURS_MAX, &dpdk_neighbour_ops, d, &d->neighbours);
	if (code < 0) {
		(void)snprintf(error, error_bytes, "no memory");
		return code;
	}
	code = hd_wait_init(&d->loop.wait);
	if (code < 0) {
		(void)snprintf(error, error_bytes, "epoll: %s", strerror(-code));
		hd_neighbours_destroy(d->neighbours);
		return code;
	}
	code = dpdk_open_port(d, error, error_bytes);
	if (code < 0) {
		hd_wait_fini(&d->loop.wait);
		hd_neighbours_destroy(d->neighbours);
	}
	return code;
}

int hd_dpdk_open(
	const struct hd_dpdk_config *config,
	struct hd_dpdk **dpdk,
	char *error,
	size_t error_bytes
) {
	struct hd_dpdk *d;
	int code = check(config, error, error_bytes);

	if (code < 0)
		return code;
	d = calloc(1, sizeof *d);
	if (!d) {
		(void)snprintf(error, error_bytes, "no memory");
		return -ENOMEM;
	}
	d->config = *config;
	d->config.port = d->config.eal = NULL; /* the caller's, used only below */
	d->overflow = &d->counters.receive_overflow;
	d->queue_counters = d->queue;
	d->sink.send = dpdk_send;
	d->sink.send_stranger = dpdk_send_stranger;
	d->retry_at = HD_NEVER;
	d->sink.event = config->event ? dpdk_event : NULL;
	d->loop = (struct hd_loop){
		.ops = &loop_ops,
		.driver = d,
		.sink = &d->sink,
		.woken = config->woken,
		.owner = config->owner,
	};
	code = dpdk_read_devargs(config->port, &d->port, error, error_bytes);
	if (code == 0)
		code = start_eal(d, config->eal, error, error_bytes);
	if (code == 0)
		code = set_up(d, error, error_bytes);
	if (code < 0) {
		free(d);
		return code;
	}
	dpdk_publish(d);
	*dpdk = d;
	return 0;
}

void hd_dpdk_close(struct hd_dpdk *d) {
	if (!d)
		return;
	dpdk_retire(d);
	dpdk_free_unsent(d);
	hd_neighbours_destroy(d->neighbours);
	dpdk_close_port(d);
	hd_wait_fini(&d->loop.wait);
	free(d);
}

/* The port, its memory and its XDP program belong to the parent. */
void hd_dpdk_abandon(struct hd_dpdk *d) {
	if (!d)
		return;
	for (uint32_t i = 0; i < d->port.descriptor_count; i++)
		close(d->port.descriptor[i]);
	hd_wait_fini(&d->loop.wait);
	free(d);
}

struct hd_addr hd_dpdk_bound(const struct hd_dpdk *d) {
	return (struct hd_addr){.ipv4 = d->self.ipv4, .port = d->self.port};
}

uint32_t hd_dpdk_receive_window(const struct hd_dpdk *d) {
	uint64_t bytes = (uint64_t)d->port.ring_frames * d->port.queues * d->port.mtu / 2;

	return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

int hd_dpdk_fd(const struct hd_dpdk *d) {
	return d->loop.wait.epoll_fd;
}

void hd_dpdk_stop(struct hd_dpdk *d) {
	hd_wait_stop(&d->loop.wait);
}

void hd_dpdk_wake(struct hd_dpdk *d) {
	hd_wait_wake(&d->loop.wait);
}

/* Only the driver's thread may read the table's own counters. */
static void publish_neighbours(struct hd_dpdk *d) {
	const struct hd_neighbour_stats *s = hd_neighbours_stats(d->neighbours);

	atomic_store_explicit(&d->counters.arp_given_up, s->given_up, memory_order_relaxed);
	atomic_store_explicit(&d->counters.arp_evicted, s->evicted, memory_order_relaxed);
	atomic_store_explicit(&d->counters.arp_moved, s->moved, memory_order_relaxed);
	atomic_store_explicit(&d->counters.arp_ignored, s->ignored, memory_order_relaxed);
}

int hd_dpdk_poll(struct hd_dpdk *d, struct hd_node node, hd_ns until) {
	int code = hd_loop_poll(&d->loop, node, until);

	atomic_store_explicit(&d->counters.polls, d->loop.polls, memory_order_relaxed);
	atomic_store_explicit(&d->counters.idle_polls, d->loop.idle_polls, memory_order_relaxed);
	publish_neighbours(d);
	return code;
}

int hd_dpdk_run(struct hd_dpdk *d, struct hd_node node) {
	int code = 0;

	while (!hd_wait_stopped(&d->loop.wait) && code == 0)
		code = hd_dpdk_poll(d, node, HD_NEVER);
	return code;
}
