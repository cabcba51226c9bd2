/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_driver.h"
#include "hd_limits.h"
#include "hd_option.h"
#include "hd_udp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct hd_option hd_driver_option_table[] = {
	HD_OPTION_TEXT(
		"driver",
		"udp|dpdk",
		struct hd_driver_options,
		driver,
		"a kernel socket, or an ethdev port of DPDK's (udp)"
	),
	HD_OPTION_TEXT(
		"port",
		"DEVARGS",
		struct hd_driver_options,
		port,
		"dpdk: the port, as EAL writes it: net_af_packet0,iface=eth0"
	),
	HD_OPTION_TEXT(
		"address",
		"ADDR/BITS",
		struct hd_driver_options,
		address,
		"dpdk: our address on it, which the kernel must not have"
	),
	HD_OPTION_TEXT(
		"gateway",
		"ADDR",
		struct hd_driver_options,
		gateway,
		"dpdk: for addresses beyond it (none)"
	),
	HD_OPTION_TEXT(
		"eal",
		"'ARGS'",
		struct hd_driver_options,
		eal,
		"dpdk: further arguments for EAL"
	),
	HD_OPTION_FLAG(
		"busy-poll",
		struct hd_driver_options,
		busy_poll,
		"dpdk: never sleep: a whole core for some microseconds"
	),
	HD_OPTION_END,
};

bool hd_driver_was_chosen(const struct hd_driver_options *options) {
	return options->driver && strcmp(options->driver, "udp") != 0;
}

static const char *from_environment(const char *name) {
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

void hd_driver_options_from_environment(struct hd_driver_options *options) {
	*options = (struct hd_driver_options){
		.driver = from_environment("HEDDLE_DRIVER"),
		.eal = from_environment("HEDDLE_EAL"),
		.port = from_environment("HEDDLE_PORT"),
		.address = from_environment("HEDDLE_ADDRESS"),
		.gateway = from_environment("HEDDLE_GATEWAY"),
		.busy_poll = from_environment("HEDDLE_BUSY_POLL") != NULL,
	};
}

int hd_driver_resolve(const char *text, struct hd_addr *addr) {
	return hd_udp_resolve(text, addr);
}

int hd_driver_resolve_own(const char *text, struct hd_addr *addr) {
	size_t length = strlen(text);
	char host[HD_TEXT_BYTES_MAX];
	int code;

	if (length < 3 || length >= sizeof host || strcmp(text + length - 2, ":0") != 0)
		return hd_udp_resolve(text, addr);
	memcpy(host, text, length - 2);
	host[length - 2] = '\0';
	if (strchr(host, ':'))
		return -EINVAL;
	code = hd_udp_resolve(host, addr);
	if (code < 0)
		return code;
	addr->port = 0;
	return 0;
}

const char *hd_driver_resolve_error(int code) {
	return hd_udp_resolve_error(code);
}

void hd_driver_print_addr(struct hd_addr addr, char text[HD_ADDR_TEXT_BYTES]) {
	(void)snprintf(
		text,
		HD_ADDR_TEXT_BYTES,
		"%u.%u.%u.%u:%u",
		addr.ipv4 >> 24,
		addr.ipv4 >> 16 & 255,
		addr.ipv4 >> 8 & 255,
		addr.ipv4 & 255,
		addr.port
	);
}
