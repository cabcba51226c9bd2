/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_elastic_bound.h"

#include <errno.h>
#include <math.h>

static const double euler = 0.57721566490153286;

/* The sum f(n) = sum_k C(n,k) q^k (1-q)^(n-k) / k follows from f(n-1): C(n,k) = C(n-1,k) + C(n-1,k-1), and
 * C(n-1,k-1) / k = C(n,k) / n, so f(n) = (1-q) f(n-1) + P(y >= 1) / n. All terms are positive: nothing
 * cancels, and nothing underflows at n = 4,096 as the binomials themselves would. */
static double binomial_step(double before, double q, double any, uint32_t n) {
	return (1 - q) * before + any / n;
}

double hd_active_any(const struct hd_active *active, uint32_t n) {
	if (active->kind != HD_ACTIVE_BINOMIAL || active->q >= 1)
		return 1;
	return -expm1(n * log1p(-active->q));
}

double hd_active_inverse(const struct hd_active *active, uint32_t n) {
	double sum = 0, any = 1;

	switch (active->kind) {
	case HD_ACTIVE_BINOMIAL:
		for (uint32_t k = 1; k <= n; k++) {
			any = hd_active_any(active, k);
			sum = binomial_step(sum, active->q, any, k);
		}
		return sum / any;
	case HD_ACTIVE_UNIFORM:
		return hd_elastic_harmonic(n) / n;
	case HD_ACTIVE_CHI:
		return pow(n, -active->chi);
	case HD_ACTIVE_FIXED:
		break;
	}
	return 1.0 / n;
}

void hd_active_inverses(const struct hd_active *active, uint32_t n, double *inverse) {
	double sum = 0;

	for (uint32_t k = 1; k <= n; k++) {
		if (active->kind == HD_ACTIVE_BINOMIAL) {
			const double any = hd_active_any(active, k);

			sum = binomial_step(sum, active->q, any, k);
			inverse[k] = sum / any;
		} else {
			inverse[k] = hd_active_inverse(active, k);
		}
	}
}

double hd_active_mean(const struct hd_active *active, uint32_t n) {
	switch (active->kind) {
	case HD_ACTIVE_BINOMIAL:
		return n * active->q / hd_active_any(active, n);
	case HD_ACTIVE_UNIFORM:
		return (n + 1.0) / 2;
	case HD_ACTIVE_CHI:
	case HD_ACTIVE_FIXED:
		break;
	}
	return n;
}

/* (1 - beta^J) / (1 - beta): the sum of beta^0..beta^(J-1). */
static double powers(double beta, double count) {
	return -expm1(count * log(beta)) / (1 - beta);
}

double hd_elastic_error(const struct hd_elastic_model *model, double inverse, uint32_t iterations) {
	const double left = pow(model->beta, iterations);

	return model->a * left + model->b * inverse * powers(model->beta, iterations);
}

double hd_elastic_floor(const struct hd_elastic_model *model, double inverse) {
	return model->b * inverse / (1 - model->beta);
}

int hd_elastic_iterations(
	const struct hd_elastic_model *model,
	double inverse,
	double epsilon,
	uint32_t *iterations
) {
	const double lowest = hd_elastic_floor(model, inverse);
	double steps;
	uint32_t count;

	if (model->a <= epsilon) {
		*iterations = 0;
		return 0;
	}
	if (epsilon <= lowest * (1 + 1e-12))
		return -ERANGE;
	steps = ceil(log((epsilon - lowest) / (model->a - lowest)) / log(model->beta));
	if (!(steps <= HD_ELASTIC_ITERATIONS_MAX))
		return -ERANGE;
	/* Logarithms may be off by the last bit: the bound itself decides. */
	count = steps < 1 ? 1 : (uint32_t)steps;
	while (count > 1 && hd_elastic_error(model, inverse, count - 1) <= epsilon)
		count--;
	while (hd_elastic_error(model, inverse, count) > epsilon)
		if (count++ >= HD_ELASTIC_ITERATIONS_MAX)
			return -ERANGE;
	*iterations = count;
	return 0;
}

double
hd_elastic_needed(const struct hd_elastic_model *model, double epsilon, uint32_t iterations) {
	const double room = epsilon - model->a * pow(model->beta, iterations);

	return room / (model->b * powers(model->beta, iterations));
}

uint32_t hd_elastic_growth_workers(const struct hd_elastic_growth *growth, uint32_t step) {
	const double top = growth->most > 0 ? growth->most : HD_WORKERS_MAX;
	const double n = growth->first * pow(growth->eta, step - 1.0);

	/* 8.000000000001 workers are eight. */
	return n < top ? (uint32_t)ceil(n * (1 - 1e-12)) : (uint32_t)ceil(top);
}

double hd_elastic_growth_error(
	const struct hd_elastic_model *model,
	const struct hd_elastic_growth *growth,
	uint32_t iterations
) {
	const double log_beta = log(model->beta), log_grow = growth->chi * log(growth->eta);
	const double x = exp(-log_beta - log_grow);
	double steps = iterations, growing, capped = 0, sum;

	growing = steps;
	if (growth->most > 0) {
		growing = ceil(log(growth->most / growth->first) / log(growth->eta));
		growing = growing < 0 ? 0 : growing > steps ? steps : growing;
		capped = pow(growth->most, -growth->chi) * powers(model->beta, steps - growing);
	}
	/* beta^(J-1) (1 - x^m) / (1 - x), each power as one exponent: x^m alone may overflow. */
	if (fabs(x - 1) < 1e-9)
		sum = growing * exp((steps - 1) * log_beta);
	else
		sum = (exp((steps - 1) * log_beta)
		       - exp((steps - 1 - growing) * log_beta - growing * log_grow))
			/ (1 - x);
	return model->a * exp(steps * log_beta)
		+ model->b * (sum * pow(growth->first, -growth->chi) + capped);
}

uint32_t hd_elastic_growth_iterations(double eta, double chi, uint32_t iterations) {
	const double log_grow = chi * log(eta);

	if (log_grow <= 0)
		return iterations;
	return (uint32_t)ceil(log1p(expm1(log_grow) * iterations) / log_grow);
}

double hd_elastic_harmonic(uint32_t n) {
	double sum = 0;

	/* Beyond 64 the series is exact to the last bit (error 1 / 252 n^6). */
	if (n > 64) {
		const double m = n, square = m * m;

		return log(m) + euler + 1 / (2 * m) - 1 / (12 * square)
			+ 1 / (120 * square * square);
	}
	for (uint32_t k = n; k > 0; k--)
		sum += 1.0 / k;
	return sum;
}

double hd_elastic_step_s(enum hd_elastic_sync sync, uint32_t n, uint32_t needed, double rate) {
	if (sync == HD_ELASTIC_SYNC_FULL)
		return hd_elastic_harmonic(n) / rate;
	if (n < needed)
		return INFINITY;
	if (sync == HD_ELASTIC_SYNC_FIRST)
		return (hd_elastic_harmonic(n) - hd_elastic_harmonic(n - needed)) / rate;
	return needed / (n * rate);
}

double hd_elastic_rate_at(const struct hd_elastic_rate *rate, uint32_t step, uint32_t workers) {
	const uint32_t k = step / rate->every;

	switch (rate->rule) {
	case HD_ELASTIC_RATE_GROWING:
		return fmin(rate->first * pow(rate->factor, k), rate->last);
	case HD_ELASTIC_RATE_TO:
		return rate->last + rate->first / (k + 1.0);
	case HD_ELASTIC_RATE_FALLING:
		return rate->first / (k + 1.0);
	case HD_ELASTIC_RATE_LINEAR:
		return rate->first * workers;
	case HD_ELASTIC_RATE_FIXED:
		break;
	}
	return rate->first;
}
