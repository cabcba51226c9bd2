/* SPDX-License-Identifier: BSD-3-Clause */
/* One session with the controller: SHOW and TABLE, page by page; COMMAND and DONE. */
#include "hd_endpoint.h"
#include "hd_program.h"
#include "hd_text.h"
#include "hd_udp.h"
#include "hd_wire.h"
#include "heddlectl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define PAGES_MAX 65536

/* The present question; one at a time. */
struct question {
	const char *table, *filter; /* SHOW */
	const struct hd_msg_command *command; /* or COMMAND */
	json_t *document;
	json_int_t from;
	unsigned pages;
	struct hd_msg_done *answer;
	bool done;
	int code;
	char *error;
	size_t error_bytes;
	hd_ns until;
};

struct shell {
	struct shell_context *context;
	struct hd_udp *udp;
	struct hd_endpoint *endpoint;
	struct hd_session *session;
	struct question *question; /* NULL: none */
	bool closing;
	/* An unauthenticated answer to HELLO, with a reason: shown if no other answer arrives in time. */
	char hint[HD_TEXT_BYTES_MAX];
};

static void end(struct question *q, int code, const char *text) {
	q->done = true;
	q->code = code;
	(void)snprintf(q->error, q->error_bytes, "%s", text);
}

static void ask(struct shell *s, hd_ns now, struct hd_sink *sink) {
	struct question *q = s->question;
	struct hd_message message = {0};
	int bytes;

	q->until = now + s->context->timeout;
	if (q->command) {
		message.kind = HD_MSG_COMMAND;
		message.command = *q->command;
	} else {
		struct hd_msg_show *m = &message.show;

		message.kind = HD_MSG_SHOW;
		(void)snprintf(m->table, sizeof m->table, "%s", q->table);
		bytes = snprintf(
			m->filter, sizeof m->filter, "from=%lld %s", (long long)q->from, q->filter
		);
		if (bytes < 0 || (size_t)bytes >= sizeof m->filter) {
			end(q, EX_USAGE, "filter: too long (490 bytes)");
			return;
		}
	}
	if (hd_session_send(s->session, &message, now, sink))
		end(q, EX_USAGE, "a word is no plain UTF-8 text");
}

static void on_opened(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink) {
	struct shell *s = owner;

	(void)session;
	s->hint[0] = '\0';
	if (s->question && !s->question->done)
		ask(s, now, sink);
}

/* Adds a page's rows to the former ones. */
static void
take_page(struct shell *s, const struct hd_msg_table *m, hd_ns now, struct hd_sink *sink) {
	struct question *q = s->question;
	json_t *page = json_loadb((const char *)m->json.data, m->json.bytes, 0, NULL);
	json_t *rows = json_object_get(page, "rows"), *next = json_object_get(page, "next");

	if (!json_is_array(rows)) {
		json_decref(page);
		end(q, EX_PROTOCOL, "the answer is no table");
		return;
	}
	if (q->document)
		json_array_extend(json_object_get(q->document, "rows"), rows);
	else
		q->document = json_incref(page);
	if (!json_is_integer(next)) {
		q->done = true;
	} else if (++q->pages >= PAGES_MAX || json_integer_value(next) <= q->from) {
		end(q, EX_PROTOCOL, "the pages have no end");
	} else {
		q->from = json_integer_value(next);
		ask(s, now, sink);
	}
	json_decref(page);
}

static void on_message(
	void *owner,
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
) {
	struct shell *s = owner;
	struct question *q = s->question;

	(void)session;
	if (!q || q->done)
		return;
	if (message->kind == HD_MSG_TABLE && q->table
	    && strcmp(message->table.table, q->table) == 0) {
		take_page(s, &message->table, now, sink);
	} else if (message->kind == HD_MSG_DONE && q->command && message->done.request == q->command->request) {
		*q->answer = message->done;
		q->done = true;
	} else if (message->kind == HD_MSG_REFUSE) {
		end(q, EX_USAGE, message->refuse.text);
	}
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
	struct question *q = s->question;
	char why[HD_TEXT_BYTES_MAX];

	(void)now;
	(void)sink;
	if (reason == HD_REASON_REFUSED && session == s->session)
		s->session = NULL;
	if (!q || q->done)
		return;
	(void)snprintf(
		why,
		sizeof why,
		"%s%s%s",
		hd_reason_name(reason),
		text && text[0] ? ": " : "",
		text ? text : ""
	);
	if (reason == HD_REASON_REFUSED)
		end(q, EX_NOPERM, why);
	else if (reason == HD_REASON_UNKNOWN_KEY || reason == HD_REASON_VERSION_MISMATCH)
		hd_text_copy(s->hint, sizeof s->hint, why);
	/* A command may have run before the session broke: it is not sent again. */
	else if (q->command)
		end(q, EX_UNAVAILABLE, why);
	else {
		/* The table is requested again from its beginning in the next session. */
		json_decref(q->document);
		q->document = NULL;
		q->from = 0;
	}
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
	struct question *q = s->question;

	hd_endpoint_tick(s->endpoint, now, sink);
	if (!s->session)
		return;
	/* A question on a session that is open already. */
	if (q && !q->done && !q->until && hd_session_is_open(s->session))
		ask(s, now, sink);
	/* Closes the session, so that the controller need not wait for the detection time. */
	if (s->closing && hd_session_is_open(s->session)) {
		hd_session_close(s->session, HD_REASON_CLOSED, "", now, sink);
		s->session = NULL;
	}
}

static hd_ns shell_deadline(const void *core) {
	const struct shell *s = core;
	const struct question *q = s->question;

	if (s->closing
	    || (q && (q->done || (!q->until && s->session && hd_session_is_open(s->session)))))
		return 0;
	return hd_endpoint_deadline(s->endpoint);
}

static const struct hd_core_ops shell_ops = {
	.receive = shell_receive,
	.tick = shell_tick,
	.deadline = shell_deadline,
};

static void no_answer(const struct shell *s, struct question *q) {
	char text[sizeof s->hint + 96];

	(void)snprintf(
		text,
		sizeof text,
		"no answer within %.3g s%s%s",
		(double)s->context->timeout / 1e9,
		s->hint[0] ? ": " : " (is the process running, and is the key right?)",
		s->hint
	);
	end(q, s->hint[0] ? EX_NOPERM : EX_UNAVAILABLE, text);
}

static int drive(struct shell *s, struct question *q) {
	struct hd_node node = {&shell_ops, s};
	hd_ns timeout = s->context->timeout, begin = hd_udp_now();

	s->question = q;
	while (!q->done) {
		hd_ns until = q->until ? q->until : begin + timeout;
		int status = hd_udp_poll(s->udp, node, until);

		if (status && status != -EINTR)
			end(q, EX_OSERR, strerror(-status));
		if (!q->done && shell_interrupted())
			end(q, EX_UNAVAILABLE, "interrupted");
		if (q->done || hd_udp_now() < (q->until ? q->until : until))
			continue;
		no_answer(s, q);
	}
	s->question = NULL;
	return q->code;
}

void shell_idle(struct shell *s, hd_ns until) {
	struct hd_node node = {&shell_ops, s};

	while (hd_udp_now() < until && !shell_interrupted())
		if (hd_udp_poll(s->udp, node, until))
			return;
}

int shell_fetch(
	struct shell *s,
	const char *table,
	const char *filter,
	json_t **document,
	char *error,
	size_t error_bytes
) {
	struct question q = {
		.table = table,
		.filter = filter,
		.error = error,
		.error_bytes = error_bytes,
	};

	if (drive(s, &q)) {
		json_decref(q.document);
		return q.code;
	}
	json_object_del(q.document, "from");
	json_object_del(q.document, "next");
	json_object_set_new(
		q.document,
		"total",
		json_integer((json_int_t)json_array_size(json_object_get(q.document, "rows")))
	);
	*document = q.document;
	return 0;
}

int shell_command(
	struct shell *s,
	const struct hd_msg_command *command,
	struct hd_msg_done *done,
	char *error,
	size_t error_bytes
) {
	struct question q = {
		.command = command,
		.answer = done,
		.error = error,
		.error_bytes = error_bytes,
	};

	return drive(s, &q);
}

/* --- open and close --- */

static int read_keys(struct shell_context *context) {
	char error[512];
	int status;

	if (context->keys_read)
		return 0;
	if (!context->key_file || !context->key_file[0])
		return shell_error(EX_USAGE, "--key-file: missing (or set HEDDLE_KEY_FILE)");
	status = hd_program_read_keys(context->key_file, &context->keys, error, sizeof error);
	if (status)
		return shell_error(
			status == -EINVAL ? EX_DATAERR : EX_NOINPUT,
			"%s: %s",
			context->key_file_from,
			error
		);
	if (hd_program_keys_exposed(context->key_file, error, sizeof error))
		(void)shell_error(0, "warning: %s: %s", context->key_file_from, error);
	context->keys_read = true;
	return 0;
}

static int connect_session(struct shell *s) {
	struct hd_endpoint_config config = {
		.name = "heddlectl",
		.role = HD_ROLE_SHELL,
		.key_id = s->context->keys.keys[0].id,
		.keys = &s->context->keys,
		.ops = &endpoint_ops,
		.owner = s,
	};
	struct hd_addr controller;
	int code = hd_udp_resolve(s->context->controller, &controller);

	if (code < 0)
		return shell_error(
			EX_NOHOST,
			"%s: '%s': %s",
			s->context->controller_from,
			s->context->controller,
			hd_udp_resolve_error(code)
		);
	if (hd_program_entropy(config.seed) || hd_endpoint_create(&config, &s->endpoint)
	    || hd_endpoint_connect(s->endpoint, controller, hd_udp_now(), &s->session))
		return shell_error(EX_OSERR, "no session could be made");
	return 0;
}

int shell_open(struct shell_context *context, struct shell **shell) {
	struct hd_udp_config config = {0};
	char error[256];
	struct shell *s;
	int status = read_keys(context);

	if (status)
		return status;
	s = calloc(1, sizeof *s);
	if (!s)
		return shell_error(EX_OSERR, "no memory");
	s->context = context;
	if (hd_udp_open(&config, &s->udp, error, sizeof error))
		status = shell_error(EX_OSERR, "%s", error);
	else
		status = connect_session(s);
	if (status)
		shell_close(s);
	else
		*shell = s;
	return status;
}

void shell_close(struct shell *s) {
	struct hd_node node = {&shell_ops, s};

	if (!s)
		return;
	s->closing = true;
	if (s->session && hd_session_is_open(s->session))
		(void)hd_udp_poll(s->udp, node, 0);
	hd_endpoint_destroy(s->endpoint);
	hd_udp_close(s->udp);
	free(s);
}
