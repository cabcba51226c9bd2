/* SPDX-License-Identifier: BSD-3-Clause */
/* What test_heddle_arguments.c runs: a row for each public function, which calls it with NULL and nonsense. */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include "heddle.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define VALUES 4
#define ANY ((void *)&arguments_any) /* what an output was before the call */
#define NONSENSE 256 /* 0 in a byte */

struct arguments_scene {
	char key_path[64];
	struct heddle_spec *spec, *federated_spec;
	struct heddle *fabric, *federated;
	struct heddle *empty, *nothing; /* without a model; nothing: and federated */
	struct heddle_ticket *ticket; /* of fabric; in flight, as no node answers */
	struct heddle_ticket *none; /* ANY, and stays so */
	struct heddle_filter *filter;
	float data[VALUES];
};

struct arguments_row {
	const char *name;
	void (*call)(struct arguments_scene *scene);
};

extern char arguments_any;
/* Each ends with a row without a name. */
extern const struct arguments_row arguments_spec[], arguments_handle[], arguments_collective[],
	arguments_members[], arguments_filter[], arguments_list[], arguments_send[],
	arguments_state[];

/* The call was refused with this code and these words, which are its own. */
#define says(call, code, words) (forget(), said((call), (code), (words)))
void forget(void);
void said(long rc, int code, const char *words);
#define refused(call, words) says((call), -EINVAL, (words))
/* heddle_open() refuses what a setter cannot refuse. */
void not_opened(struct arguments_scene *s, struct heddle_spec *spec, const char *words);

#endif
