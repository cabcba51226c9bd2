/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_limits.h"
#include "hd_topology.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PATH_MAX_LINKS 16
#define JSON_BYTES 4096

static struct hd_topology *parse(const char *json) {
	struct hd_topology *topology = NULL;
	char error[256] = "";

	if (hd_topology_parse(json, &topology, error, sizeof error) != 0)
		fail_msg("%s", error);
	return topology;
}

/* The path as "h1>s1 s1>h2", or the error's number. */
static void
assert_path(struct hd_topology *t, const char *from, const char *to, const char *expected) {
	uint32_t links[PATH_MAX_LINKS];
	char text[512] = "";
	const int rc = hd_topology_path(
		t, hd_topology_host(t, from), hd_topology_host(t, to), links, PATH_MAX_LINKS
	);

	if (rc < 0)
		(void)snprintf(text, sizeof text, "%d", rc);
	for (int k = 0; k < rc; k++) {
		const size_t used = strlen(text);

		(void)snprintf(
			text + used,
			sizeof text - used,
			"%s%s",
			k == 0 ? "" : " ",
			hd_topology_link_name(t, links[k])
		);
	}
	assert_string_equal(text, expected);
}

static void star_file(void **state) {
	struct hd_topology *t
		= parse("{\"hosts\": [\"h1\", \"h2\", \"h3\"], \"switches\": [\"s1\"],"
			" \"links\": [[\"h1\", \"s1\"], [\"s1\", \"h2\"]]}");

	(void)state;
	assert_int_equal(hd_topology_link_count(t), 4);
	assert_string_equal(hd_topology_link_name(t, 0), "h1>s1");
	assert_string_equal(hd_topology_link_name(t, 1), "s1>h1");
	assert_string_equal(hd_topology_link_name(t, 2), "s1>h2");
	assert_int_equal(hd_topology_switch(t, "h1"), -ENOENT);
	assert_int_equal(hd_topology_switch(t, "s2"), -ENOENT);
	assert_int_equal(
		hd_topology_path(
			t,
			hd_topology_host(t, "h2"),
			hd_topology_switch(t, "s1"),
			&(uint32_t[PATH_MAX_LINKS]){0}[0],
			PATH_MAX_LINKS
		),
		1
	);
	assert_string_equal(hd_topology_link_name(t, 4), "");
	assert_path(t, "h1", "h2", "h1>s1 s1>h2");
	assert_path(t, "h2", "h1", "h2>s1 s1>h1");
	assert_path(t, "h1", "h1", "");
	assert_int_equal(hd_topology_host(t, "s1"), -ENOENT);
	assert_int_equal(hd_topology_host(t, "h4"), -ENOENT);
	/* h3 has no link */
	uint32_t links[2];
	assert_int_equal(
		hd_topology_path(t, hd_topology_host(t, "h1"), hd_topology_host(t, "h3"), links, 2),
		-ENETUNREACH
	);
	assert_int_equal(
		hd_topology_path(t, hd_topology_host(t, "h1"), hd_topology_host(t, "h2"), links, 1),
		-E2BIG
	);
	assert_int_equal(hd_topology_path(t, 0, 99, links, 2), -ENETUNREACH);
	assert_int_equal(hd_topology_path(t, -1, 0, links, 2), -ENETUNREACH);
	hd_topology_destroy(t);
}

/* Two equal ways from a to b: the one whose link stands first in the file, in both directions. */
static void equal_paths(void **state) {
	struct hd_topology *t = parse(
		"{\"hosts\": [\"a\", \"b\"], \"switches\": [\"l\", \"x\", \"y\", \"r\"], \"links\": ["
		"[\"a\", \"l\"], [\"r\", \"b\"], [\"l\", \"y\"], [\"l\", \"x\"], [\"x\", \"r\"], [\"y\", \"r\"]]}"
	);

	(void)state;
	assert_path(t, "a", "b", "a>l l>x x>r r>b");
	assert_path(t, "b", "a", "b>r r>y y>l l>a");
	hd_topology_destroy(t);
}

/* m hangs on both switches and is no bridge between them. */
static void hosts_do_not_forward(void **state) {
	struct hd_topology *t = parse(
		"{\"hosts\": [\"a\", \"m\", \"b\", \"c\"], \"switches\": [\"s\", \"t\"], \"links\": ["
		"[\"a\", \"s\"], [\"m\", \"s\"], [\"m\", \"t\"], [\"b\", \"t\"], [\"c\", \"a\"]]}"
	);

	(void)state;
	assert_path(t, "a", "m", "a>s s>m");
	assert_path(t, "m", "b", "m>t t>b");
	char unreachable[8];
	(void)snprintf(unreachable, sizeof unreachable, "%d", -ENETUNREACH);
	assert_path(t, "a", "b", unreachable);
	/* a direct link between hosts is a path; a is not crossed either */
	assert_path(t, "c", "a", "c>a");
	assert_path(t, "a", "c", "a>c");
	assert_path(t, "c", "m", unreachable);
	hd_topology_destroy(t);
}

__attribute__((format(printf, 2, 3))) static void append(char *json, const char *format, ...) {
	const size_t used = strlen(json);
	va_list args;

	va_start(args, format);
	(void)vsnprintf(json + used, JSON_BYTES - used, format, args);
	va_end(args);
}

/* A binary tree of switches: every path against its length computed by hand. */
static void tree(void **state) {
	char json[JSON_BYTES] = "{\"hosts\": [\"h0\"", part[16];

	(void)state;
	for (int h = 1; h < 16; h++)
		append(json, ", \"h%d\"", h);
	append(json, "], \"switches\": [\"s1\"");
	for (int s = 2; s < 16; s++)
		append(json, ", \"s%d\"", s);
	append(json, "], \"links\": [[\"s1\", \"s2\"]");
	for (int s = 3; s < 16; s++)
		append(json, ", [\"s%d\", \"s%d\"]", s, s / 2);
	for (int h = 0; h < 16; h++)
		append(json, ", [\"h%d\", \"s%d\"]", h, 8 + h / 2);
	append(json, "]}");
	struct hd_topology *t = parse(json);
	for (int a = 0; a < 16; a++)
		for (int b = 0; b < 16; b++) {
			uint32_t links[PATH_MAX_LINKS];
			int length = 0;

			for (int x = a + 16, y = b + 16; x != y; x /= 2, y /= 2)
				length += 2;
			(void)snprintf(part, sizeof part, "h%d", a);
			const int from = hd_topology_host(t, part);
			(void)snprintf(part, sizeof part, "h%d", b);
			const int to = hd_topology_host(t, part);
			assert_int_equal(
				hd_topology_path(t, from, to, links, PATH_MAX_LINKS), length
			);
		}
	hd_topology_destroy(t);
}

/* A star's host that no node has asked for lately is another one from now on. */
static void star_reuses_hosts(void **state) {
	static bool busy[HD_HOSTS_MAX];
	struct hd_topology *t = NULL;
	int a, b, c;

	(void)state;
	assert_int_equal(hd_topology_create_star(&t), 0);
	assert_true(hd_topology_grows(t));
	a = hd_topology_host(t, "a");
	b = hd_topology_host(t, "b");
	c = hd_topology_host(t, "c");
	assert_int_equal(hd_topology_host(t, "a"), a); /* b is the oldest now */
	assert_int_equal(hd_topology_reuse(t, "c", busy), -ENOSPC); /* it is there */
	assert_int_equal(hd_topology_reuse(t, "x>y", busy), -ENOSPC);
	assert_int_equal(hd_topology_reuse(t, "new", busy), b);
	assert_int_equal(hd_topology_host(t, "new"), b);
	assert_path(t, "new", "a", "new>star star>a");
	assert_int_equal(hd_topology_link_count(t), 6);
	busy[a] = busy[c] = true;
	assert_int_equal(hd_topology_reuse(t, "newer", busy), b);
	busy[b] = true;
	assert_int_equal(hd_topology_reuse(t, "newest", busy), -ENOSPC);
	assert_int_equal(hd_topology_host(t, "b"), c + 1); /* forgotten: another one */
	assert_path(t, "b", "newer", "b>star star>newer");
	hd_topology_destroy(t);
	t = parse("{\"hosts\": [\"h1\"], \"switches\": [\"s1\"], \"links\": [[\"h1\", \"s1\"]]}");
	memset(busy, 0, sizeof busy);
	assert_false(hd_topology_grows(t));
	assert_int_equal(hd_topology_reuse(t, "h2", busy), -ENOSPC);
	hd_topology_destroy(t);
}

static void growing_star(void **state) {
	struct hd_topology *t;

	(void)state;
	assert_int_equal(hd_topology_create_star(&t), 0);
	assert_int_equal(hd_topology_switch(t, "any"), 0);
	assert_int_equal(hd_topology_link_count(t), 0);
	const int a = hd_topology_host(t, "a"), b = hd_topology_host(t, "b");
	assert_true(a >= 0 && b >= 0 && a != b);
	assert_int_equal(hd_topology_host(t, "a"), a);
	assert_path(t, "a", "b", "a>star star>b");
	assert_int_equal(hd_topology_link_count(t), 4);
	assert_int_equal(hd_topology_host(t, ""), -ENOENT);
	assert_int_equal(hd_topology_host(t, "star"), -ENOENT);
	assert_int_equal(hd_topology_host(t, "a>b"), -ENOENT);
	int last = 0;
	for (int h = 2; h < HD_HOSTS_MAX; h++) {
		char name[16];

		(void)snprintf(name, sizeof name, "h%d", h);
		last = hd_topology_host(t, name);
	}
	assert_int_equal(last, -ENOSPC);
	assert_path(t, "h2", "b", "h2>star star>b");
	hd_topology_destroy(t);
}

static void refused(void **state) {
	static const struct {
		const char *json, *error;
	} cases[] = {
		{"", "line 1: syntax: "},
		{"[]", "line 1: file: must be an object"},
		{"{\"hosts\": []}", "line 1: links: must be an array"},
		{"{\"hosts\": [\"a\",\n \"a\"], \"links\": []}",
		 "line 2: hosts[1]: \"a\" is named twice"},
		{"{\"hosts\": [\"a\"],\n\"switches\": [\n\"a\"], \"links\": []}",
		 "line 3: switches[0]: \"a\" is named twice"},
		{"{\"hosts\": [\"a\", 7], \"links\": []}", "line 1: hosts[1]: must be a name"},
		{"{\"hosts\": [\"a>b\"], \"links\": []}", "line 1: hosts[0]: must be a name"},
		{"{\"hosts\": [\"a\"], \"links\": [\n[\"a\",\n\"b\"]]}",
		 "line 3: links[0][1]: \"b\" is no host"},
		{"{\"hosts\": [\"a\", \"b\"], \"links\": [[\"a\"]]}",
		 "line 1: links[0]: must be a pair"},
		{"{\"hosts\": [\"a\"], \"links\": [[\"a\", \"a\"]]}",
		 "line 1: links[0][1]: a link from a node to itself"},
		{"{\"hosts\": [\"a\", \"b\"], \"links\": [[\"a\", \"b\"],\n[\"b\", \"a\"]]}",
		 "line 2: links[1]: the same link as links[0]"},
		{"{\"hosts\": [],\n\"nodes\": [], \"links\": []}", "line 2: nodes: unknown field"},
		{"{\"hosts\": [],\n\"hosts\": [], \"links\": []}", "line 2: syntax: duplicate"},
	};

	(void)state;
	for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
		struct hd_topology *topology = (struct hd_topology *)&cases;
		char error[256] = "";

		assert_int_equal(
			hd_topology_parse(cases[c].json, &topology, error, sizeof error), -EINVAL
		);
		assert_ptr_equal(topology, &cases);
		if (strncmp(error, cases[c].error, strlen(cases[c].error)) != 0)
			fail_msg("%s: \"%s\", not \"%s\"", cases[c].json, error, cases[c].error);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(star_file),
		cmocka_unit_test(equal_paths),
		cmocka_unit_test(hosts_do_not_forward),
		cmocka_unit_test(tree),
		cmocka_unit_test(growing_star),
		cmocka_unit_test(star_reuses_hosts),
		cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
