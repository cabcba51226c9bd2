/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_limits.h"
#include "hd_udp.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* Digits only, 1..65535. */
static int parse_port(const char *text, uint16_t *port) {
	unsigned value = 0;

	if (*text == '\0')
		return -EINVAL;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -EINVAL;
		value = value * 10 + (unsigned)(*text - '0');
		if (value > UINT16_MAX)
			return -EINVAL;
	}
	if (value == 0)
		return -EINVAL;
	*port = (uint16_t)value;
	return 0;
}

int hd_udp_resolve(const char *text, struct hd_addr *addr) {
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM};
	struct addrinfo *found = NULL;
	const char *colon = strchr(text, ':');
	size_t host_bytes = colon ? (size_t)(colon - text) : strlen(text);
	struct sockaddr_in name;
	uint16_t port = HD_PORT;
	char host[256];

	if (host_bytes == 0 || host_bytes >= sizeof host)
		return -EINVAL;
	if (colon && parse_port(colon + 1, &port) < 0)
		return -EINVAL;
	memcpy(host, text, host_bytes);
	host[host_bytes] = '\0';
	if (getaddrinfo(host, NULL, &hints, &found) != 0 || !found)
		return -EHOSTUNREACH;
	memcpy(&name, found->ai_addr, sizeof name);
	freeaddrinfo(found);
	*addr = (struct hd_addr){.ipv4 = ntohl(name.sin_addr.s_addr), .port = port};
	return 0;
}
