/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker with a memory limit, as in a service that runs functions. */
#include "hd_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

static uint32_t limit_mb;
static uint64_t
	at_first; /* used at its start: a BLAS reserves 128 MiB of addresses, and uses few */

/* The pages that RLIMIT_DATA counts: private and writable. 0: unknown. */
static uint64_t used_bytes(void) {
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long long data = 0;
	long page = sysconf(_SC_PAGESIZE);

	if (!file)
		return 0;
	if (fscanf(file, "%*u %*u %*u %*u %*u %llu", &data) != 1 || page < 0)
		data = 0;
	(void)fclose(file);
	return data * (uint64_t)page;
}

void train_begin_blas(char **argv) {
	/* OpenBLAS starts threads when it is loaded, each with a buffer, and these would take the cores from other
	 * workers. */
	if (!getenv("OPENBLAS_NUM_THREADS") && setenv("OPENBLAS_NUM_THREADS", "1", 1) == 0)
		(void)execv("/proc/self/exe", argv);
	if (hd_model_take_buffers() == 0)
		return;
	/* Not by exit(): its threads may still try to allocate memory, and exit() waits for them. */
	_exit(train_no_memory("products of matrices (OpenBLAS wants 128 MiB)"));
}

int train_limit_memory(uint32_t mb) {
	struct rlimit limit;

	if (mb == 0)
		return EX_OK;
	at_first = used_bytes();
	limit.rlim_cur = at_first + mb * MIB;
	limit.rlim_max = limit.rlim_cur;
	if (setrlimit(RLIMIT_DATA, &limit) != 0)
		return train_fail(EX_NOPERM, "memory-mb: %u: %s", mb, strerror(errno));
	limit_mb = mb;
	return EX_OK;
}

int train_no_memory(const char *what) {
	uint64_t used = used_bytes();

	if (limit_mb == 0)
		return train_fail(EX_OSERR, "no memory for %s", what);
	return train_fail(
		EX_OSERR,
		"no memory for %s: %.1f MiB of --memory-mb %u are in use",
		what,
		used > at_first ? (double)(used - at_first) / (double)MIB : 0.0,
		limit_mb
	);
}
