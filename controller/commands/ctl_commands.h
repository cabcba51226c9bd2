/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to controller/: what an operator changes. */
#ifndef CTL_COMMANDS_H
#define CTL_COMMANDS_H

#include "ctl_core.h"

/* What `set` can change. */
struct ctl_setting {
	const char *name, *unit, *help;
	double least, most;
	bool whole, off, of_a_job;
	bool to_tau_max; /* at most the job's */
	bool on; /* the words on (1) and off (0), no number */
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
/* What operators had set of the job in an earlier life; 0: nothing. */
void ctl_job_set_again(struct ctl_job *job, bool paused, uint32_t tau, double weight);
/* An operator set this one, which is not of a job. */
void ctl_kept_setting(struct hd_controller *c, const struct ctl_setting *setting, double value);

#endif
