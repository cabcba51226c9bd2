/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared memory of simulated workers: what libheddle's thread does (heddle_shared.c), in virtual time. The segments
 * belong to the world, so a worker that crashes leaves them as they are at that point; each step is an event of its
 * own, so a crash can come between any two.
 */
#include "allreduce_world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES 2048 /* small, so that a round has many */
#define SLOW 0.02 /* chance that a step takes long */
#define NO_ROOM 0.02 /* chance that memory cannot be had, in worlds with faults */

struct allreduce_segment {
	struct allreduce_segment *next;
	uint64_t token;
	void *memory;
};

static void step(void *owner, hd_ns now);

static void plan_step(struct allreduce_worker *worker) {
	struct allreduce_world *w = worker->world;
	hd_ns delay = (2 + hd_random_below(&w->random, 40)) * HD_US;

	if (hd_random_chance(&w->random, SLOW))
		delay += hd_random_below(&w->random, 20) * HD_MS;
	if (worker->memory_of.due)
		return;
	worker->memory_of.due = true;
	(void)hd_sim_at(w->sim, hd_sim_now(w->sim) + delay, step, worker);
}

static void *segment(struct allreduce_world *w, const struct hd_shared_call *call) {
	struct allreduce_segment *s;
	size_t bytes = hd_shared_bytes(call->members, PIECE_BYTES);

	for (s = w->segments; s; s = s->next)
		if (s->token == call->token)
			return s->memory;
	s = calloc(1, sizeof *s);
	s->memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	memset(s->memory, 0, bytes);
	hd_shared_init(s->memory, call->token, call->members, PIECE_BYTES);
	s->token = call->token;
	s->next = w->segments;
	w->segments = s;
	return s->memory;
}

void allreduce_free_segments(struct allreduce_world *w) {
	struct allreduce_segment *next;

	for (struct allreduce_segment *s = w->segments; s; s = next) {
		next = s->next;
		free(s->memory);
		free(s);
	}
	w->segments = NULL;
}

/* The first call of the queue begins, unless it has. */
static int enter(struct allreduce_worker *worker) {
	struct allreduce_memory *m = &worker->memory_of;
	const struct hd_shared_call *call = &m->queue[0];
	int rc = 0;

	if (m->running)
		return 0;
	m->running = true;
	if (m->token != call->token) {
		m->token = 0;
		if (worker->world->plan.faults && !worker->world->quiet
		    && hd_random_chance(&worker->world->random, NO_ROOM))
			return -ENOSPC;
		rc = hd_shared_attach(
			&m->map,
			segment(worker->world, call),
			call->token,
			call->members,
			PIECE_BYTES
		);
		m->token = rc == 0 ? call->token : 0;
	}
	return rc < 0 ? rc : hd_shared_begin(&m->run, &m->map, call);
}

static void pop(struct allreduce_memory *m) {
	m->queued--;
	m->running = false;
	memmove(m->queue, m->queue + 1, m->queued * sizeof m->queue[0]);
}

static void end(struct allreduce_worker *worker, int rc) {
	struct allreduce_memory *m = &worker->memory_of;
	struct allreduce_world *w = worker->world;
	const struct hd_shared_call call = m->queue[0];

	pop(m);
	if (rc < 0 && m->token == call.token)
		(void)hd_shared_kill(&m->map, call.turn);
	hd_worker_shared_done(
		worker->core,
		hd_sim_node_now(w->sim, worker->node),
		&call,
		rc,
		hd_sim_node_sink(w->sim, worker->node)
	);
	hd_sim_node_poke(w->sim, worker->node);
}

static void step(void *owner, hd_ns now) {
	struct allreduce_worker *worker = owner;
	struct allreduce_memory *m = &worker->memory_of;
	int rc;

	(void)now;
	m->due = false;
	if (!worker->core || m->queued == 0)
		return;
	rc = enter(worker);
	if (rc == 0) {
		switch (hd_shared_step(&m->run)) {
		case HD_SHARED_MOVED:
			m->steps++;
			rc = -EAGAIN;
			break;
		case HD_SHARED_WAIT:
			rc = -EAGAIN;
			break;
		case HD_SHARED_DONE:
			rc = 0;
			break;
		case HD_SHARED_VOID:
			rc = -ECANCELED;
			break;
		default:
			rc = -EPROTO;
			break;
		}
	}
	if (rc != -EAGAIN)
		end(worker, rc);
	if (m->queued > 0)
		plan_step(worker);
}

static int begin(void *owner, const struct hd_shared_call *call) {
	struct allreduce_worker *worker = owner;
	struct allreduce_memory *m = &worker->memory_of;

	if (m->queued == DEPTH_MAX)
		return -ENOBUFS;
	m->queue[m->queued++] = *call;
	plan_step(worker);
	return 0;
}

static bool stop(void *owner, uint64_t token, uint32_t turn, bool force) {
	struct allreduce_worker *worker = owner;
	struct allreduce_memory *m = &worker->memory_of;
	bool is_void = true;

	if (m->killed)
		return true; /* a process that is killed says nothing */
	for (uint32_t i = 0; i < m->queued; i++) {
		if (m->queue[i].token != token || m->queue[i].turn != turn)
			continue;
		if (m->token == token)
			is_void = hd_shared_kill(&m->map, turn);
		if (!is_void && !force)
			return false;
		if (i == 0)
			pop(m);
		else
			m->queued--;
		return true;
	}
	allreduce_fail(worker->world, "rank %u stops an unknown round", worker->rank);
	return true;
}

static uint64_t progress(const void *owner) {
	const struct allreduce_worker *worker = owner;

	return worker->memory_of.steps;
}

static const struct hd_shared_ops ops = {.begin = begin, .stop = stop, .progress = progress};

void allreduce_share(struct allreduce_worker *worker, struct hd_worker_config *config) {
	const struct allreduce_plan *plan = &worker->world->plan;
	const bool due = worker->memory_of.due;

	worker->memory_of = (struct allreduce_memory){.due = due};
	if (plan->one_host || plan->two_hosts) {
		config->shared = 1 + (plan->two_hosts ? worker->rank % 2 : 0);
		config->shared_ops = &ops;
		config->shared_owner = worker;
	}
}
