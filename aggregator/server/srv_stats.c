/* SPDX-License-Identifier: BSD-3-Clause */
/* What the server's counters mean: its own, and where each job stands. */
#include "srv_step.h"

#include <assert.h>
#include <math.h>

/* clang-format off */
#define STAT(name, unit, help, kind) \
	{#name, unit, help, kind, HD_STAT_U64, offsetof(struct hd_server_stats, name)}

static const struct hd_stat server_stats[] = {
	STAT(chunks, "packets", "data chunks received", HD_STAT_COUNTER),
	STAT(chunk_bytes, "bytes", "values in them", HD_STAT_COUNTER),
	STAT(drop_malformed, "packets", "dropped: not decodable", HD_STAT_COUNTER),
	STAT(drop_version, "packets", "dropped: other wire version", HD_STAT_COUNTER),
	STAT(drop_type, "packets", "dropped: a type that a server does not take", HD_STAT_COUNTER),
	STAT(drop_token, "packets", "dropped: no such transfer: forged, late, or ahead of its EXPECT", HD_STAT_COUNTER),
	STAT(drop_source, "packets", "dropped: not from the address of its sender's session", HD_STAT_COUNTER),
	STAT(drop_mac, "packets", "dropped: forged or spoilt: the MAC differs, or no such key", HD_STAT_COUNTER),
	STAT(drop_mismatch, "packets", "dropped: header or size disagrees with the grant", HD_STAT_COUNTER),
	STAT(drop_memory, "packets", "dropped: no buffer free for the update just then", HD_STAT_COUNTER),
	STAT(duplicates, "packets", "chunks that were held already", HD_STAT_COUNTER),
	STAT(refused_messages, "messages", "out of place: role, job, worker, epoch", HD_STAT_COUNTER),
	STAT(joins_delayed, "messages", "of workers that were told to come later: too many at once", HD_STAT_COUNTER),
	STAT(granted, "updates", "pushes granted directly", HD_STAT_COUNTER),
	STAT(expected, "updates", "pushes announced by the controller", HD_STAT_COUNTER),
	STAT(credits, "updates", "pushes granted in advance", HD_STAT_COUNTER),
	STAT(credits_spent, "updates", "of these, that came", HD_STAT_COUNTER),
	STAT(credits_unspent, "updates", "of these, and of those that were not taken, that did not come", HD_STAT_COUNTER),
	STAT(committed, "updates", "applied", HD_STAT_COUNTER),
	STAT(dropped, "updates", "dropped at the commit", HD_STAT_COUNTER),
	STAT(failed, "updates", "failed", HD_STAT_COUNTER),
	STAT(voided, "updates", "positions given up", HD_STAT_COUNTER),
	STAT(overtaken, "updates", "committed ahead of an earlier position", HD_STAT_COUNTER),
	STAT(replaced, "updates", "transfers replaced by a newer attempt", HD_STAT_COUNTER),
	STAT(sync_steps, "steps", "of synchronous jobs; their updates are among those committed", HD_STAT_COUNTER),
	STAT(sums, "sums", "applied; their updates are among those committed", HD_STAT_COUNTER),
	STAT(pulls, "pulls", "pulls begun", HD_STAT_COUNTER),
	STAT(pulls_delivered, "pulls", "models delivered", HD_STAT_COUNTER),
	STAT(pulls_not_modified, "pulls", "conditional pulls that found nothing newer", HD_STAT_COUNTER),
	STAT(pulls_failed, "pulls", "pulls that ended otherwise", HD_STAT_COUNTER),
	STAT(pulls_older, "pulls", "pulls that were given an older version than the newest", HD_STAT_COUNTER),
	STAT(snapshots, "snapshots", "versions pinned for pulls", HD_STAT_COUNTER),
	STAT(copies, "copies", "models copied because a commit came while one was pinned", HD_STAT_COUNTER),
	STAT(steps, "steps", "parts of commits; more than commits where big updates took several", HD_STAT_COUNTER),
	STAT(checkpoints, "checkpoints", "checkpoints written", HD_STAT_COUNTER),
	STAT(checkpoint_errors, "checkpoints", "that could not be written", HD_STAT_COUNTER),
	STAT(states_sent, "states", "models and momenta sent to replicas", HD_STAT_COUNTER),
	STAT(log_messages, "messages", "of the commit log, to replicas", HD_STAT_COUNTER),
	STAT(commits_held, "updates", "that waited, as the replica would have been too far behind", HD_STAT_COUNTER),
	STAT(replicated, "updates", "applied as a replica", HD_STAT_COUNTER),
	STAT(copies_asked, "updates", "copies that a replica asked for", HD_STAT_COUNTER),
	STAT(copies_lost, "updates", "of these, that nobody has any more: a state is sent instead", HD_STAT_COUNTER),
	STAT(states_taken, "states", "models and momenta received as a replica", HD_STAT_COUNTER),
	STAT(notices, "nodes", "workers without a controller that will be preempted", HD_STAT_COUNTER),
	STAT(promoted, "jobs", "that this replica became the server of", HD_STAT_COUNTER),
	STAT(retired, "jobs", "that another node became the server of", HD_STAT_COUNTER),
	STAT(ended, "jobs", "that nobody was in any more, or that were evicted", HD_STAT_COUNTER),
	STAT(begun_alone, "jobs", "begun without a word of the controller, which was silent", HD_STAT_COUNTER),
	STAT(sends_broken, "sessions", "given up because their queue was full", HD_STAT_COUNTER),
	STAT(memory_bytes, "bytes", "held for models, snapshots and updates", HD_STAT_GAUGE),
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

static const struct hd_stat job_stats[]
	= {JOB(members, "nodes", "workers that have joined, also those that left"
	) JOB(workers, "nodes", "that take part now"
	) JOB(open, "updates", "updates that may come, come, or wait for their commit"
	) JOB(pulls, "pulls", "pulls under way"
	) JOB(version, "updates", "commits in this history"
	) JOB(durable, "updates", "of these, durable: on the replica, without one in a checkpoint"
	) JOB(incarnation, "", "life of the server that it is in"
	) JOB(position, "positions", "highest told"
	) JOB(model_bytes, "bytes", "size of the model"
	) JOB(gathered, "updates", "in the step that a synchronous job gathers"
	) JOB(needed, "updates", "that it waits for, these included; 0: not synchronous"
	) JOB(missing, "nodes", "workers here that have no update in it"
	) JOB(missing_first, "", "the lowest rank of these; 4096: none"
	) JOB(round, "", "of a federated job: under way, or the last"
	) JOB(drawn, "nodes", "workers drawn for it"
	) JOB(rounds_ended, "rounds", "that made a step, in this life"
	) JOB(rounds_empty, "rounds", "that nobody gave anything for"
	) JOB(rounds_lacked, "", "times that nobody came for as long as a round waits for clients"
	) JOB(partial, "updates", "of clients that did not do all epochs"
	) JOB(gave_up, "nodes", "clients that gave nothing for a round"
	) JOB(weight_received, "", "of what was taken into rounds' sums"
	) JOB(weight_applied, "", "of this, in the model"
	) JOB(mu_permille, "", "of the proximal term, in thousandths"
	) JOB(late, "updates", "of rounds before, that counted nevertheless")
		   JOB(gamma_permille, "", "how inexact its clients are, the mean in thousandths")};

const struct hd_stat_group hd_server_job_group = {
	.name = "server_job",
	.help = "jobs of the parameter server",
	.label = {"tenant", "job"},
	.label_help = {"who owns it", "its name"},
	.stats = job_stats,
	.count = sizeof job_stats / sizeof job_stats[0],
};

const struct hd_stat_group *const hd_server_groups[]
	= {&hd_server_group, &hd_endpoint_group, &hd_transfer_group, &hd_server_job_group, NULL};

static const struct hd_histogram_family first_chunk = {
	.group = "server",
	.name = "first_chunk",
	.help = "from a push's grant to its first chunk",
	.scale = &hd_scale_time,
};

static const struct hd_histogram_family staleness = {
	.group = "server",
	.name = "staleness",
	.help = "delays of applied updates",
	.scale = &hd_scale_delay,
};

static const struct hd_histogram_family pull = {
	.group = "server",
	.name = "pull",
	.help = "from a pull's grant to its delivery",
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
