/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs and their members: look-up, rounds and pushes, whether a worker is here. */
#include "srv_incoming.h"

#include <assert.h>
#include <string.h>

struct srv_job *srv_job_find(const struct hd_server *server, uint32_t id) {
	struct srv_job *job;

	TAILQ_FOREACH (job, &server->jobs, link)
		if (job->id == id)
			return job;
	return NULL;
}

struct srv_member *srv_job_member(const struct srv_job *job, uint16_t rank) {
	return rank < HD_WORKERS_MAX ? job->members[rank] : NULL;
}

bool srv_job_empty(const struct srv_job *job, const struct srv_peers *peers) {
	const struct srv_peer *peer;

	TAILQ_FOREACH (peer, peers, link)
		if (peer->job == job)
			return false;
	return true;
}

struct srv_member *srv_job_enter(struct srv_job *job, uint16_t rank) {
	struct srv_member *member = job->members[rank];

	if (member)
		return member;
	member = calloc(1, sizeof *member);
	if (member) {
		member->rank = rank;
		job->members[rank] = member;
		job->member_count++;
	}
	return member;
}

void srv_job_enter_phase(struct srv_job *job, enum srv_job_phase phase) {
	/* The states from which each may be entered. A job may be retired for more than one reason. */
	static const uint8_t from[] = {
		[SRV_JOB_OPEN] = 1u << SRV_JOB_ENDING,
		[SRV_JOB_ENDING] = 1u << SRV_JOB_OPEN,
		[SRV_JOB_RETIRED]
		= 1u << SRV_JOB_OPEN | 1u << SRV_JOB_ENDING | 1u << SRV_JOB_RETIRED,
	};

	assert(from[phase] >> job->phase & 1);
	job->phase = phase;
}

bool srv_job_knows(const struct srv_job *job, hd_version base) {
	uint16_t incarnation = hd_version_incarnation(base);
	uint64_t counter = hd_version_counter(base);

	if (incarnation == hd_version_incarnation(job->version))
		return counter <= hd_version_counter(job->version);
	for (uint32_t i = 0; i < job->prior_count; i++)
		if (job->prior[i].incarnation == incarnation)
			return counter <= job->prior[i].last;
	return false;
}

const struct srv_round *srv_member_round(const struct srv_member *member, uint32_t round) {
	const struct srv_round *kept = &member->rounds[round % HD_ROUNDS_KEPT];

	return round != 0 && kept->round == round ? kept : NULL;
}

bool srv_member_forgot(const struct srv_member *member, uint32_t round) {
	return member->newest_round >= HD_ROUNDS_KEPT
		&& round <= member->newest_round - HD_ROUNDS_KEPT;
}

void srv_member_record(struct srv_member *member, const struct srv_round *round) {
	struct srv_round *kept = &member->rounds[round->round % HD_ROUNDS_KEPT];

	if (kept->round <= round->round && round->outcome != HD_OUTCOME_PENDING)
		*kept = *round;
	if (round->round > member->newest_round)
		member->newest_round = round->round;
}

void srv_member_forget(struct srv_member *member) {
	memset(member->rounds, 0, sizeof member->rounds);
	member->newest_round = 0;
}

void srv_job_idle(struct srv_turn *turn, struct srv_job *job) {
	job->idle_since = turn->now;
	hd_timer_set(
		&turn->server->timers,
		&job->idle,
		hd_ns_add(turn->now, turn->server->config.job_idle_us * HD_US)
	);
}

uint32_t
srv_member_applied(const struct srv_member *member, uint32_t most, struct hd_last_round *rows) {
	uint32_t first = member->newest_round > most ? member->newest_round - most + 1 : 1;
	uint32_t count = 0;

	for (uint32_t round = first; round <= member->newest_round && round != 0; round++) {
		const struct srv_round *kept = srv_member_round(member, round);

		struct hd_last_round row = {.worker = member->rank, .round = round};

		if (kept && kept->outcome == HD_OUTCOME_APPLIED) {
			row.outcome = HD_OUTCOME_APPLIED;
			row.delay = kept->delay;
			row.version = kept->version;
		} else if (round < member->newest_round) {
			continue;
		}
		if (rows)
			rows[count] = row;
		count++;
	}
	return count;
}

struct srv_part *srv_member_part(const struct srv_member *member, uint32_t round) {
	struct srv_part *part;

	LIST_FOREACH (part, &member->parts, member_link)
		if (part->round == round)
			return part;
	return NULL;
}

bool srv_member_stepped(const struct srv_member *member) {
	const struct srv_part *part;

	LIST_FOREACH (part, &member->parts, member_link)
		if (part->in->state == SRV_STEPPED && part->late == 0)
			return true;
	return false;
}
