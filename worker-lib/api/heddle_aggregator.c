/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The aggregator beside a worker: heddle-aggregator's core, with a socket and a thread of its own. It adds all-reduces
 * of the worker's job, where no other aggregator is.
 *
 *   the worker has left     RETIRE   no new groups; it ends when the others have the sums that are made here
 *   heddle_close()          STOP     it closes its sessions and ends
 *
 * A failed assertion in it ends only the aggregator: its rounds are void, and the other aggregators make them again.
 */
#include "hd_aggregator.h"
#include "hd_thread.h"
#include "heddle_aggregator.h"
#include "heddle_environment.h"
#include "heddle_private.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define MEMORY_MB_DEFAULT 1024
#define MEMORY_MB_MAX (HD_MODEL_BYTES_MAX >> 20)

enum wish {
	GO_ON,
	RETIRE,
	STOP
};

struct heddle_aggregator {
	struct hd_aggregator *core;
	struct hd_driver *driver;
	pthread_t thread;
	bool has_thread;
	bool ended; // lock of the handle; writer: its thread
	_Atomic int wish; // writers: the progress thread, heddle_close(); reader: its thread
	bool retired, drained, failed; /* its thread's */
	hd_ns deadline; /* the same: what the core said last */
};

/* --- the core, as the driver sees it --------------------------------------------------------- */

/* Nothing, when an assertion has failed in it. */
static void enter(struct heddle *fabric, heddle_core_call *call, const struct heddle_turn *turn) {
	struct heddle_aggregator *a = fabric->aggregator;
	char words[HEDDLE_GUARD_BYTES];
	int rc;

	if (a->failed || heddle_guard(fabric, call, turn, words, &rc))
		return;
	a->failed = true;
	if (fabric->log)
		fabric->log(fabric->log_arg, HEDDLE_LOG_ERROR, words);
}

static int in_receive(struct heddle *fabric, const struct heddle_turn *turn) {
	hd_aggregator_ops.receive(
		fabric->aggregator->core, turn->now, turn->packets, turn->count, turn->sink
	);
	return 0;
}

static void core_receive(
	void *fabric,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	const struct heddle_turn turn
		= {.now = now, .sink = sink, .packets = packets, .count = count};

	enter(fabric, in_receive, &turn);
}

static int in_tick(struct heddle *fabric, const struct heddle_turn *turn) {
	hd_aggregator_ops.tick(fabric->aggregator->core, turn->now, turn->sink);
	return 0;
}

static void core_tick(void *fabric, hd_ns now, struct hd_sink *sink) {
	const struct heddle_turn turn = {.now = now, .sink = sink};

	enter(fabric, in_tick, &turn);
}

static int in_deadline(struct heddle *fabric, const struct heddle_turn *turn) {
	fabric->aggregator->deadline = hd_aggregator_ops.deadline(fabric->aggregator->core);
	return 0;
}

/* One that failed is due at once, so that the driver comes back. */
static hd_ns core_deadline(const void *core) {
	struct heddle *fabric = (struct heddle *)core;

	enter(fabric, in_deadline, NULL);
	return fabric->aggregator->failed ? 0 : fabric->aggregator->deadline;
}

static const struct hd_core_ops node_ops = {
	.receive = core_receive,
	.tick = core_tick,
	.deadline = core_deadline,
};

/* --- its thread ------------------------------------------------------------------------------ */

static int in_woken(struct heddle *fabric, const struct heddle_turn *turn) {
	struct heddle_aggregator *a = fabric->aggregator;
	int wish = atomic_load(&a->wish);

	if (wish >= RETIRE && !a->retired) {
		hd_aggregator_retire(a->core);
		a->retired = true;
	}
	if (a->retired && !a->drained && (wish == STOP || hd_aggregator_is_idle(a->core))) {
		hd_aggregator_drain(a->core, turn->now, turn->sink);
		a->drained = true;
	}
	return 0;
}

static void on_woken(void *fabric, hd_ns now, struct hd_sink *sink) {
	const struct heddle_turn turn = {.now = now, .sink = sink};

	enter(fabric, in_woken, &turn);
}

static void *run(void *arg) {
	struct heddle *fabric = arg;
	struct heddle_aggregator *a = fabric->aggregator;
	const struct hd_node node = {&node_ops, fabric};
	int rc = 0;

	while (!a->drained && !a->failed && rc == 0) {
		rc = hd_driver_poll(a->driver, node, HD_NEVER);
		if (a->retired && !a->drained && hd_aggregator_is_idle(a->core))
			hd_driver_wake(a->driver);
	}
	if (rc < 0 && fabric->log)
		fabric->log(
			fabric->log_arg, HEDDLE_LOG_ERROR, "the aggregator's socket has failed"
		);
	pthread_mutex_lock(&fabric->lock);
	a->ended = true;
	pthread_cond_broadcast(&fabric->changed);
	pthread_mutex_unlock(&fabric->lock);
	return NULL;
}

static void wish(struct heddle *fabric, int wish) {
	struct heddle_aggregator *a = fabric->aggregator;

	if (!a || atomic_load(&a->wish) >= wish)
		return;
	atomic_store(&a->wish, wish);
	hd_driver_wake(a->driver);
}

void heddle_aggregator_retire(struct heddle *fabric) {
	wish(fabric, RETIRE);
}

bool heddle_aggregator_runs(const struct heddle *fabric) {
	return fabric->aggregator && fabric->aggregator->has_thread && !fabric->aggregator->ended;
}

/* --- its life -------------------------------------------------------------------------------- */

static void gather(void *owner, struct hd_stats *stats) {
	const struct heddle *fabric = owner;

	hd_driver_stats(fabric->aggregator->driver, stats);
	hd_driver_core_stats(fabric->aggregator->driver, stats);
}

/* How much memory it may use; 0: there is none. */
static int
choose_memory(const struct heddle *fabric, const struct heddle_aggregator_setup *setup, int *mb) {
	bool able = !fabric->manual && !setup->other_driver
		&& !hd_addr_is_none(setup->worker->controller);
	int rc = 0;

	if (setup->memory_mb > (int)MEMORY_MB_MAX)
		return heddle_fail(-EINVAL, "aggregator_mb: more than %d MiB", (int)MEMORY_MB_MAX);
	*mb = setup->memory_mb > 0 ? setup->memory_mb : 0;
	if (setup->memory_mb == 0)
		rc = heddle_number_from_env(
			"HEDDLE_AGGREGATOR_MB",
			0,
			(int)MEMORY_MB_MAX,
			able && fabric->values == 0 ? MEMORY_MB_DEFAULT : 0,
			mb
		);
	if (setup->worker->observes)
		*mb = 0;
	if (rc == 0 && *mb > 0 && !able)
		return heddle_fail(
			-EINVAL,
			"aggregator_mb: %d, but an aggregator needs a controller, a progress thread and the driver udp",
			*mb
		);
	return rc;
}

static int in_create(struct heddle *fabric, const struct heddle_turn *turn) {
	return hd_aggregator_create(turn->arg, &fabric->aggregator->core);
}

static int create_core(
	struct heddle *fabric,
	const struct heddle_aggregator_setup *setup,
	uint64_t memory_bytes
) {
	static const struct hd_aggregator_ops ops = {.gather = gather};
	struct heddle_aggregator *a = fabric->aggregator;
	char name[HD_NAME_BYTES_MAX + 1], words[HEDDLE_GUARD_BYTES];
	struct hd_aggregator_config config = {
		.name = name,
		.host = setup->worker->host,
		.keys = &fabric->keys,
		.key_id = fabric->keys.keys[0].id,
		.controller = setup->worker->controller,
		.memory_bytes = memory_bytes,
		.receive_window_bytes = hd_driver_receive_window(a->driver),
		.job = hd_job_id(fabric->spec->job.tenant, fabric->spec->job.name),
		.worker = setup->worker->rank,
		.ops = &ops,
		.owner = fabric,
	};
	const struct heddle_turn turn = {.arg = &config};
	int rc = hd_program_entropy(config.seed);

	if (rc < 0)
		return heddle_fail(rc, "random numbers: %s", heddle_strerror(rc));
	if (hd_driver_bound(a->driver).ipv4 != 0)
		config.data = hd_driver_bound(a->driver);
	(void)snprintf(name, sizeof name, "w%d-aggregator", fabric->rank);
	if (!heddle_guard(fabric, in_create, &turn, words, &rc))
		return heddle_fail(-EIO, "%s", words);
	return rc < 0 ? heddle_fail(rc, "aggregator: %s", heddle_strerror(rc)) : 0;
}

/* The fabric's port, as monitors know our traffic by it; but the controller's host keeps it for the controller, which
 * may start later. An address that can be bound is this host's. */
static uint16_t choose_port(const struct heddle_aggregator_setup *setup) {
	const struct hd_driver_config config = {.bind.ipv4 = setup->worker->controller.ipv4};
	struct hd_driver *probe;
	char error[HD_TEXT_BYTES_MAX];

	if (hd_driver_open(&config, &probe, error, sizeof error) < 0)
		return HD_PORT;
	hd_driver_close(probe);
	return 0;
}

int heddle_aggregator_open(struct heddle *fabric, const struct heddle_aggregator_setup *setup) {
	struct hd_driver_config driver = {
		.bind.ipv4 = setup->bind_ipv4,
		.woken = on_woken,
		.owner = fabric,
	};
	char error[HD_TEXT_BYTES_MAX];
	int mb, rc = choose_memory(fabric, setup, &mb);

	if (rc < 0 || mb == 0)
		return rc;
	fabric->aggregator = calloc(1, sizeof *fabric->aggregator);
	if (!fabric->aggregator)
		return heddle_fail(-ENOMEM, "no memory");
	driver.bind.port = choose_port(setup);
	rc = hd_driver_open(&driver, &fabric->aggregator->driver, error, sizeof error);
	if (rc == -EADDRINUSE) { /* another node of this host has it: any free one */
		driver.bind.port = 0;
		rc = hd_driver_open(&driver, &fabric->aggregator->driver, error, sizeof error);
	}
	if (rc < 0)
		return heddle_fail(rc, "aggregator's socket: %s", error);
	return create_core(fabric, setup, (uint64_t)mb << 20);
}

int heddle_aggregator_start(struct heddle *fabric) {
	struct heddle_aggregator *a = fabric->aggregator;
	int rc;

	if (!a)
		return 0;
	rc = hd_thread_start(&a->thread, NULL, run, fabric);
	if (rc != 0)
		return heddle_fail(rc, "aggregator's thread: %s", heddle_strerror(rc));
	a->has_thread = true;
	(void)pthread_setname_np(a->thread, "heddle-sums");
	return 0;
}

static int in_destroy(struct heddle *fabric, const struct heddle_turn *turn) {
	hd_aggregator_destroy(fabric->aggregator->core);
	return 0;
}

void heddle_aggregator_close(struct heddle *fabric) {
	struct heddle_aggregator *a = fabric->aggregator;
	char words[HEDDLE_GUARD_BYTES];
	int rc;

	if (!a)
		return;
	if (a->has_thread) {
		wish(fabric, STOP);
		pthread_join(a->thread, NULL);
	}
	if (a->failed || !heddle_guard(fabric, in_destroy, NULL, words, &rc))
		heddle_keep_dead(a->core);
	hd_driver_close(a->driver);
	free(a);
	fabric->aggregator = NULL;
}

void heddle_aggregator_abandon(struct heddle *fabric) {
	if (fabric->aggregator)
		hd_driver_abandon(fabric->aggregator->driver);
}
