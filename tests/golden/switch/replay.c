/* SPDX-License-Identifier: BSD-3-Clause */
/* Vectors through an executor. A line that does not have what it must is an error of the file, with its number. */
#include "hd_switch_core.h"
#include "vectors.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct run {
	const struct golden_executor *executor;
	void *self;
	const char *path;
	char name[64]; /* of the case */
	size_t line, frames;
	struct golden_outs expected, got;
	struct hd_switch_member members[HD_SWITCH_MEMBERS_MAX];
	struct hd_switch_copy receivers[HD_SWITCH_RECEIVERS_MAX];
};

__attribute__((format(printf, 2, 3), noreturn)) static void
fail(const struct run *run, const char *format, ...) {
	va_list arguments;

	(void)fprintf(
		stderr,
		"%s:%zu: %s: case %s: ",
		run->path,
		run->line,
		run->executor->name,
		run->name
	);
	va_start(arguments, format);
	(void)vfprintf(stderr, format, arguments);
	va_end(arguments);
	(void)fputc('\n', stderr);
	exit(1);
}

/* --- values ----------------------------------------------------------------------------------- */

static const json_t *field(const struct run *run, const json_t *object, const char *name) {
	const json_t *value = json_object_get(object, name);

	if (!value)
		fail(run, "no %s", name);
	return value;
}

static uint64_t number(const struct run *run, const json_t *object, const char *name) {
	const json_t *value = field(run, object, name);

	if (!json_is_integer(value) || json_integer_value(value) < 0)
		fail(run, "%s: no number", name);
	return (uint64_t)json_integer_value(value);
}

static const char *text(const struct run *run, const json_t *value) {
	if (!json_is_string(value))
		fail(run, "no text where one is due");
	return json_string_value(value);
}

static uint64_t hex64(const struct run *run, const json_t *object, const char *name) {
	const char *digits = text(run, field(run, object, name));
	char *end;
	uint64_t value = strtoull(digits, &end, 16);

	if (strlen(digits) != 16 || *end != '\0')
		fail(run, "%s: not 16 hexadecimal digits", name);
	return value;
}

static uint32_t hex(const struct run *run, const char *digits, uint8_t *data, size_t most) {
	size_t bytes = strlen(digits) / 2;

	if (strlen(digits) % 2 != 0 || bytes > most)
		fail(run, "hexadecimal digits: odd, or too many");
	for (size_t i = 0; i < bytes; i++) {
		char two[3] = {digits[2 * i], digits[2 * i + 1], 0}, *end;

		data[i] = (uint8_t)strtoul(two, &end, 16);
		if (*end != '\0')
			fail(run, "hexadecimal digits: %s", two);
	}
	return (uint32_t)bytes;
}

static void mac(const struct run *run, const json_t *object, const char *name, uint8_t *bytes) {
	if (hex(run, text(run, field(run, object, name)), bytes, 6) != 6)
		fail(run, "%s: not 6 bytes", name);
}

static uint32_t ipv4(const struct run *run, const json_t *object, const char *name) {
	struct in_addr address;

	if (inet_pton(AF_INET, text(run, field(run, object, name)), &address) != 1)
		fail(run, "%s: no address", name);
	return ntohl(address.s_addr);
}

/* --- what is set ------------------------------------------------------------------------------ */

static void must(const struct run *run, int status) {
	if (status < 0)
		fail(run, "refused: %s", strerror(-status));
}

static void do_config(struct run *run, const json_t *object) {
	struct golden_config config = {
		.service = ipv4(run, object, "service"),
		.ports = (uint16_t)number(run, object, "ports"),
	};

	mac(run, object, "mac", config.mac);
	mac(run, object, "router_mac", config.router_mac);
	if (run->self)
		fail(run, "config: twice");
	run->self = run->executor->create(&config);
}

static void do_mac(struct run *run, const json_t *object) {
	uint8_t bytes[6];

	mac(run, object, "mac", bytes);
	must(run, run->executor->mac_set(run->self, bytes, (uint16_t)number(run, object, "port")));
}

static void do_route(struct run *run, const json_t *object) {
	struct golden_route route = {
		.prefix = ipv4(run, object, "prefix"),
		.bits = (uint8_t)number(run, object, "bits"),
		.port = (uint16_t)number(run, object, "port"),
	};

	mac(run, object, "mac", route.mac);
	must(run, run->executor->route_set(run->self, &route));
}

static struct hd_switch_copy copy(const struct run *run, const json_t *object) {
	struct hd_switch_copy made = {
		.port = (uint16_t)number(run, object, "port"),
		.ipv4 = ipv4(run, object, "ipv4"),
		.udp_port = (uint16_t)number(run, object, "udp_port"),
		.token = hex64(run, object, "token"),
	};

	mac(run, object, "mac", made.mac);
	return made;
}

static void do_lease(struct run *run, const json_t *object) {
	const json_t *members = field(run, object, "members");
	const json_t *receivers = field(run, object, "receivers");
	struct hd_switch_lease lease = {
		.id = (uint16_t)number(run, object, "id"),
		.job = (uint32_t)number(run, object, "job"),
		.epoch = (uint16_t)number(run, object, "epoch"),
		.attempt = (uint8_t)number(run, object, "attempt"),
		.shard = (uint16_t)number(run, object, "shard"),
		.dtype = (uint8_t)number(run, object, "dtype"),
		.count = (uint16_t)number(run, object, "count"),
		.first_slot = (uint16_t)number(run, object, "first_slot"),
		.slot_count = (uint16_t)number(run, object, "slot_count"),
		.waits = hex64(run, object, "waits"),
		.member_count = (uint32_t)json_array_size(members),
		.members = run->members,
		.receiver_count = (uint32_t)json_array_size(receivers),
		.receivers = run->receivers,
	};

	if (lease.member_count > HD_SWITCH_MEMBERS_MAX
	    || lease.receiver_count > HD_SWITCH_RECEIVERS_MAX)
		fail(run, "members or receivers: too many");
	for (uint32_t i = 0; i < lease.member_count; i++) {
		const json_t *member = json_array_get(members, i);

		run->members[i].token = hex64(run, member, "token");
		run->members[i].worker = (uint16_t)number(run, member, "worker");
		run->members[i].copy = copy(run, field(run, member, "copy"));
	}
	for (uint32_t i = 0; i < lease.receiver_count; i++)
		run->receivers[i] = copy(run, json_array_get(receivers, i));
	must(run, run->executor->lease_set(run->self, &lease));
}

static void do_waits(struct run *run, const json_t *object) {
	must(run,
	     run->executor->lease_waits(
		     run->self, (uint16_t)number(run, object, "id"), hex64(run, object, "waits")
	     ));
}

static void do_end(struct run *run, const json_t *object) {
	must(run, run->executor->lease_end(run->self, (uint16_t)number(run, object, "id")));
}

static void do_simulate(struct run *run, const json_t *object) {
	must(run,
	     run->executor->simulate(
		     run->self,
		     (uint32_t)number(run, object, "seed"),
		     (uint32_t)number(run, object, "threshold")
	     ));
}

/* --- what is compared ------------------------------------------------------------------------- */

static void do_counters(struct run *run, const json_t *object) {
	uint64_t counters[HD_SWITCH_COUNTER_COUNT];

	run->executor->counters(run->self, counters);
	for (int i = 0; i < HD_SWITCH_COUNTER_COUNT; i++) {
		const char *name = hd_switch_counter_name((enum hd_switch_counter)i);
		uint64_t due = number(run, object, name);

		if (counters[i] != due)
			fail(run,
			     "counter %s: %llu, due %llu",
			     name,
			     (unsigned long long)counters[i],
			     (unsigned long long)due);
	}
	if (json_object_size(object) != HD_SWITCH_COUNTER_COUNT)
		fail(run, "counters: other than HD_SWITCH_COUNTERS");
}

/* [port, digits]; "=" stands for the frame that went in. */
static void read_frame(
	const struct run *run,
	const json_t *pair,
	const struct golden_out *in,
	struct golden_out *out
) {
	const char *digits = text(run, json_array_get(pair, 1));

	if (in && strcmp(digits, "=") == 0)
		*out = *in;
	else
		out->bytes = hex(run, digits, out->frame, sizeof out->frame);
	if (!json_is_integer(json_array_get(pair, 0)))
		fail(run, "frame: no port");
	out->port = (uint16_t)json_integer_value(json_array_get(pair, 0));
}

static void compare(const struct run *run, size_t index) {
	const struct golden_out *due = &run->expected.out[index], *got = &run->got.out[index];

	if (due->port != got->port)
		fail(run, "copy %zu left by port %u, due %u", index, got->port, due->port);
	if (due->bytes != got->bytes)
		fail(run, "copy %zu has %u bytes, due %u", index, got->bytes, due->bytes);
	for (uint32_t i = 0; i < due->bytes; i++)
		if (due->frame[i] != got->frame[i])
			fail(run,
			     "copy %zu, to port %u: byte %u is %02x, due %02x",
			     index,
			     due->port,
			     i,
			     got->frame[i],
			     due->frame[i]);
}

static void do_frame(struct run *run, const json_t *line) {
	static struct golden_out in;
	const json_t *outs = field(run, line, "out");

	read_frame(run, field(run, line, "in"), NULL, &in);
	run->expected.count = json_array_size(outs);
	if (run->expected.count > HD_SWITCH_PORTS_MAX)
		fail(run, "out: too many");
	for (size_t i = 0; i < run->expected.count; i++)
		read_frame(run, json_array_get(outs, i), &in, &run->expected.out[i]);
	golden_sort(&run->expected);
	run->frames++;
	run->executor->frame(run->self, in.port, in.frame, in.bytes, &run->got);
	if (run->expected.count != run->got.count)
		fail(run, "%zu frames left, due %zu", run->got.count, run->expected.count);
	for (size_t i = 0; i < run->expected.count; i++)
		compare(run, i);
}

static void do_line(struct run *run, json_t *line) {
	static const struct {
		const char *name;
		void (*act)(struct run *run, const json_t *object);
	} acts[] = {
		{"mac", do_mac},
		{"route", do_route},
		{"lease", do_lease},
		{"waits", do_waits},
		{"end", do_end},
		{"simulate", do_simulate},
		{"counters", do_counters},
		{"config", do_config},
	};
	const char *name = json_object_iter_key(json_object_iter(line));

	if (json_object_get(line, "in") != NULL) {
		do_frame(run, line);
		return;
	}
	if (json_object_get(line, "case") != NULL) {
		(void)snprintf(
			run->name, sizeof run->name, "%s", text(run, json_object_get(line, "case"))
		);
		return;
	}
	for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++) {
		if (name && strcmp(name, acts[i].name) == 0) {
			acts[i].act(run, json_object_get(line, name));
			return;
		}
	}
	fail(run, "a line that is nothing known");
}

int replay(const char *path, const struct golden_executor *executor, size_t *frames) {
	static struct run run;
	static char line[1 << 20];
	FILE *file = fopen(path, "r");

	if (!file) {
		perror(path);
		return 1;
	}
	memset(&run, 0, sizeof run);
	run.executor = executor;
	run.path = path;
	run.name[0] = '-';
	while (fgets(line, sizeof line, file)) {
		json_error_t error;
		json_t *object = json_loads(line, 0, &error);

		run.line++;
		if (!object)
			fail(&run, "%s", error.text);
		do_line(&run, object);
		json_decref(object);
	}
	(void)fclose(file);
	if (run.self)
		executor->destroy(run.self);
	*frames = run.frames;
	return 0;
}
