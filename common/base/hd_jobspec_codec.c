/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_bytes.h"
#include "hd_jobspec.h"
#include "hd_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define JOBSPEC_VERSION 1 /* without div_max, which is 0 */
#define JOBSPEC_VERSION_DIV 2
#define JOBSPEC_VERSION_SYNC 3 /* version 2's fields, for a synchronous job */
#define JOBSPEC_VERSION_FEDERATED 4 /* then rounds: of a federated job */
#define JOBSPEC_VERSION_LATE 5 /* then the treatment of late updates, if they are not dropped */
#define JOBSPEC_VERSION_WAIT 6 /* then the limit of waiting for clients, if there is one */
#define JOBSPEC_VERSION_SCALE                                                                      \
	7 /* a synchronous job's, then the number of workers its rate is for */

/* In the byte of flags; every other bit is refused. */
#define FLAG_NOT_FINITE 1u
#define FLAG_UNSEALED 2u

/* Writes or reads at data + at, up to `bytes`. Once something did not fit or was invalid, `bad` stays set and nothing
 * more is touched, so that callers check once at the end. */
struct cursor {
	uint8_t *out; /* NULL when reading */
	const uint8_t *in;
	size_t at, bytes;
	bool bad;
};

/* False when fewer bytes than that remain. */
static bool advance(struct cursor *c, size_t bytes, size_t *at) {
	if (c->bad || c->bytes - c->at < bytes) {
		c->bad = true;
		return false;
	}
	*at = c->at;
	c->at += bytes;
	return true;
}

static void put(struct cursor *c, uint64_t x, size_t bytes) {
	size_t at;

	if (!advance(c, bytes, &at))
		return;
	for (size_t i = 0; i < bytes; i++)
		c->out[at + i] = (uint8_t)(x >> (8 * (bytes - 1 - i)));
}

static void put_float(struct cursor *c, float x) {
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	put(c, bits, 4);
}

static void put_name(struct cursor *c, const char *name) {
	size_t bytes = strnlen(name, HD_NAME_BYTES_MAX), at;

	put(c, bytes, 1);
	if (advance(c, bytes, &at))
		memcpy(c->out + at, name, bytes);
}

static uint64_t get(struct cursor *c, size_t bytes) {
	uint64_t x = 0;
	size_t at;

	if (!advance(c, bytes, &at))
		return 0;
	for (size_t i = 0; i < bytes; i++)
		x = x << 8 | c->in[at + i];
	return x;
}

static float get_float(struct cursor *c) {
	uint32_t bits = (uint32_t)get(c, 4);
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

static void get_name(struct cursor *c, char name[HD_NAME_BYTES_MAX + 1]) {
	size_t bytes = get(c, 1), at;

	memset(name, 0, HD_NAME_BYTES_MAX + 1);
	if (bytes > HD_NAME_BYTES_MAX)
		c->bad = true;
	if (!advance(c, bytes, &at))
		return;
	if (memchr(c->in + at, '\0', bytes))
		c->bad = true;
	memcpy(name, c->in + at, bytes);
}

static void put_federated(struct cursor *c, const struct hd_federated *f) {
	put(c, f->seed, 8);
	put(c, f->clients, 4);
	put(c, f->clients_least, 4);
	put(c, f->available, 4);
	put(c, f->deadline_ms, 4);
	put(c, f->epochs, 2);
	put(c, f->weighting, 1);
	put(c, f->drops, 1);
	put_float(c, f->mu);
	put(c, f->mu_adapts, 1);
	if (f->late != HD_LATE_DROP || f->wait_ms > 0)
		put(c, f->late, 1);
	if (f->wait_ms > 0)
		put(c, f->wait_ms, 4);
}

static uint16_t version_of(const struct hd_jobspec *spec) {
	if (spec->sync == HD_SYNC_FEDERATED && spec->federated.wait_ms > 0)
		return JOBSPEC_VERSION_WAIT;
	if (spec->sync == HD_SYNC_FEDERATED)
		return spec->federated.late != HD_LATE_DROP ? JOBSPEC_VERSION_LATE :
							      JOBSPEC_VERSION_FEDERATED;
	if (spec->sync != HD_SYNC_NONE)
		return spec->scale_base > 0 ? JOBSPEC_VERSION_SCALE : JOBSPEC_VERSION_SYNC;
	return spec->div_max > 0 ? JOBSPEC_VERSION_DIV : JOBSPEC_VERSION;
}

static unsigned flags_of(const struct hd_jobspec *spec) {
	return (spec->allow_not_finite ? FLAG_NOT_FINITE : 0)
		| (spec->unsealed ? FLAG_UNSEALED : 0);
}

int hd_jobspec_encode(const struct hd_jobspec *spec, uint8_t *data, size_t capacity) {
	struct cursor c = {.out = data, .bytes = capacity};
	bool synchronous = spec->sync != HD_SYNC_NONE;
	bool bounded = spec->div_max > 0 || synchronous;

	if (capacity > HD_MESSAGE_BYTES_MAX)
		c.bytes = HD_MESSAGE_BYTES_MAX;
	put(&c, version_of(spec), 2);
	put_name(&c, spec->tenant);
	put_name(&c, spec->name);
	put(&c, spec->seed, 8);
	put(&c, spec->optimizer, 1);
	put_float(&c, spec->learning_rate);
	put_float(&c, spec->momentum);
	put_float(&c, spec->weight_decay);
	put(&c, spec->staleness_rule, 1);
	put_float(&c, spec->staleness_c);
	put(&c, spec->tau_max, 4);
	put(&c, flags_of(spec), 1);
	if (bounded)
		put_float(&c, spec->div_max);
	if (synchronous) {
		put(&c, spec->sync, 1);
		put(&c, spec->sync_count, 4);
	}
	if (spec->sync == HD_SYNC_FEDERATED)
		put_federated(&c, &spec->federated);
	else if (synchronous && spec->scale_base > 0)
		put(&c, spec->scale_base, 4);
	put(&c, spec->tensor_count, 4);
	for (uint32_t i = 0; i < spec->tensor_count && !c.bad; i++) {
		const struct hd_tensor *t = &spec->tensors[i];

		put_name(&c, t->name);
		put(&c, t->dtype, 1);
		put(&c, t->dimension_count, 1);
		for (size_t k = 0; k < t->dimension_count && k < HD_DIMENSIONS_MAX; k++)
			put(&c, t->dimension[k], 8);
		put(&c, t->init, 1);
		put_float(&c, t->init_scale);
	}
	return c.bad ? -EMSGSIZE : (int)c.at;
}

static void get_tensor(struct cursor *c, struct hd_tensor *tensor) {
	get_name(c, tensor->name);
	tensor->dtype = (uint8_t)get(c, 1);
	tensor->dimension_count = (uint8_t)get(c, 1);
	if (tensor->dimension_count > HD_DIMENSIONS_MAX) {
		c->bad = true;
		return;
	}
	for (size_t k = 0; k < tensor->dimension_count; k++)
		tensor->dimension[k] = get(c, 8);
	tensor->init = (uint8_t)get(c, 1);
	tensor->init_scale = get_float(c);
}

static bool get_bool(struct cursor *c) {
	uint64_t x = get(c, 1);

	if (x > 1)
		c->bad = true;
	return x == 1;
}

static void get_federated(struct cursor *c, uint64_t version, struct hd_federated *f) {
	f->seed = get(c, 8);
	f->clients = (uint32_t)get(c, 4);
	f->clients_least = (uint32_t)get(c, 4);
	f->available = (uint32_t)get(c, 4);
	f->deadline_ms = (uint32_t)get(c, 4);
	f->epochs = (uint16_t)get(c, 2);
	f->weighting = (uint8_t)get(c, 1);
	f->drops = get_bool(c);
	f->mu = get_float(c);
	f->mu_adapts = get_bool(c);
	if (version >= JOBSPEC_VERSION_LATE)
		f->late = (uint8_t)get(c, 1);
	if (version >= JOBSPEC_VERSION_WAIT)
		f->wait_ms = (uint32_t)get(c, 4);
}

static void get_head(struct cursor *c, struct hd_jobspec *spec) {
	uint64_t version = get(c, 2);
	unsigned flags;

	if (version < JOBSPEC_VERSION || version > JOBSPEC_VERSION_SCALE)
		c->bad = true;
	get_name(c, spec->tenant);
	get_name(c, spec->name);
	spec->seed = get(c, 8);
	spec->optimizer = (uint8_t)get(c, 1);
	spec->learning_rate = get_float(c);
	spec->momentum = get_float(c);
	spec->weight_decay = get_float(c);
	spec->staleness_rule = (uint8_t)get(c, 1);
	spec->staleness_c = get_float(c);
	spec->tau_max = (uint32_t)get(c, 4);
	flags = (unsigned)get(c, 1);
	spec->allow_not_finite = (flags & FLAG_NOT_FINITE) != 0;
	spec->unsealed = (flags & FLAG_UNSEALED) != 0;
	spec->div_max = version >= JOBSPEC_VERSION_DIV ? get_float(c) : 0;
	if (version >= JOBSPEC_VERSION_SYNC) {
		spec->sync = (uint8_t)get(c, 1);
		spec->sync_count = (uint32_t)get(c, 4);
	}
	if (version == JOBSPEC_VERSION_SCALE)
		spec->scale_base = (uint32_t)get(c, 4);
	else if (version >= JOBSPEC_VERSION_FEDERATED)
		get_federated(c, version, &spec->federated);
	/* Each description has only one encoding. */
	if ((version == JOBSPEC_VERSION_DIV && !(spec->div_max > 0))
	    || (version >= JOBSPEC_VERSION_SYNC && version_of(spec) != version))
		c->bad = true;
	spec->tensor_count = (uint32_t)get(c, 4);
	if (flags != flags_of(spec) || spec->tensor_count == 0
	    || spec->tensor_count > HD_TENSORS_MAX)
		c->bad = true;
}

int hd_jobspec_decode(const uint8_t *data, size_t bytes, struct hd_jobspec *spec) {
	struct cursor c = {.in = data, .bytes = bytes};
	struct hd_jobspec decoded = {.tensors = NULL};
	char error[160];

	if (bytes > HD_MESSAGE_BYTES_MAX)
		return -EBADMSG;
	get_head(&c, &decoded);
	if (c.bad)
		return -EBADMSG;
	decoded.tensors = calloc(decoded.tensor_count, sizeof *decoded.tensors);
	if (!decoded.tensors)
		return -ENOMEM;
	for (uint32_t i = 0; i < decoded.tensor_count && !c.bad; i++)
		get_tensor(&c, &decoded.tensors[i]);
	if (c.bad || c.at != c.bytes || hd_jobspec_check(&decoded, error, sizeof error) < 0) {
		hd_jobspec_fini(&decoded);
		return -EBADMSG;
	}
	*spec = decoded;
	return 0;
}
