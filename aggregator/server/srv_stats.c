/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's counters and those of its jobs, with their descriptions. */
#include "srv_step.h"

#include <assert.h>
#include <math.h>

/* clang-format off */
#define STAT(name, unit, help, kind) \
	{#name, unit, help, kind, HD_STAT_U64, offsetof(struct hd_server_stats, name)}

static const struct hd_stat server_stats[] = {
	STAT(chunks, "packets", "data chunks received", HD_STAT_COUNTER),
	STAT(chunk_bytes, "bytes", "bytes of values in these chunks", HD_STAT_COUNTER),
	STAT(drop_malformed, "packets", "dropped: cannot be decoded", HD_STAT_COUNTER),
	STAT(drop_version, "packets", "dropped: another wire version", HD_STAT_COUNTER),
	STAT(drop_type, "packets", "dropped: a packet type that servers do not accept", HD_STAT_COUNTER),
	STAT(drop_token, "packets",
		"dropped: no such transfer: the token is forged, or the chunk is late, or ahead of "
		"its EXPECT", HD_STAT_COUNTER),
	STAT(drop_source, "packets", "dropped: not from the address of its sender's session", HD_STAT_COUNTER),
	STAT(drop_mac, "packets", "dropped: forged or corrupted (wrong MAC), or no such key", HD_STAT_COUNTER),
	STAT(drop_mismatch, "packets", "dropped: header or size does not match the grant", HD_STAT_COUNTER),
	STAT(drop_memory, "packets", "dropped: no buffer was free for the update", HD_STAT_COUNTER),
	STAT(duplicates, "packets", "chunks that had already arrived", HD_STAT_COUNTER),
	STAT(refused_messages, "messages",
		"messages refused: unexpected role, job, worker or epoch", HD_STAT_COUNTER),
	STAT(joins_delayed, "messages",
		"JOINs of workers that were told to retry later: too many at once", HD_STAT_COUNTER),
	STAT(granted, "updates", "pushes that the server itself granted", HD_STAT_COUNTER),
	STAT(expected, "updates", "pushes announced by the controller", HD_STAT_COUNTER),
	STAT(credits, "updates", "pushes granted in advance", HD_STAT_COUNTER),
	STAT(credits_spent, "updates", "pushes that arrived on a credit", HD_STAT_COUNTER),
	STAT(credits_unspent, "updates",
		"credits, accepted by the worker or not, that ended without their push", HD_STAT_COUNTER),
	STAT(committed, "updates", "updates applied", HD_STAT_COUNTER),
	STAT(dropped, "updates", "updates dropped at the commit", HD_STAT_COUNTER),
	STAT(failed, "updates", "updates that failed", HD_STAT_COUNTER),
	STAT(voided, "updates", "positions that were voided", HD_STAT_COUNTER),
	STAT(overtaken, "updates", "updates committed ahead of an earlier position", HD_STAT_COUNTER),
	STAT(replaced, "updates", "transfers replaced by a newer attempt", HD_STAT_COUNTER),
	STAT(sync_steps, "steps",
		"optimizer steps of synchronous jobs; their updates are counted in committed", HD_STAT_COUNTER),
	STAT(sums, "sums", "sums applied; their updates are counted in committed", HD_STAT_COUNTER),
	STAT(pulls, "pulls", "pulls started", HD_STAT_COUNTER),
	STAT(pulls_delivered, "pulls", "models delivered", HD_STAT_COUNTER),
	STAT(pulls_not_modified, "pulls", "conditional pulls for which there was no newer version", HD_STAT_COUNTER),
	STAT(pulls_failed, "pulls", "pulls that failed", HD_STAT_COUNTER),
	STAT(pulls_older, "pulls", "pulls that received a version older than the newest", HD_STAT_COUNTER),
	STAT(snapshots, "snapshots", "versions pinned for pulls", HD_STAT_COUNTER),
	STAT(copies, "copies", "models copied because a commit came while a version was pinned", HD_STAT_COUNTER),
	STAT(steps, "steps",
		"slices of commits; more than the commits if large updates took several slices", HD_STAT_COUNTER),
	STAT(checkpoints, "checkpoints", "checkpoints written", HD_STAT_COUNTER),
	STAT(checkpoint_errors, "checkpoints", "checkpoints that could not be written", HD_STAT_COUNTER),
	STAT(states_sent, "states", "models and momenta sent to replicas", HD_STAT_COUNTER),
	STAT(log_messages, "messages", "messages of the commit log sent to replicas", HD_STAT_COUNTER),
	STAT(commits_held, "updates", "commits that waited because the replica was too far behind", HD_STAT_COUNTER),
	STAT(replicated, "updates", "updates applied as a replica", HD_STAT_COUNTER),
	STAT(copies_asked, "updates", "copies that a replica requested", HD_STAT_COUNTER),
	STAT(copies_lost, "updates",
		"requested copies that no worker holds any more: a state is sent instead", HD_STAT_COUNTER),
	STAT(states_taken, "states", "models and momenta received as a replica", HD_STAT_COUNTER),
	STAT(notices, "nodes",
		"workers that announced their preemption to this server, without a controller", HD_STAT_COUNTER),
	STAT(promoted, "jobs", "jobs whose server this replica has become", HD_STAT_COUNTER),
	STAT(retired, "jobs", "jobs whose server another node has become", HD_STAT_COUNTER),
	STAT(ended, "jobs", "jobs that ended: all workers left, or an operator evicted the job", HD_STAT_COUNTER),
	STAT(begun_alone, "jobs", "jobs started without the controller, which did not answer", HD_STAT_COUNTER),
	STAT(sends_broken, "sessions", "sessions closed because their send queue was full", HD_STAT_COUNTER),
	STAT(memory_bytes, "bytes", "memory held for models, snapshots and updates", HD_STAT_GAUGE),
};
/* clang-format on */

static_assert(
	sizeof server_stats / sizeof server_stats[0] == sizeof(struct hd_server_stats) / 8,
	"every counter of the struct is in the table"
);

const struct hd_stat_group hd_server_group = {
	.name = "server",
	.help = "the parameter server",
	.stats = server_stats,
	.count = sizeof server_stats / sizeof server_stats[0],
};

struct job_stats {
	uint64_t members, workers, open, pulls, version, durable, incarnation, position,
		model_bytes, gathered, needed, missing, missing_first, round, drawn, rounds_ended,
		rounds_empty, rounds_lacked, partial, gave_up, weight_received, weight_applied,
		mu_permille, gamma_permille, late;
};

#define JOB(name, unit, help)                                                                      \
	{#name, unit, help, HD_STAT_GAUGE, HD_STAT_U64, offsetof(struct job_stats, name)},

static const struct hd_stat job_stats[] = {
	JOB(members, "nodes", "workers that have joined, including those that left"
	) JOB(workers, "nodes", "workers that take part at present"
	) JOB(open, "updates", "updates that are expected, arriving, or waiting for their commit"
	) JOB(pulls, "pulls", "pulls in progress"
	) JOB(version, "updates", "commits in this history"
	) JOB(durable,
	      "updates",
	      "commits that are durable: on the replica, or without a replica in a checkpoint"
	) JOB(incarnation, "", "incarnation of the model's history"
	) JOB(position, "positions", "highest position announced by the controller"
	) JOB(model_bytes, "bytes", "size of the model"
	) JOB(gathered, "updates", "updates in the current step of a synchronous job"
	) JOB(needed, "updates", "updates that the current step needs in total; 0: not synchronous"
	) JOB(missing, "nodes", "workers present without an update in the current step"
	) JOB(missing_first, "", "lowest rank of the missing workers; 4096: none"
	) JOB(round, "", "number of the current or last round of a federated job"
	) JOB(drawn, "nodes", "workers drawn for the current or last round"
	) JOB(rounds_ended, "rounds", "rounds that made a step, since the server started"
	) JOB(rounds_empty, "rounds", "rounds without any update, since the server started"
	) JOB(rounds_lacked,
	      "",
	      "times that a round had too few clients for its wait_ms, since the server started"
	) JOB(partial, "updates", "updates of clients that did not complete all epochs"
	) JOB(gave_up, "nodes", "clients that gave no update for a round"
	) JOB(weight_received, "", "total sample weight of the updates accepted into rounds"
	) JOB(weight_applied, "", "total sample weight of the updates applied to the model"
	) JOB(mu_permille, "", "mu, the weight of the proximal term, in thousandths")
		JOB(late, "updates", "updates of earlier rounds that were counted nevertheless")
			JOB(gamma_permille, "", "mean inexactness of the clients, in thousandths")};

const struct hd_stat_group hd_server_job_group = {
	.name = "server_job",
	.help = "jobs of the parameter server",
	.label = {"tenant", "job"},
	.label_help = {"tenant that owns the job", "name of the job"},
	.stats = job_stats,
	.count = sizeof job_stats / sizeof job_stats[0],
};

const struct hd_stat_group *const hd_server_groups[]
	= {&hd_server_group, &hd_endpoint_group, &hd_transfer_group, &hd_server_job_group, NULL};

static const struct hd_histogram_family first_chunk = {
	.group = "server",
	.name = "first_chunk",
	.help = "time from the grant of a push to its first chunk",
	.scale = &hd_scale_time,
};

static const struct hd_histogram_family staleness = {
	.group = "server",
	.name = "staleness",
	.help = "delays of applied updates, in commits",
	.scale = &hd_scale_delay,
};

static const struct hd_histogram_family pull = {
	.group = "server",
	.name = "pull",
	.help = "time from the grant of a pull to its delivery",
	.scale = &hd_scale_time,
};

static uint64_t rounds_gamma_permille(const struct srv_federated *rounds) {
	return rounds->gammas > 0 ?
		(uint64_t)llround(1000 * rounds->gamma_sum / (double)rounds->gammas) :
		0;
}

void hd_server_gather(const struct hd_server *server, struct hd_stats *stats) {
	const struct srv_job *job;

	hd_stats_add(stats, &hd_server_group, NULL, &server->stats);
	hd_stats_add(stats, &hd_endpoint_group, NULL, hd_endpoint_stats(server->endpoint));
	hd_stats_add(stats, &hd_transfer_group, NULL, &server->transfers);
	hd_stats_add_histogram(stats, &first_chunk, NULL, &server->histograms.first_chunk);
	hd_stats_add_histogram(stats, &staleness, NULL, &server->histograms.staleness);
	hd_stats_add_histogram(stats, &pull, NULL, &server->histograms.pull);
	TAILQ_FOREACH (job, &server->jobs, link) {
		const char *labels[] = {job->spec.tenant, job->spec.name};
		uint16_t first = HD_WORKERS_MAX;
		struct job_stats s = {
			.members = job->member_count,
			.workers = job->roster.count,
			.open = job->open_count,
			.pulls = job->pull_count,
			.version = hd_version_counter(job->version),
			.durable = hd_version_counter(job->durable),
			.incarnation = hd_version_incarnation(job->version),
			.position = job->position,
			.model_bytes = job->bytes,
			.gathered = job->step.count,
			.needed = srv_step_needs(server, job),
			.missing = srv_step_missing(server, job, &first),
			.round = job->federated.round,
			.drawn = job->federated.drawn,
			.rounds_ended = job->federated.ended,
			.rounds_empty = job->federated.empty,
			.rounds_lacked = job->federated.lacked,
			.partial = job->federated.partial,
			.gave_up = job->federated.gave_up,
			.weight_received = (uint64_t)job->federated.received,
			.weight_applied = (uint64_t)job->federated.applied,
			.mu_permille = (uint64_t)lroundf(1000 * job->federated.mu),
			.late = job->federated.late,
			.gamma_permille = rounds_gamma_permille(&job->federated),
		};

		s.missing_first = first;

		hd_stats_add(stats, &hd_server_job_group, labels, &s);
	}
}
