/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps of synchronous jobs: several updates with one base, applied as one step of their mean.
 *
 *   queue:  w3 complete, w1 in flight, w0+w2 (a sum) complete    base 8 = the job's version
 *             \                        \
 *              sum = w3             sum += w0+w2     count 3 of 4:  w1 completes:  model 12
 *                                                                   other updates with base 8 are late from here on
 *
 * A member is added to the sum as soon as it is complete, and its own buffer is free again: a step costs one buffer for
 * any number of members. Updates are added in the order of the commit log. Members stay open transfers until the step
 * is applied, so a repeated request gets no new answer. An unfinished step is lost with the server; its workers push
 * again.
 */
#include "hd_kernels.h"
#include "hd_runs.h"
#include "srv_keep.h"
#include "srv_step.h"

#include <assert.h>
#include <math.h>

#define STEP_RETRY_US 10000 /* while there is no memory for the sum */
#define STEP_WAIT_US 1000000 /* a longer wait is reported, */
#define STEP_BLOCK 1024 /* values of a late update that are scaled at once */
#define STEP_REPORT_US 10000000 /* of one job at most this often */

static uint32_t roster_count(const struct srv_job *job) {
	return job->roster.sync_count > 0 ? job->roster.sync_count : job->spec.sync_count;
}

/* N of the current step, or of the next. A roster that raises N applies to the next step, so that no step mixes two.
 * One that lowers N ends the wait at once, as a lost worker does: otherwise the step would wait for updates that are
 * not granted. */
uint32_t srv_step_count(const struct srv_job *job) {
	uint32_t now = roster_count(job);

	return job->step.count > 0 && job->step.most < now ? job->step.most : now;
}

/* The factor on the mean comes from the same change as N; if the step waits for all workers, from the newest. Without
 * any change yet (a replica that was promoted) the last step's factor stays. */
static void step_follow(struct srv_job *job) {
	struct srv_step *step = &job->step;

	if (step->count > 0 && srv_step_counts(job) && step->most <= roster_count(job))
		return;
	step->most = roster_count(job);
	step->change = job->roster.change;
	if (job->roster.change != 0)
		step->scale = hd_roster_scale(&job->roster, job->spec.scale_base);
	if (step->scale <= 0 || job->spec.sync == HD_SYNC_FEDERATED)
		step->scale = 1; /* federated updates have their own weights */
}

/* The workers that are here and push; never observers. */
struct present {
	uint32_t count;
	uint32_t missing; /* of these: without an update in the step */
	uint16_t first; /* the lowest rank of those missing */
};

static struct present step_present(const struct hd_server *server, const struct srv_job *job) {
	struct present present = {.first = HD_WORKERS_MAX};
	const struct srv_peer *peer;

	TAILQ_FOREACH (peer, &server->peers, link) {
		if (peer->job == job && peer->joined && !peer->member->done
		    && !peer->member->observer) {
			present.count++;
			if (srv_member_stepped(peer->member))
				continue;
			present.missing++;
			present.first = peer->member->rank < present.first ? peer->member->rank :
									     present.first;
		}
	}
	return present;
}

/* --- adding ----------------------------------------------------------------------------------- */

/* Only a federated job's updates have different weights. */
static double step_weight(const struct srv_job *job, const struct srv_incoming *in) {
	return job->spec.sync == HD_SYNC_FEDERATED ? (double)in->scale * srv_incoming_weights(in) :
						     in->part_count;
}

/* How late its parts are. A sum cannot be split: its oldest part sets the factor for all. Factors are powers of 1/2, so
 * that products are exact, and the order of adding and scaling does not matter. */
static void step_date(struct srv_job *job, struct srv_incoming *in) {
	uint32_t most = 0;

	for (uint16_t i = 0; i < in->part_count; i++) {
		uint32_t late = srv_federated_late(job, in->parts[i].base);

		late = late <= HD_LATE_STEPS_MAX ?
			late :
			0; /* of a copy: the log says what is in the step */
		in->parts[i].late = (uint8_t)late;
		job->step.late += late > 0;
		most = late > most ? late : most;
	}
	in->scale = ldexpf(1, -(int)most);
}

bool srv_step_take(
	struct hd_server *server,
	struct srv_job *job,
	struct srv_incoming *in,
	float scale
) {
	struct srv_step *step = &job->step;

	assert(!step->adding && in->buffer);
	if (!step->sum)
		step->sum = srv_buffer_get(server, job);
	if (!step->sum)
		return false;
	if (in->queued) { /* a replica's come in the order of the log */
		TAILQ_REMOVE(&job->queue, in, queue_link);
		in->queued = false;
	}
	srv_incoming_enter(in, SRV_STEPPED);
	in->steps = 1; /* the step is one, however many updates the sum has */
	TAILQ_INSERT_TAIL(&step->members, in, queue_link);
	if (scale > 0)
		step->scale = scale;
	else
		step_follow(job);
	step->count += in->part_count;
	if (job->spec.sync == HD_SYNC_FEDERATED)
		step_date(job, in);
	step->weight += step_weight(job, in);
	srv_federated_taken(job, in, step_weight(job, in));
	step->adding = in;
	step->done = 0;
	step->read = 0;
	step->normed = false;
	return true;
}

/* Adds a late update with its reduced weight. */
static void step_add_scaled(struct srv_step *step, uint64_t at, uint64_t count) {
	const struct srv_incoming *in = step->adding;
	const uint16_t *half = (const void *)in->buffer->data;
	bool first = in == TAILQ_FIRST(&step->members);
	float block[STEP_BLOCK];

	for (uint64_t n; count > 0; at += n, count -= n) {
		n = count < STEP_BLOCK ? count : STEP_BLOCK;
		if (hd_dtype_is_half(in->dtype)) {
			hd_half_to_f32(in->dtype, block, half + at, n);
			hd_scale_f32(block, block, n, in->scale);
		} else {
			hd_scale_f32(block, in->buffer->data + at, n, in->scale);
		}
		if (first)
			memcpy(step->sum->data + at, block, n * sizeof(float));
		else
			hd_add_f32(step->sum->data + at, block, n);
	}
}

static void step_add_dense(struct srv_step *step, uint64_t at, uint64_t count) {
	const struct srv_incoming *in = step->adding;
	const uint16_t *half = (const void *)in->buffer->data;
	bool first = in == TAILQ_FIRST(&step->members);
	float *sum = step->sum->data + at;

	if (hd_dtype_is_half(in->dtype) && first)
		hd_half_to_f32(in->dtype, sum, half + at, count);
	else if (hd_dtype_is_half(in->dtype))
		hd_add_half(in->dtype, sum, half + at, count);
	else if (first)
		memcpy(sum, in->buffer->data + at, count * sizeof *sum);
	else
		hd_add_f32(sum, in->buffer->data + at, count);
}

/* Adds a chunk's runs, which were checked when it arrived. */
static void step_add_runs(struct srv_job *job, const uint8_t *chunk, size_t bytes) {
	struct hd_runs_cursor cursor;
	struct hd_run run;
	const float *x;

	float block[STEP_BLOCK], scale = job->step.adding->scale;

	hd_runs_begin(&cursor, chunk, bytes, job->values);
	while (hd_runs_next(&cursor, &run, &x) > 0) {
		if (scale >= 1) {
			hd_add_f32(job->step.sum->data + run.first, x, run.count);
			continue;
		}
		for (uint64_t i = 0, n; i < run.count; i += n) {
			n = run.count - i < STEP_BLOCK ? run.count - i : STEP_BLOCK;
			memcpy(block, x + i, n * sizeof(float));
			hd_scale_f32(block, block, n, scale);
			hd_add_f32(job->step.sum->data + run.first + i, block, n);
		}
	}
}

static void step_spend(struct hd_server *server, uint64_t values) {
	server->apply_left -= values < server->apply_left ? values : server->apply_left;
}

/* The sum is dense: values that no member names stay 0. True: all of it is added. */
static bool step_add_sparse(struct hd_server *server, struct srv_job *job) {
	struct srv_step *step = &job->step;
	const struct srv_incoming *in = step->adding;
	uint64_t clear = in == TAILQ_FIRST(&step->members) ? job->values - step->done : 0;

	clear = clear < server->apply_left ? clear : server->apply_left;
	memset(step->sum->data + step->done, 0, clear * sizeof(float));
	step->done += clear;
	step_spend(server, clear);
	while (server->apply_left > 0 && step->read < in->bytes) {
		const uint8_t *chunk = (const uint8_t *)in->buffer->data + step->read;
		uint64_t left = in->bytes - step->read;
		uint32_t full = hd_recv_chunk_bytes(in->recv);
		size_t bytes = left < full ? (size_t)left : full;

		step_add_runs(job, chunk, bytes);
		step_spend(server, bytes / sizeof(float) + 1);
		step->read += bytes;
	}
	return step->read == in->bytes;
}

/* True: the newest member is added completely. */
static bool step_add_some(struct hd_server *server, struct srv_job *job) {
	struct srv_step *step = &job->step;
	uint64_t count = job->values - step->done;

	if (step->adding->dtype == HD_DTYPE_SPARSE32)
		return step_add_sparse(server, job);
	count = count < server->apply_left ? count : server->apply_left;
	if (step->adding->scale < 1)
		step_add_scaled(step, step->done, count);
	else
		step_add_dense(step, step->done, count);
	step_spend(server, count);
	step->done += count;
	return step->done == job->values;
}

bool srv_step_add(struct hd_server *server, struct srv_job *job) {
	struct srv_incoming *in = job->step.adding;

	if (server->apply_left == 0 || !step_add_some(server, job))
		return false;
	job->step.adding = NULL;
	srv_buffer_put(server, job, in->buffer);
	in->buffer = NULL;
	return true;
}

/* --- the step --------------------------------------------------------------------------------- */

/* A step of N workers waits until N have been here at once. From then on a lost or leaving worker lowers the number, as
 * it does in a step of all workers. In a step of n updates any worker may fill it alone. When no worker pushes any
 * more, the updates that are here are the step. Workers that come after all have left are waited for as at the
 * beginning. */
uint32_t srv_step_needs(const struct hd_server *server, const struct srv_job *job) {
	const struct present present = step_present(server, job);
	uint32_t most = job->step.count + present.missing, count = srv_step_count(job);
	bool lowers = job->spec.sync == HD_SYNC_ALL || present.count == 0
		|| (job->spec.sync == HD_SYNC_N && job->step.formed);

	if (job->spec.sync == HD_SYNC_NONE)
		return 0;
	if (job->spec.sync == HD_SYNC_FEDERATED)
		return srv_federated_needs(server, job);
	if (srv_step_counts(job) && (most > count || !lowers))
		return count;
	return most;
}

void srv_step_joined(const struct hd_server *server, struct srv_job *job) {
	job->dirty = job->dirty || job->spec.sync == HD_SYNC_FEDERATED; /* a round may begin */
	if (!job->step.formed && job->spec.sync == HD_SYNC_N)
		job->step.formed = step_present(server, job).count >= srv_step_count(job);
}

/* A worker that reconnects is no new process: the step continues as before. */
void srv_step_restart_member(
	const struct hd_server *server,
	struct srv_job *job,
	const struct srv_member *member
) {
	const struct srv_peer *peer;

	TAILQ_FOREACH (peer, &server->peers, link)
		if (peer->job == job && peer->member != member && !peer->member->done
		    && !peer->member->observer)
			return;
	job->step.formed = false;
}

struct srv_incoming *srv_step_due(const struct srv_turn *turn, struct srv_job *job) {
	const struct srv_step *step = &job->step;

	if (step->count == 0 || step->adding || step->count < srv_step_needs(turn->server, job))
		return NULL;
	step_follow(job);
	return TAILQ_FIRST(&step->members);
}

uint32_t
srv_step_missing(const struct hd_server *server, const struct srv_job *job, uint16_t *first) {
	const struct present present = step_present(server, job);

	*first = present.first;
	return job->spec.sync != HD_SYNC_NONE ? present.missing : 0;
}

hd_ns srv_step_watch(struct srv_turn *turn, struct srv_job *job) {
	struct srv_step *step = &job->step;
	struct hd_event event = {.kind = HD_EVENT_STEP_WAITS};
	hd_ns again = HD_NEVER, due = hd_ns_add(step->since, STEP_WAIT_US * HD_US);

	if (step->starved) {
		step->starved = false;
		again = hd_ns_add(turn->now, STEP_RETRY_US * HD_US);
	}
	if (step->count == 0)
		return again;
	if (step->reported_at != 0)
		due = hd_ns_max(due, hd_ns_add(step->reported_at, STEP_REPORT_US * HD_US));
	if (turn->now >= due) {
		event.version = job->version;
		event.aux = srv_step_missing(turn->server, job, &event.worker);
		event.worker = event.aux > 0 ? event.worker : 0;
		event.value = (double)(turn->now - step->since) / 1e9;
		srv_job_event(turn, job, &event);
		step->reported_at = turn->now;
		due = hd_ns_add(turn->now, STEP_REPORT_US * HD_US);
	}
	return hd_ns_min(again, due);
}

double srv_step_norm2(struct srv_job *job) {
	struct srv_step *step = &job->step;
	double mean = (double)step->scale / step->weight;

	if (!step->normed) {
		step->norm2 = hd_norm2_f32(step->sum->data, job->values);
		step->normed = true;
	}
	return step->norm2 * mean * mean;
}

void srv_step_event(struct srv_turn *turn, const struct srv_job *job) {
	struct hd_event event = {
		.kind = HD_EVENT_STEPPED,
		.job = job->id,
		.version = job->version,
		.position = job->step.change,
		.aux = job->step.count,
		.value = (double)job->step.scale,
	};

	srv_turn_event(turn, &event);
}

void srv_step_tell(struct srv_turn *turn, const struct srv_job *job) {
	struct hd_message message = {.kind = HD_MSG_STEP};
	struct srv_peer *peer;

	message.step.job = job->id;
	message.step.version = job->version;
	TAILQ_FOREACH (peer, &turn->server->peers, link)
		if (peer->job == job && peer->joined && !srv_member_stepped(peer->member))
			srv_peer_send(turn, peer, &message);
}

void srv_step_end(struct srv_job *job) {
	struct srv_step *step = &job->step;

	step->count = 0;
	step->late = 0;
	step->adding = NULL;
	step->weight = 0;
	step->normed = false;
}

void srv_step_fini(struct hd_server *server, struct srv_job *job) {
	srv_buffer_put(server, job, job->step.sum);
	job->step.sum = NULL;
}
