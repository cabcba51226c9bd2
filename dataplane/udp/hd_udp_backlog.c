/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much of what is sent the kernel may hold, and what waits here instead.
 *
 *   flush -> [queue] -> room? -> kernel: socket's buffer, device's queue -> link
 *               \__ no: chunks -> [backlog] -> the next flush, UDP_BACKLOG_WAIT later at most
 *
 * A device's queue is short, and shared: by the other sockets of this host, and by packets of sessions, which are lost
 * when it is full. So the kernel holds no more chunks than the device sends until the next flush, as TCP small queues
 * do (Linux net/ipv4/tcp_output.c, tcp_small_queue_check()). How much that is is learned as by dynamic queue limits
 * (Linux lib/dynamic_queue_limits.c): the limit grows when the kernel had nothing left although chunks waited, and
 * falls by half of what it always had left. It is halved when the queue is full all the same.
 */
#include "hd_udp_private.h"

#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

/* --- room ------------------------------------------------------------------------------------ */

void udp_room_init(struct udp_room *room, uint32_t buffer_bytes) {
	room->most = UDP_CHUNKS_SHARE(buffer_bytes);
	room->least = room->most < UDP_ROOM_LEAST ? room->most : UDP_ROOM_LEAST;
	room->limit = room->least;
	room->slack = UINT64_MAX;
	room->samples = 0;
}

void udp_room_learn(struct udp_room *room, uint64_t held) {
	if (held == 0) {
		room->limit += room->limit / 2;
		room->limit = room->limit < room->most ? room->limit : room->most;
	} else {
		room->slack = held < room->slack ? held : room->slack;
		if (++room->samples < UDP_ROOM_SAMPLES)
			return;
		room->limit -= room->slack / 2 < room->limit ? room->slack / 2 : room->limit;
		room->limit = room->limit > room->least ? room->limit : room->least;
	}
	room->slack = UINT64_MAX;
	room->samples = 0;
}

void udp_room_refused(struct udp_room *room, uint64_t held) {
	room->limit = held / 2 > room->least ? held / 2 : room->least;
	room->slack = UINT64_MAX;
	room->samples = 0;
}

uint64_t udp_bytes_held(const struct hd_udp *udp) {
	int held = 0;

	return ioctl(udp->sender.fd, SIOCOUTQ, &held) == 0 && held > 0 ? (uint64_t)held : 0;
}

static uint64_t cost_of(uint32_t bytes) {
	return (uint64_t)bytes + UDP_PACKET_COST;
}

/* One packet may be sent in any case when the kernel holds none. */
static bool fits(uint64_t held, uint64_t cost, uint64_t limit) {
	return held == 0 || held + cost <= limit;
}

uint32_t udp_room_end(const struct hd_udp *udp, uint32_t first, uint64_t held) {
	const struct udp_sender *sender = &udp->sender;

	for (; first < sender->count; first++) {
		const struct udp_outgoing *out = &sender->queue[first];
		uint64_t cost = cost_of(udp_outgoing_bytes(out));

		/* Chunks stay in order. */
		if (out->class == UDP_CHUNK
		    && (udp_backlog_waits(udp) || !fits(held, cost, udp->room.limit)))
			break;
		if (out->class == UDP_STRANGER
		    && !fits(held, cost, UDP_STRANGERS_SHARE(sender->buffer_bytes)))
			break;
		held += cost;
	}
	return first;
}

/* --- the backlog ------------------------------------------------------------------------------ */

bool udp_backlog_waits(const struct hd_udp *udp) {
	return udp->backlog.first < udp->backlog.count;
}

/* Moves the waiting chunks to the beginning. */
static void pack(struct udp_backlog *backlog) {
	bool waits = backlog->first < backlog->count;
	uint32_t gone = waits ? backlog->waiting[backlog->first].at : backlog->used;
	uint32_t count = backlog->count - backlog->first;

	memmove(backlog->bytes, backlog->bytes + gone, backlog->used - gone);
	memmove(backlog->waiting,
		backlog->waiting + backlog->first,
		count * sizeof backlog->waiting[0]);
	for (uint32_t i = 0; i < count; i++)
		backlog->waiting[i].at -= gone;
	backlog->used -= gone;
	backlog->first = 0;
	backlog->count = count;
}

static bool keep(struct hd_udp *udp, const struct udp_outgoing *out) {
	struct udp_backlog *backlog = &udp->backlog;
	uint32_t bytes = udp_outgoing_bytes(out);

	if (!backlog->bytes)
		backlog->bytes = malloc(UDP_BACKLOG_BYTES);
	if (!backlog->bytes)
		return false;
	if (backlog->first > 0
	    && (backlog->count == UDP_BACKLOG_PACKETS || backlog->used + bytes > UDP_BACKLOG_BYTES))
		pack(backlog);
	if (backlog->count == UDP_BACKLOG_PACKETS || backlog->used + bytes > UDP_BACKLOG_BYTES)
		return false;
	memcpy(backlog->bytes + backlog->used, udp->sender.heads + out->head, out->head_bytes);
	if (out->payload_bytes > 0)
		memcpy(backlog->bytes + backlog->used + out->head_bytes,
		       out->payload,
		       out->payload_bytes);
	backlog->waiting[backlog->count++] = (struct udp_waiting){out->peer, backlog->used, bytes};
	backlog->used += bytes;
	udp->stats.waited++;
	return true;
}

void udp_put_off(struct hd_udp *udp, const struct udp_outgoing *out) {
	if (out->class == UDP_STRANGER)
		udp->stats.drop_strangers++;
	else if (out->class == UDP_CONTROL || !keep(udp, out))
		udp->stats.send_errors++;
}

void udp_backlog_take(struct hd_udp *udp) {
	struct udp_sender *sender = &udp->sender;
	const struct udp_backlog *backlog = &udp->backlog;
	uint64_t held = udp_bytes_held(udp);

	udp_room_learn(&udp->room, held);
	for (uint32_t i = backlog->first;
	     i < backlog->count && sender->count < UDP_SEND_PACKETS_MAX;
	     i++) {
		const struct udp_waiting *waiting = &backlog->waiting[i];

		if (!fits(held, cost_of(waiting->bytes), udp->room.limit))
			break;
		held += cost_of(waiting->bytes);
		sender->queue[sender->count++] = (struct udp_outgoing){
			.peer = waiting->peer,
			.class = UDP_CHUNK,
			.payload = backlog->bytes + waiting->at,
			.payload_bytes = waiting->bytes,
		};
	}
}

void udp_backlog_sent(struct hd_udp *udp, uint32_t count) {
	struct udp_backlog *backlog = &udp->backlog;

	backlog->first += count;
	if (!udp_backlog_waits(udp))
		backlog->used = backlog->first = backlog->count = 0;
	backlog->retry_at = udp_backlog_waits(udp) ? hd_wait_now() + UDP_BACKLOG_WAIT : HD_NEVER;
}
