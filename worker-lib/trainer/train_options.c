/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-train's command line. */
#include "hd_jobspec.h"
#include "hd_limits.h"
#include "hd_number.h"
#include "hd_option.h"
#include "hd_options.h"

#include <stdlib.h>
#include <sysexits.h>

#define LABELS_MAX 64
#define RATE_MAX 1e6
#define DIV_MAX 1e12
#define COUNT_MAX 1000000000
#define EXACT_MAX (UINT64_C(1) << 53) /* a JSON number of this size is exact */
#define MEMORY_MB_MAX (1 << 20)
#define COMPUTE_MS_MAX 1e6
#define GRACE_MAX (HD_NOTICE_US_MAX * 1e-6)

/* At once: so that errors in later options are logged so, too. */
static int take_log_json(void *values, const char *text) {
	(void)values;
	(void)text;
	train_log_json();
	return 0;
}

/* --- the table ------------------------------------------------------------------------------- */

static const struct hd_option option_table[] = {
	HD_OPTION_TEXT(
		"data",
		"DATA",
		struct train_options,
		data,
		"digits, or digits:FILE: UCI optical digits (digits)\n"
		"DIR: a directory of IDX files\n"
		"svmlight:TRAIN[,TEST]: files in SVMlight's format\n"
		"ratings:TRAIN[,TEST]: rating triples: u.data, ratings.dat or ratings.csv of MovieLens\n"
		"generated:logistic[:ROWS,FEATURES,PER_ROW,SEED]\n"
		"generated:ratings[:USERS,ITEMS,RATINGS,SEED]\n"
		"synthetic:iid|A,B: generated, of 30 clients that differ (docs/fedprox.md)\n"
		"leaf:TRAIN[,TEST]: LEAF's JSON, files or folders (DIR: DIR/train, DIR/test); its\n"
		"users are the clients, dealt to the ranks"
	),
	HD_OPTION_TEXT(
		"write-data",
		"FILE",
		struct train_options,
		write_data,
		"writes generated data as text, and ends"
	),
	HD_OPTION_TAKE(
		"federated",
		"KEY=VALUE,...",
		train_take_federated,
		"a client of federated rounds, --lr its local rate: clients (10), min (1),\n"
		"available, wait-ms, deadline-ms (0: none), epochs (20), mu=X|auto[:X] (0),\n"
		"weighting=samples|uniform, stragglers=accept|drop, late=drop|weight, seed"
	),
	HD_OPTION_REAL(
		"straggling",
		"SHARE",
		struct train_options,
		stragglers,
		0,
		1,
		"share of a round's clients that do only some epochs (0)"
	),
	HD_OPTION_U32(
		"client-labels",
		"N",
		struct train_options,
		labels,
		0,
		LABELS_MAX,
		"clients' rows are N shards by label (0: dealt evenly)"
	),
	HD_OPTION_TEXT(
		"model",
		"MODEL",
		struct train_options,
		model,
		"softmax: softmax regression; mlp:W,W,...: layers with ReLU (softmax)\n"
		"logistic: of sparse rows with two labels; pmf:K[,REG]: K factors of users and\n"
		"items of ratings"
	),
	HD_OPTION_U32(
		"batch",
		"N",
		struct train_options,
		batch,
		1,
		HD_BATCH_MAX,
		"rows of a minibatch (32)"
	),
	HD_OPTION_FLOAT(
		"lr",
		"X",
		struct train_options,
		rate,
		0,
		RATE_MAX,
		"learning rate of SGD, at the server (0.1)"
	),
	HD_OPTION_FLOAT("momentum", "X", struct train_options, momentum, 0, 1, "of that (0)"),
	HD_OPTION_FLOAT(
		"weight-decay",
		"X",
		struct train_options,
		decay,
		0,
		RATE_MAX,
		"of that (0)"
	),
	HD_OPTION_U32(
		"tau-max",
		"N",
		struct train_options,
		tau_max,
		1,
		HD_TAU_MAX_LIMIT,
		"bound of an update's delay (16)"
	),
	HD_OPTION_FLOAT(
		"div-max",
		"X",
		struct train_options,
		div_max,
		0,
		DIV_MAX,
		"how far a replica may be from the server (0: however far)"
	),
	HD_OPTION_TAKE(
		"sync",
		"WHEN",
		train_take_sync,
		"when the server makes a step: async: of each update; full: of one of every worker;\n"
		"nsync:N: of the first N workers'; nbatch:N: of the first N (async). allreduce: no\n"
		"server; each worker makes all steps, of the mean gradient of all that take part"
	),
	HD_OPTION_TABLE(train_reduce_options, struct train_options, reduce),
	HD_OPTION_TAKE(
		"integrity",
		"on|off",
		train_take_integrity,
		"off: what is sent carries no MAC, in a network that is trusted (on)"
	),
	HD_OPTION_TAKE(
		"staleness",
		"RULE",
		train_take_staleness,
		"weight of a late update: constant, inv-sqrt[:C] or adadelay[:C] (constant)"
	),
	HD_OPTION_TAKE(
		"payload",
		"TYPE",
		train_take_payload,
		"in which updates travel: fp32, fp16, bf16, fixed32, or sparse: what is not 0\n"
		"(fp32)"
	),
	HD_OPTION_FLOAT(
		"filter",
		"V",
		struct train_options,
		filter,
		0,
		RATE_MAX,
		"pushes only what moves its weight by more than V / sqrt(step) of it, holds the\n"
		"rest back (0: everything); sparse where that is smaller"
	),
	HD_OPTION_U32(
		"filter-block",
		"N",
		struct train_options,
		filter_block,
		1,
		HEDDLE_FILTER_BLOCK_MAX,
		"values that are sent or held together (1)"
	),
	HD_OPTION_U32(
		"filter-flush",
		"N",
		struct train_options,
		filter_flush,
		0,
		COUNT_MAX,
		"sends what is held with every Nth step (0: only at the end)"
	),
	HD_OPTION_U32(
		"local-steps",
		"N",
		struct train_options,
		local_steps,
		1,
		LOCAL_STEPS_MAX,
		"steps of SGD that a worker makes by itself for each update: with --sync full\n"
		"the mean of models, not of gradients (1)"
	),
	HD_OPTION_TAKE(
		"admm",
		"RHO[,LOCAL_STEPS]",
		train_take_admm,
		"consensus ADMM (docs/patterns.md): penalty, and local steps for each update (10);\n"
		"with --sync full or nsync:N, without momentum and weight decay"
	),
	HD_OPTION_TAKE(
		"pull-payload",
		"TYPE",
		train_take_pull_payload,
		"in which models travel: fp32, fp16 or bf16 (fp32)"
	),
	HD_OPTION_U64(
		"seed",
		"N",
		struct train_options,
		seed,
		0,
		EXACT_MAX,
		"initial weights and sampling (1)"
	),
	HD_OPTION_U64(
		"first-step",
		"N",
		struct train_options,
		first_step,
		0,
		COUNT_MAX,
		"starts with this minibatch of its rank, where an earlier process ended (0)"
	),
	HD_OPTION_U32(
		"memory-mb",
		"N",
		struct train_options,
		memory_mb,
		1,
		MEMORY_MB_MAX,
		"limit in MiB for data, model and updates, in addition to the program itself; a\n"
		"worker that needs more prints for what, and exits (no limit)"
	),
	HD_OPTION_TABLE(train_device_options, struct train_options, device),
	HD_OPTION_REAL(
		"compute-ms",
		"X",
		struct train_options,
		compute_ms,
		0,
		COMPUTE_MS_MAX,
		"pads each real gradient step to this time (0)"
	),
	HD_OPTION_TEXT(
		"compute-schedule",
		"FILE",
		struct train_options,
		schedule,
		"lines `t_s factor` that scale it; a file or a FIFO"
	),
	HD_OPTION_U32(
		"inflight",
		"N",
		struct train_options,
		inflight,
		1,
		PUSHES_MAX,
		"pushes in flight during the computation (2, at most 8)"
	),
	HD_OPTION_FLAG(
		"synchronous",
		struct train_options,
		synchronous,
		"waits for each push before the next pull"
	),
	HD_OPTION_U64(
		"steps",
		"N",
		struct train_options,
		steps,
		1,
		EXACT_MAX,
		"ends after N steps (never)"
	),
	HD_OPTION_REAL(
		"seconds",
		"X",
		struct train_options,
		seconds,
		0,
		COUNT_MAX,
		"starts no step after this time (never); pushes in flight then have 5 s, a federated\n"
		"update the time of its round"
	),
	HD_OPTION_U32(
		"eval-every",
		"N",
		struct train_options,
		eval_every,
		0,
		COUNT_MAX,
		"prints the accuracy after every Nth pull (0: never)"
	),
	HD_OPTION_U32(
		"join-ms",
		"N",
		struct train_options,
		join_ms,
		1,
		COUNT_MAX,
		"how long to wait for the job (30000)"
	),
	HD_OPTION_REAL(
		"grace",
		"SECONDS",
		struct train_options,
		grace,
		0,
		GRACE_MAX,
		"SIGTERM is a notice of preemption after this time (HEDDLE_GRACE; without it\n"
		"SIGTERM ends the run)"
	),
	HD_OPTION_TAKE(
		"shards",
		"ROWS",
		train_take_shards,
		"rank: rows of this rank among HEDDLE_WORLD_SIZE; live: the share of the workers\n"
		"that take part at the time (rank)"
	),
	HD_OPTION_TAKE(
		"scale-rate",
		"RULE",
		train_take_scale,
		"none, or linear[:N]: updates times workers that take part / N, for a rate that is\n"
		"right for N (none; N: HEDDLE_WORLD_SIZE; at most 16)"
	),
	HD_OPTION_TEXT(
		"json",
		"FILE",
		struct train_options,
		json,
		"a summary at the end ('-': standard output)"
	),
	HD_OPTION_TEXT(
		"loss-log",
		"FILE",
		struct train_options,
		loss_log,
		"for `heddlectl elastic fit`: step, loss, y, seconds; FILE.RANK of ranks above 0"
	),
	HD_OPTION_FLAG("quiet", struct train_options, quiet, "no progress lines"),
	HD_OPTION_TAKE(
		"log-json",
		NULL,
		take_log_json,
		"progress, errors and the library's log as JSON lines on stderr"
	),
	HD_OPTION_NOTE(""),
	HD_OPTION_FLAG(
		"local",
		struct train_options,
		local,
		"trains in this process alone: the reference"
	),
	HD_OPTION_NOTE(""),
	HD_OPTION_FLAG(
		"evaluate",
		struct train_options,
		evaluate,
		"an observer: pulls, prints accuracy as JSON lines"
	),
	HD_OPTION_U32(
		"every-ms",
		"N",
		struct train_options,
		every_ms,
		1,
		COUNT_MAX,
		"pulls this often (500)"
	),
	HD_OPTION_REAL(
		"target",
		"X",
		struct train_options,
		target,
		0,
		1,
		"ends with success when the mean accuracy of three evaluations is X or more"
	),
	HD_OPTION_U64(
		"target-commits",
		"N",
		struct train_options,
		target_commits,
		1,
		EXACT_MAX,
		"each at least N commits after the one before (1)"
	),
	HD_OPTION_NOTE(""),
	HD_OPTION_HELP,
	HD_OPTION_END,
};

static const struct hd_option_program command_line = {
	.name = "heddle-train",
	.usage
	= "usage: heddle-train [OPTION]...\n"
	  "Trains a model over the Heddle fabric. Where the fabric is comes from the environment, as\n"
	  "heddle-run sets it.\n"
	  "\n",
	.table = option_table,
	.column = 29,
};

static int tell(void *owner, int code, const char *sentence) {
	(void)owner;
	return train_fail(code, "%s", sentence);
}

static int read_grace(double *grace) {
	const char *text = getenv("HEDDLE_GRACE");

	if (!text || !*text || hd_number_real(text, 0, GRACE_MAX, grace) == 0)
		return 0;
	return train_fail(
		EX_USAGE, "HEDDLE_GRACE: '%.32s' (a number from 0 to %g)", text, GRACE_MAX
	);
}

int train_parse(int argc, char **argv, struct train_options *options) {
	const struct hd_option_errors errors = {.tell = tell};
	int status;

	*options = (struct train_options){
		.data = "digits",
		.model = "softmax",
		.batch = 32,
		.rate = 0.1f,
		.staleness_c = 1.0f,
		.seed = 1,
		.filter = -1.0f,
		.local_steps = 1,
		.join_ms = 30000,
		.target = -1,
		.evaluate = getenv("HEDDLE_OBSERVER") != NULL,
	};
	status = read_grace(&options->grace);
	if (status == 0)
		status = hd_options_read(&command_line, argc, argv, options, &errors);
	if (status != 0)
		return status < 0 ? EX_OK : status;
	status = train_check_allreduce(options);
	if (status >= 0)
		return status;
	train_default(options);
	options->filtered = options->filter >= 0.0f;
	if (options->admm > 0.0f)
		options->inflight = 1; /* the next steps depend on the outcome of the last update */
	return train_check(options);
}
