/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The agent of a switch beside its ports: a thread with a kernel socket on the service address, which the hosts reach
 * through one of the switch's own ports.
 *
 *   controller <--sessions--> agent's thread --hd_ports_call()--> between two bursts: leases, numbers
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
	const struct hd_setup_options *setup; /* listen, controller, host and events; outlives it */
	const struct hd_keyring *keys; /* outlives it */
	uint16_t count_min, count_max; /* values of a chunk that the executor takes */
	uint16_t dtypes; /* bit d: enum hd_dtype d */
};

/* 0, or an exit code when the log has said why. */
int hd_switch_thread_start(
	const struct hd_switch_thread_config *config,
	struct hd_switch_thread **thread
);
/* Has it end its leases and sessions, and then stop the ports. Signal handlers, too. */
void hd_switch_thread_stop(struct hd_switch_thread *thread);
/* After that. 0 or an exit code. */
int hd_switch_thread_join(struct hd_switch_thread *thread);

#endif
