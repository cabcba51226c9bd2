/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_message.h"
#include "hd_number.h"
#include "hd_setup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

int hd_setup_real(
	struct hd_log *log,
	const char *option,
	const char *text,
	double least,
	double most,
	double *value
) {
	if (hd_number_real(text, least, most, value) == 0)
		return 0;
	return hd_log_fail(
		log, EX_USAGE, "--%s: '%s' (a number from %g to %g)", option, text, least, most
	);
}

static int
not_whole(struct hd_log *log, const char *option, const char *text, uint64_t least, uint64_t most) {
	return hd_log_fail(
		log,
		EX_USAGE,
		"--%s: '%s' (a whole number from %llu to %llu)",
		option,
		text,
		(unsigned long long)least,
		(unsigned long long)most
	);
}

int hd_setup_whole(
	struct hd_log *log,
	const char *option,
	const char *text,
	uint64_t least,
	uint64_t most,
	uint64_t *value
) {
	if (hd_number_whole(text, least, most, value) == 0)
		return 0;
	return not_whole(log, option, text, least, most);
}

int hd_setup_u32(
	struct hd_log *log,
	const char *option,
	const char *text,
	uint32_t least,
	uint32_t most,
	uint32_t *value
) {
	uint64_t whole = 0;
	int status = hd_setup_whole(log, option, text, least, most, &whole);

	if (!status)
		*value = (uint32_t)whole;
	return status;
}

int hd_setup_bytes(
	struct hd_log *log,
	const char *option,
	const char *text,
	uint64_t most,
	uint64_t *value
) {
	if (hd_number_bytes(text, 1, most, value) == 0)
		return 0;
	return not_whole(log, option, text, 1, most);
}

/* --- steps ------------------------------------------------------------------------------------- */

int hd_setup_log(
	struct hd_service *service,
	const char *program,
	const char *node,
	const struct hd_service_options *options
) {
	if (hd_service_init(service, program, node, options) == 0)
		return 0;
	return hd_log_fail(
		&service->log,
		EX_USAGE,
		"--log-level: '%s' (error, warning, info or debug)",
		options->log_level
	);
}

int hd_setup_keys(struct hd_log *log, const char *path, struct hd_keyring *keys) {
	char error[512];
	int status = hd_program_read_keys(path, keys, error, sizeof(error));

	if (status == 0)
		return 0;
	return hd_log_fail(
		log, status == -EINVAL ? EX_DATAERR : EX_NOINPUT, "--key-file: %s", error
	);
}

/* From the event log's thread. */
static void say_trouble(void *owner, const char *sentence) {
	(void)hd_log_fail(owner, 0, "--events: %s", sentence);
}

int hd_setup_events(struct hd_service *service, const char *path, const char *node) {
	int status;

	if (!path)
		return 0;
	status = hd_event_log_open(path, node, &service->events);
	if (status)
		return hd_log_fail(
			&service->log, EX_CANTCREAT, "--events: %s: %s", path, strerror(-status)
		);
	hd_event_log_on_trouble(service->events, say_trouble, &service->log);
	return 0;
}

int hd_setup_end_events(struct hd_service *service, const char *path, int status) {
	int closed = hd_event_log_close(service->events);

	service->events = NULL;
	if (closed == 0 || status)
		return status;
	return hd_log_fail(&service->log, EX_IOERR, "--events: %s: not all could be written", path);
}

int hd_setup_driver(
	struct hd_log *log,
	const char *listen,
	struct hd_driver_config *config,
	struct hd_driver **driver
) {
	char error[256];

	if (hd_driver_resolve_own(listen, &config->bind))
		return hd_log_fail(
			log, EX_USAGE, "--listen: '%s' (an address, with :port if wanted)", listen
		);
	if (hd_driver_open(config, driver, error, sizeof(error)) == 0)
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

static int say_started(struct hd_service *service, int status, const char *error) {
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

int hd_setup_service(
	struct hd_service *service,
	struct hd_driver *driver,
	const struct hd_stat_group *const *groups
) {
	char error[256];
	int status = read_token(service);

	if (status)
		return status;
	status = hd_service_start(service, driver, groups, error, sizeof(error));
	return say_started(service, status, error);
}

int hd_setup_service_loop(
	struct hd_service *service,
	const struct hd_service_loop *loop,
	const struct hd_stat_group *const *groups
) {
	char error[256];
	int status = read_token(service);

	if (status)
		return status;
	status = hd_service_start_loop(service, loop, groups, error, sizeof(error));
	return say_started(service, status, error);
}

int hd_setup_signals(struct hd_log *log, struct hd_driver *driver) {
	int status = hd_program_stop_on_signals(driver);

	return status ? hd_log_fail(log, EX_OSERR, "signals: %s", strerror(-status)) : 0;
}

int hd_setup_controller(struct hd_log *log, const char *text, struct hd_addr *controller) {
	if (hd_driver_resolve(text, controller) == 0)
		return 0;
	return hd_log_fail(log, EX_NOHOST, "--controller: '%s' (an address, with :port)", text);
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
		hd_log_say(
			&service->log, HD_LOG_INFO, "controller", event, "controller: connected"
		);
	else if (event->kind == HD_EVENT_NODE_DOWN && controller)
		hd_log_say(
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
