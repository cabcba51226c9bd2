/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of heddle_open(), and the environment where they say nothing. */
#include "heddle_environment.h"
#include "heddle_private.h"
#include "heddle_setup.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int resolve(const char *text, const char *what, struct hd_addr *addr) {
	int rc;

	if (!text)
		return 0;
	rc = hd_driver_resolve(text, addr);
	if (rc < 0)
		return heddle_fail(rc, "%s: '%.128s': %s", what, text, hd_driver_resolve_error(rc));
	return 0;
}

static int set_world(struct heddle *fabric, const struct heddle_setup *setup) {
	fabric->world_size = setup->options.world_size;
	if (fabric->world_size == 0)
		return heddle_number_from_env(
			"HEDDLE_WORLD_SIZE", 1, HD_WORKERS_MAX, 1, &fabric->world_size
		);
	if (fabric->world_size < 0 || fabric->world_size > HD_WORKERS_MAX)
		return heddle_fail(
			-EINVAL,
			"world_size: %d is not in 1..%d (HEDDLE_WORKERS_MAX)",
			fabric->world_size,
			HEDDLE_WORKERS_MAX
		);
	return 0;
}

static int set_rank(struct heddle *fabric, struct heddle_setup *setup) {
	int rc = 0;

	fabric->rank = setup->options.rank;
	if (fabric->rank < 0)
		rc = heddle_number_from_env("HEDDLE_RANK", 0, HD_WORKERS_MAX - 1, 0, &fabric->rank);
	if (rc == 0 && fabric->rank >= HD_WORKERS_MAX)
		rc = heddle_fail(
			-EINVAL, "rank: %d is beyond %d", fabric->rank, HEDDLE_WORKERS_MAX - 1
		);
	if (rc == 0)
		rc = set_world(fabric, setup);
	setup->worker.rank = (uint16_t)fabric->rank;
	setup->worker.world = (uint16_t)fabric->world_size;
	(void)snprintf(setup->name, sizeof setup->name, "w%d", fabric->rank);
	setup->worker.name = setup->name;
	return rc;
}

static int set_host(struct heddle_setup *setup) {
	const char *host = heddle_text_or_env(setup->options.host, "HEDDLE_HOST");

	setup->options.host = host;

	if (host && strlen(host) > HD_NAME_BYTES_MAX)
		return heddle_fail(
			-EINVAL, "host: longer than %d bytes (HD_NAME_BYTES_MAX)", HD_NAME_BYTES_MAX
		);
	if (host)
		(void)snprintf(setup->host, sizeof setup->host, "%s", host);
	else if (gethostname(setup->host, sizeof setup->host - 1) < 0)
		return heddle_fail(-errno, "host name: %s", heddle_strerror(errno));
	setup->worker.host = setup->host;
	return 0;
}

static int set_addresses(struct heddle_setup *setup) {
	struct heddle_options *options = &setup->options;
	const char *controller = heddle_text_or_env(options->controller, "HEDDLE_CONTROLLER");
	const char *server = heddle_text_or_env(options->server, "HEDDLE_SERVER");
	const char *bind = heddle_text_or_env(options->bind, "HEDDLE_BIND");
	int rc;

	options->controller = controller;
	options->server = server;
	options->bind = bind;

	if (!controller && !server)
		return heddle_fail(
			-EDESTADDRREQ,
			"no controller and no server: set HEDDLE_CONTROLLER or HEDDLE_SERVER"
		);
	rc = resolve(controller, "controller", &setup->worker.controller);
	if (rc == 0)
		rc = resolve(server, "server", &setup->worker.server);
	if (rc == 0)
		rc = resolve(bind, "bind", &setup->driver.bind);
	/* Without a port: any free one, as several workers share a machine. */
	if (bind && (setup->is_group || !strchr(bind, ':')))
		setup->driver.bind.port = 0;
	return rc;
}

int heddle_read_options(
	struct heddle *fabric,
	const struct heddle_options *options,
	struct heddle_setup *setup
) {
	struct heddle_options none = HEDDLE_OPTIONS_INIT;
	int rc;

	if (options && options->size != sizeof none)
		return heddle_fail(-EINVAL, "options: size is not that of this version");
	setup->options = options ? *options : none;
	fabric->manual = setup->options.manual != 0;
	fabric->log = setup->options.log;
	fabric->log_arg = setup->options.log_arg;
	if (setup->options.chunk_bytes > HD_CHUNK_BYTES_MAX || setup->options.chunk_bytes % 4 != 0)
		return heddle_fail(
			-EINVAL,
			"chunk_bytes: not a multiple of 4 up to %d (HD_CHUNK_BYTES_MAX)",
			HD_CHUNK_BYTES_MAX
		);
	if (!(setup->options.job_weight >= 0) || isinf(setup->options.job_weight))
		return heddle_fail(
			-EINVAL,
			"job_weight: %g must be finite and above 0 (0: 1)",
			(double)setup->options.job_weight
		);
	rc = set_rank(fabric, setup);
	if (rc == 0)
		rc = set_host(setup);
	if (rc == 0)
		rc = set_addresses(setup);
	return rc;
}

/* --- kept for groups ------------------------------------------------------------------------ */

static int copy_text(const char **text) {
	if (!*text)
		return 0;
	*text = strdup(*text);
	return *text ? 0 : heddle_fail(-ENOMEM, "no memory");
}

int heddle_keep_options(struct heddle_options *kept, const struct heddle_options *options) {
	const char **texts[]
		= {&kept->controller, &kept->server, &kept->key_file, &kept->host, &kept->bind};
	int rc = 0;

	*kept = *options;
	kept->events = NULL;
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
		rc = copy_text(texts[i]) < 0 ? -ENOMEM : rc;
	return rc;
}

static void forget(const char *text) {
	union {
		const char *read;
		char *base;
	} kept = {.read = text};

	free(kept.base);
}

void heddle_forget_options(struct heddle_options *kept) {
	forget(kept->controller);
	forget(kept->server);
	forget(kept->key_file);
	forget(kept->host);
	forget(kept->bind);
	memset(kept, 0, sizeof *kept);
}
