/* SPDX-License-Identifier: BSD-3-Clause */
/* Updates in transfer: accepting, receiving and committing them. */
#ifndef SRV_UPDATE_H
#define SRV_UPDATE_H

#include "srv_incoming.h"

/* --- srv_push.c ------------------------------------------------------------------------------- */
void srv_push_expect(struct srv_turn *turn, const struct hd_msg_expect *expect);
void srv_push_request(
	struct srv_turn *turn,
	struct srv_member *member,
	const struct hd_msg_request *request
);
void srv_push_void(struct srv_turn *turn, const struct hd_msg_void_ *void_);
void srv_push_cancel(
	struct srv_turn *turn,
	struct srv_member *member,
	const struct hd_msg_cancel *cancel
);
/* Resumes direct updates that waited for memory. */
void srv_push_feed(struct srv_turn *turn);
/* Whether the round has ended already, or an update on `base` cannot be applied any more after `ahead` others: *round
 * has the outcome. Ended rounds keep their outcome. */
bool srv_push_is_over(
	const struct srv_job *job,
	const struct srv_member *member,
	hd_version base,
	uint64_t ahead,
	struct srv_round *round
);
/* Answers such a push; an outcome that is decided only now is recorded and counted. */
void srv_push_answer(
	struct srv_turn *turn,
	struct srv_job *job,
	struct srv_member *member,
	const struct srv_round *round
);
/* Whether a new grant of the round replaces this one: its attempt is newer, or the same and not in flight, and this one
 * is not complete. */
bool srv_part_is_superseded(const struct srv_part *older, uint8_t attempt);
/* Replaces it. */
void srv_part_replace(struct srv_turn *turn, const struct srv_part *older);

/* --- srv_sum.c -------------------------------------------------------------------------------- */
void srv_sum_members(struct srv_turn *turn, const struct hd_msg_members *members);
/* An aggregator gives its sum up. */
void srv_sum_void(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_void_ *void_);

/* --- srv_assembly.c --------------------------------------------------------------------------- */
void srv_assembly_chunk(struct srv_turn *turn, const struct hd_packet *packet);
/* Acknowledges, completes and sends go for everything that the call touched. */
void srv_assembly_settle(struct srv_turn *turn);
void srv_assembly_timer(struct srv_turn *turn, struct srv_incoming *in);

/* --- srv_commit.c ----------------------------------------------------------------------------- */
/* Commits what is due, as far as the call's budget allows. */
void srv_commit_run(struct srv_turn *turn, struct srv_job *job);

#endif
