/* SPDX-License-Identifier: BSD-3-Clause */
/* --server NAME: asks the controller for the address of that node. */
#include "hd_udp.h"
#include "heddlectl.h"

#include <string.h>
#include <sysexits.h>

/* ADDR or ADDR:PORT in digits, or any name with a port: no question to the controller. */
static bool is_address(const char *text) {
	return strchr(text, ':') || text[strspn(text, "0123456789.")] == '\0';
}

static const char *text_of(const json_t *row, const char *field) {
	const char *text = json_string_value(json_object_get(row, field));

	return text ? text : "";
}

/* Nodes that answer shells. */
static bool may_be_asked(const json_t *row) {
	static const char *const roles[] = {"server", "replica", "aggregator", "switch"};

	for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
		if (strcmp(text_of(row, "role"), roles[i]) == 0)
			return true;
	return false;
}

/* The number of nodes whose field is the name, and one of them. */
static size_t
find_node(const json_t *rows, const char *field, const char *name, const json_t **found) {
	size_t index, count = 0;
	json_t *row;

	json_array_foreach(rows, index, row) {
		if (!may_be_asked(row) || strcmp(text_of(row, field), name) != 0)
			continue;
		*found = row;
		count++;
	}
	return count;
}

/* By its name, else by its host's. 0, also when there is none; or a sysexits code (reported). */
static int choose(struct shell_context *context, const json_t *document) {
	const json_t *rows = json_object_get(document, "rows"), *found = NULL;
	size_t count = find_node(rows, "name", context->server, &found);

	if (count == 0)
		count = find_node(rows, "host", context->server, &found);
	if (count > 1)
		return shell_error(
			EX_USAGE,
			"--server: '%s': %zu nodes have this name: use an address (show nodes)",
			context->server,
			count
		);
	if (count == 1)
		(void)snprintf(
			context->server_address,
			sizeof context->server_address,
			"%s",
			text_of(found, "address")
		);
	return 0;
}

static void note_failure(const char *controller, const char *error, char *why, size_t why_bytes) {
	(void)snprintf(why, why_bytes, "; controller %.60s: %.150s", controller, error);
}

/* why: text to add to an error if the name is unknown. 0, also when the controller does not answer; or a sysexits code
 * (reported). */
static int ask_controller(struct shell_context *context, char *why, size_t why_bytes) {
	struct shell_context asked = *context;
	json_t *document = NULL;
	struct hd_addr address;
	struct shell *shell;
	char error[600];
	int status, code = hd_udp_resolve(context->controller, &address);

	if (code < 0) {
		note_failure(context->controller, hd_udp_resolve_error(code), why, why_bytes);
		return 0;
	}
	asked.of_server = false;
	status = shell_open(&asked, &shell);
	context->keys = asked.keys;
	context->keys_read = asked.keys_read;
	if (status)
		return status;
	if (shell_fetch(shell, "nodes", "", &document, error, sizeof error))
		note_failure(context->controller, error, why, why_bytes);
	else
		(void)snprintf(
			why,
			why_bytes,
			", nor is it a node of the controller %.60s (show nodes)",
			context->controller
		);
	shell_close(shell);
	if (document)
		status = choose(context, document);
	json_decref(document);
	return status;
}

int shell_find_server(struct shell_context *context) {
	struct hd_addr address;
	char why[256] = "";
	int status = 0, code = 0;

	if (!is_address(context->server))
		status = ask_controller(context, why, sizeof why);
	if (status)
		return status;
	/* Else it may be a name that the host's resolver knows. */
	if (!context->server_address[0])
		code = hd_udp_resolve(context->server, &address);
	if (code < 0)
		return shell_error(
			EX_NOHOST,
			"--server: '%s': %s%s",
			context->server,
			hd_udp_resolve_error(code),
			why
		);
	context->controller
		= context->server_address[0] ? context->server_address : context->server;
	context->controller_from = "--server";
	return 0;
}
