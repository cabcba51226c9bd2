/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A federated client (docs/fedprox.md): drawn -> pull w_t -> epochs of proximal steps on its own rows -> push.
 *
 * With --stragglers the first clients of a round have time for some epochs only, by a function of the round: the same
 * clients and epochs as in the reference (hd_federated.h).
 */
#include "hd_federated.h"
#include "hd_number.h"
#include "train_summary.h"
#include "train_waits.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define PUSH_MS 5000
#define CLOSE_MS 5000
#define KEY_BYTES 200
#define PASSES_LEFT 3 /* another pass needs this many times its duration before the deadline */

/* --- the option ----------------------------------------------------------------------------- */

/* X, auto or auto:X. */
static bool take_mu(struct heddle_federated *f, const char *text) {
	char *end;

	f->mu_auto = strncmp(text, "auto", 4) == 0;
	if (f->mu_auto && text[4] == '\0')
		return true;
	text += f->mu_auto ? 5 : 0;
	f->mu = strtof(text, &end);
	return end != text && *end == '\0' && isfinite(f->mu) && f->mu >= 0;
}

/* 0, -1 when the key has no number, or an exit code. */
static int take_number(struct heddle_federated *f, const char *key, const char *text) {
	const struct {
		const char *key;
		uint32_t *value;
		uint32_t most;
	} numbers[] = {
		{"clients", &f->clients_per_round, HD_WORKERS_MAX},
		{"min", &f->min_clients, HD_WORKERS_MAX},
		{"available", &f->min_available, HD_WORKERS_MAX},
		{"deadline-ms", &f->round_deadline_ms, HD_ROUND_MS_MAX},
		{"wait-ms", &f->round_wait_ms, HD_ROUND_MS_MAX},
		{"epochs", &f->max_epochs, UINT16_MAX},
		{"seed", NULL, UINT32_MAX},
	};

	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
		uint64_t value;

		if (strcmp(key, numbers[i].key) != 0)
			continue;
		if (hd_number_whole(text, 0, numbers[i].most, &value) < 0)
			return train_fail(
				EX_USAGE,
				"--federated: %s: '%.32s' (a whole number from 0 to %u)",
				key,
				text,
				numbers[i].most
			);
		if (numbers[i].value)
			*numbers[i].value = (uint32_t)value;
		else
			f->seed = value;
		return 0;
	}
	return -1;
}

static bool take_word(struct heddle_federated *f, const char *key, const char *value) {
	if (strcmp(key, "mu") == 0)
		return take_mu(f, value);
	if (strcmp(key, "weighting") == 0) {
		f->weighting = strcmp(value, "uniform") == 0 ? HEDDLE_WEIGHTING_UNIFORM :
							       HEDDLE_WEIGHTING_SAMPLES;
		return f->weighting == HEDDLE_WEIGHTING_UNIFORM || strcmp(value, "samples") == 0;
	}
	if (strcmp(key, "stragglers") == 0) {
		f->drop_stragglers = strcmp(value, "drop") == 0;
		return f->drop_stragglers || strcmp(value, "accept") == 0;
	}
	if (strcmp(key, "late") == 0) {
		f->late = strcmp(value, "weight") == 0 ? HEDDLE_LATE_WEIGHT : HEDDLE_LATE_DROP;
		return f->late == HEDDLE_LATE_WEIGHT || strcmp(value, "drop") == 0;
	}
	return false;
}

static int take_part(struct heddle_federated *f, char *part) {
	char *equals = strchr(part, '=');
	int status = -1;

	if (equals) {
		*equals = '\0';
		status = take_number(f, part, equals + 1);
	}
	if (status >= 0 || (equals && take_word(f, part, equals + 1)))
		return status > 0 ? status : 0;
	return train_fail(
		EX_USAGE,
		"--federated: '%.32s%s%.32s' is not clients=, min=, available=, deadline-ms=, "
		"wait-ms=, epochs=, mu=X|auto[:X], weighting=samples|uniform, stragglers=accept|drop, "
		"late=drop|weight or seed=, within its limits",
		part,
		equals ? "=" : "",
		equals ? equals + 1 : ""
	);
}

int train_take_federated(void *values, const char *text) {
	struct train_options *options = values;
	char copy[KEY_BYTES], *rest = copy, *part;
	int status = 0;

	options->is_federated = true;
	options->federated = (struct heddle_federated)HEDDLE_FEDERATED_INIT;
	if (strlen(text) >= sizeof copy)
		return train_fail(EX_USAGE, "--federated: longer than %d bytes", KEY_BYTES - 1);
	memcpy(copy, text, strlen(text) + 1);
	while (status == 0 && (part = strsep(&rest, ",")) != NULL)
		status = take_part(&options->federated, part);
	return status;
}

/* --- rounds --------------------------------------------------------------------------------- */

struct client {
	struct train *train;
	struct heddle *fabric;
	struct train_summary summary;
	uint32_t number, rows; /* the client's index, and the number of its rows */
	const uint32_t *row;
	uint32_t *order;
	float *w, *grad;
	float *x; /* a minibatch; of a model by rows, `picked` lists them instead */
	uint8_t *y;
	uint32_t *picked;
	double *grad_w_t,
		*grad_w; /* means over all rows, at the start of the round and at the present w */
	double pass_s; /* duration of a pass */
	struct heddle_ticket
		*ticket[PUSHES_MAX]; /* they end with their round, late ones with another round */
};

/* The gradient of rows order[at .. at + count) at `params`, into grad. */
static double gradient(struct client *client, const float *params, uint32_t at, uint32_t count) {
	const struct hd_dataset *set = &client->train->train;
	struct hd_model *model = client->train->model;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t row = client->row[client->order[at + i]];

		client->picked[i] = row;
		if (client->x) {
			hd_dataset_row(set, row, client->x + (size_t)i * set->features);
			client->y[i] = set->y[row];
		}
	}
	return client->x ?
		hd_model_gradient(model, params, client->x, client->y, count, client->grad) :
		hd_model_gradient_rows(model, params, set, client->picked, count, client->grad);
}

static uint32_t batch_at(const struct client *client, uint32_t at) {
	uint32_t left = client->rows - at, batch = client->train->options.batch;

	return left < batch ? left : batch;
}

/* Mean loss of all rows at `params`; their mean gradient goes to `mean`. */
static double pass(struct client *client, const float *params, double *mean) {
	const uint64_t values = client->train->values;
	double sum = 0;

	memset(mean, 0, values * sizeof *mean);
	for (uint32_t i = 0; i < client->rows; i++)
		client->order[i] = i;
	for (uint32_t at = 0; at < client->rows; at += batch_at(client, at)) {
		uint32_t count = batch_at(client, at);
		double share = (double)count / client->rows;

		sum += share * gradient(client, params, at, count);
		for (uint64_t i = 0; i < values; i++)
			mean[i] += share * (double)client->grad[i];
	}
	return sum;
}

static double local_loss(struct client *client) {
	hd_ns begun = hd_compute_now();
	double loss = pass(client, client->train->params, client->grad_w_t);

	client->pass_s = (double)(hd_compute_now() - begun) * 1e-9;
	return loss;
}

/* It costs a pass over the rows; left out when that could make the update late. */
static float inexactness(struct client *client, const struct heddle_round *round) {
	const struct train *train = client->train;
	const struct hd_local_problem problem = {
		.values = train->values,
		.w_t = train->params,
		.w = client->w,
		.grad_w_t = client->grad_w_t,
		.grad_w = client->grad_w,
		.mu = (double)round->mu,
	};

	if (heddle_round_time_left_s(client->fabric, round) < PASSES_LEFT * client->pass_s)
		return -1;
	(void)pass(client, client->w, client->grad_w);
	return (float)hd_inexactness(&problem);
}

static bool counts_late(const struct client *client) {
	return client->train->options.federated.late == HEDDLE_LATE_WEIGHT;
}

/* False: the time is up. When late updates count, the first epoch is always done. */
static bool epoch(struct client *client, const struct heddle_round *round, uint32_t index) {
	bool may_stop = index > 0 || !counts_late(client);
	struct train *train = client->train;
	char error[HD_TEXT_BYTES_MAX];

	hd_split_permutation(
		client->order,
		client->rows,
		hd_reference_order(round->round - 1, client->number, index)
	);
	for (uint32_t at = 0; at < client->rows; at += batch_at(client, at)) {
		hd_ns begun = hd_compute_now();

		client->summary.loss_sum += gradient(client, client->w, at, batch_at(client, at));
		client->summary.steps++;
		(void)heddle_prox_apply(
			client->w,
			train->params,
			client->grad,
			train->values,
			train->options.rate,
			round->mu
		);
		(void)hd_compute_pad(&train->compute, begun, error, sizeof error);
		if (train_stop
		    || (may_stop && heddle_round_time_left_s(client->fabric, round) <= 0))
			return false;
	}
	return true;
}

static uint32_t epochs_of(const struct client *client, const struct heddle_round *round) {
	double share = client->train->options.stragglers;
	uint32_t slow = hd_reference_stragglers(share, round->clients);

	if (round->index >= slow || round->max_epochs < 2)
		return round->max_epochs;
	return hd_reference_epochs(round->max_epochs, round->round - 1, round->index);
}

/* Waits up to this time for the end of the update at this place, if there is one. */
static void take_result(struct client *client, uint32_t place, hd_ns wait) {
	struct heddle_status status = HEDDLE_STATUS_INIT;
	hd_ns end = hd_compute_now() + wait;

	if (!client->ticket[place])
		return;
	if (wait > 0)
		(void)train_wait(client->ticket[place], HEDDLE_WAIT_RELEASED, &end, &status);
	(void)heddle_ticket_test(client->ticket[place], &status);
	train_summary_push(&client->summary, &status);
	heddle_ticket_free(client->ticket[place]);
	client->ticket[place] = NULL;
}

/* A place for another update. A late update may itself wait for the round for which this client is drawn: it is waited
 * for only when there is no other place. */
static uint32_t free_place(struct client *client) {
	uint32_t place = 0;

	while (place < PUSHES_MAX && client->ticket[place]) {
		struct heddle_status status = HEDDLE_STATUS_INIT;

		if (heddle_ticket_test(client->ticket[place], &status) == 1 && status.released)
			take_result(client, place, 0);
		else
			place++;
	}
	if (place == PUSHES_MAX)
		take_result(client, --place, PUSH_MS * HD_MS);
	return place;
}

/* One round, from the model in params. An exit status. */
static int work(struct client *client, const struct heddle_round *round) {
	struct train *train = client->train;
	struct heddle_work work = HEDDLE_WORK_INIT;
	uint32_t epochs = epochs_of(client, round), place;
	struct heddle_ticket *ticket = NULL;
	hd_ns begun = hd_compute_now();
	double seconds;
	int rc;

	work.samples = client->rows;
	work.loss = local_loss(client);
	work.payload = train->options.payload;
	memcpy(client->w, train->params, train->values * sizeof(float));
	while (work.epochs < epochs && epoch(client, round, work.epochs))
		work.epochs++;
	if (train_stop
	    || (heddle_is_superseded(client->fabric, round->version) && !counts_late(client)))
		return EX_OK;
	work.gamma = inexactness(client, round);
	seconds = (double)(hd_compute_now() - begun) * 1e-9;
	place = free_place(client);
	rc = heddle_round_push_start(
		client->fabric, round, &work, train->params, client->w, &ticket
	);
	if (rc < 0)
		return train_heddle_error("push", rc);
	client->ticket[place] = ticket;
	client->summary.pushed++;
	if (work.gamma >= 0) {
		client->summary.gamma_sum += (double)work.gamma;
		client->summary.gamma_max = fmax(client->summary.gamma_max, (double)work.gamma);
		client->summary.gammas++;
	}
	/* The owner of the worker count uses the loss of the round's first model. */
	(void)heddle_report_step(
		client->fabric,
		client->summary.pushed,
		work.loss * client->rows,
		client->rows,
		seconds
	);
	return EX_OK;
}

static int loop(struct client *client) {
	struct train *train = client->train;
	struct heddle_round round = HEDDLE_ROUND_INIT;
	uint64_t rounds = 0, version = 0;
	int rc, status = EX_OK;

	while (status == EX_OK && !train_enough(train, rounds)) {
		rc = heddle_round_wait(client->fabric, &round, SLICE_MS);
		if (rc == -ETIMEDOUT)
			continue;
		if (rc == -ESHUTDOWN)
			break;
		if (rc == -ENODATA && rounds > 0) { /* the others have done their rounds */
			train_note("alone", "%s: no more rounds", heddle_last_error());
			break;
		}
		if (rc < 0)
			return train_heddle_error("round", rc);
		rc = train_pull(client->fabric, train->params, NULL, PUSH_MS, &version);
		if (rc < 0 && rc != -ETIMEDOUT && rc != -EIO)
			return train_heddle_error("pull", rc);
		if (rc != 0 || version != round.version)
			continue; /* that round is over: the next one comes */
		client->summary.delivered++;
		client->summary.version = HEDDLE_VERSION_COUNTER(version);
		status = work(client, &round);
		rounds++;
	}
	return status;
}

static int prepare(struct client *client) {
	struct train *train = client->train;
	const struct train_options *options = &train->options;
	int rc = train_deal_clients(
		train, (uint32_t)client->summary.rank, (uint32_t)heddle_world_size(client->fabric)
	);

	if (rc != EX_OK)
		return rc;
	client->number = (uint32_t)client->summary.rank;
	client->row = train->clients.rows + train->clients.start[client->number];
	client->rows
		= train->clients.start[client->number + 1] - train->clients.start[client->number];
	client->order = calloc(client->rows, sizeof(uint32_t));
	client->w = malloc(sizeof(float) * train->values);
	client->grad = malloc(sizeof(float) * train->values);
	client->grad_w_t = malloc(sizeof(double) * train->values);
	client->grad_w = malloc(sizeof(double) * train->values);
	client->picked = malloc(sizeof(uint32_t) * options->batch);
	if (!client->order || !client->w || !client->grad || !client->grad_w_t || !client->grad_w
	    || !client->picked)
		return train_fail(EX_OSERR, "no memory");
	if (hd_model_by_row(train->model))
		return EX_OK;
	client->x = malloc(sizeof(float) * options->batch * (size_t)train->train.features);
	client->y = malloc(options->batch);
	return client->x && client->y ? EX_OK : train_fail(EX_OSERR, "no memory");
}

/* The last update ends with its round: that may take as long as the other clients need, or are waited for. */
static int close_ms(const struct train *train) {
	const struct heddle_federated *f = &train->options.federated;
	uint32_t wait_ms = f->round_wait_ms ? f->round_wait_ms : HEDDLE_ROUND_WAIT_MS;

	return (int)(CLOSE_MS + f->round_deadline_ms + wait_ms);
}

int train_client(struct train *train) {
	struct client client = {.train = train, .summary = {.role = "client"}};
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	int status = EX_OK, rc;

	train_log_options(&options);
	rc = heddle_open(train->spec, &options, &client.fabric);
	if (rc < 0)
		return train_heddle_error("fabric", rc);
	client.summary.rank = heddle_rank(client.fabric);
	status = train_join(train, client.fabric);
	if (status == EX_OK)
		status = prepare(&client);
	if (status == EX_OK)
		status = loop(&client);
	/* The others no longer wait for this client. */
	(void)train_close(client.fabric, status == EX_OK ? close_ms(train) : CLOSE_MS);
	for (uint32_t i = 0; i < PUSHES_MAX; i++)
		take_result(&client, i, 0);
	if (status == EX_OK)
		status = train_summary_write(train, &client.summary);
	free(client.order);
	free(client.w);
	free(client.grad);
	free(client.grad_w_t);
	free(client.grad_w);
	free(client.picked);
	free(client.x);
	free(client.y);
	return status;
}
