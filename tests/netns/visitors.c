/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs that come and go: visitors LANES FIRST COUNT VALUES. Each lane is two processes, the two workers of one job
 * after another: they join, make one all-reduce, push an update each, pull the model and leave. The jobs' names are
 * j-FIRST and so on, COUNT of them in all. The rest comes from the environment. Prints "DONE FAILED", jobs of rank 0.
 */
#include <heddle.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 30000
#define TAU_MAX 16
#define WORKERS 2

struct setting {
	unsigned lanes, first, count;
	uint64_t values;
};

static int open_job(unsigned job, int rank, uint64_t values, struct heddle **fabric) {
	struct heddle_options options = HEDDLE_OPTIONS_INIT;
	struct heddle_spec *spec;
	char name[32];
	int rc;

	(void)snprintf(name, sizeof name, "j-%u", job);
	options.rank = rank;
	rc = heddle_spec_create(NULL, name, &spec);
	if (rc < 0)
		return rc;
	rc = heddle_spec_add_tensor(spec, "w", &values, 1, HEDDLE_INIT_ZERO, 0);
	heddle_spec_set_tau_max(spec, TAU_MAX);
	if (rc == 0)
		rc = heddle_open(spec, &options, fabric);
	heddle_spec_destroy(spec);
	return rc;
}

/* One job's life, of one of its workers. */
static int visit(unsigned job, int rank, uint64_t values, float *data) {
	struct heddle *fabric = NULL;
	uint64_t version = 0;
	int rc = open_job(job, rank, values, &fabric);

	if (rc == 0)
		rc = heddle_wait_joined(fabric, PATIENCE_MS, &version, NULL);
	if (rc == 0)
		rc = heddle_allreduce(fabric, data, data, values, NULL, PATIENCE_MS, NULL);
	if (rc == 0)
		rc = heddle_push(fabric, data, version, NULL, PATIENCE_MS, NULL);
	if (rc == 0)
		rc = heddle_pull(fabric, data, NULL, PATIENCE_MS, NULL);
	if (rc != 0)
		(void
		)fprintf(stderr, "job %u, worker %d: %d, %s\n", job, rank, rc, heddle_last_error());
	(void)heddle_close(fabric, PATIENCE_MS);
	return rc;
}

static int lane(const struct setting *s, unsigned number, int rank) {
	float *data = calloc(s->values, sizeof *data);
	unsigned failed = 0, done = 0;
	char line[32];
	int bytes;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!data)
		return 71;
	for (unsigned i = number; i < s->count; i += s->lanes) {
		failed += visit(s->first + i, rank, s->values, data) != 0;
		done++;
	}
	free(data);
	if (rank > 0)
		return failed > 0;
	bytes = snprintf(line, sizeof line, "%u %u\n", done, failed);
	return write(STDOUT_FILENO, line, (size_t)bytes) != bytes || failed > 0;
}

int main(int argc, char **argv) {
	struct setting s;
	int status, failed = 0;

	if (argc != 5)
		return fprintf(stderr, "usage: visitors LANES FIRST COUNT VALUES\n"), 64;
	s = (struct setting){
		.lanes = (unsigned)strtoul(argv[1], NULL, 10),
		.first = (unsigned)strtoul(argv[2], NULL, 10),
		.count = (unsigned)strtoul(argv[3], NULL, 10),
		.values = strtoull(argv[4], NULL, 10),
	};
	for (unsigned i = 0; i < s.lanes * WORKERS; i++) {
		pid_t child = fork();

		if (child < 0)
			return 71;
		if (child == 0)
			_exit(lane(&s, i / WORKERS, (int)(i % WORKERS)));
	}
	while (wait(&status) > 0)
		failed += status != 0;
	return failed ? 1 : 0;
}
