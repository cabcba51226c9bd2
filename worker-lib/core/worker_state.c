/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a worker stands with its controller and its server. */
#include "worker_core.h"

bool worker_has_controller(const struct hd_worker *worker) {
	return worker->controller && hd_session_is_open(worker->controller) && worker->registered;
}

enum worker_asked worker_whom_to_ask(const struct hd_worker *worker) {
	if (!worker->stats.joined || worker->refused)
		return WORKER_ASKED_NOBODY;
	if (hd_addr_is_none(worker->config.controller))
		return WORKER_ASKED_SERVER;
	if (worker_has_controller(worker))
		return worker->scheduled ? WORKER_ASKED_CONTROLLER : WORKER_ASKED_SERVER;
	return worker->fallback ? WORKER_ASKED_SERVER : WORKER_ASKED_NOBODY;
}
