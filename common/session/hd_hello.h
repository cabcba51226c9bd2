/* SPDX-License-Identifier: BSD-3-Clause */
/* How sessions begin, and answers to unauthenticated packets: private to the endpoint. */
#ifndef HD_HELLO_H
#define HD_HELLO_H

#include "hd_session.h"

/* --- hd_hello.c ------------------------------------------------------------------------------ */
void hello_start(struct hd_session *s, hd_ns at);
void hello_tick(struct hd_session *s, hd_ns now, struct hd_sink *sink);
void hello_receive(
	struct hd_endpoint *e,
	hd_ns now,
	const struct hd_packet *packet,
	struct hd_sink *sink
);
/* The first packet under the candidate's key has come. False: no room, it is freed. */
bool hello_promote(struct hd_session *s, hd_ns now, struct hd_sink *sink);
/* Sends a packet of type HELLO to an unproven address. key NULL: a hint, without a tag. */
void hello_send_stranger(
	struct hd_endpoint *e,
	struct hd_addr peer,
	const struct hd_key *key,
	uint32_t session,
	const struct hd_message *message,
	struct hd_sink *sink
);
/* True when the packet arrived at the address that it asks for, or the node's own address is unknown. */
bool hello_is_for(struct hd_addr local, uint32_t asked_ipv4, uint16_t asked_port);

/* --- hd_refusal.c ---------------------------------------------------------------------------- */
/* Hints for a HELLO of another version; with an unknown or different key; for another address. */
void hello_refuse_version(
	struct hd_endpoint *e,
	hd_ns now,
	const struct hd_packet *packet,
	struct hd_sink *sink
);
void hello_refuse_key(
	struct hd_endpoint *e,
	hd_ns now,
	const struct hd_packet *packet,
	uint16_t key_id,
	bool known,
	struct hd_sink *sink
);
void hello_refuse_address(
	struct hd_endpoint *e,
	hd_ns now,
	const struct hd_packet *packet,
	struct hd_sink *sink
);
/* There is no room for another session. */
void hello_refuse_full(
	struct hd_endpoint *e,
	const struct hd_control_header *header,
	const struct hd_msg_hello *hello,
	const struct hd_packet *packet,
	hd_ns now,
	struct hd_sink *sink
);
void refuse_receive(
	struct hd_endpoint *e,
	const struct hd_control_header *header,
	const struct hd_msg_refuse *words,
	const struct hd_packet *packet,
	hd_ns now,
	struct hd_sink *sink
);
/* Hints to a packet's sender that there is no session of this index. */
void hello_reset(
	struct hd_endpoint *e,
	hd_ns now,
	const struct hd_packet *packet,
	uint32_t session,
	struct hd_sink *sink
);
void reset_receive(
	struct hd_endpoint *e,
	const struct hd_msg_reset *reset,
	const struct hd_packet *packet,
	hd_ns now,
	struct hd_sink *sink
);
void query_receive(
	struct hd_endpoint *e,
	const struct hd_control_header *header,
	const struct hd_msg_query *query,
	const struct hd_packet *packet,
	hd_ns now,
	struct hd_sink *sink
);
void gone_receive(
	struct hd_endpoint *e,
	const struct hd_control_header *header,
	const struct hd_msg_gone *gone,
	const struct hd_packet *packet,
	hd_ns now,
	struct hd_sink *sink
);

#endif
