/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of leases: SLOTS to the switch, REDUCE to the workers of a round that uses one. */
#include "ctl_base.h"
#include "ctl_slots.h"
#include "hd_group.h"

#include <math.h>

int ctl_lease_send(struct hd_controller *c, const struct ctl_lease *lease, struct hd_sink *sink) {
	struct hd_message message = {.kind = HD_MSG_SLOTS};
	uint8_t blob[HD_GROUP_SEAT_BYTES * HD_SWITCH_MEMBERS_MAX];
	struct hd_msg_slots *m = &message.slots;

	for (uint32_t i = 0; i < lease->seat_count; i++) {
		const struct ctl_seat *seat = &lease->seats[i];
		const struct hd_group_seat sent = {
			.worker = seat->worker,
			.token = seat->token,
			.result_token = seat->result_token,
			.ipv4 = seat->addr.ipv4,
			.port = seat->addr.port,
		};

		m->members.bytes += (uint32_t
		)hd_group_put_seats(&sent, 1, blob + m->members.bytes, HD_GROUP_SEAT_BYTES);
	}
	m->members.data = blob;
	m->job = lease->job->id;
	m->lease = lease->name;
	m->epoch = c->config.epoch;
	m->attempt = lease->attempt;
	m->dtype = lease->dtype;
	m->count = lease->count;
	m->slots = lease->slots;
	m->waits = lease->waits;
	m->expires_us = CTL_LEASE_EXPIRES_US;
	return ctl_send(c, lease->node, &message, sink);
}

static const struct ctl_seat *
seat_of(const struct ctl_lease *lease, uint16_t worker, uint8_t *member) {
	for (uint32_t i = 0; i < lease->seat_count; i++)
		if (lease->seats[i].worker == worker && (lease->waits >> i & 1) != 0) {
			*member = (uint8_t)i;
			return &lease->seats[i];
		}
	return NULL;
}

/* Whether the lease's job is in a round, or between two of them. */
static bool shares(const struct hd_controller *c, const struct ctl_lease *lease) {
	return ctl_lease_is_busy(lease)
		|| (lease->rounds > 0 && c->now < hd_ns_add(lease->used, CTL_LEASE_PAUSE_NS));
}

/* The rate of values in bit/s when other jobs' rounds use the same switch: by weight. */
static uint64_t rate_of(const struct hd_controller *c, const struct ctl_lease *lease) {
	const struct ctl_lease *other;
	double weights = 0;
	uint32_t count = 0;

	TAILQ_FOREACH (other, &c->leases, entry)
		if (other->node == lease->node && other->job
		    && (other == lease || shares(c, other))) {
			weights += ctl_job_weight(other->job);
			count++;
		}
	if (count < 2)
		return 0;
	return (uint64_t)ceil(lease->rate * 8 * ctl_job_weight(lease->job) / weights);
}

void ctl_lease_begin(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	struct hd_sink *sink
) {
	struct ctl_lease *lease = job->lease;
	const uint64_t chunk_bytes = (uint64_t)lease->count * sizeof(float);
	struct hd_message message = {.kind = HD_MSG_REDUCE};
	struct hd_msg_reduce *m = &message.reduce;
	uint8_t blob[HD_GROUP_SHARD_BYTES];

	r->lease = lease;
	lease->turn = r->round > lease->turn ? r->round : lease->turn + 1;
	m->job = job->id;
	m->round = r->round;
	m->epoch = c->config.epoch;
	m->dtype = lease->dtype;
	m->exponent
		= lease->dtype == HD_DTYPE_FIXED32 ? (uint16_t)(int16_t)ctl_lease_exponent(r) : 0;
	m->bytes = r->bytes;
	m->workers = (uint16_t)r->count[CTL_PART_STARTED];
	m->sum_id = r->sum_id;
	m->scale = r->scale;
	m->waiting = r->waiting;
	m->inline_bytes = (uint32_t)c->inline_bytes;
	m->op = r->op;
	m->slots = lease->slots;
	m->count = lease->count;
	m->lease_attempt = lease->attempt;
	m->turn = lease->turn;
	m->first = lease->first;
	lease->rate = ctl_lease_rate(c, lease);
	m->rate_bps = rate_of(c, lease);
	r->begun_at = c->now;
	r->took = 0;
	r->sent_rate = (double)m->rate_bps / 8;
	m->shards.data = blob;
	m->shards.bytes = sizeof blob;
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++) {
		const struct ctl_seat *seat;
		struct hd_group_shard shard = {
			.bytes = r->bytes,
			.ipv4 = lease->node->data.ipv4,
			.port = lease->node->data.port,
			.cc_weight = 1,
		};

		if (r->part[i] != CTL_PART_STARTED)
			continue;
		seat = seat_of(lease, i, &m->member);
		shard.out_token = seat->token;
		shard.in_token = seat->result_token;
		(void)hd_group_put_shards(&shard, 1, blob, sizeof blob);
		r->token[i] = seat->token;
		m->worker = i;
		m->attempt = r->attempt[i];
		(void)ctl_send(c, job->workers[i], &message, sink);
	}
	lease->first += (r->bytes + chunk_bytes - 1) / chunk_bytes;
	lease->used = c->now;
	lease->rounds++;
	c->counters.reduces_switched++;
}
