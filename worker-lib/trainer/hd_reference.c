/* SPDX-License-Identifier: BSD-3-Clause */
/* Rounds of FedProx and FedAvg in double precision: for comparison with the fabric's rounds. */
#include "hd_federated.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FEATURES HD_SYNTHETIC_FEATURES
#define CLASSES HD_SYNTHETIC_CLASSES
#define VALUES HD_REFERENCE_VALUES
#define DRAW_STEP UINT64_C(1000003)
#define EPOCH_SEED UINT64_C(777000)
#define CLIENT_STEP UINT64_C(1009)
#define ORDER_STEP UINT64_C(2654435761)

uint64_t hd_reference_order(uint32_t round, uint32_t client, uint32_t epoch) {
	return (round * DRAW_STEP + client * CLIENT_STEP + epoch) * ORDER_STEP;
}

uint32_t hd_reference_stragglers(double share, uint32_t clients) {
	return clients - (uint32_t)nearbyint((double)clients * (1 - share));
}

uint32_t hd_reference_epochs(uint32_t epochs, uint32_t round, uint32_t place) {
	struct hd_split split = {EPOCH_SEED + round};
	uint32_t drawn = 0;

	for (uint32_t i = 0; i <= place; i++)
		drawn = 1 + hd_split_below(&split, epochs - 1);
	return drawn;
}

void hd_reference_draw(
	const struct hd_reference_how *how,
	uint32_t round,
	uint32_t present,
	uint32_t *client,
	uint32_t *epochs
) {
	uint32_t order[HD_CLIENTS_MAX];
	uint32_t slow = hd_reference_stragglers(how->stragglers, how->clients);

	hd_split_permutation(order, present, DRAW_STEP * ((uint64_t)round + 1));
	for (uint32_t i = 0; i < how->clients && i < present; i++) {
		client[i] = order[i];
		epochs[i] = i < slow ? hd_reference_epochs(how->epochs, round, i) : how->epochs;
	}
}

/* Probabilities of the classes; returns the loss for the label. */
static double predict(const double *w, const double *x, uint8_t label, double *p) {
	double top, sum = 0;

	for (int c = 0; c < CLASSES; c++)
		p[c] = 0;
	for (int j = 0; j < FEATURES; j++)
		for (int c = 0; c < CLASSES; c++)
			p[c] += x[j] * w[j * CLASSES + c];
	for (int c = 0; c < CLASSES; c++)
		p[c] += w[FEATURES * CLASSES + c];
	top = p[0];
	for (int c = 1; c < CLASSES; c++)
		top = p[c] > top ? p[c] : top;
	for (int c = 0; c < CLASSES; c++) {
		p[c] = exp(p[c] - top);
		sum += p[c];
	}
	for (int c = 0; c < CLASSES; c++)
		p[c] /= sum;
	return -log(fmax(p[label], 1e-300));
}

/* Adds the gradient of one row's loss; returns the loss. */
static double add_gradient(const double *w, const double *x, uint8_t label, double *g) {
	double p[CLASSES];
	double loss = predict(w, x, label, p);

	p[label] -= 1;
	for (int j = 0; j < FEATURES; j++)
		for (int c = 0; c < CLASSES; c++)
			g[j * CLASSES + c] += x[j] * p[c];
	for (int c = 0; c < CLASSES; c++)
		g[FEATURES * CLASSES + c] += p[c];
	return loss;
}

/* From w_t, with equal batches except the last of an epoch. */
static void train_client(
	const struct hd_reference *reference,
	uint32_t client,
	uint32_t epochs,
	uint32_t *order,
	double *w
) {
	const struct hd_synthetic *data = reference->data;
	const struct hd_reference_how *how = &reference->how;
	uint32_t rows = data->train[client], first = data->first[client];
	double g[VALUES];

	memcpy(w, reference->w, sizeof reference->w);
	for (uint32_t e = 0; e < epochs; e++) {
		hd_split_permutation(order, rows, hd_reference_order(reference->round, client, e));
		for (uint32_t at = 0; at < rows; at += how->batch) {
			uint32_t count = rows - at < how->batch ? rows - at : how->batch;

			memset(g, 0, sizeof g);
			for (uint32_t i = at; i < at + count; i++)
				(void)add_gradient(
					w,
					data->x + (size_t)(first + order[i]) * FEATURES,
					data->y[first + order[i]],
					g
				);
			for (int v = 0; v < VALUES; v++)
				w[v] -= how->rate
					* (g[v] / count + how->mu * (w[v] - reference->w[v]));
		}
	}
}

void hd_reference_init(
	struct hd_reference *reference,
	const struct hd_synthetic *data,
	const struct hd_reference_how *how
) {
	*reference = (struct hd_reference){.how = *how, .data = data};
}

int hd_reference_step(struct hd_reference *reference) {
	const struct hd_reference_how *how = &reference->how;
	uint32_t client[HD_SYNTHETIC_CLIENTS], epochs[HD_SYNTHETIC_CLIENTS];
	double sum[VALUES] = {0}, w[VALUES], weights = 0;
	uint32_t *order = malloc(sizeof *order * reference->data->first[HD_SYNTHETIC_CLIENTS]);

	if (!order)
		return -ENOMEM;
	hd_reference_draw(how, reference->round, HD_SYNTHETIC_CLIENTS, client, epochs);
	for (uint32_t i = 0; i < how->clients; i++) {
		double weight = reference->data->train[client[i]];

		if (how->drop && epochs[i] < how->epochs)
			continue;
		train_client(reference, client[i], epochs[i], order, w);
		for (int v = 0; v < VALUES; v++)
			sum[v] += weight * w[v];
		weights += weight;
	}
	free(order);
	if (weights <= 0)
		return -ERANGE;
	for (int v = 0; v < VALUES; v++)
		reference->w[v] = sum[v] / weights;
	reference->round++;
	return 0;
}

/* Of one client; g gets its mean gradient. */
static double client_loss(const struct hd_reference *reference, uint32_t client, double g[VALUES]) {
	const struct hd_synthetic *data = reference->data;
	uint32_t rows = data->train[client];
	double loss = 0;

	memset(g, 0, sizeof(double[VALUES]));
	for (uint32_t i = data->first[client]; i < data->first[client] + rows; i++)
		loss += add_gradient(reference->w, data->x + (size_t)i * FEATURES, data->y[i], g);
	for (int v = 0; v < VALUES; v++)
		g[v] /= rows;
	return loss;
}

static uint32_t test_right(const struct hd_reference *reference, uint32_t client, uint32_t *rows) {
	const struct hd_synthetic *data = reference->data;
	uint32_t right = 0;
	double p[CLASSES];

	for (uint32_t i = data->first[client] + data->train[client]; i < data->first[client + 1];
	     i++) {
		int best = 0;

		(void)predict(reference->w, data->x + (size_t)i * FEATURES, 0, p);
		for (int c = 1; c < CLASSES; c++)
			best = p[c] > p[best] ? c : best;
		right += best == data->y[i];
		*rows += 1;
	}
	return right;
}

void hd_reference_evaluate(const struct hd_reference *reference, struct hd_reference_state *state) {
	double g[HD_SYNTHETIC_CLIENTS][VALUES], mean[VALUES] = {0}, weights = 0;
	uint32_t right = 0, tests = 0;

	*state = (struct hd_reference_state){.loss = 0};
	for (uint32_t k = 0; k < HD_SYNTHETIC_CLIENTS; k++) {
		double weight = reference->data->train[k];

		state->loss += client_loss(reference, k, g[k]);
		for (int v = 0; v < VALUES; v++)
			mean[v] += weight * g[k][v];
		weights += weight;
		right += test_right(reference, k, &tests);
	}
	for (uint32_t k = 0; k < HD_SYNTHETIC_CLIENTS; k++)
		for (int v = 0; v < VALUES; v++) {
			double away = g[k][v] - mean[v] / weights;

			state->variance += away * away / HD_SYNTHETIC_CLIENTS;
		}
	state->loss /= weights;
	state->accuracy = tests > 0 ? (double)right / tests : 0;
}
