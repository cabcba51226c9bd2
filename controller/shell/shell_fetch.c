/* SPDX-License-Identifier: BSD-3-Clause */
/* One session with the controller: SHOW, TABLE, and again for each further page. */
#include "hd_endpoint.h"
#include "hd_program.h"
#include "hd_udp.h"
#include "hd_wire.h"
#include "heddlectl.h"

#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#define PAGES_MAX 4096

struct shell {
	const struct shell_query *query;
	struct hd_endpoint *endpoint;
	struct hd_session *session;
	json_t *document;
	unsigned page;
	bool done;
	int code;
	char *error;
	size_t error_bytes;
	hd_ns until;
};

static void shell_fail(struct shell *s, int code, const char *text) {
	s->done = true;
	s->code = code;
	(void)snprintf(s->error, s->error_bytes, "%s", text);
}

static void ask(struct shell *s, hd_ns now, struct hd_sink *sink) {
	struct hd_message message = {.kind = HD_MSG_SHOW};
	struct hd_msg_show *m = &message.show;
	int bytes;

	(void)snprintf(m->table, sizeof(m->table), "%s", s->query->table);
	bytes = snprintf(m->filter, sizeof(m->filter), "page=%u %s", s->page, s->query->filter);
	if (bytes < 0 || (size_t)bytes >= sizeof(m->filter)) {
		shell_fail(s, EX_USAGE, "filter: too long (500 bytes)");
		return;
	}
	s->until = now + s->query->timeout;
	if (hd_session_send(s->session, &message, now, sink))
		shell_fail(s, EX_USAGE, "table or filter: not plain UTF-8 text");
}

static void on_opened(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink) {
	struct shell *s = owner;

	(void)session;
	if (!s->done)
		ask(s, now, sink);
}

/* Adds a page's rows to those before it. */
static void
take_page(struct shell *s, const struct hd_msg_table *m, hd_ns now, struct hd_sink *sink) {
	json_t *page = json_loadb((const char *)m->json.data, m->json.bytes, 0, NULL);
	json_t *rows = json_object_get(page, "rows"), *next = json_object_get(page, "next");

	if (!json_is_array(rows)) {
		json_decref(page);
		shell_fail(s, EX_PROTOCOL, "the answer is no table");
		return;
	}
	if (s->document) {
		json_t *all = json_object_get(s->document, "rows");

		json_array_extend(all, rows);
		json_object_set(page, "rows", all);
		json_decref(s->document);
	}
	s->document = page;
	if (!json_is_integer(next)) {
		s->done = true;
		return;
	}
	s->page++;
	if (s->page >= PAGES_MAX)
		shell_fail(s, EX_PROTOCOL, "more than 4096 pages");
	else
		ask(s, now, sink);
}

static void on_message(
	void *owner,
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
) {
	struct shell *s = owner;

	(void)session;
	if (s->done)
		return;
	if (message->kind == HD_MSG_TABLE && strcmp(message->table.table, s->query->table) == 0)
		take_page(s, &message->table, now, sink);
	else if (message->kind == HD_MSG_REFUSE)
		shell_fail(s, EX_USAGE, message->refuse.text);
}

static void on_closed(
	void *owner,
	struct hd_session *session,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	struct shell *s = owner;
	char why[HD_TEXT_BYTES_MAX];

	(void)session;
	(void)now;
	(void)sink;
	if (s->done)
		return;
	/* A wrong key or version does not get better by asking again; the rest may. */
	(void)snprintf(
		why,
		sizeof(why),
		"%s%s%s",
		hd_reason_name(reason),
		text && text[0] ? ": " : "",
		text ? text : ""
	);
	if (reason == HD_REASON_REFUSED || reason == HD_REASON_UNKNOWN_KEY
	    || reason == HD_REASON_VERSION_MISMATCH)
		shell_fail(s, EX_NOPERM, why);
}

static const struct hd_endpoint_ops endpoint_ops = {
	.opened = on_opened,
	.message = on_message,
	.closed = on_closed,
};

/* --- the shell as a node --- */

static void shell_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	struct shell *s = core;

	for (size_t i = 0; i < count; i++)
		hd_endpoint_receive(s->endpoint, now, &packets[i], sink);
}

static void shell_tick(void *core, hd_ns now, struct hd_sink *sink) {
	struct shell *s = core;

	hd_endpoint_tick(s->endpoint, now, sink);
	/* Politely, so that the controller need not wait for the lease to end. */
	if (s->done && s->session && hd_session_is_open(s->session)) {
		hd_session_close(s->session, HD_REASON_CLOSED, "", now, sink);
		s->session = NULL;
	}
}

static hd_ns shell_deadline(const void *core) {
	const struct shell *s = core;

	return s->done ? 0 : hd_endpoint_deadline(s->endpoint);
}

static const struct hd_core_ops shell_ops = {
	.receive = shell_receive,
	.tick = shell_tick,
	.deadline = shell_deadline,
};

static void drive(struct shell *s, struct hd_udp *udp) {
	struct hd_node node = {&shell_ops, s};
	char text[96];

	s->until = hd_udp_now() + s->query->timeout;
	while (!s->done) {
		int status = hd_udp_step(udp, node, s->until);

		if (status)
			shell_fail(s, EX_OSERR, strerror(-status));
		if (!s->done && hd_udp_now() >= s->until) {
			(void)snprintf(
				text,
				sizeof(text),
				"no answer within %.3g s (is it there, and the key right?)",
				(double)s->query->timeout / 1e9
			);
			shell_fail(s, EX_UNAVAILABLE, text);
		}
	}
	hd_udp_step(udp, node, 0);
}

static int open_session(struct shell *s) {
	struct hd_endpoint_config config = {
		.name = "heddlectl",
		.role = HD_ROLE_SHELL,
		.key_id = s->query->keys->keys[0].id,
		.keys = s->query->keys,
		.ops = &endpoint_ops,
		.owner = s,
	};

	if (hd_program_entropy(config.seed) || hd_endpoint_create(&config, &s->endpoint))
		return -1;
	return hd_endpoint_connect(s->endpoint, s->query->controller, hd_udp_now(), &s->session);
}

int shell_fetch(
	const struct shell_query *query,
	json_t **document,
	char *error,
	size_t error_bytes
) {
	struct hd_udp_config config = {0};
	struct shell s = {.query = query, .error = error, .error_bytes = error_bytes};
	struct hd_udp *udp;

	if (hd_udp_open(&config, &udp, error, error_bytes))
		return EX_OSERR;
	if (open_session(&s))
		shell_fail(&s, EX_OSERR, "no session could be made");
	else
		drive(&s, udp);
	hd_endpoint_destroy(s.endpoint);
	hd_udp_close(udp);
	if (s.code)
		json_decref(s.document);
	else
		*document = s.document;
	return s.code;
}
