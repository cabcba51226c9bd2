/* SPDX-License-Identifier: BSD-3-Clause */
/* heddlectl elastic plan, elastic fit: from arguments and files, without a controller. */
#include "hd_elastic_text.h"
#include "hd_number.h"
#include "shell_plan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define FILE_BYTES_MAX (64u << 20)
#define BIG 1e30

static const char help_text[]
	= "usage: heddlectl elastic plan KEY=VALUE... [--json]\n"
	  "       heddlectl elastic fit FILE [best=X] [--json]\n"
	  "       heddlectl elastic show [JOB]; elastic set JOB KEY=VALUE... (ask the controller)\n"
	  "\n"
	  "plan: finds the number of workers, the number of steps and the bids that reach an error before a\n"
	  "deadline at the least cost; prints the alternatives with their reasons, or the requirement that fails.\n"
	  "\n"
	  "  epsilon=X         target error, above the best loss\n"
	  "  deadline=S        seconds until the target must be reached\n"
	  "  a=X b=X beta=X    the model: e_1 = A, e_{j+1} = beta e_j + B / y_j; or from a log:\n"
	  "  fit=FILE          a loss log, as of `fit`; also gives step_s; best=X: its best loss, if known\n"
	  "  step_s=N:S,...    R(n), seconds of a step with n workers; or one number for all\n"
	  "  rate=X            instead: mini-batches per second of a worker, exponential; fixed_s=S is added\n"
	  "  sync=MODE         full, first:N (N-sync) or batch:N (N-batch-sync); with rate=\n"
	  "  price=MODEL       a number, uniform:LOW:HIGH, gauss:MEAN:DEVIATION:LOW:HIGH or trace:FILE (CSV)\n"
	  "  price_s=S         seconds of a worker to which a price applies (3600)\n"
	  "  availability=Q    preemptible instances: probability that one is available (1)\n"
	  "  preempt_price=X   price of a preemptible instance (the mean price)\n"
	  "  n_max=N           greatest number of workers (64)\n"
	  "  iterations_max=J  greatest number of steps (1000000)\n"
	  "  n=N iterations=J [n_high=N]   plan only the bids, for these numbers\n"
	  "  bid=X [bid_low=X] evaluate these bids\n"
	  "\n"
	  "fit: A, B, beta and R(n) from a CSV of step, loss, y (workers) and seconds of the step.\n"
	  "\n"
	  "Exit codes: 64 wrong argument; 65 wrong file, or no plan meets error and deadline; 66 no such file.\n";

void shell_plan_help(FILE *file) {
	(void)fputs(help_text, file);
}

/* --- words --- */

enum key {
	A,
	B,
	BETA,
	EPSILON,
	DEADLINE,
	RATE,
	FIXED_S,
	PRICE_S,
	AVAILABILITY,
	PREEMPT_PRICE,
	N_MAX,
	ITERATIONS_MAX,
	N,
	N_HIGH,
	ITERATIONS,
	BID,
	BID_LOW,
	BEST,
	NUMBERS,
	FIT = NUMBERS,
	STEP_S,
	SYNC,
	PRICE,
	KEYS
};

static const struct {
	const char *name;
	double least, most, fallback; /* NAN: none */
	bool whole;
} keys[KEYS] = {
	[A] = {"a", 0, BIG, NAN, false},
	[B] = {"b", 0, BIG, NAN, false},
	[BETA] = {"beta", 0, 1, NAN, false},
	[EPSILON] = {"epsilon", 0, BIG, NAN, false},
	[DEADLINE] = {"deadline", 0, HD_ELASTIC_SECONDS_MAX, NAN, false},
	[RATE] = {"rate", 0, 1e12, NAN, false},
	[FIXED_S] = {"fixed_s", 0, HD_ELASTIC_SECONDS_MAX, 0, false},
	[PRICE_S] = {"price_s", 1e-3, 1e9, 3600, false},
	[AVAILABILITY] = {"availability", 0, 1, 1, false},
	[PREEMPT_PRICE] = {"preempt_price", 0, HD_ELASTIC_PRICE_MAX, NAN, false},
	[N_MAX] = {"n_max", 1, HD_WORKERS_MAX, 64, true},
	[ITERATIONS_MAX] = {"iterations_max", 1, HD_ELASTIC_ITERATIONS_MAX, 1000000, true},
	[N] = {"n", 1, HD_WORKERS_MAX, NAN, true},
	[N_HIGH] = {"n_high", 1, HD_WORKERS_MAX, NAN, true},
	[ITERATIONS] = {"iterations", 1, HD_ELASTIC_ITERATIONS_MAX, NAN, true},
	[BID] = {"bid", 0, HD_ELASTIC_PRICE_MAX, NAN, false},
	[BID_LOW] = {"bid_low", 0, HD_ELASTIC_PRICE_MAX, NAN, false},
	[BEST] = {"best", -BIG, BIG, NAN, false},
	[FIT] = {"fit", 0, 0, 0, false},
	[STEP_S] = {"step_s", 0, 0, 0, false},
	[SYNC] = {"sync", 0, 0, 0, false},
	[PRICE] = {"price", 0, 0, 0, false},
};

struct words {
	double number[NUMBERS]; /* NAN: not given, no fallback */
	const char *text[KEYS]; /* NULL: not given */
};

static int take_number(struct words *w, int key, const char *text) {
	double value;

	if (hd_number_real(text, keys[key].least, keys[key].most, &value)
	    || (keys[key].whole && floor(value) < value))
		return shell_error(
			EX_USAGE,
			"%s: '%s' (a %snumber from %g to %g)",
			keys[key].name,
			text,
			keys[key].whole ? "whole " : "",
			keys[key].least,
			keys[key].most
		);
	w->number[key] = value;
	return 0;
}

static int take_word(struct words *w, const char *word) {
	const size_t bytes = strcspn(word, "=");
	int key = 0;

	while (key < KEYS
	       && (strlen(keys[key].name) != bytes || memcmp(keys[key].name, word, bytes) != 0))
		key++;
	if (key == KEYS || word[bytes] != '=')
		return shell_error(EX_USAGE, "'%s': no such KEY=VALUE (elastic --help)", word);
	if (w->text[key])
		return shell_error(EX_USAGE, "%s: said twice", keys[key].name);
	w->text[key] = word + bytes + 1;
	return key < NUMBERS ? take_number(w, key, w->text[key]) : 0;
}

static int take_words(struct words *w, int count, char **words) {
	int status = 0;

	memset(w, 0, sizeof *w);
	for (int key = 0; key < NUMBERS; key++)
		w->number[key] = keys[key].fallback;
	for (int i = 0; i < count && !status; i++)
		status = take_word(w, words[i]);
	return status;
}

static int missing(const struct words *w, int key, const char *help) {
	return w->text[key] ? 0 : shell_error(EX_USAGE, "%s: missing (%s)", keys[key].name, help);
}

/* --- files --- */

/* The whole file; the caller's. 0 or a sysexits code (reported). */
static int read_file(const char *path, char **text, size_t *bytes) {
	FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
	char *all = NULL;
	size_t used = 0, room = 0;
	int status = 0;

	if (!file)
		return shell_error(EX_NOINPUT, "%s: %s", path, strerror(errno));
	while (!status && !feof(file) && !ferror(file)) {
		char *more;

		room = room ? room * 2 : 65536;
		more = realloc(all, room);
		if (!more) {
			status = shell_error(EX_OSERR, "%s: no memory", path);
			break;
		}
		all = more;
		used += fread(all + used, 1, room - used, file);
		if (used > FILE_BYTES_MAX)
			status = shell_error(
				EX_DATAERR, "%s: more than %u bytes", path, FILE_BYTES_MAX
			);
	}
	if (!status && ferror(file))
		status = shell_error(EX_IOERR, "%s: cannot be read", path);
	if (file != stdin)
		(void)fclose(file);
	if (status) {
		free(all);
		return status;
	}
	*text = all;
	*bytes = used;
	return 0;
}

static int fit_file(const char *path, double best, struct hd_elastic_fit *fit) {
	char error[256] = "no memory", *text = NULL;
	struct hd_elastic_text in = {.file = path, .error = error, .error_bytes = sizeof error};
	int status = read_file(path, &text, &in.bytes);

	if (status)
		return status;
	in.text = text;
	status = hd_elastic_fit(&in, best, fit);
	free(text);
	if (status)
		return shell_error(status == -ENOMEM ? EX_OSERR : EX_DATAERR, "%s", error);
	return 0;
}

static int trace_file(const char *path, double scale, struct hd_elastic_price *price) {
	char error[256] = "no memory", *text = NULL;
	struct hd_elastic_text in = {.file = path, .error = error, .error_bytes = sizeof error};
	int status = read_file(path, &text, &in.bytes);

	if (status)
		return status;
	in.text = text;
	status = hd_elastic_price_trace(&in, scale, price);
	free(text);
	if (status)
		return shell_error(status == -ENOMEM ? EX_OSERR : EX_DATAERR, "%s", error);
	return 0;
}

/* --- the task --- */

static int take_price(const struct words *w, struct hd_elastic_price *price) {
	const double scale = 1 / w->number[PRICE_S];
	const char *text = w->text[PRICE];
	char error[192];

	if (missing(w,
		    PRICE,
		    "a number, uniform:LOW:HIGH, gauss:MEAN:DEVIATION:LOW:HIGH or trace:FILE"))
		return EX_USAGE;
	if (strncmp(text, "trace:", 6) == 0)
		return trace_file(text + 6, scale, price);
	if (hd_elastic_text_price(text, scale, price, error, sizeof error))
		return shell_error(EX_USAGE, "%s", error);
	return 0;
}

static int take_sync(const char *text, struct hd_elastic_pace *pace) {
	double n;

	pace->sync = HD_ELASTIC_SYNC_FULL;
	if (!text || strcmp(text, "full") == 0)
		return 0;
	pace->sync
		= strncmp(text, "batch:", 6) == 0 ? HD_ELASTIC_SYNC_BATCH : HD_ELASTIC_SYNC_FIRST;
	if ((strncmp(text, "first:", 6) != 0 && pace->sync == HD_ELASTIC_SYNC_FIRST)
	    || hd_number_real(text + 6, 1, HD_WORKERS_MAX, &n) || floor(n) < n)
		return shell_error(
			EX_USAGE,
			"sync: '%s' (full, first:N or batch:N, N up to %d)",
			text,
			HD_WORKERS_MAX
		);
	pace->needed = (uint32_t)n;
	return 0;
}

/* A log gives the values that the arguments do not. */
static int take_fit(const struct words *w, struct hd_elastic_task *task) {
	struct hd_elastic_fit fit;
	int status;

	if (!w->text[FIT])
		return missing(w, A, "or fit=FILE") || missing(w, B, "or fit=FILE")
				|| missing(w, BETA, "or fit=FILE") ?
			EX_USAGE :
			0;
	status = fit_file(w->text[FIT], w->number[BEST], &fit);
	if (status)
		return status;
	task->model.a = w->text[A] ? task->model.a : fit.model.a;
	task->model.b = w->text[B] ? task->model.b : fit.model.b;
	task->model.beta = w->text[BETA] ? task->model.beta : fit.model.beta;
	task->pace.count = fit.count;
	for (uint32_t i = 0; i < fit.count; i++) {
		task->pace.n[i] = fit.y[i];
		task->pace.step_s[i] = fit.step_s[i];
	}
	return 0;
}

static int take_task(const struct words *w, struct hd_elastic_task *task) {
	char error[192];
	int status;

	*task = (struct hd_elastic_task){
		.model = {w->number[A], w->number[B], w->number[BETA]},
		.epsilon = w->number[EPSILON],
		.deadline_s = w->number[DEADLINE],
		.pace = {.rate = w->number[RATE], .fixed_s = w->number[FIXED_S]},
		.active = {.kind = HD_ACTIVE_BINOMIAL, .q = w->number[AVAILABILITY]},
		.preempt_price
		= w->text[PREEMPT_PRICE] ? w->number[PREEMPT_PRICE] / w->number[PRICE_S] : -1,
		.n_max = (uint32_t)w->number[N_MAX],
		.iterations_max = (uint32_t)w->number[ITERATIONS_MAX],
	};
	if (missing(w, EPSILON, "the target error") || missing(w, DEADLINE, "seconds"))
		return EX_USAGE;
	status = take_fit(w, task);
	if (!status && w->text[STEP_S]
	    && hd_elastic_text_pace(w->text[STEP_S], &task->pace, error, sizeof error))
		status = shell_error(EX_USAGE, "%s", error);
	if (!status && w->text[RATE])
		task->pace.count = 0;
	if (!status && !w->text[RATE] && task->pace.count == 0)
		status = shell_error(EX_USAGE, "step_s: missing (or rate=, or fit= with seconds)");
	if (!status && w->text[SYNC] && !w->text[RATE])
		status = shell_error(EX_USAGE, "sync: needs rate= (step_s= are measured)");
	if (!status)
		status = take_sync(w->text[SYNC], &task->pace);
	if (!status && hd_elastic_task_check(task, error, sizeof error))
		status = shell_error(EX_USAGE, "%s", error);
	return status;
}

/* --- plan --- */

static int check_bid(const struct words *w, int key, const struct hd_elastic_price *price) {
	const double low = price->low * w->number[PRICE_S];

	if (w->text[key] && w->number[key] < low * (1 - 1e-12))
		return shell_error(
			EX_USAGE,
			"%s: %g (at least %g, the market's least price: below it no worker ever runs)",
			keys[key].name,
			w->number[key],
			low
		);
	return 0;
}

static int check_given(const struct words *w, const struct hd_elastic_task *task) {
	if (!w->text[N] != !w->text[ITERATIONS])
		return shell_error(EX_USAGE, "n, iterations: both, or neither");
	if ((w->text[N_HIGH] || w->text[BID]) && !w->text[N])
		return shell_error(
			EX_USAGE, "n: missing (n_high and bid go with n and iterations)"
		);
	if (w->text[BID_LOW] && !(w->text[BID] && w->text[N_HIGH]))
		return shell_error(EX_USAGE, "bid_low: goes with n_high and bid");
	if (w->text[N] && w->number[N] > task->n_max)
		return shell_error(
			EX_USAGE, "n: %g (at most n_max, %u)", w->number[N], task->n_max
		);
	if (w->text[N_HIGH] && w->number[N_HIGH] > w->number[N])
		return shell_error(EX_USAGE, "n_high: %g (at most n)", w->number[N_HIGH]);
	if (w->text[BID_LOW] && w->number[BID_LOW] > w->number[BID])
		return shell_error(EX_USAGE, "bid_low: %g (at most bid)", w->number[BID_LOW]);
	if (check_bid(w, BID, task->price) || check_bid(w, BID_LOW, task->price))
		return EX_USAGE;
	return 0;
}

/* Plans for given workers and steps; returns how many. */
static int plan_given(
	const struct words *w,
	const struct hd_elastic_context *planner,
	struct hd_elastic_plan *plans
) {
	const uint32_t n = (uint32_t)w->number[N], j = (uint32_t)w->number[ITERATIONS];
	const double scale = 1 / w->number[PRICE_S], high = planner->task->price->high;
	int count = 0;

	plans[count++] = (struct hd_elastic_plan
	){.n = n, .n_high = n, .iterations = j, .bid = high, .bid_low = high};
	hd_elastic_evaluate(planner, &plans[0]);
	if (w->text[BID]) {
		const bool two = w->text[N_HIGH] && w->text[BID_LOW];

		plans[count] = (struct hd_elastic_plan){
			.kind = two ? HD_ELASTIC_KIND_TWO_BID : HD_ELASTIC_KIND_ONE_BID,
			.n = n,
			.n_high = two ? (uint32_t)w->number[N_HIGH] : n,
			.iterations = j,
			.bid = w->number[BID] * scale,
			.bid_low = (two ? w->number[BID_LOW] : w->number[BID]) * scale,
		};
		hd_elastic_evaluate(planner, &plans[count++]);
	} else {
		(void)hd_elastic_one_bid(planner, n, j, &plans[count++]);
		if (w->text[N_HIGH])
			(void)hd_elastic_two_bid(
				planner, n, (uint32_t)w->number[N_HIGH], j, &plans[count++]
			);
	}
	(void)hd_elastic_preemptible(planner, n, j, &plans[count++]);
	return count;
}

static int cheapest(const struct hd_elastic_plan *plans, int count) {
	int best = -1;

	for (int i = 0; i < count; i++)
		if (plans[i].fails == HD_ELASTIC_FAILS_NONE
		    && (best < 0 || plans[i].cost < plans[best].cost * (1 - 1e-12)))
			best = i;
	return best;
}

static int plan_task(
	const struct shell_context *context,
	const struct words *w,
	const struct hd_elastic_task *task
) {
	struct hd_elastic_context *planner = malloc(sizeof *planner);
	struct hd_elastic_plan plans[HD_ELASTIC_KINDS];
	struct hd_elastic_closed closed;
	struct shell_plan found
		= {.task = task,
		   .plans = plans,
		   .price = w->text[PRICE],
		   .price_s = w->number[PRICE_S]};

	if (!planner)
		return shell_error(EX_OSERR, "no memory");
	hd_elastic_context_init(planner, task);
	if (w->text[N]) {
		found.count = plan_given(w, planner, plans);
	} else {
		found.count = HD_ELASTIC_KINDS;
		(void)hd_elastic_scan_all(planner, plans);
		if (task->pace.sync == HD_ELASTIC_SYNC_FULL
		    && !hd_elastic_closed_in_time(task, &closed))
			found.closed = &closed;
	}
	free(planner);
	found.best = cheapest(plans, found.count);
	if (context->json)
		shell_plan_json(&found);
	else
		shell_plan_print(&found);
	if (fflush(stdout))
		return shell_error(EX_IOERR, "stdout: %s", strerror(errno));
	return found.best < 0 ? EX_DATAERR : 0;
}

int shell_run_elastic_plan(struct shell_context *context, int count, char **words) {
	struct hd_elastic_price price = {0};
	struct hd_elastic_task task;
	struct words w;
	int status = take_words(&w, count - 2, words + 2);

	if (!status)
		status = take_task(&w, &task);
	if (!status)
		status = take_price(&w, &price);
	if (!status) {
		task.price = &price;
		status = check_given(&w, &task);
	}
	if (!status)
		status = plan_task(context, &w, &task);
	hd_elastic_price_fini(&price);
	return status;
}

int shell_run_elastic_fit(struct shell_context *context, int count, char **words) {
	struct hd_elastic_fit fit;
	struct words w;
	int status = take_words(&w, count - 3, words + 3);

	for (int key = 0; key < KEYS && !status; key++)
		if (w.text[key] && key != BEST)
			status = shell_error(EX_USAGE, "%s: not of fit (best=X)", keys[key].name);
	if (!status)
		status = fit_file(words[2], w.number[BEST], &fit);
	if (status)
		return status;
	if (context->json)
		shell_fit_json(&fit);
	else
		shell_fit_print(&fit);
	return fflush(stdout) ? shell_error(EX_IOERR, "stdout: %s", strerror(errno)) : 0;
}
