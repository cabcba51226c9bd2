/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data of federated clients: the rows of each client, generated data whose clients differ by a given amount, and the
 * reference of FedProx and FedAvg in double precision, in one process, for comparison with runs of the fabric.
 *
 *   rows of client k: clients.rows[clients.start[k]] ... clients.rows[clients.start[k + 1] - 1]
 *
 * Pure: no files, no clock; the same arguments give the same bits on every machine with IEEE 754 and the same libm.
 */
#ifndef HD_FEDERATED_H
#define HD_FEDERATED_H

#include "hd_split.h"
#include "hd_trainer.h"

#define HD_CLIENTS_MAX 4096

struct hd_clients {
	uint32_t count;
	uint32_t *start; /* count + 1 */
	uint32_t *rows;
};
void hd_clients_fini(struct hd_clients *clients);

/*
 * Divides the rows by label, so that clients differ: the rows in the order of their labels are cut into shards_each x
 * count pieces, and each client gets shards_each of them, by seed (McMahan et al., arXiv 1602.05629, section 3). Piece
 * sizes are random, too, from 1 to 3 parts, so that clients differ in size. 0; -EINVAL (a client would have no row),
 * -ENOMEM.
 */
int hd_clients_by_label(
	const struct hd_dataset *dataset,
	uint32_t count,
	uint32_t shards_each,
	uint64_t seed,
	struct hd_clients *clients
);
/* Row i belongs to client i mod count. Errors as above. */
int hd_clients_even(const struct hd_dataset *dataset, uint32_t count, struct hd_clients *clients);
/* Merges users into fewer clients: client k gets the rows of the users k, k + count, k + 2 count ... 0; -EINVAL (count
 * 0, or more than there are), -ENOMEM: unchanged. */
int hd_clients_merge(struct hd_clients *clients, uint32_t count);

/* Rows, and their clients. */
struct hd_leaf {
	struct hd_dataset set;
	struct hd_clients clients;
};

/*
 * LEAF's JSON (Caldas et al., arXiv 1812.01097): {"users": [names], "num_samples": [n], "user_data": {name:
 * {"x": [[numbers]], "y": [labels]}}}. Each user is a client, rows are in the order of `users`; num_samples is checked
 * when it is there, other members are ignored. like: NULL, or the training set, whose features these rows must have.
 * Labels are whole numbers 0..255. 0; -EINVAL, -E2BIG, -ENOMEM with "user N (name): field: what (limit)" in error.
 */
int hd_leaf_decode(
	const char *text,
	size_t bytes,
	const struct hd_dataset *like,
	struct hd_leaf *leaf,
	char *error,
	size_t error_bytes
);

/* The same for several files, one after the other: each user is in one of them. Only their rows are kept. */
struct hd_text {
	const char *at;
	size_t bytes;
};
struct hd_leaf_reader;
/* NULL: no memory. */
struct hd_leaf_reader *hd_leaf_begin(const struct hd_dataset *like);
/* `file` is its name, for errors. As hd_leaf_decode(); after an error the reader can only be dropped. */
int hd_leaf_add(
	struct hd_leaf_reader *reader,
	const char *file,
	const struct hd_text *text,
	char *error,
	size_t error_bytes
);
/* After at least one file: frees the reader. 0 or -ENOMEM. */
int hd_leaf_end(struct hd_leaf_reader *reader, struct hd_leaf *leaf);
void hd_leaf_drop(struct hd_leaf_reader *reader);

/* Without a test set: the last tenth of each user's rows becomes one, but each user keeps a row. 0; -EINVAL (the test
 * set would be empty), -ENOMEM: unchanged. */
int hd_leaf_split(struct hd_leaf *leaf, struct hd_dataset *test);
/* "TRAIN[,TEST]": each a file, plain or gzipped, or a folder of such (*.json, *.json.gz: all of them, by name). A
 * folder with the folders train and test is both, as LEAF's scripts make them; else without TEST hd_leaf_split(). A
 * user's rows are in one file of TRAIN; users of TEST need not be in TRAIN. 0; -errno of opening them, -EINVAL, -E2BIG,
 * -ENOMEM with "path: what" in error. */
#define HD_LEAF_FILES_MAX 4096 /* of a folder */
int hd_leaf_open(
	const char *names,
	struct hd_leaf *leaf,
	struct hd_dataset *test,
	char *error,
	size_t error_bytes
);

/*
 * Synthetic(alpha, beta) (FedProx, arXiv 1812.06127, 5.1): client k's model is W_k, b_k ~ N(u_k, 1), u_k ~ N(0, alpha);
 * its inputs x ~ N(v_k, S), v_k[j] ~ N(B_k, 1), B_k ~ N(0, beta), S diagonal, S_jj = j^-1.2; y = argmax(x W_k + b_k).
 * N's second argument is a standard deviation. `iid`: v_k = 0 and one W, b ~ N(0, 1) for all. Sizes are lognormal(4, 2)
 * + 50, at most `cap`. The first nine tenths of a client's rows are for training.
 */
#define HD_SYNTHETIC_CLIENTS 30
#define HD_SYNTHETIC_FEATURES 60
#define HD_SYNTHETIC_CLASSES 10
struct hd_synthetic_how {
	double alpha, beta;
	bool iid;
	uint64_t seed; /* the reference: 42 */
	uint32_t cap; /* the reference: 2000; 50 .. 1,000,000 */
};
struct hd_synthetic {
	uint32_t
		first[HD_SYNTHETIC_CLIENTS
		      + 1]; /* rows of client k: first[k] .. first[k + 1] - 1 */
	uint32_t train[HD_SYNTHETIC_CLIENTS]; /* of these, the first ones are for training */
	double *x; /* rows x HD_SYNTHETIC_FEATURES */
	uint8_t *y;
};
/* 0; -EINVAL (alpha, beta: not in 0..100; cap), -ENOMEM. */
int hd_synthetic_create(const struct hd_synthetic_how *how, struct hd_synthetic *data);
void hd_synthetic_fini(struct hd_synthetic *data);
/* The same as fp32 data sets. 0 or -ENOMEM. */
int hd_synthetic_split(
	const struct hd_synthetic *data,
	struct hd_dataset *train,
	struct hd_dataset *test,
	struct hd_clients *clients
);

/* --- inexactness -------------------------------------------------------------------------- */

/* A client's problem h(w; w_t) = F_k(w) + mu/2 |w - w_t|^2, and the point where the client stopped. Arrays of
 * `values`. */
struct hd_local_problem {
	uint64_t values;
	const float *w_t, *w;
	const double *grad_w_t, *grad_w; /* of F_k, the mean over all its rows, at w_t and w */
	double mu;
};
/* gamma = |grad h(w; w_t)| / |grad h(w_t; w_t)|, where grad h(w_t; w_t) = grad F_k(w_t) (FedProx, arXiv 1812.06127,
 * definition 2): 0 is an exact solution, 1 no better than the start. Below 0: undefined, as the client's gradient at
 * w_t is 0, or one is not finite, or gamma as a float is not. */
double hd_inexactness(const struct hd_local_problem *problem);

/* --- the reference ------------------------------------------------------------------------- */

struct hd_reference_how {
	double mu, rate; /* the reference: 0 or 1; 0.01 */
	double stragglers; /* share of the drawn clients that do not finish all epochs: 0 .. 1 */
	bool drop; /* drops them (FedAvg); else their partial work counts (FedProx) */
	uint32_t clients, epochs, batch; /* a round; 10, 20, 10; clients <= 30, epochs >= 2 */
};
/* Draws the clients of round `round` (from 0), first the stragglers: how->clients of `present`; and the epochs of each.
 * A pure function, which clients of the fabric use too. */
void hd_reference_draw(
	const struct hd_reference_how *how,
	uint32_t round,
	uint32_t present,
	uint32_t *client,
	uint32_t *epochs
);
/* Epochs of the straggler at `place`, 1 .. epochs - 1; the number of stragglers among the drawn clients. */
uint32_t hd_reference_epochs(uint32_t epochs, uint32_t round, uint32_t place);
uint32_t hd_reference_stragglers(double share, uint32_t clients);
/* The seed for the order of a client's rows in an epoch. */
uint64_t hd_reference_order(uint32_t round, uint32_t client, uint32_t epoch);

#define HD_REFERENCE_VALUES ((HD_SYNTHETIC_FEATURES + 1) * HD_SYNTHETIC_CLASSES)
struct hd_reference {
	struct hd_reference_how how;
	const struct hd_synthetic *data;
	uint32_t round;
	double w[HD_REFERENCE_VALUES]; /* feature by class; the last feature is 1 */
};
struct hd_reference_state {
	double loss; /* of all training rows */
	double accuracy; /* of all test rows */
	double variance; /* of the clients' gradients: mean over k of |grad F_k - grad f|^2 */
};
void hd_reference_init(
	struct hd_reference *reference,
	const struct hd_synthetic *data,
	const struct hd_reference_how *how
);
/* One round. 0; -ENOMEM; -ERANGE: no client is left to average. */
int hd_reference_step(struct hd_reference *reference);
void hd_reference_evaluate(const struct hd_reference *reference, struct hd_reference_state *state);

#endif
