/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private to the udp driver. One thread runs it; others only stop and wake it.
 *
 *   recvmmsg -> [32 buffers of 64 KiB] -> split by GRO size -> packets[] -> core.receive()
 *   core -> sink.send -> outgoing[] (heads copied, payloads by reference) -> sendmmsg with GSO
 *                            |  chunks for which the socket has no room   ^
 *                            +-> backlog (copied), each millisecond ------+
 *
 * The thread never waits for the socket. Its send buffer has three classes, by how full it is: answers to strangers are
 * sent while it is less than a quarter full, chunks while it is less than seven eighths full, control packets of
 * sessions always, and first. The kernel keeps packets to unreachable addresses until ARP gives up; with these limits
 * neither forged addresses nor lost hosts block heartbeats.
 */
#ifndef HD_UDP_PRIVATE_H
#define HD_UDP_PRIVATE_H

#include "hd_limits.h"
#include "hd_loop.h"
#include "hd_udp.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define UDP_RECV_BUFFERS 32
/* Trains fill whole buffers: only as many at once as stay in the second-level cache while the core copies from them. */
#define UDP_RECV_TRAINS 8
#define UDP_RECV_TRAIN_BYTES 16384 /* mean message size from which on they are trains */
#define UDP_RECV_BUFFER_BYTES 65536
#define UDP_RECV_KEEP (10 * HD_SECOND) /* how long buffers keep pages touched by trains */
#define UDP_RECV_PACKETS_MAX 2048 /* passed to the core at once */
#define UDP_RECV_ROUNDS_MAX 4 /* recvmmsg calls before the core's timers are served */

#define UDP_SEND_PACKETS_MAX 512 /* queued before a flush */
#define UDP_HEAD_BYTES_MAX HD_PACKET_BYTES_MAX
#define UDP_HEADS_BYTES 262144
#define UDP_GSO_SEGMENTS_MAX 64
#define UDP_GSO_BYTES_MAX 65000
/* The least of a train: shapers take those apart that are longer than their bucket, often 15 kB, and a full queue then
 * drops the end of a train. */
#define UDP_GSO_BYTES_LEAST 14800
#define UDP_CHUNKS_SHARE(bytes)                                                                    \
	((uint64_t)(bytes) / 8 * 7) /* of the send buffer; the rest is for control */
#define UDP_STRANGERS_SHARE(bytes) ((uint64_t)(bytes) / 4)
#define UDP_PACKET_COST 768 /* approximate cost of a packet in the send buffer besides its bytes */
#define UDP_BACKLOG_BYTES (2u << 20)
#define UDP_BACKLOG_PACKETS 2048
#define UDP_BACKLOG_WAIT HD_MS /* then the socket is tried again */
#define UDP_BACKLOG_WAIT_LEAST (HD_MS / 4)
#define UDP_GSO_PAUSE HD_SECOND /* after a failure; doubled by each further one */
#define UDP_GSO_PAUSE_MAX (64 * HD_SECOND)
#define UDP_ROOM_LEAST 32768 /* two trains */
#define UDP_ROOM_WINDOW (HD_MS / 2) /* a rate is measured for so long */
#define UDP_ROOM_STUCK                                                                             \
	(20 * HD_MS) /* bytes that have not moved for so long are not those of a queue */

/* While packets have come at this rate, a millisecond, for this number of windows, */
#define UDP_HOLD_RATE 4
#define UDP_HOLD_WINDOW (2 * HD_MS)
#define UDP_HOLD_WINDOWS 2
/* the thread sleeps until this number more have come, but not longer than this. */
#define UDP_HOLD_PACKETS 16
#define UDP_HOLD_MOST HD_MS
#define UDP_HOLD_SEEN (2 * HD_MS) /* a packet's time of arrival is at most this long ago */
/* If that takes less, the kernel hands over many at once anyway, and congestion windows are short for such rates. */
#define UDP_HOLD_LEAST (300 * HD_US)

enum udp_class {
	UDP_CONTROL,
	UDP_STRANGER,
	UDP_CHUNK, /* has a payload */
	UDP_CLASSES
};

struct udp_outgoing {
	struct hd_addr peer;
	uint8_t class; /* enum udp_class */
	uint32_t head; /* offset in heads */
	uint32_t head_bytes;
	const void *payload;
	uint32_t payload_bytes;
};

struct udp_sender {
	bool gso;
	uint32_t train_bytes; /* of a message, at most */
	hd_ns gso_back_at; /* packets leave one by one until then, as GSO failed; 0: GSO is used */
	hd_ns gso_pause; /* the last such pause; 0: GSO has worked since */
	int fd;
	uint32_t count;
	uint32_t heads_used;
	uint32_t shared; /* packets in the queue other than control: they need room */
	uint32_t buffer_bytes; /* of the socket */
	struct udp_outgoing queue[UDP_SEND_PACKETS_MAX];
	/* Built by a flush. */
	struct udp_outgoing sorted[UDP_SEND_PACKETS_MAX];
	struct mmsghdr message[UDP_SEND_PACKETS_MAX];
	struct iovec iovec[UDP_SEND_PACKETS_MAX * 2];
	struct sockaddr_in name[UDP_SEND_PACKETS_MAX];
	uint32_t packets[UDP_SEND_PACKETS_MAX]; /* in each message */
	union {
		struct cmsghdr align;
		uint8_t bytes[CMSG_SPACE(sizeof(uint16_t))];
	} control[UDP_SEND_PACKETS_MAX];
	uint8_t heads[UDP_HEADS_BYTES];
};

/* How many bytes of chunks the kernel may hold. All bytes are by its own accounting. */
struct udp_room {
	uint64_t most; /* of the send buffer */
	uint64_t limit;
	uint64_t rate; /* bytes/s that the device takes from us; 0: unknown */
	/* The window in which the rate is measured, while chunks wait. */
	hd_ns from; /* 0: none wait */
	uint64_t held, handed; /* at its begin, and since */
	bool was_empty;
	/* Of what the kernel holds, what is not in a device's queue: packets for hosts whose address it does not find. */
	uint64_t stuck;
	uint64_t last; /* held when it was last looked at */
	hd_ns moved_at; /* when it last became less */
};

/* Chunks that wait for room, in order. Whole packets, one after the other, in `bytes`. */
struct udp_waiting {
	struct hd_addr peer;
	uint32_t at, bytes;
};

struct udp_backlog {
	uint8_t *bytes; /* NULL: none was ever needed */
	uint32_t used; /* of bytes: the waiting ones begin with the first packet's, and end here */
	uint32_t first, count; /* waiting[first .. count) */
	hd_ns retry_at; /* HD_NEVER: nothing waits */
	struct udp_waiting waiting[UDP_BACKLOG_PACKETS];
};

struct udp_receiver {
	int fd;
	uint32_t overflow_seen; /* the socket's counter, as last reported */
	bool trains; /* the last messages were long GRO trains */
	hd_ns give_back_at;
	struct mmsghdr message[UDP_RECV_BUFFERS];
	struct iovec iovec[UDP_RECV_BUFFERS];
	struct sockaddr_in name[UDP_RECV_BUFFERS];
	union {
		struct cmsghdr align;
		uint8_t
			bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint32_t))
			      + CMSG_SPACE(sizeof(struct timespec))];
	} control[UDP_RECV_BUFFERS];
	hd_ns real_ahead; /* CLOCK_REALTIME is ahead of CLOCK_MONOTONIC by this */
	struct hd_packet packets[UDP_RECV_PACKETS_MAX];
	uint8_t *buffers;
};

struct udp_hold {
	hd_ns until; /* the socket is not looked at before */
	hd_ns span; /* of a hold; 0: none */
	hd_ns from; /* the present window's begin, */
	uint64_t count; /* and its packets so far */
	uint32_t windows; /* in a row with many packets */
};

struct hd_udp {
	struct hd_sink sink; /* first: the sink's functions cast back */
	struct hd_udp_config config;
	struct hd_loop loop;
	struct hd_addr bound;
	uint32_t receive_window;
	struct hd_udp_stats stats;
	struct udp_receiver receiver;
	struct udp_sender sender;
	struct udp_room room;
	struct udp_backlog backlog;
	struct udp_hold hold;
	hd_ns called_at; /* the core was called with packets */
};

static inline uint32_t udp_outgoing_bytes(const struct udp_outgoing *out) {
	return out->head_bytes + out->payload_bytes;
}

void udp_sender_init(struct udp_sender *sender, int fd, bool gso);
/* Implements hd_sink.send. */
void udp_send(
	struct hd_sink *sink,
	struct hd_addr peer,
	const void *head,
	size_t head_bytes,
	const void *payload,
	size_t payload_bytes
);
/* Implements hd_sink.send_stranger. */
void udp_send_stranger(struct hd_sink *sink, struct hd_addr peer, const void *packet, size_t bytes);
/* Sends what there is room for; remaining chunks go into the backlog. */
void udp_flush(struct hd_udp *udp);

/* --- hd_udp_hold.c ----------------------------------------------------------------------------- */
/* `packets` came when the socket was looked at. whole_at: what the core expects (hd_sink_expect()); HD_NEVER:
 * no chunks came. */
void udp_hold_note(struct udp_hold *hold, hd_ns now, uint32_t packets, hd_ns whole_at);

/* --- hd_udp_backlog.c ------------------------------------------------------------------------- */
void udp_room_init(struct udp_room *room, uint32_t buffer_bytes);
/* While chunks wait: the kernel holds so much, before more is handed to it, and afterwards. It was asked between these
 * times. */
void udp_room_look(struct udp_room *room, uint64_t held, hd_ns from, hd_ns to);
void udp_room_gave(struct udp_room *room, uint64_t before, uint64_t after);
/* None wait any more. */
void udp_room_rest(struct udp_room *room);
/* Whether there is nothing in a device's queue. */
bool udp_room_empty(const struct udp_room *room, uint64_t held);
/* Bytes of a train. */
uint32_t udp_room_train(const struct udp_room *room);
/* How long chunks wait until the kernel is asked again: half of what it may hold has left by then. */
hd_ns udp_room_wait(const struct udp_room *room);
/* Bytes that the kernel accounts to the socket now. */
uint64_t udp_bytes_held(const struct hd_udp *udp);
/* The end of the packets of the queue from `first` on that may be sent now. parts: the number of parts that the device
 * has taken at once just before. */
uint32_t udp_room_end(const struct hd_udp *udp, uint32_t first, uint64_t held, uint32_t parts);
/* A packet of the queue is not sent now: to the backlog, or lost. */
void udp_put_off(struct hd_udp *udp, const struct udp_outgoing *out);
bool udp_backlog_waits(const struct hd_udp *udp);
/* Moves the oldest waiting chunks into the empty queue, as many as there is room for. */
void udp_backlog_take(struct hd_udp *udp, uint64_t held);
/* The first `count` of these are sent. */
void udp_backlog_sent(struct hd_udp *udp, uint32_t count);

int udp_receiver_init(struct udp_receiver *receiver, int fd);
void udp_receiver_fini(struct udp_receiver *receiver);
/* Receives once and passes packets to the node. 1: there may be more, 0: the socket is empty, or -errno. */
int udp_receive(struct hd_udp *udp, struct hd_node node);

#endif
