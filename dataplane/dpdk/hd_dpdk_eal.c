/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting EAL with what we need: one thread that the kernel may place, and memory for the ports. */
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

/* EAL is the process's: one state for all drivers. */
static pthread_mutex_t eal_lock = PTHREAD_MUTEX_INITIALIZER;
static bool eal_started;
static struct words eal_words;

__attribute__((format(printf, 2, 3))) static bool
add(struct words *words, const char *format, ...) {
	size_t room = sizeof(words->text) - words->used;
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

/* One of the options, given by separate word or with '='. */
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

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		unsigned long pages = 0;
		char path[128];
		FILE *file;

		(void)snprintf(path, sizeof(path), HUGEPAGES, sizes[i]);
		file = fopen(path, "re");
		if (!file)
			continue;
		if (fscanf(file, "%lu", &pages) == 1)
			sum += pages * sizes[i] / 1024;
		(void)fclose(file);
	}
	return sum;
}

/* Hugepages where there are enough, without files of theirs; else ordinary memory. */
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

/* EAL pins its main thread to one core, which nodes on a small machine would share: all that we have. */
static bool add_cores(struct words *words) {
	static const char *const options[] = {"-l", "-c", "--lcores", "-s", NULL};
	char list[1024];
	size_t used = 0;
	cpu_set_t set;

	if (has(words, options) || sched_getaffinity(0, sizeof(set), &set) < 0)
		return true;
	for (int cpu = 0; cpu < CPU_SETSIZE && used < sizeof(list) - 8; cpu++)
		if (CPU_ISSET(cpu, &set))
			used += (size_t
			)snprintf(list + used, sizeof(list) - used, "%s%d", used ? "," : "", cpu);
	return add(words, "--lcores") && add(words, "0@(%s)", list);
}

/* Only these ports: another process may have the other ones. */
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

int dpdk_start_eal(const struct dpdk_eal *eal, char *error, size_t error_bytes) {
	int code = 0;

	pthread_mutex_lock(&eal_lock);
	if (!eal_started) {
		if (!make_words(&eal_words, eal)) {
			(void)snprintf(error, error_bytes, "eal: too many arguments");
			code = -E2BIG;
		} else if (rte_eal_init(eal_words.count, eal_words.word) < 0) {
			(void)snprintf(
				error,
				error_bytes,
				"eal: %s (its own words are above)",
				rte_strerror(rte_errno)
			);
			code = rte_errno > 0 ? -rte_errno : -EIO;
		}
		eal_started = code == 0;
	}
	pthread_mutex_unlock(&eal_lock);
	return code;
}
