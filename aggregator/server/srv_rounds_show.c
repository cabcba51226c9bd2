/* SPDX-License-Identifier: BSD-3-Clause */
/* How the rounds of federated jobs went, as a table. */
#include "hd_rows.h"
#include "srv_job.h"

#include <math.h>

/* Six of them: what fp32 carries, and mu may be 0.001. */
static double rounds_digits(double x) {
	return round(1e6 * x) * 1e-6;
}

static const char *rounds_state(const struct srv_job *job, const struct srv_round_record *record) {
	const struct srv_round_lack *lack = &job->rounds.lack;

	if (record->ended > 0)
		return record->came > 0 ? "step" : "empty";
	return lack->since == 0 ? "open" : lack->told ? "lacks" : "waits";
}

static void rounds_row(
	struct hd_rows *rows,
	const struct srv_job *job,
	const struct srv_round_record *record,
	hd_ns now
) {
	bool open = record->ended == 0;

	if (!hd_row_begin(rows))
		return;
	hd_row_text(rows, "tenant", job->spec.tenant);
	hd_row_text(rows, "job", job->spec.name);
	hd_row_count(rows, "round", record->round);
	hd_row_text(rows, "state", rounds_state(job, record));
	hd_row_count(rows, "drawn", record->drawn);
	hd_row_count(rows, "came", open ? job->step.count : record->came);
	hd_row_count(rows, "lacks", open ? job->rounds.lack.needed - job->rounds.lack.here : 0);
	hd_row_count(rows, "late", open ? job->step.late : record->late);
	hd_row_count(rows, "partial", record->partial);
	hd_row_count(rows, "gave_up", record->gave_up);
	hd_row_count(rows, "dropped", record->dropped);
	hd_row_exact(rows, "weight", open ? job->step.weight : record->weight);
	if (record->has_loss)
		hd_row_exact(rows, "loss", rounds_digits(record->loss));
	else
		hd_row_null(rows, "loss");
	hd_row_exact(rows, "mu", rounds_digits((double)record->mu));
	if (record->gammas > 0) {
		hd_row_exact(rows, "gamma", rounds_digits(record->gamma / record->gammas));
		hd_row_exact(rows, "gamma_max", rounds_digits(record->gamma_max));
	} else {
		hd_row_null(rows, "gamma");
		hd_row_null(rows, "gamma_max");
	}
	hd_row_real(rows, "seconds", (double)((open ? now : record->ended) - record->began) * 1e-9);
	hd_row_count(rows, "version", hd_version_counter(record->version));
	hd_row_end(rows);
}

uint64_t srv_rounds_rows(const struct hd_server *server, hd_ns now, struct hd_rows *rows) {
	const struct srv_job *job;
	uint64_t count = 0;

	TAILQ_FOREACH (job, &server->jobs, link) {
		for (uint32_t i = 1; i <= SRV_ROUNDS_SHOWN; i++) {
			const struct srv_round_record *record
				= &job->rounds.records[(job->rounds.round + i) % SRV_ROUNDS_SHOWN];

			if (record->round != 0) {
				rounds_row(rows, job, record, now);
				count++;
			}
		}
		if (!job->rounds.open && job->rounds.lack.since > 0) {
			const struct srv_round_record next = {
				.round = job->rounds.round + 1,
				.version = job->version,
				.began = job->rounds.lack.since,
				.mu
				= job->rounds.round > 0 ? job->rounds.mu : job->spec.federated.mu,
			};

			rounds_row(rows, job, &next, now);
			count++;
		}
	}
	return count;
}
