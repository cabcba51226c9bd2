/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The agent of a switch beside its ports: a thread with a kernel socket on the service address, which the hosts reach
 * through one of the switch's own ports.
 *
 *   controller <--sessions--> agent's thread --hd_ports_call()--> between two bursts: leases, counters
 */
#ifndef HD_SWITCH_THREAD_H
#define HD_SWITCH_THREAD_H

#include "hd_ports_stats.h"
#include "hd_setup.h"

struct hd_switch_thread;

struct hd_switch_thread_config {
	struct hd_ports *ports;
	const struct hd_switch_executor *executor;
	struct hd_service *service; /* initialised; started here, on the agent's loop */
	const struct hd_setup_options *setup; /* listen, controller, host, events; outlives it */
	const struct hd_keyring *keys; /* must outlive it */
	uint16_t count_min, count_max; /* values of a chunk that the executor supports */
	uint16_t dtypes; /* bit d: enum hd_dtype d */
};

/* 0, or an exit code after the error was logged. */
int hd_switch_thread_start(
	const struct hd_switch_thread_config *config,
	struct hd_switch_thread **thread
);
/* Makes it end its leases and sessions, and then stop the ports. Safe in signal handlers. */
void hd_switch_thread_stop(struct hd_switch_thread *thread);
/* Call it after stop. 0 or an exit code. */
int hd_switch_thread_join(struct hd_switch_thread *thread);

#endif
