/* SPDX-License-Identifier: BSD-3-Clause */
/* heddlectl check: checks this host, its key file, and whether the controller answers. */
#include "shell_check.h"
#include "shell_shapes.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

static const char *const status_names[] = {
	[FINDING_OK] = "ok",
	[FINDING_WARN] = "warn",
	[FINDING_FAIL] = "FAIL",
	[FINDING_SKIP] = "skip",
};

struct finding *finding_add(struct findings *all, const char *check, enum finding_status status) {
	struct finding *f = &all->item[all->count < FINDINGS_MAX ? all->count++ : FINDINGS_MAX - 1];

	*f = (struct finding){.check = check, .status = status};
	return f;
}

void finding_explain(struct finding *f, const char *format, ...) {
	va_list args;

	va_start(args, format);
	(void)vsnprintf(f->found, sizeof f->found, format, args);
	va_end(args);
}

void finding_advise(struct finding *f, const char *format, ...) {
	va_list args;

	va_start(args, format);
	(void)vsnprintf(f->advice, sizeof f->advice, format, args);
	va_end(args);
}

static void check_key_file(const struct shell_context *context, struct findings *all) {
	const char *path = context->key_file;
	struct finding *f;
	struct stat info;

	if (!path || !path[0]) {
		f = finding_add(all, "key-file", FINDING_WARN);
		finding_explain(f, "none given");
		finding_advise(f, "--key-file, or HEDDLE_KEY_FILE");
		return;
	}
	if (stat(path, &info)) {
		f = finding_add(all, "key-file", FINDING_FAIL);
		finding_explain(f, "%.150s: cannot be read", path);
		return;
	}
	f = finding_add(all, "key-file", info.st_mode & 077 ? FINDING_WARN : FINDING_OK);
	finding_explain(f, "%.150s: mode %03o", path, (unsigned)info.st_mode & 0777);
	if (f->status == FINDING_WARN)
		finding_advise(f, "others can read it: chmod 600 %.150s", path);
}

static void check_controller(struct shell_context *context, struct findings *all) {
	char error[HD_TEXT_BYTES_MAX + 64] = "";
	json_t *document = NULL;
	struct shell *shell;
	struct finding *f;
	int status;

	if (!context->key_file || !context->key_file[0]) {
		finding_explain(finding_add(all, "controller", FINDING_SKIP), "no key file");
		return;
	}
	status = shell_open(context, &shell);
	if (!status) {
		status = shell_fetch(shell, "nodes", "", &document, error, sizeof error);
		shell_close(shell);
	}
	f = finding_add(all, "controller", status ? FINDING_FAIL : FINDING_OK);
	if (status) {
		finding_explain(
			f, "%.60s: %.130s", context->controller, error[0] ? error : "see above"
		);
		finding_advise(
			f, "is it running, does a firewall drop UDP 4773, are the keys the same?"
		);
	} else {
		finding_explain(
			f,
			"%.60s: epoch %lld, %zu nodes",
			context->controller,
			(long long)json_integer_value(json_object_get(document, "epoch")),
			json_array_size(json_object_get(document, "rows"))
		);
	}
	json_decref(document);
}

static int count_status(const struct findings *all, enum finding_status status) {
	int count = 0;

	for (int i = 0; i < all->count; i++)
		count += all->item[i].status == status;
	return count;
}

static void print_text(const struct findings *all) {
	for (int i = 0; i < all->count; i++) {
		const struct finding *f = &all->item[i];

		(void)printf("%-4s  %-11s %s\n", status_names[f->status], f->check, f->found);
		if (f->advice[0])
			(void)printf("                  %s\n", f->advice);
	}
	(void
	)printf("%d checks: %d fail, %d warn\n",
		all->count,
		count_status(all, FINDING_FAIL),
		count_status(all, FINDING_WARN));
}

static void print_json(const struct findings *all) {
	json_t *document = json_object(), *rows = json_array();

	for (int i = 0; i < all->count; i++) {
		const struct finding *f = &all->item[i];

		shell_json_append(
			rows,
			shell_check_shape.rows,
			&(struct check_row){
				.check = f->check,
				.status
				= f->status == FINDING_FAIL ? "fail" : status_names[f->status],
				.found = f->found,
				.advice = f->advice,
			}
		);
	}
	json_object_set_new(document, "table", json_string(shell_check_shape.rows->name));
	json_object_set_new(document, "rows", rows);
	shell_json_put(
		document,
		shell_check_shape.head,
		&(struct check_head){
			.failed = (uint64_t)count_status(all, FINDING_FAIL),
			.warned = (uint64_t)count_status(all, FINDING_WARN),
		}
	);
	(void)json_dumpf(document, stdout, JSON_INDENT(2));
	(void)fputc('\n', stdout);
	json_decref(document);
}

int shell_run_check(struct shell_context *context, int count, char **words) {
	struct findings *all = calloc(1, sizeof *all);
	int failed;

	(void)count;
	(void)words;
	if (!all)
		return shell_error(EX_OSERR, "no memory");
	check_versions(all);
	check_key_file(context, all);
	check_controller(context, all);
	check_port(all);
	check_interfaces(all);
	check_sockets(all);
	check_privileges(all);
	check_hugepages(all);
	check_clock(all);
	check_bpf(all);
	if (context->json)
		print_json(all);
	else
		print_text(all);
	failed = count_status(all, FINDING_FAIL);
	free(all);
	if (fflush(stdout))
		return shell_error(EX_IOERR, "stdout");
	return failed ? EX_CONFIG : 0;
}
