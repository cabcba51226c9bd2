/* SPDX-License-Identifier: BSD-3-Clause */
/* What operators, and whoever starts workers, see of the owners of worker counts. */
#include "ctl_elastic.h"
#include "ctl_row.h"
#include "hd_text.h"

#include <math.h>

/* clang-format off */
#define ELASTIC(F, row) \
	F(row, tenant, TEXT, "who owns the job") \
	F(row, job, TEXT, "its name") \
	F(row, policy, TEXT, "who says how many workers it should have; empty: nobody") \
	F(row, target, COUNT, "workers that it should have; 0: nobody says") \
	F(row, workers, COUNT, "that take part") \
	F(row, leaving, COUNT, "of these, those that will be preempted or were told to leave") \
	F(row, reason, TEXT, "why so many") \
	F(row, roster, VERSION, "which change of who takes part was said last, EPOCH.CHANGES") \
	F(row, sync_count, COUNT, "N of N-sync, said with it; 0: the job's") \
	F(row, tau_max, COUNT, "bound on delays, said with it; 0: the job's") \
	F(row, scale, REAL_OR_NULL, "factor on updates, said with it; null: nothing was said") \
	F(row, words, TEXT, "the policy, as `elastic set` takes it") \
	F(row, step, COUNT, "the newest that workers reported") \
	F(row, loss, REAL_OR_NULL, "mean of a sample, of the newest reports") \
	F(row, step_ms, REAL_OR_NULL, "how long a step took") \
	F(row, held_norm, REAL_OR_NULL, "L2 norm of what a worker's filter holds back") \
	F(row, price, REAL_OR_NULL, "of a worker for an hour") \
	F(row, ran_s, REAL_OR_NULL, "since the policy was set first") \
	F(row, worker_s, REAL_OR_NULL, "worker-seconds that were used") \
	F(row, money, REAL_OR_NULL, "that was spent") \
	F(row, changes, COUNT, "of the target, by this life") \
	F(row, sent_away, COUNT, "workers that were told to leave, by this life") \
	F(row, refused, COUNT, "reports that were refused, by this life") \
	F(row, refusal, TEXT, "why, of the newest")
/* clang-format on */

HD_ROW_SHAPE(
	ctl_elastic_row_shape,
	elastic_row,
	ELASTIC,
	"elastic",
	"how many workers jobs should have, and why"
);

/* Of a job without a policy. */
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
