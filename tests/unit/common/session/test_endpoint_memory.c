/* SPDX-License-Identifier: BSD-3-Clause */
/* Steady traffic of an open session allocates nothing: counted at the linker. */
#include "allocations.h"
#include "hd_endpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct side {
	struct hd_sink sink;
	struct hd_addr addr;
	struct hd_endpoint *endpoint;
	struct hd_session *session;
	unsigned messages;
};

struct parcel {
	struct side *to;
	size_t bytes;
	uint8_t data[1500];
};

static struct side server, client;
static struct parcel mail[256];
static size_t mail_count;

static void
post(struct hd_sink *sink,
     struct hd_addr peer,
     const void *head,
     size_t head_bytes,
     const void *payload,
     size_t payload_bytes) {
	struct parcel *parcel = &mail[mail_count++];

	assert_true(mail_count < 256 && payload_bytes == 0);
	parcel->to = hd_addr_equal(peer, server.addr) ? &server : &client;
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
	((struct side *)owner)->messages++;
}

static void on_closed(
	void *owner,
	struct hd_session *session,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	fail();
}

static void start(struct side *side, const struct hd_keyring *ring, uint8_t number) {
	static const struct hd_endpoint_ops ops = {on_opened, on_message, on_closed};
	struct hd_endpoint_config config = {
		.name = "x",
		.role = HD_ROLE_WORKER,
		.keys = ring,
		.seed = {number},
		.accepts = true,
		.ops = &ops,
		.owner = side,
	};

	side->sink.send = post;
	side->addr = (struct hd_addr){number, 1};
	assert_int_equal(hd_endpoint_create(&config, &side->endpoint), 0);
}

/* The packet at index `swapped` changes places with its successor: reordering is steady traffic too. */
static void deliver(hd_ns now, size_t swapped) {
	static struct parcel batch[256];

	while (mail_count > 0) {
		size_t count = mail_count;

		memcpy(batch, mail, count * sizeof mail[0]);
		mail_count = 0;
		for (size_t i = 0; i < count; i++) {
			size_t k = i;
			struct hd_packet packet;
			struct side *to;

			if (swapped + 1 < count && (i == swapped || i == swapped + 1))
				k = 2 * swapped + 1 - i;
			to = batch[k].to;
			packet = (struct hd_packet
			){.peer = to == &server ? client.addr : server.addr,
			  .data = batch[k].data,
			  .bytes = batch[k].bytes};
			hd_endpoint_receive(to->endpoint, now, &packet, &to->sink);
		}
	}
}

static void exchange(hd_ns *now, unsigned rounds) {
	static const uint8_t json[3000];
	struct hd_message small = {.kind = HD_MSG_GO};
	struct hd_message large = {.kind = HD_MSG_TABLE, .table.json = {json, sizeof json}};

	for (unsigned i = 0; i < rounds; i++) {
		for (int k = 0; k < 5; k++)
			assert_int_equal(
				hd_session_send(client.session, &small, *now, &client.sink), 0
			);
		assert_int_equal(hd_session_send(server.session, &large, *now, &server.sink), 0);
		deliver(*now, i % 8);
		*now += HD_MS;
		hd_endpoint_tick(server.endpoint, *now, &server.sink);
		hd_endpoint_tick(client.endpoint, *now, &client.sink);
		deliver(*now, SIZE_MAX - 1);
	}
}

static void test_steady_traffic_allocates_nothing(void **state) {
	struct hd_key key = {.id = 0, .secret = {1}};
	struct hd_keyring ring = {1, &key};
	struct hd_session *session;
	hd_ns now = HD_SECOND;
	unsigned long before;

	(void)state;
	start(&server, &ring, 1);
	start(&client, &ring, 2);
	assert_int_equal(hd_endpoint_connect(client.endpoint, server.addr, now, &session), 0);
	hd_endpoint_tick(client.endpoint, now, &client.sink);
	deliver(now, SIZE_MAX - 1);
	assert_non_null(server.session);
	exchange(&now, 20); /* the pool of fragments fills */
	before = allocations;
	assert_true(before > 0); /* the count counts */
	exchange(&now, 2000);
	assert_int_equal(allocations, before);
	assert_int_equal(server.messages, 2020 * 5);
	assert_int_equal(client.messages, 2020);
	hd_endpoint_destroy(server.endpoint);
	hd_endpoint_destroy(client.endpoint);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steady_traffic_allocates_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
