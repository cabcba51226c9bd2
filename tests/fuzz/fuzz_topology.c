/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"
#include "hd_topology.h"

#include <string.h>

/* Every path between the first nodes is connected links. */
static void walk(const struct hd_topology *topology) {
	uint32_t links[16];

	for (int from = 0; from < 6; from++)
		for (int to = 0; to < 6; to++) {
			const int count = hd_topology_path(topology, from, to, links, 16);

			CHECK(count <= 16);
			for (int k = 0; k < count; k++)
				CHECK(links[k] < hd_topology_link_count(topology));
		}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	char *text = malloc(bytes + 1), error[80] = "";
	struct hd_topology *topology;

	CHECK(text);
	if (bytes > 0)
		memcpy(text, data, bytes);
	text[bytes] = '\0';
	if (hd_topology_parse(text, &topology, error, sizeof error) == 0) {
		walk(topology);
		hd_topology_destroy(topology);
	} else
		CHECK(strncmp(error, "line ", 5) == 0);
	free(text);
	return 0;
}
