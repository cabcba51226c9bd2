/* SPDX-License-Identifier: BSD-3-Clause */
/* Receiving: the messages of one recvmmsg, with GRO trains cut into packets, go to the core as one burst. */
#include "hd_udp_private.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define UDP_RECV_BYTES ((size_t)UDP_RECV_BUFFERS * UDP_RECV_BUFFER_BYTES)

/* Makes the first `count` messages ready to receive. */
static void prepare(struct udp_receiver *receiver, size_t count) {
	for (size_t i = 0; i < count; i++) {
		struct msghdr *header = &receiver->message[i].msg_hdr;

		receiver->iovec[i] = (struct iovec){
			.iov_base = receiver->buffers + i * UDP_RECV_BUFFER_BYTES,
			.iov_len = UDP_RECV_BUFFER_BYTES,
		};
		*header = (struct msghdr){
			.msg_name = &receiver->name[i],
			.msg_namelen = sizeof receiver->name[i],
			.msg_iov = &receiver->iovec[i],
			.msg_iovlen = 1,
			.msg_control = receiver->control[i].bytes,
			.msg_controllen = sizeof receiver->control[i].bytes,
		};
	}
}

int udp_receiver_init(struct udp_receiver *receiver, int fd) {
	receiver->fd = fd;
	receiver->overflow_seen = 0;
	receiver->buffers = aligned_alloc(UDP_RECV_BUFFER_BYTES, UDP_RECV_BYTES);
	if (!receiver->buffers)
		return -ENOMEM;
	prepare(receiver, UDP_RECV_BUFFERS);
	return 0;
}

void udp_receiver_fini(struct udp_receiver *receiver) {
	free(receiver->buffers);
	receiver->buffers = NULL;
}

static hd_ns in_ns(const struct timespec *at) {
	return (hd_ns)at->tv_sec * HD_SECOND + (hd_ns)at->tv_nsec;
}

/* The kernel's stamps are of this clock, which may be set at any time. */
static hd_ns real_now(void) {
	struct timespec real;

	(void)clock_gettime(CLOCK_REALTIME, &real);
	return in_ns(&real);
}

/* Reads when the message came, and returns the size of the train's packets, 0 if it is one packet. */
static size_t read_control(struct hd_udp *udp, struct msghdr *header, hd_ns *at) {
	struct udp_receiver *receiver = &udp->receiver;
	size_t segment = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
			int size;

			memcpy(&size, CMSG_DATA(c), sizeof size);
			segment = size > 0 ? (size_t)size : 0;
		} else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
			uint32_t dropped;

			/* The kernel's counter wraps at 32 bits; ours does not. */
			memcpy(&dropped, CMSG_DATA(c), sizeof dropped);
			udp->stats.receive_overflow += dropped - receiver->overflow_seen;
			receiver->overflow_seen = dropped;
		} else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
			struct timespec stamp;

			memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
			*at = in_ns(&stamp) - receiver->real_ahead;
		}
	}
	return segment;
}

struct burst {
	struct hd_node node;
	hd_ns now;
	hd_ns at; /* of the newest packet, or of the core's last call */
	size_t count;
};

static void hand_over(struct hd_udp *udp, struct burst *burst) {
	if (burst->count == 0)
		return;
	burst->node.ops->receive(
		burst->node.core, burst->now, udp->receiver.packets, burst->count, &udp->sink
	);
	burst->at = udp->called_at = burst->now;
	udp_flush(udp);
	burst->count = 0;
}

static void take_message(struct hd_udp *udp, struct burst *burst, size_t index) {
	struct udp_receiver *receiver = &udp->receiver;
	struct mmsghdr *message = &receiver->message[index];
	const uint8_t *data = receiver->iovec[index].iov_base;
	size_t left = message->msg_len;
	hd_ns at = burst->now;
	size_t segment = read_control(udp, &message->msg_hdr, &at);
	struct hd_addr peer = {
		.ipv4 = ntohl(receiver->name[index].sin_addr.s_addr),
		.port = ntohs(receiver->name[index].sin_port),
	};

	if (message->msg_hdr.msg_flags & MSG_TRUNC) {
		udp->stats.truncated++;
		return;
	}
	udp->stats.received_bytes += left;
	/* The core's time does not go back. A packet that has waited longer than a hold says more of this thread, and at
	 * rates at which packets are not held this thread is a part of the path. */
	at = udp->hold.span > 0 ? hd_ns_max(at, burst->now - UDP_HOLD_SEEN) : burst->now;
	burst->at = hd_ns_min(hd_ns_max(at, burst->at), burst->now);
	if (segment == 0)
		segment = left;
	do {
		size_t bytes = left < segment ? left : segment;

		if (burst->count == UDP_RECV_PACKETS_MAX)
			hand_over(udp, burst);
		__builtin_prefetch(data);
		__builtin_prefetch(data + 64);
		receiver->packets[burst->count++] = (struct hd_packet
		){.peer = peer, .data = data, .bytes = bytes, .local = udp->bound, .at = burst->at};
		udp->stats.received_packets++;
		data += bytes;
		left -= bytes;
	} while (left > 0);
}

/* Each buffer would stay as large as the largest train it ever held: now and then all release their pages and start
 * again at the current sizes. */
static void give_back(struct udp_receiver *receiver, hd_ns now) {
	if (now < receiver->give_back_at)
		return;
	receiver->give_back_at = now + UDP_RECV_KEEP;
	(void)madvise(receiver->buffers, UDP_RECV_BYTES, MADV_DONTNEED);
}

int udp_receive(struct hd_udp *udp, struct hd_node node) {
	struct udp_receiver *receiver = &udp->receiver;
	struct burst burst = {.node = node, .at = hd_ns_max(udp->called_at, udp->loop.now)};
	unsigned int count = receiver->trains ? UDP_RECV_TRAINS : UDP_RECV_BUFFERS;
	uint64_t before = udp->stats.received_bytes;
	int n;

	n = recvmmsg(receiver->fd, receiver->message, count, MSG_DONTWAIT, NULL);
	udp->stats.receive_calls++;
	if (n <= 0)
		return n < 0 && errno != EAGAIN && errno != EINTR ? -errno : 0;
	/* In this order a thread that is preempted in between takes packets for later ones, never for earlier ones. */
	receiver->real_ahead = real_now();
	burst.now = hd_udp_now();
	receiver->real_ahead -= burst.now;
	for (int i = 0; i < n; i++)
		take_message(udp, &burst, (size_t)i);
	hand_over(udp, &burst);
	give_back(receiver, burst.now);
	/* The kernel has changed the lengths of these and not touched the others. Nor do we, as all of them are out of
	 * the caches when one packet comes after a silence. */
	prepare(receiver, (size_t)n);
	receiver->trains = udp->stats.received_bytes - before > (uint64_t)n * UDP_RECV_TRAIN_BYTES;
	return (unsigned int)n == count;
}
