/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_main.h"

#include <sysexits.h>
#include <time.h>

#define DRAIN_NAP_NS 2000000

/* A running program: the argument of the driver's callbacks. */
struct running {
	struct hd_main *run;
	void *core;
};

static void on_event(void *owner, const struct hd_event *event) {
	struct hd_main *run = ((struct running *)owner)->run;

	if (run->ops->event)
		run->ops->event(run, event);
	else
		hd_setup_event(&run->service, event, run->ops->without);
}

static void fill(void *owner, struct hd_stats *stats) {
	struct running *running = owner;

	running->run->ops->gather(running->core, stats);
	hd_service_gather(&running->run->service, stats);
}

static void on_woken(void *owner, hd_ns now, struct hd_sink *sink) {
	struct running *running = owner;
	struct hd_main *run = running->run;

	if (run->ops->woken)
		run->ops->woken(run, running->core, now, sink);
	hd_service_woken(&run->service, fill, running);
	if (run->draining && !run->drained)
		run->drained = run->ops->drain(running->core, now, sink);
}

static int drain(struct hd_main *run, struct hd_node node) {
	const struct timespec nap = {.tv_nsec = DRAIN_NAP_NS};
	hd_ns end = hd_driver_now() + run->ops->drain_limit;

	run->draining = true;
	for (;;) {
		hd_driver_wake(run->driver);
		(void)hd_driver_poll(run->driver, node, 0);
		if (run->drained || hd_driver_now() >= end)
			break;
		(void)nanosleep(&nap, NULL);
	}
	if (run->drained || !run->ops->drain_failed)
		return 0;
	return hd_log_fail(&run->service.log, EX_IOERR, "%s", run->ops->drain_failed);
}

static int serve(void *owner) {
	struct running *running = owner;
	struct hd_main *run = running->run;
	struct hd_node node = {run->ops->node, running->core};
	int status;

	run->service.loop.inner = run->ops->inner;
	status = hd_setup_run(&run->service.log, run->driver, node);
	return status ? status : drain(run, node);
}

int hd_main_run(
	struct hd_main *run,
	const struct hd_main_ops *ops,
	const struct hd_setup_options *common
) {
	struct running running = {.run = run};
	struct hd_driver_config config = {
		.options = common->driver,
		.event = on_event,
		.woken = on_woken,
		.owner = &running,
	};
	int status = hd_setup_begin(&run->service, common, &run->keys);

	run->ops = ops;
	if (!status && ops->open)
		status = ops->open(run, common);
	if (!status)
		status = hd_setup_driver(&run->service, common, &config, &run->driver);
	if (!status)
		status = ops->make(run, common, &running.core);
	if (!status)
		status = hd_setup_serve(
			&run->service, common, run->driver, ops->groups, serve, &running
		);
	ops->close(run, running.core);
	return hd_setup_end(&run->service, common, &run->keys, run->driver, status);
}

int hd_main_identity(
	struct hd_main *run,
	const struct hd_setup_options *common,
	struct hd_addr *controller,
	uint8_t seed[32]
) {
	int status = 0;

	if (common->controller)
		status = hd_setup_controller(&run->service.log, common->controller, controller);
	if (!status && hd_program_entropy(seed) < 0)
		status = hd_log_fail(&run->service.log, EX_OSERR, "no entropy");
	return status;
}

struct hd_addr hd_main_data(const struct hd_main *run) {
	struct hd_addr bound = hd_driver_bound(run->driver);

	return bound.ipv4 ? bound : (struct hd_addr){0};
}

void hd_main_gather(void *run, struct hd_stats *stats) {
	hd_service_gather(&((struct hd_main *)run)->service, stats);
}
