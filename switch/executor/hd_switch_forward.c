/* SPDX-License-Identifier: BSD-3-Clause */
/* Ordinary frames: by network address if they are sent to the router, else by Ethernet address. */
#include "hd_bytes.h"
#include "hd_switch_private.h"

#include <errno.h>

#define MAC_KEY (UINT64_C(1) << 48) /* so that no key is 0 */
#define ROUTE_KEY (UINT64_C(1) << 40)
#define MAC_MULTICAST (UINT64_C(1) << 40) /* the first byte's last bit */
#define SET_US ((UINT64_C(1) << 48) - 1) /* of an address that was set: it is never forgotten */

static uint64_t mac_of(const uint8_t *bytes) {
	return (uint64_t)hd_get16(bytes) << 32 | hd_get32(bytes + 2);
}

/* The same by one read: two bytes after the address are readable. */
static inline uint64_t mac_at(const uint8_t *bytes) {
	return hd_get64(bytes) >> 16;
}

static void put_mac(uint8_t *bytes, uint64_t mac) {
	hd_put16(bytes, (uint16_t)(mac >> 32));
	hd_put32(bytes + 2, (uint32_t)mac);
}

static bool is_station(uint64_t mac) {
	return mac != 0 && (mac & MAC_MULTICAST) == 0;
}

int switch_forward_init(struct hd_switch_core *core, const uint64_t secret[2]) {
	int status = hd_switch_table_init(&core->macs, (size_t)2 * HD_SWITCH_MACS_MAX, secret);

	core->router = mac_of(core->self.router_mac);
	if (status < 0)
		return status;
	status = hd_switch_table_init(&core->routes, HD_SWITCH_ROUTES_MAX, secret);
	if (status < 0)
		hd_switch_table_fini(&core->macs);
	return status;
}

void switch_forward_fini(struct hd_switch_core *core) {
	hd_switch_table_fini(&core->macs);
	hd_switch_table_fini(&core->routes);
}

/* --- Ethernet addresses --------------------------------------------------------------------- */

static int check_station(uint64_t mac, uint16_t port, char *error, size_t error_bytes) {
	if (!is_station(mac)) {
		return switch_refuse(
			-EINVAL,
			error,
			error_bytes,
			"mac: %012llx (one station's)",
			(unsigned long long)mac
		);
	}
	if (port >= HD_SWITCH_PORTS_MAX) {
		return switch_refuse(
			-EINVAL,
			error,
			error_bytes,
			"port: %u (0 to %d)",
			port,
			HD_SWITCH_PORTS_MAX - 1
		);
	}
	return 0;
}

int hd_switch_core_mac_set(
	struct hd_switch_core *core,
	const uint8_t mac[6],
	uint16_t port,
	char *error,
	size_t error_bytes
) {
	uint64_t key = mac_of(mac) | MAC_KEY;
	const struct hd_switch_entry *known;
	int status = check_station(mac_of(mac), port, error, error_bytes);

	if (status < 0)
		return status;
	known = hd_switch_table_find(&core->macs, key);
	if (!known || known->value >> 16 != SET_US) {
		if (core->macs_set == HD_SWITCH_MACS_MAX) {
			return switch_refuse(
				-ENOSPC,
				error,
				error_bytes,
				"mac: one more than HD_SWITCH_MACS_MAX (%d)",
				HD_SWITCH_MACS_MAX
			);
		}
		core->macs_set++;
		core->macs_learned -= known != NULL;
	}
	hd_switch_table_put(&core->macs, key, SET_US << 16 | port);
	return 0;
}

static void forget(struct hd_switch_core *core, struct hd_switch_entry *entry) {
	if (entry->value >> 16 == SET_US)
		core->macs_set--;
	else
		core->macs_learned--;
	hd_switch_table_remove(&core->macs, entry);
}

int hd_switch_core_mac_clear(struct hd_switch_core *core, const uint8_t mac[6]) {
	struct hd_switch_entry *entry = hd_switch_table_find(&core->macs, mac_of(mac) | MAC_KEY);

	if (!entry)
		return -ENOENT;
	forget(core, entry);
	return 0;
}

/* Forgets sources not heard since `since`. Also examines the entry that moves to a removed one's place. */
static void forget_before(struct hd_switch_core *core, uint64_t since) {
	for (uint64_t i = 0; core->macs_learned > 0 && i <= core->macs.mask;) {
		struct hd_switch_entry *entry = &core->macs.entries[i];

		if (entry->key != 0 && entry->value >> 16 < since && entry->value >> 16 != SET_US)
			forget(core, entry);
		else
			i++;
	}
}

void hd_switch_core_learn(struct hd_switch_core *core, hd_ns age) {
	core->age_us = age / HD_US + (age % HD_US != 0);
	if (age == 0)
		forget_before(core, SET_US);
}

void hd_switch_core_time(struct hd_switch_core *core, hd_ns now) {
	core->now_us = now / HD_US;
	if (core->age_us != 0 && core->now_us > core->age_us)
		forget_before(core, core->now_us - core->age_us);
}

size_t
hd_switch_core_macs(const struct hd_switch_core *core, struct hd_switch_mac *macs, size_t count) {
	size_t found = 0;

	for (uint64_t i = 0; i <= core->macs.mask; i++) {
		const struct hd_switch_entry *entry = &core->macs.entries[i];

		if (entry->key == 0)
			continue;
		if (found < count) {
			put_mac(macs[found].mac, entry->key & (MAC_KEY - 1));
			macs[found].port = (uint16_t)entry->value;
			macs[found].learned = entry->value >> 16 != SET_US;
		}
		found++;
	}
	return found;
}

static void learn(struct hd_switch_core *core, uint64_t mac, uint16_t port) {
	uint64_t value = core->now_us << 16 | port;
	struct hd_switch_entry *entry;

	if (!is_station(mac))
		return;
	entry = hd_switch_table_find(&core->macs, mac | MAC_KEY);
	if (!entry && core->macs_learned < HD_SWITCH_MACS_MAX) {
		hd_switch_table_put(&core->macs, mac | MAC_KEY, value);
		core->macs_learned++;
	} else if (entry && entry->value >> 16 != SET_US && entry->value != value) {
		entry->value = value;
	}
}

/* --- routes --------------------------------------------------------------------------------- */

static uint32_t mask_of(unsigned bits) {
	return bits == 0 ? 0 : UINT32_MAX << (32 - bits);
}

static uint64_t route_key(uint32_t prefix, unsigned bits) {
	return ROUTE_KEY | (uint64_t)bits << 32 | prefix;
}

int hd_switch_core_route_set(
	struct hd_switch_core *core,
	const struct hd_switch_route *route,
	char *error,
	size_t error_bytes
) {
	uint64_t mac = mac_of(route->mac);
	uint64_t key = route_key(route->prefix, route->bits);
	int status = check_station(mac, route->port, error, error_bytes);

	if (status < 0)
		return status;
	if (route->bits > 32 || (route->prefix & ~mask_of(route->bits)) != 0) {
		return switch_refuse(
			-EINVAL,
			error,
			error_bytes,
			"prefix: %08x/%u (0 to 32 bits, the others 0)",
			route->prefix,
			route->bits
		);
	}
	if (!hd_switch_table_find(&core->routes, key)) {
		if (core->route_count == HD_SWITCH_ROUTES_MAX) {
			return switch_refuse(
				-ENOSPC,
				error,
				error_bytes,
				"prefix: one more than HD_SWITCH_ROUTES_MAX (%d)",
				HD_SWITCH_ROUTES_MAX
			);
		}
		core->route_count++;
		core->route_lengths[route->bits]++;
		core->route_bits |= UINT64_C(1) << route->bits;
	}
	hd_switch_table_put(&core->routes, key, mac << 16 | route->port);
	return 0;
}

int hd_switch_core_route_clear(struct hd_switch_core *core, uint32_t prefix, uint8_t bits) {
	struct hd_switch_entry *entry
		= bits > 32 ? NULL : hd_switch_table_find(&core->routes, route_key(prefix, bits));

	if (!entry)
		return -ENOENT;
	hd_switch_table_remove(&core->routes, entry);
	core->route_count--;
	if (--core->route_lengths[bits] == 0)
		core->route_bits &= ~(UINT64_C(1) << bits);
	return 0;
}

/* The route with the longest matching prefix; NULL: none. */
static const struct hd_switch_entry *route_to(const struct hd_switch_core *core, uint32_t ipv4) {
	for (uint64_t left = core->route_bits; left != 0;) {
		unsigned bits = 63 - (unsigned)__builtin_clzll(left);
		const struct hd_switch_entry *entry = hd_switch_table_find(
			&core->routes, route_key(ipv4 & mask_of(bits), bits)
		);

		if (entry)
			return entry;
		left &= ~(UINT64_C(1) << bits);
	}
	return NULL;
}

/* --- the path ------------------------------------------------------------------------------- */

static void
give(struct hd_switch_core *core,
     struct hd_switch_packet *packet,
     enum hd_switch_verdict verdict,
     enum hd_switch_counter counter) {
	packet->verdict = (uint8_t)verdict;
	core->counters[counter]++;
}

/* Decrements the time to live and updates the header's checksum: RFC 1624, equation 3. */
static void age_packet(uint8_t *data) {
	uint32_t sum = (uint16_t)~hd_get16(data + AT_CHECKSUM) + UINT32_C(0xfeff);

	sum = (sum & 0xffff) + (sum >> 16);
	hd_put16(data + AT_CHECKSUM, (uint16_t)~sum);
	data[AT_TTL]--;
}

static void route(struct hd_switch_core *core, struct hd_switch_packet *packet) {
	uint8_t *data = packet->data;
	const struct hd_switch_entry *entry;

	if (data[AT_TTL] <= 1) {
		give(core, packet, HD_SWITCH_DROP, HD_SWITCH_COUNTER_drop_ttl);
		return;
	}
	entry = route_to(core, hd_get32(data + AT_DESTINATION));
	if (!entry) {
		give(core, packet, HD_SWITCH_DROP, HD_SWITCH_COUNTER_drop_no_route);
		return;
	}
	put_mac(data, entry->value >> 16);
	put_mac(data + 6, core->router);
	age_packet(data);
	packet->port = (uint16_t)entry->value;
	give(core, packet, HD_SWITCH_FORWARD, HD_SWITCH_COUNTER_routed);
}

static bool is_routed(const struct hd_switch_packet *packet) {
	const uint8_t *data = packet->data;

	return packet->bytes >= SWITCH_ETHERNET_BYTES + SWITCH_IPV4_BYTES
		&& hd_get16(data + AT_ETHERTYPE) == SWITCH_ETHERTYPE_IPV4
		&& data[AT_IPV4] >> 4 == 4;
}

/* The port for frames to the station, or SWITCH_NO_PORT. */
static inline uint32_t port_to(const struct hd_switch_core *core, uint64_t mac) {
	const struct hd_switch_entry *entry;

	if ((mac & MAC_MULTICAST) != 0)
		return SWITCH_NO_PORT;
	entry = hd_switch_table_find(&core->macs, mac | MAC_KEY);
	return !entry ? SWITCH_NO_PORT : (uint16_t)entry->value;
}

/* Notes that frames with the same first bytes from the same port leave where this one does. */
static void
remember(struct switch_found *found, const struct hd_switch_packet *packet, uint32_t in) {
	if (packet->bytes < SWITCH_LIKE_BYTES)
		return;
	found->like[0] = switch_head(packet->data, 0);
	found->like[1] = switch_head(packet->data, 1);
	found->like_in = in;
	found->like_out = packet->port;
}

void switch_forward(
	struct hd_switch_core *core,
	struct hd_switch_packet *packet,
	struct switch_found *found
) {
	uint64_t target;
	uint32_t in = packet->port;

	found->like_in = SWITCH_NO_PORT;
	if (packet->bytes < SWITCH_ETHERNET_BYTES) {
		give(core, packet, HD_SWITCH_DROP, HD_SWITCH_COUNTER_drop_no_route);
		return;
	}
	target = mac_at(packet->data);

	if (core->age_us != 0) {
		uint64_t source = mac_at(packet->data + 6);

		if (source != found->source || packet->port != found->in) {
			learn(core, source, packet->port);
			found->source = source;
			found->target = SWITCH_NO_MAC;
			found->in = packet->port;
		}
	}
	if (target == core->router && core->router != 0) {
		if (is_routed(packet)) {
			route(core, packet);
			return;
		}
		in = SWITCH_NO_PORT;
	}
	if (target != found->target) {
		found->target = target;
		found->out = port_to(core, target);
	}
	if (found->out == SWITCH_NO_PORT) {
		give(core, packet, HD_SWITCH_FLOOD, HD_SWITCH_COUNTER_flooded);
	} else if (found->out == packet->port) {
		give(core, packet, HD_SWITCH_DROP, HD_SWITCH_COUNTER_drop_no_route);
	} else {
		packet->port = (uint16_t)found->out;
		give(core, packet, HD_SWITCH_FORWARD, HD_SWITCH_COUNTER_forwarded);
		remember(found, packet, in);
	}
}
