/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_divergence.h"

#include <errno.h>

/* H_j and E_j. */
struct hd_divergence_point {
	double speed, distance;
};

static struct hd_divergence_point
hd_divergence_ahead(const struct hd_divergence *d, double update, uint32_t steps) {
	struct hd_divergence_point at = {d->speed, d->distance};

	for (uint32_t i = 0; i < steps; i++) {
		at.speed = d->gamma * at.speed + d->lambda * (d->weights + at.distance) + update;
		at.distance += at.speed;
	}
	return at;
}

static void hd_divergence_advance(struct hd_divergence *d, const struct hd_divergence_step *step) {
	struct hd_divergence_point at = hd_divergence_ahead(d, step->update, step->more + 1);

	d->speed = at.speed;
	d->distance = at.distance;
}

void hd_divergence_reset(struct hd_divergence *d, double momentum, double weights) {
	d->momentum = momentum;
	d->weights = weights;
	d->speed = momentum;
	d->distance = 0;
	d->first = 0;
	d->count = 0;
}

void hd_divergence_init(
	struct hd_divergence *d,
	double gamma,
	double lambda,
	double momentum,
	double weights
) {
	d->gamma = gamma;
	d->lambda = lambda;
	hd_divergence_reset(d, momentum, weights);
}

int hd_divergence_add(struct hd_divergence *d, const struct hd_divergence_step *step) {
	if (d->count == HD_REPLICA_LAG_MAX)
		return -ENOBUFS;
	d->steps[(d->first + d->count++) % HD_REPLICA_LAG_MAX] = *step;
	hd_divergence_advance(d, step);
	return 0;
}

void hd_divergence_confirm(struct hd_divergence *d, uint32_t count) {
	const struct hd_divergence_step *last;

	count = count < d->count ? count : d->count;
	if (count == 0)
		return;
	last = &d->steps[(d->first + count - 1) % HD_REPLICA_LAG_MAX];
	d->momentum = last->momentum;
	d->weights = last->weights;
	d->speed = d->momentum;
	d->distance = 0;
	d->first = (d->first + count) % HD_REPLICA_LAG_MAX;
	d->count -= count;
	for (uint32_t i = 0; i < d->count; i++)
		hd_divergence_advance(d, &d->steps[(d->first + i) % HD_REPLICA_LAG_MAX]);
}

double hd_divergence_bound(const struct hd_divergence *d) {
	return d->distance;
}

double hd_divergence_after(const struct hd_divergence *d, double update, uint32_t steps) {
	return hd_divergence_ahead(d, update, steps).distance;
}
