/* SPDX-License-Identifier: BSD-3-Clause */
/* Words for codes. */
#include "heddle_private.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Like errno: each thread has its own. */
static _Thread_local char last_error[HD_TEXT_BYTES_MAX + 1];

void heddle_set_error(const char *format, ...) {
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(last_error, sizeof last_error, format, arguments);
	va_end(arguments);
}

const char *heddle_last_error(void) {
	return last_error;
}

const char *heddle_version_text(void) {
	return "0.2.0";
}

const char *heddle_reason_name(enum heddle_reason reason) {
	return hd_reason_name((enum hd_reason)reason);
}

const char *heddle_state_name(enum heddle_state state) {
	static const char *const names[] = {
		"queued",
		"requested",
		"granted",
		"sending",
		"held",
		"applied",
		"durable",
		"dropped",
		"failed",
	};

	return (unsigned)state < sizeof names / sizeof *names ? names[state] : "unknown";
}

const char *heddle_strerror(int error) {
	/* Of INT_MIN there is no positive one. */
	int code = error < -INT_MAX ? INT_MAX : abs(error);

	switch (code) {
	case 0:
		return "no error";
	case EDOM:
		return "NaN or Inf in the update";
	case EAGAIN:
		return "too many calls wait (HEDDLE_COMMANDS_MAX)";
	case ECONNREFUSED:
		return "refused by the server or the controller";
	case ESHUTDOWN:
		return "this worker is leaving: its machine is taken away";
	case EDEADLK:
		return "it would wait, in a function of heddle_ticket_then()";
	case ETIMEDOUT:
		return "not in time";
	case ECHILD:
		return "the handle belongs to the process that opened it";
	case ENOTSUP:
		return "this kind of memory is not supported by this build";
	case EDESTADDRREQ:
		return "neither a controller nor a server is named";
	case EIO:
		return "the transfer has failed";
	case ENODATA:
		return "too few clients are left for a round";
	case EHOSTDOWN:
		return "clients were lost, and too few are left for a round";
	default:
		break;
	}
	return strerrordesc_np(code) ? strerrordesc_np(code) : "unknown error";
}

int heddle_check(const struct heddle *fabric) {
	if (!fabric)
		return heddle_fail(-EINVAL, "handle: NULL");
	if (getpid() != fabric->pid)
		return heddle_fail(-ECHILD, "the handle belongs to the process that opened it");
	if (!fabric->driver) /* in a function of heddle_ticket_then() that heddle_close() calls */
		return heddle_fail(-ESHUTDOWN, "the handle is closed");
	return 0;
}

int heddle_check_ticket(const struct heddle_ticket *ticket) {
	if (!ticket)
		return heddle_fail(-EINVAL, "ticket: NULL");
	if (getpid() != ticket->fabric->pid)
		return heddle_fail(-ECHILD, "ticket of the parent process");
	return 0;
}
