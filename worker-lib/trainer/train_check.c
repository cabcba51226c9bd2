/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of heddle-train that are of --sync allreduce only, and options that exclude each other. */
#include "hd_option.h"
#include "hd_options.h"
#include "train_far.h"

#include <sysexits.h>

#define BUCKET_KIB_MAX (1 << 22)
#define STEPS_MAX 1000000000
#define WAIT_MS_MAX 86400000
#define TAU_MAX 16 /* defaults of options that may not be given */
#define INFLIGHT 2
#define EVERY_MS 500
#define BUCKET_KIB 25600 /* as PyTorch's DistributedDataParallel */

const struct hd_option train_reduce_options[] = {
	HD_OPTION_U32(
		"bucket-kib",
		"N",
		struct train_reduce,
		bucket_kib,
		1,
		BUCKET_KIB_MAX,
		"allreduce: KiB of gradient that are reduced together (25600)"
	),
	HD_OPTION_U64(
		"check-every",
		"N",
		struct train_reduce,
		check_every,
		0,
		STEPS_MAX,
		"allreduce: also after every Nth step, compares the models of all (0: at the end)"
	),
	HD_OPTION_U32(
		"wait-ms",
		"N",
		struct train_reduce,
		wait_ms,
		0,
		WAIT_MS_MAX,
		"allreduce: ms that a step waits for a worker (0: as long as it is registered)"
	),
	HD_OPTION_TEXT(
		"step-log",
		"FILE",
		struct train_reduce,
		step_log,
		"allreduce: a JSON line for each step, with its members; FILE.RANK of ranks above 0"
	),
	HD_OPTION_END,
};

static int check_reduce(const struct train_reduce *reduce) {
	const char *name = reduce->bucket_kib > 0 ? "bucket-kib" :
		reduce->check_every > 0           ? "check-every" :
		reduce->wait_ms > 0               ? "wait-ms" :
		reduce->step_log                  ? "step-log" :
						    NULL;

	return name ? train_fail(EX_USAGE, "%s: without --sync allreduce", name) : -1;
}

int train_check_allreduce(const struct train_options *options) {
	const struct {
		const char *name;
		bool given;
	} others[] = {
		{"federated", options->is_federated},
		{"straggling", options->stragglers > 0},
		{"client-labels", options->labels > 0},
		{"tau-max", options->tau_max > 0},
		{"div-max", options->div_max > 0.0f},
		{"staleness", options->staleness != HEDDLE_STALENESS_CONSTANT},
		{"filter", options->filter >= 0.0f},
		{"filter-block", options->filter_block > 1},
		{"filter-flush", options->filter_flush > 0},
		{"payload", options->sparse || options->payload != HEDDLE_PAYLOAD_FP32},
		{"pull-payload", options->pull_payload != HEDDLE_PAYLOAD_FP32},
		{"admm", options->admm > 0.0f},
		{"local-steps", options->local_steps > 1},
		{"inflight", options->inflight > 0},
		{"synchronous", options->synchronous},
		{"local", options->local},
		{"evaluate", options->evaluate},
		{"every-ms", options->every_ms > 0},
		{"target", options->target >= 0.0},
		{"target-commits", options->target_commits > 0},
	};

	if (!options->allreduce)
		return check_reduce(&options->reduce);
	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
		if (others[i].given)
			return train_fail(
				EX_USAGE,
				"%s: not with --sync allreduce, which has no server and gives the whole "
				"gradient of each step in fp32",
				others[i].name
			);
	return -1;
}

static void set_default(uint32_t *value, uint32_t normal) {
	if (*value == 0)
		*value = normal;
}

void train_default(struct train_options *options) {
	set_default(&options->tau_max, TAU_MAX);
	set_default(&options->inflight, INFLIGHT);
	set_default(&options->every_ms, EVERY_MS);
	set_default(&options->reduce.bucket_kib, BUCKET_KIB);
	if (options->target_commits == 0)
		options->target_commits = 1;
}

int train_check(const struct train_options *options) {
	const int status = train_check_device(options);

	if (status >= 0)
		return status;
	if (options->is_federated
	    && (options->local || options->filtered || options->sparse
		|| options->sync != HD_SYNC_NONE))
		return train_fail(
			EX_USAGE, "federated: not with --local, --filter, --sync or sparse payloads"
		);
	if (!options->is_federated && options->sync == HD_SYNC_FEDERATED)
		return train_fail(
			EX_USAGE, "sync: federated rounds are asked for with --federated"
		);
	if (options->local && options->evaluate)
		return train_fail(EX_USAGE, "local and evaluate: one or the other");
	if (options->local && options->steps == 0 && options->seconds <= 0.0)
		return train_fail(EX_USAGE, "local: needs --steps or --seconds");
	if (options->local && options->local_steps > 1 && options->admm <= 0.0f)
		return train_fail(EX_USAGE, "local-steps: every step of --local is one");
	if (options->filtered && options->rate <= 0.0f)
		return train_fail(EX_USAGE, "filter: needs a learning rate above 0");
	if (!options->filtered && (options->filter_block > 1 || options->filter_flush > 0))
		return train_fail(EX_USAGE, "filter-block, filter-flush: without --filter");
	return options->admm > 0.0f ? train_check_admm(options) : -1;
}
