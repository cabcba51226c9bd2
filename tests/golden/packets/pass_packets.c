/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of check_packets.py: sends packets given as hex, one a line on standard input, or prints what
 * arrives the same way, until it has as many as it was told.
 *
 *     pass_packets send --peer ADDR[:PORT] [driver's options] <packets
 *     pass_packets recv --listen ADDR[:PORT] --count N [driver's options]
 */
#include "hd_limits.h"
#include "hd_program.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define PACKETS_MAX 64
#define PATIENCE (20 * HD_SECOND)
#define PAUSE HD_MS /* between two packets: they are few, and no driver may need to drop one */

struct packet {
	size_t bytes;
	uint8_t data[HD_PACKET_BYTES_MAX];
};

struct end {
	struct hd_driver_config driver_config;
	struct hd_driver *driver;
	struct hd_addr addr;
	bool sender;
	uint32_t count, done;
	hd_ns next_at, ends_at;
	struct packet *packets;
};

static int fail(const char *what) {
	(void)fprintf(stderr, "pass_packets: %s\n", what);
	return EX_USAGE;
}

static void on_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	struct end *end = core;

	(void)now;
	(void)sink;
	for (size_t i = 0; i < count && !end->sender; i++, end->done++) {
		for (size_t k = 0; k < packets[i].bytes; k++)
			(void)printf("%02x", packets[i].data[k]);
		(void)printf("\n");
	}
	if (end->done >= end->count)
		hd_driver_stop(end->driver);
}

/* Some are one piece, some head and payload: drivers treat those apart. */
static void on_tick(void *core, hd_ns now, struct hd_sink *sink) {
	struct end *end = core;
	const struct packet *packet;
	size_t head;

	if (now >= end->ends_at || (end->sender && end->done == end->count)) {
		hd_driver_stop(end->driver);
		return;
	}
	if (!end->sender)
		return;
	packet = &end->packets[end->done];
	head = end->done % 2 && packet->bytes > 56 ? 56 : packet->bytes;
	sink->send(
		sink,
		end->addr,
		packet->data,
		head,
		packet->bytes > head ? packet->data + head : NULL,
		packet->bytes - head
	);
	end->done++;
	end->next_at = now + PAUSE;
}

static hd_ns deadline(const void *core) {
	const struct end *end = core;

	return hd_ns_min(end->ends_at, end->sender ? end->next_at : HD_NEVER);
}

static int read_hex(const char *line, struct packet *packet) {
	size_t digits = strspn(line, "0123456789abcdef");

	if (digits == 0 || digits % 2 || digits / 2 > sizeof packet->data)
		return -1;
	packet->bytes = digits / 2;
	for (size_t i = 0; i < packet->bytes; i++) {
		const char byte[3] = {line[2 * i], line[2 * i + 1], '\0'};

		packet->data[i] = (uint8_t)strtoul(byte, NULL, 16);
	}
	return 0;
}

static int read_packets(struct end *end) {
	static char line[2 * HD_PACKET_BYTES_MAX + 2];

	while (fgets(line, sizeof line, stdin)) {
		if (end->count == PACKETS_MAX || read_hex(line, &end->packets[end->count]) < 0)
			return -1;
		end->count++;
	}
	return end->count > 0 ? 0 : -1;
}

static int take_peer(void *values, const char *text) {
	return hd_driver_resolve(text, &((struct end *)values)->addr) < 0 ? EX_USAGE : 0;
}

static int take_listen(void *values, const char *text) {
	return hd_driver_resolve(text, &((struct end *)values)->driver_config.bind) < 0 ? EX_USAGE :
											  0;
}

static int parse(struct end *end, int argc, char **argv) {
	static const struct hd_option table[] = {
		HD_OPTION_TAKE("peer", "ADDR", take_peer, "sends there"),
		HD_OPTION_TAKE("listen", "ADDR", take_listen, "receives here"),
		HD_OPTION_U32("count", "N", struct end, count, 0, UINT32_MAX, "how many come"),
		HD_OPTION_TABLE(hd_driver_option_table, struct end, driver_config.options),
		HD_OPTION_END,
	};
	static const struct hd_option_program program
		= {.name = "pass_packets", .usage = "", .table = table, .arguments = true};

	if (hd_options_read(&program, argc, argv, end, NULL) != 0 || optind != argc - 1)
		return -1;
	end->sender = strcmp(argv[optind], "send") == 0;
	return 0;
}

int main(int argc, char **argv) {
	static const struct hd_core_ops ops = {on_receive, on_tick, deadline};
	static struct packet packets[PACKETS_MAX];
	struct end end = {.packets = packets};
	char error[256];
	int rc;

	if (parse(&end, argc, argv) < 0)
		return fail("send --peer ADDR | recv --listen ADDR --count N");
	if (end.sender && read_packets(&end) < 0)
		return fail("standard input: lines of hex digits, at most 64");
	if (hd_driver_open(&end.driver_config, &end.driver, error, sizeof error) < 0)
		return fail(error);
	(void)printf("ready\n");
	(void)fflush(stdout);
	end.ends_at = hd_driver_now() + PATIENCE;
	rc = hd_driver_run(end.driver, (struct hd_node){&ops, &end});
	hd_driver_close(end.driver);
	return rc == 0 && end.done >= end.count ? 0 : EX_SOFTWARE;
}
