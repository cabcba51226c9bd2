/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside libheddle: options from the environment. */
#ifndef HEDDLE_ENVIRONMENT_H
#define HEDDLE_ENVIRONMENT_H

/* The option, or the variable of that name; NULL: neither is set, or it is empty. */
const char *heddle_text_or_env(const char *option, const char *name);
/* A whole number in min..max from the environment, as options have them, or `otherwise` when it is not set. -EINVAL. */
int heddle_number_from_env(const char *name, int min, int max, int otherwise, int *out);

#endif
