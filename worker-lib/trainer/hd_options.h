/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-train's command line and what its parts share. */
#ifndef HD_OPTIONS_H
#define HD_OPTIONS_H

#include "hd_federated.h"
#include "hd_trainer.h"
#include "heddle.h"
#include "heddle_federated.h"

#include <signal.h>
#include <stdio.h>

#define PUSHES_MAX 8 /* in flight of one worker */
#define TARGET_EVALUATIONS 3
#define LOCAL_STEPS_MAX 1000000

struct train_options {
	const char *data, *model, *schedule, *json, *write_data, *loss_log;
	uint32_t batch, tau_max, inflight, eval_every;
	uint64_t seed, first_step, steps, target_commits;
	uint32_t memory_mb; /* MiB that it may have beyond what it begins with; 0: any */
	float rate, momentum, decay, staleness_c, div_max;
	enum heddle_staleness staleness;
	enum heddle_payload payload, pull_payload;
	double compute_ms, seconds, target;
	uint8_t sync; /* enum hd_sync */
	uint32_t sync_count;
	bool unsealed; /* chunks carry no MAC */
	double grace; /* s that SIGTERM leaves; 0: it is no notice */
	bool scaled; /* updates, with the number of those that take part */
	uint32_t scale_base; /* the rate is right for so many; 0: as many as were started */
	bool live; /* rows are shared by those that take part at the time */
	bool sparse; /* pushes what is not 0 of a gradient */
	bool filtered; /* pushes what is significant of it */
	float filter; /* threshold of the first step; below 0: without */
	uint32_t local_steps; /* of each update */
	float admm; /* the penalty rho of consensus ADMM; 0: without */
	uint32_t filter_block, filter_flush; /* values; steps, 0: only at the end */
	bool is_federated;
	struct heddle_federated federated;
	double stragglers; /* share of a round's clients that are slow on purpose */
	uint32_t labels; /* shards of a client, by label; 0: rows are dealt evenly */
	bool evaluate, local, synchronous, quiet;
	uint32_t every_ms, join_ms;
};

struct train {
	struct train_options options;
	struct hd_dataset train, test;
	struct hd_clients clients; /* of data that have them */
	bool users; /* they are users, of whom a worker may have several */
	struct hd_model *model;
	struct hd_sampler sampler;
	struct hd_compute compute;
	struct heddle_spec *spec;
	uint64_t values;
	float *params;
	hd_ns begun;
	float scale; /* of updates that are begun now; */
	float step_scale; /* what the server multiplies their step by */
	bool owned; /* the owner of the worker count says which */
};

/* Set by SIGINT and SIGTERM: finish and report. */
extern volatile sig_atomic_t train_stop;
/* Their handler. */
void train_on_signal(int number);
/* With --grace SIGTERM is a notice to this one, while it is open; NULL: none is. */
void train_notice_to(struct heddle *fabric, double grace);

/* Whether this worker's machine is taken away before another step of so many ms could be pushed. */
bool train_no_time(struct heddle *fabric, double step_ms);
/* When others take part than at *change: gives the sampler this worker's rows (--shards live), and the next updates
 * their scale: the one that the owner of the worker count says, else --scale-rate's. 0, or an exit status. */
int train_follow(struct train *train, struct heddle *fabric, uint64_t *change);

/* Parses; prints help or an error by itself. Returns -1 to go on, else the exit status. */
int train_parse(int argc, char **argv, struct train_options *options);

/* Each runs one role to its end and returns an exit status (sysexits.h). */
int train_local(struct train *train);
int train_worker(struct train *train);
int train_evaluate(struct train *train);
int train_client(struct train *train);

/* Options whose values are words, for the table (hd_option.h): values is a struct train_options. */
int train_take_sync(void *values, const char *text);
int train_take_integrity(void *values, const char *text);
int train_take_staleness(void *values, const char *text);
int train_take_scale(void *values, const char *text);
int train_take_payload(void *values, const char *text);
int train_take_pull_payload(void *values, const char *text);
int train_take_shards(void *values, const char *text);
int train_take_federated(void *values, const char *text);
int train_take_admm(void *values, const char *text);
/* What --admm may stand with: -1, or an exit status; prints an error by itself. */
int train_check_admm(const struct train_options *options);

/* Data that have clients, "synthetic:..." and "leaf:...". -1: others; else an exit status. */
int train_open_clients(struct train *train);
/* Deals the rows to `world` clients, where the data have not said whose they are. An exit status: too few rows or
 * clients for this rank. */
int train_deal_clients(struct train *train, uint32_t rank, uint32_t world);

/* "heddle-train: what" on stderr; returns status. */
__attribute__((format(printf, 2, 3))) int train_fail(int status, const char *format, ...);
/* The same of what is no error; `event`: a stable word for --log-json. */
__attribute__((format(printf, 2, 3))) void train_note(const char *event, const char *format, ...);

/* From now on this process may have so many MiB more than it has. An exit status. */
int train_limit_memory(uint32_t mb);
/* The BLAS takes its buffer, or the program ends here; first it may begin once more, with these arguments, so that the
 * BLAS has no threads. */
void train_begin_blas(char **argv);
/* "no memory for WHAT", and how much there may be; returns an exit status. */
int train_no_memory(const char *what);

/* From now on everything that is said is a JSON line on stderr, as docs/operations.md has them. */
void train_log_json(void);
/* Then also what the library says. */
void train_log_options(struct heddle_options *options);

struct train_progress {
	uint64_t steps, version, applied, dropped;
	double loss, delay_mean;
};
void train_log_progress(const struct train_progress *progress);
void train_log_scale(const struct heddle_members *members, float scale);

/* Enough steps or seconds, or a signal. */
bool train_enough(const struct train *train, uint64_t steps);
/* After so many there is no other one, of so many ms. */
bool train_last_step(const struct train *train, uint64_t steps, double step_ms);
/* Writes {"at_ns", "version", "accuracy", "loss"} of params as one line; `more` is put behind them. */
int train_print_evaluation(
	struct train *train,
	uint64_t version,
	FILE *out,
	const char *(*more)(void *arg, double accuracy),
	void *arg
);
/* An exit status for an error of libheddle, with its words. */
int train_heddle_error(const char *what, int code);

#endif
