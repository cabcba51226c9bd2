/* SPDX-License-Identifier: BSD-3-Clause */
/* LEAF's JSON: a data set with its clients. */
#include "hd_federated.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABEL_MAX 255

/* One file after the other: only the rows and the names of the users are kept. */
struct hd_leaf_reader {
	const json_t *users, *samples, *data; /* of the present file */
	const char *file;
	const struct hd_dataset *like;
	json_t *seen; /* users: the file that each is in */
	struct hd_dataset set;
	struct hd_clients clients;
	size_t room; /* rows */
	char *error;
	size_t error_bytes;
};

static int set_user_error(const struct hd_leaf_reader *leaf, size_t user, const char *what) {
	const char *name = json_string_value(json_array_get(leaf->users, user));

	hd_trainer_put(
		leaf->error,
		leaf->error_bytes,
		"user %zu (%.40s): %s",
		user,
		name ? name : "?",
		what
	);
	return -EINVAL;
}

/* Makes room for one more row. */
static int grow(struct hd_leaf_reader *leaf) {
	size_t room = leaf->room ? 2 * leaf->room : 64, features = leaf->set.features;
	float *x;
	uint8_t *y;

	if (leaf->set.rows < leaf->room)
		return 0;
	if (leaf->set.rows >= HD_DATA_ROWS_MAX
	    || room * features > HD_DATA_BYTES_MAX / sizeof(float)) {
		hd_trainer_put(
			leaf->error,
			leaf->error_bytes,
			"user_data: more than %d rows, or 2^30 bytes of values",
			HD_DATA_ROWS_MAX
		);
		return -E2BIG;
	}
	x = realloc(leaf->set.x, room * features * sizeof *x);
	leaf->set.x = x ? x : leaf->set.x;
	y = x ? realloc(leaf->set.y, room) : NULL;
	leaf->set.y = y ? y : leaf->set.y;
	if (!x || !y) {
		hd_trainer_put(leaf->error, leaf->error_bytes, "no memory for %zu rows", room);
		return -ENOMEM;
	}
	leaf->room = room;
	return 0;
}

static int take_row(struct hd_leaf_reader *leaf, size_t user, const json_t *x, const json_t *y) {
	size_t features = json_array_size(x);
	json_int_t label = json_integer_value(y);
	float *to;
	int rc;

	if (features == 0 || features > HD_DATA_FEATURES_MAX)
		return set_user_error(leaf, user, "x: a row is not 1..1048576 numbers");
	if (leaf->set.features == 0)
		leaf->set.features = (uint32_t)features;
	if (leaf->set.features != features)
		return set_user_error(
			leaf, user, "x: a row has another number of values than others"
		);
	/* Some writers store labels as 3.0. */
	if (json_is_real(y) && json_real_value(y) >= 0 && json_real_value(y) <= LABEL_MAX
	    && json_real_value(y) == floor(json_real_value(y)))
		label = (json_int_t)json_real_value(y);
	else if (!json_is_integer(y) || label < 0 || label > LABEL_MAX)
		return set_user_error(leaf, user, "y: not a whole number in 0..255");
	rc = grow(leaf);
	if (rc < 0)
		return rc;
	to = leaf->set.x + (size_t)leaf->set.rows * features;
	for (size_t j = 0; j < features; j++) {
		const json_t *value = json_array_get(x, j);

		to[j] = (float)json_number_value(value);
		if (!json_is_number(value) || !isfinite(to[j]))
			return set_user_error(leaf, user, "x: not a finite fp32 number");
	}
	leaf->set.y[leaf->set.rows++] = (uint8_t)label;
	if ((uint32_t)label >= leaf->set.classes)
		leaf->set.classes = (uint32_t)label + 1;
	return 0;
}

/* All rows of a user must be in one file. */
static int take_name(struct hd_leaf_reader *leaf, size_t user, const char *name) {
	const char *other = json_string_value(json_object_get(leaf->seen, name));
	char what[HD_TEXT_BYTES_MAX];

	if (other) {
		(void)snprintf(
			what,
			sizeof what,
			"users: it is in %s %s",
			other,
			strcmp(other, leaf->file) == 0 ? "twice" : "too"
		);
		return set_user_error(leaf, user, what);
	}
	return json_object_set_new(leaf->seen, name, json_string(leaf->file)) < 0 ? -ENOMEM : 0;
}

static int take_user(struct hd_leaf_reader *leaf, size_t user) {
	const char *name = json_string_value(json_array_get(leaf->users, user));
	const json_t *one = name ? json_object_get(leaf->data, name) : NULL;
	const json_t *x = json_object_get(one, "x"), *y = json_object_get(one, "y");
	const json_t *samples = json_array_get(leaf->samples, user);
	size_t rows = json_array_size(x);
	int rc;

	if (!name)
		return set_user_error(leaf, user, "users: not a text");
	if (!json_is_array(x) || !json_is_array(y))
		return set_user_error(leaf, user, "user_data: no arrays x and y");
	if (rows == 0)
		return set_user_error(leaf, user, "x: no row (a client has at least one)");
	if (json_array_size(y) != rows)
		return set_user_error(leaf, user, "y: not as many as rows of x");
	if (leaf->samples && json_integer_value(samples) != (json_int_t)rows)
		return set_user_error(leaf, user, "num_samples: not the number of rows");
	rc = take_name(leaf, user, name);
	for (size_t i = 0; rc == 0 && i < rows; i++)
		rc = take_row(leaf, user, json_array_get(x, i), json_array_get(y, i));
	leaf->clients.start[++leaf->clients.count] = leaf->set.rows;
	return rc;
}

static int take_file(struct hd_leaf_reader *leaf) {
	size_t users = json_array_size(leaf->users), before = leaf->clients.count;
	uint32_t *start;
	int rc = 0;

	if (!json_is_array(leaf->users) || users == 0 || users > HD_CLIENTS_MAX - before
	    || !json_is_object(leaf->data)) {
		hd_trainer_put(
			leaf->error,
			leaf->error_bytes,
			"users: not 1..%zu names (HD_CLIENTS_MAX %d in all files), or user_data is no object",
			HD_CLIENTS_MAX - before,
			HD_CLIENTS_MAX
		);
		return -EINVAL;
	}
	start = realloc(leaf->clients.start, (before + users + 1) * sizeof *start);
	if (!start)
		return -ENOMEM;
	start[0] = 0;
	leaf->clients.start = start;
	for (size_t user = 0; rc == 0 && user < users; user++)
		rc = take_user(leaf, user);
	if (rc == 0 && leaf->like && leaf->set.classes > leaf->like->classes) {
		hd_trainer_put(
			leaf->error,
			leaf->error_bytes,
			"y: label %u, the training set has 0..%u",
			leaf->set.classes - 1,
			leaf->like->classes - 1
		);
		rc = -EINVAL;
	}
	return rc;
}

struct hd_leaf_reader *hd_leaf_begin(const struct hd_dataset *like) {
	struct hd_leaf_reader *reader = calloc(1, sizeof *reader);

	if (!reader)
		return NULL;
	reader->like = like;
	reader->seen = json_object();
	if (like) {
		reader->set.features = like->features;
		reader->set.classes = like->classes;
	}
	return reader;
}

int hd_leaf_add(
	struct hd_leaf_reader *reader,
	const char *file,
	const struct hd_text *text,
	char *error,
	size_t error_bytes
) {
	json_error_t where;
	json_t *root = json_loadb(text->at, text->bytes, JSON_REJECT_DUPLICATES, &where);
	int rc;

	if (!root) {
		hd_trainer_put(error, error_bytes, "line %d: %.100s", where.line, where.text);
		return -EINVAL;
	}
	reader->file = file;
	reader->error = error;
	reader->error_bytes = error_bytes;
	reader->users = json_object_get(root, "users");
	reader->samples = json_object_get(root, "num_samples");
	reader->data = json_object_get(root, "user_data");
	rc = take_file(reader);
	json_decref(root);
	if (rc == -ENOMEM)
		hd_trainer_put(error, error_bytes, "no memory");
	return rc;
}

void hd_leaf_drop(struct hd_leaf_reader *reader) {
	hd_dataset_fini(&reader->set);
	hd_clients_fini(&reader->clients);
	json_decref(reader->seen);
	free(reader);
}

int hd_leaf_end(struct hd_leaf_reader *reader, struct hd_leaf *leaf) {
	struct hd_dataset *set = &reader->set;
	uint32_t *rows = malloc(((size_t)set->rows + 1) * sizeof *rows);

	if (!rows) {
		hd_leaf_drop(reader);
		return -ENOMEM;
	}
	for (uint32_t row = 0; row < set->rows; row++)
		rows[row] = row;
	reader->clients.rows = rows;
	set->classes = set->classes < 2 ? 2 : set->classes;
	*leaf = (struct hd_leaf){*set, reader->clients};
	json_decref(reader->seen);
	free(reader);
	return 0;
}

int hd_leaf_decode(
	const char *text,
	size_t bytes,
	const struct hd_dataset *like,
	struct hd_leaf *leaf,
	char *error,
	size_t error_bytes
) {
	struct hd_leaf_reader *reader = hd_leaf_begin(like);
	int rc = reader ? hd_leaf_add(
			 reader, "the file", &(struct hd_text){text, bytes}, error, error_bytes
		 ) :
			  -ENOMEM;

	if (rc == 0)
		rc = hd_leaf_end(reader, leaf);
	else if (reader)
		hd_leaf_drop(reader);
	if (rc == -ENOMEM)
		hd_trainer_put(error, error_bytes, "no memory");
	return rc;
}
