/* SPDX-License-Identifier: BSD-3-Clause */
/* What elastic plan and elastic fit found, as text and as JSON. */
#include "shell_plan.h"

#include <math.h>
#include <string.h>

#define HOUR_S 3600.0 /* that the owner's prices and bids are for */

static const char *const fails_names[] = {
	[HD_ELASTIC_FAILS_NONE] = "",
	[HD_ELASTIC_FAILS_ERROR] = "error",
	[HD_ELASTIC_FAILS_ITERATIONS] = "iterations",
	[HD_ELASTIC_FAILS_DEADLINE] = "deadline",
	[HD_ELASTIC_FAILS_WAY] = "sync",
};

static const struct hd_elastic_plan *best_of(const struct shell_plan *found) {
	return found->best < 0 ? NULL : &found->plans[found->best];
}

/* --- text --- */

/* "8" or "4+4": with the high bid and with the low one; or "2..16". */
static void workers_text(const struct hd_elastic_plan *p, char *text, size_t bytes) {
	if (p->first_iterations > 0)
		(void)snprintf(text, bytes, "%u, %u", p->first_n, p->n);
	else if (p->way == HD_ELASTIC_WAY_GROWTH && p->n_high < p->n)
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
		hd_elastic_way_names[p->way],
		workers,
		p->iterations,
		bids,
		p->error,
		p->seconds,
		p->cost,
		p->worker_s);
}

/* dynamic plans by itself: it is told what plan was told. Prices of the owner are for an hour, as they are here by
 * default; a trace is not of its words. */
static void print_dynamic_words(const struct shell_plan *f) {
	const struct hd_elastic_task *task = f->task;
	const bool told = strncmp(f->price, "trace:", 6) != 0 && f->price_s >= HOUR_S
		&& f->price_s <= HOUR_S && task->pace.count > 0;

	(void
	)printf("policy=dynamic a=%.10g b=%.10g beta=%.12g epsilon=%.6g deadline=%.6g n_max=%u",
		task->model.a,
		task->model.b,
		task->model.beta,
		task->epsilon,
		task->deadline_s,
		task->n_max);
	for (uint32_t i = 0; told && i < task->pace.count; i++)
		(void
		)printf("%s%u:%.6g", i ? "," : " step_s=", task->pace.n[i], task->pace.step_s[i]);
	if (told)
		(void)printf(" price=%s", f->price);
	else
		(void)printf(" step_s=... price=... (of an hour)");
}

/* What `elastic set JOB` takes for this plan. */
static void print_words(const struct shell_plan *f, const struct hd_elastic_plan *p) {
	(void)printf("\nheddlectl elastic set JOB ");
	switch (p->way) {
	case HD_ELASTIC_WAY_DYNAMIC:
		print_dynamic_words(f);
		break;
	case HD_ELASTIC_WAY_ONE_BID:
		(void
		)printf("policy=one-bid n=%u bid=%.10g iterations=%u",
			p->n,
			p->bid * HOUR_S,
			p->iterations);
		break;
	case HD_ELASTIC_WAY_TWO_BID:
		(void
		)printf("policy=two-bid n=%u n_high=%u bid=%.10g bid_low=%.10g iterations=%u",
			p->n,
			p->n_high,
			p->bid * HOUR_S,
			p->bid_low * HOUR_S,
			p->iterations);
		break;
	case HD_ELASTIC_WAY_PREEMPTIBLE:
		(void)printf("policy=preemptible n=%u iterations=%u", p->n, p->iterations);
		break;
	case HD_ELASTIC_WAY_GROWTH:
		(void
		)printf("policy=growth n=%u eta=%.10g n_max=%u", p->n_high, p->eta, f->task->n_max);
		break;
	case HD_ELASTIC_WAY_FIXED:
	case HD_ELASTIC_WAYS:
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
			hd_elastic_way_names[f->plans[i].way],
			why);
	}
	if (f->closed)
		(void
		)printf("\nworker-steps alone, closed form: %.0f workers for %u steps (J~ = %.6g)\n",
			f->closed->n,
			f->closed->iterations,
			f->closed->stationary);
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

/* null: no such number. */
static void set_real(json_t *row, const char *key, double value, bool there) {
	json_object_set_new(row, key, there && isfinite(value) ? json_real(value) : json_null());
}

static void set_whole(json_t *row, const char *key, uint32_t value, bool there) {
	json_object_set_new(row, key, there ? json_integer(value) : json_null());
}

static json_t *row_json(const struct shell_plan *f, int i) {
	const struct hd_elastic_plan *p = &f->plans[i];
	const bool fails = p->fails != HD_ELASTIC_FAILS_NONE, bids = p->bid >= 0;
	const bool staged = p->first_iterations > 0;
	json_t *row = json_object();
	char why[256];

	hd_elastic_why(p, best_of(f), why, sizeof why);
	json_object_set_new(row, "policy", json_string(hd_elastic_way_names[p->way]));
	json_object_set_new(row, "chosen", json_boolean(i == f->best));
	json_object_set_new(row, "feasible", json_boolean(!fails));
	set_whole(row, "workers", p->n, true);
	set_whole(row, "workers_high", p->n_high, true);
	set_whole(row, "iterations", p->iterations, true);
	set_real(row, "bid", p->bid * f->price_s, bids);
	set_real(row, "bid_low", p->bid_low * f->price_s, bids);
	set_real(row, "gamma", p->gamma, true);
	set_real(row, "inverse", p->inverse, true);
	set_real(row, "error", p->error, true);
	set_real(row, "expected_s", p->seconds, true);
	set_real(row, "cost", p->cost, true);
	set_real(row, "worker_s", p->worker_s, true);
	set_real(row, "eta", p->eta, p->way == HD_ELASTIC_WAY_GROWTH);
	set_whole(row, "first_workers", p->first_n, staged);
	set_whole(row, "first_iterations", p->first_iterations, staged);
	set_real(row, "first_bid", p->first_bid * f->price_s, staged);
	set_real(row, "first_s", p->first_s, staged);
	set_real(row, "first_error", p->first_error, staged);
	json_object_set_new(row, "fails", json_string(fails_names[p->fails]));
	set_real(row, "reached", p->reached, fails);
	set_real(row, "allowed", p->allowed, fails);
	json_object_set_new(row, "why", json_string(why));
	return row;
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

	json_object_set_new(document, "table", json_string("elastic-plan"));
	json_object_set_new(
		document,
		"chosen",
		f->best >= 0 ? json_string(hd_elastic_way_names[f->plans[f->best].way]) :
			       json_null()
	);
	set_real(document, "epsilon", f->task->epsilon, true);
	set_real(document, "deadline_s", f->task->deadline_s, true);
	set_real(document, "a", f->task->model.a, true);
	set_real(document, "b", f->task->model.b, true);
	set_real(document, "beta", f->task->model.beta, true);
	set_whole(
		document,
		"closed_workers",
		f->closed ? (uint32_t)fmin(f->closed->n, 4e9) : 0,
		f->closed != NULL
	);
	set_whole(
		document,
		"closed_iterations",
		f->closed ? f->closed->iterations : 0,
		f->closed != NULL
	);
	for (int i = 0; i < f->count; i++)
		json_array_append_new(rows, row_json(f, i));
	put_document(document, rows);
}

void shell_fit_json(const struct hd_elastic_fit *fit) {
	json_t *document = json_object(), *rows = json_array();

	json_object_set_new(document, "table", json_string("elastic-fit"));
	set_real(document, "a", fit->model.a, true);
	set_real(document, "b", fit->model.b, true);
	set_real(document, "beta", fit->model.beta, true);
	set_real(document, "best", fit->best, true);
	json_object_set_new(document, "best_fitted", json_boolean(fit->best_fitted));
	set_real(document, "r2", fit->r2, true);
	set_real(document, "residual", fit->residual, true);
	set_whole(document, "lines", fit->rows, true);
	set_whole(document, "last_step", fit->last_step, true);
	set_real(document, "last_loss", fit->last_loss, true);
	for (uint32_t i = 0; i < fit->count; i++) {
		json_t *row = json_object();

		set_whole(row, "workers", fit->y[i], true);
		set_whole(row, "steps", fit->steps[i], true);
		set_real(row, "step_s", fit->step_s[i], true);
		set_real(row, "spread_s", fit->spread_s[i], true);
		json_array_append_new(rows, row);
	}
	put_document(document, rows);
}
