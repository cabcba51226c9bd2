/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_switch_core.h"
#include "script.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 2, 3), noreturn)) static void
wrong(const struct script *script, const char *format, ...) {
	va_list arguments;

	(void)fprintf(stderr, "generate: case %s: the model gives ", script->name);
	va_start(arguments, format);
	(void)vfprintf(stderr, format, arguments);
	va_end(arguments);
	(void)fputc('\n', stderr);
	exit(1);
}

void script_lease(struct script *script, uint32_t members, uint32_t receivers) {
	traffic_make_lease(&script->lease, &script->random, script->leases++, members, receivers);
	script->lease.is.slot_count = 4;
}

void script_case(
	struct script *script,
	const char *name,
	const char *shows,
	uint32_t members,
	uint32_t receivers
) {
	script->name = name;
	script->port = 6;
	record_case(script->recorder, name, shows);
	script->lease.live = false;
	if (members > 0) {
		script_lease(script, members, receivers);
		record_lease_set(script->recorder, &script->lease.is);
	}
}

void script_end(struct script *script) {
	if (script->lease.live)
		record_lease_end(script->recorder, script->lease.is.id);
	record_counters(script->recorder);
}

void script_put(struct script *script, size_t at, size_t bytes, uint64_t value) {
	traffic_put(script->frame + at, bytes, value);
	if (at >= 14 && at < 34 && at != 24)
		traffic_ip_checksum(script->frame);
}

void script_chunk(struct script *script, uint32_t index, uint32_t chunk, int32_t value) {
	script->bytes = traffic_chunk(&script->lease, index, 1, chunk, script->frame);
	script_put(script, S_PACKET, 4, script->packet++);
	for (size_t i = 0; i < script->lease.is.count; i++)
		script_put(script, S_VALUES + 4 * i, 4, (uint32_t)value);
}

void script_send(struct script *script, enum hd_switch_counter counter, size_t copies) {
	uint64_t before[HD_SWITCH_COUNTER_COUNT], after[HD_SWITCH_COUNTER_COUNT];
	struct recorder *recorder = script->recorder;

	recorder->executor->counters(recorder->self, before);
	record_frame(recorder, script->port, script->frame, script->bytes);
	recorder->executor->counters(recorder->self, after);
	for (int i = 0; i < HD_SWITCH_COUNTER_copies; i++)
		if (after[i] - before[i] != (i == (int)counter))
			wrong(script,
			      "%llu more of %s (due: %s)",
			      (unsigned long long)(after[i] - before[i]),
			      hd_switch_counter_name((enum hd_switch_counter)i),
			      hd_switch_counter_name(counter));
	if (recorder->outs.count != copies)
		wrong(script, "%zu frames out, due %zu", recorder->outs.count, copies);
}

void script_sends(
	struct script *script,
	uint32_t index,
	uint32_t chunk,
	int32_t value,
	enum hd_switch_counter counter,
	size_t copies
) {
	script_chunk(script, index, chunk, value);
	script_send(script, counter, copies);
}

void script_field(const struct script *script, size_t at, size_t bytes, uint64_t value) {
	for (size_t c = 0; c < script->recorder->outs.count; c++) {
		const struct golden_out *out = &script->recorder->outs.out[c];
		uint64_t got = 0;

		for (size_t i = 0; i < bytes; i++)
			got = got << 8 | out->frame[at + i];
		if (got != value || at + bytes > out->bytes)
			wrong(script,
			      "%llx at %zu, due %llx",
			      (unsigned long long)got,
			      at,
			      (unsigned long long)value);
	}
}

void script_lanes(const struct script *script, int32_t value) {
	for (size_t i = 0; i < script->lease.is.count; i++)
		script_field(script, S_VALUES + 4 * i, 4, (uint32_t)value);
}

void script_flags(const struct script *script, unsigned flags) {
	script_field(script, S_FLAGS, 1, flags);
}

void script_left_by(const struct script *script, uint16_t port) {
	if (script->recorder->outs.count != 1 || script->recorder->outs.out[0].port != port)
		wrong(script, "another way out than port %u alone", port);
}
