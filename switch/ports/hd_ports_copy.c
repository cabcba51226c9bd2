/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of frames.
 *
 *   frame:   [ Ethernet IPv4 UDP chunk's header | values ............ ]
 *                                                ^
 *   copy:    [ headers of its own ] --> [ reference ]      a port that takes chains, and a long frame
 *   copy:    [ headers of its own, values copied ]         any other
 */
#include "hd_ports_private.h"

#include <string.h>

static void copy_fields(struct rte_mbuf *to, const struct rte_mbuf *from) {
	to->port = from->port;
	to->ol_flags &= RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL;
}

static struct rte_mbuf *copy_whole(struct hd_ports *p, const struct rte_mbuf *frame) {
	struct rte_mbuf *copy = rte_pktmbuf_alloc(p->pool);
	char *data = copy ? rte_pktmbuf_append(copy, (uint16_t)frame->pkt_len) : NULL;

	if (!data) {
		rte_pktmbuf_free(copy);
		return NULL;
	}
	memcpy(data, rte_pktmbuf_mtod(frame, const void *), frame->pkt_len);
	copy_fields(copy, frame);
	return copy;
}

/* A reference to the payload, behind headers of its own. */
static struct rte_mbuf *copy_chained(struct hd_ports *p, struct rte_mbuf *frame) {
	struct rte_mbuf *piece[2];

	if (rte_pktmbuf_alloc_bulk(p->pieces, piece, 2) != 0)
		return NULL;
	memcpy(rte_pktmbuf_append(piece[0], PORTS_HEADER_BYTES),
	       rte_pktmbuf_mtod(frame, const void *),
	       PORTS_HEADER_BYTES);
	rte_pktmbuf_attach(piece[1], frame);
	(void)rte_pktmbuf_adj(piece[1], PORTS_HEADER_BYTES);
	copy_fields(piece[0], frame);
	piece[0]->next = piece[1];
	piece[0]->nb_segs = 2;
	piece[0]->pkt_len = frame->pkt_len;
	return piece[0];
}

struct rte_mbuf *ports_copy_addressed(struct hd_ports *p, struct rte_mbuf *frame, bool chains) {
	return chains && frame->pkt_len >= PORTS_SHARE_BYTES ? copy_chained(p, frame) :
							       copy_whole(p, frame);
}

struct rte_mbuf *ports_copy_flooded(struct hd_ports *p, struct rte_mbuf *frame) {
	return rte_pktmbuf_clone(frame, p->pieces);
}
