/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs around a core do alike before it runs and after: each step returns 0, or a sysexits code when it
 * has said on the log which option is wrong, why, and what would be right.
 *
 *   main: hd_log_init; options (hd_setup_real, ...); hd_setup_log; hd_setup_keys
 *     hd_setup_events; hd_setup_driver
 *       hd_setup_service; hd_setup_run; hd_service_stop
 *     hd_driver_close; hd_setup_end_events
 */
#ifndef HD_SETUP_H
#define HD_SETUP_H

#include "hd_service.h"

/* --- values of options; option is its name without the dashes ---------------------------------- */
int hd_setup_real(
	struct hd_log *log,
	const char *option,
	const char *text,
	double least,
	double most,
	double *value
);
int hd_setup_whole(
	struct hd_log *log,
	const char *option,
	const char *text,
	uint64_t least,
	uint64_t most,
	uint64_t *value
);
/* The same for 32 bits: most is at most UINT32_MAX. */
int hd_setup_u32(
	struct hd_log *log,
	const char *option,
	const char *text,
	uint32_t least,
	uint32_t most,
	uint32_t *value
);
/* From 1, with an optional K, M or G of 1024 each. */
int hd_setup_bytes(
	struct hd_log *log,
	const char *option,
	const char *text,
	uint64_t most,
	uint64_t *value
);

/* --- steps ------------------------------------------------------------------------------------- */

/* hd_service_init(). What was said on service->log before went to standard error as text. */
int hd_setup_log(
	struct hd_service *service,
	const char *program,
	const char *node,
	const struct hd_service_options *options
);
/* Frees with hd_keyring_fini(). */
int hd_setup_keys(struct hd_log *log, const char *path, struct hd_keyring *keys);
/* service->events, whose troubles are told on the log; path NULL: none. */
int hd_setup_events(struct hd_service *service, const char *path, const char *node);
/* Closes it. Returns status, or EX_IOERR when that is 0 and some of it could not be written. */
int hd_setup_end_events(struct hd_service *service, const char *path, int status);
/* Sets config->bind from `listen` (port 0: any free one), and opens. */
int hd_setup_driver(
	struct hd_log *log,
	const char *listen,
	struct hd_driver_config *config,
	struct hd_driver **driver
);
/* hd_service_start(); hd_service_stop() is due in any case. */
int hd_setup_service(
	struct hd_service *service,
	struct hd_driver *driver,
	const struct hd_stat_group *const *groups
);
/* hd_service_start_loop(); likewise. */
int hd_setup_service_loop(
	struct hd_service *service,
	const struct hd_service_loop *loop,
	const struct hd_stat_group *const *groups
);
int hd_setup_signals(struct hd_log *log, struct hd_driver *driver);
/* The address of --controller. */
int hd_setup_controller(struct hd_log *log, const char *text, struct hd_addr *controller);
/* hd_setup_signals(), `ready ADDR:PORT` on standard output, hd_driver_run(). */
int hd_setup_run(struct hd_log *log, struct hd_driver *driver, struct hd_node node);
/* An event of a node that has a controller, to the log and to service->events; `without` says what goes on when the
 * controller is lost. */
void hd_setup_event(struct hd_service *service, const struct hd_event *event, const char *without);

#endif
