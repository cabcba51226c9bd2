/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rounds of federated jobs: drawing workers, deadlines, mu.
 *
 * The draw depends only on the job's seed, the round's number and the workers that are here: these are permuted in the
 * order of their ranks (hd_split.h, seed + 1000003 round), and the first K are drawn. When the drawn workers that
 * remain cannot make up the least number of updates, more are drawn from the others. When there are none, the round
 * waits for a worker to join; after the job's wait_ms without one the waiting workers are told.
 */
#include "hd_split.h"
#include "srv_incoming.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROUND_STEP UINT64_C(1000003)
#define DRAW_STEP UINT64_C(7919) /* for each further draw of a round */
/* Adaptive mu (FedProx, arXiv 1812.06127, 5.3.2): up when the loss rose, down after this many falls in a row. */
#define MU_STEP 0.1F
#define MU_FALLS 5

static bool is_federated(const struct srv_job *job) {
	return job->spec.sync == HD_SYNC_FEDERATED;
}

/* Whether it can be drawn. */
static bool takes_part(const struct srv_member *member) {
	return member && member->peer && member->peer->joined && !member->done && !member->observer;
}

static struct srv_federated_record *rounds_record(struct srv_federated *rounds) {
	return &rounds->records[rounds->round % SRV_FEDERATED_SHOWN];
}

static bool counts_late(const struct srv_job *job) {
	return is_federated(job) && job->spec.federated.late == HD_LATE_WEIGHT;
}

static bool is_drawn(const struct srv_job *job, const struct srv_member *member) {
	return job->federated.open && member->draw.round == job->federated.round;
}

/* Whether its update is still expected. A worker that reported its work and then that it is done has sent one. */
static bool is_awaited(const struct srv_job *job, const struct srv_member *member) {
	const struct srv_member_draw *draw = &member->draw;

	return is_drawn(job, member) && member->peer && member->peer->joined && !member->observer
		&& !draw->gave_up && (!member->done || draw->worked) && !srv_member_stepped(member);
}

struct round_present {
	uint32_t here; /* that can be drawn */
	uint32_t awaited; /* drawn for this round, and yet to push */
	uint32_t quit; /* drawn for it, and gave up */
	uint32_t spare; /* not drawn for it, without an update in its step */
};

static struct round_present
rounds_present(const struct hd_server *server, const struct srv_job *job) {
	struct round_present present = {0};
	const struct srv_peer *peer;

	TAILQ_FOREACH (peer, &server->peers, link) {
		if (peer->job != job || !peer->member)
			continue;
		present.awaited += is_awaited(job, peer->member);
		if (!takes_part(peer->member))
			continue;
		present.here++;
		if (srv_member_stepped(peer->member))
			continue;
		present.spare += !is_drawn(job, peer->member);
		present.quit += is_drawn(job, peer->member) && peer->member->draw.gave_up;
	}
	return present;
}

uint32_t srv_federated_needs(const struct hd_server *server, const struct srv_job *job) {
	const struct round_present present = rounds_present(server, job);
	uint32_t least = job->spec.federated.clients_least;
	uint32_t most
		= job->step.count - job->step.late + (job->federated.closed ? 0 : present.awaited);

	/* When no worker pushes any more, the updates that are here are the step. */
	if (present.here == 0 && present.awaited == 0 && job->step.count > 0)
		return job->step.count;
	return job->step.late + (most > least ? most : least);
}

/* When the waiting workers are told that no other has come. */
static hd_ns rounds_gives_up(const struct srv_job *job) {
	uint32_t wait_ms = job->spec.federated.wait_ms;

	return job->federated.lack.since > 0 && wait_ms > 0 ?
		hd_ns_add(job->federated.lack.since, (hd_ns)wait_ms * HD_MS) :
		HD_NEVER;
}

hd_ns srv_federated_deadline(const struct srv_job *job) {
	const struct srv_federated *rounds = &job->federated;
	hd_ns until = rounds->open && !rounds->closed ? rounds->deadline : HD_NEVER;

	return is_federated(job) ? hd_ns_min(until, rounds_gives_up(job)) : HD_NEVER;
}

/* --- late updates ----------------------------------------------------------------------------- */

/* The record of the current model, created if there is none; NULL: late updates do not count. */
static struct srv_federated_past *rounds_past(struct srv_job *job) {
	struct srv_federated *rounds = &job->federated;

	if (!rounds->past && counts_late(job))
		rounds->past = calloc(HD_LATE_STEPS_MAX + 1, sizeof *rounds->past);
	return rounds->past ? &rounds->past[rounds->steps % (HD_LATE_STEPS_MAX + 1)] : NULL;
}

static void rounds_given(struct srv_job *job, uint16_t rank) {
	struct srv_federated_past *past = rounds_past(job);

	if (past) {
		past->used = true;
		past->base = hd_version_counter(job->version);
		past->drawn[rank / 8] |= (uint8_t)(1U << rank % 8);
	}
}

/* The record of this base; NULL: it is too old, or no worker was drawn for it. */
static struct srv_federated_past *rounds_find(const struct srv_job *job, hd_version base) {
	const struct srv_federated *rounds = &job->federated;

	for (uint32_t i = 0; rounds->past && i <= HD_LATE_STEPS_MAX; i++) {
		struct srv_federated_past *past = &rounds->past[i];

		if (past->used && past->base == hd_version_counter(base))
			return past;
	}
	return NULL;
}

uint32_t srv_federated_late(const struct srv_job *job, hd_version base) {
	const struct srv_federated_past *past;
	uint64_t late;

	if (hd_version_counter(base) == hd_version_counter(job->version))
		return 0;
	past = counts_late(job) ? rounds_find(job, base) : NULL;
	if (!past)
		return UINT32_MAX;
	late = job->federated.steps - past->step;
	return late <= job->spec.tau_max ? (uint32_t)late : UINT32_MAX;
}

void srv_federated_fini(struct srv_job *job) {
	free(job->federated.past);
	job->federated.past = NULL;
}

/* --- drawing ---------------------------------------------------------------------------------- */

/* Draws up to `count` more of the workers that were not drawn for this round. Returns how many. */
static uint32_t rounds_draw(struct srv_job *job, uint32_t count) {
	const struct hd_federated *f = &job->spec.federated;
	struct srv_federated *rounds = &job->federated;
	uint32_t order[HD_WORKERS_MAX], here = 0;
	uint16_t rank[HD_WORKERS_MAX], before = rounds->drawn;

	for (uint32_t i = 0; i < HD_WORKERS_MAX; i++)
		if (takes_part(job->members[i]) && !is_drawn(job, job->members[i])
		    && !srv_member_stepped(job->members[i]))
			rank[here++] = (uint16_t)i;
	hd_split_permutation(
		order, here, f->seed + ROUND_STEP * rounds->round + DRAW_STEP * rounds->draws
	);
	for (uint32_t i = 0; i < here && i < count; i++) {
		job->members[rank[order[i]]]->draw = (struct srv_member_draw){
			.round = rounds->round,
			.place = rounds->drawn++,
		};
		rounds_given(job, rank[order[i]]);
	}
	rounds->draws++;
	rounds_record(rounds)->drawn = rounds->drawn;
	return rounds->drawn - before;
}

/* Drawn workers that were replaced are not waited for: their updates would be surplus, and are late. */
static void rounds_forgo(struct srv_job *job) {
	for (uint32_t i = 0; i < HD_WORKERS_MAX; i++) {
		struct srv_member *member = job->members[i];

		if (member && !takes_part(member) && is_drawn(job, member)
		    && !is_awaited(job, member) && !srv_member_stepped(member))
			member->draw.round = 0;
	}
}

static void rounds_send(struct srv_turn *turn, const struct srv_job *job, struct srv_peer *peer) {
	const struct srv_federated *rounds = &job->federated;
	struct hd_message message = {.kind = HD_MSG_ROUND};
	hd_ns left = rounds->deadline > turn->now ? rounds->deadline - turn->now : HD_MS;

	message.round = (struct hd_msg_round){
		.job = job->id,
		.round = rounds->round,
		.version = job->version,
		.place = peer->member->draw.place,
		.clients = rounds->drawn,
		.epochs = job->spec.federated.epochs,
		.drops = job->spec.federated.drops,
		.mu = rounds->mu,
		.left_ms
		= rounds->deadline != HD_NEVER ? (uint32_t)((left + HD_MS - 1) / HD_MS) : 0,
	};
	peer->round_sent = rounds->round;
	srv_peer_send(turn, peer, &message);
}

/* Tells the drawn workers that were not told in this session. */
static void rounds_tell(struct srv_turn *turn, struct srv_job *job) {
	struct srv_peer *peer;

	TAILQ_FOREACH (peer, &turn->server->peers, link)
		if (peer->job == job && takes_part(peer->member) && is_drawn(job, peer->member)
		    && peer->round_sent != job->federated.round && !peer->member->draw.gave_up
		    && !srv_member_stepped(peer->member))
			rounds_send(turn, job, peer);
}

/* Opens the next round, from this version on, with no worker drawn yet. */
static void rounds_open(const struct srv_turn *turn, struct srv_job *job, hd_version version) {
	struct srv_federated *rounds = &job->federated;

	rounds->round++;
	rounds->open = true;
	rounds->closed = false;
	rounds->drawn = 0;
	rounds->draws = 0;
	rounds->loss_sum = rounds->loss_weight = 0;
	*rounds_record(rounds) = (struct srv_federated_record){
		.round = rounds->round,
		.version = version,
		.began = turn->now,
		.mu = rounds->mu,
	};
}

/* After a restore, round numbers continue from the version's counter: a round makes at least one version, so no earlier
 * incarnation used these numbers. */
static void rounds_begin(struct srv_turn *turn, struct srv_job *job) {
	const struct hd_federated *f = &job->spec.federated;
	struct srv_federated *rounds = &job->federated;
	uint32_t came;

	if (rounds->round == 0) {
		rounds->mu = f->mu;
		rounds->round = (uint32_t)hd_version_counter(job->version);
	}
	rounds_open(turn, job, job->version);
	rounds->deadline = f->deadline_ms > 0 ?
		hd_ns_add(turn->now, (hd_ns)f->deadline_ms * HD_MS) :
		HD_NEVER;
	came = job->step.count - job->step.late; /* of a round that ended without a step */
	(void)rounds_draw(job, f->clients > came ? f->clients - came : 0);
}

/* The round is over, with a step or without one. */
static void rounds_close(const struct srv_turn *turn, struct srv_federated *rounds) {
	struct srv_federated_record *record = rounds_record(rounds);

	rounds->open = false;
	record->ended = hd_ns_max(turn->now, 1);
	record->has_loss = rounds->loss_weight > 0;
	record->loss = record->has_loss ? rounds->loss_sum / rounds->loss_weight : 0;
}

/* Clients needed for a round to begin: the first round waits for the number that the job begins with. */
static uint32_t rounds_begins_with(const struct srv_job *job) {
	const struct hd_federated *f = &job->spec.federated;
	bool first = job->federated.round == 0 && job->prior_count == 0;

	return first && f->available > f->clients_least ? f->available : f->clients_least;
}

/* --- missing clients -------------------------------------------------------------------------- */

/* Members without a session that did not leave. */
static uint32_t rounds_gone(const struct srv_job *job) {
	uint32_t gone = 0;

	for (uint32_t i = 0; i < HD_WORKERS_MAX; i++) {
		const struct srv_member *member = job->members[i];

		gone += member && !member->peer && !member->left && !member->done
			&& !member->observer;
	}
	return gone;
}

static void rounds_send_lack(struct srv_turn *turn, struct srv_job *job) {
	const struct srv_federated *rounds = &job->federated;
	struct hd_message message = {.kind = HD_MSG_LACK};
	struct srv_peer *peer;

	message.lack = (struct hd_msg_lack){
		.job = job->id,
		.round = rounds->open ? rounds->round : rounds->round + 1,
		.here = (uint16_t)rounds->lack.here,
		.needed = (uint16_t)rounds->lack.needed,
		.gone = (uint16_t)rounds_gone(job),
		.waited_ms = job->spec.federated.wait_ms,
	};
	TAILQ_FOREACH (peer, &turn->server->peers, link)
		if (peer->job == job && takes_part(peer->member))
			srv_peer_send(turn, peer, &message);
}

/* Notes how many are here or in the step, and how many the round needs. Its updates are kept: they count once another
 * client makes the round complete, or when all have left. */
static void
rounds_count(struct srv_turn *turn, struct srv_job *job, uint32_t here, uint32_t needed) {
	struct srv_federated_lack *lack = &job->federated.lack;

	if (here >= needed || rounds_present(turn->server, job).here == 0) {
		*lack = (struct srv_federated_lack){0};
		return;
	}
	if (lack->since == 0 || here > lack->here)
		*lack = (struct srv_federated_lack){.since = hd_ns_max(turn->now, 1)};
	lack->here = here;
	lack->needed = needed;
	if (turn->now >= rounds_gives_up(job)) {
		rounds_send_lack(turn, job);
		lack->since = turn->now;
		lack->reported = true;
		job->federated.lacked++;
	}
}

/* The drawn workers give no update, or too few of all that are here for a step: the round starts again. Updates that
 * came are kept, as the model that they were computed from is still the current one. */
static bool rounds_stuck(const struct srv_job *job, const struct round_present *present) {
	uint32_t came = job->step.count - job->step.late;
	uint32_t least = job->spec.federated.clients_least;

	if (!job->federated.open || present->awaited > 0)
		return false;
	return came == 0
		|| (came + present->spare < least && came + present->spare + present->quit >= least
		);
}

/* --- the round -------------------------------------------------------------------------------- */

void srv_federated_look(struct srv_turn *turn, struct srv_job *job) {
	struct srv_federated *rounds = &job->federated;
	struct round_present present;
	uint32_t least = job->spec.federated.clients_least, ready;

	if (!is_federated(job))
		return;
	present = rounds_present(turn->server, job);
	if (rounds_stuck(job, &present)) {
		rounds_close(turn, rounds);
		rounds->empty++;
	}
	if (!rounds->open) {
		if (present.here < rounds_begins_with(job)) {
			rounds_count(turn, job, present.here, rounds_begins_with(job));
			return;
		}
		rounds_begin(turn, job);
		present = rounds_present(turn->server, job);
	}
	ready = job->step.count - job->step.late + present.awaited;
	if (ready < least) {
		rounds_forgo(job);
		ready += rounds_draw(job, least - ready);
	}
	rounds_count(turn, job, ready, least);
	rounds->closed = rounds->closed || turn->now >= rounds->deadline;
	rounds_tell(turn, job);
}

/* --- updates and reports ---------------------------------------------------------------------- */

/* Whether the worker was drawn for the model that this was computed from, and has sent nothing for it. */
static bool rounds_expects(const struct srv_job *job, const struct srv_part *part) {
	const struct srv_member *member = part->member;
	const struct srv_federated_past *past;

	if (hd_version_counter(part->base) == hd_version_counter(job->version))
		return is_drawn(job, member) && !member->draw.gave_up;
	past = rounds_find(job, part->base);
	return past && (past->drawn[member->rank / 8] >> member->rank % 8 & 1) != 0;
}

enum hd_reason srv_federated_admit(
	const struct srv_job *job,
	const struct srv_incoming *in,
	const struct srv_part **cause
) {
	for (uint16_t i = 0; i < in->part_count; i++) {
		const struct srv_part *part = &in->parts[i];

		*cause = part;
		if (!(part->weight > 0) || !isfinite(part->weight))
			return HD_REASON_REFUSED;
		if (!rounds_expects(job, part))
			return HD_REASON_LATE;
	}
	*cause = NULL;
	return HD_REASON_NONE;
}

void srv_federated_taken(struct srv_job *job, const struct srv_incoming *in, double weight) {
	job->federated.received += weight;
	for (uint16_t i = 0; i < in->part_count; i++) {
		struct srv_federated_past *past = rounds_find(job, in->parts[i].base);
		uint16_t rank = in->parts[i].member->rank;

		if (past)
			past->drawn[rank / 8] &= (uint8_t) ~(1U << rank % 8);
		job->federated.late += in->parts[i].late > 0;
	}
}

void srv_federated_work(
	struct srv_turn *turn,
	const struct srv_peer *peer,
	const struct hd_msg_work *work
) {
	struct srv_job *job = peer->job;
	struct srv_federated *rounds = &job->federated;
	struct srv_member *member = peer->member;
	struct srv_federated_record *record;

	if (counts_late(job) && work->round < rounds->round)
		return; /* of an earlier round: its update says the rest */
	if (!is_federated(job) || !is_drawn(job, member) || work->round != rounds->round
	    || member->draw.worked || !isfinite(work->loss) || !(work->weight > 0)
	    || !isfinite(work->weight)) {
		turn->server->stats.refused_messages++;
		return;
	}
	record = rounds_record(rounds);
	member->draw.worked = true;
	member->draw.gave_up = work->gives == 0;
	rounds->gave_up += work->gives == 0;
	rounds->partial += work->epochs < job->spec.federated.epochs;
	record->gave_up += work->gives == 0;
	record->partial += work->epochs < job->spec.federated.epochs;
	rounds->loss_sum += (double)work->weight * work->loss;
	rounds->loss_weight += (double)work->weight;
	if (work->gamma >= 0 && isfinite(work->gamma)) {
		rounds->gamma_sum += (double)work->gamma;
		rounds->gammas++;
		record->gamma += (double)work->gamma;
		record->gamma_max = fmax(record->gamma_max, (double)work->gamma);
		record->gammas++;
	}
	job->dirty = true; /* a worker that gave up is not waited for */
}

static void rounds_adapt(struct srv_job *job) {
	struct srv_federated *rounds = &job->federated;
	double loss;

	if (!(rounds->loss_weight > 0))
		return;
	loss = rounds->loss_sum / rounds->loss_weight;
	if (job->spec.federated.mu_adapts && rounds->has_loss) {
		bool rose = loss > rounds->loss;

		rounds->falls = rose ? 0 : rounds->falls + 1;
		if (rose) {
			rounds->mu += MU_STEP;
		} else if (rounds->falls == MU_FALLS) {
			rounds->mu = fmaxf(rounds->mu - MU_STEP, 0);
			rounds->falls = 0;
		}
	}
	rounds->loss = loss;
	rounds->has_loss = true;
}

void srv_federated_dropped(struct srv_job *job) {
	if (is_federated(job) && job->federated.round > 0)
		rounds_record(&job->federated)->dropped++;
}

void srv_federated_ended(const struct srv_turn *turn, struct srv_job *job) {
	uint64_t counter = hd_version_counter(job->version);
	struct srv_federated_record *record;
	struct srv_federated_past *past;

	if (!is_federated(job))
		return;
	if (!job->federated.open) { /* late updates, when no further round began */
		rounds_open(
			turn,
			job,
			hd_version_make(
				hd_version_incarnation(job->version), counter - job->step.count
			)
		);
	}
	record = rounds_record(&job->federated);
	record->came = job->step.count;
	record->late = job->step.late;
	record->weight = job->step.weight;
	job->federated.applied += job->step.weight;
	job->federated.ended++;
	rounds_close(turn, &job->federated);
	rounds_adapt(job);
	job->federated.steps++;
	past = rounds_past(job);
	if (past) /* the updates are too old by now */
		*past = (struct srv_federated_past){.step = job->federated.steps};
}
