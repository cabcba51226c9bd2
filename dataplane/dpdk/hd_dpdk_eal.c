/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting EAL as we need it: one thread that the kernel may schedule freely, and memory for the ports. */
#include "hd_dpdk_port.h"

#include <rte_eal.h>
#include <rte_errno.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 256
#define TEXT_BYTES 65536
#define HUGEPAGES "/sys/kernel/mm/hugepages/hugepages-%ukB/free_hugepages"

struct words {
	int count;
	char *word[WORDS_MAX + 1];
	size_t used;
	char text[TEXT_BYTES]; /* EAL keeps pointers into it */
};

/* EAL belongs to the process: one state for all drivers. */
static pthread_mutex_t eal_lock = PTHREAD_MUTEX_INITIALIZER;
static bool eal_started;
static struct words eal_words;

__attribute__((format(printf, 2, 3))) static bool
add(struct words *words, const char *format, ...) {
	size_t room = sizeof words->text - words->used;
	va_list args;
	int bytes;

	va_start(args, format);
	bytes = vsnprintf(words->text + words->used, room, format, args);
	va_end(args);
	if (bytes < 0 || (size_t)bytes >= room || words->count == WORDS_MAX)
		return false;
	words->word[words->count++] = words->text + words->used;
	words->word[words->count] = NULL;
	words->used += (size_t)bytes + 1;
	return true;
}

/* One of the options, given as a separate word or with '='. */
static bool has(const struct words *words, const char *const *options) {
	for (int i = 0; i < words->count; i++)
		for (const char *const *option = options; *option; option++) {
			size_t bytes = strlen(*option);

			if (strncmp(words->word[i], *option, bytes) == 0
			    && (words->word[i][bytes] == '\0' || words->word[i][bytes] == '='))
				return true;
		}
	return false;
}

static bool add_all(struct words *words, const char *text) {
	while (text && *text) {
		size_t bytes = strcspn(text, " \t");

		if (bytes > 0 && !add(words, "%.*s", (int)bytes, text))
			return false;
		text += bytes + strspn(text + bytes, " \t");
	}
	return true;
}

/* Free hugepages of the usual sizes, in MiB. */
static uint64_t huge_memory(void) {
	static const unsigned sizes[] = {2048, 1048576};
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		unsigned long pages = 0;
		char path[128];
		FILE *file;

		(void)snprintf(path, sizeof path, HUGEPAGES, sizes[i]);
		file = fopen(path, "re");
		if (!file)
			continue;
		if (fscanf(file, "%lu", &pages) == 1)
			sum += pages * sizes[i] / 1024;
		(void)fclose(file);
	}
	return sum;
}

/* Hugepages if there are enough, without files; else ordinary memory. */
static bool add_memory(struct words *words, const struct dpdk_eal *eal) {
	static const char *const options[]
		= {"-m",
		   "--no-huge",
		   "--in-memory",
		   "--huge-dir",
		   "--socket-mem",
		   "--legacy-mem",
		   "--single-file-segments",
		   NULL};
	uint64_t bytes = eal->memory_bytes, needed;

	for (size_t i = 0; i < eal->port_count; i++)
		bytes += (uint64_t)eal->ports[i].buffers * (eal->ports[i].buffer_bytes + 512u);
	needed = (bytes >> 20) + 1;
	if (has(words, options))
		return true;
	if (huge_memory() >= needed)
		return add(words, "--in-memory");
	return add(words, "--no-huge") && add(words, "-m") && add(words, "%u", (unsigned)needed);
}

/* EAL pins its main thread to one core, which nodes on a small machine would share: allow all our cores. */
static bool add_cores(struct words *words) {
	static const char *const options[] = {"-l", "-c", "--lcores", "-s", NULL};
	char list[1024];
	size_t used = 0;
	cpu_set_t set;

	if (has(words, options) || sched_getaffinity(0, sizeof set, &set) < 0)
		return true;
	for (int cpu = 0; cpu < CPU_SETSIZE && used < sizeof list - 8; cpu++)
		if (CPU_ISSET(cpu, &set))
			used += (size_t
			)snprintf(list + used, sizeof list - used, "%s%d", used ? "," : "", cpu);
	return add(words, "--lcores") && add(words, "0@(%s)", list);
}

/* Only these ports: another process may own the others. */
static bool add_buses(struct words *words, const struct dpdk_eal *eal) {
	static const char *const options[] = {"-a", "--allow", "-b", "--block", "--no-pci", NULL};
	bool good = true, none = true;

	if (has(words, options))
		return true;
	for (size_t i = 0; i < eal->port_count && good; i++) {
		if (dpdk_is_virtual(&eal->ports[i]))
			continue;
		none = false;
		good = add(words, "-a") && add(words, "%s", eal->ports[i].devargs);
	}
	return good && (!none || add(words, "--no-pci"));
}

static bool make_words(struct words *words, const struct dpdk_eal *eal) {
	static const char *const prefix[] = {"--file-prefix", NULL};
	static const char *const shared[] = {"--no-shconf", NULL};
	bool good = add(words, "heddle") && add(words, "--log-level=warning")
		&& add(words, "--log-level=lib.telemetry:error");

	good = good && add(words, "--iova-mode=va") && add_all(words, eal->words);
	if (good && !has(words, prefix))
		good = add(words, "--file-prefix=%s", eal->prefix);
	if (good && !has(words, shared))
		good = add(words, "--no-shconf");
	return good && add_memory(words, eal) && add_cores(words) && add_buses(words, eal);
}

/* --- starting the EAL --- */

struct start {
	struct words *words;
	int code;
	int error; /* rte_errno is per thread */
	cpu_set_t cores; /* that EAL gave its main thread */
};

static void *start_here(void *argument) {
	struct start *start = argument;

	start->code = rte_eal_init(start->words->count, start->words->word);
	start->error = rte_errno;
	if (sched_getaffinity(0, sizeof start->cores, &start->cores) < 0)
		CPU_ZERO(&start->cores);
	return NULL;
}

static bool is_realtime(void) {
	int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;

	return policy == SCHED_FIFO || policy == SCHED_RR;
}

/*
 * EAL waits for each thread that it starts in sleeps of 1 us. A real-time thread's timers have no slack, so these
 * sleeps end before it has left its core, and a thread that inherited its priority and core never runs (SCHED_RR: not
 * before its time slice ends). Started from an ordinary thread, EAL's own threads are ordinary too. (Lowering our own
 * priority meanwhile would need a privilege to raise it again.) The caller is then not a thread of EAL's, and registers
 * like any other that drives a port. 0 or -errno.
 */
static int start_aside(struct start *start) {
	const struct sched_param ordinary = {0};
	pthread_attr_t attr;
	pthread_t thread;
	int code = pthread_attr_init(&attr);

	if (code != 0)
		return -code;
	(void)pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	(void)pthread_attr_setschedpolicy(&attr, SCHED_OTHER);
	(void)pthread_attr_setschedparam(&attr, &ordinary);
	code = pthread_create(&thread, &attr, start_here, start);
	(void)pthread_attr_destroy(&attr);
	if (code != 0)
		return -code;
	(void)pthread_join(thread, NULL);
	if (start->code >= 0 && CPU_COUNT(&start->cores) > 0)
		(void)sched_setaffinity(0, sizeof start->cores, &start->cores);
	return 0;
}

static int start_words(struct words *words, char *error, size_t error_bytes) {
	struct start start = {.words = words};
	int code = 0;

	if (is_realtime())
		code = start_aside(&start);
	else
		(void)start_here(&start);
	if (code < 0) {
		(void
		)snprintf(error, error_bytes, "eal: a thread to start it: %s", strerror(-code));
		return code;
	}
	if (start.code >= 0)
		return 0;
	(void)snprintf(
		error,
		error_bytes,
		"eal: %s (see its own messages above)",
		rte_strerror(start.error)
	);
	return start.error > 0 ? -start.error : -EIO;
}

int dpdk_start_eal(const struct dpdk_eal *eal, char *error, size_t error_bytes) {
	int code = 0;

	pthread_mutex_lock(&eal_lock);
	if (!eal_started) {
		if (!make_words(&eal_words, eal)) {
			(void)snprintf(error, error_bytes, "eal: too many arguments");
			code = -E2BIG;
		} else {
			code = start_words(&eal_words, error, error_bytes);
		}
		eal_started = code == 0;
	}
	pthread_mutex_unlock(&eal_lock);
	return code;
}
