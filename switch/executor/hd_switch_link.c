/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_switch_link.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MBIT 1e6
#define KIB 1024.0
#define QUEUE_KIB 1024.0 /* without queue= */
#define BURST_BYTES_MIN 16384.0
#define BURST_SECONDS 500e-6
#define FRAMES_MIN 256u
#define FRAMES_MAX 8192u
#define FRAME_BYTES 512u /* mean frame size assumed for the number of queue entries */

struct numbers {
	double rate, queue, ecn, burst;
};

/* Decimal only: no exponent, sign, nan or inf. */
static bool read_number(const char *text, size_t bytes, double *value) {
	char copy[24];
	char *end;

	if (bytes == 0 || bytes >= sizeof copy || strspn(text, "0123456789.") < bytes)
		return false;
	memcpy(copy, text, bytes);
	copy[bytes] = '\0';
	*value = strtod(copy, &end);
	return *end == '\0' && *value > 0;
}

/* 1: it is one of ours and was set, 0: it is EAL's, or -EINVAL. */
static int
take(const char *word, size_t bytes, struct numbers *n, char *error, size_t error_bytes) {
	const struct {
		const char *key, *help;
		double *value, most;
	} keys[] = {
		{"rate=", "Mbit/s", &n->rate, (double)HD_SWITCH_RATE_BPS_MAX / MBIT},
		{"queue=", "KiB", &n->queue, HD_SWITCH_QUEUE_BYTES_MAX / KIB},
		{"ecn=", "KiB", &n->ecn, HD_SWITCH_QUEUE_BYTES_MAX / KIB},
		{"burst=", "KiB", &n->burst, HD_SWITCH_QUEUE_BYTES_MAX / KIB},
	};

	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		size_t key = strlen(keys[i].key);

		if (bytes < key || strncmp(word, keys[i].key, key) != 0)
			continue;
		if (read_number(word + key, bytes - key, keys[i].value)
		    && *keys[i].value <= keys[i].most)
			return 1;
		(void)snprintf(
			error,
			error_bytes,
			"port: %.*s (more than 0 and at most %.0f %s)",
			(int)bytes,
			word,
			keys[i].most,
			keys[i].help
		);
		return -EINVAL;
	}
	return 0;
}

static uint32_t frames_for(double bytes) {
	uint32_t frames = FRAMES_MIN;

	while (frames < FRAMES_MAX && (double)frames * FRAME_BYTES < bytes)
		frames *= 2;
	return frames;
}

static struct hd_switch_queue_config configure(const struct numbers *n) {
	double burst = n->burst > 0 ? n->burst * KIB :
				      fmax(n->rate * MBIT / 8 * BURST_SECONDS, BURST_BYTES_MIN);

	return (struct hd_switch_queue_config){
		.rate_bps = (uint64_t)llround(n->rate * MBIT),
		.burst_bytes = (uint32_t)fmin(burst, HD_SWITCH_QUEUE_BYTES_MAX),
		.limit_bytes = (uint32_t)fmax(n->queue * KIB, 1),
		.limit_frames = frames_for(n->queue * KIB),
		.ecn_bytes = (uint32_t)(n->ecn * KIB),
	};
}

static int append(struct hd_switch_link *link, const char *word, size_t bytes) {
	size_t used = strlen(link->devargs);
	int n = snprintf(
		link->devargs + used,
		sizeof link->devargs - used,
		"%s%.*s",
		used ? "," : "",
		(int)bytes,
		word
	);

	return n >= 0 && (size_t)n < sizeof link->devargs - used ? 0 : -EINVAL;
}

int hd_switch_link_read(
	const char *text,
	struct hd_switch_link *link,
	char *error,
	size_t error_bytes
) {
	struct numbers numbers = {.queue = QUEUE_KIB};
	struct hd_switch_link read = {0};

	if (strlen(text) >= sizeof link->devargs) {
		(void
		)snprintf(error, error_bytes, "port: longer than %zu", sizeof link->devargs - 1);
		return -EINVAL;
	}
	for (const char *word = text; *word;) {
		size_t bytes = strcspn(word, ",");
		int code = take(word, bytes, &numbers, error, error_bytes);

		if (code < 0 || (code == 0 && append(&read, word, bytes) < 0))
			return -EINVAL;
		word += bytes + (word[bytes] == ',');
	}
	if (!read.devargs[0]) {
		(void)snprintf(error, error_bytes, "port: '%s' names none", text);
		return -EINVAL;
	}
	read.queue = configure(&numbers);
	if (numbers.rate > 0 && read.queue.rate_bps == 0)
		read.queue.rate_bps = 1;
	*link = read;
	return 0;
}
