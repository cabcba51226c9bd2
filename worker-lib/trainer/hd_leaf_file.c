/* SPDX-License-Identifier: BSD-3-Clause */
/* LEAF's data from files, and the training and test rows of each user. */
#include "hd_data_file.h"
#include "hd_federated.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TRAIN_TENTHS 9

static int add_file(void *arg, const struct hd_data_file *file, char *error, size_t error_bytes) {
	const struct hd_text text = {(const char *)file->data, file->bytes};

	return hd_leaf_add(arg, file->path, &text, error, error_bytes);
}

static int is_json(const struct dirent *entry) {
	const char *name = entry->d_name, *end = name + strlen(name);
	size_t bytes = strlen(name);

	return (bytes > 5 && strcmp(end - 5, ".json") == 0)
		|| (bytes > 8 && strcmp(end - 8, ".json.gz") == 0);
}

static int by_name(const struct dirent **a, const struct dirent **b) {
	return strcmp((*a)->d_name, (*b)->d_name);
}

static bool is_folder(const char *path) {
	struct stat status;

	return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* "FOLDER/NAME"; -EINVAL: too long, with a text. */
static int
join(struct hd_data_file *file,
     const char *folder,
     const char *name,
     char *error,
     size_t error_bytes) {
	int length = snprintf(file->path, sizeof file->path, "%s/%s", folder, name);

	if (length >= 0 && (size_t)length < sizeof file->path)
		return 0;
	hd_trainer_put(
		error,
		error_bytes,
		"%.64s.../%.64s: longer than %zu bytes",
		folder,
		name,
		sizeof file->path - 1
	);
	return -EINVAL;
}

static int
add_folder(struct hd_leaf_reader *reader, const char *folder, char *error, size_t error_bytes) {
	struct dirent **entries;
	struct hd_data_file file = {.data = NULL};
	int count = scandir(folder, &entries, is_json, by_name), rc = 0;

	if (count < 0) {
		rc = -errno;
		hd_trainer_put(error, error_bytes, "%s: %s", folder, strerror(-rc));
		return rc;
	}
	if (count == 0 || count > HD_LEAF_FILES_MAX) {
		hd_trainer_put(
			error,
			error_bytes,
			"%s: %d files *.json or *.json.gz (1..HD_LEAF_FILES_MAX %d)",
			folder,
			count,
			HD_LEAF_FILES_MAX
		);
		rc = count == 0 ? -ENOENT : -E2BIG;
	}
	for (int i = 0; i < count; i++) {
		if (rc == 0)
			rc = join(&file, folder, entries[i]->d_name, error, error_bytes);
		if (rc == 0)
			rc = hd_data_file_decode(&file, add_file, reader, error, error_bytes);
		free(entries[i]);
	}
	free(entries);
	return rc;
}

/* A file, or all of a folder. */
static int read_leaf(
	struct hd_data_file *file,
	const struct hd_dataset *like,
	struct hd_leaf *leaf,
	char *error,
	size_t error_bytes
) {
	struct hd_leaf_reader *reader = hd_leaf_begin(like);
	int rc = -ENOMEM;

	if (!reader) {
		hd_trainer_put(error, error_bytes, "%s: no memory", file->path);
		return rc;
	}
	rc = is_folder(file->path) ?
		add_folder(reader, file->path, error, error_bytes) :
		hd_data_file_decode(file, add_file, reader, error, error_bytes);
	if (rc < 0) {
		hd_leaf_drop(reader);
		return rc;
	}
	rc = hd_leaf_end(reader, leaf);
	if (rc < 0)
		hd_trainer_put(error, error_bytes, "%s: no memory", file->path);
	return rc;
}

/* The output of LEAF's scripts: DIR/train and DIR/test. */
static int
both_of(struct hd_data_file *first, struct hd_data_file *second, char *error, size_t error_bytes) {
	struct hd_data_file train, test;
	int rc = join(&train, first->path, "train", error, error_bytes);

	if (rc == 0)
		rc = join(&test, first->path, "test", error, error_bytes);
	if (rc == 0 && is_folder(train.path) && is_folder(test.path)) {
		memcpy(first->path, train.path, sizeof first->path);
		memcpy(second->path, test.path, sizeof second->path);
	}
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

	memcpy(part->x + part->rows * features, all->x + row * features, features * sizeof *part->x
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
	struct hd_leaf taken, other;
	int rc = hd_data_file_names(names, &first, &second, error, error_bytes);

	if (rc == 0 && second.path[0] == '\0' && is_folder(first.path))
		rc = both_of(&first, &second, error, error_bytes);
	if (rc < 0)
		return rc;
	rc = read_leaf(&first, NULL, &taken, error, error_bytes);
	if (rc < 0)
		return rc;
	if (second.path[0] != '\0') {
		rc = read_leaf(&second, &taken.set, &other, error, error_bytes);
		if (rc == 0) {
			*test = other.set;
			hd_clients_fini(&other.clients);
		}
	} else {
		rc = hd_leaf_split(&taken, test);
		if (rc < 0)
			hd_trainer_put(
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
