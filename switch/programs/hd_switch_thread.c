/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_switch_agent.h"
#include "hd_switch_thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

/* The ports run on for this long, to pass on the agent's last messages. */
#define LAST_WORDS_NS 50000000
#define GROUPS_MAX 16

struct hd_switch_thread {
	struct hd_switch_thread_config config;
	struct hd_switch_agent *agent;
	struct hd_driver *driver;
	pthread_t thread;
	bool started, draining;
	int code; // writer: the thread, reader: the thread that joins it
};

/* --- calls between two bursts ---------------------------------------------------------------- */

/* A call of the agent, made by the ports' loop. */
struct call {
	const struct hd_switch_thread *thread;
	const struct hd_switch_lease *lease;
	struct hd_switch_copy *copy;
	struct hd_stats *stats;
	uint64_t *counters;
	uint64_t waits;
	uint32_t ipv4;
	uint16_t id;
	char *error;
	size_t error_bytes;
	int code;
};

static int make_call(struct call *call, void (*make)(void *call)) {
	int code = hd_ports_call(call->thread->config.ports, make, call);

	return code < 0 ? code : call->code;
}

static void call_neighbour(void *argument) {
	struct call *call = argument;

	call->code = hd_ports_neighbour(call->thread->config.ports, call->ipv4, call->copy);
	if (call->code == -ENOENT)
		(void)snprintf(
			call->error,
			call->error_bytes,
			"%u.%u.%u.%u is none of the stations of --static",
			call->ipv4 >> 24,
			call->ipv4 >> 16 & 0xff,
			call->ipv4 >> 8 & 0xff,
			call->ipv4 & 0xff
		);
}

static void call_lease_set(void *argument) {
	struct call *call = argument;
	const struct hd_switch_executor *x = call->thread->config.executor;

	call->code = x->ops->lease_set(x->self, call->lease, call->error, call->error_bytes);
}

static void call_lease_waits(void *argument) {
	struct call *call = argument;
	const struct hd_switch_executor *x = call->thread->config.executor;

	call->code = x->ops->lease_waits(
		x->self, call->id, call->waits, call->error, call->error_bytes
	);
}

static void call_lease_end(void *argument) {
	struct call *call = argument;
	const struct hd_switch_executor *x = call->thread->config.executor;

	call->code = x->ops->lease_end(x->self, call->id, call->error, call->error_bytes);
}

static void call_counters(void *argument) {
	struct call *call = argument;
	const struct hd_switch_executor *x = call->thread->config.executor;

	x->ops->counters(x->self, call->counters);
}

/* The calling thread is the one that moves frames. */
static void add_core(const struct hd_ports *ports, struct hd_stats *stats) {
	const char *label = "ports";
	struct hd_core_stats core;

	if (hd_driver_thread_stats(&core) < 0) {
		hd_stats_leave_out(stats);
		return;
	}
	core.polls = hd_ports_polls(ports, &core.idle_polls);
	hd_stats_add(stats, &hd_core_group, &label, &core);
}

static void call_gather(void *argument) {
	struct call *call = argument;
	struct hd_ports *ports = call->thread->config.ports;

	hd_ports_gather(ports, call->thread->config.executor, call->stats);
	add_core(ports, call->stats);
}

/* --- the agent's requests -------------------------------------------------------------------- */

static int
on_neighbour(void *owner, uint32_t ipv4, struct hd_switch_copy *copy, char *error, size_t bytes) {
	struct call call = {
		.thread = owner, .ipv4 = ipv4, .copy = copy, .error = error, .error_bytes = bytes};

	return make_call(&call, call_neighbour);
}

static int
on_lease_set(void *owner, const struct hd_switch_lease *lease, char *error, size_t bytes) {
	struct call call = {.thread = owner, .lease = lease, .error = error, .error_bytes = bytes};

	return make_call(&call, call_lease_set);
}

static int on_lease_waits(void *owner, uint16_t id, uint64_t waits, char *error, size_t bytes) {
	struct call call
		= {.thread = owner, .id = id, .waits = waits, .error = error, .error_bytes = bytes};

	return make_call(&call, call_lease_waits);
}

static int on_lease_end(void *owner, uint16_t id, char *error, size_t bytes) {
	struct call call = {.thread = owner, .id = id, .error = error, .error_bytes = bytes};

	return make_call(&call, call_lease_end);
}

static int
on_counters(void *owner, uint64_t counters[HD_SWITCH_COUNTER_COUNT], char *error, size_t bytes) {
	struct call call
		= {.thread = owner, .counters = counters, .error = error, .error_bytes = bytes};

	return make_call(&call, call_counters);
}

static void on_gather(void *owner, struct hd_stats *stats) {
	struct call call = {.thread = owner, .stats = stats};

	if (make_call(&call, call_gather) < 0)
		hd_stats_leave_out(stats);
	hd_service_gather(call.thread->config.service, stats);
}

static const struct hd_switch_agent_ops agent_ops = {
	.neighbour = on_neighbour,
	.lease_set = on_lease_set,
	.lease_waits = on_lease_waits,
	.lease_end = on_lease_end,
	.counters = on_counters,
	.gather = on_gather,
};

/* --- its loop -------------------------------------------------------------------------------- */

static void fill(void *owner, struct hd_stats *stats) {
	struct hd_switch_thread *thread = owner;

	hd_switch_agent_gather(thread->agent, stats);
	on_gather(thread, stats);
}

static void on_woken(void *owner, hd_ns now, struct hd_sink *sink) {
	struct hd_switch_thread *thread = owner;

	hd_service_woken(thread->config.service, fill, thread);
	if (thread->draining) {
		thread->draining = false;
		hd_switch_agent_drain(thread->agent, now, sink);
	}
}

static void on_event(void *owner, const struct hd_event *event) {
	struct hd_switch_thread *thread = owner;

	hd_setup_event(thread->config.service, event, "leases expire");
}

static void *run(void *owner) {
	struct hd_switch_thread *thread = owner;
	const struct hd_node node = {&hd_switch_agent_core, thread->agent};
	const struct timespec last_words = {.tv_nsec = LAST_WORDS_NS};

	thread->code = hd_driver_run(thread->driver, node);
	thread->draining = true;
	hd_driver_wake(thread->driver);
	(void)hd_driver_poll(thread->driver, node, 0);
	(void)nanosleep(&last_words, NULL);
	hd_ports_stop(thread->config.ports);
	return NULL;
}

/* --- starting and ending --------------------------------------------------------------------- */

static void wake(void *driver) {
	hd_driver_wake(driver);
}

static int start_service(struct hd_switch_thread *thread) {
	const struct hd_stat_group *groups[GROUPS_MAX];
	const struct hd_service_loop loop
		= {.wake = wake, .owner = thread->driver, .eal = true, .inner = true};
	size_t count = 0;

	for (size_t i = 0; hd_switch_agent_groups[i] && count + 1 < GROUPS_MAX; i++)
		groups[count++] = hd_switch_agent_groups[i];
	for (size_t i = 0; hd_ports_groups[i] && count + 1 < GROUPS_MAX; i++)
		groups[count++] = hd_ports_groups[i];
	groups[count] = NULL;
	thread->config.service->driver = thread->driver;
	return hd_setup_service_loop(thread->config.service, &loop, groups);
}

static int make_agent(struct hd_switch_thread *thread) {
	const struct hd_switch_thread_config *c = &thread->config;
	struct hd_log *log = &c->service->log;
	struct hd_switch_agent_config config = {
		.name = c->setup->host,
		.host = c->setup->host,
		.keys = c->keys,
		.key_id = c->keys->keys[0].id,
		.data = {.ipv4 = hd_ports_self(c->ports)->ipv4, .port = HD_SWITCH_UDP_PORT},
		.count_min = c->count_min,
		.count_max = c->count_max,
		.dtypes = c->dtypes,
		.ops = &agent_ops,
		.owner = thread,
	};
	int code = hd_setup_controller(log, c->setup->controller, &config.controller);

	if (code)
		return code;
	if (hd_program_entropy(config.seed) < 0)
		return hd_log_fail(log, EX_OSERR, "no entropy");
	code = hd_switch_agent_create(&config, &thread->agent);
	if (code == 0)
		return 0;
	return hd_log_fail(log, EX_USAGE, "--host: '%s': %s", c->setup->host, strerror(-code));
}

static int start(struct hd_switch_thread *thread) {
	const struct hd_switch_thread_config *c = &thread->config;
	struct hd_log *log = &c->service->log;
	struct hd_driver_config driver = {.event = on_event, .woken = on_woken, .owner = thread};
	int status = hd_setup_driver(c->service, c->setup, &driver, &thread->driver);

	if (status == 0)
		status = make_agent(thread);
	if (status == 0)
		status = start_service(thread);
	if (status == 0)
		status = hd_setup_events(c->service, c->setup);
	if (status == 0 && pthread_create(&thread->thread, NULL, run, thread) != 0)
		status = hd_log_fail(log, EX_OSERR, "no thread for the agent");
	thread->started = status == 0;
	return status;
}

int hd_switch_thread_start(
	const struct hd_switch_thread_config *config,
	struct hd_switch_thread **thread
) {
	struct hd_switch_thread *made = calloc(1, sizeof *made);
	int status;

	if (!made)
		return hd_log_fail(&config->service->log, EX_OSERR, "no memory");
	made->config = *config;
	status = start(made);
	if (status)
		(void)hd_switch_thread_join(made);
	else
		*thread = made;
	return status;
}

void hd_switch_thread_stop(struct hd_switch_thread *thread) {
	hd_driver_stop(thread->driver);
}

int hd_switch_thread_join(struct hd_switch_thread *thread) {
	struct hd_service *service = thread->config.service;
	int code;

	if (thread->started)
		pthread_join(thread->thread, NULL);
	hd_service_stop(service);
	service->driver = NULL;
	hd_switch_agent_destroy(thread->agent);
	if (thread->driver)
		hd_driver_close(thread->driver);
	code = thread->code;
	free(thread);
	return code < 0 ? hd_log_fail(&service->log, EX_OSERR, "agent: %s", strerror(-code)) : 0;
}
