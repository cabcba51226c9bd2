/* SPDX-License-Identifier: BSD-3-Clause */
/* LEAF's data from files, and which of a user's rows are for training. */
#include "hd_data_file.h"
#include "hd_federated.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRAIN_TENTHS 9

static int read_leaf(
	struct hd_data_file *file,
	const struct hd_dataset *like,
	struct hd_leaf *leaf,
	char *error,
	size_t error_bytes
) {
	char what[HD_TEXT_BYTES_MAX];
	int rc = hd_data_file_read(file, error, error_bytes);

	if (rc < 0)
		return rc;
	rc = hd_leaf_decode((const char *)file->data, file->bytes, like, leaf, what, sizeof what);
	if (rc < 0)
		hd_trainer_say(error, error_bytes, "%s: %s", file->path, what);
	free(file->data);
	return rc;
}

static int part_init(struct hd_dataset *part, const struct hd_dataset *all) {
	*part = (struct hd_dataset){
		.features = all->features,
		.classes = all->classes,
		.x = malloc((size_t)all->rows * all->features * sizeof(float)),
		.y = malloc(all->rows),
	};
	return part->x && part->y ? 0 : -ENOMEM;
}

static void part_add(struct hd_dataset *part, const struct hd_dataset *all, uint32_t row) {
	size_t features = all->features;

	memcpy(part->x + part->rows * features, all->x + row * features, features * sizeof(*part->x)
	);
	part->y[part->rows++] = all->y[row];
}

int hd_leaf_split(struct hd_leaf *leaf, struct hd_dataset *test) {
	const struct hd_dataset *all = &leaf->set;
	struct hd_dataset train = {0}, aside = {0};
	uint32_t *start = leaf->clients.start, first = 0;

	if (part_init(&train, all) < 0 || part_init(&aside, all) < 0) {
		hd_dataset_fini(&train);
		hd_dataset_fini(&aside);
		return -ENOMEM;
	}
	for (uint32_t k = 0; k < leaf->clients.count; k++) {
		uint32_t end = start[k + 1], rows = end - first;
		uint32_t kept = (uint32_t)((uint64_t)rows * TRAIN_TENTHS / 10);

		kept = kept > 0 ? kept : 1;
		for (uint32_t i = 0; i < rows; i++)
			part_add(i < kept ? &train : &aside, all, first + i);
		start[k + 1] = train.rows;
		first = end;
	}
	if (aside.rows == 0) {
		hd_dataset_fini(&train);
		hd_dataset_fini(&aside);
		return -EINVAL;
	}
	hd_dataset_fini(&leaf->set);
	leaf->set = train;
	*test = aside;
	return 0;
}

int hd_leaf_open(
	const char *names,
	struct hd_leaf *leaf,
	struct hd_dataset *test,
	char *error,
	size_t error_bytes
) {
	struct hd_data_file first = {.data = NULL}, second = {.data = NULL};
	const char *comma = strchr(names, ',');
	size_t length = comma ? (size_t)(comma - names) : strlen(names);
	struct hd_leaf taken, other;
	int rc;

	if (length >= sizeof first.path || (comma && strlen(comma + 1) >= sizeof second.path)) {
		hd_trainer_say(
			error,
			error_bytes,
			"leaf: a path is longer than %zu bytes",
			sizeof first.path - 1
		);
		return -EINVAL;
	}
	(void)snprintf(first.path, sizeof first.path, "%.*s", (int)length, names);
	rc = read_leaf(&first, NULL, &taken, error, error_bytes);
	if (rc < 0)
		return rc;
	if (comma) {
		(void)snprintf(second.path, sizeof second.path, "%s", comma + 1);
		rc = read_leaf(&second, &taken.set, &other, error, error_bytes);
		if (rc == 0) {
			*test = other.set;
			hd_clients_fini(&other.clients);
		}
	} else {
		rc = hd_leaf_split(&taken, test);
		if (rc < 0)
			hd_trainer_say(
				error,
				error_bytes,
				"%s: %s",
				first.path,
				rc == -EINVAL ?
					"user_data: no user has two rows, so that none is left for a test" :
					"no memory"
			);
	}
	if (rc < 0) {
		hd_dataset_fini(&taken.set);
		hd_clients_fini(&taken.clients);
		return rc;
	}
	*leaf = taken;
	return 0;
}
