/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The main part of a program around one core on one driver: server, aggregator and switch agent are
 * options, a core, and this.
 *
 *   hd_main_run     keys -> open() -> driver, events -> make(): the core
 *                   -> serve until a signal -> drain() until it is done
 *                   -> close() -> driver, events, keys
 *
 * Each step returns 0 or a sysexits code when it has said on the log what is wrong. All on one thread.
 */
#ifndef HD_MAIN_H
#define HD_MAIN_H

#include "hd_setup.h"

/* The first member of a program's own struct, all zero at first. */
struct hd_main {
	const struct hd_main_ops *ops;
	struct hd_service service;
	struct hd_keyring keys;
	struct hd_driver *driver;
	bool draining, drained;
};

struct hd_main_ops {
	const struct hd_stat_group *const *groups; /* of the core */
	const struct hd_core_ops *node;
	const char *without; /* what goes on while the controller is lost, for the log */
	hd_ns drain_limit; /* drain() is called again until this has passed; 0: it is done at once */
	const char *drain_failed; /* said on the log, EX_IOERR, when it has */

	/* What has to be there before the driver. NULL: nothing. */
	int (*open)(struct hd_main *run, const void *options);
	/* Creates the core. The driver is bound. */
	int (*make)(struct hd_main *run, const void *options, void **core);
	/* Ends what open() and make() have begun, also after one of them failed. core: NULL when there is none. */
	void (*close)(struct hd_main *run, void *core);
	/* The core's numbers. */
	void (*gather)(void *core, struct hd_stats *stats);
	/* Says good-bye. True: nothing is left to be done. */
	bool (*drain)(void *core, hd_ns now, struct hd_sink *sink);
	/* The driver was woken, by whoever called hd_driver_wake(). NULL: nothing. */
	void (*woken)(struct hd_main *run, void *core, hd_ns now, struct hd_sink *sink);
	/* NULL: hd_setup_event(). */
	void (*event)(struct hd_main *run, const struct hd_event *event);
};

/* Runs a program from its options to its end; options begin with common. Returns its exit code. */
int hd_main_run(
	struct hd_main *run,
	const struct hd_main_ops *ops,
	const struct hd_setup_options *common
);

/* For make(): the controller's address (none when --controller was not given) and fresh entropy. */
int hd_main_identity(
	struct hd_main *run,
	const struct hd_setup_options *common,
	struct hd_addr *controller,
	uint8_t seed[32]
);
/* For make(): where peers send data; none when bound to any address: peers take the one that they reach us at. */
struct hd_addr hd_main_data(const struct hd_main *run);

/* The service's own numbers, for a core that answers `show counters`. */
void hd_main_gather(void *run, struct hd_stats *stats);

#endif
