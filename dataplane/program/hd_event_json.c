/* SPDX-License-Identifier: BSD-3-Clause */
/* Events as JSON lines. Formatted without a library, as a trace has millions of them. */
#include "hd_message.h"
#include "hd_program.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct writer {
	char *at;
};

static void put_text(struct writer *w, const char *text) {
	size_t bytes = strlen(text);

	memcpy(w->at, text, bytes);
	w->at += bytes;
}

static void put_u64(struct writer *w, uint64_t value) {
	char digits[20];
	size_t n = 0;

	do {
		digits[n++] = (char)('0' + value % 10);
		value /= 10;
	} while (value > 0);
	while (n > 0)
		*w->at++ = digits[--n];
}

static void put_field(struct writer *w, const char *name, uint64_t value) {
	if (value == 0)
		return;
	put_text(w, name);
	put_u64(w, value);
}

static void put_string(struct writer *w, const char *name, const char *value) {
	put_text(w, name);
	put_text(w, value);
	*w->at++ = '"';
}

static void put_token(struct writer *w, uint64_t token) {
	static const char hex[] = "0123456789abcdef";

	if (token == 0)
		return;
	put_text(w, ",\"token\":\"");
	for (int shift = 60; shift >= 0; shift -= 4)
		*w->at++ = hex[(token >> shift) & 15];
	*w->at++ = '"';
}

/* JSON has no NaN and no infinity: they are left out, like 0. */
static void put_value(struct writer *w, double value) {
	if (value == 0 || !isfinite(value))
		return;
	w->at += snprintf(w->at, 48, ",\"value\":%.12g", value);
}

size_t
hd_event_json(const struct hd_event *event, const char *node, char out[HD_EVENT_JSON_BYTES]) {
	struct writer w = {.at = out};

	assert(strlen(node) <= (size_t)2 * HD_NAME_BYTES_MAX);
	put_text(&w, "{\"at_ns\":");
	put_u64(&w, event->at);
	put_string(&w, ",\"node\":\"", node);
	put_string(&w, ",\"event\":\"", hd_event_name(event->kind));
	if (event->reason != HD_REASON_NONE)
		put_string(&w, ",\"reason\":\"", hd_reason_name(event->reason));
	if (event->job != 0) {
		put_field(&w, ",\"job\":", event->job);
		put_text(&w, ",\"worker\":");
		put_u64(&w, event->worker);
	}
	if (event->round != 0) {
		put_string(&w, ",\"direction\":\"", event->direction == HD_PULL ? "pull" : "push");
		put_field(&w, ",\"round\":", event->round);
	}
	put_token(&w, event->token);
	put_field(&w, ",\"position\":", event->position);
	put_field(&w, ",\"version\":", hd_version_counter(event->version));
	put_field(&w, ",\"incarnation\":", hd_version_incarnation(event->version));
	put_field(&w, ",\"base\":", hd_version_counter(event->base));
	put_field(&w, ",\"base_incarnation\":", hd_version_incarnation(event->base));
	put_field(&w, ",\"bytes\":", event->bytes);
	put_field(&w, ",\"aux\":", event->aux);
	put_value(&w, event->value);
	put_field(&w, ",\"more\":", event->more);
	put_text(&w, "}\n");
	assert((size_t)(w.at - out) < HD_EVENT_JSON_BYTES);
	return (size_t)(w.at - out);
}

void hd_event_json_name(const char *name, char *out, size_t capacity) {
	size_t n = 0;

	for (; *name && n + 3 < capacity; name++) {
		if (*name == '"' || *name == '\\')
			out[n++] = '\\';
		out[n] = *name;
		if ((unsigned char)*name < 0x20)
			out[n] = '?';
		n++;
	}
	out[n] = '\0';
}
