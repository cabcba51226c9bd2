/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libheddle: pushes the updates of a training process to the Heddle fabric and pulls models from it.
 *
 *	struct heddle_spec *spec;                     the job's description: tensors, optimizer, tau_max
 *	struct heddle *fabric;
 *	struct heddle_status status = HEDDLE_STATUS_INIT;
 *
 *	heddle_spec_create(NULL, NULL, &spec);        names from HEDDLE_TENANT and HEDDLE_JOB
 *	heddle_spec_add_tensor(spec, "w", ...);
 *	heddle_open(spec, NULL, &fabric);             options from the environment (set by heddle-run)
 *	while (training) {
 *		heddle_pull(fabric, w, NULL, -1, &status);
 *		...gradient g at w...
 *		heddle_push(fabric, g, status.version, NULL, -1, NULL);
 *	}
 *	heddle_close(fabric, 1000);
 *
 * Threads. The library starts one progress thread, which sends and receives; the program does not have to drive it.
 * Every function may be called from any thread unless its comment says otherwise.
 * Return values. A function returns 0 or a positive value on success and a negative errno on failure; its comment lists
 * the errors. Every function also returns -EINVAL, and changes nothing, when a required pointer is NULL or an argument
 * has an impossible value (an unknown enum value, a struct of another size, a NaN). heddle_last_error() then names the
 * argument. Functions without an error code ignore a NULL handle. The heddle_spec_ setters accept any value;
 * heddle_open() rejects bad ones.
 * Structs whose first member is `size` may grow in later versions: initialize them with their _INIT macro.
 * Names. A function is a verb and its object. A noun returns a value (heddle_rank()); heddle_get_X() fills a struct X.
 * Operations are pushes, pulls and collectives. Each has two calls, with the same arguments in the same order:
 *	heddle_X_start(fabric, ..., options, &ticket)              returns at once; see heddle_ticket_wait()
 *	heddle_X(fabric, ..., options, timeout_ms, &status)        waits; status may be NULL
 * The second returns 0 (APPLIED), 1 (DROPPED by policy: continue), -EIO (FAILED), -ETIMEDOUT, or an error of
 * heddle_X_start() or heddle_ticket_wait(). status.reason says why for 1 and -EIO. *status is set unless an error of
 * heddle_X_start() is returned.
 * Blocking. Only functions with a timeout_ms parameter wait for other nodes, and never longer than timeout_ms
 * milliseconds (negative: no limit), whichever node fails to answer. They return -ESHUTDOWN when this worker has left
 * the job, as the awaited event can no longer happen, and -EDEADLK in a function of heddle_ticket_then(). All other
 * functions return at once, except for the time that they need to copy and compute. heddle_open() also reads files and
 * may wait up to 5 s for each host name that it resolves.
 * Processes. A handle belongs to the process that opened it. After fork() the child's calls return -ECHILD; the child
 * may only close the handle (which closes its descriptors and sends nothing) and open one of its own. An internal error
 * ends the handle, not the process: the log (HEDDLE_LOG_ERROR) says where it happened, operations in flight end as
 * FAILED, and further calls return -EIO.
 */
#ifndef HEDDLE_H
#define HEDDLE_H

#include "heddle_base.h"
#include "heddle_collective.h"
#include "heddle_elastic.h"
#include "heddle_federated.h"
#include "heddle_filter.h"
#include "heddle_job.h"
#include "heddle_list.h"
#include "heddle_members.h"
#include "heddle_send.h"
#include "heddle_spec.h"
#include "heddle_state.h"
#include "heddle_stats.h"
#include "heddle_ticket.h"
#include "heddle_times.h"
#include "heddle_transfer.h"

#endif
