/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: operators' commands. */
#ifndef CTL_COMMANDS_H
#define CTL_COMMANDS_H

#include "ctl_core.h"

/* A setting of `set`. */
struct ctl_setting {
	const char *name, *unit, *help;
	double least, most;
	bool whole, off, of_a_job;
	bool to_tau_max; /* the upper limit is the job's tau_max */
	bool on; /* on (1) or off (0), no number */
	void (*read)(const struct hd_controller *c, char *text, size_t bytes);
	void (*apply)(struct hd_controller *c, struct ctl_job *job, double value); /* off: 0 */
};

/* --- ctl_command.c --- */
void ctl_command(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_command *message,
	struct hd_sink *sink
);

/* --- ctl_setting.c --- */
/* NULL past the last. */
const struct ctl_setting *ctl_setting(uint64_t index);
/* Restores settings of the job from an earlier controller process; 0: none. */
void ctl_job_set_again(struct ctl_job *job, bool paused, uint32_t tau, double weight);
/* Notes that an operator changed this setting, which belongs to no job. */
void ctl_kept_setting(struct hd_controller *c, const struct ctl_setting *setting, double value);

#endif
