/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HD_SWX_PRIVATE_H
#define HD_SWX_PRIVATE_H

#include "hd_bytes.h"
#include "hd_switch_spec.h"
#include "hd_swx.h"
#include "hd_swx_text.h"

#include <rte_swx_ctl.h>
#include <rte_swx_pipeline.h>

#include <string.h>

#define SWX_BURST 64
/* A table entry as text: a key, an action's name, and its arguments. */
#define SWX_ENTRY_BYTES 1024
#define SWX_ARGUMENTS_MAX 16

struct swx_lease {
	struct hd_switch_lease lease; /* its arrays follow */
	struct hd_switch_copy
		*copies; /* of the members, then of the receivers; NULL: no such lease */
	uint64_t *tokens; /* in the same order */
	uint16_t *workers; /* of the members */
	uint64_t all;
};

struct swx_rings;

struct swx {
	struct hd_spec *spec;
	struct rte_swx_pipeline *pipeline;
	struct rte_swx_ctl_pipeline *ctl;
	struct hd_switch_self self;
	/* Of the current burst. */
	struct hd_switch_packet *packets;
	size_t count, fed, done;
	struct swx_rings *rings; /* NULL: the text is interpreted, through our own ports */
	bool stuck; /* the program did not end: nothing is processed any more */
	struct swx_lease leases[HD_SWITCH_LEASES_MAX];
};

/* --- packets: the header before a frame (hd_port_t: port:16 bytes:16 verdict:8 copy:8 lease:16) ---- */
#define SWX_PORT_BYTES 8

static inline void swx_packet_in(const struct hd_switch_packet *from, struct rte_swx_pkt *to) {
	uint32_t bytes = from->bytes;

	if (bytes < HD_SWX_ROOM_BYTES) {
		memset(from->data + bytes, 0, HD_SWX_ROOM_BYTES - bytes);
		bytes = HD_SWX_ROOM_BYTES;
	}
	hd_put16(from->data - SWX_PORT_BYTES, from->port);
	hd_put16(from->data - SWX_PORT_BYTES + 2, (uint16_t)from->bytes);
	hd_put32(from->data - SWX_PORT_BYTES + 4, 0);
	to->pkt = from->data - HD_SWITCH_HEADROOM_BYTES;
	to->offset = HD_SWITCH_HEADROOM_BYTES - SWX_PORT_BYTES;
	to->length = bytes + SWX_PORT_BYTES;
}

static inline void swx_packet_out(const struct rte_swx_pkt *from, struct hd_switch_packet *to) {
	const uint8_t *meta = from->pkt + from->offset;

	to->data = from->pkt + from->offset + SWX_PORT_BYTES;
	to->port = hd_get16(meta);
	to->verdict = meta[4];
	to->copy = meta[5];
	to->lease = hd_get16(meta + 6);
	if (to->verdict == HD_SWITCH_COPY)
		to->bytes = hd_get16(meta + 2);
}

/* --- hd_swx_load.c ------------------------------------------------------------------------- */
/* Builds the pipeline from the text, without its ports. 0 or -errno. */
int swx_load(struct swx *swx, const char *name, char *error, size_t error_bytes);
/* Adds its ports, and everything that runs. */
int swx_build(struct swx *swx, char *error, size_t error_bytes);

/* --- hd_swx_object.c --------------------------------------------------------------------- */
/* Reads the text in a shared object. 0 or -errno. */
int swx_read_object(const char *path, struct hd_spec **spec, char *error, size_t error_bytes);
/* Opens its pipeline, with ports. */
int swx_open_object(
	struct swx *swx,
	const char *path,
	const char *name,
	char *error,
	size_t error_bytes
);
/* Sets `stuck` if the program did not end. */
void swx_run_object(struct swx *swx, struct hd_switch_packet *packets, size_t count);
void swx_free_rings(struct swx *swx);

/* --- hd_swx_tables.c ----------------------------------------------------------------------- */
/* Sets the switch's own addresses in the program. 0 or -errno. */
int swx_set_self(struct swx *swx, char *error, size_t error_bytes);
void swx_forget_leases(struct swx *swx);
/* For the executor, see struct hd_switch_executor_ops. */
int swx_lease_set(void *self, const struct hd_switch_lease *lease, char *error, size_t error_bytes);
int swx_lease_waits(void *self, uint16_t id, uint64_t waits, char *error, size_t error_bytes);
int swx_lease_end(void *self, uint16_t id, char *error, size_t error_bytes);
int swx_lease_stats(const void *self, uint16_t id, struct hd_switch_lease_stats *stats);
int swx_mac_set(void *self, const uint8_t mac[6], uint16_t port, char *error, size_t error_bytes);
int swx_route_set(void *self, const struct hd_switch_route *route, char *error, size_t error_bytes);
int swx_simulate(void *self, uint32_t seed, uint32_t threshold, char *error, size_t error_bytes);
void swx_counters(const void *self, uint64_t counters[HD_SWITCH_COUNTER_COUNT]);

#endif
