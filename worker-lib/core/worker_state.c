/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a worker's controller and server, and the stages of the worker. */
#include "hd_assert.h"
#include "worker_core.h"

#define BIT(state) (1U << (state))

void worker_set_link(struct hd_worker *worker, enum worker_link link) {
	static const unsigned next[] = {
		[WORKER_UNREGISTERED]
		= BIT(WORKER_SCHEDULED) | BIT(WORKER_UNSCHEDULED) | BIT(WORKER_FALLBACK),
		/* Registered again: the server may differ. */
		[WORKER_SCHEDULED]
		= BIT(WORKER_SCHEDULED) | BIT(WORKER_UNSCHEDULED) | BIT(WORKER_UNREGISTERED),
		[WORKER_UNSCHEDULED]
		= BIT(WORKER_SCHEDULED) | BIT(WORKER_UNSCHEDULED) | BIT(WORKER_UNREGISTERED),
		[WORKER_FALLBACK] = BIT(WORKER_SCHEDULED) | BIT(WORKER_UNSCHEDULED),
	};

	hd_assert(next[worker->link] & BIT(link));
	hd_assert(worker->controller || link == WORKER_UNREGISTERED || link == WORKER_FALLBACK);
	worker->link = link;
}

void worker_set_stage(struct hd_worker *worker, enum worker_stage stage) {
	static const unsigned next[] = {
		[WORKER_MEMBER] = BIT(WORKER_LEAVING),
		[WORKER_LEAVING] = BIT(WORKER_WITHDRAWN) | BIT(WORKER_LINGERING),
		[WORKER_WITHDRAWN] = BIT(WORKER_LINGERING),
		[WORKER_LINGERING] = BIT(WORKER_LEFT),
		[WORKER_LEFT] = 0,
	};

	hd_assert(next[worker->stage] & BIT(stage));
	worker->stage = stage;
	worker->stats.left = stage == WORKER_LEFT;
}

bool worker_is_registered(const struct hd_worker *worker) {
	return worker->link == WORKER_SCHEDULED || worker->link == WORKER_UNSCHEDULED;
}

bool worker_has_controller(const struct hd_worker *worker) {
	return worker->controller && hd_session_is_open(worker->controller)
		&& worker_is_registered(worker);
}

enum worker_asked worker_ask_target(const struct hd_worker *worker) {
	if (!worker->stats.joined || worker->refused)
		return WORKER_ASKED_NONE;
	if (hd_addr_is_none(worker->config.controller))
		return WORKER_ASKED_SERVER;
	if (worker_has_controller(worker))
		return worker->link == WORKER_SCHEDULED ? WORKER_ASKED_CONTROLLER :
							  WORKER_ASKED_SERVER;
	return worker->link == WORKER_FALLBACK ? WORKER_ASKED_SERVER : WORKER_ASKED_NONE;
}
