/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The udp driver: one node over one unprivileged kernel UDP socket. GSO and GRO if the kernel has them,
 * sendmmsg/recvmmsg, one epoll descriptor; sleeps until packets, the core's deadline or a wake.
 */
#ifndef HD_UDP_H
#define HD_UDP_H

#include "hd_event.h"
#include "hd_node.h"

struct hd_udp;

struct hd_udp_config {
	struct hd_addr bind; /* ipv4 0: any; port 0: ephemeral */
	uint32_t receive_buffer_bytes; /* requested; 0: 8 MiB (the kernel's limit may lower it) */
	uint32_t send_buffer_bytes; /* 0: 4 MiB */
	bool no_gso, no_gro; /* for tests and comparison */
	void (*event)(void *owner, const struct hd_event *event); /* may be NULL */
	/* Runs on the driver's thread after hd_udp_wake(), with a sink to pass to the core. */
	void (*woken)(void *owner, hd_ns now, struct hd_sink *sink);
	void *owner;
};

/* 0 or -errno; error gets a text. */
int hd_udp_open(
	const struct hd_udp_config *config,
	struct hd_udp **udp,
	char *error,
	size_t error_bytes
);
void hd_udp_close(struct hd_udp *udp);
struct hd_addr hd_udp_bound(const struct hd_udp *udp);
/* For receive_window_bytes: half of the buffer that the kernel really gave, as skbs are larger than their packets. */
uint32_t hd_udp_receive_window(const struct hd_udp *udp);

/* Drives the node until hd_udp_stop(). 0 or -errno. */
int hd_udp_run(struct hd_udp *udp, struct hd_node node);
/* One poll: waits at most until `until` (a hd_udp_now() time), then receives, ticks and flushes. */
int hd_udp_poll(struct hd_udp *udp, struct hd_node node, hd_ns until);
/* Both may be called from any thread and from signal handlers. */
void hd_udp_stop(struct hd_udp *udp);
void hd_udp_wake(struct hd_udp *udp);
/* A descriptor that is readable when hd_udp_poll() has something to do before the core's deadline: for running a node
 * in another program's loop. Only to be polled. */
int hd_udp_fd(const struct hd_udp *udp);
/* CLOCK_MONOTONIC in ns. */
hd_ns hd_udp_now(void);

struct hd_udp_stats {
	uint64_t received_packets, received_bytes, receive_calls;
	uint64_t sent_packets, sent_bytes, send_calls;
	uint64_t send_errors, receive_overflow, truncated;
	uint64_t waited; /* packets delayed because the socket had no room */
	uint64_t drop_strangers; /* answers to strangers dropped for lack of room */
	uint64_t polls, idle_polls; /* polls; of these, with nothing to do */
};
const struct hd_udp_stats *hd_udp_stats(const struct hd_udp *udp);
/* Bytes in the socket's buffers now, by the kernel's accounting, and the buffers' capacity. */
struct hd_udp_memory {
	uint32_t receive_bytes, receive_limit, send_bytes, send_limit;
};
struct hd_udp_memory hd_udp_memory(const struct hd_udp *udp);

/* Host name or dotted quad, with an optional ":port" (default HD_PORT). A dotted quad is parsed at once; for a name the
 * resolver is asked, for at most HD_RESOLVE_MS. 0, -EINVAL, -EHOSTUNREACH (no such name), -ENETUNREACH (no name server
 * answered), -ETIMEDOUT, -EAGAIN (no thread, or HD_RESOLVERS_MAX of them wait already) or -ENOMEM. */
int hd_udp_resolve(const char *text, struct hd_addr *addr);
/* The same with the caller's timeout. */
int hd_udp_resolve_within(const char *text, int timeout_ms, struct hd_addr *addr);
/* The text of an error of hd_udp_resolve(). */
const char *hd_udp_resolve_error(int code);

#endif
