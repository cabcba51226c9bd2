/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables as text: the columns of --wide are those of all rows. */
#include "heddlectl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define TEXT_BYTES 65536

/* The printed form of this document. */
static void print(const char *json, bool wide, char text[TEXT_BYTES]) {
	json_t *document = json_loads(json, 0, NULL);
	FILE *file = tmpfile();
	int out = dup(STDOUT_FILENO);
	size_t bytes;

	assert_non_null(document);
	assert_non_null(file);
	(void)fflush(stdout);
	assert_true(out >= 0 && dup2(fileno(file), STDOUT_FILENO) >= 0);
	shell_print(document, NULL, NULL, wide);
	(void)fflush(stdout);
	assert_true(dup2(out, STDOUT_FILENO) >= 0);
	(void)close(out);
	rewind(file);
	bytes = fread(text, 1, TEXT_BYTES - 1, file);
	text[bytes] = '\0';
	(void)fclose(file);
	json_decref(document);
}

/* The first row has the fewest fields, the last one some of its own, not in the same place. */
static void test_wide(void **state) {
	static const char json[] = "{\"table\":\"dataplane\",\"rows\":["
				   "{\"name\":\"w0\",\"age_s\":null},"
				   "{\"name\":\"w1\",\"age_s\":1.5,\"rx\":7,\"tx\":10},"
				   "{\"name\":\"w2\",\"new\":3,\"age_s\":0.5,\"tx\":11}]}";
	char text[TEXT_BYTES];

	(void)state;
	print(json, true, text);
	assert_string_equal(
		text,
		"name  age_s  rx  tx  new\n"
		"w0        -   -   -    -\n"
		"w1      1.5   7  10    -\n"
		"w2      0.5   -  11    3\n"
	);
}

/* As of any table that has no usual columns; there may be more than are shown. */
static void test_many(void **state) {
	char json[TEXT_BYTES] = "{\"table\":\"other\",\"rows\":[{\"a\":1}", text[TEXT_BYTES];
	size_t used = strlen(json);

	(void)state;
	for (int i = 0; i < 100; i++)
		used += (size_t)snprintf(json + used, sizeof json - used, ",{\"k%d\":2}", i);
	(void)snprintf(json + used, sizeof json - used, "]}");
	print(json, false, text);
	assert_true(strncmp(text, "a  k0  k1 ", 10) == 0);
	assert_non_null(strstr(text, " k62\n"));
	assert_null(strstr(text, "k63"));
}

static void test_nothing(void **state) {
	char text[TEXT_BYTES];

	(void)state;
	print("{\"table\":\"dataplane\",\"rows\":[]}", true, text);
	assert_string_equal(text, "no dataplane\n");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wide),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
