/* SPDX-License-Identifier: BSD-3-Clause */
/* How the rounds of federated jobs went, as a table. */
#include "hd_rows.h"
#include "srv_job.h"

#include <math.h>

/* clang-format off */
#define ROUNDS(F, row) \
	F(row, tenant, TEXT, "who owns it") \
	F(row, job, TEXT, "its name") \
	F(row, round, COUNT, "counts from 1") \
	F(row, state, TEXT, \
		"open, waits (for clients: too few are here), lacks (none came for wait_ms), step " \
		"(it made one) or empty (nobody gave anything, or too few)") \
	F(row, drawn, COUNT, "clients, of those here") \
	F(row, came, COUNT, "updates in its step") \
	F(row, lacks, COUNT, "clients that it needs beside those that are here") \
	F(row, late, COUNT, "of these, of rounds before") \
	F(row, partial, COUNT, "of its clients, those that did not do all epochs") \
	F(row, gave_up, COUNT, "of its clients, those that gave nothing") \
	F(row, dropped, COUNT, "updates that were late, in its time") \
	F(row, weight, EXACT, "of its step: the sum of n_k") \
	F(row, loss, EXACT_OR_NULL, "mean of its clients', by weight, at the model it began with") \
	F(row, mu, EXACT, "of the proximal term") \
	F(row, gamma, EXACT_OR_NULL, "mean of the clients that said it: how inexact they are") \
	F(row, gamma_max, EXACT_OR_NULL, "the greatest of these") \
	F(row, seconds, REAL, "that it took, or takes so far") \
	F(row, version, COUNT, "counter of the model it began with")
/* clang-format on */

HD_ROW_SHAPE(
	srv_federated_shape,
	rounds_row,
	ROUNDS,
	"rounds",
	"rounds of a server's federated jobs, the newest 64 (--server)"
);

/* Six of them: what fp32 carries, and mu may be 0.001. */
static double rounds_digits(double x) {
	return round(1e6 * x) * 1e-6;
}

static const char *
rounds_state(const struct srv_job *job, const struct srv_federated_record *record) {
	const struct srv_federated_lack *lack = &job->federated.lack;

	if (record->ended > 0)
		return record->came > 0 ? "step" : "empty";
	return lack->since == 0 ? "open" : lack->told ? "lacks" : "waits";
}

static void rounds_row(
	struct hd_rows *rows,
	const struct srv_job *job,
	const struct srv_federated_record *record,
	hd_ns now
) {
	bool open = record->ended == 0, gammas = record->gammas > 0;

	if (!hd_row_begin(rows))
		return;
	hd_row_put(
		rows,
		&srv_federated_shape,
		&(struct rounds_row){
			.tenant = job->spec.tenant,
			.job = job->spec.name,
			.round = record->round,
			.state = rounds_state(job, record),
			.drawn = record->drawn,
			.came = open ? job->step.count : record->came,
			.lacks = open ? job->federated.lack.needed - job->federated.lack.here : 0,
			.late = open ? job->step.late : record->late,
			.partial = record->partial,
			.gave_up = record->gave_up,
			.dropped = record->dropped,
			.weight = open ? job->step.weight : record->weight,
			.loss = record->has_loss ? rounds_digits(record->loss) : NAN,
			.mu = rounds_digits((double)record->mu),
			.gamma = gammas ? rounds_digits(record->gamma / record->gammas) : NAN,
			.gamma_max = gammas ? rounds_digits(record->gamma_max) : NAN,
			.seconds = (double)((open ? now : record->ended) - record->began) * 1e-9,
			.version = hd_version_counter(record->version),
		}
	);
	hd_row_end(rows);
}

uint64_t srv_federated_rows(const struct hd_server *server, hd_ns now, struct hd_rows *rows) {
	const struct srv_job *job;
	uint64_t count = 0;

	TAILQ_FOREACH (job, &server->jobs, link) {
		for (uint32_t i = 1; i <= SRV_FEDERATED_SHOWN; i++) {
			const struct srv_federated_record *record
				= &job->federated.records
					   [(job->federated.round + i) % SRV_FEDERATED_SHOWN];

			if (record->round != 0) {
				rounds_row(rows, job, record, now);
				count++;
			}
		}
		if (!job->federated.open && job->federated.lack.since > 0) {
			const struct srv_federated_record next = {
				.round = job->federated.round + 1,
				.version = job->version,
				.began = job->federated.lack.since,
				.mu = job->federated.round > 0 ? job->federated.mu :
								 job->spec.federated.mu,
			};

			rounds_row(rows, job, &next, now);
			count++;
		}
	}
	return count;
}
