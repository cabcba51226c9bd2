/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker whose link is cut after it has joined: every public call that takes a timeout, each with the same, while no
 * node can be reached. The test writes a line into PHASES for each step that it takes: the link is cut; it is back; it
 * is cut again. A line on standard output for each call: its name, its return value, its duration in ms.
 *
 * usage: cut_worker PHASES TIMEOUT_MS   the rest comes from heddle-run's environment
 */
#include <errno.h>
#include <heddle.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VALUES 20000
#define PATIENCE_MS 20000 /* only guards against hangs */

struct worker {
	struct heddle *fabric;
	const char *phases;
	int timeout_ms;
	uint64_t version;
	float model[VALUES], update[VALUES], sum[VALUES];
};

static int64_t now_ms(void) {
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void print_line(const char *what, int rc, int64_t begun) {
	(void)printf("%s %d %" PRId64 "\n", what, rc, now_ms() - begun);
	(void)fflush(stdout);
}

static void wait_for_phase(const struct worker *w, int phase) {
	const struct timespec nap = {.tv_nsec = 10000000};
	const int64_t end = now_ms() + PATIENCE_MS;

	for (;;) {
		FILE *file = fopen(w->phases, "r");
		int lines = 0, c;

		while (file && (c = fgetc(file)) != EOF)
			lines += c == '\n';
		if (file)
			(void)fclose(file);
		if (lines >= phase)
			return;
		if (now_ms() > end)
			_exit(70);
		(void)nanosleep(&nap, NULL);
	}
}

/* One push and one pull; the pull says what the next push is computed from. */
static int train(struct worker *w, int timeout_ms) {
	struct heddle_status status = HEDDLE_STATUS_INIT;
	int rc = heddle_push(w->fabric, w->update, w->version, NULL, timeout_ms, NULL);

	if (rc >= 0)
		rc = heddle_pull(w->fabric, w->model, NULL, timeout_ms, &status);
	if (rc == 0)
		w->version = status.version;
	return rc;
}

static void wait_tickets(struct worker *w) {
	struct heddle_ticket *pushed = NULL, *pulled = NULL;
	int64_t begun;
	int rc;

	if (heddle_push_start(w->fabric, w->update, w->version, NULL, &pushed) < 0
	    || heddle_pull_start(w->fabric, w->model, NULL, &pulled) < 0)
		_exit(71);
	begun = now_ms();
	rc = heddle_ticket_wait(pushed, HEDDLE_WAIT_OUTCOME, w->timeout_ms, NULL);
	print_line("ticket_wait,push", rc, begun);
	begun = now_ms();
	rc = heddle_ticket_wait(pulled, HEDDLE_WAIT_OUTCOME, w->timeout_ms, NULL);
	print_line("ticket_wait,pull", rc, begun);
	/* Before the values go back to the caller. */
	while (heddle_ticket_cancel(pulled) == -EAGAIN)
		(void)heddle_ticket_wait(pulled, HEDDLE_WAIT_RELEASED, 1, NULL);
	begun = now_ms();
	rc = heddle_ticket_wait(pulled, HEDDLE_WAIT_RELEASED, w->timeout_ms, NULL);
	print_line("ticket_wait,cancelled", rc, begun);
	heddle_ticket_free(pushed);
	heddle_ticket_free(pulled);
}

static void call_all(struct worker *w) {
	int64_t begun = now_ms();
	int rc = heddle_push(w->fabric, w->update, w->version, NULL, w->timeout_ms, NULL);

	print_line("push", rc, begun);
	begun = now_ms();
	rc = heddle_pull(w->fabric, w->model, NULL, w->timeout_ms, NULL);
	print_line("pull", rc, begun);
	wait_tickets(w);
	begun = now_ms();
	rc = heddle_allreduce(w->fabric, w->sum, w->sum, VALUES, NULL, w->timeout_ms, NULL);
	print_line("allreduce", rc, begun);
	begun = now_ms();
	rc = heddle_wait_joined(w->fabric, w->timeout_ms, NULL, NULL);
	print_line("wait_joined", rc, begun);
}

static int open_worker(struct worker *w) {
	const uint64_t values = VALUES;
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	struct heddle_spec *spec;
	int rc;

	if (heddle_spec_create(NULL, "cut", &spec) < 0)
		return -ENOMEM;
	heddle_spec_set_tau_max(spec, 1000);
	rc = heddle_spec_add_tensor(spec, "model", &values, 1, HEDDLE_INIT_ZERO, 0);
	rc = rc < 0 ? rc : heddle_open(spec, &options, &w->fabric);
	heddle_spec_destroy(spec);
	return rc < 0 ? rc : heddle_wait_joined(w->fabric, PATIENCE_MS, &w->version, NULL);
}

int main(int argc, char **argv) {
	static struct worker w;
	int64_t begun;
	int rc;

	if (argc != 3)
		return 64;
	w.phases = argv[1];
	w.timeout_ms = (int)strtol(argv[2], NULL, 10);
	begun = now_ms();
	rc = open_worker(&w);
	rc = rc < 0 ? rc : train(&w, PATIENCE_MS);
	print_line("trained", rc, begun);
	wait_for_phase(&w, 1);
	call_all(&w);
	wait_for_phase(&w, 2);
	begun = now_ms();
	rc = train(&w, PATIENCE_MS);
	print_line("back", rc, begun);
	wait_for_phase(&w, 3);
	begun = now_ms();
	rc = heddle_leave(w.fabric, w.timeout_ms);
	print_line("leave", rc, begun);
	begun = now_ms();
	rc = heddle_close(w.fabric, w.timeout_ms);
	print_line("close", rc, begun);
	return 0;
}
