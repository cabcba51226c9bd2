/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the results of elastic plan and elastic fit, as text and as JSON. */
#include "shell_plan.h"
#include "shell_shapes.h"

#include <math.h>
#include <string.h>

#define HOUR_S 3600.0 /* unit of the owner's prices and bids */

static const char *const fails_names[] = {
	[HD_ELASTIC_FAILS_NONE] = "",
	[HD_ELASTIC_FAILS_ERROR] = "error",
	[HD_ELASTIC_FAILS_ITERATIONS] = "iterations",
	[HD_ELASTIC_FAILS_DEADLINE] = "deadline",
	[HD_ELASTIC_FAILS_KIND] = "sync",
};

static const struct hd_elastic_plan *best_of(const struct shell_plan *found) {
	return found->best < 0 ? NULL : &found->plans[found->best];
}

/* --- text --- */

/* "8" or "4+4": with the high bid and with the low one; or "2..16". */
static void workers_text(const struct hd_elastic_plan *p, char *text, size_t bytes) {
	if (p->first_iterations > 0)
		(void)snprintf(text, bytes, "%u, %u", p->first_n, p->n);
	else if (p->kind == HD_ELASTIC_KIND_GROWTH && p->n_high < p->n)
		(void)snprintf(text, bytes, "%u..%u", p->n_high, p->n);
	else if (p->n_high < p->n)
		(void)snprintf(text, bytes, "%u+%u", p->n_high, p->n - p->n_high);
	else
		(void)snprintf(text, bytes, "%u", p->n);
}

static void
bids_text(const struct shell_plan *f, const struct hd_elastic_plan *p, char *text, size_t bytes) {
	if (p->bid < 0)
		(void)snprintf(text, bytes, "-");
	else if (p->first_iterations > 0)
		(void)snprintf(
			text, bytes, "%.6g, %.6g", p->first_bid * f->price_s, p->bid * f->price_s
		);
	else if (p->n_high < p->n)
		(void
		)snprintf(text, bytes, "%.6g+%.6g", p->bid * f->price_s, p->bid_low * f->price_s);
	else
		(void)snprintf(text, bytes, "%.6g", p->bid * f->price_s);
}

static void print_row(const struct shell_plan *f, int i) {
	const struct hd_elastic_plan *p = &f->plans[i];
	char workers[32], bids[48];

	workers_text(p, workers, sizeof workers);
	bids_text(f, p, bids, sizeof bids);
	(void
	)printf("%c %-11s  %-9s %10u  %-17s %9.5g %10.6g %10.6g %10.6g\n",
		i == f->best ? '*' : ' ',
		hd_elastic_kind_names[p->kind],
		workers,
		p->iterations,
		bids,
		p->error,
		p->seconds,
		p->cost,
		p->worker_s);
}

/* dynamic plans by itself: it gets the input of `plan`. Prices of the owner are for an hour, as they are here by
 * default; it does not accept a trace. */
static void print_dynamic_words(const struct shell_plan *f) {
	const struct hd_elastic_task *task = f->task;
	const bool shown = strncmp(f->price, "trace:", 6) != 0 && f->price_s >= HOUR_S
		&& f->price_s <= HOUR_S && task->pace.count > 0;

	(void
	)printf("policy=dynamic a=%.10g b=%.10g beta=%.12g epsilon=%.6g deadline=%.6g n_max=%u",
		task->model.a,
		task->model.b,
		task->model.beta,
		task->epsilon,
		task->deadline_s,
		task->n_max);
	for (uint32_t i = 0; shown && i < task->pace.count; i++)
		(void
		)printf("%s%u:%.6g", i ? "," : " step_s=", task->pace.n[i], task->pace.step_s[i]);
	if (shown)
		(void)printf(" price=%s", f->price);
	else
		(void)printf(" step_s=... price=... (of an hour)");
}

/* The words of `elastic set JOB` for this plan. */
static void print_words(const struct shell_plan *f, const struct hd_elastic_plan *p) {
	(void)printf("\nheddlectl elastic set JOB ");
	switch (p->kind) {
	case HD_ELASTIC_KIND_DYNAMIC:
		print_dynamic_words(f);
		break;
	case HD_ELASTIC_KIND_ONE_BID:
		(void
		)printf("policy=one-bid n=%u bid=%.10g iterations=%u",
			p->n,
			p->bid * HOUR_S,
			p->iterations);
		break;
	case HD_ELASTIC_KIND_TWO_BID:
		(void
		)printf("policy=two-bid n=%u n_high=%u bid=%.10g bid_low=%.10g iterations=%u",
			p->n,
			p->n_high,
			p->bid * HOUR_S,
			p->bid_low * HOUR_S,
			p->iterations);
		break;
	case HD_ELASTIC_KIND_PREEMPTIBLE:
		(void)printf("policy=preemptible n=%u iterations=%u", p->n, p->iterations);
		break;
	case HD_ELASTIC_KIND_GROWTH:
		(void
		)printf("policy=growth n=%u eta=%.10g n_max=%u", p->n_high, p->eta, f->task->n_max);
		break;
	case HD_ELASTIC_KIND_FIXED:
	case HD_ELASTIC_KINDS:
		(void)printf("policy=fixed n=%u", p->n);
		break;
	}
	(void)printf("\n");
}

void shell_plan_print(const struct shell_plan *f) {
	const struct hd_elastic_task *task = f->task;
	const struct hd_elastic_plan *best = best_of(f);
	char why[256];

	(void
	)printf("wanted: error <= %.6g in %.6g s; A = %.6g, B = %.6g, beta = %.8g; up to %u workers\n\n",
		task->epsilon,
		task->deadline_s,
		task->model.a,
		task->model.b,
		task->model.beta,
		task->n_max);
	(void
	)printf("  %-11s  %-9s %10s  %-17s %9s %10s %10s %10s\n",
		"policy",
		"workers",
		"iterations",
		"bid",
		"error",
		"seconds",
		"cost",
		"worker_s");
	for (int i = 0; i < f->count; i++)
		print_row(f, i);
	(void)printf("\n");
	for (int i = 0; i < f->count; i++) {
		hd_elastic_why(&f->plans[i], best, why, sizeof why);
		(void
		)printf("%c %-11s  %s\n",
			i == f->best ? '*' : ' ',
			hd_elastic_kind_names[f->plans[i].kind],
			why);
	}
	if (f->closed)
		(void
		)printf("\nworker-steps alone, closed form: %.0f workers for %u steps (J~ = %.6g%s)\n",
			f->closed->n,
			f->closed->iterations,
			f->closed->stationary,
			f->closed->iterations < floor(f->closed->stationary) ?
				", more than there is room for" :
				"");
	if (best)
		print_words(f, best);
	else
		(void)printf("\nno plan meets error and deadline\n");
}

void shell_fit_print(const struct hd_elastic_fit *fit) {
	(void
	)printf("A = %.6g, B = %.6g, beta = %.8g, best loss = %.6g (%s)\n",
		fit->model.a,
		fit->model.b,
		fit->model.beta,
		fit->best,
		fit->best_fitted ? "fitted" : "given: the workers never changed, or best= was said"
	);
	(void
	)printf("%u rows, r2 = %.4f, residual = %.4g; step %u: loss %.6g\n",
		fit->rows,
		fit->r2,
		fit->residual,
		fit->last_step,
		fit->last_loss);
	if (fit->count)
		(void)printf("\n%7s  %7s  %10s  %10s\n", "workers", "steps", "step_s", "spread_s");
	for (uint32_t i = 0; i < fit->count; i++)
		(void
		)printf("%7u  %7u  %10.6g  %10.4g\n",
			fit->y[i],
			fit->steps[i],
			fit->step_s[i],
			fit->spread_s[i]);
	(void
	)printf("\nfor plan: a=%.10g b=%.10g beta=%.12g",
		fit->model.a,
		fit->model.b,
		fit->model.beta);
	for (uint32_t i = 0; i < fit->count; i++)
		(void)printf("%s%u:%.6g", i ? "," : " step_s=", fit->y[i], fit->step_s[i]);
	(void)printf("\n");
}

/* --- JSON --- */

static double real_if(bool present, double value) {
	return present ? value : NAN;
}

static uint64_t count_if(bool present, uint32_t value) {
	return present ? value : HD_ROW_NONE;
}

static void append_plan(json_t *rows, const struct shell_plan *f, int i) {
	const struct hd_elastic_plan *p = &f->plans[i];
	const bool fails = p->fails != HD_ELASTIC_FAILS_NONE, bids = p->bid >= 0;
	const bool staged = p->first_iterations > 0;
	char why[256];

	hd_elastic_why(p, best_of(f), why, sizeof why);
	shell_json_append(
		rows,
		shell_plan_shape.rows,
		&(struct plan_row){
			.policy = hd_elastic_kind_names[p->kind],
			.chosen = i == f->best,
			.feasible = !fails,
			.workers = p->n,
			.workers_high = p->n_high,
			.iterations = p->iterations,
			.bid = real_if(bids, p->bid * f->price_s),
			.bid_low = real_if(bids, p->bid_low * f->price_s),
			.gamma = p->gamma,
			.inverse = p->inverse,
			.error = p->error,
			.expected_s = p->seconds,
			.cost = p->cost,
			.worker_s = p->worker_s,
			.eta = real_if(p->kind == HD_ELASTIC_KIND_GROWTH, p->eta),
			.first_workers = count_if(staged, p->first_n),
			.first_iterations = count_if(staged, p->first_iterations),
			.first_bid = real_if(staged, p->first_bid * f->price_s),
			.first_s = real_if(staged, p->first_s),
			.first_error = real_if(staged, p->first_error),
			.fails = fails_names[p->fails],
			.reached = real_if(fails, p->reached),
			.allowed = real_if(fails, p->allowed),
			.why = why,
		}
	);
}

static void put_document(json_t *document, json_t *rows) {
	json_object_set_new(document, "total", json_integer((json_int_t)json_array_size(rows)));
	json_object_set_new(document, "rows", rows);
	(void)json_dumpf(document, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
	(void)fputc('\n', stdout);
	json_decref(document);
}

void shell_plan_json(const struct shell_plan *f) {
	json_t *document = json_object(), *rows = json_array();
	const struct hd_elastic_closed *closed = f->closed;

	json_object_set_new(document, "table", json_string(shell_plan_shape.rows->name));
	shell_json_put(
		document,
		shell_plan_shape.head,
		&(struct plan_head){
			.chosen
			= f->best >= 0 ? hd_elastic_kind_names[f->plans[f->best].kind] : NULL,
			.epsilon = f->task->epsilon,
			.deadline_s = f->task->deadline_s,
			.a = f->task->model.a,
			.b = f->task->model.b,
			.beta = f->task->model.beta,
			.closed_workers = closed ? (uint32_t)fmin(closed->n, 4e9) : HD_ROW_NONE,
			.closed_iterations = closed ? closed->iterations : HD_ROW_NONE,
		}
	);
	for (int i = 0; i < f->count; i++)
		append_plan(rows, f, i);
	put_document(document, rows);
}

void shell_fit_json(const struct hd_elastic_fit *fit) {
	json_t *document = json_object(), *rows = json_array();

	json_object_set_new(document, "table", json_string(shell_fit_shape.rows->name));
	shell_json_put(
		document,
		shell_fit_shape.head,
		&(struct fit_head){
			.a = fit->model.a,
			.b = fit->model.b,
			.beta = fit->model.beta,
			.best = fit->best,
			.best_fitted = fit->best_fitted,
			.r2 = fit->r2,
			.residual = fit->residual,
			.lines = fit->rows,
			.last_step = fit->last_step,
			.last_loss = fit->last_loss,
		}
	);
	for (uint32_t i = 0; i < fit->count; i++)
		shell_json_append(
			rows,
			shell_fit_shape.rows,
			&(struct fit_row){
				.workers = fit->y[i],
				.steps = fit->steps[i],
				.step_s = fit->step_s[i],
				.spread_s = fit->spread_s[i],
			}
		);
	put_document(document, rows);
}
