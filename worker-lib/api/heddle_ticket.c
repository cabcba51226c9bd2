/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes, pulls and their tickets, as the caller sees them. */
#include "hd_kernels.h"
#include "heddle_private.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- under the lock ------------------------------------------------------------------------- */

void heddle_count_end(struct heddle *fabric) {
	uint64_t one = 1;

	fabric->ends++;
	if (fabric->ended_fd >= 0 && write(fabric->ended_fd, &one, sizeof one) < 0) {
		/* EAGAIN: the counter is full, so the descriptor is readable. */
	}
}

void heddle_ticket_end(
	struct heddle_ticket *ticket,
	enum heddle_state state,
	enum heddle_reason reason
) {
	ticket->status.state = state;
	ticket->status.reason = reason;
	if (ticket->ended)
		return;
	ticket->ended = true;
	ticket->status.ended_ns = hd_driver_now();
	heddle_count_end(ticket->fabric);
}

void heddle_ticket_unref(struct heddle_ticket *ticket) {
	if (--ticket->references > 0)
		return;
	ticket->fabric->references--;
	free(ticket);
}

/* The next update has the same size, and fresh pages cost more than the copy. */
static void give_back(struct heddle_ticket *ticket) {
	struct heddle *fabric = ticket->fabric;

	if (ticket->copy_bytes > fabric->spare_bytes) {
		free(fabric->spare);
		fabric->spare = ticket->copy;
		fabric->spare_bytes = ticket->copy_bytes;
	} else {
		free(ticket->copy);
	}
	ticket->copy = NULL;
	ticket->copy_bytes = 0;
}

int heddle_ticket_copy(struct heddle *fabric, struct heddle_ticket *ticket, size_t bytes) {
	pthread_mutex_lock(&fabric->lock);
	/* One that is far too big stays for whoever needs it. */
	if (fabric->spare_bytes >= bytes && fabric->spare_bytes / 2 <= bytes) {
		ticket->copy = fabric->spare;
		ticket->copy_bytes = fabric->spare_bytes;
		fabric->spare = NULL;
		fabric->spare_bytes = 0;
	}
	pthread_mutex_unlock(&fabric->lock);
	if (ticket->copy)
		return 0;
	ticket->copy = malloc(bytes);
	ticket->copy_bytes = ticket->copy ? bytes : 0;
	return ticket->copy ? 0 : -ENOMEM;
}

void heddle_ticket_let_go(struct heddle_ticket *ticket) {
	if (ticket->let_go)
		return;
	ticket->let_go = true;
	ticket->status.released = 1;
	if (!ticket->keeps)
		give_back(ticket);
	TAILQ_REMOVE(&ticket->fabric->tickets, ticket, link);
	heddle_ticket_unref(ticket);
}

void heddle_ticket_taken(struct heddle_ticket *ticket) {
	ticket->keeps = false;
	if (ticket->let_go)
		give_back(ticket);
}

void heddle_unlock_unref(struct heddle *fabric, unsigned references) {
	bool last;

	fabric->references -= references;
	last = fabric->references == 0;
	pthread_mutex_unlock(&fabric->lock);
	if (!last)
		return;
	pthread_cond_destroy(&fabric->changed);
	pthread_mutex_destroy(&fabric->lock);
	free(fabric->spare);
	free(fabric);
}

/* --- beginning ------------------------------------------------------------------------------ */

int heddle_check_memory(enum heddle_memory memory, const void *stream) {
	if (memory == HEDDLE_MEMORY_CUDA)
		return heddle_fail(-ENOTSUP, "memory: this build has no CUDA");
	if (memory != HEDDLE_MEMORY_HOST)
		return heddle_fail(-EINVAL, "memory: kind %d is unknown", (int)memory);
	if (stream)
		return heddle_fail(-EINVAL, "stream: host memory has none");
	return 0;
}

int heddle_check_payload(enum heddle_payload payload) {
	if (payload == HEDDLE_PAYLOAD_FP32 || payload == HEDDLE_PAYLOAD_FP16
	    || payload == HEDDLE_PAYLOAD_BF16)
		return 0;
	return heddle_fail(-EINVAL, "payload: type %d is unknown", (int)payload);
}

/* Which value is NaN or Inf, by the tensor that it is in. */
static int say_not_finite(const struct heddle *fabric, uint64_t index, float value) {
	const struct hd_jobspec *job = &fabric->spec->job;
	uint64_t first = 0;

	for (uint32_t i = 0; i < job->tensor_count; i++) {
		const struct hd_tensor *tensor = &job->tensors[i];
		uint64_t values = 1;

		for (uint32_t d = 0; d < tensor->dimension_count; d++)
			values *= tensor->dimension[d];
		if (index < first + values)
			return heddle_fail(
				-EDOM,
				"tensor %s: value %llu is %g%s",
				tensor->name,
				(unsigned long long)(index - first),
				(double)value,
				isfinite(value) ? ": beyond the payload type's range" : ""
			);
		first += values;
	}
	return heddle_fail(-EDOM, "value %llu", (unsigned long long)index);
}

/* Of what is sent. */
int heddle_ticket_finite(const struct heddle *fabric, const struct heddle_ticket *ticket) {
	uint64_t at;
	float value;

	if (fabric->spec->job.allow_not_finite && ticket->dtype != HD_DTYPE_FIXED32)
		return 0;
	at = hd_find_not_finite_as(ticket->dtype, ticket->data, ticket->values);
	if (at == ticket->values)
		return 0;
	value = ticket->data[at];
	for (size_t i = 0; i < ticket->run_count; i++) {
		if (at < ticket->runs[i].count) {
			at += ticket->runs[i].first;
			break;
		}
		at -= ticket->runs[i].count;
	}
	return say_not_finite(fabric, at, value);
}

struct heddle_ticket *heddle_ticket_new(struct heddle *fabric, int direction) {
	struct heddle_ticket *ticket = calloc(1, sizeof *ticket);

	if (!ticket)
		return NULL;
	ticket->fabric = fabric;
	ticket->references = 3; /* the caller's, the library's, the queue's */
	ticket->status.direction = direction;
	ticket->status.bytes = fabric->values * sizeof(float);
	ticket->status.asked_ns = hd_driver_now();
	return ticket;
}

/* Puts it into the queue, or frees it. */
int heddle_ticket_enqueue(struct heddle *fabric, struct heddle_ticket *ticket) {
	struct heddle_ticket_ring *ring = &fabric->commands;
	int rc = 0;

	pthread_mutex_lock(&fabric->lock);
	if (fabric->refused)
		rc = heddle_fail(-ECONNREFUSED, "%s", fabric->refusal);
	else if (fabric->socket_error < 0)
		rc = heddle_fail(
			fabric->socket_error, "socket: %s", heddle_strerror(fabric->socket_error)
		);
	else if (fabric->closing)
		rc = heddle_fail(-ESHUTDOWN, "heddle_leave() was called");
	else if (fabric->left || hd_driver_now() >= fabric->flush_at)
		rc = heddle_fail(-ESHUTDOWN, "preempted: no time is left for it");
	else if (ring->count == HEDDLE_COMMANDS_MAX)
		rc = heddle_fail(
			-EAGAIN, "%d calls wait (HEDDLE_COMMANDS_MAX)", HEDDLE_COMMANDS_MAX
		);
	if (rc == 0) {
		ring->item[(ring->head + ring->count) % HEDDLE_COMMANDS_MAX] = ticket;
		ring->count++;
		fabric->references++;
		TAILQ_INSERT_TAIL(&fabric->tickets, ticket, link);
	}
	pthread_mutex_unlock(&fabric->lock);
	if (rc < 0) {
		free(ticket->copy);
		free(ticket);
		return rc;
	}
	hd_driver_wake(fabric->driver);
	return 0;
}

/* What a push hands over, checked. */
struct update {
	const struct hd_run *runs; /* NULL: dense */
	size_t run_count;
	const float *data;
	uint64_t values;
	uint8_t dtype;
	bool borrow;
	float scale;
};

static int check_options(
	const struct heddle_push_options *options,
	struct heddle_push_options *given,
	const float *data,
	struct heddle_ticket **out
) {
	static const struct heddle_push_options plain = HEDDLE_PUSH_OPTIONS_INIT;
	int rc;

	if (options && options->size < offsetof(struct heddle_push_options, scale))
		return heddle_fail(-EINVAL, "push options: size");
	if (!data || !out)
		return heddle_fail(-EINVAL, "data or ticket: NULL");
	*given = plain;
	if (options)
		memcpy(given, options, options->size < sizeof plain ? options->size : sizeof plain);
	if (!(given->scale >= 0.0f) || isinf(given->scale))
		return heddle_fail(
			-EINVAL, "scale: %g is not above 0 (0: 1)", (double)given->scale
		);
	rc = heddle_check_memory(given->memory, given->stream);
	if (rc < 0 || given->payload == HEDDLE_PAYLOAD_FIXED32)
		return rc;
	return heddle_check_payload(given->payload);
}

/* Runs and data in one piece, unless they are borrowed and sent as they are. */
static bool take(struct heddle *fabric, struct heddle_ticket *ticket, const struct update *update) {
	size_t runs = update->run_count * sizeof(struct hd_run);
	size_t data = update->values * sizeof(float);
	bool scaled = update->scale < 1.0f || update->scale > 1.0f;
	float *copy;

	ticket->runs = update->runs;
	ticket->run_count = update->run_count;
	ticket->data = update->data;
	ticket->values = update->values;
	ticket->dtype = update->dtype;
	if (update->borrow && !scaled)
		return true;
	if (heddle_ticket_copy(fabric, ticket, runs + data) < 0)
		return false;
	if (update->runs)
		ticket->runs = memcpy(ticket->copy, update->runs, runs);
	copy = (float *)(void *)((char *)ticket->copy + runs);
	if (scaled)
		hd_scale_f32(copy, update->data, update->values, update->scale);
	else
		memcpy(copy, update->data, data);
	ticket->data = copy;
	return true;
}

static void take_options(struct update *update, const struct heddle_push_options *given) {
	update->borrow = given->borrow != 0;
	update->scale = given->scale > 0.0f ? given->scale : 1.0f;
}

static int
push(struct heddle *fabric, const struct update *update, uint64_t base, struct heddle_ticket **out
) {
	struct heddle_ticket *ticket;
	int rc;

	/* It would weigh nothing that anybody has said. A filter's pushes come here too. */
	if (fabric->spec->job.sync == HD_SYNC_FEDERATED)
		return heddle_fail(
			-EINVAL,
			"a federated job's updates go by heddle_round_push(), whole and unfiltered"
		);
	ticket = heddle_ticket_new(fabric, 0);
	if (!ticket || !take(fabric, ticket, update)) {
		free(ticket);
		return heddle_fail(-ENOMEM, "no memory");
	}
	rc = heddle_ticket_finite(fabric, ticket);
	if (rc < 0) {
		free(ticket->copy);
		free(ticket);
		return rc;
	}
	ticket->status.bytes = fabric->values * hd_dtype_bytes(update->dtype);
	if (update->runs)
		ticket->status.bytes = hd_runs_bytes(
			update->runs, update->run_count, hd_worker_chunk_bytes(fabric->worker)
		);
	ticket->status.base = base;
	rc = heddle_ticket_enqueue(fabric, ticket);
	if (rc == 0)
		*out = ticket;
	return rc;
}

int heddle_push(
	struct heddle *fabric,
	const float *data,
	uint64_t base,
	const struct heddle_push_options *options,
	struct heddle_ticket **out
) {
	struct update update = {.data = data};
	struct heddle_push_options given;
	int rc = heddle_check(fabric);

	if (rc != 0)
		return rc;
	rc = check_options(options, &given, data, out);
	if (rc != 0)
		return rc;
	update.values = fabric->values;
	update.dtype = (uint8_t)given.payload;
	take_options(&update, &given);
	return push(fabric, &update, base, out);
}

/* The values of the runs, and what they are to be. */
static int check_sparse(struct heddle *fabric, struct update *update) {
	uint32_t chunk_bytes = hd_worker_chunk_bytes(fabric->worker);

	if (!update->runs || chunk_bytes < HD_RUN_BYTES_MIN
	    || hd_runs_check(update->runs, update->run_count, fabric->values, &update->values) < 0)
		return heddle_fail(
			-EINVAL,
			"runs: they must ascend within the model's %llu values, disjoint, none empty",
			(unsigned long long)fabric->values
		);
	if (hd_runs_bytes(update->runs, update->run_count, chunk_bytes)
	    > fabric->values * sizeof(float))
		return heddle_fail(-E2BIG, "runs: more bytes than a dense update");
	return 0;
}

int heddle_push_sparse(
	struct heddle *fabric,
	const struct heddle_sparse *sparse,
	uint64_t base,
	const struct heddle_push_options *options,
	struct heddle_ticket **out
) {
	struct update update = {.dtype = HD_DTYPE_SPARSE32};
	struct heddle_push_options given;
	int rc = heddle_check(fabric);

	if (rc != 0)
		return rc;
	if (!sparse)
		return heddle_fail(-EINVAL, "update: NULL");
	rc = check_options(options, &given, sparse->data, out);
	if (rc != 0)
		return rc;
	if (given.payload != HEDDLE_PAYLOAD_FP32)
		return heddle_fail(-EINVAL, "payload: sparse updates are fp32");
	update.runs = (const struct hd_run *)(const void *)sparse->runs;
	update.run_count = sparse->run_count;
	update.data = sparse->data;
	take_options(&update, &given);
	rc = check_sparse(fabric, &update);
	return rc < 0 ? rc : push(fabric, &update, base, out);
}

int heddle_pull_start(
	struct heddle *fabric,
	float *data,
	const struct heddle_pull_options *options,
	struct heddle_ticket **out
) {
	struct heddle_pull_options given = HEDDLE_PULL_OPTIONS_INIT;
	struct heddle_ticket *ticket;
	int rc = heddle_check(fabric);

	if (rc < 0)
		return rc;
	if (options && options->size < sizeof given)
		return heddle_fail(-EINVAL, "pull options: size");
	if (!data || !out)
		return heddle_fail(-EINVAL, "data or ticket: NULL");
	given = options ? *options : given;
	rc = heddle_check_memory(given.memory, given.stream);
	if (rc == 0)
		rc = heddle_check_payload(given.payload);
	if (rc < 0)
		return rc;
	ticket = heddle_ticket_new(fabric, 1);
	if (!ticket)
		return heddle_fail(-ENOMEM, "no memory");
	ticket->dtype = (uint8_t)given.payload;
	ticket->status.bytes = fabric->values * hd_dtype_bytes(ticket->dtype);
	ticket->into = data;
	ticket->have = given.have;
	ticket->conditional = given.conditional != 0;
	rc = heddle_ticket_enqueue(fabric, ticket);
	if (rc == 0)
		*out = ticket;
	return rc;
}

/* --- looking and waiting -------------------------------------------------------------------- */

static int copy_status(const struct heddle_ticket *ticket, struct heddle_status *status) {
	size_t size;

	if (!status)
		return 0;
	size = status->size;
	if (size < sizeof(size_t) || size > 4096)
		return heddle_fail(-EINVAL, "status: size");
	memset(status, 0, size);
	memcpy(status, &ticket->status, size < sizeof ticket->status ? size : sizeof ticket->status
	);
	status->size = size;
	return 0;
}

int heddle_ticket_test(struct heddle_ticket *ticket, struct heddle_status *status) {
	int rc, ended;

	if (getpid() != ticket->fabric->pid)
		return heddle_fail(-ECHILD, "ticket of the parent process");
	pthread_mutex_lock(&ticket->fabric->lock);
	ended = ticket->ended;
	rc = copy_status(ticket, status);
	pthread_mutex_unlock(&ticket->fabric->lock);
	return rc < 0 ? rc : ended;
}

static bool is_held(const void *arg) {
	const struct heddle_ticket *ticket = arg;

	return ticket->ended || ticket->status.state == HEDDLE_HELD;
}

static bool is_ended(const void *arg) {
	const struct heddle_ticket *ticket = arg;

	return ticket->ended;
}

static bool is_released(const void *arg) {
	const struct heddle_ticket *ticket = arg;

	return ticket->let_go;
}

int heddle_ticket_wait(
	struct heddle_ticket *ticket,
	enum heddle_wait until,
	int timeout_ms,
	struct heddle_status *status
) {
	/* A push is let go of when it is durable, or never will be. */
	bool (*const done[])(const void *arg) = {is_held, is_ended, is_released, is_released};
	int rc, copied;

	if (getpid() != ticket->fabric->pid)
		return heddle_fail(-ECHILD, "ticket of the parent process");
	if ((unsigned)until >= sizeof done / sizeof *done)
		return heddle_fail(-EINVAL, "until: %d is unknown", (int)until);
	pthread_mutex_lock(&ticket->fabric->lock);
	rc = heddle_wait_until(ticket->fabric, done[until], ticket, timeout_ms);
	copied = copy_status(ticket, status);
	pthread_mutex_unlock(&ticket->fabric->lock);
	return copied < 0 ? copied : rc;
}

/* What is still in the queue ends here; the core withdraws the rest. */
int heddle_ticket_cancel(struct heddle_ticket *ticket) {
	struct heddle *fabric = ticket->fabric;
	struct heddle_ticket_ring *ring = &fabric->cancels;
	bool wake = false;
	int rc = 0;

	if (getpid() != fabric->pid)
		return heddle_fail(-ECHILD, "ticket of the parent process");
	pthread_mutex_lock(&fabric->lock);
	if (ticket->ended || ticket->status.state == HEDDLE_HELD) {
		rc = -EALREADY;
	} else if (!ticket->in_core) {
		heddle_ticket_end(ticket, HEDDLE_FAILED, HEDDLE_REASON_CANCELLED);
		heddle_ticket_let_go(ticket);
		pthread_cond_broadcast(&fabric->changed);
	} else if (ring->count == HEDDLE_COMMANDS_MAX) {
		rc = -EAGAIN;
	} else {
		ring->item[(ring->head + ring->count) % HEDDLE_COMMANDS_MAX] = ticket;
		ring->count++;
		ticket->references++;
		wake = true;
	}
	pthread_mutex_unlock(&fabric->lock);
	if (wake)
		hd_driver_wake(fabric->driver);
	return rc < 0 ?
		heddle_fail(rc, "cancel: %s", rc == -EAGAIN ? "queue is full" : "too late") :
		0;
}

void heddle_ticket_free(struct heddle_ticket *ticket) {
	struct heddle *fabric;

	if (!ticket || getpid() != ticket->fabric->pid)
		return;
	fabric = ticket->fabric;
	pthread_mutex_lock(&fabric->lock);
	heddle_ticket_unref(ticket);
	heddle_unlock_unref(fabric, 0);
}
