/* SPDX-License-Identifier: BSD-3-Clause */
/* The link monitor's core over counters that the test turns, and the controller's side of its messages. */
#include "controller_net.h"
#include "hd_monitor.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* --- the core alone: what it says of what it counted --- */

struct world {
	struct hd_sink sink; /* first: send casts back */
	struct hd_monitor *monitor;
	struct hd_endpoint *controller;
	struct hd_session *session;
	struct hd_monitor_counts counts[HD_COUNTS_DIRECTIONS];
	bool broken;
	struct hd_addr sender;
	uint8_t packet[64][2048]; /* of one round, to be delivered after it */
	size_t bytes[64];
	struct hd_addr from[64];
	uint32_t packets, loads;
	struct hd_msg_load load;
	struct hd_msg_register_ registered;
	uint32_t registers;
	const char *refuse; /* the controller's answer to REGISTER; NULL: it takes it */
	uint32_t reported_bad, reported_good;
	char report_text[HD_TEXT_BYTES_MAX + 1];
	hd_ns now;
};

static const struct hd_addr monitor_addr = {1, 1}, controller_addr = {2, 2};

static int read_counts(void *owner, struct hd_monitor_counts counts[HD_COUNTS_DIRECTIONS]) {
	struct world *w = owner;

	memcpy(counts, w->counts, sizeof w->counts);
	return w->broken ? -5 : 0;
}

static void keep_packet(
	struct hd_sink *sink,
	struct hd_addr peer,
	const void *head,
	size_t head_bytes,
	const void *payload,
	size_t payload_bytes
) {
	struct world *w = (struct world *)sink;

	(void)peer;
	assert_true(w->packets < 64 && head_bytes + payload_bytes <= 2048);
	memcpy(w->packet[w->packets], head, head_bytes);
	if (payload_bytes)
		memcpy(w->packet[w->packets] + head_bytes, payload, payload_bytes);
	w->from[w->packets] = w->sender;
	w->bytes[w->packets++] = head_bytes + payload_bytes;
}

static void on_opened(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink) {
	struct world *w = owner;

	(void)now;
	(void)sink;
	w->session = session;
}

static void on_message(
	void *owner,
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_message answer = {.kind = HD_MSG_REGISTERED};
	struct world *w = owner;

	if (message->kind == HD_MSG_LOAD) {
		w->load = message->load;
		w->loads++;
	} else if (message->kind == HD_MSG_REGISTER) {
		w->registered = message->register_;
		w->registers++;
		if (w->refuse) {
			answer.kind = HD_MSG_REFUSE;
			(void
			)snprintf(answer.refuse.text, sizeof answer.refuse.text, "%s", w->refuse);
		}
		assert_int_equal(hd_session_send(session, &answer, now, sink), 0);
	}
}

static void on_closed(
	void *owner,
	struct hd_session *session,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	(void)owner;
	(void)session;
	(void)reason;
	(void)text;
	(void)now;
	(void)sink;
}

static const struct hd_endpoint_ops endpoint_ops = {on_opened, on_message, on_closed};

static void deliver(struct world *w) {
	while (w->packets) {
		static uint8_t copy[64][2048];
		struct hd_addr from[64];
		size_t bytes[64];
		uint32_t count = w->packets;

		memcpy(copy, w->packet, sizeof copy);
		memcpy(from, w->from, sizeof from);
		memcpy(bytes, w->bytes, sizeof bytes);
		w->packets = 0;
		for (uint32_t i = 0; i < count; i++) {
			bool to_controller = from[i].ipv4 == monitor_addr.ipv4;
			struct hd_packet p = {.peer = from[i], .data = copy[i], .bytes = bytes[i]};

			w->sender = to_controller ? controller_addr : monitor_addr;
			if (to_controller)
				hd_endpoint_receive(w->controller, w->now, &p, &w->sink);
			else
				hd_monitor_ops.receive(w->monitor, w->now, &p, 1, &w->sink);
		}
	}
}

/* Time goes on by a millisecond; each direction's counters grow by this many bytes. */
static void step(struct world *w, uint64_t ours, const uint64_t *flows, uint32_t count) {
	w->now += HD_MS;
	for (int direction = 0; direction < HD_COUNTS_DIRECTIONS; direction++) {
		w->counts[direction].ours += ours;
		for (uint32_t i = 0; i < count; i++)
			w->counts[direction].flows[i] += flows[i];
	}
	w->sender = monitor_addr;
	if (hd_monitor_ops.deadline(w->monitor) <= w->now)
		hd_monitor_ops.tick(w->monitor, w->now, &w->sink);
	w->sender = controller_addr;
	hd_endpoint_tick(w->controller, w->now, &w->sink);
	deliver(w);
}

static const struct hd_key key = {.id = 1, .secret = {7}};
static const struct hd_keyring keys = {.count = 1, .keys = (struct hd_key *)&key};
static const struct hd_monitor_source source = {read_counts};

static void report_text(void *owner, bool good, const char *text) {
	struct world *w = owner;

	w->reported_good += good;
	w->reported_bad += !good;
	(void)snprintf(w->report_text, sizeof w->report_text, "%s", text);
}

static void open_world(struct world *w) {
	struct hd_endpoint_config endpoint = {
		.name = "c",
		.role = HD_ROLE_CONTROLLER,
		.key_id = 1,
		.keys = &keys,
		.seed = {1},
		.accepts = true,
		.ops = &endpoint_ops,
		.owner = w,
	};
	const struct hd_monitor_config config = {
		.name = "m",
		.host = "h1",
		.keys = &keys,
		.key_id = 1,
		.seed = {2},
		.controller = controller_addr,
		.source = &source,
		.report_text = report_text,
		.owner = w,
	};

	memset(w, 0, sizeof *w);
	w->sink.send = keep_packet;
	w->now = HD_SECOND;
	assert_int_equal(hd_endpoint_create(&endpoint, &w->controller), 0);
	assert_int_equal(hd_monitor_create(&config, &w->monitor), 0);
	for (int i = 0; i < 200; i++)
		step(w, 0, NULL, 0);
	assert_int_equal(w->registered.role, HD_ROLE_MONITOR);
	assert_string_equal(w->registered.host, "h1");
	assert_true(hd_monitor_stats(w->monitor)->registered);
}

static void close_world(struct world *w) {
	hd_monitor_destroy(w->monitor);
	hd_endpoint_destroy(w->controller);
}

static void steps_ms(struct world *w, uint32_t ms) {
	while (ms-- > 0)
		step(w, 0, NULL, 0);
}

/* Refused: reported at once and once, asked again after 1, 2, 4 s, and accepted when the topology is repaired. */
static void refused_asks_again(void **state) {
	static struct world w;
	uint32_t before;

	(void)state;
	open_world(&w);
	assert_int_equal(w.reported_bad + w.reported_good, 0);
	w.refuse = "host: 'h1' is not in the topology";
	before = w.registers;
	hd_session_close(w.session, HD_REASON_CLOSED, "restart", w.now, &w.sink);
	w.sender = controller_addr;
	steps_ms(&w, 500);
	assert_int_equal(w.registers, before + 1);
	assert_int_equal(w.reported_bad, 2); /* gone; refused */
	assert_string_equal(w.report_text, w.refuse);
	assert_false(hd_monitor_stats(w.monitor)->registered);
	/* 0.5 s are over; it asked at 0, and does so at 1, 3 and 7 s. */
	for (uint32_t ask = 2; ask <= 4; ask++) {
		steps_ms(&w, (500u << (ask - 1)) - 600);
		assert_int_equal(w.registers, before + ask - 1);
		steps_ms(&w, 600);
		assert_int_equal(w.registers, before + ask);
	}
	assert_int_equal(w.reported_bad, 2);
	before = w.loads;
	w.refuse = NULL;
	steps_ms(&w, 8500);
	assert_true(hd_monitor_stats(w.monitor)->registered);
	assert_int_equal(w.reported_good, 1);
	assert_true(w.loads > before);
	close_world(&w);
}

/* Refused for good ends the session, not the monitor. */
static void refused_for_good_connects_again(void **state) {
	static struct world w;

	(void)state;
	open_world(&w);
	hd_session_close(w.session, HD_REASON_REFUSED, "not today", w.now, &w.sink);
	w.sender = controller_addr;
	steps_ms(&w, 100);
	assert_int_equal(w.reported_bad, 1);
	assert_string_equal(w.report_text, "not today");
	assert_int_equal(w.registers, 1);
	steps_ms(&w, 1200);
	assert_int_equal(w.registers, 2);
	assert_true(hd_monitor_stats(w.monitor)->registered);
	assert_int_equal(w.reported_good, 1);
	close_world(&w);
}

static void assert_about(uint64_t value, double wanted) {
	if (fabs((double)value - wanted) > 0.02 * wanted)
		fail_msg("%llu instead of %g", (unsigned long long)value, wanted);
}

/* Three fast flows, one slow one, one that acknowledges; ours silent. */
static void flows_by_kind(void **state) {
	const uint64_t flows[6] = {5000, 5000, 3000, 0, 400, 60}; /* bytes a ms */
	static struct world w;

	(void)state;
	open_world(&w);
	for (int i = 0; i < 1000; i++)
		step(&w, 0, flows, 6);
	assert_int_equal(w.load.out_flows, 3);
	assert_about(w.load.out_elastic_bps, 13000 * 8e3);
	assert_about(w.load.out_steady_bps, 460 * 8e3);
	assert_int_equal(w.load.out_ours, 0);
	assert_int_equal(w.load.out_busy_ns, 0);
	assert_about(w.load.in_others, 13460.0 * (double)w.load.interval_ns / 1e6);
	/* They end: two intervals later nothing is left of them. */
	for (int i = 0; i < 300; i++)
		step(&w, 0, flows, 0);
	assert_int_equal(w.load.out_flows, 0);
	assert_int_equal(w.load.out_elastic_bps + w.load.out_steady_bps, 0);
	close_world(&w);
}

/* Ours takes turns with silence, and another's flow gives way to it: what it has then is told apart. */
static void beside_ours(void **state) {
	const uint64_t yielding[1] = {5000}, alone[1] = {20000};
	static struct world w;

	(void)state;
	open_world(&w);
	for (int i = 0; i < 1000; i++)
		step(&w, i % 100 < 40 ? 15000 : 0, i % 100 < 40 ? yielding : alone, 1);
	assert_about(w.load.in_ours, 40 * 15000.0);
	assert_in_range(w.load.in_busy_ns, 30 * HD_MS, 50 * HD_MS);
	assert_true((double)w.load.in_busy_others * 1e6 / (double)w.load.in_busy_ns < 9000);
	assert_about(w.load.in_others, 40 * 5000.0 + 60 * 20000.0);
	/* Its peak, not what we leave it, is what it would take. */
	assert_true(w.load.in_elastic_bps > 1.3e4 * 8e3);
	close_world(&w);
}

/* With nothing to tell it still says that it lives, seldom; a reading that fails costs nothing else. */
static void quiet_and_broken(void **state) {
	static struct world w;
	uint32_t before;

	(void)state;
	open_world(&w);
	for (int i = 0; i < 500; i++)
		step(&w, 0, NULL, 0);
	before = w.loads;
	for (int i = 0; i < 5000; i++)
		step(&w, 0, NULL, 0);
	assert_in_range(w.loads - before, 8, 25);
	w.broken = true;
	for (int i = 0; i < 500; i++)
		step(&w, 1000, NULL, 0);
	assert_true(hd_monitor_stats(w.monitor)->failures > 5);
	w.broken = false;
	for (int i = 0; i < 300; i++)
		step(&w, 1000, NULL, 0);
	assert_about(w.load.out_ours, 1000.0 * (double)w.load.interval_ns / 1e6);
	/* The card was taken away and came back: its counters start again at 0. */
	memset(w.counts, 0, sizeof w.counts);
	for (int i = 0; i < 300; i++)
		step(&w, 1000, NULL, 0);
	assert_about(w.load.out_ours, 1000.0 * (double)w.load.interval_ns / 1e6);
	close_world(&w);
}

/* --- at the controller --- */

static struct hd_message load_of(uint64_t in_others_bps, uint16_t flows) {
	struct hd_message m = {.kind = HD_MSG_LOAD};

	m.load.interval_ns = 100 * HD_MS;
	m.load.in_others = in_others_bps / 80;
	m.load.in_elastic_bps = in_others_bps;
	m.load.in_flows = flows;
	return m;
}

static uint32_t link_named(const struct net *net, const char *name) {
	for (uint32_t l = 0; l < hd_controller_link_count(net->controller); l++)
		if (strcmp(hd_controller_link_name(net->controller, l), name) == 0)
			return l;
	fail_msg("no link %s", name);
	return 0;
}

static void controller_listens(void **state) {
	const struct net_config config = {.epoch = 1, .initial_bps = 100e6};
	const double share = 1408.0 / 1506.0;
	struct hd_message m = {.kind = HD_MSG_REGISTER};
	struct peer *monitor, *worker;
	uint32_t towards, away;
	struct net net;

	(void)state;
	net_open(&net, &config);
	(void)net_server(&net, "ps");
	worker = net_worker(&net, "t", "j", 0, 8);
	monitor = net_peer(&net, HD_ROLE_MONITOR, "ps");
	/* Before it has registered its link is unknown. */
	struct hd_message load = load_of(90000000, 2);
	assert_int_equal(peer_send(monitor, &load), 0);
	net_run(&net, HD_MS);
	assert_int_equal(net.controller->counters.hostile_role, 1);
	m.register_.role = HD_ROLE_MONITOR;
	(void)snprintf(m.register_.host, sizeof m.register_.host, "ps");
	assert_int_equal(peer_send(monitor, &m), 0);
	net_run(&net, HD_MS);
	assert_non_null(peer_last(monitor, HD_MSG_REGISTERED));
	towards = link_named(&net, "star>ps");
	away = link_named(&net, "ps>star");
	assert_int_equal(peer_send(monitor, &load), 0);
	net_run(&net, HD_MS);
	assert_int_equal(net.controller->counters.loads, 1);
	/* Two flows fill it: we get a third. */
	assert_true(fabs(hd_controller_estimate_bps(net.controller, towards, 1) - 100e6 / 3) < 1e3);
	assert_true(fabs(hd_controller_estimate_bps(net.controller, away, 1) - 100e6) < 1e3);
	load = load_of(30000000, 0);
	load.load.in_steady_bps = 30000000;
	load.load.in_elastic_bps = 0;
	assert_int_equal(peer_send(monitor, &load), 0);
	net_run(&net, HD_MS);
	assert_true(
		fabs(hd_controller_estimate_bps(net.controller, towards, 1) - (100e6 - 30e6 * share)
		)
		< 1e3
	);
	/* Impossible reports, and reports of a node that may not send them, have no effect. */
	load.load.interval_ns = 0;
	assert_int_equal(peer_send(monitor, &load), 0);
	load = load_of(UINT64_MAX, 1);
	assert_int_equal(peer_send(monitor, &load), 0);
	load = load_of(90000000, 2);
	load.load.in_busy_ns = load.load.interval_ns + 1;
	assert_int_equal(peer_send(monitor, &load), 0);
	load = load_of(90000000, 2);
	assert_int_equal(peer_send(worker, &load), 0);
	net_run(&net, HD_MS);
	assert_int_equal(net.controller->counters.hostile_value, 3);
	assert_int_equal(net.controller->counters.hostile_role, 2);
	assert_int_equal(net.controller->counters.loads, 2);
	/* It falls silent: after 1.5 s its words are old. */
	net_run(&net, 2 * HD_SECOND);
	assert_true(fabs(hd_controller_estimate_bps(net.controller, towards, 1) - 100e6) < 1e3);
	net_close(&net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused_asks_again),
		cmocka_unit_test(refused_for_good_connects_again),
		cmocka_unit_test(flows_by_kind),
		cmocka_unit_test(beside_ours),
		cmocka_unit_test(quiet_and_broken),
		cmocka_unit_test(controller_listens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
