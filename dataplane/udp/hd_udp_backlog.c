/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much of what is sent the kernel may hold, and what waits here instead.
 *
 *   flush -> [queue] -> room? -> kernel: socket's buffer, device's queue -> link
 *               \__ no: chunks -> [backlog] -> the next flush, UDP_BACKLOG_WAIT later at most
 *
 * A device's queue is short, and shared: by the other sockets of this host, and by packets of sessions, which are lost
 * when it is full. So the kernel holds no more chunks than the device sends until the next flush, as TCP small queues
 * do (Linux net/ipv4/tcp_output.c, tcp_small_queue_check()): what it sends in half a millisecond, and two trains. Its
 * rate is what became less in a window in which chunks waited; if the queue was ever empty then, the rate is at least
 * that. A late thread so raises no limit.
 */
#include "hd_udp_private.h"

#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

/* --- room ------------------------------------------------------------------------------------ */

static uint64_t within(uint64_t value, uint64_t least, uint64_t most) {
	value = value > least ? value : least;
	return value < most ? value : most;
}

void udp_room_init(struct udp_room *room, uint32_t buffer_bytes) {
	*room = (struct udp_room){.most = UDP_CHUNKS_SHARE(buffer_bytes)};
	room->limit = within(0, UDP_ROOM_LEAST, room->most);
}

void udp_room_rest(struct udp_room *room) {
	room->from = 0;
}

static void begin_window(struct udp_room *room, uint64_t held, hd_ns now) {
	room->from = now;
	room->held = held;
	room->handed = 0;
	room->was_empty = udp_room_empty(room, held);
}

static void end_window(struct udp_room *room, uint64_t held, hd_ns now) {
	uint64_t given = room->held + room->handed;
	uint64_t taken = given > held ? given - held : 0;
	uint64_t rate = (uint64_t)((double)taken * 1e9 / (double)(now - room->from));

	if (room->rate == 0 || (room->was_empty && rate > room->rate))
		room->rate = rate;
	else if (!room->was_empty)
		room->rate = (7 * room->rate + rate) / 8;
	room->limit = within(
		UDP_ROOM_LEAST + (uint64_t)((double)room->rate * 0.5e-3), UDP_ROOM_LEAST, room->most
	);
}

/* Bytes that do not move are somewhere else than in a device's queue; and when some are gone, all are. */
static bool finds_stuck(struct udp_room *room, uint64_t held, hd_ns now) {
	if (held < room->stuck) {
		room->stuck = 0;
		return true;
	}
	if (now - room->moved_at < UDP_ROOM_STUCK)
		return false;
	room->stuck = held;
	room->moved_at = now;
	return true;
}

void udp_room_look(struct udp_room *room, uint64_t held, hd_ns from, hd_ns to) {
	if (room->from == 0 || held < room->last)
		room->moved_at = to;
	room->last = held;
	if (finds_stuck(room, held, to) || room->from == 0) {
		begin_window(room, held, from);
		return;
	}
	room->was_empty = room->was_empty || udp_room_empty(room, held);
	if (to - room->from < UDP_ROOM_WINDOW)
		return;
	end_window(room, held, to);
	begin_window(room, held, from);
}

void udp_room_gave(struct udp_room *room, uint64_t before, uint64_t after) {
	room->handed += after > before ? after - before : 0;
	room->last = after;
}

bool udp_room_empty(const struct udp_room *room, uint64_t held) {
	return held <= room->stuck;
}

uint32_t udp_room_train(const struct udp_room *room) {
	return (uint32_t)within(room->rate / 4000, UDP_GSO_BYTES_LEAST, UDP_GSO_BYTES_MAX);
}

hd_ns udp_room_wait(const struct udp_room *room) {
	double half_ns = (double)room->limit / 2 * 1e9 / (double)(room->rate > 0 ? room->rate : 1);

	return half_ns < (double)UDP_BACKLOG_WAIT ?
		within((uint64_t)half_ns, UDP_BACKLOG_WAIT_LEAST, UDP_BACKLOG_WAIT) :
		UDP_BACKLOG_WAIT;
}

uint64_t udp_bytes_held(const struct hd_udp *udp) {
	int held = 0;

	return ioctl(udp->sender.fd, SIOCOUTQ, &held) == 0 && held > 0 ? (uint64_t)held : 0;
}

static uint64_t cost_of(uint32_t bytes) {
	return (uint64_t)bytes + UDP_PACKET_COST;
}

/* A chunk may be sent in any case when there is nothing in a device's queue. */
static bool chunk_fits(const struct udp_room *room, uint64_t held, uint64_t cost, uint64_t limit) {
	if (held > 0 && held + cost > room->most)
		return false;
	return held <= room->stuck || held - room->stuck + cost <= limit;
}

uint32_t udp_room_end(const struct hd_udp *udp, uint32_t first, uint64_t held, uint32_t parts) {
	const struct udp_sender *sender = &udp->sender;
	const uint64_t strangers = UDP_STRANGERS_SHARE(sender->buffer_bytes);
	const uint64_t limit = udp->room.limit << (parts < 8 ? parts : 8);

	for (; first < sender->count; first++) {
		const struct udp_outgoing *out = &sender->queue[first];
		uint64_t cost = cost_of(udp_outgoing_bytes(out));

		/* Chunks stay in order. */
		if (out->class == UDP_CHUNK
		    && (udp_backlog_waits(udp) || !chunk_fits(&udp->room, held, cost, limit)))
			break;
		if (out->class == UDP_STRANGER && held > 0 && held + cost > strangers)
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

void udp_backlog_take(struct hd_udp *udp, uint64_t held) {
	struct udp_sender *sender = &udp->sender;
	const struct udp_backlog *backlog = &udp->backlog;
	const struct udp_room *room = &udp->room;

	for (uint32_t i = backlog->first;
	     i < backlog->count && sender->count < UDP_SEND_PACKETS_MAX;
	     i++) {
		const struct udp_waiting *waiting = &backlog->waiting[i];

		if (!chunk_fits(room, held, cost_of(waiting->bytes), room->limit))
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
}
