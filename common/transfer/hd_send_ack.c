/* SPDX-License-Identifier: BSD-3-Clause */
/* Acknowledgements, losses, timeouts. */
#include "hd_limits.h"
#include "hd_ranges.h"
#include "hd_send_state.h"

#define REORDER_MIN 3 /* RFC 9002 section 6.1.1 */
#define REORDER_MAX 256
#define TIME_GRAIN_NS (50 * HD_US)
#define GIVE_UP_FLIGHT 2 /* after this many timeouts in a row everything in flight counts as lost */

/* The results of one acknowledgement, or of one check of the timers. */
struct harvest {
	struct hd_send *send;
	hd_ns now;
	uint64_t acked_bytes;
	uint64_t lost_bytes;
	hd_ns lost_sent_at;
	uint32_t lost_bursts;
	bool newest_new; /* the highest listed packet is newly acknowledged */
};

static void land(struct hd_send *send, uint32_t chunk) {
	uint64_t bytes = hd_send_packet_bytes(send, chunk);

	send->inflight_bytes -= bytes;
	send->config.path->inflight_bytes -= bytes;
}

static void chunk_acked(struct hd_send *send, uint32_t chunk) {
	if (hd_send_is_acked(send, chunk))
		return;
	send->acked[chunk / 64] |= UINT64_C(1) << (chunk % 64);
	send->acked_count++;
	send->stats.bytes_acked += hd_send_chunk_bytes(send, chunk);
}

/* A packet that was declared lost has arrived: wait longer from now on. */
static void on_late(struct harvest *h, uint32_t packet, const struct hd_sent *sent) {
	struct hd_send *send = h->send;
	uint32_t distance = send->any_acked && send->largest > packet ? send->largest - packet : 0;
	hd_ns late = h->now - sent->at;
	hd_ns rtt = send->config.path->srtt;

	if (distance >= send->reorder)
		send->reorder = distance < REORDER_MAX ? distance + 1 : REORDER_MAX;
	if (late > rtt)
		send->reorder_ns = hd_ns_max(send->reorder_ns, hd_ns_min(late - rtt, rtt));
	if (send->stats.packets_lost > 0)
		send->stats.packets_lost--;
}

static void packet_acked(struct harvest *h, uint32_t packet) {
	struct hd_sent *sent = hd_send_entry(h->send, packet);

	if (sent->state == HD_SENT_ACKED || sent->state == HD_SENT_NONE)
		return;
	if (sent->state == HD_SENT_FLYING) {
		land(h->send, sent->chunk);
		h->acked_bytes += hd_send_packet_bytes(h->send, sent->chunk);
	} else {
		on_late(h, packet, sent);
	}
	sent->state = HD_SENT_ACKED;
	chunk_acked(h->send, sent->chunk);
}

static void visit_new(void *user, uint32_t first, uint32_t last) {
	struct harvest *h = user;
	struct hd_send *send = h->send;
	uint32_t oldest = send->next > send->capacity ? send->next - send->capacity : 0;

	if (last < oldest)
		return;
	for (uint32_t packet = first > oldest ? first : oldest; packet <= last; packet++)
		packet_acked(h, packet);
}

static void packet_lost(struct harvest *h, struct hd_sent *sent) {
	struct hd_send *send = h->send;

	land(send, sent->chunk);
	sent->state = HD_SENT_LOST;
	send->stats.packets_lost++;
	h->lost_bytes += hd_send_packet_bytes(send, sent->chunk);
	if (h->lost_bursts == 0 || sent->at != h->lost_sent_at)
		h->lost_bursts++;
	h->lost_sent_at = hd_ns_max(h->lost_sent_at, sent->at);
	send->lost[(send->lost_head + send->lost_count) & (send->capacity - 1)] = sent->chunk;
	send->lost_count++;
}

static hd_ns loss_delay(const struct hd_send *send) {
	const struct hd_path *path = send->config.path;
	hd_ns rtt = hd_ns_max(path->srtt, path->rtt_latest);

	return hd_ns_max(rtt + rtt / 8 + send->reorder_ns, TIME_GRAIN_NS);
}

/* Advances base over settled packets. Later packets are newer: the first one that is not lost yet ends the loop, so
 * each packet is examined once. A full queue also ends it; sending empties the queue. */
static void settle(struct harvest *h) {
	struct hd_send *send = h->send;
	hd_ns delay = loss_delay(send);

	send->loss_at = HD_NEVER;
	for (; send->any_acked && send->base < send->next && send->base <= send->largest;
	     send->base++) {
		struct hd_sent *sent = hd_send_entry(send, send->base);

		if (sent->state != HD_SENT_FLYING)
			continue;
		if (hd_send_is_acked(send, sent->chunk)) {
			packet_acked(h, send->base);
			continue;
		}
		if (send->largest - send->base < send->reorder && h->now - sent->at < delay) {
			send->loss_at = hd_ns_add(sent->at, delay);
			return;
		}
		if (send->lost_count == send->capacity)
			return;
		packet_lost(h, sent);
	}
}

static void tell_path(const struct harvest *h, hd_ns rtt) {
	struct hd_ack_info info = {
		.acked_bytes = h->acked_bytes,
		.lost_bytes = h->lost_bytes,
		.lost_sent_at = h->lost_sent_at,
		.lost_bursts = h->lost_bursts,
		.rtt = rtt,
	};

	if (info.acked_bytes > 0 || info.lost_bytes > 0)
		hd_path_on_ack(h->send->config.path, h->now, &info);
}

void hd_send_detect_losses(struct hd_send *send, hd_ns now) {
	struct harvest h = {.send = send, .now = now};

	settle(&h);
	tell_path(&h, 0);
}

/* The receiver holds every chunk below `held`, even if its acknowledgements were lost. */
static void take_held(struct hd_send *send, uint32_t held) {
	for (; send->held < held; send->held++)
		chunk_acked(send, send->held);
}

static bool is_bogus(const struct hd_send *send, const struct hd_msg_sack *sack) {
	const struct hd_ranges *packets = &sack->packets;

	if (!hd_ranges_valid(packets) || sack->held > send->next_chunk)
		return true;
	if (sack->done && send->next_chunk < send->chunk_count)
		return true;
	return packets->count > 0 && packets->item[0].last >= send->next;
}

/* The RTT sample: of the highest listed packet, if it is newly acknowledged. */
static hd_ns sample_rtt(struct harvest *h, const struct hd_msg_sack *sack) {
	const struct hd_send *send = h->send;
	const struct hd_sent *sent;
	hd_ns rtt, delay = sack->delay_us * HD_US;

	if (sack->packets.count == 0)
		return 0;
	if (send->any_acked && sack->packets.item[0].last <= send->largest)
		return 0;
	sent = hd_send_entry(send, sack->packets.item[0].last);
	rtt = h->now - sent->at;
	return rtt > delay ? rtt - delay : 1;
}

/* A receiver without room has room again: the time without answers was no silence. */
static void hear_room(struct hd_send *send, hd_ns now, const struct hd_msg_sack *sack) {
	struct hd_path *path = send->config.path;

	if (!send->any_acked || sack->packets.count == 0
	    || sack->packets.item[0].last != send->largest
	    || sack->window_bytes <= path->peer_window_bytes)
		return;
	path->peer_window_bytes = sack->window_bytes;
	send->probes_sent = 0;
	send->probes_due = 0;
	send->probe_from = now;
}

void hd_send_sack(struct hd_send *send, hd_ns now, const struct hd_msg_sack *sack) {
	struct harvest h = {.send = send, .now = now};
	hd_ns rtt;

	if (send->stats.state != HD_SEND_ACTIVE)
		return;
	if (is_bogus(send, sack)) {
		send->stats.bogus_acks++;
		return;
	}
	rtt = sample_rtt(&h, sack);
	take_held(send, sack->held);
	hd_ranges_each_new(&sack->packets, &send->seen, visit_new, &h);
	if (rtt > 0) {
		/* Not if a newer acknowledgement overtook this one. */
		send->seen = sack->packets;
		send->largest = sack->packets.item[0].last;
		send->any_acked = true;
		send->config.path->peer_window_bytes = sack->window_bytes;
	} else {
		hear_room(send, now, sack);
	}
	settle(&h);
	if (h.acked_bytes > 0) {
		send->probes_sent = 0;
		send->probes_due = 0;
		send->probe_from = now;
	}
	tell_path(&h, rtt);
	if (sack->done || send->acked_count == send->chunk_count) {
		send->stats.bytes_acked = send->config.bytes;
		hd_send_end(send, now, HD_SEND_DONE, HD_REASON_NONE);
	}
}

/* After an unanswered probe, the packets in flight no longer take the window from other transfers. */
static void give_up_flight(struct hd_send *send, hd_ns now) {
	struct harvest h = {.send = send, .now = now};

	for (; send->base < send->next && send->lost_count < send->capacity; send->base++) {
		struct hd_sent *sent = hd_send_entry(send, send->base);

		if (sent->state != HD_SENT_FLYING)
			continue;
		if (hd_send_is_acked(send, sent->chunk))
			packet_acked(&h, send->base);
		else
			packet_lost(&h, sent);
	}
}

hd_ns hd_send_probe_at(const struct hd_send *send) {
	uint32_t ignored = hd_path_timeouts_ignored(send->config.path);
	uint32_t beyond = send->probes_sent > ignored ? send->probes_sent - ignored : 0;
	hd_ns wait = hd_path_rto(send->config.path) << (beyond < 10 ? beyond : 10);

	if (send->inflight_bytes == 0 && send->probes_sent == 0)
		return HD_NEVER;
	return hd_ns_add(send->probe_from, hd_ns_min(wait, HD_RTO_MAX_US * HD_US));
}

void hd_send_on_probe_timeout(struct hd_send *send, hd_ns now) {
	struct hd_path *path = send->config.path;

	send->stats.timeouts++;
	if (send->probes_sent < UINT32_MAX)
		send->probes_sent++;
	send->probes_due = 2;
	send->probe_from = now;
	if (send->probes_sent < GIVE_UP_FLIGHT)
		return;
	give_up_flight(send, now);
	/* Only our transfer is dead if others on the path are heard. */
	if (send->probes_sent >= GIVE_UP_FLIGHT + hd_path_timeouts_ignored(path)
	    && now - path->heard_at >= hd_path_rto(path))
		hd_path_on_timeout(path, now);
}
