/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dispatch of control messages, the same in every core: a table of routes, one for each kind and the roles that may
 * send it to this core. All messages enter the core here: a message that no route takes is counted and dropped.
 *
 *   static const struct hd_route routes[] = {
 *           {HD_MSG_REQUEST, HD_FROM_WORKER, on_request},
 *           {HD_MSG_REPORT, HD_FROM_WORKER | HD_FROM_AGGREGATOR, on_report},
 *           {HD_MSG_REPORT, HD_FROM_SWITCH, on_switch_report},
 *   };
 */
#ifndef HD_ROUTE_H
#define HD_ROUTE_H

#include "hd_message.h"

/* Handles a message. turn: the core's arguments of the call (itself, now, sink); from: its record of the sender. Both
 * types are the core's own. */
typedef void hd_route_handler(void *turn, void *from, const struct hd_message *message);

struct hd_route {
	uint8_t kind; /* enum hd_message_kind */
	uint32_t from; /* HD_FROM_*: a subset of hd_message_senders(kind) */
	hd_route_handler *handle;
};

enum hd_routed {
	HD_ROUTED,
	HD_ROUTE_NO_KIND, /* no role may send this kind to this core */
	HD_ROUTE_NO_ROLE /* other roles may, this one may not */
};

/* Calls the handler of the first route for the message's kind and the role. O(count). */
enum hd_routed hd_route_message(
	const struct hd_route *routes,
	size_t count,
	uint8_t role,
	void *turn,
	void *from,
	const struct hd_message *message
);

/* True when every route has a handler, names a known kind, and takes it only from roles that may send it at all. For
 * constant tables: cores assert it when they are created. */
bool hd_routes_are_valid(const struct hd_route *routes, size_t count);

#endif
