/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The main part of a program around one core on one driver: server, aggregator and switch agent consist of options, a
 * core, and this.
 *
 *   hd_main_run     keys -> open() -> driver, events -> make(): the core
 *                   -> serve until a signal -> drain() until it is done
 *                   -> close() -> driver, events, keys
 *
 * Each step returns 0, or a sysexits code after it has logged the error. All on one thread.
 */
#ifndef HD_MAIN_H
#define HD_MAIN_H

#include "hd_setup.h"

/* The first member of a program's own struct, initially all zero. */
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
	const char *without; /* what continues while the controller is lost, for the log */
	hd_ns drain_limit; /* drain() is called again until this has passed; 0: it is called once */
	const char *drain_failed; /* logged, with EX_IOERR, when the limit has passed */
	bool inner; /* as hd_service_loop has it */

	/* Opens what must exist before the driver. NULL: nothing. */
	int (*open)(struct hd_main *run, const void *options);
	/* Creates the core. The driver is bound. */
	int (*make)(struct hd_main *run, const void *options, void **core);
	/* Closes what open() and make() have opened, even after one of them failed. core: NULL if there is none. */
	void (*close)(struct hd_main *run, void *core);
	/* Adds the core's counters. */
	void (*gather)(void *core, struct hd_stats *stats);
	/* Ends sessions. True: nothing is left to do. */
	bool (*drain)(void *core, hd_ns now, struct hd_sink *sink);
	/* The driver was woken by a call of hd_driver_wake(). NULL: nothing. */
	void (*woken)(struct hd_main *run, void *core, hd_ns now, struct hd_sink *sink);
	/* NULL: hd_setup_event(). */
	void (*event)(struct hd_main *run, const struct hd_event *event);
};

/* Runs a program from its options to its end; options must begin with common. Returns its exit code. */
int hd_main_run(
	struct hd_main *run,
	const struct hd_main_ops *ops,
	const struct hd_setup_options *common
);

/* For make(): the controller's address (none without --controller) and fresh entropy. */
int hd_main_identity(
	struct hd_main *run,
	const struct hd_setup_options *common,
	struct hd_addr *controller,
	uint8_t seed[32]
);
/* For make(): the address for peers' data; none if bound to any address: peers use the one at which they reach us. */
struct hd_addr hd_main_data(const struct hd_main *run);

/* Adds the service's own counters, for a core that answers `show counters`. */
void hd_main_gather(void *run, struct hd_stats *stats);

#endif
