/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_static_private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIMULATE_UNIT (1 << 24)

/* --- stations, routes, loss ---------------------------------------------------------------- */

static int
set_mac(const struct static_target *t, const json_t *item, const struct static_words *w) {
	const struct hd_switch_executor *x = t->executor;
	const char *text;
	json_int_t port;
	uint8_t mac[6];

	if (json_unpack((json_t *)item, "{s:s, s:I !}", "mac", &text, "port", &port) < 0)
		return static_refuse(w, "a mac and a port, and nothing else");
	if (hd_static_mac(text, mac) < 0 || !static_fits(port, UINT16_MAX))
		return static_refuse(w, "mac: '%s' (as in 02:00:00:00:00:01), or port", text);
	return x->ops->mac_set(x->self, mac, (uint16_t)port, w->error, w->bytes);
}

/* Frames to it leave by this port, and so do copies of leases to its address. */
static int
set_station(const struct static_target *t, const json_t *item, const struct static_words *w) {
	const struct hd_switch_executor *x = t->executor;
	struct hd_switch_station station;
	const char *address, *mac;
	json_int_t port;
	uint32_t ipv4;
	int code;

	if (json_unpack(
		    (json_t *)item,
		    "{s:s, s:s, s:I !}",
		    "ipv4",
		    &address,
		    "mac",
		    &mac,
		    "port",
		    &port
	    )
	    < 0)
		return static_refuse(w, "an ipv4, a mac and a port, and nothing else");
	if (static_ipv4(address, &ipv4) < 0)
		return static_refuse(w, "ipv4: '%s' (as in 10.0.0.1)", address);
	if (hd_static_mac(mac, station.mac) < 0 || !static_fits(port, UINT16_MAX))
		return static_refuse(w, "mac: '%s' (as in 02:00:00:00:00:01), or port", mac);
	station.port = (uint16_t)port;
	code = x->ops->mac_set(x->self, station.mac, station.port, w->error, w->bytes);
	if (code == 0 && hd_switch_stations_set(t->stations, ipv4, &station) < 0) {
		(void)static_refuse(w, "ipv4: '%s': there is no room for more", address);
		code = -ENOSPC;
	}
	return code;
}

/* ADDR/BITS */
static int read_prefix(const char *text, struct hd_switch_route *route) {
	char address[INET_ADDRSTRLEN];
	const char *slash = strchr(text, '/');
	unsigned long bits;
	char *end;

	if (!slash || (size_t)(slash - text) >= sizeof address || slash[1] < '0' || slash[1] > '9')
		return -EINVAL;
	memcpy(address, text, (size_t)(slash - text));
	address[slash - text] = '\0';
	bits = strtoul(slash + 1, &end, 10);
	if (*end != '\0' || bits > 32)
		return -EINVAL;
	route->bits = (uint8_t)bits;
	return static_ipv4(address, &route->prefix);
}

static int
set_route(const struct static_target *t, const json_t *item, const struct static_words *w) {
	const struct hd_switch_executor *x = t->executor;
	struct hd_switch_route route;
	const char *prefix, *mac;
	json_int_t port;

	if (json_unpack(
		    (json_t *)item,
		    "{s:s, s:I, s:s !}",
		    "prefix",
		    &prefix,
		    "port",
		    &port,
		    "mac",
		    &mac
	    )
	    < 0)
		return static_refuse(w, "a prefix, a port and a mac, and nothing else");
	if (read_prefix(prefix, &route) < 0)
		return static_refuse(w, "prefix: '%s' (as in 10.0.0.0/8)", prefix);
	if (hd_static_mac(mac, route.mac) < 0 || !static_fits(port, UINT16_MAX))
		return static_refuse(w, "mac: '%s' (as in 02:00:00:00:00:01), or port", mac);
	route.port = (uint16_t)port;
	return x->ops->route_set(x->self, &route, w->error, w->bytes);
}

static int
simulate(const struct hd_switch_executor *x, const json_t *item, const struct static_words *w) {
	json_int_t seed;
	double loss;

	if (json_unpack((json_t *)item, "{s:I, s:F !}", "seed", &seed, "loss", &loss) < 0)
		return static_refuse(w, "a seed and a loss, and nothing else");
	if (seed < 1 || seed > UINT32_MAX || !(loss >= 0 && loss <= 1))
		return static_refuse(w, "seed (from 1), or loss (0 to 1)");
	return x->ops->simulate(
		x->self, (uint32_t)seed, (uint32_t)(loss * SIMULATE_UNIT), w->error, w->bytes
	);
}

/* --- the file ------------------------------------------------------------------------------ */

static int
set_all(const struct static_target *t,
	const char *name,
	const json_t *list,
	int (*set)(const struct static_target *t, const json_t *item, const struct static_words *w),
	const struct static_words *w) {
	char inner[256];
	const struct static_words inside = {inner, sizeof inner};

	if (list && !json_is_array(list))
		return static_refuse(w, "%s: not a list", name);
	for (size_t i = 0; i < json_array_size(list); i++) {
		int code;

		inner[0] = '\0';
		code = set(t, json_array_get(list, i), &inside);
		if (code < 0) {
			(void)static_refuse(w, "%s %zu: %s", name, i, inner);
			return code;
		}
	}
	return 0;
}

int hd_static_load(
	const char *path,
	const struct hd_switch_executor *executor,
	struct hd_switch_stations *stations,
	char *error,
	size_t error_bytes
) {
	const struct static_target target = {executor, stations};
	const struct static_words w = {error, error_bytes};
	json_t *places = NULL, *macs = NULL, *routes = NULL, *leases = NULL, *loss = NULL;
	json_error_t where;
	json_t *file = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
	int code = 0;

	if (!file)
		return static_refuse(&w, "line %d: %s", where.line, where.text);
	if (json_unpack_ex(
		    file,
		    &where,
		    0,
		    "{s?o, s?o, s?o, s?o, s?o !}",
		    "stations",
		    &places,
		    "macs",
		    &macs,
		    "routes",
		    &routes,
		    "leases",
		    &leases,
		    "simulate",
		    &loss
	    )
	    < 0)
		code = static_refuse(&w, "%s", where.text);
	if (code == 0 && places)
		hd_switch_stations_close(stations);
	if (code == 0)
		code = set_all(&target, "stations", places, set_station, &w);
	if (code == 0)
		code = set_all(&target, "macs", macs, set_mac, &w);
	if (code == 0)
		code = set_all(&target, "routes", routes, set_route, &w);
	if (code == 0)
		code = set_all(&target, "leases", leases, static_set_lease, &w);
	if (code == 0 && loss)
		code = simulate(executor, loss, &w);
	json_decref(file);
	return code;
}
