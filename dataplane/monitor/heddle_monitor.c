/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle-monitor: counts what passes a host's network card and tells the controller what other tenants take
 * of its link. One a host; needs CAP_BPF and CAP_NET_ADMIN, and nothing else of Heddle does. */
#include "hd_counter.h"
#include "hd_driver.h"
#include "hd_limits.h"
#include "hd_monitor.h"
#include "hd_program.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define PROGRAM "heddle-monitor"

static const char usage_text[]
	= "usage: heddle-monitor --host NAME --interface IF --key-file F [options]\n"
	  "Counts the bytes of other tenants on this host's link, both ways, for the controller.\n"
	  "\n"
	  "  --host NAME               of this host in the controller's topology\n"
	  "  --interface IF            the network card that the fabric's packets take\n"
	  "  --key-file FILE           keys of the cluster (HEDDLE_KEY_FILE)\n"
	  "  --controller ADDR[:PORT]  (HEDDLE_CONTROLLER, else 127.0.0.1:4773)\n"
	  "  --fabric-port N           UDP port whose packets are the fabric's own (4773)\n"
	  "  --interval-ms N           between two messages to the controller (100)\n"
	  "  --help                    this text\n"
	  "\n"
	  "Needs CAP_BPF and CAP_NET_ADMIN. Its programs let every packet pass, and leave the card when it ends.\n";

struct options {
	const char *host, *interface, *key_file, *controller;
	unsigned long fabric_port, interval_ms;
};

__attribute__((format(printf, 2, 3))) static int fail(int code, const char *format, ...) {
	va_list args;

	(void)fprintf(stderr, PROGRAM ": ");
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	(void)fprintf(stderr, "\n");
	return code;
}

static const struct option long_options[] = {
	{"host", required_argument, NULL, 'n'},
	{"interface", required_argument, NULL, 'i'},
	{"key-file", required_argument, NULL, 'k'},
	{"controller", required_argument, NULL, 'c'},
	{"fabric-port", required_argument, NULL, 'p'},
	{"interval-ms", required_argument, NULL, 't'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static int
take_number(const char *field, const char *text, unsigned long limit, unsigned long *value) {
	char *end;

	errno = 0;
	*value = strtoul(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || *value < 1 || *value > limit)
		return fail(EX_USAGE, "%s: '%s' (1 to %lu)", field, text, limit);
	return 0;
}

static int take_option(struct options *o, int id, const char *value) {
	switch (id) {
	case 'n':
		o->host = value;
		return 0;
	case 'i':
		o->interface = value;
		return 0;
	case 'k':
		o->key_file = value;
		return 0;
	case 'c':
		o->controller = value;
		return 0;
	case 'p':
		return take_number("--fabric-port", value, UINT16_MAX, &o->fabric_port);
	case 't':
		return take_number("--interval-ms", value, 10000, &o->interval_ms);
	case 'h':
		(void)fputs(usage_text, stdout);
		return -1;
	default:
		return EX_USAGE; /* getopt has said why */
	}
}

static int check_options(struct options *o, int left) {
	if (left > 0)
		return fail(EX_USAGE, "arguments: %d too many (see --help)", left);
	if (!o->host || !o->host[0] || strlen(o->host) > HD_NAME_BYTES_MAX)
		return fail(EX_USAGE, "--host: missing, or longer than %d", HD_NAME_BYTES_MAX);
	if (!o->interface || !o->interface[0])
		return fail(EX_USAGE, "--interface: missing");
	if (!o->key_file || !o->key_file[0])
		return fail(EX_USAGE, "--key-file: missing (or set HEDDLE_KEY_FILE)");
	if (!o->controller || !o->controller[0])
		o->controller = "127.0.0.1";
	return 0;
}

static int read_counter(void *owner, struct hd_monitor_counts counts[HD_COUNTS_WAYS]) {
	hd_counter_read(owner, counts);
	return 0;
}

static const struct hd_monitor_source source = {.read = read_counter};

static int drive(struct hd_driver *driver, struct hd_monitor *monitor, const struct options *o) {
	const struct hd_monitor_stats *stats = hd_monitor_stats(monitor);
	int status = hd_program_stop_on_signals(driver);

	if (status)
		return fail(EX_OSERR, "signals: %s", strerror(-status));
	(void)printf(PROGRAM ": counting on %s for %s\n", o->interface, o->host);
	(void)fflush(stdout);
	status = hd_driver_run(driver, (struct hd_node){&hd_monitor_ops, monitor});
	(void
	)printf(PROGRAM ": %llu readings, %llu failed, %llu messages\n",
		(unsigned long long)stats->readings,
		(unsigned long long)stats->failures,
		(unsigned long long)stats->loads);
	if (stats->refused[0])
		(void
		)fprintf(stderr, PROGRAM ": the controller's last refusal: %s\n", stats->refused);
	return status ? fail(EX_OSERR, "%s", strerror(-status)) : 0;
}

static int
with_counter(const struct options *o, const struct hd_keyring *keys, struct hd_counter *counter) {
	struct hd_monitor_config config = {
		.name = o->host,
		.host = o->host,
		.keys = keys,
		.key_id = keys->keys[0].id,
		.interval_us = (uint32_t)o->interval_ms * 1000,
		.source = &source,
		.owner = counter,
	};
	const struct hd_driver_config ordinary = {0};
	struct hd_monitor *monitor;
	struct hd_driver *driver;
	char error[256];
	int status;

	if (hd_driver_resolve(o->controller, &config.controller))
		return fail(EX_NOHOST, "--controller: '%s': no such address", o->controller);
	if (hd_program_entropy(config.seed))
		return fail(EX_OSERR, "no entropy");
	if (hd_monitor_create(&config, &monitor))
		return fail(EX_OSERR, "no memory");
	if (hd_driver_open(&ordinary, &driver, error, sizeof(error))) {
		hd_monitor_destroy(monitor);
		return fail(EX_OSERR, "socket: %s", error);
	}
	status = drive(driver, monitor, o);
	hd_driver_close(driver);
	hd_monitor_destroy(monitor);
	return status;
}

int main(int argc, char **argv) {
	struct options o = {
		.controller = getenv("HEDDLE_CONTROLLER"),
		.key_file = getenv("HEDDLE_KEY_FILE"),
		.fabric_port = HD_PORT,
	};
	struct hd_counter *counter;
	struct hd_keyring keys;
	char error[512];
	int id, status = 0;

	while (!status && (id = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		status = take_option(&o, id, optarg);
	if (!status)
		status = check_options(&o, argc - optind);
	if (status)
		return status < 0 ? 0 : status;
	status = hd_program_read_keys(o.key_file, &keys, error, sizeof(error));
	if (status)
		return fail(status == -EINVAL ? EX_DATAERR : EX_NOINPUT, "--key-file: %s", error);
	status = hd_counter_open(
		o.interface, (uint16_t)o.fabric_port, &counter, error, sizeof(error)
	);
	if (status) {
		status = fail(status == -EPERM ? EX_NOPERM : EX_UNAVAILABLE, "%s", error);
	} else {
		status = with_counter(&o, &keys, counter);
		hd_counter_close(counter);
	}
	hd_keyring_fini(&keys);
	return status;
}
