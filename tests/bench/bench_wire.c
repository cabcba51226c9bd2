/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many packets one core can read: headers alone, authenticated messages, and whole sessions of an
 * endpoint with 1,000 peers. Each figure stands beside its target and beside a memcpy of the bytes that
 * were looked at. Best of several rounds, in seconds of this process on the CPU.
 */
#include "hd_endpoint.h"
#include "hd_wire.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PACKETS 1024
#define PACKET_ROOM 1536
#define ROUNDS 8
#define PEERS 1000

static double now_s(void) {
	struct timespec at;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
	return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static uint8_t packets[PACKETS][PACKET_ROOM];
static size_t packet_bytes[PACKETS];
static const uint8_t key[HD_KEY_BYTES] = {1, 2, 3};
static volatile uint64_t sink_hole;

/* One pass over all packets; returns something that depends on every result. */
typedef uint64_t (*pass_fn)(void);

static uint64_t pass_chunks(void) {
	uint64_t sum = 0;

	for (size_t i = 0; i < PACKETS; i++) {
		struct hd_chunk_header header;
		const uint8_t *payload;
		size_t bytes;

		if (hd_chunk_decode(packets[i], packet_bytes[i], &header, &payload, &bytes) < 0)
			abort();
		sum += header.token + header.chunk + bytes;
	}
	return sum;
}

static uint64_t pass_controls(void) {
	uint64_t sum = 0;

	for (size_t i = 0; i < PACKETS; i++) {
		struct hd_control_header header;
		const uint8_t *body;
		size_t bytes;

		if (hd_control_decode(packets[i], packet_bytes[i], &header, &body, &bytes) < 0)
			abort();
		sum += header.sequence + header.ack + bytes;
	}
	return sum;
}

static uint64_t pass_messages(void) {
	uint64_t sum = 0;

	for (size_t i = 0; i < PACKETS; i++) {
		struct hd_control_header header;
		struct hd_message message;
		const uint8_t *body;
		size_t bytes;

		if (hd_control_decode(packets[i], packet_bytes[i], &header, &body, &bytes) < 0
		    || !hd_auth_verify(key, packets[i], packet_bytes[i])
		    || hd_message_decode(header.kind, body, bytes, &message) < 0)
			abort();
		sum += message.request.round;
	}
	return sum;
}

static size_t copy_bytes;

static uint64_t pass_copy(void) {
	static uint8_t copy[PACKETS][PACKET_ROOM];

	for (size_t i = 0; i < PACKETS; i++)
		memcpy(copy[i], packets[i], copy_bytes);
	return copy[sink_hole % PACKETS][0];
}

static double best_rate(pass_fn pass) {
	double best = 0;

	for (int round = 0; round < ROUNDS; round++) {
		double began = now_s(), took;
		uint64_t count = 0;

		do {
			sink_hole += pass();
			count += PACKETS;
			took = now_s() - began;
		} while (took < 0.05);
		if ((double)count / took > best)
			best = (double)count / took;
	}
	return best;
}

static void report(const char *what, pass_fn pass, double target, size_t bytes) {
	double rate = best_rate(pass), copy;

	copy_bytes = bytes;
	copy = best_rate(pass_copy);
	printf("wire: %-42s %8.2f M/s (target %.1f M/s; memcpy of the same %zu bytes %.1f M/s)\n",
	       what,
	       rate / 1e6,
	       target / 1e6,
	       bytes,
	       copy / 1e6);
}

static void fill_chunks(void) {
	for (size_t i = 0; i < PACKETS; i++) {
		struct hd_chunk_header header = {
			.job = 1,
			.round = (uint32_t)i,
			.chunk = (uint32_t)i,
			.count = HD_CHUNK_BYTES_DEFAULT / 4,
			.token = i,
		};

		hd_chunk_encode(&header, packets[i]);
		packet_bytes[i] = HD_CHUNK_HEADER_BYTES + HD_CHUNK_BYTES_DEFAULT;
	}
}

static struct hd_message request(uint32_t round) {
	struct hd_message message = {.kind = HD_MSG_REQUEST};

	message.request.job = 1;
	message.request.worker = 2;
	message.request.round = round;
	message.request.bytes = 1 << 20;
	return message;
}

static void fill_controls(void) {
	for (size_t i = 0; i < PACKETS; i++) {
		struct hd_control_header header = {
			.type = HD_PACKET_CONTROL,
			.kind = HD_MSG_REQUEST,
			.session = 5,
			.sequence = i,
			.message = (uint32_t)i,
		};
		struct hd_message message = request((uint32_t)i);
		int body = hd_message_encode(&message, packets[i] + HD_CONTROL_HEADER_BYTES, 1000);
		size_t bytes = HD_CONTROL_HEADER_BYTES + (size_t)body;

		hd_control_encode(&header, packets[i]);
		hd_auth_sign(key, packets[i], bytes, packets[i] + bytes);
		packet_bytes[i] = bytes + HD_TAG_BYTES;
	}
}

/* --- an endpoint with many peers --------------------------------------------------------------- */

struct parcel {
	struct hd_addr from, to;
	size_t bytes;
	uint8_t data[256];
};

struct side {
	struct hd_sink sink;
	struct hd_addr addr;
	struct hd_endpoint *endpoint;
	struct hd_session *session;
	bool answers;
	uint64_t messages;
};

static struct side server, clients[PEERS];
static struct parcel *mail;
static size_t mail_count, mail_room;

static void
post(struct hd_sink *sink,
     struct hd_addr peer,
     const void *head,
     size_t head_bytes,
     const void *payload,
     size_t payload_bytes) {
	struct side *side = (struct side *)sink;
	struct parcel *parcel;

	(void)payload;
	if (payload_bytes > 0 || head_bytes > sizeof parcel->data || mail_count == mail_room)
		abort();
	parcel = &mail[mail_count++];
	parcel->from = side->addr;
	parcel->to = peer;
	parcel->bytes = head_bytes;
	memcpy(parcel->data, head, head_bytes);
}

static void on_opened(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink) {
	((struct side *)owner)->session = session;
}

static void on_message(
	void *owner,
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
) {
	struct side *side = owner;
	struct hd_message answer = {.kind = HD_MSG_GO, .go = {.job = 1, .token = 2}};

	side->messages++;
	if (side->answers && hd_session_send(session, &answer, now, sink) < 0)
		abort();
}

static void on_closed(
	void *owner,
	struct hd_session *session,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	abort();
}

static const struct hd_endpoint_ops ops = {on_opened, on_message, on_closed};

static void start(struct side *side, const struct hd_keyring *ring, uint32_t number, bool accepts) {
	struct hd_endpoint_config config = {
		.name = accepts ? "server" : "client",
		.role = accepts ? HD_ROLE_SERVER : HD_ROLE_WORKER,
		.key_id = 1,
		.keys = ring,
		.accepts = accepts,
		.sessions_max = accepts ? 0 : 1,
		.ops = &ops,
		.owner = side,
	};

	memcpy(config.seed, &number, sizeof number);
	side->sink.send = post;
	side->addr = (struct hd_addr){0x0a000000 + number, 4773};
	if (hd_endpoint_create(&config, &side->endpoint) < 0)
		abort();
}

/* Delivers everything in the post. Returns the seconds that the server spent on it. */
static double deliver(hd_ns now) {
	double spent = 0;

	while (mail_count > 0) {
		static struct parcel *batch;
		size_t count = mail_count;
		double began;

		if (!batch)
			batch = malloc(mail_room * sizeof *batch);
		memcpy(batch, mail, count * sizeof *mail);
		mail_count = 0;
		began = now_s();
		for (size_t i = 0; i < count; i++) {
			struct hd_packet packet
				= {.peer = batch[i].from,
				   .data = batch[i].data,
				   .bytes = batch[i].bytes};

			if (hd_addr_equal(batch[i].to, server.addr))
				hd_endpoint_receive(server.endpoint, now, &packet, &server.sink);
		}
		spent += now_s() - began;
		for (size_t i = 0; i < count; i++) {
			struct hd_packet packet
				= {.peer = batch[i].from,
				   .data = batch[i].data,
				   .bytes = batch[i].bytes};
			uint32_t client = batch[i].to.ipv4 - clients[0].addr.ipv4;

			if (client < PEERS)
				hd_endpoint_receive(
					clients[client].endpoint,
					now,
					&packet,
					&clients[client].sink
				);
		}
	}
	return spent;
}

/* Advances the time of all nodes. Returns the seconds that the server spent on it. */
static double tick(hd_ns now) {
	double began = now_s(), spent;

	hd_endpoint_tick(server.endpoint, now, &server.sink);
	spent = now_s() - began;
	for (size_t i = 0; i < PEERS; i++)
		if (hd_endpoint_deadline(clients[i].endpoint) <= now)
			hd_endpoint_tick(clients[i].endpoint, now, &clients[i].sink);
	return spent + deliver(now);
}

static void run_sessions(hd_ns *now, bool answers) {
	double spent = 0, began = now_s();
	uint64_t before = server.messages;

	server.answers = answers;
	while (now_s() - began < 2) {
		for (size_t i = 0; i < PEERS; i++) {
			struct hd_message message = request(1);

			if (hd_session_send(clients[i].session, &message, *now, &clients[i].sink)
			    < 0)
				abort();
		}
		spent += deliver(*now);
		*now += HD_MS; /* a thousand messages a second of each peer */
		spent += tick(*now);
	}
	printf("wire: endpoint, %d sessions, %-18s %8.2f M messages/s (target 0.5 M/s)\n",
	       PEERS,
	       answers ? "each answered:" : "acknowledged:",
	       (double)(server.messages - before) / spent / 1e6);
}

static void bench_sessions(const struct hd_keyring *ring) {
	hd_ns now = HD_SECOND;
	size_t before;

	mail_room = (size_t)16 * PEERS;
	mail = malloc(mail_room * sizeof *mail);
	if (!mail)
		abort();
	start(&server, ring, 0, true);
	for (uint32_t i = 0; i < PEERS; i++) {
		start(&clients[i], ring, i + 1, false);
		if (hd_endpoint_connect(clients[i].endpoint, server.addr, now, &clients[i].session)
		    < 0)
			abort();
	}
	tick(now);
	for (int i = 0; i < 100; i++)
		tick(now += 10 * HD_MS);
	if (hd_endpoint_stats(server.endpoint)->opened != PEERS)
		abort();
	run_sessions(&now, false);
	run_sessions(&now, true);
	for (size_t i = 0; i < PEERS; i++)
		hd_endpoint_destroy(clients[i].endpoint);
	before = mallinfo2().uordblks;
	hd_endpoint_destroy(server.endpoint);
	printf("wire: endpoint, %d idle sessions: %.0f bytes each (target 2048)\n",
	       PEERS,
	       (double)(before - mallinfo2().uordblks - (size_t)2 * HD_MESSAGE_BYTES_MAX) / PEERS);
	free(mail);
}

int main(void) {
	struct hd_key ring_key = {.id = 1, .secret = {1}};
	struct hd_keyring ring = {1, &ring_key};
	struct hd_entropy entropy;

	hd_entropy_init(&entropy, key); /* lets libsodium choose its code */
	fill_chunks();
	report("chunk headers decoded", pass_chunks, 10e6, HD_CHUNK_HEADER_BYTES);
	fill_controls();
	report("control headers decoded", pass_controls, 10e6, HD_CONTROL_HEADER_BYTES);
	report("REQUEST messages authenticated and decoded", pass_messages, 0.5e6, packet_bytes[0]);
	bench_sessions(&ring);
	return 0;
}
