/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening a job, and leaving it. */
#include "heddle_aggregator.h"
#include "heddle_environment.h"
#include "heddle_private.h"
#include "heddle_setup.h"
#include "heddle_shared.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* --- opening -------------------------------------------------------------------------------- */

static int copy_spec(struct heddle *fabric, const struct heddle_spec *spec) {
	int rc = heddle_check_spec(spec);

	if (rc < 0)
		return rc;
	fabric->spec = calloc(1, sizeof *fabric->spec);
	if (!fabric->spec)
		return heddle_fail(-ENOMEM, "no memory");
	fabric->spec->job = spec->job;
	fabric->spec->job.tensors = NULL;
	if (spec->job.tensor_count > 0) {
		size_t bytes = spec->job.tensor_count * sizeof *spec->job.tensors;

		fabric->spec->job.tensors = malloc(bytes);
		if (!fabric->spec->job.tensors)
			return heddle_fail(-ENOMEM, "no memory");
		memcpy(fabric->spec->job.tensors, spec->job.tensors, bytes);
	}
	fabric->values = hd_jobspec_values(&spec->job);
	return 0;
}

static int read_keys(struct heddle *fabric, struct heddle_setup *setup) {
	const char *path = heddle_text_or_env(setup->options.key_file, "HEDDLE_KEY_FILE");
	char error[HD_TEXT_BYTES_MAX];
	int rc;

	setup->options.key_file = path;
	if (!path)
		return heddle_fail(-EINVAL, "no key file: set HEDDLE_KEY_FILE");
	rc = hd_program_read_keys(path, &fabric->keys, error, sizeof error);
	if (rc < 0)
		return heddle_fail(rc, "key file: %s", error);
	if (fabric->log && hd_program_keys_exposed(path, error, sizeof error))
		fabric->log(fabric->log_arg, HEDDLE_LOG_WARNING, error);
	return 0;
}

static void on_log_trouble(void *owner, const char *sentence) {
	struct heddle *fabric = owner;
	char text[HD_TEXT_BYTES_MAX];

	if (!fabric->log)
		return;
	(void)snprintf(text, sizeof text, "events: %s", sentence);
	fabric->log(fabric->log_arg, HEDDLE_LOG_WARNING, text);
}

static int open_driver(struct heddle *fabric, struct heddle_setup *setup) {
	const char *events = heddle_text_or_env(setup->options.events, "HEDDLE_EVENTS");
	char error[HD_TEXT_BYTES_MAX];
	int rc;

	events = setup->is_group ? NULL : events;
	setup->driver.event = events || fabric->log ? heddle_on_event : NULL;
	setup->driver.woken = heddle_on_woken;
	setup->driver.owner = fabric;
	hd_driver_options_from_environment(&setup->driver.options);
	rc = hd_driver_open(&setup->driver, &fabric->driver, error, sizeof error);
	if (rc < 0)
		return heddle_fail(rc, "socket: %s", error);
	if (!events)
		return 0;
	/* After the socket: who finds its address taken leaves the log of who has it as it is. */
	rc = hd_event_log_open(events, setup->name, &fabric->events);
	if (rc < 0)
		return heddle_fail(rc, "events: %s: %s", events, heddle_strerror(rc));
	hd_event_log_on_trouble(fabric->events, on_log_trouble, fabric);
	return 0;
}

/* Payload of one packet: what was asked for, 0 if nothing was. */
static int choose_chunk(struct heddle_setup *setup) {
	int bytes, rc;

	if (setup->options.chunk_bytes > 0)
		return 0;
	rc = heddle_number_from_env(
		"HEDDLE_CHUNK_BYTES", HD_CHUNK_BYTES_MIN, HD_CHUNK_BYTES_MAX, 0, &bytes
	);
	if (rc == 0 && bytes % 4 != 0)
		return heddle_fail(-EINVAL, "HEDDLE_CHUNK_BYTES: %d is not a multiple of 4", bytes);
	setup->options.chunk_bytes = rc == 0 ? (uint32_t)bytes : 0;
	return rc;
}

static int open_worker(struct heddle *fabric, struct heddle_setup *setup) {
	struct hd_worker_config *config = &setup->worker;
	int rc = hd_program_entropy(config->seed), keep_mb;

	if (rc < 0)
		return heddle_fail(rc, "random numbers: %s", heddle_strerror(rc));
	rc = heddle_number_from_env("HEDDLE_KEEP_MB", 0, 1 << 24, 0, &keep_mb);
	if (rc == 0)
		rc = choose_chunk(setup);
	if (rc < 0)
		return rc;
	config->keys = &fabric->keys;
	config->key_id = fabric->keys.keys[0].id;
	config->spec = &fabric->spec->job;
	config->job_weight = setup->options.job_weight;
	setup->options.observe |= getenv("HEDDLE_OBSERVER") != NULL;
	config->observes = setup->options.observe;
	config->chunk_bytes = setup->options.chunk_bytes;
	config->keep_bytes_max = setup->options.keep_bytes > 0 ? setup->options.keep_bytes :
								 (uint64_t)keep_mb << 20;
	config->fallback_us = setup->options.fallback_ms > UINT32_MAX / 1000 ?
		UINT32_MAX :
		setup->options.fallback_ms * 1000;
	config->receive_window_bytes = hd_driver_receive_window(fabric->driver);
	/* Bound to one address, that is where we are; else the peers see it. */
	if (hd_driver_bound(fabric->driver).ipv4 != 0)
		config->data = hd_driver_bound(fabric->driver);
	config->ops = &heddle_worker_ops;
	config->owner = fabric;
	rc = heddle_shared_open(fabric, config);
	if (rc < 0)
		return rc;
	rc = heddle_core_create(fabric, config);
	return rc < 0 ? heddle_fail(rc, "worker: %s", heddle_strerror(rc)) : 0;
}

static int init_lock(struct heddle *fabric) {
	pthread_condattr_t attributes;
	int rc = pthread_mutex_init(&fabric->lock, NULL);

	if (rc != 0)
		return heddle_fail(-rc, "no memory");
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	rc = pthread_cond_init(&fabric->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	if (rc == 0)
		return 0;
	pthread_mutex_destroy(&fabric->lock);
	return heddle_fail(-rc, "no memory");
}

/* Everything but the struct itself, which tickets may still look at. */
static void close_parts(struct heddle *fabric) {
	heddle_aggregator_close(fabric);
	heddle_core_destroy(fabric);
	heddle_shared_close(fabric);
	hd_driver_close(fabric->driver);
	(void)hd_event_log_close(fabric->events);
	hd_keyring_fini(&fabric->keys);
	heddle_spec_destroy(fabric->spec);
	heddle_forget_options(&fabric->opened);
	if (fabric->ended_fd >= 0)
		close(fabric->ended_fd);
	fabric->driver = NULL;
	fabric->events = NULL;
	fabric->spec = NULL;
	fabric->ended_fd = -1;
}

static int open_aggregator(struct heddle *fabric, const struct heddle_setup *setup) {
	const struct heddle_aggregator_setup aggregator = {
		.worker = &setup->worker,
		.bind_ipv4 = setup->driver.bind.ipv4,
		.other_driver = hd_driver_was_chosen(&setup->driver.options),
		.memory_mb = setup->options.aggregator_mb,
	};

	return heddle_aggregator_open(fabric, &aggregator);
}

static int open_parts(
	struct heddle *fabric,
	const struct heddle_spec *spec,
	const struct heddle_options *options,
	bool is_group
) {
	struct heddle_setup setup = {.options = HEDDLE_OPTIONS_INIT, .is_group = is_group};
	int rc = copy_spec(fabric, spec);

	if (rc == 0)
		rc = heddle_read_options(fabric, options, &setup);
	if (rc == 0)
		rc = read_keys(fabric, &setup);
	if (rc == 0)
		rc = open_driver(fabric, &setup);
	if (rc == 0)
		rc = open_worker(fabric, &setup);
	if (rc == 0)
		rc = open_aggregator(fabric, &setup);
	if (rc == 0)
		rc = heddle_keep_options(&fabric->opened, &setup.options);
	if (rc < 0)
		return rc;
	if (!fabric->manual) {
		fabric->ended_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		if (fabric->ended_fd < 0)
			return heddle_fail(-errno, "eventfd: %s", heddle_strerror(errno));
	}
	rc = heddle_aggregator_start(fabric);
	return rc < 0 || fabric->manual ? rc : heddle_start_thread(fabric);
}

int heddle_open_as(
	const struct heddle_spec *spec,
	const struct heddle_options *options,
	bool is_group,
	struct heddle **out
) {
	struct heddle *fabric;
	int rc;

	if (!out)
		return heddle_fail(-EINVAL, "fabric: NULL");
	fabric = calloc(1, sizeof *fabric);
	if (!fabric)
		return heddle_fail(-ENOMEM, "no memory");
	fabric->pid = getpid();
	fabric->ended_fd = -1;
	fabric->flush_at = HD_NEVER;
	fabric->sent_norm = fabric->held_norm = -1;
	fabric->references = 1;
	TAILQ_INIT(&fabric->tickets);
	TAILQ_INIT(&fabric->due);
	heddle_far_init(fabric);
	rc = init_lock(fabric);
	if (rc < 0) {
		free(fabric);
		return rc;
	}
	rc = open_parts(fabric, spec, options, is_group);
	if (rc < 0) {
		close_parts(fabric);
		pthread_mutex_lock(&fabric->lock);
		heddle_unlock_unref(fabric, 1);
		return rc;
	}
	*out = fabric;
	return 0;
}

int heddle_open(
	const struct heddle_spec *spec,
	const struct heddle_options *options,
	struct heddle **fabric
) {
	return heddle_open_as(spec, options, false, fabric);
}

static bool joined_or_refused(const void *arg) {
	const struct heddle *fabric = arg;

	return fabric->joined || fabric->refused;
}

/* The node that keeps us waiting. */
static const char *silent(const struct hd_worker_stats *stats) {
	if (stats->server)
		return "the server does not answer";
	if (stats->controller)
		return "the controller knows no server for the job yet";
	return "the controller does not answer";
}

int heddle_wait_joined(
	struct heddle *fabric,
	int timeout_ms,
	uint64_t *version,
	uint32_t *tau_max
) {
	int rc = heddle_check(fabric);

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&fabric->lock);
	rc = heddle_wait_until(fabric, joined_or_refused, fabric, timeout_ms);
	if (rc == -ETIMEDOUT && !fabric->trouble[0])
		rc = heddle_fail(rc, "%s", silent(&fabric->stats));
	if (rc == 0 && fabric->refused)
		rc = heddle_fail(-ECONNREFUSED, "%s", fabric->refusal);
	if (rc == 0 && version)
		*version = fabric->version;
	if (rc == 0 && tau_max)
		*tau_max = fabric->tau_max;
	pthread_mutex_unlock(&fabric->lock);
	return rc;
}

/* --- closing -------------------------------------------------------------------------------- */

static bool has_left(const void *arg) {
	const struct heddle *fabric = arg;

	return fabric->left || fabric->refused;
}

int heddle_leave(struct heddle *fabric, int timeout_ms) {
	hd_ns until = timeout_ms < 0 ? HD_NEVER : hd_driver_now() + (hd_ns)timeout_ms * HD_MS;
	int rc = heddle_check(fabric);

	if (rc == 0)
		rc = heddle_check_may_wait();
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&fabric->lock);
	fabric->closing = true;
	hd_driver_wake(fabric->driver);
	rc = heddle_wait_until(fabric, has_left, fabric, timeout_ms);
	if (rc == 0)
		rc = heddle_wait_sums(fabric, until);
	pthread_mutex_unlock(&fabric->lock);
	return rc;
}

int heddle_close(struct heddle *fabric, int timeout_ms) {
	int rc;

	if (!fabric)
		return 0;
	if (getpid() != fabric->pid) {
		/* A thread that does not exist here may have held the lock and been inside the
		 * core: only what has no state of its own is given back. */
		hd_driver_abandon(fabric->driver);
		heddle_aggregator_abandon(fabric);
		hd_keyring_fini(&fabric->keys);
		if (fabric->ended_fd >= 0)
			close(fabric->ended_fd);
		return heddle_fail(-ECHILD, "closed in a child of the process that opened it");
	}
	rc = heddle_check_may_wait();
	if (rc < 0)
		return rc;
	rc = heddle_leave(fabric, timeout_ms);
	pthread_mutex_lock(&fabric->lock);
	fabric->stopping = true;
	hd_driver_wake(fabric->driver);
	pthread_mutex_unlock(&fabric->lock);
	if (fabric->has_thread)
		pthread_join(fabric->thread, NULL);
	pthread_mutex_lock(&fabric->lock);
	fabric->undriven = true;
	pthread_mutex_unlock(&fabric->lock);
	/* Once the core is gone, nothing uses the bytes that are borrowed or pulled into. */
	close_parts(fabric);
	pthread_mutex_lock(&fabric->lock);
	heddle_end_tickets(fabric, HEDDLE_REASON_CLOSED);
	pthread_mutex_unlock(&fabric->lock);
	heddle_then_run(fabric);
	pthread_mutex_lock(&fabric->lock);
	heddle_unlock_unref(fabric, 1);
	return rc;
}
