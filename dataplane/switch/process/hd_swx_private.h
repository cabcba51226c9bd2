/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HD_SWX_PRIVATE_H
#define HD_SWX_PRIVATE_H

#include "hd_switch_spec.h"
#include "hd_swx.h"

#include <rte_swx_ctl.h>
#include <rte_swx_pipeline.h>

#define SWX_BURST 64
/* Of a table entry as text: a key, an action's name, and its arguments. */
#define SWX_ENTRY_BYTES 1024
#define SWX_ARGUMENTS_MAX 16

struct swx_lease {
	struct hd_switch_lease lease; /* its arrays follow */
	struct hd_switch_copy
		*copies; /* of the members, then of the receivers; NULL: there is no such lease */
	uint64_t *tokens; /* in the same order */
	uint16_t *workers; /* of the members */
	uint64_t all;
};

struct swx {
	struct hd_spec *spec;
	struct rte_swx_pipeline *pipeline;
	struct rte_swx_ctl_pipeline *ctl;
	struct hd_switch_self self;
	/* Of the burst that is under way. */
	struct hd_switch_packet *packets;
	size_t count, fed, done;
	bool stuck; /* the program did not end: nothing passes any more */
	struct swx_lease leases[HD_SWITCH_LEASES_MAX];
};

/* --- hd_swx_load.c ------------------------------------------------------------------------- */
/* Makes the pipeline of the text: all but its ports. 0 or -errno. */
int swx_load(struct swx *swx, const char *name, char *error, size_t error_bytes);
/* Its ports, and all that runs. */
int swx_build(struct swx *swx, char *error, size_t error_bytes);

/* --- hd_swx_tables.c ----------------------------------------------------------------------- */
/* Tells the program who the switch is. 0 or -errno. */
int swx_set_self(struct swx *swx, char *error, size_t error_bytes);
extern const struct hd_switch_executor_ops swx_ops;
void swx_forget_leases(struct swx *swx);

/* --- hd_swx.c ------------------------------------------------------------------------------ */
void swx_destroy(void *self);
void swx_burst(void *self, struct hd_switch_packet *packets, size_t count);
size_t swx_copies(
	const void *self,
	const struct hd_switch_packet *packet,
	const struct hd_switch_copy **copies
);

#endif
