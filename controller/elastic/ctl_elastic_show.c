/* SPDX-License-Identifier: BSD-3-Clause */
/* What operators, and whoever starts workers, see of the owners of worker counts. */
#include "ctl_elastic.h"
#include "ctl_row.h"
#include "hd_text.h"

#include <math.h>

static void shape_columns(const struct hd_roster *roster, struct hd_rows *rows) {
	ctl_row_version(rows, "roster", roster->change);
	hd_row_count(rows, "sync_count", roster->sync_count);
	hd_row_count(rows, "tau_max", roster->tau_max);
	hd_row_real(rows, "scale", roster->scale > 0 ? (double)roster->scale : NAN);
}

static void owner_columns(const struct ctl_elastic *elastic, struct hd_rows *rows) {
	const struct hd_elastic *owner = &elastic->owner;
	char words[HD_ELASTIC_WORDS_BYTES + 1], text[HD_ELASTIC_REASON_BYTES];
	bool seen = owner->seen.step > 0;

	hd_elastic_words(owner, words, sizeof words);
	hd_row_text(rows, "words", words);
	hd_row_count(rows, "step", owner->account.step);
	hd_row_real(rows, "loss", seen ? owner->seen.loss : NAN);
	hd_row_real(
		rows, "step_ms", seen && owner->seen.step_s > 0 ? owner->seen.step_s * 1e3 : NAN
	);
	hd_row_real(rows, "held_norm", elastic->held_norm >= 0 ? elastic->held_norm : NAN);
	hd_row_real(rows, "price", owner->price >= 0 ? owner->price : NAN);
	hd_row_real(rows, "ran_s", owner->account.ran_s);
	hd_row_real(rows, "worker_s", owner->account.worker_s);
	hd_row_real(rows, "money", owner->account.money);
	hd_row_count(rows, "changes", elastic->changes);
	hd_row_count(rows, "sent_away", elastic->sent_away);
	hd_row_count(rows, "refused", elastic->refused);
	hd_text_copy(text, sizeof text, elastic->refusal);
	hd_row_text(rows, "refusal", text);
}

uint64_t ctl_rows_elastic(const struct hd_controller *c, struct hd_rows *rows) {
	/* Of a job without a policy. */
	static const struct ctl_elastic none = {.held_norm = -1, .owner = {.price = -1}};

	for (uint32_t i = 0; i < c->job_count && !rows->full; i++) {
		const struct ctl_job *job = c->jobs[i];
		const struct ctl_elastic *elastic = job->elastic ? job->elastic : &none;
		char reason[HD_ELASTIC_REASON_BYTES];

		if (!hd_row_begin(rows))
			continue;
		hd_text_copy(reason, sizeof reason, elastic->owner.reason);
		hd_row_text(rows, "tenant", job->tenant_name);
		hd_row_text(rows, "job", job->name);
		hd_row_text(rows, "policy", job->elastic ? elastic->owner.policy->name : "");
		hd_row_count(rows, "target", elastic->owner.target);
		hd_row_count(rows, "workers", job->roster.count);
		hd_row_count(rows, "leaving", job->noticed);
		hd_row_text(rows, "reason", reason);
		shape_columns(&job->roster, rows);
		owner_columns(elastic, rows);
		hd_row_end(rows);
	}
	return c->job_count;
}
