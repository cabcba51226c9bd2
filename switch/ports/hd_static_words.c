/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsing values of a switch's file, and reporting invalid ones. */
#include "hd_static_private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int static_refuse(const struct static_words *w, const char *format, ...) {
	va_list args;

	va_start(args, format);
	(void)vsnprintf(w->error, w->bytes, format, args);
	va_end(args);
	return -EINVAL;
}

int hd_static_mac(const char *text, uint8_t mac[6]) {
	uint8_t read[6];

	for (int i = 0; i < 6; i++) {
		char *end;
		unsigned long byte;

		if (strspn(text, "0123456789abcdefABCDEF") != 2)
			return -EINVAL;
		byte = strtoul(text, &end, 16);
		if (end != text + 2 || *end != (i < 5 ? ':' : '\0'))
			return -EINVAL;
		read[i] = (uint8_t)byte;
		text = end + 1;
	}
	memcpy(mac, read, sizeof read);
	return 0;
}

int static_ipv4(const char *text, uint32_t *ipv4) {
	struct in_addr parsed;

	if (inet_pton(AF_INET, text, &parsed) != 1)
		return -EINVAL;
	*ipv4 = ntohl(parsed.s_addr);
	return 0;
}

bool static_fits(json_int_t value, json_int_t most) {
	return value >= 0 && value <= most;
}
