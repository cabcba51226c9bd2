/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The counters that every program keeps about its machine: ports, queues, cores, the process. A driver fills the
 * structs of ports and queues, the program those of cores and of itself; the groups (hd_stats.h) describe each number.
 * A kernel socket is one port with one queue each way; an ethdev has as many queues as it was given.
 */
#ifndef HD_STAT_GROUPS_H
#define HD_STAT_GROUPS_H

#include "hd_stats.h"

/* clang-format off */
#define HD_PORT_STATS(S) \
	S(rx_packets, "packets", "packets received", COUNTER, U64) \
	S(rx_bytes, "bytes", "payload bytes received", COUNTER, U64) \
	S(rx_calls, "calls", "system calls or polls that received something", COUNTER, U64) \
	S(rx_missed, "packets", \
		"packets lost because the program did not read them in time: socket buffer or ring " \
		"full", COUNTER, U64) \
	S(rx_errors, "packets", "packets received with an error: truncated, checksum, length", COUNTER, U64) \
	S(rx_no_buffer, "packets", "packets lost because no packet buffer was free", COUNTER, U64) \
	S(tx_packets, "packets", "packets sent", COUNTER, U64) \
	S(tx_bytes, "bytes", "payload bytes sent", COUNTER, U64) \
	S(tx_calls, "calls", "system calls or bursts that sent something", COUNTER, U64) \
	S(tx_errors, "packets", \
		"packets not sent: buffer or ring full, no buffer, no route, too long, or refused by the kernel", \
		COUNTER, U64)

#define HD_QUEUE_STATS(S) \
	S(packets, "packets", "packets that passed the queue", COUNTER, U64) \
	S(bytes, "bytes", "bytes that passed the queue", COUNTER, U64) \
	S(drops, "packets", "packets that the queue dropped", COUNTER, U64) \
	S(backlog_bytes, "bytes", "bytes waiting in the queue now", GAUGE, U64) \
	S(limit_bytes, "bytes", "capacity of the queue, in bytes", GAUGE, U64)

#define HD_CORE_STATS(S) \
	S(user_seconds, "seconds", "processor time of the thread in user mode", COUNTER, F64) \
	S(system_seconds, "seconds", "processor time of the thread in the kernel", COUNTER, F64) \
	S(wakeups, "wakeups", "times that the thread slept and was woken", COUNTER, U64) \
	S(preempted, "switches", "involuntary context switches of the thread", COUNTER, U64) \
	S(polls, "polls", "iterations of the thread's loop", COUNTER, U64) \
	S(idle_polls, "polls", "iterations of the loop that found nothing to do", COUNTER, U64)

/* Of all transfers of a node; counted by the sender. */
#define HD_TRANSFER_STATS(S) \
	S(chunks_sent, "packets", "data chunks sent, including those to a switch", COUNTER, U64) \
	S(chunks_resent, "packets", "data chunks retransmitted", COUNTER, U64)

#define HD_PROCESS_STATS(S) \
	S(uptime_seconds, "seconds", "seconds since the program started", GAUGE, F64) \
	S(resident_bytes, "bytes", "resident memory", GAUGE, U64) \
	S(open_fds, "descriptors", "open file descriptors", GAUGE, U64) \
	S(log_lines, "lines", "log lines", COUNTER, U64) \
	S(log_errors, "lines", "log lines that report an error", COUNTER, U64) \
	S(log_lost, "lines", \
		"log lines that could not be written: the pipe has no reader, or the disk is full", COUNTER, U64) \
	S(events_lost, "events", \
		"events that could not be written to the event log: the disk is full", COUNTER, U64) \
	S(gathers, "snapshots", "times that these counters were read", COUNTER, U64) \
	S(gather_seconds, "seconds", "processor time spent reading the counters", COUNTER, F64)
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
