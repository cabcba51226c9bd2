/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to heddlectl: the shell's own JSON formats: elastic plan and fit, check, and the answer to a command. Their
 * schema is printed from these lists, as that of the programs' tables is. */
#ifndef SHELL_SHAPES_H
#define SHELL_SHAPES_H

#include "hd_row_shape.h"

#include <jansson.h>

/* clang-format off */
#define ELASTIC_PLAN_HEAD(F, row) \
	F(row, chosen, TEXT_OR_NULL, "policy chosen; null: none meets error and deadline") \
	F(row, epsilon, REAL_OR_NULL, "target error") \
	F(row, deadline_s, REAL_OR_NULL, "deadline, in seconds") \
	F(row, a, REAL_OR_NULL, "error before the first step") \
	F(row, b, REAL_OR_NULL, "noise of one worker's update") \
	F(row, beta, REAL_OR_NULL, "factor by which a step multiplies the error") \
	F(row, closed_workers, COUNT_OR_NULL, \
		"number of workers by the closed form for the least worker-steps; null: " \
		"infeasible, or not requested") \
	F(row, closed_iterations, COUNT_OR_NULL, "steps by the closed form; null: infeasible, or not requested")
/* clang-format on */

/* clang-format off */
#define ELASTIC_PLAN(F, row) \
	F(row, policy, TEXT, "fixed, one-bid, two-bid, preemptible, growth or dynamic") \
	F(row, chosen, BOOL, "the cheapest plan that meets error and deadline") \
	F(row, feasible, BOOL, "whether it meets error and deadline") \
	F(row, workers, COUNT, "number of workers; growth: at the end") \
	F(row, workers_high, COUNT, "workers with the high bid; growth: at the beginning") \
	F(row, iterations, COUNT, "steps of all stages together") \
	F(row, bid, REAL_OR_NULL, "bid for price_s seconds of a worker; null: none") \
	F(row, bid_low, REAL_OR_NULL, "bid of the other workers, for price_s seconds; null: none") \
	F(row, gamma, REAL_OR_NULL, "share of the steps in which all workers take part") \
	F(row, inverse, REAL_OR_NULL, "E[1/y] in the last stage; y: active workers") \
	F(row, error, REAL_OR_NULL, "bound on the error at the end") \
	F(row, expected_s, REAL_OR_NULL, "expected duration in seconds; null: never ends") \
	F(row, cost, REAL_OR_NULL, "expected cost, in the currency of the price") \
	F(row, worker_s, REAL_OR_NULL, "worker-seconds that are paid for") \
	F(row, eta, REAL_OR_NULL, "eta of growth: the factor on the number of workers in each step") \
	F(row, first_workers, COUNT_OR_NULL, "dynamic: number of workers in the first stage; null: none") \
	F(row, first_iterations, COUNT_OR_NULL, "dynamic: steps of the first stage") \
	F(row, first_bid, REAL_OR_NULL, "dynamic: bid of the first stage, for price_s seconds") \
	F(row, first_s, REAL_OR_NULL, "dynamic: expected duration of the first stage, in seconds") \
	F(row, first_error, REAL_OR_NULL, "dynamic: bound on the error at the end of the first stage") \
	F(row, fails, TEXT, "requirement that it fails: error, iterations, deadline or sync; empty: none") \
	F(row, reached, REAL_OR_NULL, "value that the plan reaches for this requirement") \
	F(row, allowed, REAL_OR_NULL, "value that the requirement allows") \
	F(row, why, TEXT, "why it was chosen or not")
/* clang-format on */

/* clang-format off */
#define ELASTIC_FIT_HEAD(F, row) \
	F(row, a, REAL_OR_NULL, "error before the first step") \
	F(row, b, REAL_OR_NULL, "noise of one worker's update") \
	F(row, beta, REAL_OR_NULL, "factor by which a step multiplies the error") \
	F(row, best, REAL_OR_NULL, "best loss assumed") \
	F(row, best_fitted, BOOL, "whether the best loss was fitted to the log") \
	F(row, r2, REAL_OR_NULL, "share of the variance of the losses that the model explains") \
	F(row, residual, REAL_OR_NULL, "root mean square of the residuals") \
	F(row, lines, COUNT, "lines of the log") \
	F(row, last_step, COUNT, "last step in the log") \
	F(row, last_loss, REAL_OR_NULL, "last loss in the log")
/* clang-format on */

/* clang-format off */
#define ELASTIC_FIT(F, row) \
	F(row, workers, COUNT, "number of active workers y") \
	F(row, steps, COUNT, "rows with this number of workers") \
	F(row, step_s, REAL_OR_NULL, "mean duration of a step, in seconds") \
	F(row, spread_s, REAL_OR_NULL, "standard deviation of the duration, in seconds")
/* clang-format on */

/* clang-format off */
#define CHECK_HEAD(F, row) \
	F(row, failed, COUNT, "checks that failed") \
	F(row, warned, COUNT, "checks that gave a warning")

#define CHECK(F, row) \
	F(row, check, TEXT, "name of the check") \
	F##_OF(row, status, "ok warn fail skip", "result; skip: the check could not be made") \
	F(row, found, TEXT, "what the check found") \
	F(row, advice, TEXT, "what to do; empty: nothing")

#define DONE(F, row) \
	F(row, done, TRUE, "whether the command was carried out") \
	F(row, affected, COUNT, "number of jobs, nodes or transfers changed") \
	F(row, text, TEXT, "result as a sentence")
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
	bool total; /* it has the number of its rows */
};
extern const struct shell_shape shell_plan_shape, shell_fit_shape, shell_check_shape,
	shell_done_shape;

/* Adds the fields of the shape from its struct. */
void shell_json_put(json_t *object, const struct hd_row_shape *shape, const void *row);
/* The same, appended to an array. */
void shell_json_append(json_t *rows, const struct hd_row_shape *shape, const void *row);

#endif
