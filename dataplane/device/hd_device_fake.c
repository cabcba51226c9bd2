/* SPDX-License-Identifier: BSD-3-Clause */
/* A device simulated on the host: see hd_device_fake.h. */
#include "hd_device_fake.h"
#include "hd_device_private.h"
#include "hd_random.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define ALIGNMENT 256
#define BLOCKS_AT_ONCE 3 /* of a stage or a copy, processed in one call */
#define COPY_BYTES (HD_STAGE_VALUES * sizeof(float)) /* a block of a copy */

enum thing_kind {
	FAKE_MEMORY,
	FAKE_HOST_MEMORY,
	FAKE_STREAM,
	FAKE_EVENT
};

enum operation_kind {
	FAKE_STAGE,
	FAKE_COPY,
	FAKE_RECORD,
	FAKE_AFTER
};

struct operation {
	TAILQ_ENTRY(operation) link;
	enum operation_kind kind;
	struct hd_stage_job job;
	char *to; /* of a copy */
	const char *from;
	size_t bytes;
	uint64_t next, blocks; /* of a stage or a copy */
	struct thing *event;
	uint64_t turn; /* of the event: the number of the record, or the one waited for */
};

TAILQ_HEAD(operations, operation);

/* An allocated object: memory, a stream or an event. */
struct thing {
	TAILQ_ENTRY(thing) link;
	enum thing_kind kind;
	void *memory; /* also the handle of a stream or an event: this struct itself */
	size_t bytes;
	struct operations queue; /* of a stream */
	uint64_t recorded, reached; /* of an event: the newest, on any stream */
};

static struct fake {
	struct hd_device base;
	struct hd_fake_config config;
	pthread_mutex_t lock;
	struct hd_random random; // lock, and all below
	TAILQ_HEAD(, thing) things;
	uint64_t blocks, allocations;
	size_t misused; /* freed while a stage still used it */
	bool open, lost;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int lost(void) {
	return hd_device_fail(-EIO, "%s: fell off the bus", fake.base.name);
}

/* NULL: the default stream, created at its first use. */
static struct thing *find(enum thing_kind kind, const void *handle) {
	struct thing *thing;

	TAILQ_FOREACH (thing, &fake.things, link)
		if (thing->kind == kind && thing->memory == handle)
			return thing;
	return NULL;
}

static struct thing *make(enum thing_kind kind, size_t bytes) {
	struct thing *thing;
	size_t room = (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT;

	fake.allocations++;
	if (fake.config.refuses != 0 && fake.allocations == fake.config.refuses)
		return NULL;
	thing = calloc(1, sizeof *thing);
	if (!thing)
		return NULL;
	thing->kind = kind;
	thing->bytes = bytes;
	thing->memory = kind <= FAKE_HOST_MEMORY ? aligned_alloc(ALIGNMENT, room) : thing;
	TAILQ_INIT(&thing->queue);
	TAILQ_INSERT_TAIL(&fake.things, thing, link);
	return thing;
}

static void forget(const struct thing *event) {
	struct thing *stream;
	struct operation *operation;

	TAILQ_FOREACH (stream, &fake.things, link)
		TAILQ_FOREACH (operation, &stream->queue, link)
			if (operation->kind == FAKE_RECORD && operation->event == event)
				operation->event = NULL;
}

static void destroy_thing(struct thing *thing) {
	struct operation *operation;

	forget(thing); /* its stream need not have come so far */
	while ((operation = TAILQ_FIRST(&thing->queue))) {
		TAILQ_REMOVE(&thing->queue, operation, link);
		free(operation);
	}
	TAILQ_REMOVE(&fake.things, thing, link);
	if (thing->kind <= FAKE_HOST_MEMORY)
		free(thing->memory);
	free(thing);
}

static struct thing *stream_of(void *handle) {
	struct thing *thing = find(FAKE_STREAM, handle);

	if (thing || handle)
		return thing;
	thing = make(FAKE_STREAM, 0);
	if (thing)
		thing->memory = NULL;
	return thing;
}

/* --- queued work ---------------------------------------------------------------------------- */

static void do_copy(const struct operation *operation, uint64_t block) {
	const size_t at = block * COPY_BYTES, left = operation->bytes - at;

	memcpy(operation->to + at, operation->from + at, left < COPY_BYTES ? left : COPY_BYTES);
}

/* True when the operation is done. */
static bool advance_operation(struct operation *operation, uint64_t most) {
	if (operation->kind == FAKE_RECORD) {
		if (operation->event && operation->turn > operation->event->reached)
			operation->event->reached = operation->turn;
		return true;
	}
	if (operation->kind == FAKE_AFTER)
		return operation->event->reached >= operation->turn;
	for (uint64_t i = 0; i < most && operation->next < operation->blocks; i++) {
		fake.blocks++;
		if (fake.blocks == fake.config.fails_at)
			fake.lost = true;
		if (fake.lost)
			return false;
		if (operation->kind == FAKE_COPY)
			do_copy(operation, operation->next++);
		else
			hd_stage_job_block(&operation->job, operation->next++);
	}
	return operation->next == operation->blocks;
}

static bool advance(uint64_t most) {
	struct thing *thing;
	bool moved = false;

	TAILQ_FOREACH (thing, &fake.things, link) {
		struct operation *operation = TAILQ_FIRST(&thing->queue);

		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the analyzer does not follow TAILQ_REMOVE */
		if (!operation || fake.lost || !advance_operation(operation, most))
			continue;
		TAILQ_REMOVE(&thing->queue, operation, link);
		free(operation);
		moved = true;
	}
	return moved;
}

static int put(void *stream, const struct operation *what) {
	struct thing *thing;
	struct operation *operation;
	int rc = 0;

	pthread_mutex_lock(&fake.lock);
	thing = stream_of(stream);
	operation = malloc(sizeof *operation);
	if (fake.lost) {
		rc = lost();
	} else if (!thing) {
		rc = hd_device_fail(-EINVAL, "stream: it is not of %s", fake.base.name);
	} else if (!operation) {
		rc = hd_device_fail(-ENOMEM, "no memory");
	} else {
		*operation = *what;
		if (what->kind == FAKE_RECORD)
			operation->turn = ++operation->event->recorded;
		else if (what->kind == FAKE_AFTER)
			operation->turn = operation->event->recorded;
		TAILQ_INSERT_TAIL(&thing->queue, operation, link);
		operation = NULL;
	}
	pthread_mutex_unlock(&fake.lock);
	free(operation);
	return rc;
}

/* --- the operations of a device ------------------------------------------------------------- */

int hd_fake_find(const void *memory, size_t bytes, struct hd_device **device) {
	const char *at = memory;
	const struct thing *thing;
	int rc = 0;

	pthread_mutex_lock(&fake.lock);
	TAILQ_FOREACH (thing, &fake.things, link) {
		const char *from = thing->memory;

		if (thing->kind != FAKE_MEMORY || at < from || at >= from + thing->bytes)
			continue;
		if (bytes > (size_t)(from + thing->bytes - at))
			rc = hd_device_fail(
				-EINVAL, "%zu bytes reach beyond their allocation", bytes
			);
		break;
	}
	pthread_mutex_unlock(&fake.lock);
	if (!thing)
		rc = hd_device_fail(-EINVAL, "%p is not memory of a device, or was freed", memory);
	if (rc == 0)
		*device = &fake.base;
	return rc;
}

static int fake_check_stream(struct hd_device *device, void *stream) {
	bool known;

	pthread_mutex_lock(&fake.lock);
	known = stream_of(stream);
	pthread_mutex_unlock(&fake.lock);
	return known ? 0 : hd_device_fail(-EINVAL, "stream: it is not of %s", device->name);
}

static int create(enum thing_kind kind, size_t bytes, void **out) {
	struct thing *thing = NULL;
	int rc = 0;

	pthread_mutex_lock(&fake.lock);
	if (fake.lost)
		rc = lost();
	else
		thing = make(kind, bytes);
	pthread_mutex_unlock(&fake.lock);
	if (thing)
		*out = thing->memory;
	else if (rc == 0)
		rc = hd_device_fail(-ENOMEM, "%s: no memory for %zu bytes", fake.base.name, bytes);
	return rc;
}

static bool holds(const struct thing *thing, const void *pointer) {
	const char *at = pointer, *from = thing->memory;

	return at >= from && at < from + thing->bytes;
}

static bool stage_needs(const struct hd_stage_job *job, const struct thing *thing) {
	const void *memory[HD_STAGE_POINTERS] = {NULL};

	hd_stage_job_memory(job, memory);
	for (size_t i = 0; i < HD_STAGE_POINTERS; i++)
		if (holds(thing, memory[i]))
			return true;
	return false;
}

static bool operation_needs(const struct operation *operation, const struct thing *thing) {
	if (operation->kind == FAKE_STAGE)
		return stage_needs(&operation->job, thing);
	if (operation->kind == FAKE_COPY)
		return holds(thing, operation->from) || holds(thing, operation->to);
	return operation->kind == FAKE_AFTER && operation->event == thing;
}

static bool is_needed(const struct thing *thing) {
	const struct thing *stream;
	const struct operation *operation;

	TAILQ_FOREACH (stream, &fake.things, link)
		TAILQ_FOREACH (operation, &stream->queue, link)
			if (operation_needs(operation, thing))
				return true;
	return false;
}

static void destroy(enum thing_kind kind, void *handle) {
	struct thing *thing;

	pthread_mutex_lock(&fake.lock);
	thing = find(kind, handle);
	if (thing) {
		fake.misused += !fake.lost && is_needed(thing);
		destroy_thing(thing);
	}
	pthread_mutex_unlock(&fake.lock);
}

static int fake_allocate(struct hd_device *device, size_t bytes, void **memory) {
	return create(FAKE_MEMORY, bytes, memory);
}

static void fake_release(struct hd_device *device, void *memory) {
	destroy(FAKE_MEMORY, memory);
}

static int fake_host_allocate(struct hd_device *device, size_t bytes, void **memory) {
	return create(FAKE_HOST_MEMORY, bytes, memory);
}

static void fake_host_release(struct hd_device *device, void *memory) {
	destroy(FAKE_HOST_MEMORY, memory);
}

static int fake_stream_create(struct hd_device *device, void **stream) {
	return create(FAKE_STREAM, 0, stream);
}

static void fake_stream_destroy(struct hd_device *device, void *stream) {
	destroy(FAKE_STREAM, stream);
}

static int fake_event_create(struct hd_device *device, void **event) {
	return create(FAKE_EVENT, 0, event);
}

static void fake_event_destroy(struct hd_device *device, void *event) {
	destroy(FAKE_EVENT, event);
}

static int fake_record(struct hd_device *device, void *event, void *stream) {
	return put(stream, &(struct operation){.kind = FAKE_RECORD, .event = event});
}

static int fake_after(struct hd_device *device, void *stream, void *event) {
	return put(stream, &(struct operation){.kind = FAKE_AFTER, .event = event});
}

static int fake_launch(struct hd_device *device, void *stream, const struct hd_stage_job *job) {
	struct operation operation = {.kind = FAKE_STAGE, .job = *job};

	operation.blocks = hd_stage_job_blocks(job);
	return put(stream, &operation);
}

static int
fake_copy(struct hd_device *device, void *stream, void *to, const void *from, size_t bytes) {
	struct operation operation = {.kind = FAKE_COPY, .to = to, .from = from, .bytes = bytes};

	operation.blocks = (bytes + COPY_BYTES - 1) / COPY_BYTES;
	return put(stream, &operation);
}

static int fake_done(struct hd_device *device, void *event) {
	struct thing *thing = event;
	int rc;

	pthread_mutex_lock(&fake.lock);
	if (hd_random_u64(&fake.random) % (1 + (uint64_t)fake.config.delay) == 0)
		(void)advance(BLOCKS_AT_ONCE);
	rc = fake.lost ? lost() : thing->reached >= thing->recorded;
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

static const struct hd_device_ops hd_fake_ops = {
	.check_stream = fake_check_stream,
	.allocate = fake_allocate,
	.release = fake_release,
	.host_allocate = fake_host_allocate,
	.host_release = fake_host_release,
	.stream_create = fake_stream_create,
	.stream_destroy = fake_stream_destroy,
	.event_create = fake_event_create,
	.event_destroy = fake_event_destroy,
	.record = fake_record,
	.after = fake_after,
	.launch = fake_launch,
	.copy = fake_copy,
	.done = fake_done,
};

int hd_fake_open(const struct hd_fake_config *config, struct hd_device **device) {
	if (fake.open)
		return hd_device_fail(-EBUSY, "the fake device is in use");
	fake.base.ops = &hd_fake_ops;
	fake.base.width = 1;
	(void)snprintf(fake.base.name, sizeof fake.base.name, "fake device");
	fake.config = *config;
	hd_random_init(&fake.random, config->seed);
	TAILQ_INIT(&fake.things);
	fake.blocks = fake.allocations = fake.misused = 0;
	fake.lost = false;
	fake.open = true;
	*device = &fake.base;
	return 0;
}

void hd_fake_change(struct hd_device *device, const struct hd_fake_config *config) {
	pthread_mutex_lock(&fake.lock);
	fake.config = *config;
	fake.blocks = fake.allocations = 0;
	pthread_mutex_unlock(&fake.lock);
}

void hd_fake_settle(struct hd_device *device) {
	pthread_mutex_lock(&fake.lock);
	while (advance(UINT64_MAX))
		continue;
	pthread_mutex_unlock(&fake.lock);
}

size_t hd_fake_close(struct hd_device *device) {
	struct thing *thing;
	size_t count;

	pthread_mutex_lock(&fake.lock);
	count = fake.misused;
	while ((thing = TAILQ_FIRST(&fake.things))) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the analyzer does not follow TAILQ_REMOVE */
		count += thing->memory != NULL; /* no caller allocated the default stream */
		destroy_thing(thing);
	}
	fake.open = false;
	pthread_mutex_unlock(&fake.lock);
	return count;
}
