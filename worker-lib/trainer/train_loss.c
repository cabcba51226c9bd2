/* SPDX-License-Identifier: BSD-3-Clause */
#include "train_loss.h"

#include <errno.h>
#include <string.h>
#include <sysexits.h>

int train_loss_open(struct train_loss *log, const struct train *train, int rank) {
	const char *path = train->options.loss_log;
	char name[4096];

	*log = (struct train_loss){.workers = 1};
	if (!path)
		return EX_OK;
	if (rank > 0)
		(void)snprintf(name, sizeof name, "%s.%d", path, rank);
	else
		(void)snprintf(name, sizeof name, "%s", path);
	log->file = fopen(name, "w");
	if (!log->file)
		return train_fail(EX_CANTCREAT, "loss-log: %s: %s", name, strerror(errno));
	(void)fputs("step,loss,y,seconds\n", log->file);
	return EX_OK;
}

/* Updates in the mean of one step: of all members, of N, or this one alone. */
static uint32_t averaged(struct train_loss *log, const struct train *train, struct heddle *fabric) {
	const struct train_options *options = &train->options;
	struct heddle_members members = HEDDLE_MEMBERS_INIT;

	if (options->allreduce)
		return train->averaged;
	if (!fabric || options->sync == HD_SYNC_NONE)
		return 1;
	if (options->sync != HD_SYNC_ALL)
		return options->sync_count;
	if ((log->change == 0 || heddle_members_change(fabric) != log->change)
	    && heddle_get_members(fabric, &members, NULL, 0) == 0 && members.count > 0) {
		log->change = members.change;
		log->workers = members.count;
	}
	return log->workers;
}

void train_loss_row(
	struct train_loss *log,
	const struct train *train,
	struct heddle *fabric,
	uint64_t step,
	const struct train_summary *summary
) {
	const hd_ns now = hd_compute_now();
	const double loss = summary->loss_sum - log->sum;

	log->sum = summary->loss_sum;
	if (!log->file || step <= log->step)
		return;
	if (log->step > 0)
		(void)fprintf(
			log->file,
			"%llu,%.9g,%u,%.6g\n",
			(unsigned long long)step,
			loss,
			averaged(log, train, fabric),
			(double)(now - log->at) * 1e-9 / (double)(step - log->step)
		);
	log->step = step;
	log->at = now;
}

int train_loss_close(struct train_loss *log, const struct train *train) {
	bool bad;

	if (!log->file)
		return EX_OK;
	bad = ferror(log->file) != 0;
	bad |= fclose(log->file) != 0;
	log->file = NULL;
	return bad ?
		train_fail(EX_IOERR, "loss-log: %s: cannot be written", train->options.loss_log) :
		EX_OK;
}
