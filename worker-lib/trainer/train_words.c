/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of heddle-train whose values are words. */
#include "hd_jobspec.h"
#include "hd_number.h"
#include "hd_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static int wrong(const char *name, const char *text, const char *right) {
	return train_fail(EX_USAGE, "--%s: '%.32s' (%s)", name, text, right);
}

int train_take_staleness(void *values, const char *text) {
	static const char *const rules[] = {"constant", "inv-sqrt", "adadelay"};
	struct train_options *options = values;
	char *end;

	for (int i = 0; i < 3; i++) {
		size_t length = strlen(rules[i]);

		if (strncmp(text, rules[i], length) != 0)
			continue;
		options->staleness = (enum heddle_staleness)i;
		if (text[length] == '\0')
			return 0;
		options->staleness_c = strtof(text + length + 1, &end);
		if (text[length] == ':' && end != text + length + 1 && *end == '\0'
		    && options->staleness_c > 0.0f && isfinite(options->staleness_c))
			return 0;
	}
	return wrong("staleness", text, "constant, inv-sqrt or adadelay, with :C > 0 or without");
}

int train_take_scale(void *values, const char *text) {
	static const char linear[] = "linear";
	struct train_options *options = values;
	const char *rest = text + sizeof linear - 1;
	uint64_t base = 0;

	options->scaled = strncmp(text, linear, sizeof linear - 1) == 0;
	options->scale_base = 0;
	if (!options->scaled ? strcmp(text, "none") == 0 : *rest == '\0')
		return 0;
	if (!options->scaled || *rest != ':'
	    || hd_number_whole(rest + 1, 1, HEDDLE_WORKERS_MAX, &base) < 0)
		return wrong("scale-rate", text, "none, linear or linear:N, N from 1 to 4096");
	options->scale_base = (uint32_t)base;
	return 0;
}

int train_take_sync(void *values, const char *text) {
	struct train_options *options = values;

	options->allreduce = strcmp(text, "allreduce") == 0;
	if (hd_sync_parse(options->allreduce ? "async" : text, &options->sync, &options->sync_count)
	    < 0)
		return wrong(
			"sync",
			text,
			"async, full, nsync:N or nbatch:N, N from 1 to 4096; or allreduce"
		);
	if (options->sync == HD_SYNC_N_BATCH)
		options->inflight = PUSHES_MAX; /* they wait for their step */
	return 0;
}

int train_take_integrity(void *values, const char *text) {
	struct train_options *options = values;

	options->unsealed = strcmp(text, "off") == 0;
	return options->unsealed || strcmp(text, "on") == 0 ? 0 :
							      wrong("integrity", text, "on or off");
}

/* One of the first `count`. */
static bool is_payload(const char *text, int count, enum heddle_payload *payload) {
	static const char *const types[] = {"fp32", "fp16", "bf16", "fixed32"};

	for (int i = 0; i < count; i++) {
		if (strcmp(text, types[i]) != 0)
			continue;
		*payload = (enum heddle_payload)i;
		return true;
	}
	return false;
}

int train_take_payload(void *values, const char *text) {
	struct train_options *options = values;

	options->sparse = strcmp(text, "sparse") == 0;
	if (options->sparse || is_payload(text, 4, &options->payload))
		return 0;
	return wrong("payload", text, "fp32, fp16, bf16, fixed32 or sparse");
}

int train_take_pull_payload(void *values, const char *text) {
	struct train_options *options = values;

	if (is_payload(text, 3, &options->pull_payload))
		return 0;
	return wrong("pull-payload", text, "fp32, fp16 or bf16");
}

int train_take_shards(void *values, const char *text) {
	struct train_options *options = values;

	options->live = strcmp(text, "live") == 0;
	return options->live || strcmp(text, "rank") == 0 ? 0 :
							    wrong("shards", text, "rank or live");
}
