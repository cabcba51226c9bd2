/* SPDX-License-Identifier: BSD-3-Clause */
/* LEAF's JSON: any bytes give rows that each belong to one client, or an error in words. */
#include "fuzz.h"
#include "hd_federated.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	struct hd_dataset set = {0}, again = {0};
	struct hd_clients clients = {0}, whose = {0};
	char error[HD_TEXT_BYTES_MAX] = "";
	const char *text = (const char *)data;

	if (hd_leaf_decode(text, bytes, NULL, &set, &clients, error, sizeof error) < 0) {
		CHECK(error[0] != 0);
		return 0;
	}
	CHECK(set.rows > 0 && set.features > 0 && set.classes >= 2 && clients.count > 0);
	CHECK(clients.start[0] == 0 && clients.start[clients.count] == set.rows);
	for (uint32_t k = 0; k < clients.count; k++)
		CHECK(clients.start[k] < clients.start[k + 1]);
	for (uint32_t row = 0; row < set.rows; row++) {
		CHECK(set.y[row] < set.classes && clients.rows[row] == row);
		for (uint32_t j = 0; j < set.features; j++)
			CHECK(isfinite(set.x[(size_t)row * set.features + j]));
	}
	CHECK(hd_leaf_decode(text, bytes, &set, &again, &whose, error, sizeof error) == 0);
	CHECK(again.rows == set.rows && whose.count == clients.count);
	hd_dataset_fini(&set);
	hd_dataset_fini(&again);
	hd_clients_fini(&clients);
	hd_clients_fini(&whose);
	return 0;
}
