/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whatever an operator types: the first byte chooses a question or a verb, the rest are words apart by NULs.
 * A table is a JSON document or a refusal in words; a command is done or refused, and breaks nothing that the
 * core relies on. The core lives on from input to input, with two jobs, and requests that wait.
 */
#include "controller_net.h"
#include "ctl_base.h"
#include "fuzz.h"
#include "hd_text.h"

#include <jansson.h>
#include <string.h>

static const char *const tables[]
	= {"nodes",
	   "jobs",
	   "links",
	   "transfers",
	   "drops",
	   "estimates",
	   "staleness",
	   "plan",
	   "settings",
	   "ports",
	   "queues",
	   "cores",
	   "counters",
	   "dataplane",
	   "dataplane-hosts",
	   "dataplane-jobs",
	   "dataplane-links"};

struct stage {
	struct net net;
	struct peer *shell;
	uint32_t request, round;
	struct peer *workers[4];
};

static struct stage *stage_open(void) {
	struct net_config config = {.epoch = 1, .initial_bps = 80e6};
	struct stage *s = calloc(1, sizeof *s);

	CHECK(s != NULL);
	net_open(&s->net, &config);
	net_server(&s->net, "ps");
	for (uint16_t i = 0; i < 4; i++)
		s->workers[i] = net_worker(&s->net, i < 2 ? "t" : "u", "job", i & 1, 8);
	s->shell = net_peer(&s->net, HD_ROLE_SHELL, "ctl");
	net_run(&s->net, 150 * HD_MS);
	return s;
}

/* The next word, valid text; "" past the end. */
static void take_word(const uint8_t **data, size_t *bytes, char *word, size_t capacity) {
	size_t length = 0;
	char text[HD_TEXT_BYTES_MAX + 1];

	while (length < *bytes && (*data)[length] && length < sizeof text - 1)
		length++;
	memcpy(text, *data, length);
	text[length] = '\0';
	hd_text_copy(word, capacity, text);
	length += length < *bytes;
	*data += length;
	*bytes -= length;
}

static void ask(struct stage *s, uint8_t which, const char *filter) {
	const char *error = NULL;
	char *text = hd_controller_table(
		s->net.controller,
		tables[which % (sizeof tables / sizeof tables[0])],
		filter,
		&error
	);
	json_t *document;

	if (!text) {
		CHECK(error && error[0]);
		return;
	}
	document = json_loads(text, 0, NULL);
	CHECK(document && json_is_array(json_object_get(document, "rows")));
	CHECK(strlen(text) < HD_MESSAGE_BYTES_MAX);
	json_decref(document);
	free(text);
}

static void check_core(const struct hd_controller *c) {
	CHECK(c->drained_count <= CTL_DRAINED_MAX);
	CHECK(c->config.interval_us >= 1 && c->config.theta >= 0 && c->config.ageing_s > 0);
	for (uint32_t i = 0; i < c->job_count; i++) {
		CHECK(ctl_job_tau(c->jobs[i]) <= c->jobs[i]->tau_max || !c->jobs[i]->tau_max);
		CHECK(ctl_job_weight(c->jobs[i]) > 0);
	}
}

static void command(struct stage *s, uint8_t verb, const uint8_t *data, size_t bytes) {
	struct hd_message m = {.kind = HD_MSG_COMMAND};
	const struct hd_message *done;

	m.command.request = ++s->request;
	m.command.verb = verb;
	take_word(&data, &bytes, m.command.object, sizeof m.command.object);
	take_word(&data, &bytes, m.command.target, sizeof m.command.target);
	take_word(&data, &bytes, m.command.value, sizeof m.command.value);
	CHECK(peer_send(s->shell, &m) == 0);
	net_run(&s->net, 2 * HD_MS);
	done = peer_last(s->shell, HD_MSG_DONE);
	CHECK(done && done->done.request == s->request && done->done.text[0]);
	CHECK(done->done.reason == HD_REASON_NONE || done->done.reason == HD_REASON_REFUSED);
	check_core(s->net.controller);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	static struct stage *stage;
	static unsigned inputs;
	struct hd_message push;

	if (bytes == 0 || bytes > 2048)
		return 0;
	/* The core keeps what it received: start again before that is too much. */
	if (stage && ++inputs % 2000 == 0) {
		net_close(&stage->net);
		free(stage);
		stage = NULL;
	}
	if (!stage)
		stage = stage_open();
	push = net_push(stage->workers[stage->round % 4], 1 + stage->round / 4, 1000, 0);
	if (stage->round++ < 800)
		(void)peer_send(stage->workers[(stage->round - 1) % 4], &push);
	if (data[0] & 0x80) {
		char filter[HD_TEXT_BYTES_MAX + 1];
		const uint8_t *at = data + 1;
		size_t left = bytes - 1;

		take_word(&at, &left, filter, sizeof filter);
		ask(stage, data[0] & 0x7f, filter);
	} else {
		command(stage, data[0], data + 1, bytes - 1);
	}
	return 0;
}
