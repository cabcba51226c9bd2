/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_switch_core.h"
#include "vectors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void write_hex(FILE *file, const uint8_t *data, size_t bytes) {
	for (size_t i = 0; i < bytes; i++)
		(void)fprintf(file, "%02x", data[i]);
}

static void write_mac(FILE *file, const char *name, const uint8_t mac[6]) {
	(void)fprintf(file, "\"%s\":\"", name);
	write_hex(file, mac, 6);
	(void)fputc('"', file);
}

static void write_ipv4(FILE *file, const char *name, uint32_t ipv4) {
	(void)fprintf(
		file,
		"\"%s\":\"%u.%u.%u.%u\"",
		name,
		ipv4 >> 24,
		ipv4 >> 16 & 255,
		ipv4 >> 8 & 255,
		ipv4 & 255
	);
}

void record_begin(
	struct recorder *recorder,
	FILE *file,
	const struct golden_executor *executor,
	const struct golden_config *config
) {
	recorder->file = file;
	recorder->executor = executor;
	recorder->self = executor->create(config);
	recorder->config = *config;
	(void)fprintf(file, "{\"config\":{");
	write_ipv4(file, "service", config->service);
	(void)fputc(',', file);
	write_mac(file, "mac", config->mac);
	(void)fputc(',', file);
	write_mac(file, "router_mac", config->router_mac);
	(void)fprintf(file, ",\"ports\":%u}}\n", config->ports);
}

void record_end(struct recorder *recorder) {
	recorder->executor->destroy(recorder->self);
}

static void must(int status, const char *what) {
	if (status < 0) {
		(void)fprintf(stderr, "generate: %s was refused\n", what);
		exit(1);
	}
}

void record_case(struct recorder *recorder, const char *name, const char *shows) {
	(void)fprintf(recorder->file, "{\"case\":\"%s\",\"shows\":\"%s\"}\n", name, shows);
}

void record_mac(struct recorder *recorder, const uint8_t mac[6], uint16_t port) {
	must(recorder->executor->mac_set(recorder->self, mac, port), "mac");
	(void)fprintf(recorder->file, "{\"mac\":{");
	write_mac(recorder->file, "mac", mac);
	(void)fprintf(recorder->file, ",\"port\":%u}}\n", port);
}

void record_route(struct recorder *recorder, const struct golden_route *route) {
	must(recorder->executor->route_set(recorder->self, route), "route");
	(void)fprintf(recorder->file, "{\"route\":{");
	write_ipv4(recorder->file, "prefix", route->prefix);
	(void)fprintf(recorder->file, ",\"bits\":%u,\"port\":%u,", route->bits, route->port);
	write_mac(recorder->file, "mac", route->mac);
	(void)fprintf(recorder->file, "}}\n");
}

/* Without braces. */
static void write_copy(FILE *file, const struct hd_switch_copy *copy) {
	(void)fprintf(file, "\"port\":%u,", copy->port);
	write_mac(file, "mac", copy->mac);
	(void)fputc(',', file);
	write_ipv4(file, "ipv4", copy->ipv4);
	(void)fprintf(
		file, ",\"udp_port\":%u,\"token\":\"%016" PRIx64 "\"", copy->udp_port, copy->token
	);
}

static void write_lease(FILE *file, const struct hd_switch_lease *lease) {
	(void)fprintf(
		file,
		"{\"lease\":{\"id\":%u,\"job\":%u,\"epoch\":%u,\"attempt\":%u,\"shard\":%u,"
		"\"dtype\":%u,\"count\":%u,",
		lease->id,
		lease->job,
		lease->epoch,
		lease->attempt,
		lease->shard,
		lease->dtype,
		lease->count
	);
	(void)fprintf(
		file,
		"\"first_slot\":%u,\"slot_count\":%u,\"waits\":\"%016" PRIx64 "\",\"members\":[",
		lease->first_slot,
		lease->slot_count,
		lease->waits
	);
	for (uint32_t i = 0; i < lease->member_count; i++) {
		(void)fprintf(
			file,
			"%s{\"token\":\"%016" PRIx64 "\",\"worker\":%u,\"copy\":{",
			i == 0 ? "" : ",",
			lease->members[i].token,
			lease->members[i].worker
		);
		write_copy(file, &lease->members[i].copy);
		(void)fprintf(file, "}}");
	}
	(void)fprintf(file, "],\"receivers\":[");
	for (uint32_t i = 0; i < lease->receiver_count; i++) {
		(void)fprintf(file, "%s{", i == 0 ? "" : ",");
		write_copy(file, &lease->receivers[i]);
		(void)fputc('}', file);
	}
	(void)fprintf(file, "]}}\n");
}

void record_lease_set(struct recorder *recorder, const struct hd_switch_lease *lease) {
	must(recorder->executor->lease_set(recorder->self, lease), "lease");
	write_lease(recorder->file, lease);
}

void record_lease_waits(struct recorder *recorder, uint16_t id, uint64_t waits) {
	must(recorder->executor->lease_waits(recorder->self, id, waits), "waits");
	(void)fprintf(
		recorder->file, "{\"waits\":{\"id\":%u,\"waits\":\"%016" PRIx64 "\"}}\n", id, waits
	);
}

void record_lease_end(struct recorder *recorder, uint16_t id) {
	must(recorder->executor->lease_end(recorder->self, id), "end");
	(void)fprintf(recorder->file, "{\"end\":{\"id\":%u}}\n", id);
}

void record_simulate(struct recorder *recorder, uint32_t seed, uint32_t threshold) {
	must(recorder->executor->simulate(recorder->self, seed, threshold), "simulate");
	(void)fprintf(
		recorder->file, "{\"simulate\":{\"seed\":%u,\"threshold\":%u}}\n", seed, threshold
	);
}

void record_frame(struct recorder *recorder, uint16_t port, const uint8_t *frame, uint32_t bytes) {
	struct golden_outs *outs = &recorder->outs;

	recorder->executor->frame(recorder->self, port, frame, bytes, outs);
	(void)fprintf(recorder->file, "{\"in\":[%u,\"", port);
	write_hex(recorder->file, frame, bytes);
	(void)fprintf(recorder->file, "\"],\"out\":[");
	for (size_t i = 0; i < outs->count; i++) {
		const struct golden_out *out = &outs->out[i];

		(void)fprintf(recorder->file, "%s[%u,\"", i == 0 ? "" : ",", out->port);
		if (out->bytes == bytes && memcmp(out->frame, frame, bytes) == 0)
			(void)fputc('=', recorder->file);
		else
			write_hex(recorder->file, out->frame, out->bytes);
		(void)fprintf(recorder->file, "\"]");
	}
	(void)fprintf(recorder->file, "]}\n");
}

void record_counters(struct recorder *recorder) {
	uint64_t counters[HD_SWITCH_COUNTER_COUNT];

	recorder->executor->counters(recorder->self, counters);
	(void)fprintf(recorder->file, "{\"counters\":{");
	for (int i = 0; i < HD_SWITCH_COUNTER_COUNT; i++)
		(void)fprintf(
			recorder->file,
			"%s\"%s\":%" PRIu64,
			i == 0 ? "" : ",",
			hd_switch_counter_name((enum hd_switch_counter)i),
			counters[i]
		);
	(void)fprintf(recorder->file, "}}\n");
}
