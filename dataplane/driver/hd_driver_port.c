/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps a driver's counters to the counters that all ports have. */
#include "hd_driver_private.h"

#include <string.h>

#define DROP "drop_"
#define OFFSET(field) offsetof(struct hd_port_stats, field)

/* Drivers use the same names for the same things. Frames meant for others reach a healthy port too: they are counted
 * only in the group `driver`. All other dropped frames were malformed. */
static const struct {
	const char *name;
	size_t offset;
} known[] = {
	{"received_packets", OFFSET(rx_packets)},
	{"received_bytes", OFFSET(rx_bytes)},
	{"receive_calls", OFFSET(rx_calls)},
	{"receive_overflow", OFFSET(rx_missed)},
	{"truncated", OFFSET(rx_errors)},
	{"sent_packets", OFFSET(tx_packets)},
	{"sent_bytes", OFFSET(tx_bytes)},
	{"send_calls", OFFSET(tx_calls)},
	{"send_errors", OFFSET(tx_errors)},
	{"send_too_long", OFFSET(tx_errors)},
	{"send_no_route", OFFSET(tx_errors)},
	{"send_unresolved", OFFSET(tx_errors)},
	{"send_strangers", OFFSET(tx_errors)},
	{"no_buffer", OFFSET(tx_errors)},
	{"drop_strangers", OFFSET(tx_errors)},
};

static const char *const foreign[]
	= {"other_mac", "ethertype", "other_ip", "protocol", "udp_port", "icmp_type"};

static bool is_foreign(const char *reason) {
	for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
		if (strcmp(reason, foreign[i]) == 0)
			return true;
	return false;
}

static void take(const struct hd_driver_counter *counter, struct hd_port_stats *port) {
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (strcmp(counter->name, known[i].name) == 0) {
			*(uint64_t *)((char *)port + known[i].offset) += counter->value;
			return;
		}
	if (strncmp(counter->name, DROP, sizeof DROP - 1) == 0
	    && !is_foreign(counter->name + sizeof DROP - 1))
		port->rx_errors += counter->value;
}

void hd_driver_port_stats(
	const struct hd_driver_counter *counters,
	size_t count,
	struct hd_port_stats *port
) {
	*port = (struct hd_port_stats){0};
	for (size_t i = 0; i < count; i++)
		take(&counters[i], port);
}
