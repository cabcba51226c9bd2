/* SPDX-License-Identifier: BSD-3-Clause */
/* What the controller is told about a job: its state, and its transfers in flight. */
#include "srv_pull.h"
#include "srv_replica.h"

/* A sum is announced part by part, as it was granted; its end is reported to this controller part by part, too. */
static void inflight_push(struct srv_turn *turn, struct srv_incoming *in) {
	struct hd_message message = {.kind = HD_MSG_INFLIGHT};

	in->apart = in->kind == SRV_SUM;
	for (uint16_t i = 0; i < in->part_count; i++) {
		const struct srv_part *part = &in->parts[i];

		message.inflight = (struct hd_msg_inflight){
			.job = in->job->id,
			.worker = part->member->rank,
			.round = part->round,
			.direction = HD_PUSH,
			.attempt = part->attempt,
			.token = in->kind == SRV_SUM ? part->handle.token : in->handle.token,
			.position = in->kind == SRV_DIRECT ? 0 : in->position + i,
			.base = part->base,
			.bytes = in->bytes,
			.held_bytes = in->recv ? hd_recv_stats(in->recv)->bytes_held : 0,
		};
		srv_controller_send(turn, &message);
	}
}

static void inflight_pull(struct srv_turn *turn, const struct srv_outgoing *out) {
	struct hd_message message = {.kind = HD_MSG_INFLIGHT};

	message.inflight = (struct hd_msg_inflight){
		.job = out->job->id,
		.worker = out->grant.worker,
		.round = out->grant.round,
		.direction = HD_PULL,
		.attempt = out->grant.attempt,
		.token = out->handle.token,
		.base = out->snapshot ? out->snapshot->version : 0,
		.bytes = out->grant.bytes,
		.held_bytes = out->send ? hd_send_stats(out->send)->bytes_acked : 0,
	};
	srv_controller_send(turn, &message);
}

void srv_announce(struct srv_turn *turn, const struct srv_job *job) {
	struct hd_message message = {.kind = HD_MSG_STATE};
	uint32_t inflight = job->pull_count;
	const struct srv_outgoing *out;
	struct srv_incoming *in;

	if (!turn->server->upstream.registered || job->replica || job->phase == SRV_JOB_RETIRED)
		return;
	TAILQ_FOREACH (in, &job->open, open_link)
		inflight += in->part_count;
	message.state = (struct hd_msg_state){
		.job = job->id,
		.version = job->version,
		.position = job->position,
		.tau_max = job->spec.tau_max,
		.model_bytes = job->bytes,
		.inflight = inflight,
		.generation = job->confirmed ? job->generation : 0,
	};
	srv_controller_send(turn, &message);
	rep_ops.announce(turn, job);
	TAILQ_FOREACH (in, &job->open, open_link)
		inflight_push(turn, in);
	TAILQ_FOREACH (out, &job->pulls, open_link)
		inflight_pull(turn, out);
}
