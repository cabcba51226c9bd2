/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the programs around cores: key file, entropy, event log, signals. Thread: any, unless stated. */
#ifndef HD_PROGRAM_H
#define HD_PROGRAM_H

#include "hd_driver.h"
#include "hd_event.h"
#include "hd_keys.h"

#include <sys/types.h>

/* Reads and parses a key file. -errno of opening and reading, -EFBIG (beyond 64 KiB), -EINVAL; error gets "FILE: what".
 * *ring is set only on success; free it with hd_keyring_fini(). */
int hd_program_read_keys(
	const char *path,
	struct hd_keyring *ring,
	char *error,
	size_t error_bytes
);

/* A user who can read the file can act as any node of the cluster. True when others than its owner can: warning then
 * names them, and says how to correct it. */
bool hd_program_keys_exposed(const char *path, char *warning, size_t warning_bytes);

/* 32 bytes from getrandom(). 0 or -errno. */
int hd_program_entropy(uint8_t seed[32]);

/* SIGINT and SIGTERM stop this driver; a second one, of either kind, kills the process. One driver a process. SIGPIPE
 * is ignored. 0 or -errno. */
int hd_program_stop_on_signals(struct hd_driver *driver);
/* The same for a program with a loop of its own: stop() is called in the signal handler. */
int hd_program_stop_by(void (*stop)(void *owner), void *owner);
/* Does what the first signal of this number does, and does not count as one. False: nothing is to be stopped yet. */
bool hd_program_stop(int number);
/* Stops this process as SIGTERM does, but not by a signal, once the process pid has ended, in whatever way. 0 or -errno
 * (-ESRCH: it has ended). */
int hd_program_end_with(pid_t pid);
/* The signal received, 0 = none. */
int hd_program_signal(void);

/* --- event log: one JSON object a line ----------------------------------------------------- */
struct hd_event_log;

/* Opens (truncates) a log whose lines carry this node's name. The log's own thread writes the gathered lines every 200
 * ms, and sleeps while there are none. 0 or -errno. */
int hd_event_log_open(const char *path, const char *node, struct hd_event_log **log);
/* Calls `trouble` with a sentence, from the log's thread, when events begin to be lost (a full disk, a pipe without a
 * reader) and when they are written again: once each time, not for each event. It must not call the log. */
void hd_event_log_on_trouble(
	struct hd_event_log *log,
	void (*trouble)(void *owner, const char *sentence),
	void *owner
);
/* Adds a line: no system call unless 1 MiB has gathered. Any thread. `log` may be NULL. The signature is that of
 * hd_driver_config.event with the log as owner. */
void hd_event_log_add(void *log, const struct hd_event *event);
/* Waits until everything added so far is in the file, and on its disk. Any thread but the node's. 0, -ENOSPC (some of
 * it was lost) or -errno of fdatasync(). NULL: 0. */
int hd_event_log_sync(struct hd_event_log *log);
/* Events lost so far: a LOG_GAP event replaces each run of them. NULL: 0. */
uint64_t hd_event_log_lost(struct hd_event_log *log);
/* Writes the rest and frees. Returns the first error of any write, -errno, else 0. NULL: 0. */
int hd_event_log_close(struct hd_event_log *log);

#define HD_EVENT_JSON_BYTES 768

/* Formats one event as a JSON object and a newline; node is already JSON-safe (hd_event_json_name). Fields that are 0
 * are left out, except at_ns. Pure. Returns the bytes written, < HD_EVENT_JSON_BYTES; no NUL. */
size_t hd_event_json(const struct hd_event *event, const char *node, char out[HD_EVENT_JSON_BYTES]);
/* Escapes a node's name for a JSON string: quotes, backslashes; control characters become '?'. */
void hd_event_json_name(const char *name, char *out, size_t capacity);

#endif
