/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HD_PORTS_PRIVATE_H
#define HD_PORTS_PRIVATE_H

#include "hd_dpdk_port.h"
#include "hd_ports.h"
#include "hd_switch_stations.h"
#include "hd_wait.h"

#include <rte_ethdev.h>

#include <pthread.h>

#define PORTS_BURST 32 /* frames per receive burst: more do not fit the first-level cache */
#define PORTS_SEND_BURST 64
#define PORTS_ROUNDS_MAX 8 /* bursts of each port before timers are served */
#define PORTS_STALL_US 50 /* before a stalled port is tried again; doubled each time */
#define PORTS_STALL_MAX_US 5000
#define PORTS_KICK_US 100 /* before a qdisc that refused af_packet's frames is tried again */
#define PORTS_NAP_MIN_US 20 /* when there is no descriptor to sleep on */
#define PORTS_NAP_MAX_US 1000
#define PORTS_TIME_NS HD_SECOND /* between two calls of the executor's time() */
/* Frames a socket since the last sleep, after which sockets are no longer watched: watching again costs as much as ten
 * frames. */
#define PORTS_AWAKE_FRAMES 64
#define PORTS_NAME_BYTES 32
#define PORTS_STATIONS 16384
/* The part of a copy that is not shared: up to the end of a chunk's header. */
#define PORTS_HEADER_BYTES (14 + 20 + 8 + HD_SWITCH_CHUNK_HEADER_BYTES)
#define PORTS_SHARE_BYTES                                                                          \
	512 /* longer frames share their payload; copying shorter ones is cheaper */

struct switch_port {
	struct dpdk_port eth;
	struct hd_switch_queue *queue;
	bool chains; /* accepts a frame in several pieces */
	bool limited; /* its link has a rate */
	uint16_t direct_count;
	uint32_t direct_bytes;
	struct rte_mbuf *direct[PORTS_SEND_BURST]; /* to send before the queue */
	hd_ns stalled_until; /* 0: not stalled */
	uint32_t stall_us; /* of the last stall */
	hd_ns kick_at; /* when to check whether a qdisc has refused some frames */
	struct hd_ports_counts counts;
	_Atomic uint64_t lost; // writer: its reader
	char name[PORTS_NAME_BYTES];
};

struct hd_ports {
	struct hd_switch_executor executor;
	struct hd_switch_self self;
	struct hd_wait wait;
	bool busy_poll, naps, registered;
	bool watched; /* the sockets are watched */
	uint32_t sockets;
	uint64_t awake_frames; /* since the last sleep */
	void (*woken)(void *owner, hd_ns now);
	void *owner;
	uint32_t count;
	struct switch_port *ports;
	struct rte_mempool *pool; /* of frames: all ports but af_xdp's, and whole copies */
	struct rte_mempool *pieces; /* headers of copies, and references */
	struct hd_switch_stations *stations;
	uint64_t waiting; /* bit of each port with queued frames */
	uint64_t direct; /* bit of each port with direct frames */
	uint64_t kicked; /* bit of each af_packet port whose ring must be emptied */
	uint64_t rings; /* bit of each af_packet port */
	hd_ns now; /* of the current burst, or another one of the same poll */
	hd_ns busy_at, reported_at;
	uint64_t polls, idle;

	/* A call from another thread. */
	pthread_mutex_t turn; // held by the caller that makes the call
	pthread_mutex_t lock; // guards the fields below
	pthread_cond_t done;
	void (*call)(void *argument);
	void *argument;
	bool running;
	pthread_t thread; /* of the loop, while it runs */
};

/* --- hd_ports_open.c ----------------------------------------------------------------------- */
int ports_open_all(
	struct hd_ports *p,
	const struct hd_ports_config *config,
	char *error,
	size_t error_bytes
);
void ports_close_all(struct hd_ports *p);
/*
 * The kernel calls the watcher of a socket for each frame received or sent, 4 to 7 % of the cost of forwarding by
 * af_packet: sockets are watched only while the loop may sleep. 0 or -errno.
 */
int ports_watch(struct hd_ports *p);
void ports_unwatch(struct hd_ports *p);

/* --- hd_ports_copy.c ----------------------------------------------------------------------- */
/* A frame to send as a copy of `frame`, with PORTS_HEADER_BYTES of its own to write. NULL: no buffer. */
struct rte_mbuf *ports_copy_addressed(struct hd_ports *p, struct rte_mbuf *frame, bool chains);
/* Another reference to the same frame, read-only. NULL: no buffer. */
struct rte_mbuf *ports_copy_flooded(struct hd_ports *p, struct rte_mbuf *frame);

/* --- hd_ports_send.c ----------------------------------------------------------------------- */
/* Takes the frame in any case: frames that the queue refuses are freed and counted. own: its headers are not shared. */
void ports_put(struct hd_ports *p, uint32_t port, struct rte_mbuf *frame, bool own);
/*
 * Direct frames leave with their burst: if nothing waits and the link has no rate, a queue would only cost time.
 * Returns how many fit; put them at ports_direct_place(), then call ports_put_direct().
 */
static inline uint16_t ports_direct_room(const struct hd_ports *p, uint32_t index) {
	const struct switch_port *port = &p->ports[index];

	if (port->limited || (p->waiting >> index & 1) != 0)
		return 0;
	return (uint16_t)(PORTS_SEND_BURST - port->direct_count);
}

static inline struct rte_mbuf **ports_direct_place(struct hd_ports *p, uint32_t index) {
	return &p->ports[index].direct[p->ports[index].direct_count];
}

static inline void
ports_put_direct(struct hd_ports *p, uint32_t index, uint16_t count, uint32_t bytes) {
	struct switch_port *port = &p->ports[index];

	port->direct_count = (uint16_t)(port->direct_count + count);
	port->direct_bytes += bytes;
	p->direct |= UINT64_C(1) << index;
}

/* Whether ports_send() needs to know the time. */
static inline bool ports_is_timed(const struct hd_ports *p) {
	return (p->waiting | p->kicked | (p->direct & p->rings)) != 0;
}

/* Sends frames that may leave now. */
void ports_send(struct hd_ports *p);
/* When the next frame may leave. */
hd_ns ports_send_deadline(const struct hd_ports *p);

/* --- hd_ports_receive.c -------------------------------------------------------------------- */
/* Queues the frame to all ports but `in`. */
void ports_flood(struct hd_ports *p, uint32_t in, struct rte_mbuf *frame);
/* Receives from all ports. Returns the number of frames. */
uint32_t ports_receive(struct hd_ports *p);

#endif
