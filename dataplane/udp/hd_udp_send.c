/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending: packets gather in a queue while the core runs; a flush turns runs of equal-sized packets
 * to one peer into single GSO sends.
 *
 *   queue:    A1408 A1408 A1408 A300 | B1408 | A60 A60      (peer, bytes)
 *   messages: [gso 1408, 4 packets ] [ plain ] [gso 60, 2 ]  one sendmmsg
 *
 * A failed message is retried or given up by itself: what went out before it is never sent again.
 */
#include "hd_udp_private.h"

#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

void udp_sender_init(struct udp_sender *sender, int fd, bool gso) {
	sender->fd = fd;
	sender->gso = gso;
	sender->count = 0;
	sender->heads_used = 0;
}

static uint32_t outgoing_bytes(const struct udp_outgoing *out) {
	return out->head_bytes + out->payload_bytes;
}

/* How many packets from `first` on can leave as one message. */
static uint32_t run_length(const struct udp_sender *sender, uint32_t first) {
	const struct udp_outgoing *head = &sender->queue[first];
	uint32_t size = outgoing_bytes(head);
	uint32_t total = size, n = 1;

	if (!sender->gso || size == 0)
		return 1;
	while (n < UDP_GSO_SEGMENTS_MAX && first + n < sender->count) {
		const struct udp_outgoing *next = &sender->queue[first + n];
		uint32_t bytes = outgoing_bytes(next);

		if (!hd_addr_equal(next->peer, head->peer) || bytes > size || bytes == 0)
			break;
		if (total + bytes > UDP_GSO_BYTES_MAX)
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
	control->cmsg_len = CMSG_LEN(sizeof(size));
	memcpy(CMSG_DATA(control), &size, sizeof(size));
}

/* An iovec lends memory for reading here; its type cannot say so. */
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

/* Builds messages for queue[first..count). Returns how many. */
static uint32_t build_messages(struct udp_sender *sender, uint32_t first) {
	uint32_t used = 0, messages = 0;

	for (uint32_t n; first < sender->count; first += n, messages++) {
		const struct udp_outgoing *out = &sender->queue[first];
		struct msghdr *header = &sender->message[messages].msg_hdr;
		uint32_t iovecs = used;

		n = run_length(sender, first);
		fill_iovecs(sender, first, n, &used);
		sender->name[messages] = (struct sockaddr_in){
			.sin_family = AF_INET,
			.sin_port = htons(out->peer.port),
			.sin_addr.s_addr = htonl(out->peer.ipv4),
		};
		memset(header, 0, sizeof(*header));
		header->msg_name = &sender->name[messages];
		header->msg_namelen = sizeof(sender->name[messages]);
		header->msg_iov = &sender->iovec[iovecs];
		header->msg_iovlen = used - iovecs;
		sender->packets[messages] = n;
		if (n > 1) {
			header->msg_control = sender->control[messages].bytes;
			header->msg_controllen = sizeof(sender->control[messages].bytes);
			set_segment_size(header, (uint16_t)outgoing_bytes(out));
		}
	}
	return messages;
}

static void count_sent(struct hd_udp *udp, uint32_t first, uint32_t n) {
	for (uint32_t i = first; i < first + n; i++)
		udp->stats.sent_bytes += outgoing_bytes(&udp->sender.queue[i]);
	udp->stats.sent_packets += n;
}

/* True when it is worth trying again. */
static bool wait_for_room(int fd) {
	struct pollfd wait = {.fd = fd, .events = POLLOUT};

	return poll(&wait, 1, UDP_SEND_WAIT_MS) > 0 && (wait.revents & POLLOUT);
}

enum send_fault {
	FAULT_RETRY,
	FAULT_SKIP, /* give up this message */
	FAULT_REBUILD /* without GSO from now on */
};

static enum send_fault handle_fault(struct hd_udp *udp, int error, uint32_t packets) {
	struct udp_sender *sender = &udp->sender;

	switch (error) {
	case EINTR:
		return FAULT_RETRY;
	case EAGAIN:
	case ENOBUFS:
		return wait_for_room(sender->fd) ? FAULT_RETRY : FAULT_SKIP;
	case EIO: /* the device cannot checksum segments */
	case EINVAL: /* a segment is larger than the path's MTU */
	case EMSGSIZE:
	case EOPNOTSUPP:
		if (packets == 1)
			return FAULT_SKIP;
		sender->gso = false;
		return FAULT_REBUILD;
	default:
		return FAULT_SKIP;
	}
}

void udp_flush(struct hd_udp *udp) {
	struct udp_sender *sender = &udp->sender;
	uint32_t first = 0; /* packets before this one are done with */
	uint32_t retries = 0;

	while (first < sender->count) {
		uint32_t messages = build_messages(sender, first);
		uint32_t next = 0;

		while (next < messages) {
			int sent = sendmmsg(
				sender->fd, &sender->message[next], messages - next, MSG_DONTWAIT
			);
			enum send_fault fault;

			udp->stats.send_calls++;
			for (int i = 0; i < sent; i++) {
				count_sent(udp, first, sender->packets[next]);
				first += sender->packets[next++];
				retries = 0;
			}
			if (sent > 0)
				continue;
			fault = handle_fault(udp, errno, sender->packets[next]);
			if (fault == FAULT_REBUILD)
				break;
			if (fault == FAULT_RETRY && retries++ < 4)
				continue;
			udp->stats.send_errors += sender->packets[next];
			first += sender->packets[next++];
			retries = 0;
		}
	}
	sender->count = 0;
	sender->heads_used = 0;
}

void udp_send(
	struct hd_sink *sink,
	struct hd_addr peer,
	const void *head,
	size_t head_bytes,
	const void *payload,
	size_t payload_bytes
) {
	struct hd_udp *udp = (struct hd_udp *)sink;
	struct udp_sender *sender = &udp->sender;

	if (head_bytes + payload_bytes > HD_PACKET_BYTES_MAX || head_bytes > UDP_HEAD_BYTES_MAX
	    || hd_addr_is_none(peer)) {
		udp->stats.send_errors++;
		return;
	}
	if (sender->count == UDP_SEND_PACKETS_MAX
	    || sender->heads_used + head_bytes > UDP_HEADS_BYTES)
		udp_flush(udp);
	if (head_bytes > 0)
		memcpy(sender->heads + sender->heads_used, head, head_bytes);
	sender->queue[sender->count++] = (struct udp_outgoing){
		.peer = peer,
		.head = sender->heads_used,
		.head_bytes = (uint32_t)head_bytes,
		.payload = payload,
		.payload_bytes = payload ? (uint32_t)payload_bytes : 0,
	};
	sender->heads_used += (uint32_t)head_bytes;
}
