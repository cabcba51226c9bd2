/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a fuzz target where libFuzzer is not to be had: every file of the corpus, then seeded mutations
 * of them. Takes libFuzzer's arguments as far as it has them:
 *     fuzz_x [-runs=N] [-seed=N] [-max_total_time=S] [FOLDER|FILE...]
 * Other options are passed over. The same seed and runs give the same inputs. An input that brings the
 * target down is left in crash-input of the working folder.
 */
#include "fuzz.h"
#include "hd_random.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define INPUT_MAX 8192
#define CORPUS_MAX 4096

struct input {
	uint8_t *data;
	size_t bytes;
};

static struct input corpus[CORPUS_MAX];
static size_t corpus_count;
static uint8_t current[INPUT_MAX];
static size_t current_bytes;

/* The process is lost anyway: only what may be called from a signal handler. */
static void on_crash(int number) {
	int file = open("crash-input", O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (file >= 0 && write(file, current, current_bytes) >= 0)
		(void)close(file);
	(void)signal(number, SIG_DFL);
	(void)raise(number);
}

static void add_file(const char *path) {
	FILE *file = fopen(path, "rb");
	struct input *input = &corpus[corpus_count];

	if (!file || corpus_count == CORPUS_MAX) {
		(void)fprintf(stderr, "%s: cannot be read, or beyond %d files\n", path, CORPUS_MAX);
		exit(1);
	}
	input->data = malloc(INPUT_MAX);
	if (!input->data)
		exit(1);
	input->bytes = fread(input->data, 1, INPUT_MAX, file);
	(void)fclose(file);
	corpus_count++;
}

static void add(const char *path) {
	struct dirent **entries;
	struct stat status;
	int count;

	if (stat(path, &status) == 0 && !S_ISDIR(status.st_mode)) {
		add_file(path);
		return;
	}
	count = scandir(path, &entries, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		char file[4096];

		(void)snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.')
			add_file(file);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

static void run_one(void) {
	/* A copy of its exact size, so that a sanitizer sees any read past it. */
	uint8_t *exact = malloc(current_bytes + 1);

	if (!exact)
		exit(1);
	memcpy(exact, current, current_bytes);
	LLVMFuzzerTestOneInput(exact, current_bytes);
	free(exact);
}

static void take(const struct input *input) {
	memcpy(current, input->data, input->bytes);
	current_bytes = input->bytes;
}

static void insert(struct hd_random *r) {
	size_t at = hd_random_below(r, current_bytes + 1), n = 1 + hd_random_below(r, 16);

	if (current_bytes + n > INPUT_MAX)
		return;
	memmove(current + at + n, current + at, current_bytes - at);
	for (size_t i = 0; i < n; i++)
		current[at + i] = (uint8_t)hd_random_u64(r);
	current_bytes += n;
}

static void splice_in(struct hd_random *r) {
	const struct input *other = &corpus[hd_random_below(r, corpus_count)];
	size_t at = hd_random_below(r, current_bytes + 1);
	size_t from = hd_random_below(r, other->bytes + 1), n = other->bytes - from;

	if (n > INPUT_MAX - at)
		n = INPUT_MAX - at;
	memcpy(current + at, other->data + from, n);
	if (at + n > current_bytes)
		current_bytes = at + n;
}

static void mutate(struct hd_random *r) {
	static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff, 0xfe};
	size_t at = current_bytes ? hd_random_below(r, current_bytes) : 0;

	switch (hd_random_below(r, 6)) {
	case 0:
		if (current_bytes)
			current[at] ^= (uint8_t)(1 << hd_random_below(r, 8));
		break;
	case 1:
		if (current_bytes)
			current[at] = (uint8_t)hd_random_u64(r);
		break;
	case 2:
		if (current_bytes)
			current[at] = edges[hd_random_below(r, sizeof edges)];
		break;
	case 3:
		current_bytes = at;
		break;
	case 4:
		insert(r);
		break;
	default:
		splice_in(r);
	}
}

int main(int argc, char **argv) {
	unsigned long long runs = 100000, seed = 1, seconds = 3, done = 0;
	struct hd_random random;
	time_t end;

	for (int i = 1; i < argc; i++)
		if (sscanf(argv[i], "-runs=%llu", &runs) != 1
		    && sscanf(argv[i], "-seed=%llu", &seed) != 1
		    && sscanf(argv[i], "-max_total_time=%llu", &seconds) != 1 && argv[i][0] != '-')
			add(argv[i]);
	for (int i = 0; i < 4; i++)
		(void)signal((const int[]){SIGSEGV, SIGABRT, SIGBUS, SIGFPE}[i], on_crash);
	if (corpus_count == 0)
		corpus[corpus_count++] = (struct input){calloc(1, 1), 0};
	for (size_t i = 0; i < corpus_count; i++) {
		take(&corpus[i]);
		run_one();
	}
	end = time(NULL) + (time_t)seconds;
	hd_random_init(&random, seed);
	for (; done < runs && (done % 256 || time(NULL) < end); done++) {
		take(&corpus[hd_random_below(&random, corpus_count)]);
		for (uint64_t n = 1 + hd_random_below(&random, 6); n > 0; n--)
			mutate(&random);
		run_one();
	}
	(void)printf("%zu files, %llu mutations\n", corpus_count, done);
	for (size_t i = 0; i < corpus_count; i++)
		free(corpus[i].data);
	return 0;
}
