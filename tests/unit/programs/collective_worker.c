/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One worker of a job that calls collectives: collective_worker CALL ...; a call is a name and its arguments:
 *
 *   allreduce,count=40000,exact=4,tag=first       also reduce, reduce_scatter: sums
 *   gather,count=1000,root=2                      also broadcast, allgather, alltoall, scatter, barrier
 *   allreduce_list,count=40000                    also reduce_list, broadcast_list: of values in many buffers
 *   allreduce,group=3+1,number=2                  in a group, where 3 has rank 0; its values depend on the number
 *   allreduce,patient=1                           waits for registered workers however long they take
 *   wait            reads a line of standard input
 *
 * Says `joined`, then for each call a line of JSON: its result, the reason and the words of an error, how many workers
 * are in it, and how long it took. All values of all results are checked.
 */
#include "collective_list.h"
#include "heddle.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMEOUT_MS 15000
#define WORKERS_MAX 16
#define GROUPS_MAX 4

struct call {
	const char *name, *tag, *group; /* group: ranks, as in 3+1 */
	uint64_t count;
	unsigned exact, number;
	bool patient;
	int root;
};

struct group {
	const char *text;
	struct heddle *fabric;
};

struct worker {
	struct group groups[GROUPS_MAX];
	struct heddle *fabric;
	int rank;
	float *in, *out;
	int ranks[WORKERS_MAX]; /* of the members */
	struct heddle_collective_options options;
	struct heddle_status status;
};

static void die(const char *what, const char *why) {
	(void)fprintf(stderr, "collective_worker: %s: %s\n", what, why);
	exit(1);
}

static double now(void) {
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Changes its argument. */
static struct call read_call(char *text, unsigned number) {
	struct call call = {.number = number, .count = 1};
	char *rest = NULL;

	call.name = strtok_r(text, ",", &rest);
	for (char *word; (word = strtok_r(NULL, ",", &rest));) {
		char *value = strchr(word, '=');

		if (!value)
			die("argument", word);
		*value++ = '\0';
		if (strcmp(word, "count") == 0)
			call.count = strtoull(value, NULL, 10);
		else if (strcmp(word, "exact") == 0)
			call.exact = (unsigned)strtoul(value, NULL, 10);
		else if (strcmp(word, "root") == 0)
			call.root = (int)strtol(value, NULL, 10);
		else if (strcmp(word, "tag") == 0)
			call.tag = value;
		else if (strcmp(word, "group") == 0)
			call.group = value;
		else if (strcmp(word, "patient") == 0)
			call.patient = strtoul(value, NULL, 10) > 0;
		else if (strcmp(word, "number") == 0)
			call.number = (unsigned)strtoul(value, NULL, 10);
		else
			die("argument", word);
	}
	return call;
}

/* Rank r gives 1 << r times this: whole numbers, so that a sum says who is in it. */
static float factor(const struct call *call, uint64_t i) {
	return (float)(1 + (i + call->number) % 7);
}

/* A value that is copied: NaN with a payload, and -0, among others. */
static float copied(const struct call *call, int rank, uint64_t i) {
	const uint32_t odd[] = {UINT32_C(0x7fa12345), UINT32_C(0x80000000), UINT32_C(0xff800001)};
	float x = (float)(1000 * rank + (int)((i + call->number) % 997));

	if (i % 13 < 3)
		memcpy(&x, &odd[i % 13], sizeof x);
	return x;
}

static void
check_sum(const struct worker *w, const struct call *call, uint64_t first, uint64_t count) {
	unsigned members = 0;

	for (uint32_t k = 0; k < w->status.workers; k++)
		members |= 1U << w->ranks[k];
	for (uint64_t i = 0; i < count; i++)
		if (!(fabsf(w->out[i] - (float)members * factor(call, first + i)) <= 0))
			die(call->name, "a wrong value");
}

static void
check_copy(const struct call *call, int rank, const float *here, uint64_t first, uint64_t count) {
	for (uint64_t i = 0; i < count; i++) {
		const float want = copied(call, rank, first + i);
		uint32_t bits[2];

		memcpy(&bits[0], &here[i], sizeof bits[0]);
		memcpy(&bits[1], &want, sizeof bits[1]);
		if (bits[0] != bits[1])
			die(call->name, "other bits");
	}
}

/* This worker's block. */
static void my_block(const struct worker *w, uint64_t count, uint64_t *first, uint64_t *length) {
	unsigned index = 0;

	while (w->ranks[index] != w->rank)
		index++;
	if (heddle_block(count, index, w->status.workers, first, length) < 0)
		die("heddle_block", heddle_last_error());
}

static void fill(struct worker *w, const struct call *call, bool sum) {
	for (uint64_t i = 0; i < call->count; i++)
		w->in[i]
			= sum ? (float)(1U << w->rank) * factor(call, i) : copied(call, w->rank, i);
}

static int make_sum(struct worker *w, const struct call *call) {
	struct heddle *f = w->fabric;
	uint64_t first = 0, count = call->count;
	int rc;

	fill(w, call, true);
	if (strcmp(call->name, "allreduce") == 0)
		rc = heddle_allreduce(f, w->in, w->out, count, &w->options, TIMEOUT_MS, &w->status);
	else if (strcmp(call->name, "reduce") == 0)
		rc = heddle_reduce(
			f, w->in, w->out, count, call->root, &w->options, -1, &w->status
		);
	else
		rc = heddle_reduce_scatter(
			f, w->in, w->out, count, &w->options, TIMEOUT_MS, &w->status
		);
	if (rc < 0 || (strcmp(call->name, "reduce") == 0 && w->rank != call->root))
		return rc;
	if (strcmp(call->name, "reduce_scatter") == 0)
		my_block(w, call->count, &first, &count);
	check_sum(w, call, first, count);
	return rc;
}

static void check_gathered(const struct worker *w, const struct call *call) {
	for (uint32_t k = 0; k < w->status.workers; k++)
		check_copy(call, w->ranks[k], w->out + k * call->count, 0, call->count);
}

/* This worker's block of each member's values. */
static void check_exchanged(const struct worker *w, const struct call *call) {
	uint64_t first, length;

	my_block(w, call->count, &first, &length);
	for (uint32_t k = 0; k < w->status.workers; k++)
		check_copy(call, w->ranks[k], w->out + k * length, first, length);
}

static int make_copy(struct worker *w, const struct call *call) {
	struct heddle *f = w->fabric;
	const bool root = w->rank == call->root;
	uint64_t first, count = call->count;
	int rc;

	fill(w, call, false);
	if (strcmp(call->name, "broadcast") == 0) {
		rc = heddle_broadcast(
			f,
			root ? w->in : w->out,
			count,
			call->root,
			&w->options,
			TIMEOUT_MS,
			&w->status
		);
		if (rc == 0 && !root)
			check_copy(call, call->root, w->out, 0, count);
	} else if (strcmp(call->name, "allgather") == 0) {
		rc = heddle_allgather(f, w->in, w->out, count, &w->options, -1, &w->status);
		if (rc == 0)
			check_gathered(w, call);
	} else if (strcmp(call->name, "alltoall") == 0) {
		rc = heddle_alltoall(f, w->in, w->out, count, &w->options, TIMEOUT_MS, &w->status);
		if (rc == 0)
			check_exchanged(w, call);
	} else if (strcmp(call->name, "gather") == 0) {
		rc = heddle_gather(
			f,
			w->in,
			root ? w->out : NULL,
			count,
			call->root,
			&w->options,
			TIMEOUT_MS,
			&w->status
		);
		if (rc == 0 && root)
			check_gathered(w, call);
	} else {
		rc = heddle_scatter(
			f,
			root ? w->in : NULL,
			w->out,
			count,
			call->root,
			&w->options,
			TIMEOUT_MS,
			&w->status
		);
		if (rc < 0)
			return rc;
		my_block(w, call->count, &first, &count);
		check_copy(call, call->root, w->out, first, count);
	}
	return rc;
}

/* Of values in parts, which are as they were unless they are the result. */
static int make_list(struct worker *w, const struct call *call) {
	const bool broadcast = strcmp(call->name, "broadcast_list") == 0;
	const bool all = strcmp(call->name, "allreduce_list") == 0, root = w->rank == call->root;
	struct heddle *f = w->fabric;
	struct list list;
	int rc;

	fill(w, call, !broadcast);
	if (!list_make(&list, w->in, call->count))
		die(call->name, "no memory");
	if (all)
		rc = heddle_allreduce_list(
			f, list.part, LIST_PARTS, &w->options, TIMEOUT_MS, &w->status
		);
	else if (broadcast)
		rc = heddle_broadcast_list(
			f, list.part, LIST_PARTS, call->root, &w->options, -1, &w->status
		);
	else
		rc = heddle_reduce_list(
			f, list.part, LIST_PARTS, call->root, &w->options, TIMEOUT_MS, &w->status
		);
	if (!list_take(&list, w->out))
		die(call->name, "written beside the parts");
	list_free(&list);
	if (rc < 0 || (!all && broadcast == root)) {
		if (memcmp(w->in, w->out, call->count * sizeof(float)) != 0)
			die(call->name, "values that are not the result have changed");
	} else if (broadcast) {
		check_copy(call, call->root, w->out, 0, call->count);
	} else {
		check_sum(w, call, 0, call->count);
	}
	return rc;
}

static bool is_list(const char *name) {
	return strcmp(name, "allreduce_list") == 0 || strcmp(name, "reduce_list") == 0
		|| strcmp(name, "broadcast_list") == 0;
}

static bool is_sum(const char *name) {
	return strcmp(name, "allreduce") == 0 || strcmp(name, "reduce") == 0
		|| strcmp(name, "reduce_scatter") == 0;
}

static bool is_copy(const char *name) {
	return strcmp(name, "broadcast") == 0 || strcmp(name, "allgather") == 0
		|| strcmp(name, "alltoall") == 0 || strcmp(name, "gather") == 0
		|| strcmp(name, "scatter") == 0;
}

static void make(struct worker *w, const struct call *call) {
	const uint64_t room = call->count * WORKERS_MAX;
	double began = now();
	char line[16];
	int rc = 0;

	w->status = (struct heddle_status)HEDDLE_STATUS_INIT;
	w->options = (struct heddle_collective_options)HEDDLE_COLLECTIVE_OPTIONS_INIT;
	w->options.exact = call->exact;
	w->options.wait_ms = call->patient ? HEDDLE_WAIT_FOREVER : 0;
	w->options.tag = call->tag;
	w->options.out_count = call->exact > 0 ? 0 : room;
	w->options.ranks = w->ranks;
	w->options.rank_capacity = WORKERS_MAX;
	w->in = malloc(call->count * sizeof(float));
	w->out = malloc(room * sizeof(float));
	if (!w->in || !w->out)
		die(call->name, "no memory");
	if (is_sum(call->name))
		rc = make_sum(w, call);
	else if (is_copy(call->name))
		rc = make_copy(w, call);
	else if (is_list(call->name))
		rc = make_list(w, call);
	else if (strcmp(call->name, "barrier") == 0)
		rc = heddle_barrier(w->fabric, &w->options, TIMEOUT_MS, &w->status);
	else if (strcmp(call->name, "wait") == 0)
		rc = fgets(line, sizeof line, stdin) ? 0 : -EPIPE;
	else
		die("call", call->name);
	(void
	)printf("{\"call\": \"%s\", \"rc\": %d, \"reason\": \"%s\", \"error\": [\"",
		call->name,
		rc,
		heddle_reason_name(w->status.reason));
	for (const char *c = rc < 0 ? heddle_last_error() : ""; *c; c++)
		(void)printf(*c == '"' ? "\\\"" : "%c", *c);
	(void)printf("\"], \"workers\": %u, \"ranks\": [", w->status.workers);
	for (uint32_t k = 0; rc == 0 && k < w->status.workers; k++)
		(void)printf("%s%d", k ? ", " : "", w->ranks[k]);
	(void)printf("], \"took\": %.3f}\n", now() - began);
	free(w->in);
	free(w->out);
}

static struct heddle *open_group(struct heddle *job, const char *text) {
	struct heddle *group = NULL;
	int ranks[WORKERS_MAX];
	size_t count = 0;
	char *end;

	for (const char *at = text; count < WORKERS_MAX; at = end + 1) {
		ranks[count++] = (int)strtol(at, &end, 10);
		if (*end != '+')
			break;
	}
	if (heddle_group_open(job, text, ranks, count, &group) < 0
	    || heddle_wait_joined(group, TIMEOUT_MS, NULL, NULL) < 0)
		die("group", heddle_last_error());
	if (heddle_world_size(group) != (int)count)
		die("group", "another size");
	return group;
}

/* The group of the call, opened for the first one. */
static struct heddle *group_of(struct worker *w, const struct call *call) {
	for (int i = 0; i < GROUPS_MAX; i++) {
		struct group *group = &w->groups[i];

		if (!group->text)
			*group = (struct group){call->group, open_group(w->fabric, call->group)};
		if (strcmp(group->text, call->group) == 0)
			return group->fabric;
	}
	die("group", "too many");
	return NULL;
}

/* In a group, as its member. */
static void make_anywhere(struct worker *w, const struct call *call) {
	struct heddle *job = w->fabric;

	if (call->group)
		w->fabric = group_of(w, call);
	w->rank = heddle_rank(w->fabric);
	make(w, call);
	w->fabric = job;
}

int main(int argc, char **argv) {
	struct worker w = {0};
	struct heddle_spec *spec;

	if (heddle_spec_create(NULL, NULL, &spec) < 0 || heddle_open(spec, NULL, &w.fabric) < 0
	    || heddle_wait_joined(w.fabric, TIMEOUT_MS, NULL, NULL) < 0)
		die("open", heddle_last_error());
	heddle_spec_destroy(spec);
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	(void)printf("joined\n");
	for (int i = 1; i < argc; i++) {
		struct call call = read_call(argv[i], (unsigned)i);

		make_anywhere(&w, &call);
	}
	for (int i = 0; i < GROUPS_MAX; i++)
		(void)heddle_close(w.groups[i].fabric, 5000);
	(void)heddle_close(w.fabric, 5000);
	return 0;
}
