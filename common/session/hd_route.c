/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_route.h"

enum hd_routed hd_route_message(
	const struct hd_route *routes,
	size_t count,
	uint8_t role,
	void *turn,
	void *from,
	const struct hd_message *message
) {
	enum hd_routed result = HD_ROUTE_NO_KIND;

	for (size_t i = 0; i < count; i++) {
		if (routes[i].kind != message->kind)
			continue;
		if (role < HD_ROLE_COUNT && routes[i].from & HD_FROM(role)) {
			routes[i].handle(turn, from, message);
			return HD_ROUTED;
		}
		result = HD_ROUTE_NO_ROLE;
	}
	return result;
}

bool hd_routes_are_valid(const struct hd_route *routes, size_t count) {
	for (size_t i = 0; i < count; i++)
		if (!routes[i].handle || !routes[i].from
		    || routes[i].from & ~hd_message_senders(routes[i].kind))
			return false;
	return true;
}
