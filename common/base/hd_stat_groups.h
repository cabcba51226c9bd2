/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every program counts about the machine that it runs on: ports, queues, cores, the process.
 * A driver fills the structs of ports and queues, the program those of cores and of itself; the groups
 * (hd_stats.h) say what each number means. Ports and queues are the driver's: a kernel socket is one
 * port with one queue each way, an ethdev has as many as it was given.
 */
#ifndef HD_STAT_GROUPS_H
#define HD_STAT_GROUPS_H

#include "hd_stats.h"

/* clang-format off */
#define HD_PORT_STATS(S) \
	S(rx_packets, "packets", "packets received", COUNTER, U64) \
	S(rx_bytes, "bytes", "payload bytes received", COUNTER, U64) \
	S(rx_calls, "calls", "system calls or polls that received something", COUNTER, U64) \
	S(rx_missed, "packets", "lost because nobody took them in time (full socket buffer or ring)", COUNTER, U64) \
	S(rx_errors, "packets", "received broken: truncated, checksum, length", COUNTER, U64) \
	S(rx_no_buffer, "packets", "lost for want of a packet buffer", COUNTER, U64) \
	S(tx_packets, "packets", "packets sent", COUNTER, U64) \
	S(tx_bytes, "bytes", "payload bytes sent", COUNTER, U64) \
	S(tx_calls, "calls", "system calls or bursts that sent something", COUNTER, U64) \
	S(tx_errors, "packets", "given up: full buffer or ring, no buffer, no route, too long, refused by the kernel", \
		COUNTER, U64)

#define HD_QUEUE_STATS(S) \
	S(packets, "packets", "packets that went through it", COUNTER, U64) \
	S(bytes, "bytes", "bytes that went through it", COUNTER, U64) \
	S(drops, "packets", "packets that it lost", COUNTER, U64) \
	S(backlog_bytes, "bytes", "waiting in it now", GAUGE, U64) \
	S(limit_bytes, "bytes", "what it can hold", GAUGE, U64)

#define HD_CORE_STATS(S) \
	S(user_seconds, "seconds", "processor time in the program", COUNTER, F64) \
	S(system_seconds, "seconds", "processor time in the kernel on its behalf", COUNTER, F64) \
	S(wakeups, "wakeups", "times that it slept and was woken", COUNTER, U64) \
	S(preempted, "switches", "times that the kernel took the processor away", COUNTER, U64) \
	S(polls, "polls", "rounds of its loop", COUNTER, U64) \
	S(idle_polls, "polls", "of these, with nothing to do", COUNTER, U64)

/* Of all transfers of a node; counted by their senders. */
#define HD_TRANSFER_STATS(S) \
	S(chunks_sent, "packets", "data chunks sent, also to slots of a switch", COUNTER, U64) \
	S(chunks_resent, "packets", "of these, sent again", COUNTER, U64)

#define HD_PROCESS_STATS(S) \
	S(uptime_seconds, "seconds", "since the program began", GAUGE, F64) \
	S(resident_bytes, "bytes", "memory resident now", GAUGE, U64) \
	S(open_fds, "descriptors", "file descriptors open", GAUGE, U64) \
	S(log_lines, "lines", "lines logged", COUNTER, U64) \
	S(log_errors, "lines", "of these, errors", COUNTER, U64) \
	S(log_lost, "lines", "that could not be written: nobody reads the pipe, or the disk is full", COUNTER, U64) \
	S(events_lost, "events", "that the event log could not take: the disk is full", COUNTER, U64) \
	S(gathers, "snapshots", "times that these numbers were gathered", COUNTER, U64) \
	S(gather_seconds, "seconds", "processor time spent on gathering them", COUNTER, F64)
/* clang-format on */

/* Both types have 8 bytes; the names are those of the lists. */
typedef uint64_t hd_stat_U64;
typedef double hd_stat_F64;
#define HD_STAT_FIELD(name, unit, help, kind, type) hd_stat_##type name;

struct hd_port_stats {
	HD_PORT_STATS(HD_STAT_FIELD)
};

struct hd_queue_stats {
	HD_QUEUE_STATS(HD_STAT_FIELD)
};

struct hd_core_stats {
	HD_CORE_STATS(HD_STAT_FIELD)
};

struct hd_transfer_stats {
	HD_TRANSFER_STATS(HD_STAT_FIELD)
};

struct hd_process_stats {
	HD_PROCESS_STATS(HD_STAT_FIELD)
};

extern const struct hd_stat_group hd_port_group; /* {port, driver} */
extern const struct hd_stat_group hd_queue_group; /* {port, direction, queue} */
extern const struct hd_stat_group hd_core_group; /* {core} */
extern const struct hd_stat_group hd_transfer_group; /* no labels */
extern const struct hd_stat_group hd_process_group; /* no labels */

#endif
