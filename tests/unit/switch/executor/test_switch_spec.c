/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of pipeline texts: what each line becomes, and where a wrong one is. */
#include "hd_switch_spec.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char whole[]
	= "\n"
	  "; as p4c writes it\n"
	  "struct ethernet_t {\n"
	  "\tbit<48> dst_addr\n"
	  "\tbit<48> src_addr\n"
	  "\tbit<16> type\n"
	  "}\n"
	  "struct options_t {\n"
	  "\tvarbit<320> options // at most\n"
	  "}\n"
	  "struct meta_t {\n\tbit<32> port\n}\n"
	  "struct send_arg_t {\n\tbit<32> port\n}\n"
	  "header ethernet instanceof ethernet_t\n"
	  "metadata instanceof meta_t\n"
	  "regarray sums size 0x2000 initval 7\n"
	  "metarray meters size 64\n"
	  "action NoAction args none {\n\treturn\n}\n"
	  "action send args instanceof send_arg_t {\n"
	  "\tmov   m.port \t t.port\n"
	  "\treturn\n"
	  "}\n"
	  "table stations {\n"
	  "\tkey {\n\t\th.ethernet.dst_addr exact\n\t}\n"
	  "\tactions {\n\t\tsend @tableonly\n\t\tNoAction @defaultonly\n\t}\n"
	  "\tdefault_action NoAction args none const\n"
	  "\tsize 0x10000\n"
	  "}\n"
	  "table second {\n"
	  "\tkey {\n\t\th.ethernet.type wildcard\n\t\th.ethernet.src_addr lpm\n\t}\n"
	  "\tactions {\n\t\tsend\n\t}\n"
	  "\tdefault_action send args port 0x3\n"
	  "\tinstanceof one_kind\n"
	  "}\n"
	  "apply {\n"
	  "\trx m.port\n"
	  "\textract h.ethernet\n"
	  "\ttable stations\n"
	  "\tLABEL :\temit h.ethernet\n"
	  "\ttx m.port\n"
	  "}";

static struct hd_spec *read_all(const char *text) {
	struct hd_spec_error error;
	struct hd_spec *spec = NULL;
	int code = hd_spec_read(text, strlen(text), &spec, &error);

	if (code < 0)
		print_error("line %u: %s\n", error.line, error.what);
	assert_int_equal(code, 0);
	return spec;
}

static void test_types(void **state) {
	struct hd_spec *spec = read_all(whole);

	(void)state;
	assert_int_equal(spec->struct_count, 4);
	assert_string_equal(spec->structs[0].name, "ethernet_t");
	assert_int_equal(spec->structs[0].field_count, 3);
	assert_string_equal(spec->structs[0].fields[2].name, "type");
	assert_int_equal(spec->structs[0].fields[0].bits, 48);
	assert_false(spec->structs[0].variable);
	assert_true(spec->structs[1].variable);
	assert_int_equal(spec->structs[1].fields[0].bits, 320);
	assert_string_equal(spec->structs[1].fields[0].name, "options");
	assert_int_equal(spec->header_count, 1);
	assert_string_equal(spec->headers[0].name, "ethernet");
	assert_string_equal(spec->headers[0].type, "ethernet_t");
	assert_string_equal(spec->metadata, "meta_t");
	assert_int_equal(spec->register_count, 1);
	assert_string_equal(spec->registers[0].name, "sums");
	assert_int_equal(spec->registers[0].size, 8192);
	assert_int_equal(spec->registers[0].initial, 7);
	assert_int_equal(spec->meter_count, 1);
	assert_int_equal(spec->meters[0].size, 64);
	hd_spec_free(spec);
}

static void test_work(void **state) {
	struct hd_spec *spec = read_all(whole);
	const struct hd_spec_table *table = &spec->tables[0];

	(void)state;
	assert_int_equal(spec->action_count, 2);
	assert_null(spec->actions[0].arguments);
	assert_int_equal(spec->actions[0].line_count, 1);
	assert_string_equal(spec->actions[1].arguments, "send_arg_t");
	assert_int_equal(spec->actions[1].line_count, 2);
	assert_string_equal(spec->actions[1].lines[0], "mov m.port t.port");
	assert_int_equal(spec->table_count, 2);
	assert_string_equal(table->name, "stations");
	assert_int_equal(table->key_count, 1);
	assert_int_equal(table->keys[0].match, HD_SPEC_EXACT);
	assert_int_equal(table->choice_count, 2);
	assert_true(table->choices[0].for_entries && !table->choices[0].for_default);
	assert_true(!table->choices[1].for_entries && table->choices[1].for_default);
	assert_true(table->default_const);
	assert_null(table->default_arguments);
	assert_null(table->type);
	assert_int_equal(table->size, 65536);
	table++;
	assert_int_equal(table->key_count, 2);
	assert_int_equal(table->keys[0].match, HD_SPEC_WILDCARD);
	assert_int_equal(table->keys[1].match, HD_SPEC_LPM);
	assert_string_equal(table->default_arguments, "port 0x3");
	assert_false(table->default_const);
	assert_string_equal(table->type, "one_kind");
	assert_int_equal(spec->line_count, 5);
	assert_string_equal(spec->lines[3], "LABEL : emit h.ethernet");
	assert_string_equal(spec->lines[4], "tx m.port");
	hd_spec_free(spec);
}

static void test_wrong(void **state) {
	static const struct {
		const char *text;
		uint32_t line;
	} wrong[] = {
		{"", 0},
		{"apply {\n}\n", 0},
		{"apply {\n\trx m.port\n}\n", 0},
		{"apply {\n\trx m.port\n", 0},
		{"metadata instanceof a\nmetadata instanceof b\n", 2},
		{"apply {\n\ttx\n}\napply {\n", 4},
		{"extobj a instanceof b\n", 1},
		{"selector s {\n", 1},
		{"learner l {\n", 1},
		{"struct s\n", 1},
		{"struct s {\n\tbit<7> x\n", 2},
		{"struct s {\n\tbit<0> x\n", 2},
		{"struct s {\n\tbit<x> x\n", 2},
		{"struct s {\n\tbit<16 x\n", 2},
		{"struct s {\n\tbit<70000> x\n", 2},
		{"struct s {\n}\n", 2},
		{"struct s {\n\tvarbit<8> x\n\tbit<8> y\n", 3},
		{"header h instance h_t\n", 1},
		{"action a args\n", 1},
		{"action a args none\n", 1},
		{"regarray r size 0 initval 0\n", 1},
		{"regarray r size -1 initval 0\n", 1},
		{"regarray r size 0x1ffffffff initval 0\n", 1},
		{"regarray r size 3 initval 99999999999999999999\n", 1},
		{"table t {\n\tkey {\n\t\th.x ranged\n", 3},
		{"table t {\n\tactions {\n\t\ta @sometimes\n", 3},
		{"table t {\n\tdefault_action a args\n", 2},
		{"table t {\n\tdefault_action a args const\n", 2},
		{"table t {\n\tdefault_action a args none\n\tdefault_action b args none\n", 3},
		{"table t {\n\tsize\n", 2},
		{"table t {\n\tsize many\n", 2},
		{"table t {\n}\n", 2},
	};

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		struct hd_spec_error error = {0};
		struct hd_spec *spec = NULL;

		assert_int_equal(
			hd_spec_read(wrong[i].text, strlen(wrong[i].text), &spec, &error), -EINVAL
		);
		assert_non_null(error.what);
		assert_int_equal(error.line, wrong[i].line);
		assert_null(spec);
	}
}

/* Every beginning of a text, and every text with a byte 0. */
static void test_cut(void **state) {
	char copy[sizeof whole];

	(void)state;
	for (size_t cut = 0; cut < strlen(whole); cut++) {
		struct hd_spec_error error;
		struct hd_spec *spec = NULL;

		assert_int_equal(hd_spec_read(whole, cut, &spec, &error), -EINVAL);
		memcpy(copy, whole, sizeof whole);
		copy[cut] = '\0';
		assert_int_equal(hd_spec_read(copy, strlen(whole), &spec, &error), -EINVAL);
		assert_null(spec);
	}
}

static void test_limits(void **state) {
	char *text = malloc(HD_SPEC_TEXT_BYTES_MAX + 1);
	const size_t words = HD_SPEC_WORDS_MAX + 1;
	struct hd_spec_error error;
	struct hd_spec *spec = NULL;

	(void)state;
	assert_non_null(text);
	memset(text, ' ', HD_SPEC_TEXT_BYTES_MAX + 1);
	assert_int_equal(hd_spec_read(text, HD_SPEC_TEXT_BYTES_MAX + 1, &spec, &error), -E2BIG);
	assert_int_equal(hd_spec_read(text, HD_SPEC_TEXT_BYTES_MAX, &spec, &error), -EINVAL);
	memset(text, '\n', HD_SPEC_LINES_MAX);
	assert_int_equal(hd_spec_read(text, HD_SPEC_LINES_MAX, &spec, &error), -E2BIG);
	for (size_t i = 0; i < words; i++) {
		text[2 * i] = 'a';
		text[2 * i + 1] = ' ';
	}
	assert_int_equal(hd_spec_read(text, 2 * words, &spec, &error), -EINVAL);
	assert_string_equal(error.what, "too many words");
	free(text);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_work),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
