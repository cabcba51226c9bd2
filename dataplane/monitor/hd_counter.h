/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The BPF program on one network card: loads it, hangs it on both tc hooks, reads its counters.
 *
 * The hooks are clsact's. One that is there already is shared, and left when we go; ours has a handle of its
 * own, so that a life that was killed is replaced by the next.
 */
#ifndef HD_COUNTER_H
#define HD_COUNTER_H

#include "hd_monitor.h"

struct hd_counter;

/* 0, or -errno with the step that failed in words: -ENODEV, -EPERM (CAP_BPF, CAP_NET_ADMIN), what the
 * kernel says of the program. */
int hd_counter_open(
	const char *interface,
	uint16_t fabric_port,
	struct hd_counter **counter,
	char *error,
	size_t error_bytes
);
void hd_counter_close(struct hd_counter *counter);
/* Sums over processors, of mapped memory: no system call. */
void hd_counter_read(
	const struct hd_counter *counter,
	struct hd_monitor_counts counts[HD_COUNTS_WAYS]
);
/* The programs' descriptors, by way: for tests and benches (BPF_PROG_TEST_RUN). */
int hd_counter_program(const struct hd_counter *counter, int way);

#endif
