/* SPDX-License-Identifier: BSD-3-Clause */
/* LEAF's JSON: any bytes give rows that each belong to one client, or an error in words. */
#include "fuzz.h"
#include "hd_federated.h"

#include <math.h>

/* The same file again: its users are there already. */
static void check_twice(const struct hd_text *text) {
	struct hd_leaf_reader *reader = hd_leaf_begin(NULL);
	char error[HD_TEXT_BYTES_MAX] = "";

	CHECK(reader != NULL);
	CHECK(hd_leaf_add(reader, "one", text, error, sizeof error) == 0);
	CHECK(hd_leaf_add(reader, "two", text, error, sizeof error) < 0 && error[0] != 0);
	hd_leaf_drop(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	struct hd_leaf taken = {0}, again = {0};
	const struct hd_dataset *set = &taken.set;
	const struct hd_clients *clients = &taken.clients;
	char error[HD_TEXT_BYTES_MAX] = "";
	const char *text = (const char *)data;

	if (hd_leaf_decode(text, bytes, NULL, &taken, error, sizeof error) < 0) {
		CHECK(error[0] != 0);
		return 0;
	}
	CHECK(set->rows > 0 && set->features > 0 && set->classes >= 2 && clients->count > 0);
	CHECK(clients->start[0] == 0 && clients->start[clients->count] == set->rows);
	for (uint32_t k = 0; k < clients->count; k++)
		CHECK(clients->start[k] < clients->start[k + 1]);
	for (uint32_t row = 0; row < set->rows; row++) {
		CHECK(set->y[row] < set->classes && clients->rows[row] == row);
		for (uint32_t j = 0; j < set->features; j++)
			CHECK(isfinite(set->x[(size_t)row * set->features + j]));
	}
	CHECK(hd_leaf_decode(text, bytes, set, &again, error, sizeof error) == 0);
	check_twice(&(struct hd_text){text, bytes});
	CHECK(again.set.rows == set->rows && again.clients.count == clients->count);
	hd_dataset_fini(&taken.set);
	hd_dataset_fini(&again.set);
	hd_clients_fini(&taken.clients);
	hd_clients_fini(&again.clients);
	return 0;
}
