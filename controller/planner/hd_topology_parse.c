/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_json.h"
#include "hd_topology_internal.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

struct reader {
	struct hd_json_reader json;
	struct hd_topology *topology;
};

#define fail(reader, ...) hd_json_fail(&(reader)->json, __VA_ARGS__)

static int read_nodes(const struct reader *reader, json_t *list, const char *key, bool is_switch) {
	json_t *value;
	size_t i;

	if (!list && is_switch)
		return 0;
	if (!json_is_array(list))
		return fail(reader, key, "must be an array of names");
	json_array_foreach(list, i, value) {
		char field[64];

		(void)snprintf(field, sizeof field, "%s[%zu]", key, i);
		const char *name = json_string_value(value);
		if (!name || !hd_topology_name_valid(name))
			return fail(
				reader,
				field,
				"must be a name of 1 to %d bytes without control characters and "
				"'>' (HD_NAME_BYTES_MAX)",
				HD_NAME_BYTES_MAX
			);
		const int rc = hd_topology_add_node(reader->topology, name, is_switch);
		if (rc == -EEXIST)
			return fail(reader, field, "\"%s\" is named twice", name);
		if (rc == -ENOSPC)
			return fail(
				reader,
				field,
				"more than %d hosts and switches (HD_HOSTS_MAX)",
				HD_HOSTS_MAX
			);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int read_link(const struct reader *reader, json_t *pair, size_t index) {
	char field[64];
	int ends[2];

	(void)snprintf(field, sizeof field, "links[%zu]", index);
	if (!json_is_array(pair) || json_array_size(pair) != 2)
		return fail(reader, field, "must be a pair of names");
	for (size_t k = 0; k < 2; k++) {
		const char *name = json_string_value(json_array_get(pair, k));

		(void)snprintf(field, sizeof field, "links[%zu][%zu]", index, k);
		if (!name)
			return fail(reader, field, "must be a name");
		ends[k] = hd_topology_find(reader->topology, name);
		if (ends[k] < 0)
			return fail(reader, field, "\"%.64s\" is no host and no switch", name);
	}
	if (ends[0] == ends[1])
		return fail(reader, field, "a link from a node to itself");
	const int rc = hd_topology_add_link(reader->topology, (uint32_t)ends[0], (uint32_t)ends[1]);
	if (rc == -ENOSPC)
		return fail(
			reader, field, "more than %d directed links (HD_LINKS_MAX)", HD_LINKS_MAX
		);
	return rc;
}

static int read_links(const struct reader *reader, json_t *list) {
	json_t *pair;
	size_t i;

	if (!json_is_array(list))
		return fail(reader, "links", "must be an array of pairs of names");
	json_array_foreach(list, i, pair) {
		const int rc = read_link(reader, pair, i);

		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Two links between the same nodes would have one name: find the second of them. */
static int check_parallel(const struct reader *reader) {
	const struct hd_topology *topology = reader->topology;
	struct named {
		const char *name;
		uint32_t link;
		UT_hash_handle hh;
	} *all = NULL, *set = calloc(topology->link_count + 1, sizeof *set);
	int rc = !set ? -ENOMEM : 0;

	for (uint32_t l = 0; rc == 0 && l < topology->link_count; l++) {
		struct named *found;

		HASH_FIND_STR(all, topology->links[l].name, found);
		if (found) {
			char field[64];

			(void)snprintf(field, sizeof field, "links[%u]", l / 2);
			rc = fail(reader, field, "the same link as links[%u]", found->link / 2);
			break;
		}
		set[l].name = topology->links[l].name;
		set[l].link = l;
		HASH_ADD_KEYPTR(hh, all, set[l].name, strlen(set[l].name), &set[l]);
	}
	HASH_CLEAR(hh, all);
	free(set);
	return rc;
}

static int read_root(const struct reader *reader, json_t *root) {
	static const char *const keys[] = {"hosts", "switches", "links", NULL};
	const struct hd_json_object in = {&reader->json, root, ""};

	if (hd_json_known(&in, keys) < 0)
		return -EINVAL;
	int rc = read_nodes(reader, json_object_get(root, "hosts"), "hosts", false);
	if (rc == 0)
		rc = read_nodes(reader, json_object_get(root, "switches"), "switches", true);
	if (rc == 0)
		rc = read_links(reader, json_object_get(root, "links"));
	if (rc == 0)
		rc = check_parallel(reader);
	if (rc < 0)
		return rc;
	rc = hd_topology_finish(reader->topology);
	if (rc == -ENOSPC)
		return fail(
			reader,
			"links",
			"more than %d switches and hosts with several links "
			"(HD_TOPOLOGY_CORE_MAX)",
			HD_TOPOLOGY_CORE_MAX
		);
	return rc;
}

int hd_topology_parse(
	const char *json,
	struct hd_topology **topology,
	char *error,
	size_t error_bytes
) {
	struct reader reader = {.json = {json, error, error_bytes}};
	json_t *root = hd_json_load(&reader.json);

	if (!root)
		return -EINVAL;
	reader.topology = calloc(1, sizeof *reader.topology);
	const int rc = !reader.topology ? -ENOMEM : read_root(&reader, root);
	json_decref(root);
	if (rc < 0) {
		hd_topology_destroy(reader.topology);
		return rc;
	}
	*topology = reader.topology;
	return 0;
}
