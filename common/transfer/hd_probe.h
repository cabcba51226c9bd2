/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Probes of what a link carries: a short burst (a packet train) whose packets arrive as far apart as the narrowest
 * link of their way needs for each. What an idle link carries is found so, at a cost of some 70 KiB.
 *
 *   sender    ||||||||||||          PROBE(send) makes it leave at once
 *   receiver     |..|..|..|..|      PROBE(receive) makes it expected; when the last packet is there PROBED says how
 *             skip -> from here        long the counted ones took: what a shaper's bucket let through whole is skipped
 *
 * A burst whose last packet is lost is not reported: whoever asked asks again. Each packet carries a MAC, as a sealed
 * chunk does (hd_seal.h; of job 0): who sees a token says nothing about links.
 */
#ifndef HD_PROBE_H
#define HD_PROBE_H

#include "hd_message.h"
#include "hd_node.h"
#include "hd_seal.h"

#define HD_PROBE_PACKETS 48
#define HD_PROBE_SKIP 18 /* 27 kB: more than a shaper's bucket */
#define HD_PROBE_PACKET_BYTES HD_PACKET_BYTES_DEFAULT /* of UDP payload */
#define HD_PROBE_FRAME_BYTES (HD_PROBE_PACKET_BYTES + 8 + 20 + 14)
#define HD_PROBES_EXPECTED_MAX 8
#define HD_PROBE_GAP_NS (50 * HD_MS) /* a node sends no more than one in this time */

struct hd_probe {
	uint64_t token; /* 0: free */
	uint16_t
		next; /* index wanted next: packets do not overtake on one way, a lower one is a copy */
	uint16_t counted; /* packets after the first counted one's arrival */
	uint16_t moments; /* different times of arrival among these */
	hd_ns first, last;
	struct hd_seal seal;
};

/* One node's probes, both ends. All zero but its keys is its beginning. */
struct hd_probes {
	const struct hd_keyring *keys;
	uint16_t key_id;
	struct hd_probe expected[HD_PROBES_EXPECTED_MAX]; /* a ring: the oldest gives way */
	uint32_t newest;
	hd_ns sent_at;
	uint64_t sent, received, refused,
		dropped; /* dropped: packets that nobody expects, or whose MAC differs */
};

/* PROBE: sends a burst, or expects one. Impossible ones, and those within HD_PROBE_GAP_NS, are counted. */
void hd_probes_probe(
	struct hd_probes *probes,
	hd_ns now,
	const struct hd_msg_probe *probe,
	struct hd_sink *sink
);
/* A packet of type PROBE, any bytes. True: that was the end of one, and *probed says what it measured. */
bool hd_probes_packet(
	struct hd_probes *probes,
	hd_ns now,
	const struct hd_packet *packet,
	struct hd_msg_probed *probed
);

#endif
