/* SPDX-License-Identifier: BSD-3-Clause */
/* Probes: both ends, and what the view makes of them. */
#include "hd_probe.h"
#include "hd_view.h"
#include "hd_wire.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MBIT 1e6

#define TOKEN (HD_TOKEN_SEALED | 77)

static struct hd_key keys[2] = {{.id = 7, .secret = {1, 2, 3}}, {.id = 8, .secret = {4}}};
static const struct hd_keyring ring = {2, keys};
#define PROBES                                                                                     \
	{ .keys = &ring, .key_id = 7 }

struct kept {
	struct hd_sink sink; /* first: send casts back */
	uint32_t count;
	uint8_t data[HD_PROBE_PACKETS][HD_PROBE_PACKET_BYTES];
	struct hd_addr to;
};

static void keep_packet(
	struct hd_sink *sink,
	struct hd_addr peer,
	const void *head,
	size_t head_bytes,
	const void *payload,
	size_t payload_bytes
) {
	struct kept *kept = (struct kept *)sink;

	assert_true(kept->count < HD_PROBE_PACKETS);
	assert_int_equal(head_bytes + payload_bytes, HD_PROBE_PACKET_BYTES);
	memcpy(kept->data[kept->count], head, head_bytes);
	memcpy(kept->data[kept->count++] + head_bytes, payload, payload_bytes);
	kept->to = peer;
}

static const struct hd_msg_probe go
	= {.token = TOKEN,
	   .send = 1,
	   .peer_ipv4 = 9,
	   .peer_port = 4773,
	   .packets = HD_PROBE_PACKETS};
static const struct hd_msg_probe expect_it = {.token = TOKEN, .packets = HD_PROBE_PACKETS};

static struct kept sent_probe(void) {
	struct kept kept = {.sink.send = keep_packet};
	struct hd_probes trains = PROBES;

	hd_probes_probe(&trains, HD_SECOND, &go, &kept.sink);
	assert_int_equal(kept.count, HD_PROBE_PACKETS);
	assert_int_equal(trains.sent, 1);
	return kept;
}

static bool
arrives(struct hd_probes *trains,
	const struct kept *kept,
	uint32_t index,
	hd_ns at,
	struct hd_msg_probed *probed) {
	const struct hd_packet packet
		= {.peer = {1, 2}, .data = kept->data[index], .bytes = HD_PROBE_PACKET_BYTES};

	return hd_probes_packet(trains, at, &packet, probed);
}

/* Packets that a shaper's bucket lets through at once are skipped; then one packet every 120 us. */
static void measures_spacing(void **state) {
	const struct kept kept = sent_probe();
	struct hd_probes trains = PROBES;
	struct hd_msg_probed probed = {0};
	hd_ns at = HD_SECOND;
	bool ended = false;

	(void)state;
	assert_int_equal(kept.to.ipv4, 9);
	hd_probes_probe(&trains, 0, &expect_it, NULL);
	for (uint32_t i = 0; i < HD_PROBE_PACKETS; i++) {
		assert_false(ended);
		ended = arrives(&trains, &kept, i, at, &probed);
		at += i < 10 ? HD_US : 120 * HD_US;
	}
	assert_true(ended);
	assert_true(probed.token == TOKEN);
	assert_int_equal(probed.packets, HD_PROBE_PACKETS - HD_PROBE_SKIP - 1);
	assert_int_equal(probed.moments, probed.packets);
	assert_int_equal(probed.duration_ns, (hd_ns)probed.packets * 120 * HD_US);
	/* It is over: its packets are not expected any more. */
	assert_false(arrives(&trains, &kept, HD_PROBE_PACKETS - 1, at, &probed));
	assert_int_equal(trains.dropped, 1);
	assert_int_equal(trains.received, 1);
}

/* A receiver that slept finds all of it at one moment, and says so. */
static void found_at_once(void **state) {
	const struct kept kept = sent_probe();
	struct hd_probes trains = PROBES;
	struct hd_msg_probed probed = {0};
	bool ended = false;

	(void)state;
	hd_probes_probe(&trains, 0, &expect_it, NULL);
	for (uint32_t i = 0; i < HD_PROBE_PACKETS; i++)
		ended = arrives(&trains, &kept, i, HD_SECOND, &probed);
	assert_true(ended);
	assert_int_equal(probed.moments, 0);
	assert_int_equal(probed.packets, 0);
	assert_int_equal(probed.duration_ns, 0);
}

static void losses_and_strangers(void **state) {
	struct kept kept = sent_probe();
	struct hd_probes trains = PROBES;
	struct hd_msg_probed probed = {0};
	struct hd_packet cut
		= {.peer = {1, 2}, .data = kept.data[0], .bytes = HD_PROBE_PACKET_BYTES - 1};

	(void)state;
	/* Not expected. */
	assert_false(arrives(&trains, &kept, 0, 1, &probed));
	hd_probes_probe(&trains, 0, &expect_it, NULL);
	assert_false(hd_probes_packet(&trains, 1, &cut, &probed));
	cut.bytes = 3;
	assert_false(hd_probes_packet(&trains, 1, &cut, &probed));
	assert_int_equal(trains.dropped, 3);
	/* A copy counts once; without the last packet there is no report. */
	assert_false(arrives(&trains, &kept, 20, 10 * HD_US, &probed));
	assert_false(arrives(&trains, &kept, 20, 20 * HD_US, &probed));
	assert_int_equal(trains.dropped, 4);
	assert_false(arrives(&trains, &kept, HD_PROBE_PACKETS - 2, 30 * HD_US, &probed));
	assert_int_equal(trains.received, 0);
	assert_true(arrives(&trains, &kept, HD_PROBE_PACKETS - 1, 40 * HD_US, &probed));
	assert_int_equal(probed.packets, 2);
}

/* An attacker that sees the token cannot report about the link: any bit that differs, another key, and a token that is
 * not sealed. */
static void forged(void **state) {
	struct kept kept = sent_probe();
	struct hd_probes trains = PROBES, unsealed = PROBES;
	struct hd_msg_probed probed = {0};
	struct hd_msg_probe open = expect_it;
	uint64_t dropped = 0;

	(void)state;
	hd_probes_probe(&trains, 0, &expect_it, NULL);
	for (size_t at = 3; at < HD_PROBE_PACKET_BYTES; at += at < 80 ? 1 : 97) {
		kept.data[HD_PROBE_PACKETS - 1][at] ^= 1;
		assert_false(arrives(&trains, &kept, HD_PROBE_PACKETS - 1, HD_SECOND, &probed));
		kept.data[HD_PROBE_PACKETS - 1][at] ^= 1;
		dropped += at > 3;
	}
	assert_true(trains.dropped >= dropped);
	assert_true(arrives(&trains, &kept, HD_PROBE_PACKETS - 1, HD_SECOND, &probed));
	open.token = 77;
	hd_probes_probe(&unsealed, 0, &open, NULL);
	assert_int_equal(unsealed.refused, 1);
}

/* No message makes a node send more than its bound, or an impossible train. */
static void refusals(void **state) {
	static struct kept kept;
	struct hd_probes trains = PROBES;
	struct hd_msg_probe probe = go;

	(void)state;
	kept = (struct kept){.sink.send = keep_packet};
	probe.packets = HD_PROBE_PACKETS + 1;
	hd_probes_probe(&trains, HD_SECOND, &probe, &kept.sink);
	probe.packets = HD_PROBE_SKIP;
	hd_probes_probe(&trains, HD_SECOND, &probe, &kept.sink);
	probe = go;
	probe.token = 0;
	hd_probes_probe(&trains, HD_SECOND, &probe, &kept.sink);
	probe = go;
	probe.peer_ipv4 = 0;
	hd_probes_probe(&trains, HD_SECOND, &probe, &kept.sink);
	assert_int_equal(kept.count, 0);
	assert_int_equal(trains.refused, 4);
	hd_probes_probe(&trains, HD_SECOND, &go, &kept.sink);
	hd_probes_probe(&trains, HD_SECOND + HD_PROBE_GAP_NS - 1, &go, &kept.sink);
	assert_int_equal(kept.count, HD_PROBE_PACKETS);
	assert_int_equal(trains.refused, 5);
	kept.count = 0;
	hd_probes_probe(&trains, HD_SECOND + HD_PROBE_GAP_NS, &go, &kept.sink);
	assert_int_equal(kept.count, HD_PROBE_PACKETS);
}

/* --- the view: a star of links 0.. towards hubs 10.. --- */

static enum hd_view_verdict
train(struct hd_view *view, hd_ns at, uint32_t target, uint32_t other, double mbps) {
	const uint32_t path[2] = {target, other};

	return hd_view_probe(
		view,
		&(struct hd_view_probe){
			.at = at,
			.rate_bps = mbps * MBIT,
			.exact = true,
			.path_count = 2,
			.path = path,
			.target = target,
			.hub = target >= 10,
		}
	);
}

static void assert_estimate(const struct hd_view *view, uint32_t link, double mbps) {
	double is = hd_view_estimate(view, link).capacity_bps / MBIT;

	if (fabs(is - mbps) > 0.001 * mbps)
		fail_msg("link %u: %g instead of %g", link, is, mbps);
}

static void raises_at_once(void **state) {
	struct hd_view *view = NULL;

	(void)state;
	assert_int_equal(hd_view_create(200 * MBIT, &view), 0);
	train(view, HD_SECOND, 0, 10, 100);
	train(view, HD_SECOND, 0, 11, 100);
	train(view, HD_SECOND, 0, 12, 100);
	assert_estimate(view, 0, 100);
	assert_int_equal(train(view, 2 * HD_SECOND, 0, 10, 180), HD_VIEW_SETTLED);
	assert_estimate(view, 0, 180);
	assert_true(hd_view_proven(view, 0) == 2 * HD_SECOND);
	/* One that only says "at least" raises, and proves nothing. */
	const uint32_t path[1] = {0};
	hd_view_probe(
		view,
		&(struct hd_view_probe
		){.at = 3 * HD_SECOND, .rate_bps = 250 * MBIT, .path_count = 1, .path = path}
	);
	assert_estimate(view, 0, 250);
	assert_true(hd_view_proven(view, 0) == 2 * HD_SECOND);
	hd_view_destroy(view);
}

/* Slow over every way, and two ways alike: it is the link. Two narrow others leave a hub what it is. */
static void who_is_slow(void **state) {
	struct hd_view *view = NULL;
	hd_ns at = HD_SECOND;

	(void)state;
	assert_int_equal(hd_view_create(200 * MBIT, &view), 0);
	for (uint32_t link = 0; link < 3; link++)
		train(view, at, link, 10, 200);
	assert_estimate(view, 0, 200);
	assert_int_equal(train(view, at += HD_SECOND, 0, 11, 90), HD_VIEW_LOWER);
	assert_int_equal(train(view, at += HD_SECOND, 0, 12, 50), HD_VIEW_LOWER);
	assert_estimate(view, 0, 200);
	assert_int_equal(train(view, at += HD_SECOND, 0, 13, 90), HD_VIEW_SETTLED);
	assert_estimate(view, 0, 90);
	/* The hub: each way as slow as the host at its other end. */
	at += 20 * HD_SECOND;
	train(view, at, 10, 1, 60);
	train(view, at, 10, 2, 120);
	train(view, at, 10, 0, 90);
	assert_estimate(view, 10, 200);
	hd_view_destroy(view);
}

/* From host 0 over the trunk 5 to a host's link. */
static void cross(struct hd_view *view, hd_ns at, uint32_t towards, double mbps) {
	const uint32_t path[3] = {0, 5, towards};

	hd_view_probe(
		view,
		&(struct hd_view_probe){
			.at = at,
			.rate_bps = mbps * MBIT,
			.exact = true,
			.path_count = 3,
			.path = path,
			.target = 0,
		}
	);
}

/* Samples of a trunk from trains that cross it: three slow ones between hosts whose links were proven to be wide. */
static void trunks(void **state) {
	struct hd_view *view = NULL;
	hd_ns at = 100 * HD_SECOND;

	(void)state;
	assert_int_equal(hd_view_create(200 * MBIT, &view), 0);
	/* Nothing is known of the other end: it may be that. */
	train(view, at, 0, 10, 200);
	for (int i = 0; i < 3; i++)
		cross(view, at += HD_SECOND, 11, 90);
	assert_estimate(view, 5, 200);
	train(view, at += HD_SECOND, 0, 10, 200);
	train(view, at += HD_SECOND, 11, 12, 200);
	cross(view, at += HD_SECOND, 11, 90);
	assert_estimate(view, 5, 90);
	assert_true(hd_view_proven(view, 5) == at);
	assert_estimate(view, 0, 200);
	/* It grows with the first that carries more, and falls with the third. */
	cross(view, at += HD_SECOND, 11, 150);
	assert_estimate(view, 5, 150);
	cross(view, at += HD_SECOND, 11, 60);
	cross(view, at += HD_SECOND, 11, 62);
	assert_estimate(view, 5, 150);
	cross(view, at += HD_SECOND, 11, 61);
	assert_estimate(view, 5, 62);
	/* A capacity that was proven long ago may have changed since. */
	at += 20 * HD_SECOND;
	for (int i = 0; i < 3; i++)
		cross(view, at += HD_SECOND, 11, 30);
	assert_estimate(view, 5, 62);
	hd_view_destroy(view);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(measures_spacing),
		cmocka_unit_test(found_at_once),
		cmocka_unit_test(losses_and_strangers),
		cmocka_unit_test(forged),
		cmocka_unit_test(refusals),
		cmocka_unit_test(raises_at_once),
		cmocka_unit_test(who_is_slow),
		cmocka_unit_test(trunks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
