/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The description of a job. The first worker's JOIN creates the job at the server; every later JOIN must carry an equal
 * description or is refused with the difference. Encoded form: version:16, then the fields in order, big-endian, names
 * length-prefixed; the decoder accepts any bytes; at most HD_MESSAGE_BYTES_MAX.
 */
#ifndef HD_JOBSPEC_H
#define HD_JOBSPEC_H

#include "hd_limits.h"
#include "hd_types.h"

enum hd_init {
	HD_INIT_ZERO = 0,
	HD_INIT_UNIFORM = 1 /* uniform in [-init_scale, init_scale), from seed and tensor index */
};

struct hd_tensor {
	char name[HD_NAME_BYTES_MAX + 1];
	uint8_t dtype; /* enum hd_dtype */
	uint8_t dimension_count;
	uint64_t dimension[HD_DIMENSIONS_MAX];
	uint8_t init;
	float init_scale;
};

enum hd_optimizer {
	HD_OPTIMIZER_SGD = 0 /* h <- momentum h - lr (g + decay w);  w <- w + h */
};

/* The weight of a client's update in its round's mean. */
enum hd_weighting {
	HD_WEIGHTING_SAMPLES = 0, /* the number of its samples */
	HD_WEIGHTING_UNIFORM = 1
};

/* The treatment of an update whose round is over. */
enum hd_late {
	HD_LATE_DROP = 0,
	HD_LATE_WEIGHT
		= 1 /* it counts in the current round, halved for each step that it is late */
};
#define HD_LATE_STEPS_MAX 16 /* later than this many steps, or than tau_max, it is dropped */

/* Rounds of a federated job (docs/fedprox.md). */
struct hd_federated {
	uint64_t seed; /* with the round's number it determines the draw */
	uint32_t clients; /* workers drawn for a round: 1 .. HD_WORKERS_MAX */
	uint32_t clients_least; /* updates needed to end a round: 1 .. clients */
	uint32_t available; /* workers that the first round waits for: at most HD_WORKERS_MAX */
	uint32_t deadline_ms; /* of a round; 0: none; at most a day */
	uint16_t epochs; /* that a client does if time allows: >= 1 */
	uint8_t weighting; /* enum hd_weighting */
	bool drops; /* drops updates of fewer epochs; else they count */
	float mu; /* of the proximal term; if adaptive, the first */
	bool mu_adapts;
	uint8_t late; /* enum hd_late */
	/* How long a round waits for missing clients before the waiting workers are told; 0: for ever; at most a
	 * day. */
	uint32_t wait_ms;
};
#define HD_ROUND_MS_MAX 86400000

struct hd_jobspec {
	char tenant[HD_NAME_BYTES_MAX + 1];
	char name[HD_NAME_BYTES_MAX + 1];
	uint64_t seed;
	uint8_t optimizer;
	float learning_rate;
	float momentum;
	float weight_decay;
	uint8_t staleness_rule; /* enum hd_staleness_rule */
	float staleness_c; /* C; ignored by CONSTANT */
	uint32_t tau_max; /* >= 1 */
	bool allow_not_finite;
	bool unsealed; /* integrity off: chunks between hosts carry no MAC (docs/wire.md, "Sealed chunks") */
	/* Maximum distance of a replica from the server: ||w_s - w_r||; 0: unlimited. */
	float div_max;
	/* When the server makes a step (enum hd_sync): of every update alone, or of several with the same base, as one
	 * step of their mean. `sync_count`: how many, for N and N_BATCH; else 0. */
	uint8_t sync;
	uint32_t sync_count;
	/* The number of workers that the learning rate is chosen for: a synchronous step is multiplied by the current
	 * number of workers over it (hd_roster_scale()). 0: steps are not scaled. */
	uint32_t scale_base;
	struct hd_federated federated; /* of HD_SYNC_FEDERATED; else all 0 */
	uint32_t tensor_count; /* 0: a job of all-reduces, which has no model and no server */
	struct hd_tensor *tensors;
};

/* The job's 32-bit id: FNV-1a over "tenant/name", never 0. */
uint32_t hd_job_id(const char *tenant, const char *name);

/* 0, or -EINVAL with "field: what, limit" in error. */
int hd_jobspec_check(const struct hd_jobspec *spec, char *error, size_t error_bytes);
/* Values of all tensors; the model is their concatenation in order. 0: beyond the limit. */
uint64_t hd_jobspec_values(const struct hd_jobspec *spec);
uint64_t hd_jobspec_model_bytes(const struct hd_jobspec *spec);

/* Returns bytes or -EMSGSIZE. */
int hd_jobspec_encode(const struct hd_jobspec *spec, uint8_t *data, size_t capacity);
/* Returns 0 (free with hd_jobspec_fini), -EBADMSG, -ENOMEM. Checks like hd_jobspec_check. */
int hd_jobspec_decode(const uint8_t *data, size_t bytes, struct hd_jobspec *spec);
void hd_jobspec_fini(struct hd_jobspec *spec);

/* True when equal; else the first difference as text: "tensor 3 (fc1.weight): shape 64x128, the job has 64x100". */
bool hd_jobspec_equal(
	const struct hd_jobspec *mine,
	const struct hd_jobspec *theirs,
	char *difference,
	size_t difference_bytes
);

/* Fills values[] of the whole model from the spec's seed: the same on every machine. */
void hd_jobspec_initialize(const struct hd_jobspec *spec, float *values);

/* "on" or "off": whether the chunks of a job carry a MAC. */
const char *hd_integrity_name(bool unsealed);

/* "async", "full", "nsync", "nbatch", "federated"; "unknown" otherwise. */
const char *hd_sync_name(uint8_t sync);

/* "async", "full", "nsync:4", "nbatch:4" or "federated". 0, or -EINVAL with both untouched. */
int hd_sync_parse(const char *text, uint8_t *sync, uint32_t *count);

/* The weight of an update applied as the t-th (t >= 1) with delay tau (papers: constant 1,
 * C/sqrt(tau_max t), AdaDelay C/sqrt(t + tau)). Finite and > 0 for any input. */
float hd_staleness_weight(uint8_t rule, float c, uint32_t tau_max, uint64_t t, uint32_t tau);

#endif
