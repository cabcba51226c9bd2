/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Credits: a commit under a credit has the round and the position of the credit, and at most its bytes; it happens
 * once, and not after the server has returned the credit.
 */
#include "hd_check_private.h"

#include <inttypes.h>

static struct hd_check_credit *find(struct hd_check *check, const struct hd_event *event) {
	struct hd_check_worker *w = &check->workers[event->worker % HD_CHECK_WORKERS_MAX];

	for (uint32_t i = 0; event->token && i < HD_CHECK_CREDITS_KEPT; i++)
		if (w->credits[i].token == event->token)
			return &w->credits[i];
	return NULL;
}

static void on_credited(struct hd_check *check, const struct hd_event *event) {
	struct hd_check_worker *w = &check->workers[event->worker % HD_CHECK_WORKERS_MAX];

	w->credits[w->credit_count++ % HD_CHECK_CREDITS_KEPT] = (struct hd_check_credit){
		.token = event->token,
		.position = event->position,
		.bytes = event->bytes,
		.round = event->round,
	};
	check->stats.credits++;
}

static void
on_committed(struct hd_check *check, struct hd_check_credit *credit, const struct hd_event *event) {
	uint32_t w = event->worker, r = event->round;

	if (credit->ended)
		hd_check_fail(
			check, "worker %u round %u: its credit had ended at the commit", w, r
		);
	else if (r != credit->round || event->position != credit->position)
		hd_check_fail(
			check,
			"worker %u round %u: committed at %" PRIu64
			" on a credit for round %u at %" PRIu64,
			w,
			r,
			event->position,
			credit->round,
			credit->position
		);
	else if (event->bytes > credit->bytes)
		hd_check_fail(
			check,
			"worker %u round %u: %" PRIu64 " bytes on a credit of %" PRIu64,
			w,
			r,
			event->bytes,
			credit->bytes
		);
	credit->ended = true;
	check->stats.credits_spent++;
}

void hd_check_credits(struct hd_check *check, const struct hd_event *event, bool servers) {
	struct hd_check_credit *credit;

	if (check->failed)
		return;
	if (event->kind == HD_EVENT_CREDITED) {
		on_credited(check, event);
		return;
	}
	/* The controller may take back a credit that was spent before: the server's report counts. */
	if (!servers || (event->kind != HD_EVENT_COMMITTED && event->kind != HD_EVENT_VOIDED))
		return;
	credit = find(check, event);
	if (!credit)
		return;
	if (event->kind == HD_EVENT_COMMITTED) {
		on_committed(check, credit, event);
	} else if (!credit->ended) {
		credit->ended = true;
		check->stats.credits_ended++;
	}
}
