/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HD_PORTS_PRIVATE_H
#define HD_PORTS_PRIVATE_H

#include "hd_dpdk_port.h"
#include "hd_ports.h"
#include "hd_switch_stations.h"
#include "hd_wait.h"

#include <rte_ethdev.h>

#include <pthread.h>

#define PORTS_BURST 32 /* frames taken from a queue at once: more do not fit the first cache */
#define PORTS_SEND_BURST 64
#define PORTS_ROUNDS_MAX 8 /* bursts of each port before timers get their turn */
#define PORTS_STALL_US                                                                             \
	50 /* until a port that did not take all is tried again; twice as long each time */
#define PORTS_STALL_MAX_US 5000
#define PORTS_KICK_US                                                                              \
	100 /* until a qdisc that refused frames is offered again what af_packet's ring holds */
#define PORTS_NAP_MIN_US 20 /* without descriptors */
#define PORTS_NAP_MAX_US 1000
#define PORTS_TIME_NS HD_SECOND /* between two times that the executor is told */
/* For each socket, since the last sleep, before they are watched no more: to begin anew costs what ten do. */
#define PORTS_AWAKE_FRAMES 64
#define PORTS_NAME_BYTES 32
#define PORTS_STATIONS 16384
/* What a copy has of its own when its payload is shared: up to the end of a chunk's header. */
#define PORTS_HEADER_BYTES (14 + 20 + 8 + HD_SWITCH_CHUNK_HEADER_BYTES)
#define PORTS_SHARE_BYTES                                                                          \
	512 /* frames from here on share their payload: below it copying is cheaper */

struct switch_port {
	struct dpdk_port eth;
	struct hd_switch_queue *queue;
	bool chains; /* takes a frame in several pieces */
	bool limited; /* its link has a rate */
	uint16_t direct_count;
	uint32_t direct_bytes;
	struct rte_mbuf *direct[PORTS_SEND_BURST]; /* to leave before anything waits */
	hd_ns stalled_until; /* 0: it took all */
	uint32_t stall_us; /* of the last stall */
	hd_ns kick_at; /* when it is looked whether a qdisc has refused some of it */
	struct hd_ports_counts counts;
	_Atomic uint64_t lost; // writer: who reads it
	char name[PORTS_NAME_BYTES];
};

struct hd_ports {
	struct hd_switch_executor executor;
	struct hd_switch_self self;
	struct hd_wait wait;
	bool busy_poll, naps, registered;
	bool watched; /* wait knows the ports' sockets */
	uint32_t sockets;
	uint64_t awake_frames; /* since the last sleep */
	void (*woken)(void *owner, hd_ns now);
	void *owner;
	uint32_t count;
	struct switch_port *ports;
	struct rte_mempool
		*pool; /* of frames: all ports but those of af_xdp, and copies made whole */
	struct rte_mempool *pieces; /* headers of copies, and references */
	struct hd_switch_stations *stations;
	uint64_t waiting; /* bit of each port with frames in its queue */
	uint64_t direct; /* bit of each port with frames that leave with the burst */
	uint64_t kicked; /* bit of each port of af_packet whose ring is to be emptied */
	uint64_t rings; /* bit of each port of af_packet */
	hd_ns now; /* of the burst that is under way, or one of the same step */
	hd_ns busy_at, told_at;
	uint64_t polls, idle;

	/* A call from another thread. */
	pthread_mutex_t turn; // held by the caller whose call it is
	pthread_mutex_t lock; // guards what follows
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
 * Who watches a socket is called for each frame that comes and each one that has left, 4 to 7 % of all that forwarding
 * by af_packet costs: sockets are watched only where somebody is to sleep. 0 or -errno.
 */
int ports_watch(struct hd_ports *p);
void ports_unwatch(struct hd_ports *p);

/* --- hd_ports_copy.c ----------------------------------------------------------------------- */
/*
 * A frame to send as a copy of `frame`, whose first PORTS_HEADER_BYTES may be written to while those of others stay
 * as they are. NULL: no buffer.
 */
struct rte_mbuf *ports_copy_addressed(struct hd_ports *p, struct rte_mbuf *frame, bool chains);
/* The same frame once more, for reading only. NULL: no buffer. */
struct rte_mbuf *ports_copy_flooded(struct hd_ports *p, struct rte_mbuf *frame);

/* --- hd_ports_send.c ----------------------------------------------------------------------- */
/* Takes the frame in any case: what the queue refuses is freed and counted. own: its headers are nobody else's. */
void ports_put(struct hd_ports *p, uint32_t port, struct rte_mbuf *frame, bool own);
/*
 * Frames that leave with their burst: where nothing waits and the link has no rate, a queue would only cost time. So
 * many have room, and are put where ports_direct_place() says, then told of by ports_put_direct().
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

/* Sends what may leave now. */
void ports_send(struct hd_ports *p);
/* When the next frame may leave. */
hd_ns ports_send_deadline(const struct hd_ports *p);

/* --- hd_ports_receive.c -------------------------------------------------------------------- */
/* To all ports but `in`. */
void ports_flood(struct hd_ports *p, uint32_t in, struct rte_mbuf *frame);
/* Takes what the ports have. Returns how many frames. */
uint32_t ports_receive(struct hd_ports *p);

#endif
