/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rounds of federated jobs: who is drawn, how long they have, mu.
 *
 * Who is drawn depends on the job's seed, the round's number and who is here, and on nothing else: those here in the
 * order of their ranks are permuted (hd_split.h, seed + 1000003 round), the first K of that are drawn. When those
 * that are left cannot make up the least number of updates, more are drawn from the others; when there are none, the
 * round waits for somebody to join, and those that are here are told once nobody has for the job's wait_ms.
 */
#include "hd_server_rounds.h"
#include "hd_server_step.h"
#include "hd_split.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROUND_STEP UINT64_C(1000003)
#define DRAW_STEP UINT64_C(7919) /* of a further draw for a round */
/* Adaptive mu (FedProx, arXiv 1812.06127, 5.3.2): up when the loss rose, down after so many falls in a row. */
#define MU_STEP 0.1F
#define MU_FALLS 5

static bool hd_is_federated(const struct hd_job *job) {
	return job->spec.sync == HD_SYNC_FEDERATED;
}

/* Whether it can be drawn. */
static bool hd_takes_part(const struct hd_member *member) {
	return member != NULL && member->peer != NULL && member->peer->joined && !member->done
		&& !member->observer;
}

static struct hd_round_record *hd_rounds_record(struct hd_rounds *rounds) {
	return &rounds->records[rounds->round % HD_ROUNDS_SHOWN];
}

static bool hd_counts_late(const struct hd_job *job) {
	return hd_is_federated(job) && job->spec.federated.late == HD_LATE_WEIGHT;
}

static bool hd_is_drawn(const struct hd_job *job, const struct hd_member *member) {
	return job->rounds.open && member->draw.round == job->rounds.round;
}

/* Its update is to come. Who has said what it did and then that it is done has sent one. */
static bool hd_is_awaited(const struct hd_job *job, const struct hd_member *member) {
	const struct hd_member_draw *draw = &member->draw;

	return hd_is_drawn(job, member) && member->peer != NULL && member->peer->joined
		&& !member->observer && !draw->gave_up && (!member->done || draw->worked)
		&& !hd_member_stepped(member);
}

struct hd_round_present {
	uint32_t here; /* that can be drawn */
	uint32_t awaited; /* drawn for this round, and still to push */
	uint32_t quit; /* drawn for it, and gave nothing */
	uint32_t spare; /* not drawn for it, and without an update in its step */
};

static struct hd_round_present
hd_rounds_present(const struct hd_server *server, const struct hd_job *job) {
	struct hd_round_present present = {0};
	const struct hd_peer *peer;

	TAILQ_FOREACH (peer, &server->peers, link) {
		if (peer->job != job || peer->member == NULL) {
			continue;
		}
		present.awaited += hd_is_awaited(job, peer->member);
		if (!hd_takes_part(peer->member)) {
			continue;
		}
		present.here++;
		if (hd_member_stepped(peer->member)) {
			continue;
		}
		present.spare += !hd_is_drawn(job, peer->member);
		present.quit += hd_is_drawn(job, peer->member) && peer->member->draw.gave_up;
	}
	return present;
}

uint32_t hd_rounds_needs(const struct hd_server *server, const struct hd_job *job) {
	const struct hd_round_present present = hd_rounds_present(server, job);
	uint32_t least = job->spec.federated.clients_least;
	uint32_t most
		= job->step.count - job->step.late + (job->rounds.closed ? 0 : present.awaited);

	/* When nobody pushes on, what is there is the step. */
	if (present.here == 0 && present.awaited == 0 && job->step.count > 0) {
		return job->step.count;
	}
	return job->step.late + (most > least ? most : least);
}

/* When those that wait are told that nobody has come. */
static hd_ns hd_rounds_gives_up(const struct hd_job *job) {
	uint32_t wait_ms = job->spec.federated.wait_ms;

	return job->rounds.lack.since > 0 && wait_ms > 0 ?
		hd_ns_add(job->rounds.lack.since, (hd_ns)wait_ms * HD_MS) :
		HD_NEVER;
}

hd_ns hd_rounds_deadline(const struct hd_job *job) {
	const struct hd_rounds *rounds = &job->rounds;
	hd_ns until = rounds->open && !rounds->closed ? rounds->deadline : HD_NEVER;

	return hd_is_federated(job) ? hd_ns_min(until, hd_rounds_gives_up(job)) : HD_NEVER;
}

/* --- late updates -------------------------------------------------------------------------- */

/* Of the model under way, made if it is the first; NULL: nothing late counts. */
static struct hd_round_past *hd_rounds_past(struct hd_job *job) {
	struct hd_rounds *rounds = &job->rounds;

	if (rounds->past == NULL && hd_counts_late(job)) {
		rounds->past = calloc(HD_LATE_STEPS_MAX + 1, sizeof(*rounds->past));
	}
	return rounds->past != NULL ? &rounds->past[rounds->steps % (HD_LATE_STEPS_MAX + 1)] : NULL;
}

static void hd_rounds_given(struct hd_job *job, uint16_t rank) {
	struct hd_round_past *past = hd_rounds_past(job);

	if (past != NULL) {
		past->used = true;
		past->base = hd_version_counter(job->version);
		past->drawn[rank / 8] |= (uint8_t)(1U << rank % 8);
	}
}

/* Where this base was drawn for; NULL: it is too old, or nobody was. */
static struct hd_round_past *hd_rounds_find(const struct hd_job *job, hd_version base) {
	const struct hd_rounds *rounds = &job->rounds;

	for (uint32_t i = 0; rounds->past != NULL && i <= HD_LATE_STEPS_MAX; i++) {
		struct hd_round_past *past = &rounds->past[i];

		if (past->used && past->base == hd_version_counter(base)) {
			return past;
		}
	}
	return NULL;
}

uint32_t hd_rounds_late(const struct hd_job *job, hd_version base) {
	const struct hd_round_past *past;
	uint64_t late;

	if (hd_version_counter(base) == hd_version_counter(job->version)) {
		return 0;
	}
	past = hd_counts_late(job) ? hd_rounds_find(job, base) : NULL;
	if (past == NULL) {
		return UINT32_MAX;
	}
	late = job->rounds.steps - past->step;
	return late <= job->spec.tau_max ? (uint32_t)late : UINT32_MAX;
}

void hd_rounds_fini(struct hd_job *job) {
	free(job->rounds.past);
	job->rounds.past = NULL;
}

/* --- drawing -------------------------------------------------------------------------------- */

/* Up to `count` more of those here that were not drawn for this round. Returns how many. */
static uint32_t hd_rounds_draw(struct hd_job *job, uint32_t count) {
	const struct hd_federated *f = &job->spec.federated;
	struct hd_rounds *rounds = &job->rounds;
	uint32_t order[HD_WORKERS_MAX], here = 0;
	uint16_t rank[HD_WORKERS_MAX], before = rounds->drawn;

	for (uint32_t i = 0; i < HD_WORKERS_MAX; i++) {
		if (hd_takes_part(job->members[i]) && !hd_is_drawn(job, job->members[i])
		    && !hd_member_stepped(job->members[i])) {
			rank[here++] = (uint16_t)i;
		}
	}
	hd_split_permutation(
		order, here, f->seed + ROUND_STEP * rounds->round + DRAW_STEP * rounds->draws
	);
	for (uint32_t i = 0; i < here && i < count; i++) {
		job->members[rank[order[i]]]->draw = (struct hd_member_draw){
			.round = rounds->round,
			.place = rounds->drawn++,
		};
		hd_rounds_given(job, rank[order[i]]);
	}
	rounds->draws++;
	hd_rounds_record(rounds)->drawn = rounds->drawn;
	return rounds->drawn - before;
}

/* In whose place others are drawn is not waited for, and its update would be one too many: it is late. */
static void hd_rounds_forgo(struct hd_job *job) {
	for (uint32_t i = 0; i < HD_WORKERS_MAX; i++) {
		struct hd_member *member = job->members[i];

		if (member != NULL && !hd_takes_part(member) && hd_is_drawn(job, member)
		    && !hd_is_awaited(job, member) && !hd_member_stepped(member)) {
			member->draw.round = 0;
		}
	}
}

static void hd_rounds_say(struct hd_turn *turn, const struct hd_job *job, struct hd_peer *peer) {
	const struct hd_rounds *rounds = &job->rounds;
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
	peer->round_told = rounds->round;
	hd_peer_send(turn, peer, &message);
}

/* Whoever is drawn and was not told, by this session. */
static void hd_rounds_tell(struct hd_turn *turn, struct hd_job *job) {
	struct hd_peer *peer;

	TAILQ_FOREACH (peer, &turn->server->peers, link) {
		if (peer->job == job && hd_takes_part(peer->member)
		    && hd_is_drawn(job, peer->member) && peer->round_told != job->rounds.round
		    && !peer->member->draw.gave_up && !hd_member_stepped(peer->member)) {
			hd_rounds_say(turn, job, peer);
		}
	}
}

/* The next round, from this version on, without anybody drawn. */
static void hd_rounds_open(const struct hd_turn *turn, struct hd_job *job, hd_version version) {
	struct hd_rounds *rounds = &job->rounds;

	rounds->round++;
	rounds->open = true;
	rounds->closed = false;
	rounds->drawn = 0;
	rounds->draws = 0;
	rounds->loss_sum = rounds->loss_weight = 0;
	*hd_rounds_record(rounds) = (struct hd_round_record){
		.round = rounds->round,
		.version = version,
		.began = turn->now,
		.mu = rounds->mu,
	};
}

/* A life that begins with a checkpoint goes on with numbers that no former one had: a round makes at least one
 * version. */
static void hd_rounds_begin(struct hd_turn *turn, struct hd_job *job) {
	const struct hd_federated *f = &job->spec.federated;
	struct hd_rounds *rounds = &job->rounds;
	uint32_t came;

	if (rounds->round == 0) {
		rounds->mu = f->mu;
		rounds->round = (uint32_t)hd_version_counter(job->version);
	}
	hd_rounds_open(turn, job, job->version);
	rounds->deadline = f->deadline_ms > 0 ?
		hd_ns_add(turn->now, (hd_ns)f->deadline_ms * HD_MS) :
		HD_NEVER;
	came = job->step.count - job->step.late; /* in a round that ended without a step */
	(void)hd_rounds_draw(job, f->clients > came ? f->clients - came : 0);
}

/* It is over, with a step or without one. */
static void hd_rounds_close(const struct hd_turn *turn, struct hd_rounds *rounds) {
	struct hd_round_record *record = hd_rounds_record(rounds);

	rounds->open = false;
	record->ended = hd_ns_max(turn->now, 1);
	record->has_loss = rounds->loss_weight > 0;
	record->loss = record->has_loss ? rounds->loss_sum / rounds->loss_weight : 0;
}

/* Clients without which no round begins: the first one of all waits for so many as the job begins with. */
static uint32_t hd_rounds_begins_with(const struct hd_job *job) {
	const struct hd_federated *f = &job->spec.federated;
	bool first = job->rounds.round == 0 && job->life_count == 0;

	return first && f->available > f->clients_least ? f->available : f->clients_least;
}

/* --- too few ---------------------------------------------------------------------------------- */

/* Members that have no session, and did not leave. */
static uint32_t hd_rounds_gone(const struct hd_job *job) {
	uint32_t gone = 0;

	for (uint32_t i = 0; i < HD_WORKERS_MAX; i++) {
		const struct hd_member *member = job->members[i];

		gone += member != NULL && member->peer == NULL && !member->left && !member->done
			&& !member->observer;
	}
	return gone;
}

static void hd_rounds_say_lack(struct hd_turn *turn, struct hd_job *job) {
	const struct hd_rounds *rounds = &job->rounds;
	struct hd_message message = {.kind = HD_MSG_LACK};
	struct hd_peer *peer;

	message.lack = (struct hd_msg_lack){
		.job = job->id,
		.round = rounds->open ? rounds->round : rounds->round + 1,
		.here = (uint16_t)rounds->lack.here,
		.needed = (uint16_t)rounds->lack.needed,
		.gone = (uint16_t)hd_rounds_gone(job),
		.waited_ms = job->spec.federated.wait_ms,
	};
	TAILQ_FOREACH (peer, &turn->server->peers, link) {
		if (peer->job == job && hd_takes_part(peer->member)) {
			hd_peer_send(turn, peer, &message);
		}
	}
}

/* So many are here, or are in the step, of so many that a round needs. What it has is kept: it counts once another
 * client makes the round whole, or when all have left. */
static void
hd_rounds_count(struct hd_turn *turn, struct hd_job *job, uint32_t here, uint32_t needed) {
	struct hd_round_lack *lack = &job->rounds.lack;

	if (here >= needed || hd_rounds_present(turn->server, job).here == 0) {
		*lack = (struct hd_round_lack){0};
		return;
	}
	if (lack->since == 0 || here > lack->here) {
		*lack = (struct hd_round_lack){.since = hd_ns_max(turn->now, 1)};
	}
	lack->here = here;
	lack->needed = needed;
	if (turn->now >= hd_rounds_gives_up(job)) {
		hd_rounds_say_lack(turn, job);
		lack->since = turn->now;
		lack->told = true;
		job->rounds.lacked++;
	}
}

/* Nobody gives anything, or so few of all that are here that there is no step: they are asked anew. What did come
 * stays, as the model is still the one that it was computed from. */
static bool hd_rounds_stuck(const struct hd_job *job, const struct hd_round_present *present) {
	uint32_t came = job->step.count - job->step.late;
	uint32_t least = job->spec.federated.clients_least;

	if (!job->rounds.open || present->awaited > 0) {
		return false;
	}
	return came == 0
		|| (came + present->spare < least && came + present->spare + present->quit >= least
		);
}

/* --- the round -------------------------------------------------------------------------------- */

void hd_rounds_look(struct hd_turn *turn, struct hd_job *job) {
	struct hd_rounds *rounds = &job->rounds;
	struct hd_round_present present;
	uint32_t least = job->spec.federated.clients_least, ready;

	if (!hd_is_federated(job)) {
		return;
	}
	present = hd_rounds_present(turn->server, job);
	if (hd_rounds_stuck(job, &present)) {
		hd_rounds_close(turn, rounds);
		rounds->empty++;
	}
	if (!rounds->open) {
		if (present.here < hd_rounds_begins_with(job)) {
			hd_rounds_count(turn, job, present.here, hd_rounds_begins_with(job));
			return;
		}
		hd_rounds_begin(turn, job);
		present = hd_rounds_present(turn->server, job);
	}
	ready = job->step.count - job->step.late + present.awaited;
	if (ready < least) {
		hd_rounds_forgo(job);
		ready += hd_rounds_draw(job, least - ready);
	}
	hd_rounds_count(turn, job, ready, least);
	rounds->closed = rounds->closed || turn->now >= rounds->deadline;
	hd_rounds_tell(turn, job);
}

/* --- what comes ------------------------------------------------------------------------------ */

/* Whether it was drawn for the model that this was computed from, and has given nothing yet. */
static bool hd_rounds_expects(const struct hd_job *job, const struct hd_part *part) {
	const struct hd_member *member = part->member;
	const struct hd_round_past *past;

	if (hd_version_counter(part->base) == hd_version_counter(job->version)) {
		return hd_is_drawn(job, member) && !member->draw.gave_up;
	}
	past = hd_rounds_find(job, part->base);
	return past != NULL && (past->drawn[member->rank / 8] >> member->rank % 8 & 1) != 0;
}

enum hd_reason hd_rounds_admit(
	const struct hd_job *job,
	const struct hd_incoming *in,
	const struct hd_part **cause
) {
	for (uint16_t i = 0; i < in->part_count; i++) {
		const struct hd_part *part = &in->parts[i];

		*cause = part;
		if (!(part->weight > 0) || !isfinite(part->weight)) {
			return HD_REASON_REFUSED;
		}
		if (!hd_rounds_expects(job, part)) {
			return HD_REASON_LATE;
		}
	}
	*cause = NULL;
	return HD_REASON_NONE;
}

void hd_rounds_taken(struct hd_job *job, const struct hd_incoming *in, double weight) {
	job->rounds.received += weight;
	for (uint16_t i = 0; i < in->part_count; i++) {
		struct hd_round_past *past = hd_rounds_find(job, in->parts[i].base);
		uint16_t rank = in->parts[i].member->rank;

		if (past != NULL) {
			past->drawn[rank / 8] &= (uint8_t) ~(1U << rank % 8);
		}
		job->rounds.late += in->parts[i].late > 0;
	}
}

void hd_rounds_work(
	struct hd_turn *turn,
	const struct hd_peer *peer,
	const struct hd_msg_work *work
) {
	struct hd_job *job = peer->job;
	struct hd_rounds *rounds = &job->rounds;
	struct hd_member *member = peer->member;
	struct hd_round_record *record;

	if (hd_counts_late(job) && work->round < rounds->round) {
		return; /* of a round that is over: its update says the rest */
	}
	if (!hd_is_federated(job) || !hd_is_drawn(job, member) || work->round != rounds->round
	    || member->draw.worked || !isfinite(work->loss) || !(work->weight > 0)
	    || !isfinite(work->weight)) {
		turn->server->stats.refused_messages++;
		return;
	}
	record = hd_rounds_record(rounds);
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
	job->dirty = true; /* nobody waits for who gave up */
}

static void hd_rounds_adapt(struct hd_job *job) {
	struct hd_rounds *rounds = &job->rounds;
	double loss;

	if (!(rounds->loss_weight > 0)) {
		return;
	}
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

void hd_rounds_dropped(struct hd_job *job) {
	if (hd_is_federated(job) && job->rounds.round > 0) {
		hd_rounds_record(&job->rounds)->dropped++;
	}
}

void hd_rounds_ended(const struct hd_turn *turn, struct hd_job *job) {
	uint64_t counter = hd_version_counter(job->version);
	struct hd_round_record *record;
	struct hd_round_past *past;

	if (!hd_is_federated(job)) {
		return;
	}
	if (!job->rounds.open) { /* what came late, when no round began any more */
		hd_rounds_open(
			turn,
			job,
			hd_version_make(
				hd_version_incarnation(job->version), counter - job->step.count
			)
		);
	}
	record = hd_rounds_record(&job->rounds);
	record->came = job->step.count;
	record->late = job->step.late;
	record->weight = job->step.weight;
	job->rounds.applied += job->step.weight;
	job->rounds.ended++;
	hd_rounds_close(turn, &job->rounds);
	hd_rounds_adapt(job);
	job->rounds.steps++;
	past = hd_rounds_past(job);
	if (past != NULL) { /* what was there is too old by now */
		*past = (struct hd_round_past){.step = job->rounds.steps};
	}
}
