/* SPDX-License-Identifier: BSD-3-Clause */
#include "group_peers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

void open_scene(struct scene *s, uint64_t memory_bytes) {
	net_open(&s->net, &net_plain);
	s->server = net_server(&s->net, "ps");
	s->aggregator = net_aggregator(&s->net, "a1", memory_bytes);
	for (uint16_t w = 0; w < WORKERS; w++)
		s->workers[w] = net_worker(&s->net, "t", "j", w, 64);
	net_run(&s->net, SETTLED);
}

struct peer *add_replica(struct scene *s) {
	struct peer *replica = net_peer(&s->net, HD_ROLE_REPLICA, "rp");
	struct hd_message m = net_register_server(replica);

	m.register_.role = HD_ROLE_REPLICA;
	post(replica, m);
	return replica;
}

void send_begun(struct scene *s) {
	struct hd_message m = {.kind = HD_MSG_STATE};

	assert_int_equal(peer_last(s->server, HD_MSG_REPLICA)->replica.order, HD_REPLICA_SERVE);
	m.state.job = net_job(s->workers[0]);
	m.state.version = hd_version_make(1, 0);
	m.state.model_bytes = NET_MODEL_BYTES;
	m.state.tau_max = 64;
	post(s->server, m);
	net_run(&s->net, HD_SECOND);
}

void send_follow(struct scene *s, const struct peer *replica, uint8_t state) {
	const struct hd_message *keep = peer_last(s->server, HD_MSG_REPLICA);
	struct hd_message m = {.kind = HD_MSG_FOLLOW};

	assert_non_null(keep);
	assert_int_equal(keep->replica.order, HD_REPLICA_KEEP);
	assert_int_equal(keep->replica.peer_ipv4, replica->addr.ipv4);
	m.follow.job = keep->replica.job;
	m.follow.generation = keep->replica.generation;
	m.follow.state = state;
	m.follow.peer_ipv4 = keep->replica.peer_ipv4;
	m.follow.peer_port = keep->replica.peer_port;
	post(s->server, m);
	net_run(&s->net, HD_MS);
}

void push_all(struct scene *s, uint32_t round) {
	for (uint16_t w = 0; w < WORKERS; w++)
		post(s->workers[w], net_push(s->workers[w], round, MB, 0));
	net_run(&s->net, 5 * HD_MS);
}

const struct hd_msg_group *newest_group(const struct scene *s) {
	const struct hd_message *m = peer_last(s->aggregator, HD_MSG_GROUP);

	return m ? &m->group : NULL;
}

const struct hd_msg_members *newest_members(const struct scene *s) {
	const struct hd_message *m = peer_last(s->server, HD_MSG_MEMBERS);

	return m ? &m->members : NULL;
}

int inputs_of(const struct hd_msg_group *group) {
	return hd_group_count(&group->inputs, HD_GROUP_INPUT_BYTES);
}

void send_held(struct scene *s, const struct hd_group_input *input) {
	struct hd_message m = {.kind = HD_MSG_REPORT};

	m.report.job = net_job(s->workers[0]);
	m.report.worker = input->worker;
	m.report.round = input->round;
	m.report.attempt = input->attempt;
	m.report.token = input->token;
	m.report.outcome = HD_OUTCOME_PENDING;
	m.report.bytes = MB;
	m.report.duration_ns = 100 * HD_MS;
	m.report.rate_bps = 80000000;
	post(s->aggregator, m);
}

void end_sum(
	struct scene *s,
	const struct hd_msg_members *members,
	uint8_t outcome,
	uint64_t version
) {
	struct hd_message m = {.kind = HD_MSG_REPORT};

	m.report.job = members->job;
	m.report.worker = HD_GROUP_WORKER;
	m.report.token = members->token;
	m.report.outcome = outcome;
	m.report.reason = outcome == HD_OUTCOME_APPLIED ? HD_REASON_NONE : HD_REASON_LATE;
	m.report.version = hd_version_make(1, version);
	m.report.position = members->position;
	m.report.bytes = members->bytes;
	m.report.duration_ns = 100 * HD_MS;
	m.report.rate_bps = 80000000;
	post(s->server, m);
}

void send_copy(struct scene *s, struct peer *peer, uint64_t token, uint8_t outcome) {
	struct hd_message m = {.kind = HD_MSG_REPORT};

	m.report.job = net_job(s->workers[0]);
	m.report.worker = HD_GROUP_WORKER;
	m.report.direction = HD_COPY;
	m.report.token = token;
	m.report.outcome = outcome;
	m.report.reason = outcome == HD_OUTCOME_APPLIED ? HD_REASON_NONE : HD_REASON_NO_MEMORY;
	m.report.bytes = MB;
	m.report.duration_ns = 100 * HD_MS;
	m.report.rate_bps = 80000000;
	post(peer, m);
	net_run(&s->net, HD_MS);
}

void send_group_failed(struct scene *s, const struct hd_msg_group *group) {
	struct hd_message m = {.kind = HD_MSG_REPORT};

	m.report.job = group->job;
	m.report.worker = HD_GROUP_WORKER;
	m.report.token = group->group;
	m.report.outcome = HD_OUTCOME_FAILED;
	m.report.reason = HD_REASON_NO_MEMORY;
	post(s->aggregator, m);
}

bool has_void(const struct peer *peer, uint64_t token, uint8_t *reason) {
	for (uint32_t i = peer->count; i-- > 0;)
		if (peer->log[i].kind == HD_MSG_VOID && peer->log[i].void_.token == token) {
			*reason = peer->log[i].void_.reason;
			return true;
		}
	return false;
}

uint32_t open_count(struct scene *s) {
	return s->net.controller->open_count;
}

struct made make_group(struct scene *s) {
	struct made made = {0};

	push_all(s, 1);
	const struct hd_msg_group *group = newest_group(s);
	assert_non_null(group);
	made.group = group->group;
	made.sum = hd_group_get_output(&group->outputs, 0).token;
	made.count = (uint32_t)inputs_of(group);
	made.open = open_count(s);
	for (uint32_t i = 0; i < made.count; i++) {
		made.inputs[i] = hd_group_get_input(&group->inputs, i);
		made.workers[i] = made.inputs[i].worker;
	}
	return made;
}
