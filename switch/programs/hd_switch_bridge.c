/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_limits.h"
#include "hd_stat_groups.h"
#include "hd_switch_bridge.h"
#include "hd_switch_bridge_send.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES_MAX 65536
#define HURRY_MS 300 /* limit of waits after a signal */
#define ENDS_MS 1000 /* time for a child to end by itself */
#define NAP_NS 5000000

struct hd_switch_bridge {
	const char *command;
	pid_t child;
	uint32_t children; /* started so far */
	int to, from;
	bool lost; /* the state of the switch is unknown */
	bool hurries; /* a signal has come, most likely to end the agent */
	size_t had; /* of `line` */
	char line[LINE_BYTES_MAX];
};

/* --- lines ----------------------------------------------------------------------------------- */

static int64_t now_ms(void) {
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int send_line(struct hd_switch_bridge *b, const char *text) {
	size_t bytes = strlen(text), sent = 0;

	while (sent < bytes) {
		ssize_t n = write(b->to, text + sent, bytes - sent);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EPIPE;
		sent += (size_t)n;
	}
	return 0;
}

/* Reads more of a line. 0, -ETIMEDOUT, -EPIPE, -EPROTO. */
static int read_more(struct hd_switch_bridge *b, int64_t until) {
	struct pollfd descriptor = {.fd = b->from, .events = POLLIN};
	int64_t left = until - now_ms();
	int ready = left > 0 ? poll(&descriptor, 1, (int)left) : 0;
	ssize_t n;

	if (ready < 0 && errno != EINTR)
		return -EPIPE;
	b->hurries |= ready < 0;
	if (ready < 0)
		return 0;
	if (ready == 0)
		return -ETIMEDOUT;
	if (b->had == LINE_BYTES_MAX - 1)
		return -EPROTO;
	n = read(b->from, b->line + b->had, LINE_BYTES_MAX - 1 - b->had);
	if (n <= 0)
		return n < 0 && errno == EINTR ? 0 : -EPIPE;
	b->had += (size_t)n;
	return 0;
}

/* The child only answers, a line at a time: text after a line is a protocol error. */
static int read_line(struct hd_switch_bridge *b, int patience_ms) {
	int64_t begun = now_ms();
	int code = 0;

	b->had = 0;
	while (code == 0 && (b->had == 0 || b->line[b->had - 1] != '\n'))
		code = read_more(b, begun + (b->hurries ? HURRY_MS : patience_ms));
	b->line[b->had] = '\0';
	return code;
}

static const char *words_of(int code) {
	switch (code) {
	case -ETIMEDOUT:
		return "the switch's program does not answer (HD_SWITCH_BRIDGE_ANSWER_MS)";
	case -EPROTO:
		return "the switch's program gave an unexpected answer";
	default:
		return "the switch's program has ended";
	}
}

static int lose(struct hd_switch_bridge *b, int code, char *error, size_t error_bytes) {
	b->lost = true;
	(void)snprintf(error, error_bytes, "%s", words_of(code));
	return code;
}

/* Reads an answer; the caller frees *answer. -EREMOTEIO: the child reports an error. */
static int take_answer(
	struct hd_switch_bridge *b,
	int patience_ms,
	json_t **answer,
	char *error,
	size_t bytes
) {
	const char *refusal;
	int code = read_line(b, patience_ms);
	json_t *said;

	if (code < 0)
		return lose(b, code, error, bytes);
	said = json_loadb(b->line, b->had, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(said)) {
		json_decref(said);
		return lose(b, -EPROTO, error, bytes);
	}
	refusal = json_string_value(json_object_get(said, "error"));
	if (refusal) {
		(void)snprintf(error, bytes, "%s", refusal);
		json_decref(said);
		return -EREMOTEIO;
	}
	*answer = said;
	return 0;
}

/* Sends `question`, which it frees. */
static int
ask(struct hd_switch_bridge *b, json_t *question, json_t **answer, char *error, size_t bytes) {
	char *text = question ? json_dumps(question, JSON_COMPACT) : NULL;
	int code;

	json_decref(question);
	if (!text)
		return -ENOMEM;
	if (b->lost) {
		free(text);
		return lose(b, -EPIPE, error, bytes);
	}
	code = send_line(b, text);
	free(text);
	if (code == 0)
		code = send_line(b, "\n");
	if (code < 0)
		return lose(b, code, error, bytes);
	return take_answer(b, HD_SWITCH_BRIDGE_ANSWER_MS, answer, error, bytes);
}

static int tell(struct hd_switch_bridge *b, json_t *question, char *error, size_t bytes) {
	json_t *answer = NULL;
	int code = ask(b, question, &answer, error, bytes);

	json_decref(answer);
	return code;
}

/* --- start and end of the child ---------------------------------------------------------------- */

/* A terminal's signals are for the agent, which ends the child after its leases have ended. */
static void become(const char *command, int in, int out) {
	(void)setpgid(0, 0);
	if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
		(void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

static int fork_child(struct hd_switch_bridge *b) {
	int to[2], from[2];

	if (pipe2(to, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(from, O_CLOEXEC) < 0) {
		(void)close(to[0]);
		(void)close(to[1]);
		return -EMFILE;
	}
	b->child = fork();
	if (b->child == 0)
		become(b->command, to[0], from[1]);
	(void)close(to[0]);
	(void)close(from[1]);
	b->to = to[1];
	b->from = from[0];
	return b->child < 0 ? -EAGAIN : 0;
}

static bool has_ended(struct hd_switch_bridge *b, int patience_ms) {
	const struct timespec nap = {.tv_nsec = NAP_NS};
	int64_t until = now_ms() + patience_ms;

	while (waitpid(b->child, NULL, WNOHANG) == 0) {
		if (now_ms() >= until)
			return false;
		b->hurries |= nanosleep(&nap, NULL) < 0;
	}
	return true;
}

/* A child that stays after its input has closed, or its own children, must not block the agent. */
static void end_child(struct hd_switch_bridge *b) {
	if (has_ended(b, ENDS_MS))
		return;
	(void)kill(-b->child, SIGTERM);
	if (has_ended(b, HURRY_MS))
		return;
	(void)kill(-b->child, SIGKILL);
	(void)waitpid(b->child, NULL, 0);
}

static void part(struct hd_switch_bridge *b) {
	if (b->to >= 0)
		(void)close(b->to);
	b->to = -1;
	if (b->child > 0)
		end_child(b);
	b->child = 0;
	if (b->from >= 0)
		(void)close(b->from);
	b->from = -1;
}

/* Starts a child and waits until it says that its switch forwards. */
static int start(struct hd_switch_bridge *b, int patience_ms, char *error, size_t bytes) {
	json_t *answer = NULL;
	int code = fork_child(b);

	b->children++;
	b->lost = false;
	if (code < 0)
		(void)snprintf(error, bytes, "%s", strerror(-code));
	else
		code = take_answer(b, patience_ms, &answer, error, bytes);
	json_decref(answer);
	b->lost = code < 0;
	return code;
}

/* --- the agent's side ------------------------------------------------------------------------ */

static int take_station(json_t *answer, struct hd_switch_copy *copy) {
	const char *mac = json_string_value(json_object_get(answer, "mac"));
	json_int_t port = json_integer_value(json_object_get(answer, "port"));
	unsigned byte[6];

	if (!mac)
		return -EAGAIN;
	if (sscanf(mac,
		   "%2x:%2x:%2x:%2x:%2x:%2x",
		   &byte[0],
		   &byte[1],
		   &byte[2],
		   &byte[3],
		   &byte[4],
		   &byte[5])
		    != 6
	    || port < 0 || port > UINT16_MAX)
		return -EPROTO;
	copy->port = (uint16_t)port;
	for (int i = 0; i < 6; i++)
		copy->mac[i] = (uint8_t)byte[i];
	return 0;
}

static int
on_neighbour(void *owner, uint32_t ipv4, struct hd_switch_copy *copy, char *error, size_t bytes) {
	json_t *answer = NULL;
	int code
		= ask(owner,
		      json_pack("{ss so}", "do", "neighbour", "ipv4", bridge_address(ipv4)),
		      &answer,
		      error,
		      bytes);

	if (code == 0)
		code = take_station(answer, copy);
	json_decref(answer);
	return code;
}

static int
on_lease_set(void *owner, const struct hd_switch_lease *lease, char *error, size_t bytes) {
	return tell(
		owner, json_pack("{ss so}", "do", "set", "lease", bridge_lease(lease)), error, bytes
	);
}

static int on_lease_waits(void *owner, uint16_t id, uint64_t waits, char *error, size_t bytes) {
	return tell(
		owner,
		json_pack(
			"{ss si so}", "do", "waits", "id", (int)id, "waits", bridge_number(waits)
		),
		error,
		bytes
	);
}

static int on_lease_end(void *owner, uint16_t id, char *error, size_t bytes) {
	return tell(owner, json_pack("{ss si}", "do", "end", "id", (int)id), error, bytes);
}

static int
on_counters(void *owner, uint64_t counters[HD_SWITCH_COUNTER_COUNT], char *error, size_t bytes) {
	json_t *answer = NULL, *list;
	int code = ask(owner, json_pack("{ss}", "do", "counters"), &answer, error, bytes);

	list = json_object_get(answer, "counters");
	if (code == 0 && json_array_size(list) != HD_SWITCH_COUNTER_COUNT)
		code = -EPROTO;
	for (size_t i = 0; code == 0 && i < HD_SWITCH_COUNTER_COUNT; i++)
		counters[i] = (uint64_t)json_integer_value(json_array_get(list, i));
	json_decref(answer);
	return code;
}

/* A counter that the child does not know is 0. */
static void add_port(json_t *port, struct hd_stats *stats) {
	const char *interface = json_string_value(json_object_get(port, "interface"));
	struct hd_port_stats row;
	char number[24];
	const char *labels[] = {number, interface};

	if (!interface) {
		hd_stats_leave_out(stats);
		return;
	}
	(void)snprintf(
		number,
		sizeof number,
		"%lld",
		(long long)json_integer_value(json_object_get(port, "port"))
	);
#define TAKE(name, unit, help, kind, type)                                                         \
	row.name = (hd_stat_##type)json_integer_value(json_object_get(port, #name));
	HD_PORT_STATS(TAKE)
#undef TAKE
	hd_stats_add(stats, &hd_port_group, labels, &row);
}

void hd_switch_bridge_gather(struct hd_switch_bridge *b, struct hd_stats *stats) {
	char words[HD_TEXT_BYTES_MAX] = "";
	json_t *answer = NULL, *ports;

	(void)ask(b, json_pack("{ss}", "do", "ports"), &answer, words, sizeof words);
	ports = json_object_get(answer, "ports");
	if (!json_is_array(ports))
		hd_stats_leave_out(stats);
	for (size_t i = 0; i < json_array_size(ports); i++)
		add_port(json_array_get(ports, i), stats);
	json_decref(answer);
}

/* Replaces a child that has ended or is silent; the next one is another incarnation of the switch. */
static int on_watch(void *owner, uint64_t *incarnation, char *error, size_t bytes) {
	struct hd_switch_bridge *b = owner;
	json_t *answer = NULL, *number;
	int code = 0;

	if (b->lost && !b->hurries)
		part(b);
	if (b->lost && !b->hurries)
		code = start(b, HD_SWITCH_BRIDGE_ANSWER_MS, error, bytes);
	if (code == 0)
		code = ask(b, json_pack("{ss}", "do", "watch"), &answer, error, bytes);
	number = json_object_get(answer, "life");
	if (code == 0 && !json_is_integer(number))
		code = lose(b, -EPROTO, error, bytes);
	if (code == 0)
		*incarnation = (uint64_t)b->children << 32 | (uint32_t)json_integer_value(number);
	json_decref(answer);
	return code;
}

const struct hd_switch_agent_ops hd_switch_bridge_ops = {
	.neighbour = on_neighbour,
	.lease_set = on_lease_set,
	.lease_waits = on_lease_waits,
	.lease_end = on_lease_end,
	.counters = on_counters,
	.watch = on_watch,
};

/* --- open, close ----------------------------------------------------------------------------- */

int hd_switch_bridge_open(
	const char *command,
	struct hd_switch_bridge **bridge,
	char *error,
	size_t error_bytes
) {
	struct hd_switch_bridge *made = calloc(1, sizeof *made);
	int code;

	if (!made)
		return -ENOMEM;
	made->command = command;
	made->to = made->from = -1;
	(void)signal(SIGPIPE, SIG_IGN);
	code = start(made, HD_SWITCH_BRIDGE_START_MS, error, error_bytes);
	if (code < 0) {
		hd_switch_bridge_close(made);
		return code;
	}
	*bridge = made;
	return 0;
}

void hd_switch_bridge_close(struct hd_switch_bridge *b) {
	if (!b)
		return;
	part(b);
	free(b);
}
