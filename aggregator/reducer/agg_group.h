/* SPDX-License-Identifier: BSD-3-Clause */
/* A group: its inputs and its outputs. */
#ifndef AGG_GROUP_H
#define AGG_GROUP_H

#include "agg_core.h"
#include "hd_group.h"
#include "hd_reduce.h"
#include "hd_seal.h"

struct agg_input {
	struct agg_handle handle; /* first */
	struct hd_seal seal;
	struct agg_group *group;
	uint32_t index; /* rank */
	struct hd_reduce_input is;
	struct agg_peer *peer; /* NULL: its sender has no session */
	bool started, complete, touched;
	bool reported; /* the controller knows that it is held whole */
	bool went; /* go was sent, or its sender had no session */
	hd_ns active; /* when it last showed a sign of its sender */
	struct agg_input *predecessor; /* this one starts when that one ends */
	struct agg_successors successors;
	struct hd_timer timer;
	LIST_ENTRY(agg_input) successor_link, peer_link;
	TAILQ_ENTRY(agg_input) touched_link;
};

enum agg_output_state {
	AGG_OUTPUT_WAITING, /* for a session, or for the first final chunk */
	AGG_OUTPUT_SENDING,
	AGG_OUTPUT_ENDED, /* while sending: settled in the next call */
	AGG_OUTPUT_DELIVERED,
	AGG_OUTPUT_LOST
};

struct agg_output {
	struct agg_group *group;
	struct hd_group_output is;
	enum agg_output_state state;
	struct agg_peer *peer; /* NULL: it is unplaced, or it ended */
	struct hd_send *send;
	hd_ns start; /* on our clock */
	hd_ns active; /* when its receiver last answered */
	uint64_t fed; /* bytes that the send knows to be final */
	bool started, went, unplaced;
	struct hd_timer timer; /* of sends */
	LIST_ENTRY(agg_output) peer_link;
	TAILQ_ENTRY(agg_output) unplaced_link, ended_link;
};

struct agg_group {
	uint64_t token;
	struct agg_job *job;
	uint16_t epoch;
	uint8_t dtype, op, order;
	int16_t exponent;
	uint64_t bytes;
	bool relay; /* it relays a model */
	hd_version version; /* of a relayed model; 0: PULL_STATE has not come */
	struct hd_addr source; /* of a relayed model */
	struct hd_reduce *reduce;
	struct agg_buffer *buffer;
	uint64_t charged; /* memory that the job is charged with */
	uint64_t early; /* part of it for early chunks */
	bool touched;
	bool doomed; /* an output that it cannot do without was lost */
	uint32_t deserted; /* outputs to workers whose sessions ended before */
	uint8_t lost_reason; /* of the last output that was lost */
	hd_ns made; /* when GROUP came */
	hd_ns active; /* when a chunk came or an output advanced */
	hd_ns final_at; /* when the last chunk came */
	uint32_t input_count, complete, output_count, delivered, lost;
	struct agg_input *inputs;
	struct agg_output *outputs;
	struct hd_timer watch;
	UT_hash_handle hh;
	TAILQ_ENTRY(agg_group) link, touched_link;
};

/* --- agg_input.c ------------------------------------------------------------------------------ */
void agg_input_bind(struct agg_turn *turn, struct agg_input *in, struct agg_peer *peer);
/* NULL if the token names no input. */
struct agg_input *agg_input_find(const struct hd_aggregator *aggregator, uint64_t token);
/* Makes the input with this token its predecessor if that one is in flight; else sends go. */
void agg_input_follow(struct agg_turn *turn, struct agg_input *in, uint64_t after);
void agg_input_go(struct agg_turn *turn, struct agg_input *in);
/* Removes it from every table and list and lets its successors start. A tombstone answers late chunks. */
void agg_input_end(struct agg_turn *turn, struct agg_input *in, bool done);
/* The same without a message to any peer: when the aggregator ends. */
void agg_input_drop(struct hd_aggregator *aggregator, struct agg_input *in);
void agg_report_input(
	struct agg_turn *turn,
	const struct agg_input *in,
	enum hd_outcome outcome,
	enum hd_reason reason
);
struct hd_event agg_input_event(const struct agg_input *in, enum hd_event_kind kind);

/* --- agg_output.c ----------------------------------------------------------------------------- */
/* Finds or opens the session that the output needs. 0 or -errno. */
int agg_output_bind(struct agg_turn *turn, struct agg_output *out);
/* A session opened: binds the outputs to this address that waited for one. */
void agg_outputs_opened(struct agg_turn *turn, struct agg_peer *peer);
struct agg_output *agg_peer_output(const struct agg_peer *peer, uint64_t token);
/* Tells the output how much of the sum is final. */
void agg_output_feed(struct agg_turn *turn, struct agg_output *out);
/* The output cannot be delivered. */
void agg_output_lose(struct agg_turn *turn, struct agg_output *out, enum hd_reason reason);
void agg_output_drop(struct hd_aggregator *aggregator, struct agg_output *out);
/* Gives up receivers that have sent nothing since `before` although the whole sum is final. */
void agg_outputs_watch(struct agg_turn *turn, struct agg_group *group, hd_ns before);
/* Tells the receiver of a relayed model its version. */
void agg_output_state(struct agg_turn *turn, struct agg_output *out, enum hd_reason reason);
/* The only function that changes an output's state. */
void agg_output_enter(struct agg_output *out, enum agg_output_state state);
/* The receiver has everything. */
void agg_output_delivered(struct agg_turn *turn, struct agg_output *out);
void agg_output_event(
	struct agg_turn *turn,
	const struct agg_output *out,
	enum hd_event_kind kind,
	enum hd_reason reason
);

/* --- agg_group.c ------------------------------------------------------------------------------ */
/* The whole group fails. culprit: the input that caused it, NULL: none did. */
void agg_group_fail(
	struct agg_turn *turn,
	struct agg_group *group,
	enum hd_reason reason,
	struct agg_input *culprit
);
/* Ends the group if every output was delivered, or none can be any more. True: it is gone. One that has all inputs,
 * and whose receivers are workers that are all lost, ends without a message. */
bool agg_group_consider(struct agg_turn *turn, struct agg_group *group);
void agg_group_void(struct agg_turn *turn, const struct hd_msg_void_ *void_);
/* The group's timer: fails groups with a silent member, and idle groups. */
void agg_group_watch(struct agg_turn *turn, struct agg_group *group);
void agg_group_destroy(struct hd_aggregator *aggregator, struct agg_group *group);
/* Ends the oldest group that only its replica still waits for (a state will serve it); false: there is none. */
bool agg_outputs_yield(struct agg_turn *turn);
/* REPORTs that there is no such group, or no longer. (Deliveries are reported by their receivers.) */
void agg_report_failure(struct agg_turn *turn, uint32_t job, uint64_t group, enum hd_reason reason);

/* --- agg_make.c, agg_chunk.c ------------------------------------------------------------------ */
void agg_group_make(struct agg_turn *turn, const struct hd_msg_group *message);
void agg_chunk(struct agg_turn *turn, const struct hd_packet *packet);
/* Acknowledges, completes and sends go for everything that the call touched. */
void agg_inputs_settle(struct agg_turn *turn);

/* --- agg_receiver.c --------------------------------------------------------------------------- */
void agg_output_sack(struct agg_turn *turn, struct agg_peer *peer, const struct hd_msg_sack *sack);
void agg_output_go(struct agg_turn *turn, struct agg_peer *peer, const struct hd_msg_go *go);
/* A worker withdraws from its input, or from its output. */
void agg_cancel(struct agg_turn *turn, struct agg_peer *peer, const struct hd_msg_cancel *cancel);
/* A receiver refuses a sum, which has no use without it. */
void agg_output_void(
	struct agg_turn *turn,
	struct agg_peer *peer,
	const struct hd_msg_void_ *void_
);
/* No session could be opened with this address: loses the outputs that waited for one. */
void agg_outputs_unreached(struct agg_turn *turn, uint64_t addr);
/* The version of a relayed model, from its sender, ahead of the chunks. */
void agg_pull_state(
	struct agg_turn *turn,
	struct agg_peer *peer,
	const struct hd_msg_pull_state *state
);
void agg_outputs_ended(struct agg_turn *turn);
/* Sends what pacing and windows permit, in turns. Comes last in a call. */
void agg_outputs_poll(struct agg_turn *turn);

/* --- agg_session.c ---------------------------------------------------------------------------- */
extern const struct hd_endpoint_ops agg_endpoint_ops;
bool agg_routes_are_valid(void);
/* Fails all transfers that need the peer, and closes its session. */
void agg_peer_close(
	struct agg_turn *turn,
	struct agg_peer *peer,
	enum hd_reason reason,
	const char *why
);
/* A session that we opened was not answered in time. */
void agg_peer_unreached(struct agg_turn *turn, struct agg_peer *peer);

/* --- agg_show.c ------------------------------------------------------------------------------- */
void agg_show(struct agg_turn *turn, struct agg_peer *peer, const struct hd_msg_show *show);
void agg_refuse_command(struct agg_turn *turn, struct agg_peer *peer);
void agg_poll(struct agg_turn *turn, const struct hd_msg_poll *poll); /* from the controller */

#endif
