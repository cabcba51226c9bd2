/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to heddlectl: the JSON that is its own, not of a program that it asks: elastic plan and fit, check, and the
 * answer to a command. Its schema is printed from these lists, as that of the programs' tables is. */
#ifndef SHELL_SHAPES_H
#define SHELL_SHAPES_H

#include "hd_row_shape.h"

#include <jansson.h>

/* clang-format off */
#define ELASTIC_PLAN_HEAD(F, row) \
	F(row, chosen, TEXT_OR_NULL, "policy; null: none meets error and deadline") \
	F(row, epsilon, REAL_OR_NULL, "error that is wanted") \
	F(row, deadline_s, REAL_OR_NULL, "seconds until then") \
	F(row, a, REAL_OR_NULL, "error before the first step") \
	F(row, b, REAL_OR_NULL, "noise of one worker's update") \
	F(row, beta, REAL_OR_NULL, "what a step leaves of the error") \
	F(row, closed_workers, COUNT_OR_NULL, \
		"of the closed form for worker-steps alone; null: infeasible, or not asked for") \
	F(row, closed_iterations, COUNT_OR_NULL, "its steps")
/* clang-format on */

/* clang-format off */
#define ELASTIC_PLAN(F, row) \
	F(row, policy, TEXT, "fixed, one-bid, two-bid, preemptible, growth or dynamic") \
	F(row, chosen, BOOL, "the cheapest that meets error and deadline") \
	F(row, feasible, BOOL, "it meets error and deadline") \
	F(row, workers, COUNT, "n; of growth: at the end") \
	F(row, workers_high, COUNT, "of them with the high bid; of growth: at the beginning") \
	F(row, iterations, COUNT, "steps, all stages together") \
	F(row, bid, REAL_OR_NULL, "for as many seconds as price_s said; null: none") \
	F(row, bid_low, REAL_OR_NULL, "of the other workers") \
	F(row, gamma, REAL_OR_NULL, "share of the steps with all workers") \
	F(row, inverse, REAL_OR_NULL, "E[1/y] of the last stage") \
	F(row, error, REAL_OR_NULL, "bound at the end") \
	F(row, expected_s, REAL_OR_NULL, "null: never") \
	F(row, cost, REAL_OR_NULL, "expected, in the price's currency") \
	F(row, worker_s, REAL_OR_NULL, "seconds of workers that are paid for") \
	F(row, eta, REAL_OR_NULL, "of growth: for each step") \
	F(row, first_workers, COUNT_OR_NULL, "of dynamic: the first stage; null: none") \
	F(row, first_iterations, COUNT_OR_NULL, "its steps") \
	F(row, first_bid, REAL_OR_NULL, "its bid") \
	F(row, first_s, REAL_OR_NULL, "its expected seconds") \
	F(row, first_error, REAL_OR_NULL, "bound at its end") \
	F(row, fails, TEXT, "error, iterations, deadline, sync; empty: none") \
	F(row, reached, REAL_OR_NULL, "by the bound that fails") \
	F(row, allowed, REAL_OR_NULL, "by it") \
	F(row, why, TEXT, "why it was chosen, or lost")
/* clang-format on */

/* clang-format off */
#define ELASTIC_FIT_HEAD(F, row) \
	F(row, a, REAL_OR_NULL, "error before the first step") \
	F(row, b, REAL_OR_NULL, "noise of one worker's update") \
	F(row, beta, REAL_OR_NULL, "what a step leaves of the error") \
	F(row, best, REAL_OR_NULL, "the best loss") \
	F(row, best_fitted, BOOL, "the log told it") \
	F(row, r2, REAL_OR_NULL, "share of the losses' variance that is explained") \
	F(row, residual, REAL_OR_NULL, "root of the mean square") \
	F(row, lines, COUNT, "of the log") \
	F(row, last_step, COUNT, "of the log") \
	F(row, last_loss, REAL_OR_NULL, "of the log")
/* clang-format on */

/* clang-format off */
#define ELASTIC_FIT(F, row) \
	F(row, workers, COUNT, "y") \
	F(row, steps, COUNT, "rows with as many") \
	F(row, step_s, REAL_OR_NULL, "mean") \
	F(row, spread_s, REAL_OR_NULL, "standard deviation")
/* clang-format on */

/* clang-format off */
#define CHECK_HEAD(F, row) \
	F(row, failed, COUNT, "checks that failed") \
	F(row, warned, COUNT, "checks that warn")

#define CHECK(F, row) \
	F(row, check, TEXT, "its name") \
	F##_OF(row, status, "ok warn fail skip", "what came of it; skip: it could not be made") \
	F(row, found, TEXT, "what it saw") \
	F(row, advice, TEXT, "what to do; empty: nothing")

#define DONE(F, row) \
	F(row, done, TRUE, "it was carried out") \
	F(row, affected, COUNT, "jobs, nodes or transfers that it changed") \
	F(row, text, TEXT, "the same as a sentence")
/* clang-format on */

HD_ROW_STRUCT(plan_head, ELASTIC_PLAN_HEAD);
HD_ROW_STRUCT(plan_row, ELASTIC_PLAN);
HD_ROW_STRUCT(fit_head, ELASTIC_FIT_HEAD);
HD_ROW_STRUCT(fit_row, ELASTIC_FIT);
HD_ROW_STRUCT(check_head, CHECK_HEAD);
HD_ROW_STRUCT(check_row, CHECK);
HD_ROW_STRUCT(done_head, DONE);

/* A document: the fields beside its rows, and those of each row; rows.name is its table. */
struct shell_shape {
	const struct hd_row_shape *head, *rows; /* rows may be NULL: there are none */
	bool total; /* it says how many rows it has */
};
extern const struct shell_shape shell_plan_shape, shell_fit_shape, shell_check_shape,
	shell_done_shape;

/* Adds the fields of the shape from its struct. */
void shell_json_put(json_t *object, const struct hd_row_shape *shape, const void *row);
/* The same, appended to an array. */
void shell_json_append(json_t *rows, const struct hd_row_shape *shape, const void *row);

#endif
