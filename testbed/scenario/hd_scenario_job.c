/* SPDX-License-Identifier: BSD-3-Clause */
/* The job of a scenario file. */
#include "hd_container.h"
#include "hd_fields.h"
#include "hd_jobspec.h"
#include "hd_scenario.h"
#include "hd_scenario_job.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define AT(type, member) offsetof(struct type, member)

static void
read_hidden(struct hd_reader *reader, const json_t *value, const char *path, void *into) {
	static const struct hd_field width = {"width", HD_FIELD_U32, 0, 1, 65536, true, NULL};
	struct hd_scenario_job *job = hd_container_of(into, struct hd_scenario_job, hidden);
	size_t count = json_array_size(value);

	if (!json_is_array(value) || count > HD_SCENARIO_LAYERS_MAX) {
		hd_reader_fail(reader, path, "must be an array (limit %d)", HD_SCENARIO_LAYERS_MAX);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		char where[HD_FIELD_PATH_BYTES];

		(void)snprintf(where, sizeof where, "%s[%zu]", path, i);
		hd_read_field(reader, json_array_get(value, i), where, &width, &job->hidden[i]);
	}
	job->hidden_count = (uint32_t)count;
}

static void read_rule(struct hd_reader *reader, const json_t *value, const char *path, void *into) {
	const char *text = json_string_value(value);
	uint8_t *rule = into;

	if (text && strcmp(text, "constant") == 0)
		*rule = HD_STALENESS_CONSTANT;
	else if (text && strcmp(text, "inverse-sqrt") == 0)
		*rule = HD_STALENESS_INV_SQRT;
	else if (text && strcmp(text, "adadelay") == 0)
		*rule = HD_STALENESS_ADADELAY;
	else
		hd_reader_fail(reader, path, "must be one of constant, inverse-sqrt, adadelay");
}

static const struct hd_field federated_fields[] = {
	{"clients", HD_FIELD_U32, AT(hd_federated, clients), 1, HD_WORKERS_MAX, true, NULL},
	{"min_clients",
	 HD_FIELD_U32,
	 AT(hd_federated, clients_least),
	 1,
	 HD_WORKERS_MAX,
	 false,
	 NULL},
	{"available", HD_FIELD_U32, AT(hd_federated, available), 0, HD_WORKERS_MAX, false, NULL},
	{"deadline_ms",
	 HD_FIELD_U32,
	 AT(hd_federated, deadline_ms),
	 0,
	 HD_ROUND_MS_MAX,
	 false,
	 NULL},
	{"wait_ms", HD_FIELD_U32, AT(hd_federated, wait_ms), 0, HD_ROUND_MS_MAX, false, NULL},
	{"seed", HD_FIELD_U64, AT(hd_federated, seed), 0, 9007199254740992.0, false, NULL},
	{0},
};

/* Simulated clients have no epochs: only the drawn clients, their time and their weights matter. */
static void
read_federated(struct hd_reader *reader, const json_t *value, const char *path, void *into) {
	struct hd_scenario_job *job = into;

	job->federated.clients_least = job->federated.epochs = 1;
	hd_read_object(reader, value, path, federated_fields, &job->federated);
	if (job->federated.clients_least > job->federated.clients)
		hd_reader_fail(reader, path, "min_clients: more than clients");
}

/* async, full, nsync:N, nbatch:N or federated. */
static void read_sync(struct hd_reader *reader, const json_t *value, const char *path, void *into) {
	const char *text = json_string_value(value);
	struct hd_scenario_job *job = hd_container_of(into, struct hd_scenario_job, sync);

	if (!text || hd_sync_parse(text, &job->sync, &job->sync_count) < 0)
		hd_reader_fail(
			reader,
			path,
			"must be async, full, nsync:N or nbatch:N (N: 1..%d), or federated",
			HD_WORKERS_MAX
		);
}

static bool type_of(const char *text, uint8_t *dtype) {
	static const char *const types[] = {"fp32", "fp16", "bf16"};

	for (uint8_t i = 0; text && i < 3; i++) {
		if (strcmp(text, types[i]) == 0) {
			*dtype = i;
			return true;
		}
	}
	return false;
}

static void
read_payload(struct hd_reader *reader, const json_t *value, const char *path, void *into) {
	const char *text = json_string_value(value);
	uint8_t *dtype = into;

	if (text && strcmp(text, "sparse") == 0)
		*dtype = HD_DTYPE_SPARSE32;
	else if (text && strcmp(text, "fixed32") == 0)
		*dtype = HD_DTYPE_FIXED32;
	else if (!type_of(text, dtype))
		hd_reader_fail(reader, path, "must be one of fp32, fp16, bf16, fixed32, sparse");
}

static void
read_pull_payload(struct hd_reader *reader, const json_t *value, const char *path, void *into) {
	if (!type_of(json_string_value(value), into))
		hd_reader_fail(reader, path, "must be one of fp32, fp16, bf16");
}

static const struct hd_field staleness_fields[] = {
	{"rule", HD_FIELD_OTHER, AT(hd_scenario_job, staleness_rule), 0, 0, false, read_rule},
	{"c", HD_FIELD_NUMBER, AT(hd_scenario_job, staleness_c), 1e-6, 1e6, false, NULL},
	{0},
};

static void
read_staleness(struct hd_reader *reader, const json_t *value, const char *path, void *into) {
	hd_read_object(reader, value, path, staleness_fields, into);
}

#define MODEL_BYTES_MAX 1099511627776.0

static const struct hd_field job_fields[] = {
	{"model", HD_FIELD_TEXT, AT(hd_scenario_job, model), 0, 16, false, NULL},
	{"hidden", HD_FIELD_OTHER, AT(hd_scenario_job, hidden), 0, 0, false, read_hidden},
	{"batch", HD_FIELD_U32, AT(hd_scenario_job, batch), 1, 65536, false, NULL},
	{"compute_ms", HD_FIELD_NUMBER, AT(hd_scenario_job, compute_ms), 0, 600000, false, NULL},
	{"tau_max", HD_FIELD_U32, AT(hd_scenario_job, tau_max), 1, 1000000, false, NULL},
	{"learning_rate",
	 HD_FIELD_NUMBER,
	 AT(hd_scenario_job, learning_rate),
	 1e-9,
	 1e3,
	 false,
	 NULL},
	{"momentum", HD_FIELD_NUMBER, AT(hd_scenario_job, momentum), 0, 0.999999, false, NULL},
	{"weight_decay", HD_FIELD_NUMBER, AT(hd_scenario_job, weight_decay), 0, 1, false, NULL},
	{"staleness", HD_FIELD_OTHER, 0, 0, 0, false, read_staleness},
	{"sync", HD_FIELD_OTHER, AT(hd_scenario_job, sync), 0, 0, false, read_sync},
	{"federated", HD_FIELD_OTHER, 0, 0, 0, false, read_federated},
	{"payload", HD_FIELD_OTHER, AT(hd_scenario_job, payload), 0, 0, false, read_payload},
	{"pull_payload",
	 HD_FIELD_OTHER,
	 AT(hd_scenario_job, pull_payload),
	 0,
	 0,
	 false,
	 read_pull_payload},
	{"target_accuracy",
	 HD_FIELD_NUMBER,
	 AT(hd_scenario_job, target_accuracy),
	 0,
	 1,
	 false,
	 NULL},
	{"update_bytes",
	 HD_FIELD_U64,
	 AT(hd_scenario_job, update_bytes),
	 4,
	 MODEL_BYTES_MAX,
	 false,
	 NULL},
	{0},
};

void hd_scenario_read_job(
	struct hd_reader *reader,
	const json_t *value,
	const char *path,
	void *into
) {
	struct hd_scenario_job *job = into;
	char where[HD_FIELD_PATH_BYTES];

	hd_read_object(reader, value, path, job_fields, job);
	hd_field_join(where, path, "model");
	if (strcmp(job->model, "mlp") != 0 && strcmp(job->model, "softmax") != 0)
		hd_reader_fail(reader, where, "must be one of mlp, softmax");
	hd_field_join(where, path, "federated");
	if ((job->sync == HD_SYNC_FEDERATED) != (job->federated.clients > 0))
		hd_reader_fail(reader, where, "must be there with sync federated, and only then");
	hd_field_join(where, path, "staleness.rule");
	if (job->sync != HD_SYNC_NONE && job->staleness_rule != HD_STALENESS_CONSTANT)
		hd_reader_fail(reader, where, "must be constant with sync");
	hd_field_join(where, path, "update_bytes");
	if (job->update_bytes % 4 != 0)
		hd_reader_fail(reader, where, "must be a multiple of 4");
}
