/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The steps common to programs before and after their core runs. Each returns 0, or a sysexits code after it has logged
 * which option is wrong, why, and what would be right.
 *
 *   hd_setup_options
 *     hd_setup_begin; hd_setup_driver; the core's parts
 *       hd_setup_serve: hd_setup_run
 *     hd_setup_end
 */
#ifndef HD_SETUP_H
#define HD_SETUP_H

#include "hd_service.h"

/* --- command line ------------------------------------------------------------------------------ */

/* The options of most programs: the first member of a program's own options, for the rows below. */
struct hd_setup_options {
	struct hd_log *log; /* receives errors */
	const char *key_file, *listen, *controller, *host, *events;
	struct hd_driver_options driver;
	struct hd_service_options service;
};

#define HD_SETUP_KEYS "keys of the cluster: lines of `<id> <64 hex digits>`"
#define HD_SETUP_KEY_FILE                                                                          \
	HD_OPTION_NEEDED("key-file", "FILE", struct hd_setup_options, key_file, HD_SETUP_KEYS)
#define HD_SETUP_LISTEN(words)                                                                     \
	HD_OPTION_TEXT("listen", "ADDR[:PORT]", struct hd_setup_options, listen, words)
#define HD_SETUP_LISTEN_NEEDED(words)                                                              \
	HD_OPTION_NEEDED("listen", "ADDR[:PORT]", struct hd_setup_options, listen, words)
#define HD_SETUP_CONTROLLER(words)                                                                 \
	HD_OPTION_TEXT("controller", "ADDR[:PORT]", struct hd_setup_options, controller, words)
#define HD_SETUP_CONTROLLER_NEEDED(words)                                                          \
	HD_OPTION_NEEDED("controller", "ADDR[:PORT]", struct hd_setup_options, controller, words)
#define HD_SETUP_HOST(words) HD_OPTION_NAME("host", struct hd_setup_options, host, words)
#define HD_SETUP_EVENTS(words)                                                                     \
	HD_OPTION_TEXT("events", "FILE", struct hd_setup_options, events, words)
#define HD_SETUP_SERVICE HD_OPTION_TABLE(hd_service_option_table, struct hd_setup_options, service)
#define HD_SETUP_DRIVER HD_OPTION_TABLE(hd_driver_option_table, struct hd_setup_options, driver)

/*
 * Reads the command line into options, which begins with a struct hd_setup_options, and opens the log, which is named
 * options->host. 0, -1 when --help has been printed, or an exit code.
 */
int hd_setup_options(
	const struct hd_option_program *program,
	int argc,
	char **argv,
	void *options,
	struct hd_service *service
);

/* --- steps ------------------------------------------------------------------------------------- */

/* Reads the keys. hd_setup_end() must follow in any case. */
int hd_setup_begin(
	struct hd_service *service,
	const struct hd_setup_options *options,
	struct hd_keyring *keys
);
/* After the core: closes the driver (NULL: none is open) and the events, frees the keys. Returns status, or EX_IOERR if
 * that is 0 and some events could not be written. */
int hd_setup_end(
	struct hd_service *service,
	const struct hd_setup_options *options,
	struct hd_keyring *keys,
	struct hd_driver *driver,
	int status
);
/* Opens a driver on options->listen (port 0: any free one), and sets config->bind from it. */
int hd_setup_driver(
	struct hd_service *service,
	const struct hd_setup_options *options,
	struct hd_driver_config *config,
	struct hd_driver **driver
);
/* Opens (truncates) service->events, whose errors are logged. Call it only once the program has its ports, the driver's
 * and the metrics': a second instance started by mistake finds them in use, and leaves the first one's events
 * unchanged. */
int hd_setup_events(struct hd_service *service, const struct hd_setup_options *options);
/* Calls run() with the service running: hd_service_start(), hd_setup_events(), hd_service_stop(). */
int hd_setup_serve(
	struct hd_service *service,
	const struct hd_setup_options *options,
	struct hd_driver *driver,
	const struct hd_stat_group *const *groups,
	int (*run)(void *owner),
	void *owner
);
/* hd_service_start_loop(); hd_service_stop() must follow in any case. */
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
/* Logs an event of a node that has a controller, and adds it to service->events; `without` says what continues when the
 * controller is lost. */
void hd_setup_event(struct hd_service *service, const struct hd_event *event, const char *without);

#endif
