/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending: packets gather in a queue while the core runs; a flush turns runs of equal-sized packets to one peer into
 * single GSO sends.
 *
 *   queue:    A1408 A1408 A1408 A300 | B1408 | A60 A60      (peer, bytes)
 *   messages: [gso 1408, 4 packets ] [ plain ] [gso 60, 2 ]  one sendmmsg
 *
 * Packets of sessions go ahead of chunks in the same queue. A failed message is retried or given up by itself: messages
 * sent before it are never repeated. Chunks for which there is no room wait in the backlog (hd_udp_backlog.c).
 */
#include "hd_udp_private.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

void udp_sender_init(struct udp_sender *sender, int fd, bool gso) {
	int buffer = 0;
	socklen_t bytes = sizeof buffer;

	sender->fd = fd;
	sender->gso = gso;
	sender->train_bytes = UDP_GSO_BYTES_MAX;
	sender->gso_back_at = sender->gso_pause = 0;
	sender->count = 0;
	sender->heads_used = 0;
	sender->shared = 0;
	/* By the kernel's accounting: twice the requested size. */
	(void)getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, &bytes);
	sender->buffer_bytes = (uint32_t)buffer;
}

/* How many packets from `first` on can leave as one message. */
static uint32_t run_length(const struct udp_sender *sender, uint32_t first, uint32_t end) {
	const struct udp_outgoing *head = &sender->queue[first];
	uint32_t size = udp_outgoing_bytes(head);
	uint32_t total = size, n = 1;

	if (!sender->gso || sender->gso_back_at != 0 || size == 0)
		return 1;
	while (n < UDP_GSO_SEGMENTS_MAX && first + n < end) {
		const struct udp_outgoing *next = &sender->queue[first + n];
		uint32_t bytes = udp_outgoing_bytes(next);

		if (!hd_addr_equal(next->peer, head->peer) || bytes > size || bytes == 0)
			break;
		if (total + bytes > sender->train_bytes)
			break;
		total += bytes;
		n++;
		if (bytes < size) /* only the last segment may be shorter */
			break;
	}
	return n;
}

static void set_segment_size(struct msghdr *header, uint16_t size) {
	struct cmsghdr *control = CMSG_FIRSTHDR(header);

	control->cmsg_level = SOL_UDP;
	control->cmsg_type = UDP_SEGMENT;
	control->cmsg_len = CMSG_LEN(sizeof size);
	memcpy(CMSG_DATA(control), &size, sizeof size);
}

/* An iovec only reads this memory here; its type cannot express that. */
static struct iovec lend(const void *data, size_t bytes) {
	union {
		const void *read;
		void *base;
	} lent = {.read = data};

	return (struct iovec){.iov_base = lent.base, .iov_len = bytes};
}

/* Appends the iovecs of queue[first..first+n) at *used. */
static void fill_iovecs(struct udp_sender *sender, uint32_t first, uint32_t n, uint32_t *used) {
	for (uint32_t i = first; i < first + n; i++) {
		const struct udp_outgoing *out = &sender->queue[i];

		sender->iovec[(*used)++] = lend(sender->heads + out->head, out->head_bytes);
		if (out->payload_bytes == 0)
			continue;
		sender->iovec[(*used)++] = lend(out->payload, out->payload_bytes);
	}
}

/* Builds messages for queue[first .. end). Returns how many. */
static uint32_t build_messages(struct udp_sender *sender, uint32_t first, uint32_t end) {
	uint32_t used = 0, messages = 0;

	for (uint32_t n; first < end; first += n, messages++) {
		const struct udp_outgoing *out = &sender->queue[first];
		struct msghdr *header = &sender->message[messages].msg_hdr;
		uint32_t iovecs = used;

		n = run_length(sender, first, end);
		fill_iovecs(sender, first, n, &used);
		sender->name[messages] = (struct sockaddr_in){
			.sin_family = AF_INET,
			.sin_port = htons(out->peer.port),
			.sin_addr.s_addr = htonl(out->peer.ipv4),
		};
		memset(header, 0, sizeof *header);
		header->msg_name = &sender->name[messages];
		header->msg_namelen = sizeof sender->name[messages];
		header->msg_iov = &sender->iovec[iovecs];
		header->msg_iovlen = used - iovecs;
		sender->packets[messages] = n;
		if (n > 1) {
			header->msg_control = sender->control[messages].bytes;
			header->msg_controllen = sizeof sender->control[messages].bytes;
			set_segment_size(header, (uint16_t)udp_outgoing_bytes(out));
		}
	}
	return messages;
}

static void count_sent(struct hd_udp *udp, uint32_t first, uint32_t n) {
	for (uint32_t i = first; i < first + n; i++)
		udp->stats.sent_bytes += udp_outgoing_bytes(&udp->sender.queue[i]);
	udp->stats.sent_packets += n;
}

/* --- sending ----------------------------------------------------------------------------------- */

enum send_fault {
	FAULT_RETRY,
	FAULT_SKIP, /* give up this message */
	FAULT_FULL, /* nothing more can be sent now */
	FAULT_REBUILD /* without GSO for a while */
};

/* One route may have too small an MTU for a while: others are worth another try. */
static void pause_gso(struct udp_sender *sender) {
	hd_ns pause = sender->gso_pause ? 2 * sender->gso_pause : UDP_GSO_PAUSE;

	sender->gso_pause = hd_ns_min(pause, UDP_GSO_PAUSE_MAX);
	sender->gso_back_at = hd_wait_now() + sender->gso_pause;
}

static enum send_fault handle_fault(struct udp_sender *sender, int error, uint32_t packets) {
	switch (error) {
	case EINTR:
		return FAULT_RETRY;
	case EAGAIN:
	case ENOBUFS:
		return FAULT_FULL;
	case EIO: /* the device cannot checksum segments */
	case EINVAL: /* a segment is larger than the path's MTU */
	case EMSGSIZE:
	case EOPNOTSUPP:
		if (packets == 1)
			return FAULT_SKIP;
		pause_gso(sender);
		return FAULT_REBUILD;
	default:
		return FAULT_SKIP;
	}
}

/* Sends messages[0 .. count) of the queue from *first on. Returns why it stopped: FAULT_REBUILD, FAULT_FULL, or
 * FAULT_SKIP when all were handled. */
static enum send_fault send_messages(struct hd_udp *udp, uint32_t count, uint32_t *first) {
	struct udp_sender *sender = &udp->sender;
	uint32_t next = 0, retries = 0;

	while (next < count) {
		int sent = sendmmsg(sender->fd, &sender->message[next], count - next, MSG_DONTWAIT);
		enum send_fault fault;

		udp->stats.send_calls++;
		for (int i = 0; i < sent; i++) {
			count_sent(udp, *first, sender->packets[next]);
			if (sender->packets[next] > 1)
				sender->gso_pause = 0;
			*first += sender->packets[next++];
			retries = 0;
		}
		if (sent > 0)
			continue;
		fault = handle_fault(sender, errno, sender->packets[next]);
		if (fault == FAULT_REBUILD || fault == FAULT_FULL)
			return fault;
		if (fault == FAULT_RETRY && retries++ < 4)
			continue;
		udp->stats.send_errors += sender->packets[next];
		*first += sender->packets[next++];
		retries = 0;
	}
	return FAULT_SKIP;
}

/* Sends queue[first .. end). Returns the end of what was handled: `end`, unless the socket is full. */
static uint32_t send_queue(struct hd_udp *udp, uint32_t first, uint32_t end) {
	struct udp_sender *sender = &udp->sender;

	if (sender->gso_back_at != 0 && hd_wait_now() >= sender->gso_back_at)
		sender->gso_back_at = 0;
	while (first < end) {
		uint32_t messages = build_messages(sender, first, end);

		if (send_messages(udp, messages, &first) == FAULT_FULL)
			break;
	}
	return first;
}

static void clear(struct udp_sender *sender) {
	sender->count = 0;
	sender->heads_used = 0;
	sender->shared = 0;
}

static void send_backlog(struct hd_udp *udp) {
	struct udp_sender *sender = &udp->sender;
	uint32_t done, asked;

	do {
		hd_ns from = hd_wait_now();
		uint64_t before = udp_bytes_held(udp);

		udp_room_look(&udp->room, before, from, hd_wait_now());
		sender->train_bytes = udp_room_train(&udp->room);
		udp_backlog_take(udp, before);
		asked = sender->count;
		done = send_queue(udp, 0, asked);
		udp_backlog_sent(udp, done);
		udp_room_gave(&udp->room, before, udp_bytes_held(udp));
		clear(sender);
	} while (udp_backlog_waits(udp) && done > 0 && done == asked);
	udp->backlog.retry_at = HD_NEVER;
	if (udp_backlog_waits(udp))
		udp->backlog.retry_at = hd_wait_now() + udp_room_wait(&udp->room);
	else
		udp_room_rest(&udp->room);
}

/* Packets of sessions go ahead of those queued before them: a heartbeat does not wait for chunks, nor is it lost when
 * these have filled the socket. Then strangers, then chunks; the order stays the same otherwise. */
static void sort_by_class(struct udp_sender *sender) {
	uint32_t count = 0;

	for (int class = 0; class < UDP_CLASSES; class ++)
		for (uint32_t i = 0; i < sender->count; i++)
			if (sender->queue[i].class == class)
				sender->sorted[count++] = sender->queue[i];
	memcpy(sender->queue, sender->sorted, count * sizeof sender->queue[0]);
}

/* Sends the parts of the queue for which there is room. Returns the end of what was handled. */
static uint32_t send_parts(struct hd_udp *udp) {
	struct udp_sender *sender = &udp->sender;
	uint32_t first = 0, end = 0, parts = 0;

	while (first == end && first < sender->count) {
		uint64_t held = udp_bytes_held(udp);

		if (parts > 0
		    && udp_room_empty(&udp->room, held)) /* a device that takes all at once */
			sender->train_bytes = UDP_GSO_BYTES_MAX;
		else
			parts = 0;
		end = udp_room_end(udp, first, held, parts++);
		if (end == first)
			break;
		first = send_queue(udp, first, end);
	}
	return first;
}

void udp_flush(struct hd_udp *udp) {
	struct udp_sender *sender = &udp->sender;
	uint32_t first;

	if (sender->shared > 0 && sender->shared < sender->count)
		sort_by_class(sender);
	/* Without chunks and strangers the kernel is not asked. */
	first = sender->shared > 0 ? send_parts(udp) : send_queue(udp, 0, sender->count);
	for (; first < sender->count; first++)
		udp_put_off(udp, &sender->queue[first]);
	clear(sender);
	if (udp_backlog_waits(udp))
		send_backlog(udp);
}

static void
enqueue(struct hd_udp *udp,
	enum udp_class class,
	struct hd_addr peer,
	struct iovec head,
	struct iovec payload) {
	struct udp_sender *sender = &udp->sender;

	if (head.iov_len + payload.iov_len > HD_PACKET_BYTES_MAX
	    || head.iov_len > UDP_HEAD_BYTES_MAX || hd_addr_is_none(peer)) {
		udp->stats.send_errors++;
		return;
	}
	if (sender->count == UDP_SEND_PACKETS_MAX
	    || sender->heads_used + head.iov_len > UDP_HEADS_BYTES)
		udp_flush(udp);
	if (head.iov_len > 0)
		memcpy(sender->heads + sender->heads_used, head.iov_base, head.iov_len);
	sender->queue[sender->count++] = (struct udp_outgoing){
		.peer = peer,
		.class = (uint8_t) class,
		.head = sender->heads_used,
		.head_bytes = (uint32_t)head.iov_len,
		.payload = payload.iov_base,
		.payload_bytes = (uint32_t)payload.iov_len,
	};
	sender->heads_used += (uint32_t)head.iov_len;
	sender->shared += class != UDP_CONTROL;
}

void udp_send(
	struct hd_sink *sink,
	struct hd_addr peer,
	const void *head,
	size_t head_bytes,
	const void *payload,
	size_t payload_bytes
) {
	enqueue((struct hd_udp *)sink,
		payload ? UDP_CHUNK : UDP_CONTROL,
		peer,
		lend(head, head_bytes),
		lend(payload, payload ? payload_bytes : 0));
}

void udp_send_stranger(
	struct hd_sink *sink,
	struct hd_addr peer,
	const void *packet,
	size_t bytes
) {
	enqueue((struct hd_udp *)sink, UDP_STRANGER, peer, lend(packet, bytes), lend(NULL, 0));
}
