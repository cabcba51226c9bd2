/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-train's command line, and functions that its files share. */
#ifndef HD_OPTIONS_H
#define HD_OPTIONS_H

#include "hd_federated.h"
#include "hd_option.h"
#include "hd_trainer.h"
#include "heddle.h"

#include <signal.h>
#include <stdio.h>

#define PUSHES_MAX 8 /* of one worker, in flight */
#define TARGET_EVALUATIONS 3
#define LOCAL_STEPS_MAX 1000000

/* Options of --sync allreduce. */
struct train_reduce {
	uint32_t bucket_kib;
	uint64_t check_every; /* steps between comparisons of the models; 0: at the end */
	uint32_t wait_ms; /* that a step waits for a worker; 0: as long as it is registered */
	const char *step_log;
};
extern const struct hd_option train_reduce_options[];

/* --device: where the model is computed (train_far.h). */
enum train_device_kind {
	TRAIN_DEVICE_CPU,
	TRAIN_DEVICE_CUDA,
	TRAIN_DEVICE_AUTO,
};
struct train_device {
	enum train_device_kind kind;
	uint32_t number; /* of CUDA */
};
extern const struct hd_option train_device_options[];

struct train_options {
	const char *data, *model, *schedule, *json, *write_data, *loss_log;
	uint32_t batch, tau_max, inflight, eval_every;
	uint64_t seed, first_step, steps, target_commits;
	uint32_t memory_mb; /* MiB that it may use beyond its start; 0: unlimited */
	float rate, momentum, decay, staleness_c, div_max;
	enum heddle_staleness staleness;
	enum heddle_payload payload, pull_payload;
	double compute_ms, seconds, target;
	uint8_t sync; /* enum hd_sync */
	uint32_t sync_count;
	bool allreduce; /* no server: sync is NONE */
	struct train_reduce reduce;
	bool unsealed; /* chunks carry no MAC */
	double grace; /* s from SIGTERM to the end; 0: it is no notice */
	bool scaled; /* updates are scaled with the number of members */
	uint32_t scale_base; /* the rate was chosen for this many; 0: the number started */
	bool live; /* rows are shared by the members at the time */
	bool sparse; /* pushes only the values of a gradient that are not 0 */
	bool filtered; /* pushes only its significant values */
	float filter; /* threshold of the first step; below 0: no filter */
	uint32_t local_steps; /* for each update */
	float admm; /* the penalty rho of consensus ADMM; 0: no ADMM */
	uint32_t filter_block, filter_flush; /* values; steps, 0: only at the end */
	bool is_federated;
	struct heddle_federated federated;
	double stragglers; /* share of a round's clients that are slow on purpose */
	uint32_t labels; /* shards of a client, by label; 0: rows are dealt evenly */
	bool evaluate, local, synchronous, quiet;
	uint32_t every_ms, join_ms;
	struct train_device device;
};

struct train {
	struct train_options options;
	struct hd_dataset train, test;
	struct hd_clients clients; /* of data that define them */
	bool users; /* they are users, of which a worker may have several */
	struct hd_model *model;
	struct hd_sampler sampler;
	struct hd_compute compute;
	struct heddle_spec *spec;
	uint64_t values;
	float *params;
	struct train_far *far; /* the model on a GPU; NULL: it is computed on the host */
	hd_ns begun;
	float scale; /* of updates from now on; */
	float step_scale; /* factor of the server's step with them */
	bool owned; /* the owner of the worker count sets it */
	uint32_t averaged; /* all-reduce: gradients in the mean of the last step */
};

/* Set by SIGINT and SIGTERM: finish and report. */
extern volatile sig_atomic_t train_stop;
/* Their handler. */
void train_on_signal(int number);
/* With --grace SIGTERM becomes a notice to this handle, while it is open; NULL: to none. */
void train_notice_to(struct heddle *fabric, double grace);

/* Whether this worker's machine is taken away before another step of step_ms could be pushed. */
bool train_no_time(struct heddle *fabric, double step_ms);
/* When the members differ from those at *change: gives the sampler this worker's rows (--shards live), and the next
 * updates their scale: that of the owner of the worker count, else of --scale-rate. 0, or an exit status. */
int train_follow(struct train *train, struct heddle *fabric, uint64_t *change);

/* Parses; prints help or an error by itself. Returns -1 to continue, else the exit status. */
int train_parse(int argc, char **argv, struct train_options *options);

/* Check the options that exclude each other, the first of them those of --sync allreduce: -1, or an exit status; they
 * print errors by themselves. The first one is called before defaults are set. */
int train_check_allreduce(const struct train_options *options);
/* Sets options that were not given. */
void train_default(struct train_options *options);
int train_check(const struct train_options *options);

/* Each runs one role to its end and returns an exit status (sysexits.h). */
int train_local(struct train *train);
int train_worker(struct train *train);
int train_sync(struct train *train);
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
/* Checks the options that --admm excludes: -1, or an exit status; prints an error by itself. */
int train_check_admm(const struct train_options *options);

/* Data with clients, "synthetic:..." and "leaf:...". -1: other data; else an exit status. */
int train_open_clients(struct train *train);
/* Divides the rows among `world` clients, if the data do not define clients. An exit status: too few rows or clients
 * for this rank. */
int train_deal_clients(struct train *train, uint32_t rank, uint32_t world);

/* "heddle-train: what" on stderr; returns status. */
__attribute__((format(printf, 2, 3))) int train_fail(int status, const char *format, ...);
/* The same for a note that is no error; `event`: a stable word for --log-json. */
__attribute__((format(printf, 2, 3))) void train_note(const char *event, const char *format, ...);

/* From now on this process may use this many MiB more than it does. An exit status. */
int train_limit_memory(uint32_t mb);
/* Lets the BLAS allocate its buffer, or ends the program; may restart it first, with these arguments, so that the BLAS
 * has no threads. */
void train_begin_blas(char **argv);
/* "no memory for WHAT", and the limit; returns an exit status. */
int train_no_memory(const char *what);

/* From now on all messages are JSON lines on stderr, as in docs/operations.md. */
void train_log_json(void);
/* Then the library's messages, too. */
void train_log_options(struct heddle_options *options);

struct train_progress {
	uint64_t steps, version, applied, dropped;
	double loss, delay_mean;
};
void train_log_progress(const struct train_progress *progress);
void train_log_scale(const struct heddle_members *members, float scale);

/* Enough steps or seconds, or a signal. */
bool train_enough(const struct train *train, uint64_t steps);
/* After this many steps no other step, of step_ms, begins. */
bool train_last_step(const struct train *train, uint64_t steps, double step_ms);
/* Writes {"at_ns", "version", "accuracy", "loss"} of params as one line, followed by `more`. */
int train_print_evaluation(
	struct train *train,
	uint64_t version,
	FILE *out,
	const char *(*more)(void *arg, double accuracy),
	void *arg
);
/* An exit status for an error of libheddle, with its text. */
int train_heddle_error(const char *what, int code);

#endif
