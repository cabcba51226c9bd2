/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Membership in ROSTERs: one change has one set with one target, N, tau_max and scale at every node, and no node goes
 * back to an older change of the same controller. So a worker that counts under one change is not counted under another
 * as well.
 */
#include "hd_check_private.h"

#include <inttypes.h>

static bool same(const struct hd_event *a, const struct hd_event *b) {
	return a->aux == b->aux && a->position == b->position && a->round == b->round
		&& a->bytes == b->bytes && !(a->value < b->value) && !(a->value > b->value);
}

/* Of one controller, or of one incarnation of a server without a controller; incarnations of servers have no order. */
static bool same_teller(uint64_t a, uint64_t b) {
	return hd_version_incarnation(a) == hd_version_incarnation(b);
}

static const struct hd_event *heard(struct hd_check *check, const struct hd_event *event) {
	struct hd_event *kept = &check->changes[event->version % HD_CHECK_CHANGES];

	if (kept->version == event->version)
		return kept;
	/* A newer change may have replaced it: then this one was compared with the first report, or is late. */
	if (kept->version < event->version)
		*kept = *event;
	return event;
}

const struct hd_event *hd_check_change(const struct hd_check *check, uint64_t change) {
	const struct hd_event *kept = &check->changes[change % HD_CHECK_CHANGES];

	return kept->version == change ? kept : NULL;
}

bool hd_check_is_forgotten(const struct hd_check *check, uint64_t change) {
	return check->changes[change % HD_CHECK_CHANGES].version > change;
}

void hd_check_ranks(struct hd_check *check, uint32_t ranks) {
	check->ranks = ranks;
}

void hd_check_members(
	struct hd_check *check,
	struct hd_check_listener *listener,
	const struct hd_event *event
) {
	if (check->failed || event->kind != HD_EVENT_ROSTER)
		return;
	check->stats.changes++;
	if (event->aux > check->ranks)
		hd_check_fail(
			check,
			"change %" PRIx64 " has %" PRIu64 " members, and there are %u ranks",
			event->version,
			event->aux,
			check->ranks
		);
	else if (!same(heard(check, event), event))
		hd_check_fail(check, "change %" PRIx64 " is two different ones", event->version);
	else if (same_teller(event->version, listener->change) && event->version < listener->change)
		hd_check_fail(
			check,
			"%s goes back from change %" PRIx64 " to %" PRIx64,
			listener->name,
			listener->change,
			event->version
		);
	listener->change = event->version;
}
