/* SPDX-License-Identifier: BSD-3-Clause */
/* The shell's table of the owners of worker counts, for operators and for programs that start workers. */
#include "ctl_elastic.h"
#include "ctl_row.h"
#include "hd_text.h"

#include <math.h>

/* clang-format off */
#define ELASTIC(F, row) \
	F(row, tenant, TEXT, "tenant that owns the job") \
	F(row, job, TEXT, "name of the job") \
	F(row, policy, TEXT, "policy that determines the number of workers; empty: none") \
	F(row, target, COUNT, "number of workers that the job should have; 0: no policy") \
	F(row, workers, COUNT, "workers that take part") \
	F(row, leaving, COUNT, "of these, workers that will be preempted or were told to leave") \
	F(row, reason, TEXT, "reason of the target") \
	F(row, roster, VERSION, "newest announced change of the membership, EPOCH.CHANGES") \
	F(row, sync_count, COUNT, "N of N-sync in that change; 0: as the job states") \
	F(row, tau_max, COUNT, "bound on delays in that change; 0: as the job states") \
	F(row, scale, REAL_OR_NULL, "factor on updates in that change; null: nothing was announced") \
	F(row, words, TEXT, "the policy as `elastic set` takes it") \
	F(row, step, COUNT, "newest step that workers reported") \
	F(row, loss, REAL_OR_NULL, "mean loss per sample, of the newest reports") \
	F(row, step_ms, REAL_OR_NULL, "duration of a step, in milliseconds") \
	F(row, held_norm, REAL_OR_NULL, "L2 norm of the values that the filter of a worker holds back") \
	F(row, price, EXACT_OR_NULL, "price of a worker per hour") \
	F(row, ran_s, REAL_OR_NULL, "seconds since a policy was first set") \
	F(row, worker_s, REAL_OR_NULL, "worker-seconds used") \
	F(row, money, EXACT_OR_NULL, "money spent") \
	F(row, changes, COUNT, "changes of the target in this epoch") \
	F(row, sent_away, COUNT, "workers told to leave in this epoch") \
	F(row, refused, COUNT, "reports of steps refused in this epoch") \
	F(row, refusal, TEXT, "reason of the newest refusal")
/* clang-format on */

HD_ROW_SHAPE(
	ctl_elastic_row_shape,
	elastic_row,
	ELASTIC,
	"elastic",
	"target numbers of workers, and their reasons"
);

/* For a job without a policy. */
static const struct ctl_elastic none = {.held_norm = -1, .owner = {.price = -1}};

static void put_job(const struct ctl_job *job, struct hd_rows *rows) {
	const struct ctl_elastic *elastic = job->elastic ? job->elastic : &none;
	const struct hd_elastic *owner = &elastic->owner;
	const struct hd_roster *roster = &job->roster;
	char words[HD_ELASTIC_WORDS_BYTES + 1];
	char reason[HD_ELASTIC_REASON_BYTES], refusal[HD_ELASTIC_REASON_BYTES];
	bool seen = owner->seen.step > 0;

	hd_text_copy(reason, sizeof reason, owner->reason);
	hd_text_copy(refusal, sizeof refusal, elastic->refusal);
	hd_elastic_words(owner, words, sizeof words);
	hd_row_put(
		rows,
		&ctl_elastic_row_shape,
		&(struct elastic_row){
			.tenant = job->tenant_name,
			.job = job->name,
			.policy = job->elastic ? owner->policy->name : "",
			.target = owner->target,
			.workers = roster->count,
			.leaving = job->noticed,
			.reason = reason,
			.roster = roster->change,
			.sync_count = roster->sync_count,
			.tau_max = roster->tau_max,
			.scale = roster->scale > 0 ? (double)roster->scale : NAN,
			.words = words,
			.step = owner->account.step,
			.loss = seen ? owner->seen.loss : NAN,
			.step_ms = seen && owner->seen.step_s > 0 ? owner->seen.step_s * 1e3 : NAN,
			.held_norm = elastic->held_norm >= 0 ? elastic->held_norm : NAN,
			.price = owner->price >= 0 ? owner->price : NAN,
			.ran_s = owner->account.ran_s,
			.worker_s = owner->account.worker_s,
			.money = owner->account.money,
			.changes = elastic->changes,
			.sent_away = elastic->sent_away,
			.refused = elastic->refused,
			.refusal = refusal,
		}
	);
}

uint64_t ctl_rows_elastic(const struct hd_controller *c, struct hd_rows *rows) {
	for (uint32_t i = 0; i < c->job_count && !rows->full; i++) {
		if (!hd_row_begin(rows))
			continue;
		put_job(c->jobs[i], rows);
		hd_row_end(rows);
	}
	return c->job_count;
}
