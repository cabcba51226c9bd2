/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mathematics of the trainer, without communication: data sets, models with exact gradients, seeded minibatches and
 * the padding of compute time. heddle-train and the plain TCP parameter server of the testbed share it, so that they
 * differ in the network only.
 *
 *   params (one array, tensors in order) --> hd_model_gradient(batch) --> grad (same layout)
 *
 * One thread for each object. No function allocates in a step.
 */
#ifndef HD_TRAINER_H
#define HD_TRAINER_H

#include "hd_jobspec.h"
#include "hd_random.h"
#include "hd_types.h"

/* Writes a text for people; cuts it where it does not fit. */
__attribute__((format(printf, 3, 4))) void
hd_trainer_put(char *error, size_t error_bytes, const char *format, ...);

#define HD_DATA_BYTES_MAX (UINT64_C(1) << 30) /* of one data file, decompressed */
#define HD_DATA_ROWS_MAX 10000000
#define HD_DATA_FEATURES_MAX 1048576
#define HD_DATA_LABELS_MAX 256 /* distinct ones of an SVMlight file */
#define HD_LAYERS_MAX 16 /* hidden layers of an MLP */
#define HD_LAYER_WIDTH_MAX 65536
#define HD_BATCH_MAX 65536
#define HD_SCHEDULE_LINES_MAX 65536

/* --- data ---------------------------------------------------------------------------------- */

struct hd_dataset {
	uint32_t rows, features, classes;
	float *x; /* rows x features, in [0, 1]; NULL: sparse */
	uint8_t *y; /* rows, < classes */
	/* Sparse: row r has value[i] at feature index[i], start[r] <= i < start[r + 1], ascending. */
	uint64_t *start;
	uint32_t *index;
	float *value;
	int32_t *labels; /* of the classes, as in the text, ascending */
	/* Ratings: sparse rows of a user (below `users`) and an item; hd_row_model.h. */
	uint32_t users;
	float *target, mean; /* of each row; the training set's mean */
	uint32_t *ids; /* of the features, as in the text */
	bool by_row; /* minibatches are lists of rows, which a model reads in place */
};
/* Writes one row, with all its features. */
void hd_dataset_row(const struct hd_dataset *dataset, uint32_t row, float *x);

/*
 * Opens a data set by name: "digits" (the UCI optical digits, 8x8, of Debian's python3-sklearn; "digits:FILE" names the
 * file), or a directory with the four IDX files of MNIST and its like (train-images-idx3-ubyte,
 * train-labels-idx1-ubyte, t10k-images..., t10k-labels..., each also with .gz); or "svmlight:TRAIN[,TEST]", two files
 * in SVMlight's format, plain or gzipped (without TEST every fifth row, from the fifth on, is the test set); or
 * "ratings:TRAIN[,TEST]", the same for MovieLens's formats; or "generated:..." (hd_generate() in hd_row_model.h). The
 * digits' last 360 rows are the test set: they are of other writers. Returns 0, -ENOENT, -EINVAL, -E2BIG, -ENOMEM with
 * "file: line: what (limit)" in error.
 */
int hd_dataset_open(
	const char *name,
	struct hd_dataset *train,
	struct hd_dataset *test,
	char *error,
	size_t error_bytes
);
void hd_dataset_fini(struct hd_dataset *dataset);

/* The decoders are total: for any bytes they give a value or -EINVAL, -E2BIG, -ENOMEM with a text and the place in
 * error. The text of digits.csv: rows of 64 values 0..16 and a label 0..9. */
int hd_digits_decode(
	const char *text,
	size_t bytes,
	struct hd_dataset *dataset,
	char *error,
	size_t error_bytes
);

/* SVMlight's text. like: NULL, or the training set, whose labels and features are used (other features are left out,
 * another label is an error). Errors: "line N: field M: what (limit)". */
int hd_svmlight_decode(
	const char *text,
	size_t bytes,
	const struct hd_dataset *like,
	struct hd_dataset *dataset,
	char *error,
	size_t error_bytes
);

/* An IDX array of unsigned bytes (LeCun's format: 0 0 type dimensions, sizes big-endian, data).
 * data points into the input. */
struct hd_idx {
	uint32_t dimension_count;
	uint32_t dimension[4];
	const uint8_t *data;
	size_t bytes;
};
int hd_idx_decode(
	const uint8_t *data,
	size_t bytes,
	struct hd_idx *idx,
	char *error,
	size_t error_bytes
);

/* --- minibatches --------------------------------------------------------------------------- */

/* Draws minibatches of the rows that belong to one worker (row i belongs to rank i mod world), each
 * row once an epoch, in an order that depends on seed and rank only. */
struct hd_sampler {
	const struct hd_dataset *dataset;
	struct hd_random random;
	uint32_t *rows;
	uint32_t count, next;
	float *x; /* batch x features: the batch of the last hd_sampler_next(); by_row: NULL */
	uint8_t *y; /* the same */
	uint32_t *picked; /* its rows */
	uint32_t batch;
};
/* Returns 0, -EINVAL (batch 0 or beyond HD_BATCH_MAX, no row for this rank), -ENOMEM. */
int hd_sampler_init(
	struct hd_sampler *sampler,
	const struct hd_dataset *dataset,
	uint32_t rank,
	uint32_t world,
	uint32_t batch,
	uint64_t seed
);
/* Draws from these rows from now on, each once before any is repeated. -EINVAL (none, or an invalid one), -ENOMEM:
 * unchanged. */
int hd_sampler_deal(struct hd_sampler *sampler, const uint32_t *rows, uint32_t count);
void hd_sampler_fini(struct hd_sampler *sampler);
/* Fills x and y with the next batch. */
void hd_sampler_next(struct hd_sampler *sampler);

/* --- models -------------------------------------------------------------------------------- */

struct hd_model;

/*
 * "softmax": softmax regression. "mlp:512,512": fully connected layers of these widths with ReLU. Both with the mean
 * cross-entropy as loss. Or one of hd_row_model.h: "logistic", "pmf:K[,REG]". batch_max: rows of the largest batch.
 * Returns 0, -EINVAL with a text and the limit in error, -ENOMEM.
 */
int hd_model_create(
	const char *text,
	const struct hd_dataset *like,
	uint32_t batch_max,
	struct hd_model **model,
	char *error,
	size_t error_bytes
);
void hd_model_destroy(struct hd_model *model);
/* Lets the BLAS allocate its buffers, if it has not yet. Otherwise it does so with its first product, and tries for
 * ever if it cannot: call this before memory is limited. -ENOMEM: there is not enough memory (128 MiB). */
int hd_model_take_buffers(void);
/* All parameters; one array holds them, tensor after tensor. */
uint64_t hd_model_values(const struct hd_model *model);
uint32_t hd_model_tensor_count(const struct hd_model *model);
/* Name, shape and initialization of each tensor, for a job description; see hd_jobspec_initialize
 * for the initial values. */
const struct hd_tensor *hd_model_tensors(const struct hd_model *model);

/* Writes the gradient of the mean loss over the batch to grad and returns the mean loss. x is
 * rows x features, rows <= batch_max. Deterministic on one machine. */
double hd_model_gradient(
	struct hd_model *model,
	const float *params,
	const float *x,
	const uint8_t *y,
	uint32_t rows,
	float *grad
);
/* Calls ready() during each gradient, whenever more of it is final: the values from `first` on, where a layer begins,
 * from the last layer to the first (models that take rows: once, at the end). loss: what the gradient returns. */
struct hd_model_watch {
	void (*ready)(void *arg, uint64_t first, double loss); /* NULL: none */
	void *arg;
};
void hd_model_watch(struct hd_model *model, const struct hd_model_watch *watch);
/* Whether minibatches of this model are rows (struct hd_dataset.by_row); then the next function computes its
 * gradient. */
bool hd_model_by_row(const struct hd_model *model);
double hd_model_gradient_rows(
	struct hd_model *model,
	const float *params,
	const struct hd_dataset *dataset,
	const uint32_t *rows,
	uint32_t count,
	float *grad
);
/* Share of the rows whose label has the highest score, and the mean loss. */
void hd_model_evaluate(
	struct hd_model *model,
	const float *params,
	const struct hd_dataset *dataset,
	double *accuracy,
	double *loss
);

/* --- compute time -------------------------------------------------------------------------- */

/*
 * Pads real gradient steps to a given time, so that two cores can stand for a cluster. A schedule scales it: lines `t_s
 * factor`, t_s seconds after hd_compute_init(), in order; from then on a step takes compute_ms x factor. The schedule
 * is a file, or a FIFO that another program writes during the run (a line whose time has passed applies at once).
 */
struct hd_compute {
	hd_ns started; /* CLOCK_MONOTONIC */
	double compute_ms, factor;
	int fd; /* the schedule, -1: none */
	bool fifo;
	uint32_t line;
	bool has_next;
	double next_s, next_factor;
	char buffer[256]; /* of an incomplete line */
	size_t buffered;
	hd_ns compute_ns, padded_ns; /* time in real steps, and in padding */
	hd_ns held_ns; /* of the padding: within the present step */
	uint64_t overruns; /* steps that took longer than they should have */
};
/* schedule may be NULL. Returns 0, -EINVAL ("schedule: line N: what"), -errno of the file. */
int hd_compute_init(
	struct hd_compute *compute,
	double compute_ms,
	const char *schedule,
	char *error,
	size_t error_bytes
);
void hd_compute_fini(struct hd_compute *compute);
/* Sleeps until `begun` + compute_ms x the present factor. Returns 0, -EINTR (a signal came), or
 * -EINVAL (the schedule is broken from here on; error as above). */
int hd_compute_pad(struct hd_compute *compute, hd_ns begun, char *error, size_t error_bytes);
/* Within a step: sleeps until this share of its time is over, for results that a part of the step yields. */
void hd_compute_hold(struct hd_compute *compute, hd_ns begun, double share);
/* CLOCK_MONOTONIC in ns. */
hd_ns hd_compute_now(void);

#endif
