/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_bytes.h"
#include "hd_switch_stations.h"

#include <errno.h>
#include <stdlib.h>

#define CAPACITY_MAX 65535u
#define ETHERNET_BYTES 14
#define ETHERTYPE_ARP 0x0806
#define ARP_REQUEST 1
#define ARP_REPLY 2

/* Offsets of ARP for IPv4 over Ethernet, from the frame's first byte on. */
enum arp_offset {
	AT_SOURCE = 6,
	AT_TYPE = 12,
	AT_FORM = 14, /* hardware, protocol, lengths */
	AT_OPERATION = 20,
	AT_SENDER_MAC = 22,
	AT_SENDER = 28,
	AT_TARGET = 38
};

static const uint8_t arp_form[6] = {0, 1, 0x08, 0x00, 6, 4};

/* Index 0 of the entries is unused. */
struct entry {
	uint32_t ipv4;
	uint32_t next; /* of the same bucket; 0: the last */
	struct hd_switch_station station;
	bool used, known, fixed;
	hd_ns heard_at, asked_at;
};

struct hd_switch_stations {
	uint32_t capacity, mask, count;
	uint32_t turn; /* the entry to replace next */
	bool closed;
	uint32_t *buckets;
	struct entry *entries;
};

int hd_switch_stations_create(uint32_t capacity, struct hd_switch_stations **stations) {
	struct hd_switch_stations *s;
	uint32_t buckets = 16;

	if (capacity == 0 || capacity > CAPACITY_MAX)
		return -EINVAL;
	while (buckets < capacity)
		buckets *= 2;
	s = calloc(1, sizeof *s);
	if (!s)
		return -ENOMEM;
	s->buckets = calloc(buckets, sizeof *s->buckets);
	s->entries = calloc(capacity + 1u, sizeof *s->entries);
	if (!s->buckets || !s->entries) {
		hd_switch_stations_destroy(s);
		return -ENOMEM;
	}
	s->capacity = capacity;
	s->mask = buckets - 1;
	*stations = s;
	return 0;
}

void hd_switch_stations_destroy(struct hd_switch_stations *s) {
	if (!s)
		return;
	free(s->buckets);
	free(s->entries);
	free(s);
}

/* Fibonacci hashing: neighbours' addresses differ in their last bits. */
static uint32_t *bucket_of(const struct hd_switch_stations *s, uint32_t ipv4) {
	return &s->buckets[((ipv4 * UINT32_C(2654435769)) >> 8) & s->mask];
}

static struct entry *find(const struct hd_switch_stations *s, uint32_t ipv4) {
	for (uint32_t i = *bucket_of(s, ipv4); i != 0; i = s->entries[i].next)
		if (s->entries[i].ipv4 == ipv4)
			return &s->entries[i];
	return NULL;
}

static void unlink_entry(struct hd_switch_stations *s, uint32_t index) {
	uint32_t *at = bucket_of(s, s->entries[index].ipv4);

	while (*at != index)
		at = &s->entries[*at].next;
	*at = s->entries[index].next;
	s->count--;
}

/* Makes room for one more: replaces entries in turn, except set ones. NULL: all are set. */
static struct entry *add(struct hd_switch_stations *s, uint32_t ipv4) {
	uint32_t *bucket = bucket_of(s, ipv4), tried = 0;

	do {
		if (tried++ == s->capacity)
			return NULL;
		s->turn = s->turn % s->capacity + 1;
	} while (s->entries[s->turn].fixed);
	if (s->entries[s->turn].used)
		unlink_entry(s, s->turn);
	s->entries[s->turn] = (struct entry){.ipv4 = ipv4, .next = *bucket, .used = true};
	*bucket = s->turn;
	s->count++;
	return &s->entries[s->turn];
}

static bool same(const struct hd_switch_station *a, const struct hd_switch_station *b) {
	return a->port == b->port && memcmp(a->mac, b->mac, sizeof a->mac) == 0;
}

/* Whether it is a host's address: a request of RFC 5227 has none. */
static bool is_host(uint32_t ipv4) {
	return ipv4 >> 24 != 0 && ipv4 >> 24 != 127 && ipv4 < UINT32_C(0xe0000000);
}

static bool is_arp(const uint8_t *frame, size_t bytes) {
	uint16_t operation;

	if (bytes < HD_STATIONS_ARP_BYTES || hd_get16(frame + AT_TYPE) != ETHERTYPE_ARP
	    || memcmp(frame + AT_FORM, arp_form, sizeof arp_form) != 0)
		return false;
	operation = hd_get16(frame + AT_OPERATION);
	return operation == ARP_REQUEST || operation == ARP_REPLY;
}

bool hd_switch_stations_learn(
	struct hd_switch_stations *s,
	hd_ns now,
	uint16_t port,
	const uint8_t *frame,
	size_t bytes
) {
	struct hd_switch_station station = {.port = port};
	struct entry *entry;
	uint32_t ipv4;

	if (s->closed || !is_arp(frame, bytes)
	    || memcmp(frame + AT_SOURCE, frame + AT_SENDER_MAC, 6) != 0 || (frame[AT_SOURCE] & 1))
		return false;
	ipv4 = hd_get32(frame + AT_SENDER);
	if (!is_host(ipv4))
		return false;
	memcpy(station.mac, frame + AT_SENDER_MAC, sizeof station.mac);
	entry = find(s, ipv4);
	if (entry && entry->known && !same(&entry->station, &station)
	    && (entry->fixed || now < hd_ns_add(entry->heard_at, HD_STATIONS_HOLD_NS)))
		return false;
	if (!entry)
		entry = add(s, ipv4);
	if (!entry || entry->fixed)
		return false;
	entry->station = station;
	entry->known = true;
	entry->heard_at = now;
	return true;
}

int hd_switch_stations_set(
	struct hd_switch_stations *s,
	uint32_t ipv4,
	const struct hd_switch_station *station
) {
	struct entry *entry = find(s, ipv4);

	if (!entry)
		entry = add(s, ipv4);
	if (!entry)
		return -ENOSPC;
	entry->station = *station;
	entry->known = entry->fixed = true;
	return 0;
}

/* Forgets addresses learned before. */
void hd_switch_stations_close(struct hd_switch_stations *s) {
	s->closed = true;
	for (uint32_t i = 1; i <= s->capacity; i++)
		s->entries[i].known &= s->entries[i].fixed;
}

bool hd_switch_stations_are_closed(const struct hd_switch_stations *s) {
	return s->closed;
}

bool hd_switch_stations_find(
	const struct hd_switch_stations *s,
	uint32_t ipv4,
	struct hd_switch_station *station
) {
	const struct entry *entry = find(s, ipv4);

	if (!entry || !entry->known)
		return false;
	*station = entry->station;
	return true;
}

bool hd_switch_stations_ask(struct hd_switch_stations *s, hd_ns now, uint32_t ipv4) {
	struct entry *entry = find(s, ipv4);

	if (s->closed)
		return false;
	if (entry && entry->asked_at != 0 && now < hd_ns_add(entry->asked_at, HD_STATIONS_ASK_NS))
		return false;
	if (!entry)
		entry = add(s, ipv4);
	if (entry)
		entry->asked_at = now;
	return entry;
}

void hd_switch_stations_question(const uint8_t mac[6], uint32_t ipv4, uint8_t *frame) {
	memset(frame, 0, HD_STATIONS_ARP_BYTES);
	memset(frame, 0xff, 6);
	memcpy(frame + AT_SOURCE, mac, 6);
	hd_put16(frame + AT_TYPE, ETHERTYPE_ARP);
	memcpy(frame + AT_FORM, arp_form, sizeof arp_form);
	hd_put16(frame + AT_OPERATION, ARP_REQUEST);
	memcpy(frame + AT_SENDER_MAC, mac, 6);
	hd_put32(frame + AT_TARGET, ipv4);
}

uint32_t hd_switch_stations_count(const struct hd_switch_stations *s) {
	return s->count;
}
