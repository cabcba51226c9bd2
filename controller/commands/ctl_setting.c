/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings of `set`: name, limits, value and effect. */
#include "ctl_base.h"
#include "ctl_commands.h"
#include "ctl_copies.h"
#include "ctl_registry.h"
#include "hd_settings.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define READ(name, format, expression)                                                             \
	static void read_##name(const struct hd_controller *c, char *text, size_t bytes) {         \
		(void)snprintf(text, bytes, format, expression);                                   \
	}

static void read_theta(const struct hd_controller *c, char *text, size_t bytes) {
	if (c->config.theta > 0)
		(void)snprintf(text, bytes, "%g", c->config.theta);
	else
		(void)snprintf(text, bytes, "off");
}

READ(interval, "%u", c->config.interval_us)
READ(horizon, "%u", c->config.horizon_us)
READ(ageing, "%g", c->config.ageing_s)
READ(permille, "%u", c->config.drop_permille_max)
READ(of_jobs, "%s", (c ? "(show jobs)" : ""))

static void read_probes(const struct hd_controller *c, char *text, size_t bytes) {
	if (c->probe_load > 0)
		(void)snprintf(text, bytes, "%g", c->probe_load * 100);
	else
		(void)snprintf(text, bytes, "off");
}

static void read_credits(const struct hd_controller *c, char *text, size_t bytes) {
	if (c->credit_bytes > 0)
		(void)snprintf(text, bytes, "%" PRIu64, c->credit_bytes);
	else
		(void)snprintf(text, bytes, "off");
}

static void read_inline(const struct hd_controller *c, char *text, size_t bytes) {
	if (c->inline_bytes > 0)
		(void)snprintf(text, bytes, "%" PRIu64, c->inline_bytes);
	else
		(void)snprintf(text, bytes, "off");
}

static void read_aggregation(const struct hd_controller *c, char *text, size_t bytes) {
	(void)snprintf(text, bytes, "%s", c->aggregation ? "on" : "off");
}

static void read_switch(const struct hd_controller *c, char *text, size_t bytes) {
	(void)snprintf(text, bytes, "%s", c->switching ? "on" : "off");
}

static void read_ranked(const struct hd_controller *c, char *text, size_t bytes) {
	(void)snprintf(text, bytes, "%s", c->ranked_sums ? "on" : "off");
}

static void read_spare(const struct hd_controller *c, char *text, size_t bytes) {
	(void)snprintf(text, bytes, "%s", c->spare_server ? "on" : "off");
}

static void read_level(const struct hd_controller *c, char *text, size_t bytes) {
	const struct hd_controller_ops *ops = c->config.ops;

	(void
	)snprintf(text, bytes, "%s", ops && ops->log_level ? ops->log_level(c->config.owner) : "-");
}

static void apply_theta(struct hd_controller *c, struct ctl_job *job, double value) {
	(void)job;
	c->config.theta = value;
}

static void apply_interval(struct hd_controller *c, struct ctl_job *job, double value) {
	(void)job;
	c->config.interval_us = (uint32_t)value;
}

static void apply_horizon(struct hd_controller *c, struct ctl_job *job, double value) {
	(void)job;
	c->config.horizon_us = (uint32_t)value;
}

static void apply_ageing(struct hd_controller *c, struct ctl_job *job, double value) {
	(void)job;
	c->config.ageing_s = value;
}

static void apply_permille(struct hd_controller *c, struct ctl_job *job, double value) {
	(void)job;
	c->config.drop_permille_max = (uint32_t)value;
}

/* Probes start again at once, or at the next check. */
static void apply_probes(struct hd_controller *c, struct ctl_job *job, double value) {
	(void)job;
	c->probe_load = value / 100;
	c->probe_at = hd_ns_min(c->probe_at, c->now);
}

static void apply_credits(struct hd_controller *c, struct ctl_job *job, double value) {
	(void)job;
	c->credit_bytes = (uint64_t)value;
}

/* Workers are told with the next round of theirs. */
static void apply_inline(struct hd_controller *c, struct ctl_job *job, double value) {
	(void)job;
	c->inline_bytes = (uint64_t)value;
}

static void apply_aggregation(struct hd_controller *c, struct ctl_job *job, double value) {
	(void)job;
	c->aggregation = value > 0;
}

/* Leases that are not in use end at the next check, the others once they are idle. */
static void apply_switch(struct hd_controller *c, struct ctl_job *job, double value) {
	(void)job;
	c->switching = value > 0;
	ctl_check_by(c, c->now);
}

static void apply_ranked(struct hd_controller *c, struct ctl_job *job, double value) {
	(void)job;
	c->ranked_sums = value > 0;
}

static void apply_spare(struct hd_controller *c, struct ctl_job *job, double value) {
	(void)job;
	c->spare_server = value > 0;
}

static void apply_tau(struct hd_controller *c, struct ctl_job *job, double value) {
	(void)c;
	job->tau_set = (uint32_t)value;
}

static void apply_weight(struct hd_controller *c, struct ctl_job *job, double value) {
	job->weight_set = value;
	if (job->tenant)
		ctl_tenant_weigh(c, job->tenant);
}

/* The server is told in the next check, which is due at once. */
static void apply_div_max(struct hd_controller *c, struct ctl_job *job, double value) {
	ctl_replica_set(&job->replica, value);
	ctl_check_by(c, c->now);
}

static const struct ctl_setting settings[] = {
	{HD_SETTING_THETA, 1e-6, 1e9, .off = true, .read = read_theta, .apply = apply_theta},
	{HD_SETTING_INTERVAL,
	 1,
	 1e6,
	 .whole = true,
	 .read = read_interval,
	 .apply = apply_interval},
	{HD_SETTING_HORIZON, 0, 1e7, .whole = true, .read = read_horizon, .apply = apply_horizon},
	{HD_SETTING_AGEING, 1e-3, 1e6, .read = read_ageing, .apply = apply_ageing},
	{HD_SETTING_PERMILLE,
	 1,
	 1000,
	 .whole = true,
	 .read = read_permille,
	 .apply = apply_permille},
	{HD_SETTING_PROBES, 0.001, 1, .off = true, .read = read_probes, .apply = apply_probes},
	{HD_SETTING_CREDITS,
	 1,
	 HD_CREDIT_BYTES_MAX,
	 .whole = true,
	 .off = true,
	 .read = read_credits,
	 .apply = apply_credits},
	{HD_SETTING_INLINE,
	 1,
	 HD_INLINE_BYTES_MAX,
	 .whole = true,
	 .off = true,
	 .read = read_inline,
	 .apply = apply_inline},
	{HD_SETTING_AGGREGATION,
	 0,
	 1,
	 .whole = true,
	 .on = true,
	 .read = read_aggregation,
	 .apply = apply_aggregation},
	{HD_SETTING_SWITCH,
	 0,
	 1,
	 .whole = true,
	 .on = true,
	 .read = read_switch,
	 .apply = apply_switch},
	{HD_SETTING_RANKED,
	 0,
	 1,
	 .whole = true,
	 .on = true,
	 .read = read_ranked,
	 .apply = apply_ranked},
	{HD_SETTING_SPARE,
	 0,
	 1,
	 .whole = true,
	 .on = true,
	 .read = read_spare,
	 .apply = apply_spare},
	{HD_SETTING_TAU,
	 1,
	 HD_TAU_MAX_LIMIT,
	 .whole = true,
	 .off = true,
	 .of_a_job = true,
	 .to_tau_max = true,
	 .read = read_of_jobs,
	 .apply = apply_tau},
	{HD_SETTING_WEIGHT,
	 CTL_WEIGHT_MIN,
	 CTL_WEIGHT_MAX,
	 .off = true,
	 .of_a_job = true,
	 .read = read_of_jobs,
	 .apply = apply_weight},
	{HD_SETTING_DIV_MAX,
	 CTL_DIV_MAX_LEAST,
	 CTL_DIV_MAX_MOST,
	 .off = true,
	 .of_a_job = true,
	 .read = read_of_jobs,
	 .apply = apply_div_max},
	{HD_SETTING_LEVEL, NAN, NAN, .read = read_level},
};
_Static_assert(sizeof settings / sizeof *settings == HD_SETTING_COUNT, "a setting has no row");

const struct ctl_setting *ctl_setting(uint64_t index) {
	return index < sizeof settings / sizeof settings[0] ? &settings[index] : NULL;
}

void ctl_job_set_again(struct ctl_job *job, bool paused, uint32_t tau, double weight) {
	job->paused = paused;
	job->tau_set = tau;
	job->weight_set = weight;
}

void ctl_kept_setting(struct hd_controller *c, const struct ctl_setting *setting, double value) {
	const struct ctl_setting *s;
	uint64_t i = 0;

	while ((s = ctl_setting(i)) && s != setting)
		i++;
	assert(s && i < CTL_SETTINGS_MAX);
	c->kept.set |= UINT32_C(1) << i;
	c->kept.value[i] = value;
	ctl_kept_changed(c);
}
