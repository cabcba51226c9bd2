/* SPDX-License-Identifier: BSD-3-Clause */
/* How the rounds of federated jobs went, as a table. */
#include "hd_rows.h"
#include "srv_job.h"

#include <math.h>

/* clang-format off */
#define ROUNDS(F, row) \
	F(row, tenant, TEXT, "tenant that owns the job") \
	F(row, job, TEXT, "name of the job") \
	F(row, round, COUNT, "number of the round, from 1") \
	F(row, state, TEXT, \
		"open; waits (too few clients are present); lacks (too few for longer than " \
		"wait_ms); step (it made a step); empty (no update, or too few)") \
	F(row, drawn, COUNT, "clients drawn for the round, of those present") \
	F(row, came, COUNT, "updates in the step of the round") \
	F(row, lacks, COUNT, "further clients that the round needs to begin") \
	F(row, late, COUNT, "updates in the step that belong to earlier rounds") \
	F(row, partial, COUNT, "clients of the round that did not complete all epochs") \
	F(row, gave_up, COUNT, "clients of the round that gave no update") \
	F(row, dropped, COUNT, "late updates dropped during the round") \
	F(row, weight, EXACT, "total weight of the step: the sum of n_k") \
	F(row, loss, EXACT_OR_NULL, "mean loss of the clients at the initial model of the round, weighted") \
	F(row, mu, EXACT, "mu, the weight of the proximal term") \
	F(row, gamma, EXACT_OR_NULL, "mean inexactness of the clients that reported it") \
	F(row, gamma_max, EXACT_OR_NULL, "greatest inexactness of these clients") \
	F(row, seconds, REAL, "duration of the round, in seconds; so far, if it is open") \
	F(row, version, COUNT, "commit counter of the initial model of the round")
/* clang-format on */

HD_ROW_SHAPE(
	srv_federated_shape,
	rounds_row,
	ROUNDS,
	"rounds",
	"rounds of a server's federated jobs, the newest 64 (--server)"
);

/* Six digits: fp32's precision, and mu may be 0.001. */
static double rounds_digits(double x) {
	return round(1e6 * x) * 1e-6;
}

static const char *
rounds_state(const struct srv_job *job, const struct srv_federated_record *record) {
	const struct srv_federated_lack *lack = &job->federated.lack;

	if (record->ended > 0)
		return record->came > 0 ? "step" : "empty";
	return lack->since == 0 ? "open" : lack->reported ? "lacks" : "waits";
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
