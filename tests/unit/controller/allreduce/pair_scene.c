/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_text.h"
#include "pair_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void ask_pair(struct scene *s, uint16_t rank, struct pair_wish wish) {
	struct hd_message m
		= net_push(s->workers[rank], wish.number, wish.bytes ? wish.bytes : BYTES, 0);

	m.request.direction = HD_REDUCE;
	m.request.attempt = wish.attempt ? wish.attempt : 1;
	m.request.have = wish.number;
	m.request.collective = HD_COLLECTIVE_SEND;
	m.request.root = wish.from;
	m.request.channel = hd_channel(wish.from, wish.to);
	m.request.peer_boot = wish.peer_boot;
	hd_text_copy(m.request.tag, sizeof m.request.tag, wish.tag ? wish.tag : "");
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

const struct hd_msg_drop *dropped(const struct scene *s, uint16_t rank) {
	const struct hd_message *m = peer_last(s->workers[rank], HD_MSG_DROP);

	return m ? &m->drop : NULL;
}

uint32_t begun(const struct scene *s, uint16_t rank) {
	return peer_count(s->workers[rank], HD_MSG_REDUCE);
}

uint32_t released(const struct scene *s, uint16_t rank) {
	return peer_count(s->workers[rank], HD_MSG_REDUCED);
}

struct ctl_job *job_of(const struct scene *s) {
	return s->net.controller->jobs[0];
}

/* A receiver has the values of its newest REDUCE, or could not take them. */
void report(struct scene *s, uint16_t rank, uint8_t outcome, uint64_t sender_boot) {
	const struct hd_msg_reduce *reduce = reduce_sent(s, rank);
	struct hd_message m = {.kind = HD_MSG_REPORT};

	m.report = (struct hd_msg_report
	){.job = reduce->job,
	  .worker = rank,
	  .round = reduce->round,
	  .channel = reduce->channel,
	  .direction = HD_REDUCE,
	  .attempt = reduce->attempt,
	  .token = reduce->sum_id,
	  .base = sender_boot,
	  .outcome = outcome,
	  .reason = outcome == HD_OUTCOME_APPLIED ? HD_REASON_NONE : HD_REASON_NO_MEMORY};
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}

void answer(struct scene *s, uint16_t rank, struct hd_msg_channel known) {
	struct hd_message m = {.kind = HD_MSG_CHANNEL, .channel = known};

	m.channel.job = job_of(s)->id;
	m.channel.worker = rank;
	post(s->workers[rank], m);
	net_run(&s->net, HD_MS);
}
