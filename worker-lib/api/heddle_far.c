/* SPDX-License-Identifier: BSD-3-Clause */
/* What lies on a device: queued on the caller's stream, packed when a grant comes, unpacked when a model has come. */
#include "heddle_far.h"
#include "heddle_private.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 256
#define NAP_MIN (50 * HD_US)
#define NAP_MAX HD_MS
#define NAP_SHARE 8 /* of the time that was waited already */

size_t heddle_far_rounded(uint64_t bytes) {
	return (size_t)((bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

void heddle_far_log(const struct heddle *fabric) {
	if (fabric->log)
		fabric->log(fabric->log_arg, HEDDLE_LOG_ERROR, hd_device_words());
}

int heddle_far_fail(int rc) {
	return heddle_fail(rc, "%s", hd_device_words());
}

void heddle_far_init(struct heddle *fabric) {
	TAILQ_INIT(&fabric->spare_far);
	fabric->far_at = HD_NEVER;
}

/* --- what is kept for the next -------------------------------------------------------------- */

static void destroy(struct heddle_far *far) {
	const struct hd_device_ops *ops = far->device->ops;

	if (far->near)
		ops->host_release(far->device, far->near);
	if (far->copy)
		ops->release(far->device, far->copy);
	if (far->event)
		ops->event_destroy(far->device, far->event);
	if (far->stream)
		ops->stream_destroy(far->device, far->stream);
	free(far);
}

static bool fits(size_t have, size_t want) {
	return have >= want && have / 2 <= want;
}

static struct heddle_far *
take_spare(struct heddle *fabric, const struct hd_device *device, size_t near, size_t copy) {
	struct heddle_far *far;

	pthread_mutex_lock(&fabric->lock);
	TAILQ_FOREACH (far, &fabric->spare_far, link)
		if (far->device == device && fits(far->near_bytes, near)
		    && fits(far->copy_bytes, copy))
			break;
	if (far) {
		TAILQ_REMOVE(&fabric->spare_far, far, link);
		fabric->spare_far_count--;
	}
	pthread_mutex_unlock(&fabric->lock);
	return far;
}

static int make(struct hd_device *device, size_t near, size_t copy, struct heddle_far **out) {
	const struct hd_device_ops *ops = device->ops;
	struct heddle_far *far = calloc(1, sizeof *far);
	int rc;

	if (!far) {
		(void)hd_device_fail(-ENOMEM, "no memory");
		return -ENOMEM;
	}
	far->device = device;
	far->near_bytes = near;
	far->copy_bytes = copy;
	rc = ops->stream_create(device, &far->stream);
	if (rc == 0)
		rc = ops->event_create(device, &far->event);
	if (rc == 0)
		rc = ops->host_allocate(device, near, &far->near);
	if (rc == 0 && copy > 0)
		rc = ops->allocate(device, copy, &far->copy);
	if (rc < 0) {
		destroy(far);
		return rc;
	}
	*out = far;
	return 0;
}

int heddle_far_prepare(
	struct heddle *fabric,
	struct hd_device *device,
	size_t near,
	size_t copy,
	struct heddle_far **out
) {
	struct heddle_far *far = take_spare(fabric, device, near, copy);
	int rc = far ? 0 : make(device, near, copy, &far);

	if (rc != 0)
		return rc;
	far->from = far->to = NULL;
	far->waits = far->landing = far->held = far->released = far->abandoned = false;
	far->since = 0;
	*out = far;
	return 0;
}

int heddle_far_find(const void *memory, uint64_t bytes, void *stream, struct hd_device **device) {
	int rc = hd_device_of(memory, bytes, device);

	return rc < 0 ? rc : (*device)->ops->check_stream(*device, stream);
}

void heddle_far_give_back(struct heddle *fabric, struct heddle_ticket *ticket) {
	struct heddle_far *oldest = NULL;

	TAILQ_INSERT_HEAD(&fabric->spare_far, ticket->far, link);
	ticket->far = NULL;
	if (fabric->spare_far_count < HEDDLE_FAR_SPARES_MAX) {
		fabric->spare_far_count++;
		return;
	}
	oldest = TAILQ_LAST(&fabric->spare_far, heddle_far_list);
	TAILQ_REMOVE(&fabric->spare_far, oldest, link);
	destroy(oldest);
}

void heddle_far_free_spares(struct heddle *fabric) {
	struct heddle_far *far;

	while ((far = TAILQ_FIRST(&fabric->spare_far))) {
		TAILQ_REMOVE(&fabric->spare_far, far, link);
		destroy(far);
	}
	fabric->spare_far_count = 0;
}

int heddle_far_record(struct heddle_far *far, void *stream) {
	return far->device->ops->record(far->device, far->event, stream);
}

static int queue(struct heddle_far *far, const struct hd_stage_job *job, void *stream) {
	int rc = far->device->ops->launch(far->device, stream, job);

	return rc < 0 ? rc : heddle_far_record(far, stream);
}

/* --- push ----------------------------------------------------------------------------------- */

int heddle_far_push(
	struct heddle *fabric,
	struct heddle_ticket *ticket,
	const float *data,
	const struct heddle_push_options *options
) {
	const float scale = options->scale > 0.0f ? options->scale : 1.0f;
	const bool copies = !options->borrow || scale < 1.0f || scale > 1.0f;
	const uint64_t values = ticket->values, blocks = hd_stage_blocks(values);
	const size_t payload = heddle_far_rounded(values * hd_dtype_bytes(ticket->dtype));
	const size_t flags = heddle_far_rounded(blocks * sizeof(uint64_t));
	const size_t sums = heddle_far_rounded(blocks * sizeof(struct hd_stage_sums));
	struct hd_stage_job job = {.kind = HD_STAGE_TAKE};
	struct hd_device *device = NULL;
	struct heddle_far *far = NULL;
	int rc = heddle_far_find(data, values * sizeof(float), options->stream, &device);

	if (rc == 0)
		rc = heddle_far_prepare(
			fabric,
			device,
			payload + flags + sums,
			copies ? heddle_far_rounded(values * sizeof(float)) : 0,
			&far
		);
	if (rc != 0)
		return heddle_far_fail(rc);
	far->flags = (uint64_t *)(void *)((char *)far->near + payload);
	far->sums = (struct hd_stage_sums *)(void *)((char *)far->near + payload + flags);
	far->from = copies ? far->copy : data;
	memset(far->flags, 0, flags);
	far->generation = 0;
	job.take = (struct hd_take){
		.from = data,
		.copy = copies ? far->copy : NULL,
		.values = values,
		.sums = far->sums,
		.scale = scale,
		.dtype = ticket->dtype,
	};
	far->waits = true;
	ticket->far = far;
	rc = queue(far, &job, options->stream);
	return rc < 0 ? heddle_far_fail(rc) : 0;
}

/* The first that is NaN or Inf once it is rounded; values: none. */
static uint64_t look(const struct heddle_ticket *ticket, double *norm2, uint32_t *peak) {
	const struct heddle_far *far = ticket->far;
	uint64_t first = ticket->values;

	for (uint64_t b = 0; b < hd_stage_blocks(ticket->values); b++) {
		const struct hd_stage_sums *sums = &far->sums[b];

		*norm2 += sums->norm2;
		*peak = sums->peak > *peak ? sums->peak : *peak;
		if (first == ticket->values && sums->not_finite != HD_STAGE_FINITE)
			first = b * HD_STAGE_VALUES + sums->not_finite;
	}
	return first;
}

static bool demands_finite(const struct heddle_ticket *ticket) {
	return !ticket->fabric->spec->job.allow_not_finite || ticket->dtype == HD_DTYPE_FIXED32;
}

/* Blocks in place, without a gap, of the newest generation. -EDOM. */
static int look_at_flags(const struct heddle_ticket *ticket) {
	struct heddle_far *far = ticket->far;
	const uint64_t blocks = hd_stage_blocks(ticket->values);

	for (; far->ready < blocks; far->ready++) {
		uint64_t flag = __atomic_load_n(&far->flags[far->ready], __ATOMIC_ACQUIRE);

		if ((uint32_t)flag != far->generation)
			break;
		if (flag >> 32 && demands_finite(ticket))
			return -EDOM;
	}
	return 0;
}

static uint64_t bytes_ready(const struct heddle_ticket *ticket) {
	const uint64_t values = ticket->far->ready * HD_STAGE_VALUES;

	return (values < ticket->values ? values : ticket->values) * hd_dtype_bytes(ticket->dtype);
}

static int64_t ready(void *user) {
	const struct heddle_ticket *ticket = user;
	struct heddle_far *far = ticket->far;
	const uint64_t blocks = hd_stage_blocks(ticket->values);
	const hd_ns now = hd_driver_now();
	int ended, rc;

	if (far->packed_at == 0)
		far->packed_at = now;
	/* Ended before the look: what is not there then never will be. */
	ended = far->device->ops->done(far->device, far->event);
	rc = look_at_flags(ticket);
	if (rc < 0 || far->ready == blocks)
		return rc < 0 ? rc : (int64_t)bytes_ready(ticket);
	if (ended > 0 || (ended == 0 && now - far->packed_at > HEDDLE_FAR_STAGE))
		ended = hd_device_fail(
			-EIO, "%s: a stage has not come to its end", far->device->name
		);
	if (ended < 0) {
		heddle_far_log(ticket->fabric);
		return -EIO;
	}
	return (int64_t)bytes_ready(ticket);
}

/* In the core's hands, so in the progress thread. */
static int pack(void *user, float weight, int16_t exponent, bool whole, const void **payload) {
	struct heddle_ticket *ticket = user;
	struct heddle_far *far = ticket->far;
	struct hd_stage_job job = {.kind = HD_STAGE_PACK};
	int rc;

	job.pack = (struct hd_pack){
		.from = far->from,
		.to = far->near,
		.values = ticket->values,
		.flags = far->flags,
		.weight = weight,
		.unit = ldexpf(1, -exponent),
		.generation = ++far->generation,
		.dtype = ticket->dtype,
	};
	far->ready = 0;
	far->packed_at = 0;
	rc = queue(far, &job, far->stream);
	if (rc == 0 && whole)
		rc = hd_device_wait(far->device, far->event, HEDDLE_FAR_STAGE);
	if (rc < 0) {
		heddle_far_log(ticket->fabric);
		return rc == -ENOMEM ? rc : -EIO;
	}
	*payload = far->near;
	return whole ? look_at_flags(ticket) : 0;
}

int heddle_far_look(
	const struct heddle_ticket *ticket,
	struct hd_packer *packer,
	uint64_t *not_finite
) {
	double norm2 = 0;
	uint32_t peak = 0;

	*not_finite = look(ticket, &norm2, &peak);
	if (*not_finite < ticket->values && demands_finite(ticket))
		return -EDOM;
	packer->norm = sqrt(norm2);
	packer->peak = hd_stage_float(peak);
	packer->pack = pack;
	packer->ready = ready;
	return 0;
}

/* --- pull ----------------------------------------------------------------------------------- */

int heddle_far_pull(
	struct heddle *fabric,
	struct heddle_ticket *ticket,
	float *data,
	void *stream
) {
	struct hd_device *device = NULL;
	struct heddle_far *far = NULL;
	int rc = heddle_far_find(data, ticket->values * sizeof(float), stream, &device);

	if (rc == 0)
		rc = heddle_far_prepare(
			fabric,
			device,
			heddle_far_rounded(ticket->values * hd_dtype_bytes(ticket->dtype)),
			0,
			&far
		);
	if (rc != 0)
		return heddle_far_fail(rc);
	far->to = data;
	ticket->far = far;
	ticket->into = far->near;
	rc = heddle_far_record(far, stream);
	return rc < 0 ? heddle_far_fail(rc) : 0;
}

/* --- the progress thread -------------------------------------------------------------------- */

int heddle_far_ready(const struct heddle_ticket *ticket) {
	const struct heddle_far *far = ticket->far;

	/* Where something is to go is waited for on the device. */
	if (!far->waits)
		return 1;
	return far->device->ops->done(far->device, far->event);
}

hd_ns heddle_far_next(struct heddle_far *far, hd_ns now) {
	hd_ns nap;

	if (far->since == 0)
		far->since = now;
	nap = (now - far->since) / NAP_SHARE;
	return hd_ns_add(now, nap < NAP_MIN ? NAP_MIN : hd_ns_min(nap, NAP_MAX));
}

/* Of a call that only receives, the caller's stream has nothing but the event until the result is queued. */
static bool is_used(const struct heddle_far *far) {
	return far->waits || (far->landing && !far->held);
}

bool heddle_far_is_busy(const struct heddle_far *far) {
	return is_used(far) && far->device->ops->done(far->device, far->event) == 0;
}

/* Memory that is not ready in time is left to its device, which may still write there. A search for leaks finds it. */
int heddle_far_wait(struct heddle_ticket *ticket, hd_ns span) {
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct heddle_far *left; // lock
	struct heddle_far *far = ticket->far;
	int rc = is_used(far) ? hd_device_wait(far->device, far->event, span) : 0;

	if (rc != -ETIMEDOUT)
		return rc;
	pthread_mutex_lock(&lock);
	far->left = left;
	left = far;
	pthread_mutex_unlock(&lock);
	ticket->far = NULL;
	return rc;
}
