/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes with one rank: as at the controller (ctl_rank.c), for workers that JOIN without one, or are cut off
 * from it. */
#include "srv_rank.h"

#include <stdio.h>

#define RANK_WAIT_US (UINT64_C(2) * HD_DETECTION_US)

bool srv_rank_is_held(
	struct srv_turn *turn,
	struct srv_peer *peer,
	const struct srv_job *job,
	uint16_t rank
) {
	const struct srv_member *member = job->members[rank];
	const struct srv_peer *older = member ? member->peer : NULL;
	struct hd_message message = {.kind = HD_MSG_REFUSE};
	struct hd_addr at;
	bool held;

	if (!older || older == peer || older->broken || member->done
	    || hd_session_peer(older->session).ipv4 == hd_session_peer(peer->session).ipv4) {
		peer->rank_refused = 0;
		return false;
	}
	if (peer->rank_refused == 0)
		peer->rank_refused = turn->now;
	held = turn->now < hd_ns_add(peer->rank_refused, RANK_WAIT_US * HD_US);
	at = hd_session_peer(older->session);
	message.refuse.reason = held ? HD_REASON_RANK_HELD : HD_REASON_REFUSED;
	message.refuse.wire_version = HD_WIRE_VERSION;
	message.refuse.job = job->id;
	(void)snprintf(
		message.refuse.text,
		sizeof message.refuse.text,
		"worker: rank %u of job %s is alive at %u.%u.%u.%u",
		rank,
		job->spec.name,
		at.ipv4 >> 24,
		at.ipv4 >> 16 & 255,
		at.ipv4 >> 8 & 255,
		at.ipv4 & 255
	);
	turn->server->stats.refused_messages++;
	srv_peer_send(turn, peer, &message);
	return true;
}
