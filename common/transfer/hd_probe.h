/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Probes of a link's capacity: a short burst (a packet train) whose packets arrive as far apart as the narrowest link
 * of their path makes them. This measures an idle link, at a cost of some 70 KiB.
 *
 *   sender    ||||||||||||          PROBE(send) sends it at once
 *   receiver     |..|..|..|..|      PROBE(receive) announces it; after the last packet PROBED reports the duration
 *             skip -> from here        of the counted ones: the burst that a shaper's bucket let through is skipped
 *
 * A burst whose last packet is lost is not reported: the controller asks again. Each packet carries a MAC, like a
 * sealed chunk (hd_seal.h; of job 0), so that a node that merely saw the token cannot report on links.
 */
#ifndef HD_PROBE_H
#define HD_PROBE_H

#include "hd_message.h"
#include "hd_node.h"
#include "hd_seal.h"

#define HD_PROBE_PACKETS 48
#define HD_PROBE_SKIP 18 /* 27 kB: more than a shaper's bucket */
#define HD_PROBE_PACKET_BYTES HD_PACKET_BYTES_DEFAULT /* payload of UDP */
#define HD_PROBE_FRAME_BYTES (HD_PROBE_PACKET_BYTES + 8 + 20 + 14)
#define HD_PROBES_EXPECTED_MAX 8
#define HD_PROBE_GAP_NS (50 * HD_MS) /* a node sends at most one in this time */

struct hd_probe {
	uint64_t token; /* 0: free */
	uint16_t
		next; /* expected index: packets do not overtake on a path, a lower one is a copy */
	uint16_t counted; /* packets after the first counted one's arrival */
	uint16_t moments; /* different arrival times of these */
	hd_ns first, last;
	struct hd_seal seal;
};

/* One node's probes, both ends. Initially all zero but its keys. */
struct hd_probes {
	const struct hd_keyring *keys;
	uint16_t key_id;
	struct hd_probe expected[HD_PROBES_EXPECTED_MAX]; /* a ring: replaces the oldest */
	uint32_t newest;
	hd_ns sent_at;
	uint64_t sent, received, refused,
		dropped; /* dropped: unexpected packets, or with another MAC */
};

/* PROBE: sends a burst, or expects one. Invalid ones, and those within HD_PROBE_GAP_NS, are counted. */
void hd_probes_probe(
	struct hd_probes *probes,
	hd_ns now,
	const struct hd_msg_probe *probe,
	struct hd_sink *sink
);
/* A packet of type PROBE, any bytes. True: a burst has ended, and *probed has its measurement. */
bool hd_probes_packet(
	struct hd_probes *probes,
	hd_ns now,
	const struct hd_packet *packet,
	struct hd_msg_probed *probed
);

#endif
