/* SPDX-License-Identifier: BSD-3-Clause */
/* Properties of a session and its peer. */
#include "hd_session.h"

void *hd_session_user(const struct hd_session *session) {
	return session->user;
}

void hd_session_set_user(struct hd_session *session, void *user) {
	session->user = user;
}

bool hd_session_is_open(const struct hd_session *session) {
	return session->state == SESSION_OPEN;
}

struct hd_addr hd_session_peer(const struct hd_session *session) {
	return session->peer;
}

const char *hd_session_peer_name(const struct hd_session *session) {
	return session->name;
}

uint8_t hd_session_peer_role(const struct hd_session *session) {
	return session->role;
}

uint64_t hd_session_peer_boot(const struct hd_session *session) {
	return session->boot;
}

bool hd_session_left(const struct hd_session *session) {
	return session->left;
}

hd_ns hd_session_heard(const struct hd_session *session) {
	return session->heard;
}

hd_ns hd_session_answered(const struct hd_session *session) {
	return session->proved_at;
}

uint32_t hd_session_queued(const struct hd_session *session) {
	return session->out.queued;
}

hd_ns hd_session_rtt(const struct hd_session *session) {
	return session->out.srtt;
}

hd_ns hd_session_rtt_least(const struct hd_session *session) {
	return session->rtt_least;
}
