/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The BPF program on one network card: loads it, attaches it to both tc hooks, reads its counters.
 *
 * The hooks are clsact's. An existing one is shared, and left in place at the end. Our filter has its own handle, so
 * that the next process replaces the filter of a killed one.
 */
#ifndef HD_COUNTER_H
#define HD_COUNTER_H

#include "hd_monitor.h"

struct hd_counter;

/* 0, or -errno with a text that names the failed step: -ENODEV, -EPERM (CAP_BPF, CAP_NET_ADMIN), or the kernel's
 * verdict on the program. */
int hd_counter_open(
	const char *interface,
	uint16_t fabric_port,
	struct hd_counter **counter,
	char *error,
	size_t error_bytes
);
void hd_counter_close(struct hd_counter *counter);
/* Sums over processors, from mapped memory: no system call. */
void hd_counter_read(
	const struct hd_counter *counter,
	struct hd_monitor_counts counts[HD_COUNTS_DIRECTIONS]
);
/* The programs' descriptors, by way: for tests and benches (BPF_PROG_TEST_RUN). */
int hd_counter_program(const struct hd_counter *counter, int direction);

#endif
