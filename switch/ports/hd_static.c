/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_static.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIMULATE_UNIT (1 << 24)

/* Where errors go. */
struct words {
	char *error;
	size_t bytes;
};

__attribute__((format(printf, 2, 3))) static int
refuse(const struct words *w, const char *format, ...) {
	va_list args;

	va_start(args, format);
	(void)vsnprintf(w->error, w->bytes, format, args);
	va_end(args);
	return -EINVAL;
}

/* --- values -------------------------------------------------------------------------------- */

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

static int read_ipv4(const char *text, uint32_t *ipv4) {
	struct in_addr parsed;

	if (inet_pton(AF_INET, text, &parsed) != 1)
		return -EINVAL;
	*ipv4 = ntohl(parsed.s_addr);
	return 0;
}

/* 16 hexadecimal digits, at most: JSON's numbers have not 64 bits everywhere. */
static int read_token(const char *text, uint64_t *token) {
	size_t digits = strspn(text, "0123456789abcdefABCDEF");

	if (digits == 0 || digits > 16 || text[digits] != '\0')
		return -EINVAL;
	*token = strtoull(text, NULL, 16);
	return *token == 0 ? -EINVAL : 0;
}

static bool fits(json_int_t value, json_int_t most) {
	return value >= 0 && value <= most;
}

/* --- stations, routes, loss ---------------------------------------------------------------- */

static int set_mac(const struct hd_switch_executor *x, const json_t *item, const struct words *w) {
	const char *text;
	json_int_t port;
	uint8_t mac[6];

	if (json_unpack((json_t *)item, "{s:s, s:I !}", "mac", &text, "port", &port) < 0)
		return refuse(w, "a mac and a port, and nothing else");
	if (hd_static_mac(text, mac) < 0 || !fits(port, UINT16_MAX))
		return refuse(w, "mac: '%s' (as in 02:00:00:00:00:01), or port", text);
	return x->ops->mac_set(x->self, mac, (uint16_t)port, w->error, w->bytes);
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
	return read_ipv4(address, &route->prefix);
}

static int
set_route(const struct hd_switch_executor *x, const json_t *item, const struct words *w) {
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
		return refuse(w, "a prefix, a port and a mac, and nothing else");
	if (read_prefix(prefix, &route) < 0)
		return refuse(w, "prefix: '%s' (as in 10.0.0.0/8)", prefix);
	if (hd_static_mac(mac, route.mac) < 0 || !fits(port, UINT16_MAX))
		return refuse(w, "mac: '%s' (as in 02:00:00:00:00:01), or port", mac);
	route.port = (uint16_t)port;
	return x->ops->route_set(x->self, &route, w->error, w->bytes);
}

static int simulate(const struct hd_switch_executor *x, const json_t *item, const struct words *w) {
	json_int_t seed;
	double loss;

	if (json_unpack((json_t *)item, "{s:I, s:F !}", "seed", &seed, "loss", &loss) < 0)
		return refuse(w, "a seed and a loss, and nothing else");
	if (seed < 1 || seed > UINT32_MAX || !(loss >= 0 && loss <= 1))
		return refuse(w, "seed (from 1), or loss (0 to 1)");
	return x->ops->simulate(
		x->self, (uint32_t)seed, (uint32_t)(loss * SIMULATE_UNIT), w->error, w->bytes
	);
}

/* --- leases -------------------------------------------------------------------------------- */

/* "worker" of members only. */
static int read_copy(
	const json_t *item,
	json_int_t *worker,
	struct hd_switch_copy *copy,
	const struct words *w
) {
	const char *token, *mac, *ipv4;
	json_int_t port, udp_port;
	json_error_t where;
	int bad = worker ? json_unpack_ex(
			  (json_t *)item,
			  &where,
			  0,
			  "{s:s, s:I, s:I, s:s, s:s, s:I !}",
			  "token",
			  &token,
			  "worker",
			  worker,
			  "port",
			  &port,
			  "mac",
			  &mac,
			  "ipv4",
			  &ipv4,
			  "udp_port",
			  &udp_port
		  ) :
			   json_unpack_ex(
				   (json_t *)item,
				   &where,
				   0,
				   "{s:s, s:I, s:s, s:s, s:I !}",
				   "token",
				   &token,
				   "port",
				   &port,
				   "mac",
				   &mac,
				   "ipv4",
				   &ipv4,
				   "udp_port",
				   &udp_port
			   );

	*copy = (struct hd_switch_copy){0};
	if (bad < 0)
		return refuse(w, "%s", where.text);
	if (read_token(token, &copy->token) < 0)
		return refuse(w, "token: '%s' (up to 16 hexadecimal digits, not 0)", token);
	if (hd_static_mac(mac, copy->mac) < 0 || read_ipv4(ipv4, &copy->ipv4) < 0)
		return refuse(w, "mac: '%s', or ipv4: '%s'", mac, ipv4);
	if (!fits(port, UINT16_MAX) || !fits(udp_port, UINT16_MAX)
	    || (worker && !fits(*worker, UINT16_MAX)))
		return refuse(w, "port, udp_port or worker (at most %d)", UINT16_MAX);
	copy->port = (uint16_t)port;
	copy->udp_port = (uint16_t)udp_port;
	return 0;
}

static int read_members(
	const json_t *list,
	struct hd_switch_lease *lease,
	struct hd_switch_member *members,
	const struct words *w
) {
	size_t count = json_array_size(list);

	if (count == 0 || count > HD_SWITCH_MEMBERS_MAX)
		return refuse(w, "members: 1 to %d", HD_SWITCH_MEMBERS_MAX);
	for (size_t i = 0; i < count; i++) {
		json_int_t worker = 0;
		int code = read_copy(json_array_get(list, i), &worker, &members[i].copy, w);

		if (code < 0)
			return code;
		members[i].token = members[i].copy.token;
		members[i].worker = (uint16_t)worker;
	}
	lease->members = members;
	lease->member_count = (uint32_t)count;
	lease->waits = count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
	return 0;
}

static int read_receivers(
	const json_t *list,
	struct hd_switch_lease *lease,
	struct hd_switch_copy *receivers,
	const struct words *w
) {
	size_t count = json_array_size(list);

	if (count > HD_SWITCH_RECEIVERS_MAX)
		return refuse(w, "receivers: at most %d", HD_SWITCH_RECEIVERS_MAX);
	for (size_t i = 0; i < count; i++) {
		int code = read_copy(json_array_get(list, i), NULL, &receivers[i], w);

		if (code < 0)
			return code;
	}
	lease->receivers = receivers;
	lease->receiver_count = (uint32_t)count;
	return 0;
}

static int read_dtype(const char *text, uint8_t *dtype) {
	if (strcmp(text, "fixed32") == 0)
		*dtype = HD_DTYPE_FIXED32;
	else if (strcmp(text, "fp32") == 0)
		*dtype = HD_DTYPE_FP32;
	else
		return -EINVAL;
	return 0;
}

struct numbers {
	json_int_t id, job, epoch, attempt, shard, count, first_slot, slots;
};

static int
fill(const struct numbers *n,
     const char *dtype,
     struct hd_switch_lease *lease,
     const struct words *w) {
	if (!fits(n->id, UINT16_MAX) || !fits(n->job, UINT32_MAX) || !fits(n->epoch, UINT16_MAX)
	    || !fits(n->attempt, UINT8_MAX) || !fits(n->shard, UINT16_MAX)
	    || !fits(n->count, UINT16_MAX) || !fits(n->first_slot, UINT16_MAX)
	    || !fits(n->slots, UINT16_MAX))
		return refuse(w, "a number is negative, or too great for its field");
	if (read_dtype(dtype, &lease->dtype) < 0)
		return refuse(w, "dtype: '%s' (fixed32 or fp32)", dtype);
	lease->id = (uint16_t)n->id;
	lease->job = (uint32_t)n->job;
	lease->epoch = (uint16_t)n->epoch;
	lease->attempt = (uint8_t)n->attempt;
	lease->shard = (uint16_t)n->shard;
	lease->count = (uint16_t)n->count;
	lease->first_slot = (uint16_t)n->first_slot;
	lease->slot_count = (uint16_t)n->slots;
	return 0;
}

static int
set_lease(const struct hd_switch_executor *x, const json_t *item, const struct words *w) {
	struct hd_switch_member members[HD_SWITCH_MEMBERS_MAX];
	struct hd_switch_copy receivers[HD_SWITCH_RECEIVERS_MAX];
	struct hd_switch_lease lease = {0};
	struct numbers n = {.epoch = 1};
	const char *dtype = "fixed32";
	json_t *member_list, *receiver_list = NULL;
	json_error_t where;
	int code;

	if (json_unpack_ex(
		    (json_t *)item,
		    &where,
		    0,
		    "{s:I, s:I, s?I, s?I, s?I, s?s, s:I, s?I, s:I, s:o, s?o !}",
		    "id",
		    &n.id,
		    "job",
		    &n.job,
		    "epoch",
		    &n.epoch,
		    "attempt",
		    &n.attempt,
		    "shard",
		    &n.shard,
		    "dtype",
		    &dtype,
		    "count",
		    &n.count,
		    "first_slot",
		    &n.first_slot,
		    "slots",
		    &n.slots,
		    "members",
		    &member_list,
		    "receivers",
		    &receiver_list
	    )
	    < 0)
		return refuse(w, "%s", where.text);
	code = fill(&n, dtype, &lease, w);
	if (code == 0)
		code = read_members(member_list, &lease, members, w);
	if (code == 0)
		code = read_receivers(receiver_list, &lease, receivers, w);
	return code == 0 ? x->ops->lease_set(x->self, &lease, w->error, w->bytes) : code;
}

/* --- the file ------------------------------------------------------------------------------ */

static int
set_all(const struct hd_switch_executor *x,
	const char *name,
	const json_t *list,
	int (*set)(const struct hd_switch_executor *x, const json_t *item, const struct words *w),
	const struct words *w) {
	char inner[256];
	const struct words inside = {inner, sizeof inner};

	if (list && !json_is_array(list))
		return refuse(w, "%s: not a list", name);
	for (size_t i = 0; i < json_array_size(list); i++) {
		int code;

		inner[0] = '\0';
		code = set(x, json_array_get(list, i), &inside);
		if (code < 0) {
			(void)refuse(w, "%s %zu: %s", name, i, inner);
			return code;
		}
	}
	return 0;
}

int hd_static_load(
	const char *path,
	const struct hd_switch_executor *executor,
	char *error,
	size_t error_bytes
) {
	const struct words w = {error, error_bytes};
	json_t *macs = NULL, *routes = NULL, *leases = NULL, *loss = NULL;
	json_error_t where;
	json_t *file = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
	int code = 0;

	if (!file)
		return refuse(&w, "line %d: %s", where.line, where.text);
	if (json_unpack_ex(
		    file,
		    &where,
		    0,
		    "{s?o, s?o, s?o, s?o !}",
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
		code = refuse(&w, "%s", where.text);
	if (code == 0)
		code = set_all(executor, "macs", macs, set_mac, &w);
	if (code == 0)
		code = set_all(executor, "routes", routes, set_route, &w);
	if (code == 0)
		code = set_all(executor, "leases", leases, set_lease, &w);
	if (code == 0 && loss)
		code = simulate(executor, loss, &w);
	json_decref(file);
	return code;
}
