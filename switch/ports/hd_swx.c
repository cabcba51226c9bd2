/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_swx_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the pipeline's instructions, which run packet by packet in turns. Surplus ones only spin after the last packet. */
#define INSTRUCTIONS_PER_PACKET 64
/* More than a packet needs in any program that ends. */
#define INSTRUCTIONS_MAX 65536

static void interpret(struct swx *swx, struct hd_switch_packet *packets, size_t count) {
	uint64_t limit = (uint64_t)count * INSTRUCTIONS_MAX;

	swx->packets = packets;
	swx->count = count;
	swx->fed = swx->done = 0;
	while (swx->done < count && limit > 0) {
		uint64_t instructions = (count - swx->done) * INSTRUCTIONS_PER_PACKET;

		instructions = instructions < limit ? instructions : limit;
		rte_swx_pipeline_run(swx->pipeline, (uint32_t)instructions);
		limit -= instructions;
	}
	swx->stuck = swx->done < count;
}

static void run(struct swx *swx, struct hd_switch_packet *packets, size_t count) {
	for (size_t i = 0; i < count; i++)
		packets[i].verdict = HD_SWITCH_DROP;
	/* A program that does not end: the packets inside must not be touched again. */
	if (swx->stuck)
		return;
	if (swx->rings)
		swx_run_object(swx, packets, count);
	else
		interpret(swx, packets, count);
}

static void swx_burst(void *self, struct hd_switch_packet *packets, size_t count) {
	for (size_t at = 0; at < count; at += SWX_BURST)
		run(self, packets + at, count - at < SWX_BURST ? count - at : SWX_BURST);
}

static size_t swx_copies(
	const void *self,
	const struct hd_switch_packet *packet,
	const struct hd_switch_copy **copies
) {
	const struct swx *swx = self;
	const struct swx_lease *held = &swx->leases[packet->lease % HD_SWITCH_LEASES_MAX];
	uint32_t members = held->lease.member_count, receivers = held->lease.receiver_count;

	if (packet->lease >= HD_SWITCH_LEASES_MAX || !held->copies)
		return 0;
	*copies = held->copies;
	if (packet->copy == HD_SWITCH_COPY_MEMBERS)
		return members;
	if (packet->copy == HD_SWITCH_COPY_RECEIVERS) {
		*copies = held->copies + members;
		return receivers;
	}
	if (packet->copy >= members)
		return 0;
	*copies = held->copies + packet->copy;
	return 1;
}

static void swx_destroy(void *self) {
	struct swx *swx = self;

	if (!swx)
		return;
	swx_forget_leases(swx);
	rte_swx_ctl_pipeline_free(swx->ctl);
	rte_swx_pipeline_free(swx->pipeline);
	swx_free_rings(swx);
	hd_spec_free(swx->spec);
	free(swx);
}

static const struct hd_switch_executor_ops swx_ops = {
	.name = "swx",
	.destroy = swx_destroy,
	.burst = swx_burst,
	.copies = swx_copies,
	.lease_set = swx_lease_set,
	.lease_waits = swx_lease_waits,
	.lease_end = swx_lease_end,
	.lease_stats = swx_lease_stats,
	.mac_set = swx_mac_set,
	.route_set = swx_route_set,
	.simulate = swx_simulate,
	.counters = swx_counters,
};

/* --- opening ------------------------------------------------------------------------------- */

static int
read_file(const char *path, char **text, size_t *bytes, char *error, size_t error_bytes) {
	FILE *file = fopen(path, "re");
	int code = 0;

	*text = file ? malloc(HD_SPEC_TEXT_BYTES_MAX + 1) : NULL;
	if (!*text) {
		code = errno ? -errno : -ENOMEM;
	} else {
		*bytes = fread(*text, 1, HD_SPEC_TEXT_BYTES_MAX + 1, file);
		code = ferror(file) ? -EIO : 0;
	}
	if (code < 0)
		(void)snprintf(error, error_bytes, "spec: %s: %s", path, strerror(-code));
	if (file)
		(void)fclose(file);
	return code;
}

static int parse_spec(
	const char *path,
	char *text,
	size_t bytes,
	struct hd_spec **spec,
	char *error,
	size_t error_bytes
) {
	struct hd_spec_error wrong;
	int code;

	swx_replace_drops(text, bytes);
	code = hd_spec_read(text, bytes, spec, &wrong);

	if (code < 0)
		(void)snprintf(error, error_bytes, "spec: %s:%u: %s", path, wrong.line, wrong.what);
	return code;
}

/* A shared object contains the text. */
static int
open_program(struct swx *swx, const char *path, const char *name, char *error, size_t error_bytes) {
	static const char elf[] = "\177ELF";
	char *text = NULL;
	size_t bytes = 0;
	int code = read_file(path, &text, &bytes, error, error_bytes);

	if (code == 0 && bytes >= sizeof elf && memcmp(text, elf, sizeof elf - 1) == 0) {
		code = swx_read_object(path, &swx->spec, error, error_bytes);
		if (code == 0)
			code = swx_open_object(swx, path, name, error, error_bytes);
	} else if (code == 0) {
		code = parse_spec(path, text, bytes, &swx->spec, error, error_bytes);
		if (code == 0)
			code = swx_load(swx, name, error, error_bytes);
		if (code == 0)
			code = swx_build(swx, error, error_bytes);
	}
	free(text);
	return code;
}

int hd_swx_open(
	const char *path,
	const char *name,
	const struct hd_switch_self *self,
	struct hd_switch_executor *executor,
	char *error,
	size_t error_bytes
) {
	struct swx *swx = calloc(1, sizeof *swx);
	int code;

	if (!swx) {
		(void)snprintf(error, error_bytes, "no memory");
		return -ENOMEM;
	}
	swx->self = *self;
	code = open_program(swx, path, name, error, error_bytes);
	if (code == 0)
		code = swx_set_self(swx, error, error_bytes);
	if (code < 0) {
		swx_destroy(swx);
		return code;
	}
	*executor = (struct hd_switch_executor){&swx_ops, swx};
	return 0;
}
