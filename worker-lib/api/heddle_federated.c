/* SPDX-License-Identifier: BSD-3-Clause */
/* Federated clients: their steps, rounds and what they hand over. */
#include "hd_kernels.h"
#include "heddle_private.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS_DEFAULT 10
#define EPOCHS_DEFAULT 20
#define EPOCHS_MAX 65535
#define FP16_MOST 65519.0F /* that is rounded to 65504 */
#define SAMPLES_MAX (UINT64_C(1) << 24) /* whole numbers up to it are fp32 */

int heddle_prox_apply(
	float *w,
	const float *w_t,
	const float *grad,
	size_t count,
	float rate,
	float mu
) {
	if (count > 0 && (!w || !w_t || !grad))
		return heddle_fail(-EINVAL, "w, w_t or grad: NULL");
	if (!isfinite(rate) || !isfinite(mu) || rate < 0 || mu < 0)
		return heddle_fail(-EINVAL, "rate or mu: must be finite, >= 0");
	if (count > 0)
		hd_prox_apply(w, w_t, grad, count, rate, mu);
	return 0;
}

int heddle_spec_set_federated(struct heddle_spec *spec, const struct heddle_federated *rounds) {
	if (!spec || !rounds || rounds->size != sizeof *rounds)
		return heddle_fail(-EINVAL, "spec or federated: NULL, or size");
	if (rounds->max_epochs > EPOCHS_MAX)
		return heddle_fail(-EINVAL, "max_epochs: %u (0..65535)", rounds->max_epochs);
	if (rounds->weighting != HEDDLE_WEIGHTING_SAMPLES
	    && rounds->weighting != HEDDLE_WEIGHTING_UNIFORM)
		return heddle_fail(-EINVAL, "weighting: %d is unknown", (int)rounds->weighting);
	if (rounds->late != HEDDLE_LATE_DROP && rounds->late != HEDDLE_LATE_WEIGHT)
		return heddle_fail(-EINVAL, "late: %d is unknown", (int)rounds->late);
	spec->job.federated = (struct hd_federated){
		.seed = rounds->seed,
		.clients = rounds->clients_per_round ? rounds->clients_per_round : CLIENTS_DEFAULT,
		.clients_least = rounds->min_clients ? rounds->min_clients : 1,
		.available = rounds->min_available,
		.deadline_ms = rounds->round_deadline_ms,
		.epochs = (uint16_t)(rounds->max_epochs ? rounds->max_epochs : EPOCHS_DEFAULT),
		.weighting = (uint8_t)rounds->weighting,
		.drops = rounds->drop_stragglers != 0,
		.mu = rounds->mu,
		.mu_adapts = rounds->mu_auto != 0,
		.late = (uint8_t)rounds->late,
		.wait_ms = rounds->round_wait_ms ? rounds->round_wait_ms : HEDDLE_ROUND_WAIT_MS,
	};
	spec->job.sync = HD_SYNC_FEDERATED;
	spec->job.sync_count = 0;
	heddle_spec_set_sgd(spec, 1, 0, 0);
	return 0;
}

/* --- rounds --------------------------------------------------------------------------------- */

void heddle_on_round(void *owner, const struct hd_round_info *info) {
	struct heddle *fabric = owner;

	pthread_mutex_lock(&fabric->lock);
	fabric->info = *info;
	fabric->round_is_new = true;
	fabric->lack_is_new = false;
	heddle_count_end(fabric);
	pthread_cond_broadcast(&fabric->changed);
	pthread_mutex_unlock(&fabric->lock);
}

void heddle_on_lack(void *owner, const struct hd_lack_info *info) {
	struct heddle *fabric = owner;

	pthread_mutex_lock(&fabric->lock);
	fabric->lack = *info;
	fabric->lack_is_new = true;
	heddle_count_end(fabric);
	pthread_cond_broadcast(&fabric->changed);
	pthread_mutex_unlock(&fabric->lock);
}

static bool has_news(const void *arg) {
	const struct heddle *fabric = arg;

	return fabric->round_is_new || fabric->lack_is_new || fabric->refused || fabric->left;
}

/* With the lock held. */
static int tell_lack(struct heddle *fabric) {
	const struct hd_lack_info *lack = &fabric->lack;

	fabric->lack_is_new = false;
	return heddle_fail(
		lack->here + lack->gone < lack->needed ? -ENODATA : -EHOSTDOWN,
		"round %u: min_clients %u, %u here or in its step, %u lost, and none has come for %g s",
		lack->round,
		lack->needed,
		lack->here,
		lack->gone,
		lack->waited_ms / 1000.0
	);
}

int heddle_round_wait(struct heddle *fabric, struct heddle_round *round, int timeout_ms) {
	int rc = heddle_check(fabric);

	if (rc < 0)
		return rc;
	if (!round || round->size != sizeof *round)
		return heddle_fail(-EINVAL, "round: NULL, or size");
	if (fabric->spec->job.sync != HD_SYNC_FEDERATED)
		return heddle_fail(-EINVAL, "the job is not federated");
	pthread_mutex_lock(&fabric->lock);
	rc = heddle_wait_until(fabric, has_news, fabric, timeout_ms);
	if (rc == 0 && fabric->refused)
		rc = heddle_fail(-ECONNREFUSED, "%s", fabric->refusal);
	else if (rc == 0 && fabric->left)
		rc = heddle_fail(-ESHUTDOWN, "left");
	else if (rc == 0 && !fabric->round_is_new)
		rc = tell_lack(fabric);
	if (rc == 0) {
		const struct hd_round_info *info = &fabric->info;

		*round = (struct heddle_round){
			.size = sizeof *round,
			.round = info->round,
			.version = info->version,
			.index = info->place,
			.clients = info->clients,
			.max_epochs = info->epochs,
			.drop_stragglers = info->drops,
			.mu = info->mu,
			.ends_at_s = info->until == HD_NEVER ? -1 : (double)info->until * 1e-9,
		};
		fabric->round_is_new = false;
	}
	pthread_mutex_unlock(&fabric->lock);
	return rc;
}

double heddle_round_time_left_s(struct heddle *fabric, const struct heddle_round *round) {
	double left;

	if (!round || round->size != sizeof *round || heddle_check(fabric) < 0
	    || heddle_is_superseded(fabric, round->version))
		return 0;
	if (round->ends_at_s < 0)
		return HUGE_VAL;
	left = round->ends_at_s - (double)hd_driver_now() * 1e-9;
	return left > 0 ? left : 0;
}

/* --- handing over --------------------------------------------------------------------------- */

static int check_work(const struct heddle_round *round, const struct heddle_work *work) {
	if (!round || round->size != sizeof *round || round->round == 0)
		return heddle_fail(-EINVAL, "round: none that heddle_round_wait() gave");
	if (!work || work->size != sizeof *work)
		return heddle_fail(-EINVAL, "work: NULL, or size");
	if (work->samples == 0 || work->samples > SAMPLES_MAX)
		return heddle_fail(
			-EDOM,
			"samples: %llu (1..2^24): a client without rows has nothing to say",
			(unsigned long long)work->samples
		);
	if (!isfinite(work->loss))
		return heddle_fail(-EDOM, "loss: %g is not finite", work->loss);
	if (!isfinite(work->gamma))
		return heddle_fail(
			-EDOM,
			"gamma: %g is not finite (negative: not computed)",
			(double)work->gamma
		);
	if (work->epochs > EPOCHS_MAX)
		return heddle_fail(-EINVAL, "epochs: %u (0..65535)", work->epochs);
	/* With its weight: the exponent is for n_k delta. */
	return work->payload == HEDDLE_PAYLOAD_FIXED32 ? 0 : heddle_check_payload(work->payload);
}

static void fill_ticket(
	const struct heddle *fabric,
	struct heddle_ticket *ticket,
	const struct heddle_round *round,
	const struct heddle_work *work
) {
	bool uniform = fabric->spec->job.federated.weighting == HD_WEIGHTING_UNIFORM;
	bool straggles = round->drop_stragglers && work->epochs < round->max_epochs;

	ticket->weight = uniform ? 1 : (float)work->samples;
	ticket->dtype = (uint8_t)work->payload;
	ticket->values = fabric->values;
	ticket->status.base = round->version;
	ticket->status.bytes = fabric->values * hd_dtype_bytes(ticket->dtype);
	ticket->work = (struct hd_work){
		.round = round->round,
		.epochs = (uint16_t)work->epochs,
		.gives = !straggles && work->epochs > 0,
		.weight = ticket->weight,
		.gamma = work->gamma,
		.loss = work->loss,
	};
}

/* The weight is multiplied before values are rounded to 16 bits: fp16 ends at 65504. */
static int check_range(const struct heddle *fabric, const struct heddle_ticket *ticket) {
	if (ticket->dtype != HD_DTYPE_FP16)
		return 0;
	for (uint64_t i = 0; i < fabric->values; i++) {
		float value = fabsf(ticket->data[i] * ticket->weight);

		if (value > FP16_MOST)
			return heddle_fail(
				-EDOM,
				"payload: value %llu times the weight %g is beyond fp16 (65504): bf16 and "
				"fp32 hold it, or the weighting uniform",
				(unsigned long long)i,
				(double)ticket->weight
			);
	}
	return 0;
}

int heddle_round_push_start(
	struct heddle *fabric,
	const struct heddle_round *round,
	const struct heddle_work *work,
	const float *w_t,
	const float *w,
	struct heddle_ticket **out
) {
	struct heddle_ticket *ticket;
	float *delta;
	int rc = heddle_check(fabric);

	if (rc < 0)
		return rc;
	if (fabric->spec->job.sync != HD_SYNC_FEDERATED)
		return heddle_fail(-EINVAL, "the job is not federated");
	rc = heddle_check_model(fabric);
	if (rc == 0)
		rc = check_work(round, work);
	if (rc < 0)
		return rc;
	if (!w_t || !w || !out)
		return heddle_fail(-EINVAL, "w_t, w or ticket: NULL");
	ticket = heddle_ticket_new(fabric, HEDDLE_DIRECTION_PUSH);
	if (!ticket || heddle_ticket_copy(fabric, ticket, fabric->values * sizeof(float)) < 0) {
		free(ticket);
		return heddle_fail(-ENOMEM, "no memory");
	}
	fill_ticket(fabric, ticket, round, work);
	delta = ticket->copy;
	for (uint64_t i = 0; i < fabric->values; i++)
		delta[i] = w_t[i] - w[i];
	ticket->data = delta;
	rc = heddle_ticket_finite(fabric, ticket);
	if (rc == 0)
		rc = check_range(fabric, ticket);
	if (rc < 0) {
		free(ticket->copy);
		free(ticket);
		return rc;
	}
	rc = heddle_ticket_enqueue(fabric, ticket);
	if (rc == 0)
		*out = ticket;
	return rc;
}
