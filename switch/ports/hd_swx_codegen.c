/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Converts a program for DPDK's pipeline (.spec) to C: DPDK generates it, and the text is appended, so that the
 * object's user knows its tables. p4/native compiles it.
 */
#include "hd_swx_text.h"

#include <rte_swx_pipeline.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#define TEXT_BYTES_MAX (1u << 20)
#define BYTES_PER_LINE 32

static int fail(int status, const char *path, const char *why) {
	(void)fprintf(stderr, "hd_swx_codegen: %s: %s\n", path, why);
	return status;
}

static void write_text(FILE *to, const char *text, size_t bytes) {
	(void
	)fprintf(to, "\n#include <stdint.h>\nconst uint32_t heddle_spec_bytes = %zu;\n", bytes);
	(void)fprintf(to, "const char heddle_spec_text[] = {");
	for (size_t i = 0; i < bytes; i++)
		(void)fprintf(to, "%s%d,", i % BYTES_PER_LINE == 0 ? "\n" : "", text[i]);
	(void)fprintf(to, "\n};\n");
}

static int write_code(const char *path, char *text, size_t bytes, FILE *to) {
	FILE *from = fmemopen(text, bytes, "r");
	const char *wrong = "it is empty";
	uint32_t line = 0;
	char why[256];
	int code = -EINVAL;

	if (from) {
		code = rte_swx_pipeline_codegen(from, to, &line, &wrong);
		(void)fclose(from);
	}
	if (code != 0) {
		(void)snprintf(why, sizeof why, "line %u: %s", line, wrong ? wrong : "refused");
		return fail(EX_DATAERR, path, why);
	}
	write_text(to, text, bytes);
	return EX_OK;
}

int main(int argc, char **argv) {
	static char text[TEXT_BYTES_MAX + 1];
	FILE *from, *to;
	size_t bytes;
	int status;

	if (argc != 3) {
		(void)fprintf(stderr, "usage: hd_swx_codegen SPEC C_FILE\n");
		return EX_USAGE;
	}
	from = fopen(argv[1], "re");
	if (!from)
		return fail(EX_NOINPUT, argv[1], strerror(errno));
	bytes = fread(text, 1, sizeof text, from);
	(void)fclose(from);
	if (bytes > TEXT_BYTES_MAX)
		return fail(EX_DATAERR, argv[1], "more than 1 MiB");
	swx_replace_drops(text, bytes);
	to = fopen(argv[2], "we");
	if (!to)
		return fail(EX_CANTCREAT, argv[2], strerror(errno));
	status = write_code(argv[1], text, bytes, to);
	if (fclose(to) != 0 && status == EX_OK)
		status = fail(EX_IOERR, argv[2], strerror(errno));
	return status;
}
