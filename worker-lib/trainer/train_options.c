/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-train's command line. */
#include "hd_jobspec.h"
#include "hd_options.h"
#include "heddle_filter.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static const char help[]
	= "usage: heddle-train [OPTION]...\n"
	  "Trains a model over the Heddle fabric. Where the fabric is comes from the environment, as\n"
	  "heddle-run sets it.\n"
	  "\n"
	  "  --data digits|digits:FILE|DIR|svmlight:TRAIN[,TEST]  UCI optical digits, a directory of IDX\n"
	  "                                 files, or files in SVMlight's format (digits)\n"
	  "  --data ratings:TRAIN[,TEST]    rating triples: u.data, ratings.dat or ratings.csv of MovieLens\n"
	  "  --data generated:logistic[:ROWS,FEATURES,PER_ROW,SEED]|generated:ratings[:USERS,ITEMS,RATINGS,SEED]\n"
	  "  --write-data FILE              writes generated data as text, and ends\n"
	  "         synthetic:iid|A,B       generated, of 30 clients that differ (docs/fedprox.md)\n"
	  "         leaf:TRAIN[,TEST]       LEAF's JSON, files or folders (DIR: DIR/train, DIR/test); its users\n"
	  "                                 are the clients, dealt to the ranks\n"
	  "  --federated KEY=VALUE,...      a client of federated rounds, --lr its local rate: clients (10), min (1),\n"
	  "                                 available, wait-ms, deadline-ms (0: none), epochs (20), mu=X|auto[:X] (0),\n"
	  "                                 weighting=samples|uniform, stragglers=accept|drop, late=drop|weight, seed\n"
	  "  --straggling SHARE             so many of a round's clients do some epochs only (0)\n"
	  "  --client-labels N              clients' rows are N shards by label (0: dealt evenly)\n"
	  "  --model softmax|mlp:W,W,...    softmax regression, or layers with ReLU (softmax)\n"
	  "  --model logistic|pmf:K[,REG]   of sparse rows with two labels; K factors of users and items of ratings\n"
	  "  --batch N                      rows of a minibatch (32)\n"
	  "  --lr X --momentum X --weight-decay X  SGD, at the server (0.1, 0, 0)\n"
	  "  --tau-max N                    bound of an update's delay (16)\n"
	  "  --div-max X                    how far a replica may be from the server (0: however far)\n"
	  "  --sync async|full|nsync:N|nbatch:N  when the server makes a step: of each update, of one of every\n"
	  "                                 worker, of the first N workers', of the first N (async)\n"
	  "  --staleness constant|inv-sqrt|adadelay[:C]  weight of a late update (constant)\n"
	  "  --payload fp32|fp16|bf16|fixed32|sparse\n"
	  "                                 type in which updates travel; sparse: what is not 0 (fp32)\n"
	  "  --filter V                     pushes only what moves its weight by more than V / sqrt(step) of it,\n"
	  "                                 holds the rest back (0: everything); sparse where that is smaller\n"
	  "  --filter-block N               values that are sent or held together (1)\n"
	  "  --filter-flush N               sends what is held with every Nth step (0: only at the end)\n"
	  "  --local-steps N                steps of SGD that a worker makes by itself for each update: with --sync\n"
	  "                                 full the mean of models, not of gradients (1)\n"
	  "  --admm RHO[,LOCAL_STEPS]       consensus ADMM (docs/patterns.md): penalty, and steps for each update (10);\n"
	  "                                 with --sync full or nsync:N, without momentum and weight decay\n"
	  "  --pull-payload TYPE            the same of models (fp32)\n"
	  "  --seed N                       initial weights and sampling (1)\n"
	  "  --first-step N                 begins with this one of its rank's minibatches: where a process before\n"
	  "                                 it ended (0)\n"
	  "  --memory-mb N                  MiB for data, model and updates, beyond what the program begins with; a\n"
	  "                                 worker that needs more says so and ends (any)\n"
	  "  --compute-ms X                 pads each real gradient step to this time (0)\n"
	  "  --compute-schedule FILE        lines `t_s factor` that scale it; a file or a FIFO\n"
	  "  --inflight N                   pushes under way while computing on (2, at most 8)\n"
	  "  --synchronous                  waits for each push before the next pull\n"
	  "  --steps N, --seconds X         when to stop (never)\n"
	  "  --eval-every N                 prints the accuracy after every Nth pull (0: never)\n"
	  "  --join-ms N                    how long to wait for the job (30000)\n"
	  "  --grace SECONDS                SIGTERM is a notice of preemption: the machine lives so long yet\n"
	  "                                 (HEDDLE_GRACE; else SIGTERM ends the run)\n"
	  "  --shards rank|live             rows of this rank among HEDDLE_WORLD_SIZE, or the share of the\n"
	  "                                 workers that take part at the time (rank)\n"
	  "  --scale-rate none|linear[:N]   linear: updates times workers that take part / N, for a rate that\n"
	  "                                 is right for N (none; N: HEDDLE_WORLD_SIZE; at most 16)\n"
	  "  --json FILE                    a summary at the end ('-': standard output)\n"
	  "  --loss-log FILE                for `heddlectl elastic fit`: step, loss, y, seconds; FILE.RANK of ranks\n"
	  "                                 above 0\n"
	  "  --quiet                        no progress lines\n"
	  "  --log-json                     progress, errors and the library's log as JSON lines on stderr\n"
	  "\n"
	  "  --local                        trains in this process alone: the reference\n"
	  "\n"
	  "  --evaluate                     an observer: pulls, prints accuracy as JSON lines\n"
	  "  --every-ms N                   this often (500)\n"
	  "  --target X                     ends with success when the mean accuracy of three\n"
	  "                                 evaluations is X or more\n"
	  "  --target-commits N             each at least N commits after the one before (1)\n"
	  "  --help, --version\n";

enum {
	OPT_DATA = 256,
	OPT_WRITE,
	OPT_MODEL,
	OPT_FEDERATED,
	OPT_STRAGGLING,
	OPT_LABELS,
	OPT_BATCH,
	OPT_LR,
	OPT_MOMENTUM,
	OPT_DECAY,
	OPT_TAU,
	OPT_SYNC,
	OPT_DIV,
	OPT_STALENESS,
	OPT_PAYLOAD,
	OPT_PULL_PAYLOAD,
	OPT_LOCAL_STEPS,
	OPT_ADMM,
	OPT_FILTER,
	OPT_FILTER_BLOCK,
	OPT_FILTER_FLUSH,
	OPT_EVAL,
	OPT_SEED,
	OPT_FIRST,
	OPT_MEMORY,
	OPT_COMPUTE,
	OPT_SCHEDULE,
	OPT_INFLIGHT,
	OPT_SYNCHRONOUS,
	OPT_STEPS,
	OPT_SECONDS,
	OPT_JOIN,
	OPT_GRACE,
	OPT_SHARDS,
	OPT_SCALE,
	OPT_JSON,
	OPT_LOSS_LOG,
	OPT_QUIET,
	OPT_LOG_JSON,
	OPT_LOCAL,
	OPT_EVALUATE,
	OPT_EVERY,
	OPT_TARGET,
	OPT_COMMITS,
	OPT_HELP,
	OPT_VERSION
};

static const struct option names[] = {
	{"data", required_argument, NULL, OPT_DATA},
	{"write-data", required_argument, NULL, OPT_WRITE},
	{"model", required_argument, NULL, OPT_MODEL},
	{"federated", required_argument, NULL, OPT_FEDERATED},
	{"straggling", required_argument, NULL, OPT_STRAGGLING},
	{"client-labels", required_argument, NULL, OPT_LABELS},
	{"batch", required_argument, NULL, OPT_BATCH},
	{"lr", required_argument, NULL, OPT_LR},
	{"momentum", required_argument, NULL, OPT_MOMENTUM},
	{"weight-decay", required_argument, NULL, OPT_DECAY},
	{"tau-max", required_argument, NULL, OPT_TAU},
	{"sync", required_argument, NULL, OPT_SYNC},
	{"div-max", required_argument, NULL, OPT_DIV},
	{"staleness", required_argument, NULL, OPT_STALENESS},
	{"payload", required_argument, NULL, OPT_PAYLOAD},
	{"pull-payload", required_argument, NULL, OPT_PULL_PAYLOAD},
	{"local-steps", required_argument, NULL, OPT_LOCAL_STEPS},
	{"admm", required_argument, NULL, OPT_ADMM},
	{"filter", required_argument, NULL, OPT_FILTER},
	{"filter-block", required_argument, NULL, OPT_FILTER_BLOCK},
	{"filter-flush", required_argument, NULL, OPT_FILTER_FLUSH},
	{"eval-every", required_argument, NULL, OPT_EVAL},
	{"seed", required_argument, NULL, OPT_SEED},
	{"first-step", required_argument, NULL, OPT_FIRST},
	{"memory-mb", required_argument, NULL, OPT_MEMORY},
	{"compute-ms", required_argument, NULL, OPT_COMPUTE},
	{"compute-schedule", required_argument, NULL, OPT_SCHEDULE},
	{"inflight", required_argument, NULL, OPT_INFLIGHT},
	{"synchronous", no_argument, NULL, OPT_SYNCHRONOUS},
	{"steps", required_argument, NULL, OPT_STEPS},
	{"seconds", required_argument, NULL, OPT_SECONDS},
	{"join-ms", required_argument, NULL, OPT_JOIN},
	{"grace", required_argument, NULL, OPT_GRACE},
	{"shards", required_argument, NULL, OPT_SHARDS},
	{"scale-rate", required_argument, NULL, OPT_SCALE},
	{"json", required_argument, NULL, OPT_JSON},
	{"loss-log", required_argument, NULL, OPT_LOSS_LOG},
	{"quiet", no_argument, NULL, OPT_QUIET},
	{"log-json", no_argument, NULL, OPT_LOG_JSON},
	{"local", no_argument, NULL, OPT_LOCAL},
	{"evaluate", no_argument, NULL, OPT_EVALUATE},
	{"every-ms", required_argument, NULL, OPT_EVERY},
	{"target", required_argument, NULL, OPT_TARGET},
	{"target-commits", required_argument, NULL, OPT_COMMITS},
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{0},
};

/* Whole numbers and others within limits: one row an option. */
struct number {
	double min, max;
	int option;
	bool whole;
};
static const struct number numbers[] = {
	{1, HD_BATCH_MAX, OPT_BATCH, true},
	{0, 1, OPT_STRAGGLING, false},
	{0, 64, OPT_LABELS, true},
	{0, 1e6, OPT_LR, false},
	{0, 1, OPT_MOMENTUM, false},
	{0, 1e6, OPT_DECAY, false},
	{1, HD_TAU_MAX_LIMIT, OPT_TAU, true},
	{0, 1e12, OPT_DIV, false},
	{1, LOCAL_STEPS_MAX, OPT_LOCAL_STEPS, true},
	{0, 1e6, OPT_FILTER, false},
	{1, HEDDLE_FILTER_BLOCK_MAX, OPT_FILTER_BLOCK, true},
	{0, 1e9, OPT_FILTER_FLUSH, true},
	{0, 1e9, OPT_EVAL, true},
	{0, 9007199254740992.0, OPT_SEED, true},
	{0, 1e9, OPT_FIRST, true},
	{1, 1 << 20, OPT_MEMORY, true},
	{0, 1e6, OPT_COMPUTE, false},
	{1, PUSHES_MAX, OPT_INFLIGHT, true},
	{1, 9007199254740992.0, OPT_STEPS, true},
	{0, 1e9, OPT_SECONDS, false},
	{1, 1e9, OPT_JOIN, true},
	{0, HD_NOTICE_US_MAX * 1e-6, OPT_GRACE, false},
	{1, 1e9, OPT_EVERY, true},
	{0, 1, OPT_TARGET, false},
	{1, 9007199254740992.0, OPT_COMMITS, true},
};

static const char *name_of(int option) {
	for (size_t i = 0; names[i].name; i++)
		if (names[i].val == option)
			return names[i].name;
	return "?";
}

/* False (and an error is printed) unless the text is a number within the option's limits. */
static bool parse_number(int option, const char *text, double *value) {
	const struct number *row = NULL;
	char *end;

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (numbers[i].option == option)
			row = &numbers[i];
	if (!row)
		return true;
	*value = strtod(text, &end);
	if (end != text && *end == '\0' && *value >= row->min && *value <= row->max
	    && (!row->whole || *value == floor(*value)))
		return true;
	(void)train_fail(
		EX_USAGE,
		"%s: '%.32s' is not a %snumber in %.15g..%.15g",
		name_of(option),
		text,
		row->whole ? "whole " : "",
		row->min,
		row->max
	);
	return false;
}

static bool parse_staleness(struct train_options *options, const char *text) {
	static const char *const rules[] = {"constant", "inv-sqrt", "adadelay"};
	char *end;

	for (int i = 0; i < 3; i++) {
		size_t length = strlen(rules[i]);

		if (strncmp(text, rules[i], length) != 0)
			continue;
		options->staleness = (enum heddle_staleness)i;
		if (text[length] == '\0')
			return true;
		options->staleness_c = strtof(text + length + 1, &end);
		if (text[length] == ':' && end != text + length + 1 && *end == '\0'
		    && options->staleness_c > 0.0f && isfinite(options->staleness_c))
			return true;
	}
	(void)train_fail(
		EX_USAGE,
		"staleness: '%.32s' is not constant, inv-sqrt or adadelay, with :C > 0 or without",
		text
	);
	return false;
}

static bool parse_scale(struct train_options *options, const char *text) {
	static const char linear[] = "linear";
	const char *rest = text + sizeof linear - 1;
	unsigned long base = 0;
	char *end = NULL;

	options->scaled = strncmp(text, linear, sizeof linear - 1) == 0;
	options->scale_base = 0;
	if (!options->scaled ? strcmp(text, "none") == 0 : *rest == '\0')
		return true;
	if (options->scaled && rest[0] == ':' && rest[1] >= '0' && rest[1] <= '9')
		base = strtoul(rest + 1, &end, 10);
	options->scale_base = (uint32_t)base;
	if (base >= 1 && base <= HEDDLE_WORKERS_MAX && *end == '\0')
		return true;
	(void)train_fail(
		EX_USAGE, "scale-rate: '%.32s' is not none, linear or linear:N (N: 1..4096)", text
	);
	return false;
}

static bool parse_sync(struct train_options *options, const char *text) {
	if (hd_sync_parse(text, &options->sync, &options->sync_count) == 0) {
		if (options->sync == HD_SYNC_N_BATCH)
			options->inflight = PUSHES_MAX; /* they wait for their step */
		return true;
	}
	(void)train_fail(
		EX_USAGE, "sync: '%.32s' is not async, full, nsync:N or nbatch:N (N: 1..4096)", text
	);
	return false;
}

/* The first `count` of them. */
static bool
parse_payload(const char *name, int count, const char *text, enum heddle_payload *payload) {
	static const char *const types[] = {"fp32", "fp16", "bf16", "fixed32"};

	for (int i = 0; i < count; i++) {
		if (strcmp(text, types[i]) != 0)
			continue;
		*payload = (enum heddle_payload)i;
		return true;
	}
	(void)train_fail(
		EX_USAGE,
		"%s: '%.32s' is not fp32, fp16%s",
		name,
		text,
		count > 3 ? ", bf16, fixed32 or sparse" : " or bf16"
	);
	return false;
}

/* How long it runs, and how often it looks. */
static void set_extent(struct train_options *options, int option, double value) {
	switch (option) {
	case OPT_STEPS:
		options->steps = (uint64_t)value;
		break;
	case OPT_SECONDS:
		options->seconds = value;
		break;
	case OPT_FIRST:
		options->first_step = (uint64_t)value;
		break;
	case OPT_MEMORY:
		options->memory_mb = (uint32_t)value;
		break;
	case OPT_JOIN:
		options->join_ms = (uint32_t)value;
		break;
	case OPT_GRACE:
		options->grace = value;
		break;
	case OPT_EVERY:
		options->every_ms = (uint32_t)value;
		break;
	case OPT_TARGET:
		options->target = value;
		break;
	case OPT_COMMITS:
		options->target_commits = (uint64_t)value;
		break;
	default:
		break;
	}
}

static void set_number(struct train_options *options, int option, double value) {
	switch (option) {
	case OPT_STRAGGLING:
		options->stragglers = value;
		break;
	case OPT_LABELS:
		options->labels = (uint32_t)value;
		break;
	case OPT_BATCH:
		options->batch = (uint32_t)value;
		break;
	case OPT_LR:
		options->rate = (float)value;
		break;
	case OPT_MOMENTUM:
		options->momentum = (float)value;
		break;
	case OPT_DECAY:
		options->decay = (float)value;
		break;
	case OPT_TAU:
		options->tau_max = (uint32_t)value;
		break;
	case OPT_DIV:
		options->div_max = (float)value;
		break;
	case OPT_LOCAL_STEPS:
		options->local_steps = (uint32_t)value;
		break;
	case OPT_FILTER:
		options->filtered = true;
		options->filter = (float)value;
		break;
	case OPT_FILTER_BLOCK:
		options->filter_block = (uint32_t)value;
		break;
	case OPT_FILTER_FLUSH:
		options->filter_flush = (uint32_t)value;
		break;
	case OPT_EVAL:
		options->eval_every = (uint32_t)value;
		break;
	case OPT_SEED:
		options->seed = (uint64_t)value;
		break;
	case OPT_COMPUTE:
		options->compute_ms = value;
		break;
	case OPT_INFLIGHT:
		options->inflight = (uint32_t)value;
		break;
	default:
		set_extent(options, option, value);
		break;
	}
}

static bool set_other(struct train_options *options, int option, const char *text) {
	switch (option) {
	case OPT_DATA:
		options->data = text;
		break;
	case OPT_WRITE:
		options->write_data = text;
		break;
	case OPT_MODEL:
		options->model = text;
		break;
	case OPT_FEDERATED:
		options->is_federated = true;
		return train_parse_federated(&options->federated, text);
	case OPT_SCHEDULE:
		options->schedule = text;
		break;
	case OPT_JSON:
		options->json = text;
		break;
	case OPT_LOSS_LOG:
		options->loss_log = text;
		break;
	case OPT_SYNC:
		return parse_sync(options, text);
	case OPT_STALENESS:
		return parse_staleness(options, text);
	case OPT_PAYLOAD:
		options->sparse = strcmp(text, "sparse") == 0;
		return options->sparse || parse_payload("payload", 4, text, &options->payload);
	case OPT_PULL_PAYLOAD:
		return parse_payload("pull-payload", 3, text, &options->pull_payload);
	case OPT_SHARDS:
		options->live = strcmp(text, "live") == 0;
		if (options->live || strcmp(text, "rank") == 0)
			return true;
		(void)train_fail(EX_USAGE, "shards: '%.32s' is not rank or live", text);
		return false;
	case OPT_SCALE:
		return parse_scale(options, text);
	case OPT_ADMM:
		return train_parse_admm(options, text);
	case OPT_SYNCHRONOUS:
		options->synchronous = true;
		break;
	case OPT_QUIET:
		options->quiet = true;
		break;
	case OPT_LOG_JSON:
		train_log_json();
		break;
	case OPT_LOCAL:
		options->local = true;
		break;
	case OPT_EVALUATE:
		options->evaluate = true;
		break;
	default:
		break;
	}
	return true;
}

static int check(const struct train_options *options) {
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

int train_parse(int argc, char **argv, struct train_options *options) {
	const char *grace = getenv("HEDDLE_GRACE");
	double value = 0.0;
	int option;

	*options = (struct train_options){
		.data = "digits",
		.model = "softmax",
		.batch = 32,
		.rate = 0.1f,
		.tau_max = 16,
		.staleness_c = 1.0f,
		.seed = 1,
		.inflight = 2,
		.local_steps = 1,
		.join_ms = 30000,
		.every_ms = 500,
		.target_commits = 1,
		.evaluate = getenv("HEDDLE_OBSERVER") != NULL,
	};
	if (grace && *grace && !parse_number(OPT_GRACE, grace, &options->grace))
		return EX_USAGE;
	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (option == OPT_HELP || option == OPT_VERSION) {
			(void)fputs(option == OPT_HELP ? help : "heddle-train ", stdout);
			(void)puts(option == OPT_HELP ? "" : heddle_version_text());
			return EX_OK;
		}
		if (option == '?')
			return EX_USAGE;
		if (!parse_number(option, optarg, &value))
			return EX_USAGE;
		set_number(options, option, value);
		if (!set_other(options, option, optarg))
			return EX_USAGE;
	}
	if (optind < argc)
		return train_fail(EX_USAGE, "'%.64s': not an option", argv[optind]);
	if (options->admm > 0.0f)
		options->inflight
			= 1; /* the next steps begin with what became of the last update */
	return check(options);
}
