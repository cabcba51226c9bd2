/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plausibility of values that nodes send. Every node has the cluster's key and may be faulty: one message must not end
 * a job for good, neither by a number that no other exceeds nor by one from which others cannot go on.
 */
#include "ctl_possible.h"

#define GENERATION_BITS 48 /* of the counter within an epoch */

static uint64_t count_of(uint64_t generation) {
	return generation & ((UINT64_C(1) << GENERATION_BITS) - 1);
}

/* Generations come from this controller or from an earlier process, whose epoch is smaller. Epoch 1 may be a restart
 * without a state directory: then an earlier process used generations of this epoch, and this one continues after
 * them. */
static bool generation_is_possible(const struct hd_controller *c, uint64_t generation) {
	const uint64_t epoch = generation >> GENERATION_BITS;

	if (epoch == 0 || epoch > c->config.epoch || count_of(generation) > HD_GENERATIONS_MAX)
		return false;
	return epoch < c->config.epoch || epoch == 1 || count_of(generation) <= c->generations;
}

uint64_t ctl_generation_next(struct hd_controller *c) {
	return (uint64_t)c->config.epoch << GENERATION_BITS | ++c->generations;
}

uint64_t ctl_generation_believed(struct hd_controller *c, uint64_t generation) {
	if (generation == 0)
		return 0;
	if (!generation_is_possible(c, generation)) {
		c->counters.hostile_value++;
		return 0;
	}
	if (generation >> GENERATION_BITS == c->config.epoch
	    && count_of(generation) > c->generations)
		c->generations = count_of(generation);
	return generation;
}

uint64_t ctl_generation_kept(const struct hd_controller *c, uint64_t generation) {
	return generation >> GENERATION_BITS < c->config.epoch ? generation : 0;
}

bool ctl_state_is_possible(const struct hd_msg_state *m) {
	return m->job != 0 && m->inflight <= HD_TRANSFERS_MAX && m->position <= HD_POSITION_MAX
		&& m->tau_max <= HD_TAU_MAX_LIMIT && m->model_bytes <= HD_MODEL_BYTES_MAX;
}

bool ctl_inflight_is_possible(const struct hd_msg_inflight *m) {
	return m->direction <= HD_PULL && m->worker < HD_WORKERS_MAX && m->token != 0
		&& m->bytes <= HD_MODEL_BYTES_MAX && m->position <= HD_POSITION_MAX;
}

/* The round of a sum has begun, and a worker has at most HD_TICKETS_MAX open. A controller without a state directory
 * may have forgotten newer ones. */
bool ctl_round_is_possible(
	const struct hd_controller *c,
	const struct ctl_job *job,
	uint32_t round
) {
	const bool keeps = c->config.ops && c->config.ops->keep;
	uint64_t newest
		= job->reduce_round > job->reduce_kept ? job->reduce_round : job->reduce_kept;

	if (keeps && job->reduce_begun)
		return round <= (uint64_t)job->reduce_begun + HD_TICKETS_MAX;
	return round <= HD_ROUND_MAX || round <= newest + HD_TICKETS_MAX;
}

const char *ctl_reduce_fields_wrong(
	const struct hd_controller *c,
	const struct ctl_job *job,
	const struct hd_msg_register_ *m
) {
	static const struct ctl_job none;
	const struct ctl_job *known = job ? job : &none;

	if (m->world > HD_WORKERS_MAX)
		return "world: more than 4096 (HD_WORKERS_MAX)";
	if (!ctl_round_is_possible(c, known, m->reduce_round))
		return "reduce_round: more than 1024 (HD_TICKETS_MAX) ahead of the job's newest all-reduce";
	/* The oldest that has not ended may be the next round. */
	if (m->reduce_from && !ctl_round_is_possible(c, known, m->reduce_from - 1))
		return "reduce_from: more than 1024 (HD_TICKETS_MAX) ahead of the job's newest all-reduce";
	if (m->reduce_called && !ctl_round_is_possible(c, known, m->reduce_called - 1))
		return "reduce_called: more than 1024 (HD_TICKETS_MAX) ahead of the job's newest all-reduce";
	return NULL;
}
