/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The owner of a job's worker count, saved for the controller's next process in the job's object (ctl_kept.c)
 *
 *   "elastic": {"words": "policy=budget n=4 worker_s=3600", "target": 4, "reason": "...", "step": 812,
 *               "steps": 1912, "steps_before": 1100, "ran_s": 100.5, "worker_s": 402, "money": 0.1, "price": 0.36}
 *
 * A policy's own state is not saved: it learns again, and the target stays until it decides on another.
 */
#include "ctl_elastic.h"
#include "ctl_job.h"
#include "hd_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *ctl_elastic_out(const struct ctl_job *job) {
	const struct hd_elastic *owner;
	char words[HD_ELASTIC_WORDS_BYTES + 1], reason[HD_ELASTIC_REASON_BYTES];
	json_t *object;

	if (!job->elastic)
		return NULL;
	owner = &job->elastic->owner;
	hd_elastic_words(owner, words, sizeof words);
	hd_text_copy(reason, sizeof reason, owner->reason);
	object = json_object();
	(void)json_object_set_new(object, "words", json_string(words));
	(void)json_object_set_new(object, "target", json_integer(owner->target));
	(void)json_object_set_new(object, "reason", json_string(reason));
	(void)json_object_set_new(object, "step", json_integer((json_int_t)owner->account.step));
	(void)json_object_set_new(object, "steps", json_integer((json_int_t)owner->account.steps));
	(void)json_object_set_new(
		object, "steps_before", json_integer((json_int_t)owner->account.steps_before)
	);
	(void)json_object_set_new(object, "ran_s", json_real(owner->account.ran_s));
	(void)json_object_set_new(object, "worker_s", json_real(owner->account.worker_s));
	(void)json_object_set_new(object, "money", json_real(owner->account.money));
	if (owner->price >= 0)
		(void)json_object_set_new(object, "price", json_real(owner->price));
	return object;
}

struct kept {
	const char *words, *reason;
	double target, step, steps, steps_before, ran_s, worker_s, money, price;
};

static int
take_text(const struct hd_json_object *in, const char *key, size_t most, const char **to) {
	const char *text = json_string_value(json_object_get(in->object, key));
	char field[4 * HD_NAME_BYTES_MAX];

	if (text && strlen(text) < most && hd_text_valid(text, strlen(text))) {
		*to = text;
		return 0;
	}
	(void)snprintf(field, sizeof field, "%s.%s", in->prefix, key);
	return hd_json_fail(in->reader, field, "must be a text of less than %zu bytes", most);
}

static int take(const struct hd_json_object *in, struct kept *kept) {
	static const char *const keys[]
		= {"words",
		   "target",
		   "reason",
		   "step",
		   "steps",
		   "steps_before",
		   "ran_s",
		   "worker_s",
		   "money",
		   "price",
		   NULL};
	const struct hd_json_range amount = {.most = 1e18};
	const struct hd_json_range count = {.most = (double)HD_ELASTIC_STEPS_MAX, .whole = true};
	const struct hd_json_wanted numbers[] = {
		{"target", {.most = HD_WORKERS_MAX, .whole = true}, &kept->target},
		{"step", count, &kept->step},
		{"steps", count, &kept->steps},
		{"steps_before", count, &kept->steps_before},
		{"ran_s", amount, &kept->ran_s},
		{"worker_s", amount, &kept->worker_s},
		{"money", amount, &kept->money},
		{"price", {.most = 1e18, .fallback = -1}, &kept->price},
	};

	if (hd_json_known(in, keys) < 0
	    || take_text(in, "words", HD_ELASTIC_WORDS_BYTES + 1, &kept->words) < 0
	    || take_text(in, "reason", HD_ELASTIC_REASON_BYTES, &kept->reason) < 0)
		return -EINVAL;
	return hd_json_numbers(in, numbers, sizeof numbers / sizeof numbers[0]);
}

static int
build(const struct hd_json_object *in, const struct kept *kept, struct hd_elastic *owner) {
	char error[HD_TEXT_BYTES_MAX], field[4 * HD_NAME_BYTES_MAX];

	hd_elastic_init(owner);
	/* There are no workers yet: a policy that needs their number gets the target. */
	if (hd_elastic_set(owner, kept->words, 0, (uint32_t)kept->target, error, sizeof error)
	    < 0) {
		(void)snprintf(field, sizeof field, "%s.words", in->prefix);
		return hd_json_fail(in->reader, field, "%s", error);
	}
	hd_elastic_resume(
		owner,
		(uint32_t)kept->target,
		kept->reason,
		&(struct hd_elastic_account){
			.ran_s = kept->ran_s,
			.worker_s = kept->worker_s,
			.money = kept->money,
			.step = (uint64_t)kept->step,
			/* An older controller has saved no other. */
			.steps = (uint64_t)fmax(kept->steps, kept->step),
			.steps_before = (uint64_t)kept->steps_before,
		},
		kept->price
	);
	return 0;
}

int ctl_elastic_in(const struct hd_json_object *job, struct ctl_elastic **elastic) {
	char prefix[2 * HD_NAME_BYTES_MAX];
	struct hd_json_object in = {job->reader, json_object_get(job->object, "elastic"), prefix};
	struct kept kept = {0};
	int status;

	*elastic = NULL;
	if (!in.object)
		return 0;
	(void)snprintf(prefix, sizeof prefix, "%s.elastic", job->prefix);
	if (take(&in, &kept) < 0)
		return -EINVAL;
	*elastic = calloc(1, sizeof **elastic);
	if (!*elastic)
		return -ENOMEM;
	(*elastic)->held_norm = -1;
	status = build(&in, &kept, &(*elastic)->owner);
	if (status < 0) {
		free(*elastic);
		*elastic = NULL;
	}
	return status;
}

void ctl_elastic_again(struct ctl_job *job, struct ctl_elastic *elastic) {
	free(job->elastic);
	job->elastic = elastic;
}
