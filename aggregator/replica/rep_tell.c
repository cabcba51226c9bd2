/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports of a replica: its progress to the server, and what it holds to the controller. */
#include "rep_job.h"

struct rep_job *rep_job_of(const struct hd_server *server, uint32_t job) {
	struct rep_job *replica;

	TAILQ_FOREACH (replica, &server->replicas, link)
		if (replica->job->id == job)
			return replica;
	return NULL;
}

void rep_job_answer(
	struct srv_turn *turn,
	struct srv_peer *peer,
	uint32_t job,
	uint64_t generation,
	enum hd_follow_state state
) {
	struct hd_message message = {.kind = HD_MSG_FOLLOW};

	message.follow = (struct hd_msg_follow){
		.job = job,
		.generation = generation,
		.state = (uint8_t)state,
		.divergence = -1,
	};
	srv_peer_send(turn, peer, &message);
}

struct rep_entry *rep_job_first(const struct rep_job *replica) {
	const struct srv_incoming *added
		= TAILQ_LAST(&replica->job->step.members, srv_incoming_list);

	return added ? TAILQ_NEXT(added->entry, link) : TAILQ_FIRST(&replica->entries);
}

static uint8_t replica_state(const struct rep_job *replica) {
	const struct rep_entry *first = rep_job_first(replica);
	hd_version at = replica->job->version + replica->job->step.count;
	hd_version before, needed;

	if (!replica->has_state)
		return HD_FOLLOW_SEEDING;
	if (!first)
		return HD_FOLLOW_CAUGHT_UP;
	before = first->head.version - first->head.member_count;
	needed = first->lost ? first->head.version + first->head.more : before;
	/* A state in transfer will fill the hole if it is new enough. */
	if ((before == at && !first->lost) || (replica->receiving && replica->received >= needed))
		return HD_FOLLOW_CAUGHT_UP;
	return HD_FOLLOW_HOLE;
}

void rep_job_tell(struct srv_turn *turn, struct rep_job *replica, bool always) {
	struct hd_message message = {.kind = HD_MSG_FOLLOW};
	uint8_t state = replica_state(replica);
	hd_version version = replica->has_state ? replica->job->version : 0;

	if (!replica->source
	    || (!always && replica->reported == version && replica->reported_state == state))
		return;
	replica->reported = version;
	replica->reported_state = state;
	message.follow = (struct hd_msg_follow){
		.job = replica->job->id,
		.generation = replica->generation,
		.state = state,
		.version = version,
		.behind = replica->entry_count,
		.divergence = -1,
	};
	srv_peer_send(turn, replica->source, &message);
}

void rep_jobs_announce(struct srv_turn *turn) {
	struct hd_message message = {.kind = HD_MSG_FOLLOW};
	const struct rep_job *replica;

	TAILQ_FOREACH (replica, &turn->server->replicas, link) {
		if (!replica->has_state)
			continue;
		message.follow = (struct hd_msg_follow){
			.job = replica->job->id,
			.generation = replica->generation,
			.state = replica_state(replica),
			.version = replica->job->version,
			.behind = replica->entry_count,
			.divergence = -1,
		};
		srv_controller_send(turn, &message);
	}
}

void rep_event(
	struct srv_turn *turn,
	const struct srv_job *job,
	enum hd_event_kind kind,
	const struct rep_entry *entry
) {
	struct hd_event event = {.kind = kind, .job = job->id, .version = job->version};

	if (entry) {
		event.worker = entry->members[0].worker;
		event.round = entry->members[0].round;
		event.position = entry->members[0].position;
		event.base = entry->members[0].base;
		event.direction = HD_COPY;
		event.bytes = entry->head.bytes;
		event.aux = entry->members[0].delay;
		event.value = (double)entry->head.weight;
	}
	srv_turn_event(turn, &event);
}
