/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A state on its way to a replica. It becomes the job's state at once, when all of it is there; until then the
 * older one, if there is one, stays what a promotion would begin with, and goes on following the log.
 */
#include "hd_bytes.h"
#include "hd_replica.h"
#include "hd_server_step.h"

#include <errno.h>

/* --- the end of one ----------------------------------------------------------------------------- */

static void hd_seed_in_end(struct hd_server *server, struct hd_mirror *mirror, uint32_t index) {
	struct hd_seed_in *part = &mirror->part[index];

	if (part->recv != NULL) {
		hd_recv_destroy(part->recv);
		part->recv = NULL;
		hd_handle_remove(server, &part->handle);
	}
	hd_buffer_put(server, mirror->job, part->buffer);
	part->buffer = NULL;
	part->whole = false;
}

void hd_mirror_seed_drop(struct hd_server *server, struct hd_mirror *mirror) {
	hd_seed_in_end(server, mirror, 0);
	hd_seed_in_end(server, mirror, 1);
	free(mirror->staged);
	mirror->staged = NULL;
	mirror->staged_count = 0;
	mirror->staged_capacity = 0;
	mirror->staged_all = false;
	mirror->seeding = false;
}

/* --- rounds that are in it ------------------------------------------------------------------------ */

static bool hd_stage_grow(struct hd_mirror *mirror) {
	uint32_t capacity = mirror->staged_capacity > 0 ? 2 * mirror->staged_capacity : 256;
	struct hd_last_round *grown;

	if (mirror->staged_count < mirror->staged_capacity) {
		return true;
	}
	if (capacity > HD_STAGED_MAX) {
		return false;
	}
	grown = realloc(mirror->staged, capacity * sizeof(*grown));
	if (grown == NULL) {
		return false;
	}
	mirror->staged = grown;
	mirror->staged_capacity = capacity;
	return true;
}

void hd_mirror_stage(struct hd_mirror *mirror, const struct hd_msg_log *log) {
	struct hd_entry head;
	uint32_t at = 0;

	while (mirror->seeding && hd_entry_next(&log->entries, &at, &head) > 0) {
		struct hd_entry_member member = hd_entry_member(&head, 0);

		if (member.worker >= HD_WORKERS_MAX || member.round == 0
		    || !hd_stage_grow(mirror)) {
			continue;
		}
		mirror->staged[mirror->staged_count++] = (struct hd_last_round){
			.worker = member.worker,
			.round = member.round,
			.delay = member.delay,
			.outcome = head.version != 0 ? HD_OUTCOME_APPLIED : HD_OUTCOME_PENDING,
			.version = head.version,
		};
	}
	mirror->staged_all = mirror->seeding && log->of == HD_LOG_ROUNDS_END;
}

static void hd_staged_take(struct hd_mirror *mirror) {
	struct hd_job *job = mirror->job;

	for (uint32_t i = 0; i < HD_WORKERS_MAX; i++) {
		if (job->members[i] != NULL) {
			memset(job->members[i]->rounds, 0, sizeof(job->members[i]->rounds));
			job->members[i]->newest_round = 0;
		}
	}
	for (uint32_t i = 0; i < mirror->staged_count; i++) {
		const struct hd_last_round *row = &mirror->staged[i];
		struct hd_member *member = hd_job_enter(job, row->worker);
		struct hd_round round = {
			.round = row->round,
			.outcome = row->outcome,
			.delay = row->delay,
			.version = row->version,
		};

		if (member != NULL) {
			hd_member_record(member, &round);
		}
	}
}

/* --- SEED ------------------------------------------------------------------------------------- */

static struct hd_mirror *hd_mirror_new(struct hd_turn *turn, struct hd_job *job) {
	struct hd_server *server = turn->server;
	struct hd_mirror *mirror = calloc(1, sizeof(*mirror));

	if (mirror == NULL || hd_timers_reserve(&server->timers) < 0) {
		free(mirror);
		return NULL;
	}
	mirror->job = job;
	mirror->timer.kind = HD_TIMER_MIRROR;
	for (uint32_t i = 0; i < 2; i++) {
		mirror->part[i].handle.kind = HD_HANDLE_SEED_IN;
		mirror->part[i].mirror = mirror;
	}
	TAILQ_INIT(&mirror->entries);
	TAILQ_INIT(&mirror->sums);
	TAILQ_INSERT_TAIL(&server->mirrors, mirror, link);
	job->mirror = mirror;
	return mirror;
}

/* The job's mirror, made if it is new. NULL: no room. */
static struct hd_mirror *hd_mirror_get(struct hd_turn *turn, const struct hd_msg_seed *seed) {
	char text[HD_TEXT_BYTES_MAX + 1];
	struct hd_jobspec spec = {0};
	struct hd_job *job = hd_job_find(turn->server, seed->job);

	if (job != NULL) {
		return job->mirror;
	}
	if (hd_jobspec_decode(seed->spec.data, seed->spec.bytes, &spec) < 0) {
		return NULL;
	}
	if (hd_job_id(spec.tenant, spec.name) == seed->job
	    && hd_jobspec_model_bytes(&spec) == seed->bytes) {
		job = hd_job_create_mirror(turn, &spec, text);
	}
	hd_jobspec_fini(&spec);
	if (job != NULL && hd_mirror_new(turn, job) == NULL) {
		hd_job_destroy(turn->server, job);
		return NULL;
	}
	return job != NULL ? job->mirror : NULL;
}

static int
hd_seed_in_open(struct hd_turn *turn, struct hd_mirror *mirror, uint32_t index, uint64_t token) {
	struct hd_seed_in *part = &mirror->part[index];
	struct hd_job *job = mirror->job;
	struct hd_recv_config config = {
		.token = token,
		.job = job->id,
		.round = index + 1,
		.worker = HD_WORKERS_MAX,
		.dtype = HD_DTYPE_FP32,
		.bytes = job->bytes,
	};
	int rc;

	part->buffer = hd_buffer_get(turn->server, job);
	while (part->buffer == NULL && hd_mirror_sums_yield(turn, mirror)) {
		part->buffer = hd_buffer_get(turn->server, job);
	}
	if (part->buffer == NULL) {
		return -ENOMEM;
	}
	config.data = part->buffer->data;
	part->handle.token = token;
	rc = hd_handle_add(turn->server, &part->handle);
	if (rc < 0) {
		return rc;
	}
	rc = hd_recv_create(&config, &part->recv);
	if (rc < 0) {
		part->recv = NULL;
		hd_handle_remove(turn->server, &part->handle);
	}
	return rc;
}

static void hd_seed_lives(struct hd_mirror *mirror, const struct hd_blob *lives) {
	uint32_t count = lives->bytes / HD_LIFE_BYTES;

	mirror->life_count = count < HD_LIVES_MAX ? count : HD_LIVES_MAX;
	for (uint32_t i = 0; i < mirror->life_count; i++) {
		const uint8_t *at = lives->data + (size_t)i * HD_LIFE_BYTES;

		mirror->lives[i] = (struct hd_life){hd_get16(at), hd_get64(at + 2)};
	}
}

static void
hd_seed_take(struct hd_turn *turn, struct hd_mirror *mirror, const struct hd_msg_seed *seed) {
	hd_mirror_seed_drop(turn->server, mirror);
	mirror->seeding = true;
	mirror->seed = seed->version;
	mirror->every = seed->every;
	hd_seed_lives(mirror, &seed->lives);
	if (hd_seed_in_open(turn, mirror, 0, seed->model_token) < 0
	    || hd_seed_in_open(turn, mirror, 1, seed->momentum_token) < 0) {
		hd_mirror_seed_drop(turn->server, mirror);
		turn->server->stats.drop_memory++;
		hd_mirror_answer(turn, mirror->source, seed->job, seed->generation, HD_FOLLOW_NONE);
		return;
	}
	hd_mirror_tell(turn, mirror, true);
}

/* Of a server that began the job anew, with a history of its own, whose versions may be the lesser numbers. */
static bool
hd_seed_is_of_another_history(const struct hd_mirror *mirror, const struct hd_msg_seed *seed) {
	hd_version ours = mirror->job->version;

	return mirror->seeded && !mirror->serve && seed->generation > mirror->generation
		&& hd_version_incarnation(seed->version) < hd_version_incarnation(ours);
}

void hd_mirror_seed(struct hd_turn *turn, struct hd_peer *peer, const struct hd_msg_seed *seed) {
	struct hd_job *job = hd_job_find(turn->server, seed->job);
	struct hd_mirror *mirror;

	if (turn->server->draining || (job != NULL && job->retired)) {
		return; /* it says it again */
	}
	if (job == NULL ? hd_mirror_serves(turn->server, seed->job) > seed->generation :
			  job->mirror == NULL && job->generation > seed->generation) {
		hd_mirror_answer(turn, peer, seed->job, seed->generation, HD_FOLLOW_FENCED);
		return;
	}
	if (job != NULL && job->mirror == NULL) {
		/* A server by a newer word than we have heard: ours is on its way. It says this again. */
		hd_mirror_answer(turn, peer, seed->job, seed->generation, HD_FOLLOW_NONE);
		hd_job_retire(turn, job); /* last: the session may go with it */
		return;
	}
	if (job != NULL && hd_seed_is_of_another_history(job->mirror, seed)) {
		hd_mirror_answer(turn, peer, seed->job, seed->generation, HD_FOLLOW_NONE);
		hd_job_retire(turn, job); /* it says this again, and finds nothing here */
		return;
	}
	mirror = hd_mirror_get(turn, seed);
	if (mirror == NULL || seed->generation < mirror->generation || mirror->serve
	    || seed->bytes != mirror->job->bytes) {
		turn->server->stats.refused_messages++;
		return;
	}
	/* What is here of the log stays, also another assignment's: a version names one commit only. */
	mirror->generation = seed->generation;
	mirror->source = peer;
	hd_seed_take(turn, mirror, seed);
}

/* --- chunks ------------------------------------------------------------------------------------ */

bool hd_seed_is_from(const struct hd_seed_in *part, struct hd_addr from) {
	const struct hd_peer *source = part->mirror->source;

	return source != NULL && hd_addr_equal(hd_session_peer(source->session), from);
}

void hd_mirror_chunk(
	struct hd_turn *turn,
	struct hd_seed_in *part,
	const struct hd_chunk_header *header,
	const uint8_t *payload,
	size_t bytes
) {
	struct hd_server_stats *stats = &turn->server->stats;

	switch (hd_recv_chunk(part->recv, turn->now, header, payload, bytes)) {
	case HD_RECV_DONE:
		part->whole = true;
		break;
	case HD_RECV_DUPLICATE:
		stats->duplicates++;
		break;
	case HD_RECV_MISMATCH:
		stats->drop_mismatch++;
		return;
	default:
		break;
	}
	stats->chunk_bytes += bytes;
}

static void hd_seed_in_sack(struct hd_turn *turn, struct hd_mirror *mirror, uint32_t index) {
	struct hd_message message = {.kind = HD_MSG_SACK};
	struct hd_recv *recv = mirror->part[index].recv;

	if (recv == NULL || mirror->source == NULL || !hd_recv_sack_due(recv, turn->now)) {
		return;
	}
	hd_recv_sack(recv, turn->now, turn->server->config.receive_window_bytes, &message.sack);
	(void)hd_session_send_once(mirror->source->session, &message, turn->now, turn->sink);
}

/* --- the whole state ------------------------------------------------------------------------------ */

static void hd_seed_swap(struct hd_server *server, struct hd_mirror *mirror) {
	struct hd_job *job = mirror->job;
	struct hd_mirror_entry *entry, *next;
	struct hd_buffer *old[2] = {job->model, job->momentum};

	job->model = mirror->part[0].buffer;
	job->momentum = mirror->part[1].buffer;
	mirror->part[0].buffer = NULL;
	mirror->part[1].buffer = NULL;
	hd_buffer_put(server, job, old[0]);
	hd_buffer_put(server, job, old[1]);
	job->version = mirror->seed;
	job->life_count = mirror->life_count;
	memcpy(job->lives, mirror->lives, mirror->life_count * sizeof(job->lives[0]));
	hd_staged_take(mirror);
	for (entry = TAILQ_FIRST(&mirror->entries); entry != NULL; entry = next) {
		next = TAILQ_NEXT(entry, link);
		if (entry->head.version <= mirror->seed
		    || (entry->copy != NULL && entry->copy->stepped)) {
			hd_mirror_entry_free(server, entry);
		}
	}
	hd_step_end(job); /* a state is no part of a step: what was added up is in it */
	mirror->seeded = true;
	server->stats.states_taken++;
	job->dirty = true;
}

static void hd_mirror_settle(struct hd_turn *turn, struct hd_mirror *mirror) {
	hd_seed_in_sack(turn, mirror, 0);
	hd_seed_in_sack(turn, mirror, 1);
	/* Without its rounds a push that is in the state would be taken once more. */
	if (!mirror->seeding || !mirror->staged_all || !mirror->part[0].whole
	    || !mirror->part[1].whole || mirror->job->apply.in != NULL || mirror->serve) {
		return;
	}
	/* One that is older than what we are at by now is of no use. */
	if (!mirror->seeded || mirror->seed > mirror->job->version) {
		hd_copies_overtaken(turn, mirror, mirror->seed);
		hd_seed_swap(turn->server, mirror);
		hd_mirror_event(turn, mirror->job, HD_EVENT_SEEDED, NULL);
	}
	hd_mirror_seed_drop(turn->server, mirror);
	hd_mirror_tell(turn, mirror, true);
}

void hd_mirrors_settle(struct hd_turn *turn) {
	struct hd_mirror *mirror;

	TAILQ_FOREACH (mirror, &turn->server->mirrors, link) {
		hd_mirror_settle(turn, mirror);
	}
}

hd_ns hd_mirrors_deadline(const struct hd_server *server) {
	const struct hd_mirror *mirror;
	hd_ns deadline = HD_NEVER;

	TAILQ_FOREACH (mirror, &server->mirrors, link) {
		for (uint32_t i = 0; i < 2 && mirror->source != NULL; i++) {
			if (mirror->part[i].recv != NULL) {
				deadline = hd_ns_min(
					deadline, hd_recv_deadline(mirror->part[i].recv)
				);
			}
		}
	}
	return deadline;
}
