/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives beside the rounds of an all-reduce world. Each worker sends to the next one, and to another, and
 * each of these receives: an end calls again soon after its last call has ended, withdraws some calls, and now and then
 * has another tag than the other end. Every message begins with the number of its call, so a receiver knows which it
 * has; the model here knows which it should be.
 */
#ifndef ALLREDUCE_SENDS_H
#define ALLREDUCE_SENDS_H

#include "hd_types.h"
#include "hd_worker.h"

struct allreduce_world;
struct allreduce_worker;

struct allreduce_sends_totals {
	uint64_t called, sent, received, mismatches, lost, withdrawn, failed;
	uint64_t restarts; /* a channel was counted from 1 again by the same process */
};

int allreduce_sends_create(struct allreduce_world *w);
void allreduce_sends_destroy(struct allreduce_world *w);
const struct allreduce_sends_totals *allreduce_sends_totals(const struct allreduce_world *w);
/* The worker calls, and withdraws. `stopping`: it withdraws all. True: it has a call open. */
bool allreduce_sends_act(struct allreduce_worker *worker, bool stopping);
/* A ticket whose user is not NULL. */
void allreduce_sends_ticket(struct allreduce_worker *worker, const struct hd_ticket *ticket);
void allreduce_sends_released(struct allreduce_worker *worker, void *user);
/* Its process is gone. */
void allreduce_sends_crash(struct allreduce_worker *worker);
/* Calls that began before `since`, and go on. */
void allreduce_sends_check(struct allreduce_world *w, hd_ns since);

#endif
