/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to heddlectl check: findings about this host. */
#ifndef SHELL_CHECK_H
#define SHELL_CHECK_H

#include "heddlectl.h"

enum finding_status {
	FINDING_OK,
	FINDING_WARN, /* works, but slower or not completely */
	FINDING_FAIL, /* does not work */
	FINDING_SKIP /* could not be checked */
};

struct finding {
	const char *check; /* static */
	enum finding_status status;
	char found[200];
	char advice[200]; /* what to do; "" for nothing */
};

#define FINDINGS_MAX 64
struct findings {
	int count;
	struct finding item[FINDINGS_MAX];
};

/* Adds one; the texts are formatted later by finding_explain and finding_advise. */
struct finding *finding_add(struct findings *all, const char *check, enum finding_status status);
__attribute__((format(printf, 2, 3))) void
finding_explain(struct finding *f, const char *format, ...);
__attribute__((format(printf, 2, 3))) void
finding_advise(struct finding *f, const char *format, ...);

/* --- shell_check_host.c: each adds one finding or more --- */
void check_versions(struct findings *all);
void check_interfaces(struct findings *all);
void check_port(struct findings *all);
void check_sockets(struct findings *all);
void check_privileges(struct findings *all);
void check_hugepages(struct findings *all);
void check_clock(struct findings *all);
void check_bpf(struct findings *all);

#endif
