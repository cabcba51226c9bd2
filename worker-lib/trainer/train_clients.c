/* SPDX-License-Identifier: BSD-3-Clause */
/* Data with clients: generated ones and LEAF's; and the rows of a rank. */
#include "hd_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static int open_synthetic(struct train *train, const char *name) {
	struct hd_synthetic_how how = {.seed = 42, .cap = 2000};
	struct hd_synthetic data;
	char *end = NULL;
	int rc;

	how.iid = strcmp(name, "iid") == 0;
	if (!how.iid) {
		how.alpha = strtod(name, &end);
		if (end == name || *end != ',')
			return train_fail(
				EX_USAGE, "data: synthetic: '%.32s' is not iid or A,B", name
			);
		name = end + 1;
		how.beta = strtod(name, &end);
		if (end == name || *end != '\0')
			return train_fail(
				EX_USAGE, "data: synthetic: '%.32s' is not a number", name
			);
	}
	rc = hd_synthetic_create(&how, &data);
	if (rc == 0) {
		rc = hd_synthetic_split(&data, &train->train, &train->test, &train->clients);
		hd_synthetic_fini(&data);
	}
	if (rc < 0)
		return train_fail(
			rc == -EINVAL ? EX_USAGE : EX_OSERR,
			rc == -EINVAL ? "data: synthetic: A and B are 0..100" : "no memory"
		);
	return EX_OK;
}

static int open_leaf(struct train *train, const char *names) {
	char error[HD_TEXT_BYTES_MAX];
	struct hd_leaf leaf;
	int rc = hd_leaf_open(names, &leaf, &train->test, error, sizeof error);

	if (rc < 0)
		return train_fail(
			rc == -ENOENT         ? EX_NOINPUT :
				rc == -ENOMEM ? EX_OSERR :
						EX_DATAERR,
			"data: %s",
			error
		);
	train->train = leaf.set;
	train->clients = leaf.clients;
	train->users = true;
	return EX_OK;
}

int train_open_clients(struct train *train) {
	static const char synthetic[] = "synthetic:", leaf[] = "leaf:";
	const char *name = train->options.data;

	if (strncmp(name, synthetic, sizeof synthetic - 1) == 0)
		return open_synthetic(train, name + sizeof synthetic - 1);
	if (strncmp(name, leaf, sizeof leaf - 1) == 0)
		return open_leaf(train, name + sizeof leaf - 1);
	return -1;
}

int train_deal_clients(struct train *train, uint32_t rank, uint32_t world) {
	const struct train_options *options = &train->options;
	struct hd_clients *clients = &train->clients;
	int rc = 0;

	if (clients->count == 0 && options->labels > 0)
		rc = hd_clients_by_label(
			&train->train, world, options->labels, options->seed, clients
		);
	else if (clients->count == 0)
		rc = hd_clients_even(&train->train, world, clients);
	else if (train->users && clients->count > world)
		rc = hd_clients_merge(clients, world);
	if (rc < 0)
		return train_fail(
			rc == -ENOMEM ? EX_OSERR : EX_USAGE,
			"shards: too few rows for %u clients",
			world
		);
	if (rank >= clients->count)
		return train_fail(
			EX_USAGE, "rank %u: the data have %u clients", rank, clients->count
		);
	return EX_OK;
}
