/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Models whose gradient touches few of their parameters, and their data: logistic regression on sparse rows, and
 * probabilistic matrix factorisation of ratings (Salakhutdinov and Mnih, NIPS 2007). They read rows in place, and the
 * cost of a step does not grow with the features. hd_trainer.h has the functions for all models.
 */
#ifndef HD_ROW_MODEL_H
#define HD_ROW_MODEL_H

#include "hd_trainer.h"

#define HD_RATINGS_MAX 50000000
#define HD_RATED_MAX 16777216 /* users and items together */
#define HD_FACTORS_MAX 1024

/* Ratings (hd_ratings.c has the formats) as a sparse data set: a row's two features are its user (below `users`) and
 * its item, its target the rating. like: NULL, or the training set, whose users and items are used (rows with others
 * are left out). Total; -EINVAL, -E2BIG, -ENOMEM with "line N: field: what (limit)" in error. */
int hd_ratings_decode(
	const char *text,
	size_t bytes,
	const struct hd_dataset *like,
	struct hd_dataset *dataset,
	char *error,
	size_t error_bytes
);

/*
 * Generated text, the same for the same words: "logistic[:ROWS,FEATURES,PER_ROW,SEED]" (8000,2000,20,1) in SVMlight's
 * format, with labels from a sparse true model, and features distributed as words are: few are in many rows;
 * "ratings[:USERS,ITEMS,RATINGS,SEED]" (200,300,20000,1) in the format of u.data, from a true model with 4 factors and
 * some noise. The last numbers may be omitted. The caller frees *text. *ratings: which of the two it is. -EINVAL with a
 * text and the limit in error, -ENOMEM.
 */
int hd_generate(
	const char *words,
	char **text,
	size_t *bytes,
	bool *ratings,
	char *error,
	size_t error_bytes
);

/*
 *   "logistic"     z = b + w x, two classes; loss: the mean of ln(1 + exp(-+z)).           features + 1 values
 *   "pmf:K[,REG]"  r = mean + p_user . q_item; loss: the mean of (r - rating)^2, and the gradient has that of
 *                  REG (|p|^2 + |q|^2) of the batch's rows (REG: 0).                        features x K values
 */
struct hd_row_model {
	uint32_t factors; /* 0: logistic */
	float regularization, mean;
	uint32_t features, users;
	struct hd_tensor tensors[2];
	uint64_t values;
};
/* True when the text names one of them. */
bool hd_row_model_is(const char *text);
/* 0, or -EINVAL with a text and the limit in error. */
int hd_row_model_init(
	struct hd_row_model *model,
	const char *text,
	const struct hd_dataset *like,
	char *error,
	size_t error_bytes
);
/* Gradient (all values) and mean loss of these rows. */
double hd_row_model_gradient(
	const struct hd_row_model *model,
	const float *params,
	const struct hd_dataset *dataset,
	const uint32_t *rows,
	uint32_t count,
	float *grad
);
/* Accuracy of ratings: the share with an error of at most a half. */
void hd_row_model_evaluate(
	const struct hd_row_model *model,
	const float *params,
	const struct hd_dataset *dataset,
	double *accuracy,
	double *loss
);

#endif
