/* SPDX-License-Identifier: BSD-3-Clause */
/* Generated data of clients that differ, and the division of existing data among clients. */
#include "hd_federated.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define USERS HD_SYNTHETIC_CLIENTS
#define FEATURES HD_SYNTHETIC_FEATURES
#define CLASSES HD_SYNTHETIC_CLASSES
#define SPREAD_MAX 100.0
#define CAP_MAX 1000000
#define SIZE_LEAST 50
#define TRAIN_SHARE 0.9
#define PARTS_MAX 3

/* --- division among clients ----------------------------------------------------------------- */

void hd_clients_fini(struct hd_clients *clients) {
	free(clients->start);
	free(clients->rows);
	memset(clients, 0, sizeof *clients);
}

static int clients_init(struct hd_clients *clients, uint32_t count, uint32_t rows) {
	*clients = (struct hd_clients){
		.count = count,
		.start = calloc((size_t)count + 1, sizeof *clients->start),
		.rows = malloc(((size_t)rows + 1) * sizeof *clients->rows),
	};
	if (clients->start && clients->rows)
		return 0;
	hd_clients_fini(clients);
	return -ENOMEM;
}

int hd_clients_even(const struct hd_dataset *dataset, uint32_t count, struct hd_clients *clients) {
	uint32_t at = 0;

	if (count == 0 || count > HD_CLIENTS_MAX || count > dataset->rows)
		return -EINVAL;
	if (clients_init(clients, count, dataset->rows) < 0)
		return -ENOMEM;
	for (uint32_t k = 0; k < count; k++) {
		for (uint32_t row = k; row < dataset->rows; row += count)
			clients->rows[at++] = row;
		clients->start[k + 1] = at;
	}
	return 0;
}

int hd_clients_merge(struct hd_clients *clients, uint32_t count) {
	struct hd_clients merged;
	uint32_t at = 0;

	if (count == 0 || count > clients->count)
		return -EINVAL;
	if (clients_init(&merged, count, clients->start[clients->count]) < 0)
		return -ENOMEM;
	for (uint32_t k = 0; k < count; k++) {
		for (uint32_t user = k; user < clients->count; user += count) {
			uint32_t rows = clients->start[user + 1] - clients->start[user];

			memcpy(merged.rows + at,
			       clients->rows + clients->start[user],
			       rows * sizeof *merged.rows);
			at += rows;
		}
		merged.start[k + 1] = at;
	}
	hd_clients_fini(clients);
	*clients = merged;
	return 0;
}

/* Rows by label, within a label in their order. */
static void rows_by_label(const struct hd_dataset *dataset, uint32_t *rows) {
	uint32_t at = 0;

	for (uint32_t label = 0; label < dataset->classes; label++)
		for (uint32_t row = 0; row < dataset->rows; row++)
			if (dataset->y[row] == label)
				rows[at++] = row;
}

/* Cuts `rows` into pieces of 1 to PARTS_MAX parts each; piece i ends at cut[i]. */
static void cut_pieces(uint32_t *cut, uint32_t pieces, uint32_t rows, struct hd_split *split) {
	uint64_t parts = 0, so_far = 0;

	for (uint32_t i = 0; i < pieces; i++) {
		cut[i] = 1 + hd_split_below(split, PARTS_MAX);
		parts += cut[i];
	}
	for (uint32_t i = 0; i < pieces; i++) {
		so_far += cut[i];
		cut[i] = (uint32_t)(so_far * rows / parts);
	}
}

int hd_clients_by_label(
	const struct hd_dataset *dataset,
	uint32_t count,
	uint32_t shards_each,
	uint64_t seed,
	struct hd_clients *clients
) {
	uint32_t pieces = count * shards_each, at = 0;
	struct hd_clients result;
	uint32_t *rows, *cut, *order;
	struct hd_split split = {seed};

	/* Each piece needs a row: PARTS_MAX times as many rows as pieces are enough. */
	if (count == 0 || count > HD_CLIENTS_MAX || shards_each == 0 || shards_each > 64
	    || dataset->rows / PARTS_MAX < pieces)
		return -EINVAL;
	rows = malloc((size_t)dataset->rows * sizeof *rows);
	cut = malloc((size_t)pieces * sizeof *cut);
	order = malloc((size_t)pieces * sizeof *order);
	if (!rows || !cut || !order || clients_init(&result, count, dataset->rows) < 0) {
		free(rows);
		free(cut);
		free(order);
		return -ENOMEM;
	}
	rows_by_label(dataset, rows);
	hd_split_permutation(order, pieces, hd_split_next(&split));
	cut_pieces(cut, pieces, dataset->rows, &split);
	for (uint32_t i = 0; i < pieces; i++) {
		uint32_t piece = order[i], first = piece > 0 ? cut[piece - 1] : 0;

		memcpy(result.rows + at, rows + first, (cut[piece] - first) * sizeof *rows);
		at += cut[piece] - first;
		result.start[i / shards_each + 1] = at;
	}
	free(rows);
	free(cut);
	free(order);
	*clients = result;
	return 0;
}

/* --- Synthetic(alpha, beta) ------------------------------------------------------------------ */

/* The values that are drawn before the rows, in this order. */
struct draw {
	uint32_t size[USERS];
	double model_mean[USERS], input_mean[USERS];
	double v[USERS][FEATURES];
	double w[FEATURES][CLASSES], b[CLASSES];
};

static void draw_model(struct draw *draw, double mean, struct hd_split *split) {
	for (int j = 0; j < FEATURES; j++)
		for (int c = 0; c < CLASSES; c++)
			draw->w[j][c] = mean + hd_split_normal(split);
	for (int c = 0; c < CLASSES; c++)
		draw->b[c] = mean + hd_split_normal(split);
}

static void
draw_clients(struct draw *draw, const struct hd_synthetic_how *how, struct hd_split *split) {
	for (int k = 0; k < USERS; k++) {
		double size = floor(exp(4 + 2 * hd_split_normal(split))) + SIZE_LEAST;

		draw->size[k] = (uint32_t)(size < (double)how->cap ? size : (double)how->cap);
	}
	if (how->iid) {
		draw_model(draw, 0, split);
		return;
	}
	for (int k = 0; k < USERS; k++)
		draw->model_mean[k] = how->alpha * hd_split_normal(split);
	for (int k = 0; k < USERS; k++)
		draw->input_mean[k] = how->beta * hd_split_normal(split);
	for (int k = 0; k < USERS; k++)
		for (int j = 0; j < FEATURES; j++)
			draw->v[k][j] = draw->input_mean[k] + hd_split_normal(split);
}

static uint8_t label_of(const struct draw *draw, const double *x) {
	double best = 0;
	int label = 0;

	for (int c = 0; c < CLASSES; c++) {
		double score = 0;

		for (int j = 0; j < FEATURES; j++)
			score += x[j] * draw->w[j][c];
		score += draw->b[c];
		if (c == 0 || score > best) {
			best = score;
			label = c;
		}
	}
	return (uint8_t)label;
}

static void draw_rows(
	struct hd_synthetic *data,
	const struct draw *draw,
	uint32_t client,
	struct hd_split *split
) {
	double spread[FEATURES];

	for (int j = 0; j < FEATURES; j++)
		spread[j] = sqrt(pow(j + 1, -1.2));
	for (uint32_t row = data->first[client]; row < data->first[client + 1]; row++) {
		double *x = data->x + (size_t)row * FEATURES;

		for (int j = 0; j < FEATURES; j++)
			x[j] = draw->v[client][j] + spread[j] * hd_split_normal(split);
		data->y[row] = label_of(draw, x);
	}
}

int hd_synthetic_create(const struct hd_synthetic_how *how, struct hd_synthetic *data) {
	struct hd_split split = {how->seed};
	struct hd_synthetic result = {.x = NULL};
	struct draw *draw;
	uint32_t rows = 0;

	if (!(how->alpha >= 0) || how->alpha > SPREAD_MAX || !(how->beta >= 0)
	    || how->beta > SPREAD_MAX || how->cap < SIZE_LEAST || how->cap > CAP_MAX)
		return -EINVAL;
	draw = calloc(1, sizeof *draw);
	if (!draw)
		return -ENOMEM;
	draw_clients(draw, how, &split);
	for (int k = 0; k < USERS; k++) {
		rows += draw->size[k];
		result.first[k + 1] = rows;
		result.train[k] = (uint32_t)(TRAIN_SHARE * (double)draw->size[k]);
	}
	result.x = malloc((size_t)rows * FEATURES * sizeof(double));
	result.y = malloc(rows);
	if (!result.x || !result.y) {
		hd_synthetic_fini(&result);
		free(draw);
		return -ENOMEM;
	}
	for (uint32_t k = 0; k < USERS; k++) {
		if (!how->iid)
			draw_model(draw, draw->model_mean[k], &split);
		draw_rows(&result, draw, k, &split);
	}
	free(draw);
	*data = result;
	return 0;
}

void hd_synthetic_fini(struct hd_synthetic *data) {
	free(data->x);
	free(data->y);
	memset(data, 0, sizeof *data);
}

static int part_init(struct hd_dataset *part, uint32_t rows) {
	*part = (struct hd_dataset){
		.features = FEATURES,
		.classes = CLASSES,
		.x = malloc((size_t)rows * FEATURES * sizeof(float)),
		.y = malloc(rows),
	};
	return part->x && part->y ? 0 : -ENOMEM;
}

static void part_add(struct hd_dataset *part, const struct hd_synthetic *data, uint32_t row) {
	float *x = part->x + (size_t)part->rows * FEATURES;

	for (int j = 0; j < FEATURES; j++)
		x[j] = (float)data->x[(size_t)row * FEATURES + (size_t)j];
	part->y[part->rows++] = data->y[row];
}

int hd_synthetic_split(
	const struct hd_synthetic *data,
	struct hd_dataset *train,
	struct hd_dataset *test,
	struct hd_clients *clients
) {
	struct hd_dataset one = {.rows = 0}, two = {.rows = 0};
	struct hd_clients whose = {.count = 0};
	uint32_t rows = data->first[USERS];

	if (part_init(&one, rows) < 0 || part_init(&two, rows) < 0
	    || clients_init(&whose, USERS, rows) < 0) {
		hd_dataset_fini(&one);
		hd_dataset_fini(&two);
		return -ENOMEM;
	}
	for (uint32_t k = 0; k < USERS; k++) {
		for (uint32_t row = data->first[k]; row < data->first[k + 1]; row++)
			part_add(row - data->first[k] < data->train[k] ? &one : &two, data, row);
		whose.start[k + 1] = one.rows;
	}
	for (uint32_t row = 0; row < one.rows; row++)
		whose.rows[row] = row;
	*train = one;
	*test = two;
	*clients = whose;
	return 0;
}
