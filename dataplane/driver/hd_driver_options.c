/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_driver.h"
#include "hd_limits.h"
#include "hd_udp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool hd_driver_take_option(struct hd_driver_options *options, int id, const char *value) {
	switch (id) {
	case HD_OPTION_DRIVER:
		options->driver = value;
		return true;
	case HD_OPTION_EAL:
		options->eal = value;
		return true;
	case HD_OPTION_PORT:
		options->port = value;
		return true;
	case HD_OPTION_ADDRESS:
		options->address = value;
		return true;
	case HD_OPTION_GATEWAY:
		options->gateway = value;
		return true;
	case HD_OPTION_BUSY_POLL:
		options->busy_poll = true;
		return true;
	default:
		return false;
	}
}

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

	if (length < 3 || length >= sizeof(host) || strcmp(text + length - 2, ":0") != 0)
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
