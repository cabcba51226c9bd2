/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group is a job of its own, of the same tenant and on the same fabric:
 *
 *      job "train"                 ranks 0 1 2 3 4 5
 *      job "train/rows#5d2f6a01"   ranks   0   1   2      heddle_group_open("rows", {1, 3, 5})
 *
 * The number is a hash of the list, so that workers with different lists never add to one sum.
 */
#include "heddle_private.h"
#include "heddle_setup.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

/* The place of this worker in the list. */
static int index_of(const struct heddle *fabric, const int *ranks, size_t count) {
	struct hd_roster seen = {0};
	int index = -1;

	if (!ranks)
		return heddle_fail(-EINVAL, "ranks: NULL");
	if (count == 0 || count > HEDDLE_WORKERS_MAX)
		return heddle_fail(
			-EINVAL, "count: %zu is not in 1..%d", count, HEDDLE_WORKERS_MAX
		);
	for (size_t i = 0; i < count; i++) {
		if (ranks[i] < 0 || ranks[i] >= HEDDLE_WORKERS_MAX)
			return heddle_fail(
				-EINVAL,
				"ranks: %d is not in 0..%d",
				ranks[i],
				HEDDLE_WORKERS_MAX - 1
			);
		if (!hd_roster_set(&seen, (uint16_t)ranks[i], true))
			return heddle_fail(-EINVAL, "ranks: %d is there twice", ranks[i]);
		if (ranks[i] == fabric->rank)
			index = (int)i;
	}
	if (index < 0)
		return heddle_fail(
			-EINVAL, "ranks: that of this worker, %d, is missing", fabric->rank
		);
	return index;
}

static uint32_t hash_of(const int *ranks, size_t count) {
	crypto_generichash_state state;
	uint8_t hash[crypto_generichash_BYTES_MIN];

	crypto_generichash_init(&state, NULL, 0, sizeof hash);
	for (size_t i = 0; i < count; i++) {
		const uint8_t rank[2] = {(uint8_t)(ranks[i] >> 8), (uint8_t)ranks[i]};

		crypto_generichash_update(&state, rank, sizeof rank);
	}
	crypto_generichash_final(&state, hash, sizeof hash);
	return (uint32_t)hash[0] << 24 | (uint32_t)hash[1] << 16 | (uint32_t)hash[2] << 8 | hash[3];
}

static int
name_of(char text[HD_NAME_BYTES_MAX + 1],
	const struct heddle *fabric,
	const char *name,
	uint32_t hash) {
	const char *job = fabric->spec->job.name;
	int bytes;

	if (!name || !*name)
		return heddle_fail(-EINVAL, "name: empty");
	if (strchr(name, '/')) /* group c of job a/b is not group b/c of job a */
		return heddle_fail(-EINVAL, "name: %.64s has a /", name);
	bytes = snprintf(text, HD_NAME_BYTES_MAX + 1, "%s/%s#%08" PRIx32, job, name, hash);
	if (bytes > HD_NAME_BYTES_MAX)
		return heddle_fail(
			-EINVAL,
			"name: %zu bytes, which with the job's %zu and 10 more are over %d "
			"(HD_NAME_BYTES_MAX)",
			strlen(name),
			strlen(job),
			HD_NAME_BYTES_MAX
		);
	return 0;
}

int heddle_group_open(
	struct heddle *fabric,
	const char *name,
	const int *ranks,
	size_t count,
	struct heddle **group
) {
	char job[HD_NAME_BYTES_MAX + 1];
	struct heddle_options options;
	struct heddle_spec *spec;
	int rc = heddle_check(fabric), index;

	if (rc < 0)
		return rc;
	if (!group)
		return heddle_fail(-EINVAL, "group: NULL");
	if (fabric->opened.observe)
		return heddle_fail(-EINVAL, "fabric: an observer is in no group");
	index = index_of(fabric, ranks, count);
	if (index < 0)
		return index;
	rc = name_of(job, fabric, name, hash_of(ranks, count));
	if (rc == 0)
		rc = heddle_spec_create(fabric->spec->job.tenant, job, &spec);
	if (rc < 0)
		return rc;
	heddle_spec_set_integrity(spec, !fabric->spec->job.unsealed);
	options = fabric->opened;
	options.rank = index;
	options.world_size = (int)count;
	rc = heddle_open_as(spec, &options, true, group);
	heddle_spec_destroy(spec);
	return rc;
}
