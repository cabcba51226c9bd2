/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows of the table of elastic policies, for hd_elastic.c and the files that they are in. */
#ifndef HD_ELASTIC_POLICY_H
#define HD_ELASTIC_POLICY_H

#include "hd_elastic.h"

/* A decision with its reason as text, cut where it does not fit. */
__attribute__((format(printf, 3, 4))) void
hd_elastic_explain(struct hd_elastic_decision *out, uint32_t target, const char *format, ...);

/* hd_elastic_shape.c: the names of `scale`. False: there is no such name. */
const char *hd_elastic_scale_name(enum hd_elastic_rate_rule rule);
bool hd_elastic_scale_find(const char *name, enum hd_elastic_rate_rule *rule);

/* hd_elastic_basic.c */
extern const struct hd_elastic_policy hd_elastic_fixed, hd_elastic_manual, hd_elastic_growth,
	hd_elastic_budget;
/* hd_elastic_scalein.c */
extern const struct hd_elastic_policy hd_elastic_scalein;

/* hd_elastic_spot.c */
extern const struct hd_elastic_policy hd_elastic_one_bid_policy, hd_elastic_two_bid_policy,
	hd_elastic_preemptible_policy, hd_elastic_dynamic_policy;

#endif
