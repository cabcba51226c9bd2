/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_message.h"
#include "hd_setup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

/* --- command line ------------------------------------------------------------------------------ */

static int tell(void *log, int code, const char *sentence) {
	return hd_log_fail(log, code, "%s", sentence);
}

int hd_setup_options(
	const struct hd_option_program *program,
	int argc,
	char **argv,
	void *options,
	struct hd_service *service
) {
	struct hd_setup_options *common = options;
	const struct hd_option_errors errors = {tell, &service->log};
	int status;

	common->log = &service->log;
	hd_log_init(common->log, program->name, ""); /* text on standard error, for now */
	status = hd_options_read(program, argc, argv, options, &errors);
	if (status)
		return status;
	if (hd_service_init(service, program->name, common->host, &common->service) == 0)
		return 0;
	return hd_log_fail(
		common->log,
		EX_USAGE,
		"--log-level: '%s' (error, warning, info or debug)",
		common->service.log_level
	);
}

/* --- steps ------------------------------------------------------------------------------------- */

static int read_keys(struct hd_log *log, const char *path, struct hd_keyring *keys) {
	char error[512];
	int status = hd_program_read_keys(path, keys, error, sizeof error);

	if (status == 0 && hd_program_keys_exposed(path, error, sizeof error))
		hd_log_write(log, HD_LOG_WARNING, "keys-exposed", NULL, "--key-file: %s", error);
	if (status == 0)
		return 0;
	return hd_log_fail(
		log, status == -EINVAL ? EX_DATAERR : EX_NOINPUT, "--key-file: %s", error
	);
}

int hd_setup_begin(
	struct hd_service *service,
	const struct hd_setup_options *options,
	struct hd_keyring *keys
) {
	*keys = (struct hd_keyring){0};
	return read_keys(&service->log, options->key_file, keys);
}

int hd_setup_end(
	struct hd_service *service,
	const struct hd_setup_options *options,
	struct hd_keyring *keys,
	struct hd_driver *driver,
	int status
) {
	int closed;

	hd_driver_close(driver);
	hd_keyring_fini(keys);
	closed = hd_event_log_close(service->events);
	service->events = NULL;
	if (closed == 0 || status)
		return status;
	return hd_log_fail(
		&service->log,
		EX_IOERR,
		"--events: %s: some events could not be written",
		options->events
	);
}

int hd_setup_driver(
	struct hd_service *service,
	const struct hd_setup_options *options,
	struct hd_driver_config *config,
	struct hd_driver **driver
) {
	const char *listen = options->listen;
	struct hd_log *log = &service->log;
	char error[256];
	int code = hd_driver_resolve_own(listen, &config->bind);

	if (code < 0)
		return hd_log_fail(
			log, EX_USAGE, "--listen: '%s': %s", listen, hd_driver_resolve_error(code)
		);
	if (hd_driver_open(config, driver, error, sizeof error) == 0)
		return 0;
	if (hd_driver_was_chosen(&config->options))
		return hd_log_fail(log, EX_UNAVAILABLE, "--%s", error);
	return hd_log_fail(log, EX_UNAVAILABLE, "--listen: %s: %s", listen, error);
}

static int read_token(struct hd_service *service) {
	const char *path = service->options.metrics_token_file, *what = "";
	int status = path ? hd_metrics_read_token(path, service->metrics_token, &what) : 0;

	if (status == 0)
		return 0;
	return hd_log_fail(
		&service->log,
		status == -EBADMSG ? EX_DATAERR : EX_NOINPUT,
		"--metrics-token-file: %s: %s",
		path,
		what
	);
}

static int end_with(struct hd_service *service) {
	uint32_t pid = service->options.end_with;
	int status = pid ? hd_program_end_with((pid_t)pid) : 0;

	if (status == 0)
		return 0;
	return hd_log_fail(
		&service->log, EX_OSERR, "--end-with: process %u: %s", pid, strerror(-status)
	);
}

static int log_started(struct hd_service *service, int status, const char *error) {
	if (status == 0)
		return 0;
	return hd_log_fail(
		&service->log,
		status == -EINVAL ? EX_USAGE : EX_UNAVAILABLE,
		"--metrics: '%s': %s",
		service->options.metrics ? service->options.metrics : "",
		error
	);
}

static int start_service(
	struct hd_service *service,
	struct hd_driver *driver,
	const struct hd_stat_group *const *groups
) {
	char error[256];
	int status = read_token(service);

	if (status == 0)
		status = end_with(service);
	if (status)
		return status;
	status = hd_service_start(service, driver, groups, error, sizeof error);
	return log_started(service, status, error);
}

/* Runs in the event log's thread. */
static void log_trouble(void *owner, const char *sentence) {
	(void)hd_log_fail(owner, 0, "--events: %s", sentence);
}

int hd_setup_events(struct hd_service *service, const struct hd_setup_options *options) {
	int status;

	if (!options->events)
		return 0;
	status = hd_event_log_open(options->events, options->host, &service->events);
	if (status)
		return hd_log_fail(
			&service->log,
			EX_CANTCREAT,
			"--events: %s: %s",
			options->events,
			strerror(-status)
		);
	hd_event_log_on_trouble(service->events, log_trouble, &service->log);
	return 0;
}

int hd_setup_serve(
	struct hd_service *service,
	const struct hd_setup_options *options,
	struct hd_driver *driver,
	const struct hd_stat_group *const *groups,
	int (*run)(void *owner),
	void *owner
) {
	int status = start_service(service, driver, groups);

	if (status == 0)
		status = hd_setup_events(service, options);
	if (status == 0)
		status = run(owner);
	hd_service_stop(service);
	return status;
}

int hd_setup_service_loop(
	struct hd_service *service,
	const struct hd_service_loop *loop,
	const struct hd_stat_group *const *groups
) {
	char error[256];
	int status = read_token(service);

	if (status == 0)
		status = end_with(service);
	if (status)
		return status;
	status = hd_service_start_loop(service, loop, groups, error, sizeof error);
	return log_started(service, status, error);
}

int hd_setup_signals(struct hd_log *log, struct hd_driver *driver) {
	int status = hd_program_stop_on_signals(driver);

	return status ? hd_log_fail(log, EX_OSERR, "signals: %s", strerror(-status)) : 0;
}

int hd_setup_controller(struct hd_log *log, const char *text, struct hd_addr *controller) {
	int code = hd_driver_resolve(text, controller);

	if (code == 0)
		return 0;
	return hd_log_fail(
		log, EX_NOHOST, "--controller: '%s': %s", text, hd_driver_resolve_error(code)
	);
}

int hd_setup_run(struct hd_log *log, struct hd_driver *driver, struct hd_node node) {
	char bound[HD_ADDR_TEXT_BYTES];
	int status = hd_setup_signals(log, driver);

	if (status)
		return status;
	hd_driver_print_addr(hd_driver_bound(driver), bound);
	(void)printf("ready %s\n", bound);
	if (fflush(stdout))
		return hd_log_fail(log, EX_IOERR, "standard output: %s", strerror(errno));
	status = hd_driver_run(driver, node);
	return status < 0 ? hd_log_fail(log, EX_OSERR, "%s", strerror(-status)) : 0;
}

void hd_setup_event(struct hd_service *service, const struct hd_event *event, const char *without) {
	const char *reason = hd_reason_name(event->reason);
	bool controller = event->aux == HD_ROLE_CONTROLLER;

	if (event->kind == HD_EVENT_NODE_UP && controller)
		hd_log_write(
			&service->log, HD_LOG_INFO, "controller", event, "controller: connected"
		);
	else if (event->kind == HD_EVENT_NODE_DOWN && controller)
		hd_log_write(
			&service->log,
			HD_LOG_WARNING,
			"controller",
			event,
			"controller: %s: %s",
			reason,
			without
		);
	else
		hd_log_event(&service->log, event);
	hd_event_log_add(service->events, event);
}
