/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ports of a switch, and the loop that moves frames between them through an executor.
 *
 *   port 0 --rx burst--> executor: verdicts --+-- drop
 *   port 1                                    +-- forward -----------> queue of that port --+
 *   ...                                       +-- flood: a reference    queues of all but   |--tx burst--> ports
 *                                             |   for each port ------> the incoming port   |
 *                                             +-- copy: own headers     queue of each       |
 *                                                 for each, the ------> copy's port --------+
 *                                                 payload shared
 *
 * One thread opens it, runs it and closes it. It sleeps on the sockets behind its ports (af_packet, af_xdp), and until
 * a link with a rate may take the next frame; ports without descriptors are polled in naps that grow with silence.
 * stop(), wake() and call() may come from other threads, stop() and wake() from signal handlers too.
 */
#ifndef HD_PORTS_H
#define HD_PORTS_H

#include "hd_switch_executor.h"
#include "hd_switch_link.h"

struct hd_ports;
struct hd_switch_stations;

struct hd_ports_config {
	const struct hd_switch_link *links; /* [count]: ports 0, 1, ... */
	uint32_t count; /* 1 .. HD_SWITCH_PORTS_MAX */
	const char *eal; /* further EAL arguments, separated by blanks; or NULL */
	const char *prefix; /* of EAL's files */
	bool busy_poll; /* never sleep */
	struct hd_switch_self self; /* source of copies; a MAC of zeros: port 0's */
	/* On the loop's thread, after wake(); may be NULL. */
	void (*woken)(void *owner, hd_ns now);
	void *owner;
};

/* Counters of a port besides its queues'. */
struct hd_ports_counts {
	uint64_t received, received_bytes;
	uint64_t direct, direct_bytes; /* sent without waiting in a queue */
	uint64_t bursts, sends; /* calls that received, and sent, frames */
	uint64_t segmented; /* dropped: longer than a buffer */
	uint64_t no_buffer; /* copies for which there was no buffer */
	uint64_t no_port; /* copies to a port that does not exist */
	uint64_t missed; /* lost to a full receive ring */
	uint64_t stalls; /* bursts that the port took only in part */
	uint64_t errors; /* of its descriptors: the link went down */
};

/* Opens the ports, and EAL with the first of a process. 0 or -errno, with a text in error. */
int hd_ports_open(
	const struct hd_ports_config *config,
	struct hd_ports **ports,
	char *error,
	size_t error_bytes
);
/* Frees queued frames. The executor belongs to its owner. */
void hd_ports_close(struct hd_ports *ports);
/* Before the first run(). */
void hd_ports_set_executor(struct hd_ports *ports, const struct hd_switch_executor *executor);

/* Until stop(). 0 or -errno. */
int hd_ports_run(struct hd_ports *ports);
/* One poll, which sleeps until `until` at the latest. 0 or -errno. */
int hd_ports_poll(struct hd_ports *ports, hd_ns until);
void hd_ports_stop(struct hd_ports *ports);
void hd_ports_wake(struct hd_ports *ports);
/*
 * From another thread: makes the loop's thread call it between two bursts, and waits for that. 0, or -ECANCELED: the
 * loop has ended. Before run() and after it, and on the loop's thread, it is called directly.
 */
int hd_ports_call(struct hd_ports *ports, void (*call)(void *argument), void *argument);

/*
 * The loop's thread. Finds the port and Ethernet address for frames to an address, from its ARP packets: sets
 * copy->port and copy->mac. -EAGAIN: unknown, a request went to all ports (not more often than HD_STATIONS_ASK_NS).
 */
int hd_ports_neighbour(struct hd_ports *ports, uint32_t ipv4, struct hd_switch_copy *copy);
/* The table of those addresses: entries may be set in it before run(). If it is closed, no request is sent: -ENOENT. */
struct hd_switch_stations *hd_ports_stations(const struct hd_ports *ports);
/* The smallest MTU of all ports. */
uint32_t hd_ports_mtu(const struct hd_ports *ports);

uint32_t hd_ports_count(const struct hd_ports *ports);
/* "s1-eth1", or the first word of the devargs if there is no interface. */
const char *hd_ports_name(const struct hd_ports *ports, uint32_t port);
const struct hd_switch_self *hd_ports_self(const struct hd_ports *ports);
/* The loop's thread (hd_ports_call()). */
void hd_ports_counts(struct hd_ports *ports, uint32_t port, struct hd_ports_counts *counts);
struct hd_switch_queue *hd_ports_queue(const struct hd_ports *ports, uint32_t port);
uint64_t hd_ports_polls(const struct hd_ports *ports, uint64_t *idle);

#endif
