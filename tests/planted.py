# SPDX-License-Identifier: BSD-3-Clause
"""The faults that tests/faults.py plants: what a programmer forgets, says twice, or counts wrongly.

One row: its name, the file, the old text (once in the file: tests/house/check_planted.py), the new text, the program
and its words, and from how many seeds it is run where it takes seeds.
"""
import collections

Fault = collections.namedtuple("Fault", "name file old new run seeds", defaults=(10,))

CLUSTER = "tests/sim/test_seeds"
HARD = "tests/sim/test_seeds hard"
GROUPS = "tests/sim/test_seeds groups"
SUMS = "tests/sim/test_groups"
REPLICA = "tests/sim/test_replica_sim"
SYNC = "tests/sim/test_sync"
ALLREDUCE = "tests/sim/test_allreduce --first 1 --seeds 10"
SWITCH_QUEUE = "tests/unit/test_switch_queue"
SWITCH_CORE = "tests/golden/switch/switch_property --first 1 --seeds 10"

CONTROLLER = [
    # transfer/: the table of transfers
    Fault("open-not-counted-down", "controller/transfer/base/ctl_transfers.c",
          "		c->open_count--;\n		t->job->open--;\n", "		c->open_count--;\n", CLUSTER),
    Fault("open-pushes-not-down", "controller/transfer/base/ctl_transfers.c",
          "			t->job->open_pushes--;", "			t->job->open_pushes += 0;", CLUSTER),
    Fault("pending-not-counted-down", "controller/transfer/base/ctl_transfers.c",
          "	TAILQ_REMOVE(&c->pending, t, entry);\n	c->pending_count--;\n	t->job->pending--;\n	t->token",
          "	TAILQ_REMOVE(&c->pending, t, entry);\n	t->job->pending--;\n	t->token", CLUSTER),
    Fault("open-state-forgotten", "controller/transfer/base/ctl_transfers.c",
          "	ctl_transfer_enter(t, t->credit ? CTL_CREDITED : CTL_GRANTED);\n", "", CLUSTER),
    Fault("path-given-back-twice", "controller/transfer/base/ctl_transfers.c",
          "	path_use(c, t, false);\n	t->path_count = 0;\n", "	path_use(c, t, false);\n",
          "tests/unit/test_controller_faults"),
    Fault("credit-not-counted", "controller/transfer/base/ctl_grant.c",
          "	job->credits++;\n", "", CLUSTER),
    Fault("credit-spent-unnoticed", "controller/transfer/ctl_credit.c",
          "	ctl_transfer_enter(t, CTL_GRANTED);\n", "", CLUSTER),
    Fault("credit-left-at-worker", "controller/transfer/base/ctl_transfers.c",
          "		worker->credit = NULL;", "		worker->credit = t;", CLUSTER),
    # core/: jobs and nodes
    Fault("job-keeps-lost-server", "controller/core/registry/ctl_jobs.c",
          "	ctl_replica_forget(c, job, sink);\n	job->server = NULL;\n", "	ctl_replica_forget(c, job, sink);\n",
          HARD),
    Fault("job-ready-unsettled", "controller/core/registry/ctl_jobs.c",
          "	job_becomes(job, CTL_JOB_SETTLING);\n", "	job_becomes(job, CTL_JOB_READY);\n", CLUSTER),
    Fault("rank-not-displaced", "controller/core/registry/ctl_registry.c",
          "	if (older && older != node)\n		displace(c, older, node, sink);",
          "	if (older && older == node)\n		displace(c, older, node, sink);", "tests/unit/test_controller_faults"),
    Fault("node-down-told-twice", "controller/core/registry/ctl_node_down.c",
          "	node->role = HD_ROLE_NONE;\n	if (role != HD_ROLE_SWITCH)\n", "	if (role != HD_ROLE_SWITCH)\n", CLUSTER),
    # group/
    Fault("group-member-not-down", "controller/core/base/ctl_groups.c",
          "		group->alive--;\n", "", GROUPS),
    Fault("group-wrong-slot", "controller/core/base/ctl_groups.c",
          "		group->members[t->group_slot] = NULL;\n", "		group->members[0] = NULL;\n", GROUPS),
    # replica/
    Fault("copy-of-sum-not-counted", "controller/transfer/base/ctl_transfers.c",
          "		t->job->replica.sums++;\n", "		t->job->replica.sums += 0;\n", "tests/unit/test_controller_copy"),
    # allreduce/ and slots/
    Fault("left-out-not-silent", "controller/allreduce/base/ctl_wait.c",
          "	node->silent = true;\n", "", "tests/unit/test_controller_reduce_wait"),
    Fault("called-forgotten", "controller/allreduce/base/ctl_wait.c",
          "	node->reduce_called = called;\n", "", "tests/unit/test_controller_reduce_wait"),
    Fault("lease-not-the-jobs", "controller/slots/ctl_lease.c",
          "	job->lease = lease;\n	TAILQ", "	TAILQ", ALLREDUCE),
    Fault("lease-ends-under-rounds", "controller/allreduce/ctl_reduce.c",
          "	while (lease->job && (r = first_through", "	if (lease->job && (r = first_through",
          "tests/unit/test_controller_lease"),
    Fault("round-keeps-its-lease", "controller/allreduce/ctl_reduce.c",
          "	r->switch_failures += r->lease != NULL;\n	r->lease = NULL;\n",
          "	r->switch_failures += r->lease != NULL;\n", ALLREDUCE),
    Fault("round-keeps-its-memory", "controller/allreduce/ctl_reduce.c",
          "	ctl_shared_leave(job, r);\n	r->begun = false;\n", "	r->begun = false;\n",
          "tests/unit/test_controller_reduce_shared"),
    Fault("part-not-counted", "controller/allreduce/base/ctl_reduce_table.c",
          "	r->count[part]++;\n", "", ALLREDUCE),
    Fault("receiver-not-counted", "controller/allreduce/base/ctl_reduce_table.c",
          "	r->receiving += r->receives[worker] && part == CTL_PART_STARTED;\n", "", ALLREDUCE),
    Fault("giver-not-released", "controller/allreduce/ctl_reduce.c",
          "		ctl_reduce_send_reduced(c, job, r, i, sink);\n", "", "tests/unit/test_controller_collectives"),
    Fault("giver-back-is-late", "controller/allreduce/ctl_reduce_ask.c",
          "		ctl_reduce_part(r, m->worker, CTL_PART_GIVEN);\n", "", "tests/unit/test_controller_collectives"),
    # allreduce/: pairs of a send and a receive
    Fault("pair-not-of-its-workers", "controller/allreduce/base/ctl_pairs.c",
          "		job->pairs_of[pair->worker[end]]++;\n", "		job->pairs_of[pair->worker[end]] += 0;\n",
          "tests/unit/test_controller_pairs"),
    Fault("pair-memory-not-taken", "controller/allreduce/base/ctl_pairs.c",
          "	aggregator->pair_bytes += pair->memory;\n", "", "tests/unit/test_controller_pairs"),
    Fault("pair-keeps-its-aggregator", "controller/allreduce/base/ctl_pairs.c",
          "	pair->aggregator = NULL;\n	if (!pair->begun)\n", "	if (!pair->begun)\n",
          "tests/unit/test_controller_pair_ends"),
    Fault("pair-not-counted-down", "controller/allreduce/base/ctl_pairs.c",
          "	job->pair_count--;\n", "", ALLREDUCE),
    Fault("pair-void-still-started", "controller/allreduce/ctl_pair_begin.c",
          "			ctl_pair_enter(pair, end, CTL_PART_VOID);\n", "", "tests/unit/test_controller_pair_ends"),
]

SERVER = [
    Fault("update-held-skipped", "aggregator/server/srv_assembly.c",
          "		srv_incoming_enter(in, SRV_HELD);\n", "		srv_incoming_enter(in, SRV_READY);\n", CLUSTER),
    Fault("update-queued-twice", "aggregator/server/srv_assembly.c",
          "	if (!in->queued)\n		srv_commit_queue(in);\n", "	srv_commit_queue(in);\n", CLUSTER),
    Fault("update-started-twice", "aggregator/server/srv_assembly.c",
          "	if (in->state == SRV_ANNOUNCED)\n		incoming_started", "	if (in->state != SRV_HELD)\n		incoming_started",
          CLUSTER),
    Fault("update-not-counted-down", "aggregator/server/srv_incoming.c",
          "	in->job->open_count--;\n", "", CLUSTER),
    Fault("buffer-kept", "aggregator/server/srv_incoming.c",
          "	hd_recv_destroy(in->recv);\n	srv_buffer_put(server, in->job, in->buffer);\n",
          "	hd_recv_destroy(in->recv);\n", CLUSTER),
    Fault("buffer-given-back-twice", "aggregator/server/srv_step.c",
          "	srv_buffer_put(server, job, in->buffer);\n	in->buffer = NULL;\n	return true;",
          "	srv_buffer_put(server, job, in->buffer);\n	return true;", SYNC),
    Fault("apply-not-over", "aggregator/server/srv_apply.c",
          "	job->weights2 = job->apply.weights2 > 0 ? job->apply.weights2 : 0;\n	job->apply = (struct srv_apply){0};\n",
          "	job->weights2 = job->apply.weights2 > 0 ? job->apply.weights2 : 0;\n", CLUSTER),
    Fault("model-pinned-uncounted", "aggregator/server/srv_snapshot.c",
          "		snapshot->buffer->refs++;\n", "", CLUSTER),
    Fault("pull-still-starved", "aggregator/server/srv_pull.c",
          "		outgoing_enter(out, SRV_OUTGOING_WAITING);\n", "", "tests/unit/test_server_pull"),
    Fault("pull-not-sending", "aggregator/server/srv_pull.c",
          "	outgoing_enter(out, SRV_OUTGOING_SENDING);\n", "", CLUSTER),
    Fault("timer-room-forgotten", "aggregator/server/srv_pull.c",
          "	if (hd_timers_reserve(&server->sends) < 0)\n		goto fail_timer;",
          "	if (false)\n		goto fail_timer;", CLUSTER),
    Fault("job-ends-twice", "aggregator/server/srv_end.c",
          "	if (job->phase == SRV_JOB_ENDING) {\n		srv_job_enter_phase(job, SRV_JOB_OPEN);",
          "	if (job->phase != SRV_JOB_RETIRED) {\n		srv_job_enter_phase(job, SRV_JOB_OPEN);", REPLICA),
    Fault("primary-left", "aggregator/replica/rep_primary.c",
          "	job->primary = NULL;\n	job->replicated = false;\n", "	job->replicated = false;\n", REPLICA),
    Fault("state-buffer-kept", "aggregator/server/srv_state.c",
          "	srv_buffer_put(server, job, old[1]);\n", "", REPLICA),
    Fault("state-buffer-in-two-hands", "aggregator/replica/rep_state_in.c",
          "	replica->part[1].buffer = NULL;\n", "", REPLICA),
    Fault("replica-timer-kept", "aggregator/replica/rep_job.c",
          "	hd_timers_release(&server->timers, &replica->timer);\n", "", REPLICA),
]

REDUCER = [
    Fault("output-not-sending", "aggregator/reducer/agg_output.c",
          "	agg_output_enter(out, AGG_OUTPUT_SENDING);\n", "", GROUPS),
    Fault("memory-of-job-not-taken", "aggregator/reducer/agg_memory.c",
          "	group->job->used += group->charged;\n", "", GROUPS),
    Fault("group-not-of-job", "aggregator/reducer/agg_make.c",
          "	group->job->groups++;\n", "", GROUPS),
    Fault("output-not-counted", "aggregator/reducer/agg_make.c",
          "		aggregator->transfer_count++;\n		rc = agg_output_bind", "		rc = agg_output_bind", GROUPS),
    Fault("delivered-counted-twice", "aggregator/reducer/agg_output.c",
          "	out->group->delivered++;\n", "	out->group->delivered += 2;\n", GROUPS),
]

WORKER = [
    Fault("ring-keeps-ended", "worker-lib/core/worker_ticket.c",
          "	worker->ring[ticket->pub.direction][ticket->pub.round % HD_TICKETS_MAX] = NULL;\n", "", CLUSTER),
    Fault("outcome-told-twice", "worker-lib/core/worker_outcome.c",
          " || !ticket\n	    || ticket->pub.state == HD_TICKET_APPLIED) {", " || !ticket) {", HARD, 20),
    Fault("kept-not-counted", "worker-lib/core/worker_outcome.c",
          "	worker_keep(worker, ticket);\n", "", HARD, 20),
    Fault("way-closed-under-sends", "worker-lib/core/worker_path_end.c",
          "		worker_off_wire(worker, ticket);\n		worker_copy_end(ticket);\n",
          "		worker_copy_end(ticket);\n", "tests/unit/test_worker_paths"),
    Fault("shards-left", "worker-lib/core/worker_reduce_ask.c",
          "	worker_reduce_drop_shards(worker, r);\n	worker_reduce_to_queue(r);\n", "	worker_reduce_to_queue(r);\n",
          ALLREDUCE),
    Fault("sums-held-left", "worker-lib/core/worker_reduces.c",
          "	r->shard_count = r->held = r->due = 0;\n", "	r->shard_count = r->due = 0;\n",
          "tests/unit/test_worker_reduce"),
    Fault("receipt-not-due", "worker-lib/core/worker_shards.c",
          "		r->due += rc == 0;\n", "", "tests/unit/test_worker_collective"),
    Fault("reduce-not-counted", "worker-lib/core/worker_reduce.c",
          "	worker->reduce_count++;\n", "", ALLREDUCE),
    # sends and receives
    Fault("call-not-counted", "worker-lib/core/worker_channel.c",
          "	worker->pair_count++;\n", "", "tests/unit/test_worker_send"),
    Fault("call-not-counted-down", "worker-lib/core/worker_reduce_ask.c",
          "	worker->pair_count -= r->args.channel != 0;\n", "", ALLREDUCE),
    Fault("restarted-channel-keeps-calls", "worker-lib/core/worker_channel_end.c",
          "		if (!r->ended && r->args.channel == drop->channel)\n",
          "		if (!r->ended && r->args.channel == drop->channel && r->pub.round == drop->round)\n",
          "tests/sim/test_allreduce --first 1 --seeds 40"),
    # shared memory
    Fault("ended-but-in-memory", "worker-lib/core/worker_reduces.c",
          "	(void)worker_reduce_unshare(worker, r, true);\n", "", "tests/unit/test_worker_shared"),
    Fault("given-before-combined", "worker-lib/core/hd_shared.c",
          "	if (!run->given && given_pieces(run) == run->pieces)\n",
          "	if (!run->given && run->ins == run->pieces)\n", "tests/unit/test_shared"),
    Fault("three-pieces-for-two", "worker-lib/core/hd_shared.c",
          "run->ins < run->outs + 2\n	    && !laggard(run, OUT, run->ins - 1)) {",
          "run->ins < run->outs + 3\n	    && !laggard(run, OUT, run->ins - 2)) {", "tests/unit/test_shared"),
    Fault("piece-counted-twice", "worker-lib/core/hd_shared.c",
          "	++*done;\n", "	*done += 2;\n", "tests/unit/test_shared"),
    Fault("fallback-while-registered", "worker-lib/core/worker_session.c",
          "	    || worker->refused || worker_has_controller(worker))\n", "	    || worker->refused)\n", CLUSTER),
    Fault("left-without-lingering", "worker-lib/core/worker_leave.c",
          "		worker_set_stage(worker, WORKER_LINGERING);\n", "		worker_set_stage(worker, WORKER_LEFT);\n",
          CLUSTER),
]

COMMON = [
    Fault("path-not-started", "common/transfer/hd_send.c",
          "	hd_path_start(send->config.path, now, send->config.cc_weight, send->rate_bps);\n", "",
          "tests/unit/test_transfer_send"),
    Fault("path-stopped-unstarted", "common/transfer/hd_send.c",
          "	if (send->stats.state == HD_SEND_ACTIVE) {\n		path", "	if (send->stats.state != HD_SEND_DONE) {\n		path",
          "tests/unit/test_transfer_send"),
    Fault("path-keeps-in-flight", "common/transfer/hd_send.c",
          "		path->inflight_bytes -= send->inflight_bytes;\n", "", "tests/unit/test_transfer_send"),
    Fault("slots-stopped-twice", "common/transfer/hd_slots.c",
          "	if (slots->started && slots->stats.state == HD_SLOTS_ACTIVE)\n", "	if (slots->started)\n",
          "tests/unit/test_slots"),
    Fault("slot-window-off-by-one", "common/transfer/hd_slots_take.c",
          "	slot->chunk += slots->config.slots;\n", "	slot->chunk += slots->config.slots + 1;\n",
          "tests/unit/test_slots"),
    Fault("timer-left-in-heap", "common/base/hd_timers.c",
          "	if (timer->place != 0)\n		timers_remove(timers, timer);\n	assert(timers->room > 0);",
          "	assert(timers->room > 0);", "tests/unit/test_timers"),
    Fault("endpoint-never-left", "common/session/hd_endpoint.c",
          "		session_reschedule(s);\n	}\n	endpoint_leave(endpoint);\n", "		session_reschedule(s);\n	}\n",
          "tests/unit/test_endpoint"),
    Fault("endpoint-left-twice", "common/session/hd_endpoint.c",
          "	endpoint->depth++;\n	while", "	while",
          "tests/unit/test_endpoint"),
]

SWITCH = [
    Fault("queue-bytes-left", "switch/executor/hd_switch_queue.c",
          "	assert(lane->bytes >= bytes);\n	lane->bytes -= bytes;\n", "	assert(lane->bytes >= bytes);\n",
          SWITCH_QUEUE),
    Fault("executor-memory-not-taken", "switch/executor/hd_switch_lease.c",
          "	core->memory_used += made->stats.memory_bytes;\n", "", SWITCH_CORE),
    Fault("agent-slots-taken-twice", "switch/agent/hd_switch_agent_lease.c",
          "		run = agent->slot_taken[i] ? 0 : run + 1;\n", "		run = run + 1;\n",
          "tests/unit/test_switch_agent"),
    Fault("agent-slots-not-counted", "switch/agent/hd_switch_agent_lease.c",
          "	agent->stats.slots_now += count;\n", "", "tests/unit/test_switch_agent"),
]

FAULTS = [*CONTROLLER, *SERVER, *REDUCER, *WORKER, *COMMON, *SWITCH]
