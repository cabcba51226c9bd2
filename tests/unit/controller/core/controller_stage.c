/* SPDX-License-Identifier: BSD-3-Clause */
#include "controller_stage.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct hd_message stage_state(const struct peer *worker, uint64_t version, uint64_t position) {
	struct hd_message m = {.kind = HD_MSG_STATE};

	m.state.job = net_job(worker);
	m.state.version = hd_version_make(1, version);
	m.state.position = position;
	m.state.tau_max = 8;
	m.state.model_bytes = NET_MODEL_BYTES;
	return m;
}

const struct hd_msg_replica *stage_order(const struct peer *peer) {
	return &peer_last(peer, HD_MSG_REPLICA)->replica;
}

struct hd_message stage_register_replica(const struct stage *t) {
	struct hd_message m = net_register_server(t->replica);

	m.register_.role = HD_ROLE_REPLICA;
	m.register_.data_ipv4 = t->replica->addr.ipv4;
	m.register_.data_port = t->replica->addr.port;
	return m;
}

struct hd_message stage_follow(const struct stage *t, uint64_t version) {
	struct hd_message m = {.kind = HD_MSG_FOLLOW};

	m.follow.job = net_job(t->worker);
	m.follow.generation = stage_order(t->server)->generation;
	m.follow.state = HD_FOLLOW_SEEDING;
	m.follow.version = hd_version_make(1, version);
	m.follow.peer_ipv4 = t->replica->addr.ipv4;
	m.follow.peer_port = t->replica->addr.port;
	return m;
}

void stage_open(struct stage *t) {
	struct hd_message m;

	net_open(&t->net, &net_plain);
	t->server = net_server(&t->net, "ps");
	t->worker = net_worker(&t->net, "t", "j", 0, 8);
	t->replica = net_peer(&t->net, HD_ROLE_REPLICA, "h2");
	post(t->replica, stage_register_replica(t));
	net_run(&t->net, SETTLED);
	m = stage_state(t->worker, 30, 40);
	m.state.generation = stage_order(t->server)->generation;
	post(t->server, m);
	net_run(&t->net, SETTLED);
	assert_int_equal(stage_order(t->server)->order, HD_REPLICA_KEEP);
}
