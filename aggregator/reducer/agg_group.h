/* SPDX-License-Identifier: BSD-3-Clause */
/* A group: its inputs, its outputs, and what happens to them. */
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
	struct agg_peer *peer; /* NULL: no session of its sender is known */
	bool started, complete, touched;
	bool told; /* the controller, that it is held whole */
	bool went; /* go was said, or would have been if there were a session */
	hd_ns active; /* when it last showed that it will come */
	struct agg_input *predecessor; /* whose end frees this one's start */
	struct agg_successors successors;
	struct hd_timer timer;
	LIST_ENTRY(agg_input) successor_link, peer_link;
	TAILQ_ENTRY(agg_input) touched_link;
};

enum agg_output_state {
	AGG_OUTPUT_WAITING, /* for a session, or for the first chunk */
	AGG_OUTPUT_SENDING,
	AGG_OUTPUT_ENDED, /* while sending: looked at in the next call */
	AGG_OUTPUT_DELIVERED,
	AGG_OUTPUT_LOST
};

struct agg_output {
	struct agg_group *group;
	struct hd_group_output is;
	enum agg_output_state state;
	struct agg_peer *peer; /* NULL: it is among the homeless, or it ended */
	struct hd_send *send;
	hd_ns start; /* on our clock */
	hd_ns active; /* when its receiver last showed that it is there */
	uint64_t fed; /* bytes that the send knows to be final */
	bool started, went, homeless;
	struct hd_timer timer; /* of sends */
	LIST_ENTRY(agg_output) peer_link;
	TAILQ_ENTRY(agg_output) homeless_link, ended_link;
};

struct agg_group {
	uint64_t token;
	struct agg_job *job;
	uint16_t epoch;
	uint8_t dtype, order;
	int16_t exponent;
	uint64_t bytes;
	bool relay; /* of a model */
	hd_version version; /* of a relayed model; 0: PULL_STATE has not come */
	struct hd_addr source; /* of a relayed model */
	struct hd_reduce *reduce;
	struct agg_buffer *buffer;
	uint64_t charged; /* of the job's memory */
	uint64_t early; /* of that for chunks before their turn */
	bool touched;
	bool doomed; /* an output without which it has no use was lost */
	uint8_t lost_reason; /* of the last output that was lost */
	hd_ns made; /* its GROUP came */
	hd_ns active; /* a chunk came, or an output moved on */
	hd_ns final_at; /* the last chunk came */
	uint32_t input_count, complete, output_count, delivered, lost;
	struct agg_input *inputs;
	struct agg_output *outputs;
	struct hd_timer watch;
	UT_hash_handle hh;
	TAILQ_ENTRY(agg_group) link, touched_link;
};

/* --- agg_input.c ------------------------------------------------------------------------------ */
void agg_input_bind(struct agg_turn *turn, struct agg_input *in, struct agg_peer *peer);
/* NULL if the token stands for nothing, or for something else. */
struct agg_input *agg_input_find(const struct hd_aggregator *aggregator, uint64_t token);
/* Its predecessor is the input with this token, if that is under way; else it may go. */
void agg_input_follow(struct agg_turn *turn, struct agg_input *in, uint64_t after);
void agg_input_go(struct agg_turn *turn, struct agg_input *in);
/* Out of every table and list; its successors may go; late chunks are answered by a tombstone. */
void agg_input_end(struct agg_turn *turn, struct agg_input *in, bool done);
/* The same without a word to anybody: at the end of the aggregator. */
void agg_input_drop(struct hd_aggregator *aggregator, struct agg_input *in);
void agg_report_input(
	struct agg_turn *turn,
	const struct agg_input *in,
	enum hd_outcome outcome,
	enum hd_reason reason
);
struct hd_event agg_input_event(const struct agg_input *in, enum hd_event_kind kind);

/* --- agg_output.c ----------------------------------------------------------------------------- */
/* Finds or opens the session that it needs. 0 or -errno. */
int agg_output_bind(struct agg_turn *turn, struct agg_output *out);
/* A session opened: outputs to this address that waited for one. */
void agg_outputs_opened(struct agg_turn *turn, struct agg_peer *peer);
struct agg_output *agg_peer_output(const struct agg_peer *peer, uint64_t token);
/* Tells the output how far the sum is final. */
void agg_output_feed(struct agg_turn *turn, struct agg_output *out);
/* It can not be delivered. */
void agg_output_lose(struct agg_turn *turn, struct agg_output *out, enum hd_reason reason);
void agg_output_drop(struct hd_aggregator *aggregator, struct agg_output *out);
/* Gives up receivers that have not been heard since `before` although all of it is final. */
void agg_outputs_watch(struct agg_turn *turn, struct agg_group *group, hd_ns before);
/* What a relayed model is, to whom it is relayed. */
void agg_output_state(struct agg_turn *turn, struct agg_output *out, enum hd_reason reason);
/* The one function that changes its state. */
void agg_output_enter(struct agg_output *out, enum agg_output_state state);
/* Its receiver has all of it. */
void agg_output_delivered(struct agg_turn *turn, struct agg_output *out);
void agg_output_event(
	struct agg_turn *turn,
	const struct agg_output *out,
	enum hd_event_kind kind,
	enum hd_reason reason
);

/* --- agg_group.c ------------------------------------------------------------------------------ */
/* The whole group fails. culprit: the input that is the reason, NULL: none is. */
void agg_group_fail(
	struct agg_turn *turn,
	struct agg_group *group,
	enum hd_reason reason,
	struct agg_input *culprit
);
/* Ends it when everything was delivered, or when nothing can be any more. True: it is gone. */
bool agg_group_consider(struct agg_turn *turn, struct agg_group *group);
void agg_group_void(struct agg_turn *turn, const struct hd_msg_void_ *void_);
/* Its watch: who is silent while others wait, and groups in which nothing happens. */
void agg_group_watch(struct agg_turn *turn, struct agg_group *group);
void agg_group_destroy(struct hd_aggregator *aggregator, struct agg_group *group);
/* Ends the oldest group that only its replica still waits for, which gets a state; false: there is none. */
bool agg_outputs_yield(struct agg_turn *turn);
/* There is no such group, or not any more. That it was delivered its receivers say. */
void agg_report_failure(struct agg_turn *turn, uint32_t job, uint64_t group, enum hd_reason reason);

/* --- agg_make.c, agg_chunk.c ------------------------------------------------------------------ */
void agg_group_make(struct agg_turn *turn, const struct hd_msg_group *message);
void agg_chunk(struct agg_turn *turn, const struct hd_packet *packet);
/* Acknowledges, completes and sends go, for everything that the call touched. */
void agg_inputs_settle(struct agg_turn *turn);

/* --- agg_receiver.c --------------------------------------------------------------------------- */
void agg_output_sack(struct agg_turn *turn, struct agg_peer *peer, const struct hd_msg_sack *sack);
void agg_output_go(struct agg_turn *turn, struct agg_peer *peer, const struct hd_msg_go *go);
/* A worker does without its input, or its output. */
void agg_cancel(struct agg_turn *turn, struct agg_peer *peer, const struct hd_msg_cancel *cancel);
/* A receiver gives a sum up: nobody can do without it. */
void agg_output_void(
	struct agg_turn *turn,
	struct agg_peer *peer,
	const struct hd_msg_void_ *void_
);
/* Nobody answers at this address: outputs that waited for a session with it. */
void agg_outputs_unreached(struct agg_turn *turn, uint64_t addr);
/* What the sender of a relayed model says before it. */
void agg_pull_state(
	struct agg_turn *turn,
	struct agg_peer *peer,
	const struct hd_msg_pull_state *state
);
void agg_outputs_ended(struct agg_turn *turn);
/* Sends what pacing and windows permit, in turns. The last thing of a call. */
void agg_outputs_poll(struct agg_turn *turn);

/* --- agg_session.c ---------------------------------------------------------------------------- */
extern const struct hd_endpoint_ops agg_endpoint_ops;
bool agg_routes_are_valid(void);
/* The same, and its session is closed. */
void agg_peer_close(
	struct agg_turn *turn,
	struct agg_peer *peer,
	enum hd_reason reason,
	const char *why
);
/* One of ours has not opened in time. */
void agg_peer_unreached(struct agg_turn *turn, struct agg_peer *peer);

/* --- agg_show.c ------------------------------------------------------------------------------- */
void agg_show(struct agg_turn *turn, struct agg_peer *peer, const struct hd_msg_show *show);
void agg_refuse_command(struct agg_turn *turn, struct agg_peer *peer);
void agg_poll(struct agg_turn *turn, const struct hd_msg_poll *poll); /* of the controller */

#endif
