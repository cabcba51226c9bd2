/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One interface to all drivers of a node: programs pass their command line's options and know no more.
 *
 *   program --- hd_driver_open(options) ---+--- udp    a kernel socket (hd_udp.h)
 *                                          +--- dpdk   a port without the kernel (hd_dpdk.h)
 *
 * One thread opens, runs and closes it; stop() and wake() may come from any thread and signal handler.
 */
#ifndef HD_DRIVER_H
#define HD_DRIVER_H

#include "hd_event.h"
#include "hd_node.h"
#include "hd_option.h"
#include "hd_stat_groups.h"

struct hd_driver;

/* The user's options; NULL: not given. The texts are only read while the driver is opened. */
struct hd_driver_options {
	const char *driver; /* "udp" (also NULL) or "dpdk" */
	const char *eal; /* dpdk: further EAL arguments, separated by blanks */
	const char *port; /* dpdk: devargs of the ethdev port */
	const char *address; /* dpdk: our address as ADDR/BITS */
	const char *gateway; /* dpdk: for addresses outside that network */
	bool busy_poll; /* dpdk: never sleep */
};

struct hd_driver_config {
	/* ipv4 0: any (dpdk: the port's); port 0: udp any free one, dpdk HD_PORT. */
	struct hd_addr bind;
	struct hd_driver_options options;
	void (*event)(void *owner, const struct hd_event *event); /* may be NULL */
	/* Runs on the driver's thread after hd_driver_wake(), with a sink to pass to the core. */
	void (*woken)(void *owner, hd_ns now, struct hd_sink *sink);
	void *owner;
};

/* 0 or -errno (-ENOTSUP: built without this driver, -EINVAL: the options); error gets a text. With drivers other than
 * udp it begins with the option concerned ("port: ..."). */
int hd_driver_open(
	const struct hd_driver_config *config,
	struct hd_driver **driver,
	char *error,
	size_t error_bytes
);
void hd_driver_close(struct hd_driver *driver);
/* In a forked child: closes the child's resources without affecting the parent's driver. */
void hd_driver_abandon(struct hd_driver *driver);

/* ipv4 0: any address of this host. */
struct hd_addr hd_driver_bound(const struct hd_driver *driver);
/* Bytes that may be in flight to us, for receive_window_bytes. */
uint32_t hd_driver_receive_window(const struct hd_driver *driver);

/* Drives the node until hd_driver_stop(). 0 or -errno. */
int hd_driver_run(struct hd_driver *driver, struct hd_node node);
/* One poll: waits at most until `until` (a hd_driver_now() time), then receives, ticks and sends. */
int hd_driver_poll(struct hd_driver *driver, struct hd_node node, hd_ns until);
void hd_driver_stop(struct hd_driver *driver);
void hd_driver_wake(struct hd_driver *driver);
/* A descriptor that is readable when hd_driver_poll() has something to do before the core's deadline: for running a
 * node in another program's loop. Only to be polled. */
int hd_driver_fd(const struct hd_driver *driver);

/* CLOCK_MONOTONIC in ns. */
hd_ns hd_driver_now(void);

/* One of the driver's counters since it was opened. */
struct hd_driver_counter {
	const char *name, *unit, *help;
	uint64_t value;
};

#define HD_DRIVER_COUNTERS_MAX 64

/* Fills at most HD_DRIVER_COUNTERS_MAX; returns how many. Any thread; values may be slightly old. */
size_t hd_driver_counters(
	const struct hd_driver *driver,
	struct hd_driver_counter counters[HD_DRIVER_COUNTERS_MAX]
);

/* Adds rows to the groups of ports and queues (hd_stat_groups.h). The driver's thread. */
void hd_driver_stats(const struct hd_driver *driver, struct hd_stats *stats);
/* Sets *core to the calling thread's costs; its loop is unknown (polls: 0). 0 or -errno. */
int hd_driver_thread_stats(struct hd_core_stats *core);
/* Adds a row to the group of cores: the calling thread, which is the driver's. NULL: of no driver. */
void hd_driver_core_stats(const struct hd_driver *driver, struct hd_stats *stats);
const char *hd_driver_name(const struct hd_driver *driver); /* "udp", "dpdk" */

/* --- command lines and environments -------------------------------------------------------- */

/* For struct hd_driver_options, in a program's table. */
extern const struct hd_option hd_driver_option_table[];
/* Whether another driver than udp was chosen: error texts then name the option. */
bool hd_driver_was_chosen(const struct hd_driver_options *options);
/* The same from HEDDLE_DRIVER, HEDDLE_PORT, HEDDLE_ADDRESS, HEDDLE_GATEWAY, HEDDLE_EAL and HEDDLE_BUSY_POLL (set and
 * not empty). */
void hd_driver_options_from_environment(struct hd_driver_options *options);

/* Host name or dotted quad, with an optional ":port" (default HD_PORT): see hd_udp_resolve(). */
int hd_driver_resolve(const char *text, struct hd_addr *addr);
/* The same for our own address: port 0 is allowed and means any. */
int hd_driver_resolve_own(const char *text, struct hd_addr *addr);
/* The text of an error of either. */
const char *hd_driver_resolve_error(int code);
/* "ADDR:PORT" in digits, at most 22 bytes with the NUL. */
#define HD_ADDR_TEXT_BYTES 22
void hd_driver_print_addr(struct hd_addr addr, char text[HD_ADDR_TEXT_BYTES]);

#endif
