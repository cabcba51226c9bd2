/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_message.h"
#include "hd_safetensors.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HD_FORMAT "heddle-checkpoint-1"
#define HD_ALIGNMENT 8
#define HD_DUMP (JSON_COMPACT | JSON_SORT_KEYS)
/* "worker:round:delay:incarnation:counter " and "incarnation:last " */
#define HD_ROUND_TEXT_MAX 64
#define HD_INCARNATION_TEXT_MAX 32

static_assert(
	__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	"tensors are written as they lie in memory: little-endian"
);

/* --- writing ---------------------------------------------------------------------------------- */

static json_t *tensor_entry(const struct hd_tensor *tensor, uint64_t *offset) {
	json_t *shape = json_array();
	uint64_t begin = *offset, bytes = sizeof(float);

	for (uint8_t i = 0; i < tensor->dimension_count; i++) {
		json_array_append_new(shape, json_integer((json_int_t)tensor->dimension[i]));
		bytes *= tensor->dimension[i];
	}
	*offset += bytes;
	return json_pack(
		"{s:s, s:o, s:[I,I]}",
		"dtype",
		"F32",
		"shape",
		shape,
		"data_offsets",
		(json_int_t)begin,
		(json_int_t)*offset
	);
}

static int tensor_entries(json_t *root, const struct hd_jobspec *spec) {
	static const char *const part[] = {"model", "momentum"};
	char name[HD_NAME_BYTES_MAX + 16];
	uint64_t offset = 0;

	for (size_t p = 0; p < 2; p++) {
		for (uint32_t i = 0; i < spec->tensor_count; i++) {
			json_t *entry = tensor_entry(&spec->tensors[i], &offset);

			(void)snprintf(name, sizeof name, "%s/%s", part[p], spec->tensors[i].name);
			if (json_object_set_new(root, name, entry) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

static char *rounds_text(const struct hd_checkpoint *checkpoint) {
	size_t room = (size_t)checkpoint->round_count * HD_ROUND_TEXT_MAX + 1, at = 0;
	char *text = malloc(room);

	if (!text)
		return NULL;
	text[0] = '\0';
	for (uint32_t i = 0; i < checkpoint->round_count; i++) {
		const struct hd_last_round *row = &checkpoint->rounds[i];

		at += (size_t)snprintf(
			text + at,
			room - at,
			"%s%u:%" PRIu32 ":%" PRIu32 ":%u:%" PRIu64,
			i > 0 ? " " : "",
			row->worker,
			row->round,
			row->delay,
			hd_version_incarnation(row->version),
			hd_version_counter(row->version)
		);
	}
	return text;
}

static char *incarnations_text(const struct hd_checkpoint *checkpoint) {
	size_t room = (size_t)checkpoint->prior_count * HD_INCARNATION_TEXT_MAX + 1, at = 0;
	char *text = malloc(room);

	if (!text)
		return NULL;
	text[0] = '\0';
	for (uint32_t i = 0; i < checkpoint->prior_count; i++) {
		at += (size_t)snprintf(
			text + at,
			room - at,
			"%s%u:%" PRIu64,
			i > 0 ? " " : "",
			checkpoint->prior[i].incarnation,
			checkpoint->prior[i].last
		);
	}
	return text;
}

/* Text fields, owned by the caller: NULL when one cannot be made. */
static char *spec_text(const struct hd_jobspec *spec) {
	uint8_t *data = malloc(HD_MESSAGE_BYTES_MAX);
	char *text = NULL;
	int bytes;

	if (!data)
		return NULL;
	bytes = hd_jobspec_encode(spec, data, HD_MESSAGE_BYTES_MAX);
	if (bytes > 0)
		text = malloc(2 * (size_t)bytes + 1);
	if (text)
		sodium_bin2hex(text, 2 * (size_t)bytes + 1, data, (size_t)bytes);
	free(data);
	return text;
}

static int metadata_number(json_t *metadata, const char *key, double value) {
	char text[64];

	(void)snprintf(text, sizeof text, "%.9g", value);
	return json_object_set_new(metadata, key, json_string(text));
}

/* Fields for human readers; programs read `spec`. */
static int metadata_about(json_t *metadata, const struct hd_checkpoint *checkpoint) {
	const struct hd_jobspec *spec = &checkpoint->spec;
	char version[48], seed[24], tau[16];
	int rc = 0;

	(void)snprintf(
		version,
		sizeof version,
		"%u:%" PRIu64,
		hd_version_incarnation(checkpoint->version),
		hd_version_counter(checkpoint->version)
	);
	(void)snprintf(seed, sizeof seed, "%" PRIu64, spec->seed);
	(void)snprintf(tau, sizeof tau, "%" PRIu32, spec->tau_max);
	rc |= json_object_set_new(metadata, "format", json_string(HD_FORMAT));
	rc |= json_object_set_new(metadata, "version", json_string(version));
	rc |= json_object_set_new(metadata, "tenant", json_string(spec->tenant));
	rc |= json_object_set_new(metadata, "name", json_string(spec->name));
	rc |= json_object_set_new(metadata, "seed", json_string(seed));
	rc |= json_object_set_new(metadata, "tau_max", json_string(tau));
	rc |= metadata_number(metadata, "learning_rate", (double)spec->learning_rate);
	rc |= metadata_number(metadata, "momentum", (double)spec->momentum);
	rc |= metadata_number(metadata, "weight_decay", (double)spec->weight_decay);
	return rc < 0 ? -ENOMEM : 0;
}

/* The header without its hash. */
static json_t *header_make(const struct hd_checkpoint *checkpoint) {
	char *spec = spec_text(&checkpoint->spec);
	char *rounds = rounds_text(checkpoint);
	char *prior = incarnations_text(checkpoint);
	json_t *root = json_object(), *metadata = json_object();
	int rc = !spec || !rounds || !prior ? -ENOMEM : 0;

	if (rc == 0) {
		rc |= json_object_set_new(metadata, "spec", json_string(spec));
		rc |= json_object_set_new(metadata, "rounds", json_string(rounds));
		rc |= json_object_set_new(metadata, "lives", json_string(prior));
		rc |= metadata_about(metadata, checkpoint);
		rc |= tensor_entries(root, &checkpoint->spec);
	}
	rc |= json_object_set_new(root, "__metadata__", metadata);
	free(spec);
	free(rounds);
	free(prior);
	if (rc != 0) {
		json_decref(root);
		return NULL;
	}
	return root;
}

static int header_hash(
	const struct hd_checkpoint *checkpoint,
	json_t *root,
	uint8_t hash[HD_SAFETENSORS_HASH_BYTES]
) {
	uint64_t bytes = checkpoint->values * sizeof(float);
	char *text = json_dumps(root, HD_DUMP);
	crypto_generichash_state state;

	if (!text)
		return -ENOMEM;
	crypto_generichash_init(&state, NULL, 0, HD_SAFETENSORS_HASH_BYTES);
	crypto_generichash_update(&state, (const uint8_t *)text, strlen(text));
	crypto_generichash_update(&state, (const uint8_t *)checkpoint->model, bytes);
	crypto_generichash_update(&state, (const uint8_t *)checkpoint->momentum, bytes);
	crypto_generichash_final(&state, hash, HD_SAFETENSORS_HASH_BYTES);
	free(text);
	return 0;
}

static int header_frame(json_t *root, uint8_t **header, size_t *bytes) {
	size_t length = json_dumpb(root, NULL, 0, HD_DUMP);
	size_t padded = (length + HD_ALIGNMENT - 1) / HD_ALIGNMENT * HD_ALIGNMENT;
	uint8_t *out;

	if (padded > HD_SAFETENSORS_HEADER_MAX)
		return -EMSGSIZE;
	out = length > 0 ? malloc(padded + HD_SAFETENSORS_LENGTH_BYTES) : NULL;
	if (!out)
		return -ENOMEM;
	for (size_t i = 0; i < HD_SAFETENSORS_LENGTH_BYTES; i++)
		out[i] = (uint8_t)(padded >> (8 * i));
	memset(out + HD_SAFETENSORS_LENGTH_BYTES, ' ', padded);
	if (json_dumpb(root, (char *)out + HD_SAFETENSORS_LENGTH_BYTES, length, HD_DUMP)
	    != length) {
		free(out);
		return -ENOMEM;
	}
	*header = out;
	*bytes = padded + HD_SAFETENSORS_LENGTH_BYTES;
	return 0;
}

int hd_safetensors_write(const struct hd_checkpoint *checkpoint, uint8_t **header, size_t *bytes) {
	uint8_t hash[HD_SAFETENSORS_HASH_BYTES];
	char hex[2 * HD_SAFETENSORS_HASH_BYTES + 1];
	json_t *root = header_make(checkpoint);
	int rc;

	if (!root)
		return -ENOMEM;
	rc = header_hash(checkpoint, root, hash);
	if (rc == 0) {
		sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
		rc = json_object_set_new(
			json_object_get(root, "__metadata__"), "blake2b", json_string(hex)
		);
	}
	rc = rc < 0 ? -ENOMEM : header_frame(root, header, bytes);
	json_decref(root);
	return rc;
}

/* --- reading ---------------------------------------------------------------------------------- */

int64_t hd_safetensors_length(const uint8_t first[HD_SAFETENSORS_LENGTH_BYTES]) {
	uint64_t length = 0;

	for (size_t i = 0; i < HD_SAFETENSORS_LENGTH_BYTES; i++)
		length |= (uint64_t)first[i] << (8 * i);
	return length == 0 || length > HD_SAFETENSORS_HEADER_MAX ? -EBADMSG : (int64_t)length;
}

/* Reads "number<end>" and moves on. False when it is not one, or greater than `most`. */
static bool take(const char **text, uint64_t most, char end, uint64_t *value) {
	const char *at = *text;
	uint64_t sum = 0;

	if (*at < '0' || *at > '9')
		return false;
	for (; *at >= '0' && *at <= '9'; at++) {
		uint64_t digit = (uint64_t)(*at - '0');

		if (sum > (most - digit) / 10)
			return false;
		sum = sum * 10 + digit;
	}
	if (*at != end && *at != '\0')
		return false;
	/* The last number of a text ends with it. */
	if (*at == '\0' && end != ' ')
		return false;
	*text = *at == '\0' ? at : at + 1;
	*value = sum;
	return true;
}

static uint32_t count_words(const char *text) {
	uint32_t count = *text != '\0' ? 1 : 0;

	for (; *text != '\0'; text++)
		count += *text == ' ' ? 1 : 0;
	return count;
}

static int read_version(const char *text, hd_version *version) {
	uint64_t incarnation, counter;

	if (!take(&text, UINT16_MAX, ':', &incarnation)
	    || !take(&text, HD_VERSION_COUNTER_MAX, ' ', &counter) || *text != '\0')
		return -EBADMSG;
	*version = hd_version_make((uint16_t)incarnation, counter);
	return 0;
}

static int read_incarnations(const char *text, struct hd_checkpoint *checkpoint) {
	uint32_t count = count_words(text);
	uint64_t incarnation, last;

	if (count > HD_INCARNATIONS_MAX)
		return -EBADMSG;
	checkpoint->prior = calloc(count + 1, sizeof *checkpoint->prior);
	if (!checkpoint->prior)
		return -ENOMEM;
	while (*text != '\0') {
		if (!take(&text, UINT16_MAX, ':', &incarnation)
		    || !take(&text, HD_VERSION_COUNTER_MAX, ' ', &last))
			return -EBADMSG;
		checkpoint->prior[checkpoint->prior_count++]
			= (struct hd_incarnation){(uint16_t)incarnation, last};
	}
	return 0;
}

static int read_rounds(const char *text, struct hd_checkpoint *checkpoint) {
	uint32_t count = count_words(text);
	uint64_t worker, round, delay, incarnation, counter;

	if (count > HD_WORKERS_MAX * HD_ROUNDS_KEPT)
		return -EBADMSG;
	checkpoint->rounds = calloc(count + 1, sizeof *checkpoint->rounds);
	if (!checkpoint->rounds)
		return -ENOMEM;
	while (*text != '\0') {
		if (!take(&text, HD_WORKERS_MAX - 1, ':', &worker)
		    || !take(&text, UINT32_MAX, ':', &round)
		    || !take(&text, UINT32_MAX, ':', &delay)
		    || !take(&text, UINT16_MAX, ':', &incarnation)
		    || !take(&text, HD_VERSION_COUNTER_MAX, ' ', &counter))
			return -EBADMSG;
		checkpoint->rounds[checkpoint->round_count++] = (struct hd_last_round){
			.worker = (uint16_t)worker,
			.outcome = counter > 0 ? HD_OUTCOME_APPLIED : HD_OUTCOME_PENDING,
			.round = (uint32_t)round,
			.delay = (uint32_t)delay,
			.version = hd_version_make((uint16_t)incarnation, counter),
		};
	}
	return 0;
}

static int read_spec(const char *text, struct hd_checkpoint *checkpoint) {
	size_t length = strlen(text), bytes = 0;
	uint8_t *data;
	int rc;

	if (length == 0 || length % 2 != 0 || length / 2 > HD_MESSAGE_BYTES_MAX)
		return -EBADMSG;
	data = malloc(length / 2);
	if (!data)
		return -ENOMEM;
	rc = sodium_hex2bin(data, length / 2, text, length, NULL, &bytes, NULL);
	if (rc == 0 && bytes == length / 2)
		rc = hd_jobspec_decode(data, bytes, &checkpoint->spec);
	else
		rc = -EBADMSG;
	free(data);
	return rc;
}

static const char *metadata_text(json_t *root, const char *key) {
	return json_string_value(json_object_get(json_object_get(root, "__metadata__"), key));
}

static int read_fields(json_t *root, struct hd_checkpoint *checkpoint, const char **field) {
	static const char *const names[] = {"format", "version", "spec", "lives", "rounds"};
	const char *text[5];
	int rc;

	for (size_t i = 0; i < 5; i++) {
		*field = names[i];
		text[i] = metadata_text(root, names[i]);
		if (!text[i])
			return -EBADMSG;
	}
	*field = "format";
	if (strcmp(text[0], HD_FORMAT) != 0)
		return -EBADMSG;
	*field = "version";
	rc = read_version(text[1], &checkpoint->version);
	if (rc == 0) {
		*field = "spec";
		rc = read_spec(text[2], checkpoint);
	}
	if (rc == 0) {
		*field = "lives";
		rc = read_incarnations(text[3], checkpoint);
	}
	if (rc == 0) {
		*field = "rounds";
		rc = read_rounds(text[4], checkpoint);
	}
	return rc;
}

static int read_hash(json_t *root, uint8_t hash[HD_SAFETENSORS_HASH_BYTES]) {
	const char *text = metadata_text(root, "blake2b");
	size_t bytes = 0;

	if (!text
	    || sodium_hex2bin(
		       hash, HD_SAFETENSORS_HASH_BYTES, text, strlen(text), NULL, &bytes, NULL
	       ) != 0
	    || bytes != HD_SAFETENSORS_HASH_BYTES)
		return -EBADMSG;
	return json_object_del(json_object_get(root, "__metadata__"), "blake2b");
}

/* The header must be what we would write for this state: names, shapes and offsets too. */
static int read_same(json_t *root, const struct hd_checkpoint *checkpoint) {
	json_t *expected = header_make(checkpoint);
	int rc = -ENOMEM;

	if (expected) {
		rc = json_equal(root, expected) ? 0 : -EBADMSG;
		json_decref(expected);
	}
	return rc;
}

int hd_safetensors_read(
	const uint8_t *header,
	size_t bytes,
	struct hd_checkpoint *checkpoint,
	uint8_t hash[HD_SAFETENSORS_HASH_BYTES],
	char *error,
	size_t error_bytes
) {
	struct hd_checkpoint found = {0};
	const char *field = "blake2b";
	json_error_t where;
	json_t *root = json_loadb((const char *)header, bytes, JSON_REJECT_DUPLICATES, &where);
	int rc;

	if (!root) {
		(void)snprintf(error, error_bytes, "header: no JSON: %s", where.text);
		return -EBADMSG;
	}
	rc = read_hash(root, hash);
	if (rc == 0)
		rc = read_fields(root, &found, &field);
	if (rc == 0) {
		field = "tensors";
		found.job = hd_job_id(found.spec.tenant, found.spec.name);
		found.values = hd_jobspec_values(&found.spec);
		rc = read_same(root, &found);
	}
	json_decref(root);
	if (rc < 0) {
		(void)snprintf(error, error_bytes, "header: %s is missing or wrong", field);
		hd_safetensors_free(&found);
		return rc == -ENOMEM ? rc : -EBADMSG;
	}
	*checkpoint = found;
	return 0;
}

int hd_safetensors_check(
	const struct hd_checkpoint *checkpoint,
	const uint8_t hash[HD_SAFETENSORS_HASH_BYTES]
) {
	uint8_t found[HD_SAFETENSORS_HASH_BYTES];
	json_t *root = header_make(checkpoint);
	int rc = root ? header_hash(checkpoint, root, found) : -ENOMEM;

	json_decref(root);
	if (rc == 0 && memcmp(found, hash, sizeof found) != 0)
		rc = -EBADMSG;
	return rc;
}

void hd_safetensors_free(struct hd_checkpoint *checkpoint) {
	free(checkpoint->model);
	free(checkpoint->momentum);
	free(checkpoint->rounds);
	free(checkpoint->prior);
	hd_jobspec_fini(&checkpoint->spec);
	*checkpoint = (struct hd_checkpoint){0};
}
