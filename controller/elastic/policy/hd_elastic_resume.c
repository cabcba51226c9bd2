/* SPDX-License-Identifier: BSD-3-Clause */
/* Restores an owner in the next process, after its words were set. */
#include "hd_elastic.h"
#include "hd_text.h"

#include <assert.h>

void hd_elastic_resume(
	struct hd_elastic *e,
	uint32_t target,
	const char *reason,
	const struct hd_elastic_account *account,
	double price
) {
	assert(target <= HD_WORKERS_MAX);
	e->target = target;
	hd_text_copy(e->reason, sizeof e->reason, reason);
	e->account = *account;
	e->former = account->steps_before;
	e->price = price;
	e->workers = 0;
	e->last = -1;
}
