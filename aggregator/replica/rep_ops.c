/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of functions through which the server calls this room. */
#include "rep_job.h"
#include "rep_primary.h"

static uint64_t ops_generation(const struct srv_job *job) {
	return job->replica  ? job->replica->generation :
		job->primary ? job->primary->generation :
			       0;
}

static void ops_forget(struct hd_server *server, struct srv_job *job) {
	rep_primary_free(server, job);
	rep_job_free(server, job);
}

static void ops_timer(struct srv_turn *turn, struct hd_timer *timer) {
	if (timer->kind == SRV_TIMER_PRIMARY)
		rep_primary_timer(turn, timer);
	else
		rep_job_timer(timer);
}

const struct rep_ops rep_ops = {
	.generation = ops_generation,
	.forget = ops_forget,
	.timer = ops_timer,
	.keep = rep_primary_keep,
	.leave = rep_primary_fini,
	.heard = rep_primary_message,
	.permits = rep_primary_permits,
	.committed = rep_primary_committed,
	.consider = rep_primary_consider,
	.announce = rep_primary_announce,
	.link_opened = rep_link_opened,
	.link_closed = rep_link_closed,
	.link_lost = rep_link_lost,
	.state_sack = rep_state_sack,
	.state_poll = rep_state_poll,
	.offer = rep_state_offer,
	.begin = rep_job_begin,
	.log = rep_log_take,
	.serve = rep_job_serve,
	.run = rep_job_run,
	.expect = rep_copy_expect,
	.drop = rep_copy_drop,
	.members = rep_sum_members,
	.complete = rep_copy_complete,
	.fail = rep_copy_fail,
	.make_room = rep_copy_make_room,
	.state_packet = rep_state_packet,
	.detach = rep_copies_detach,
	.announce_replicas = rep_jobs_announce,
	.ask_again = rep_copies_ask_again,
	.settle = rep_states_settle,
	.deadline = rep_jobs_deadline,
};
