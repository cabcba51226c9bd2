/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_elastic.h"
#include "hd_elastic_policy.h"
#include "hd_text.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* All policies: the row of each is in a file of its own. */
static const struct hd_elastic_policy *const policies[] = {
	&hd_elastic_fixed,
	&hd_elastic_manual,
	&hd_elastic_growth,
	&hd_elastic_budget,
	&hd_elastic_scalein,
	&hd_elastic_one_bid_policy,
	&hd_elastic_two_bid_policy,
	&hd_elastic_preemptible_policy,
	&hd_elastic_dynamic_policy,
};
#define POLICIES (sizeof(policies) / sizeof(policies[0]))

enum common_key {
	KEY_N_MIN,
	KEY_N_MAX,
	KEY_BASE,
	KEY_SCALE,
	KEY_SCALE_MAX,
	KEY_SCALE_EVERY,
	KEY_SCALE_FACTOR,
	KEY_SCALE_TO,
	KEY_SYNC,
	KEY_TAU,
	KEY_NOTICE,
	KEY_INTERVAL,
	KEY_COUNT
};

static const char *check_scale(const char *text) {
	enum hd_elastic_rate_rule rule;

	return hd_elastic_scale_find(text, &rule) ? NULL :
						    "none, linear, growing, falling or falling-to";
}

#define MOST HD_WORKERS_MAX
#define STEPS .least = 1, .most = HD_ELASTIC_ITERATIONS_MAX
static const struct hd_elastic_key common_keys[] = {
	[KEY_N_MIN]
	= {"n_min", "the target's least", .least = 1, .most = MOST, .fallback = 1, .whole = true},
	[KEY_N_MAX]
	= {"n_max", "the target's most", .least = 1, .most = MOST, .fallback = MOST, .whole = true},
	[KEY_BASE]
	= {"base",
	   "number of workers for which the rate was chosen (0: the first target)",
	   .most = MOST,
	   .whole = true},
	[KEY_SCALE]
	= {"scale",
	   "factor on updates: none, linear (workers / base), or by the steps: growing, falling, falling-to",
	   .text = true,
	   .check = check_scale},
	[KEY_SCALE_MAX] = {"scale_max", "its most", .least = 1e-3, .most = 1e3, .fallback = 8},
	[KEY_SCALE_EVERY]
	= {"scale_every", "steps between changes", STEPS, .fallback = 1000, .whole = true},
	[KEY_SCALE_FACTOR]
	= {"scale_factor", "of growing, each time", .least = 1, .most = 10, .fallback = 1.2},
	[KEY_SCALE_TO]
	= {"scale_to", "falling-to: the final factor", .least = 1e-6, .most = 1, .fallback = 0.1},
	[KEY_SYNC] = {"sync", "N of N-sync as a share of the workers (0: the job's N)", .most = 1},
	[KEY_TAU] = {"tau", "tau_max for each worker (0: the job's tau_max)", .most = 1000},
	[KEY_NOTICE]
	= {"notice",
	   "seconds that a surplus worker has to leave",
	   .least = 0.2,
	   .most = 3600,
	   .fallback = 5},
	[KEY_INTERVAL]
	= {"interval", "least number of seconds between two changes", .most = 86400, .fallback = 0},
	[KEY_COUNT] = {0},
};

static_assert(KEY_COUNT <= 32, "bits of common_given");

const struct hd_elastic_policy *hd_elastic_policy(size_t index) {
	return index < POLICIES ? policies[index] : NULL;
}

const struct hd_elastic_key *hd_elastic_common_key(size_t index) {
	return index < KEY_COUNT ? &common_keys[index] : NULL;
}

/* --- words --- */

/* The values that set() has read so far: the owner gets them at the end. */
struct taking {
	struct hd_elastic next;
	double common[KEY_COUNT];
	bool scale;
	char *error;
	size_t error_bytes;
};

__attribute__((format(printf, 2, 3))) static int
wrong(const struct taking *t, const char *format, ...) {
	va_list args;

	va_start(args, format);
	(void)vsnprintf(t->error, t->error_bytes, format, args);
	va_end(args);
	return -EINVAL;
}

static int take_number(
	const struct taking *t,
	const struct hd_elastic_key *key,
	const char *text,
	double *value
) {
	double x;

	if (!hd_text_real(text, &x) || !(x >= key->least && x <= key->most)
	    || (key->whole && floor(x) < x))
		return wrong(
			t,
			"%s: '%s' (a %snumber from %.10g to %.10g)",
			key->name,
			text,
			key->whole ? "whole " : "",
			key->least,
			key->most
		);
	*value = x;
	return 0;
}

static int
take_text(const struct taking *t, const struct hd_elastic_key *key, const char *text, char *value) {
	const char *why = key->check ? key->check(text) : NULL;

	if (why)
		return wrong(t, "%s: '%s' (%s)", key->name, text, why);
	if (strlen(text) >= HD_ELASTIC_TEXT_BYTES)
		return wrong(t, "%s: more than %d bytes", key->name, HD_ELASTIC_TEXT_BYTES - 1);
	(void)snprintf(value, HD_ELASTIC_TEXT_BYTES, "%s", text);
	return 0;
}

static size_t key_find(const struct hd_elastic_key *keys, const char *name) {
	size_t i = 0;

	while (keys[i].name && strcmp(keys[i].name, name) != 0)
		i++;
	return i;
}

static int take_common(struct taking *t, size_t index, const char *text) {
	const struct hd_elastic_key *key = &common_keys[index];
	enum hd_elastic_rate_rule rule = HD_ELASTIC_RATE_FIXED;
	char word[HD_ELASTIC_TEXT_BYTES];

	t->next.common_given |= UINT32_C(1) << index;
	if (!key->text)
		return take_number(t, key, text, &t->common[index]);
	if (take_text(t, key, text, word) < 0)
		return -EINVAL;
	(void)hd_elastic_scale_find(word, &rule);
	t->common[index] = rule;
	return 0;
}

static void append(char *text, size_t bytes, const char *word) {
	size_t used = strlen(text);

	if (used < bytes)
		(void)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", word);
}

static int unknown_key(const struct taking *t, const char *name) {
	char known[400] = "";

	for (size_t i = 0; t->next.policy->keys[i].name; i++)
		append(known, sizeof known, t->next.policy->keys[i].name);
	for (size_t i = 0; i < KEY_COUNT; i++)
		append(known, sizeof known, common_keys[i].name);
	return wrong(t, "%s: policy %s has no such key (%s)", name, t->next.policy->name, known);
}

static int take_pair(struct taking *t, const char *name, const char *text) {
	const struct hd_elastic_key *keys = t->next.policy->keys;
	size_t i = key_find(keys, name);

	if (keys[i].name) {
		t->next.given |= UINT32_C(1) << i;
		return keys[i].text ? take_text(t, &keys[i], text, t->next.text[i]) :
				      take_number(t, &keys[i], text, &t->next.value[i]);
	}
	i = key_find(common_keys, name);
	return i < KEY_COUNT ? take_common(t, i, text) : unknown_key(t, name);
}

/* Splits the next "key=value" of the words in place. 0: the end; 1; -EINVAL. */
static int next_pair(const struct taking *t, char **at, char **name, char **value) {
	char *word = *at + strspn(*at, " \t"), *end = word + strcspn(word, " \t"), *equals;

	if (!*word)
		return 0;
	*at = *end ? end + 1 : end;
	*end = '\0';
	*name = *value = word;
	equals = strchr(word, '=');
	if (!equals || equals == word || !equals[1])
		return wrong(t, "'%s': must be key=value", word);
	*equals = '\0';
	*value = equals + 1;
	return 1;
}

static int find_policy(struct taking *t, const char *name) {
	char known[256] = "";

	for (size_t i = 0; i < POLICIES; i++) {
		if (strcmp(policies[i]->name, name) == 0) {
			t->next.policy = policies[i];
			return 0;
		}
		append(known, sizeof known, policies[i]->name);
	}
	return wrong(t, "policy: '%s': no such policy (%s)", name, known);
}

/* Another policy, or the same again: its values are reset to their fallbacks. Common values stay. */
static void begin(struct taking *t) {
	const struct hd_elastic_key *keys = t->next.policy->keys;

	t->next.given = 0;
	for (size_t i = 0; keys[i].name; i++) {
		assert(i < HD_ELASTIC_KEYS_MAX);
		t->next.value[i] = keys[i].fallback;
		t->next.text[i][0] = '\0';
	}
}

/* The policy that the words name, or the present one. */
static int take_policy(struct taking *t, const char *words) {
	char copy[HD_ELASTIC_WORDS_BYTES + 1], *at = copy, *name, *value;
	bool named = false;
	int more;

	(void)snprintf(copy, sizeof copy, "%s", words);
	while ((more = next_pair(t, &at, &name, &value)) > 0) {
		if (strcmp(name, "policy") != 0)
			continue;
		if (named)
			return wrong(t, "policy: said twice");
		named = true;
		if (find_policy(t, value) < 0)
			return -EINVAL;
	}
	if (more < 0)
		return more;
	if (!t->next.policy)
		return wrong(t, "policy: missing (policy=fixed, for one)");
	if (named)
		begin(t);
	return 0;
}

static int take_pairs(struct taking *t, const char *words) {
	char copy[HD_ELASTIC_WORDS_BYTES + 1], *at = copy, *name, *value;
	const char *seen[HD_ELASTIC_KEYS_MAX + KEY_COUNT + 1];
	size_t count = 0;
	int more;

	(void)snprintf(copy, sizeof copy, "%s", words);
	while ((more = next_pair(t, &at, &name, &value)) > 0) {
		for (size_t i = 0; i < count; i++)
			if (strcmp(seen[i], name) == 0)
				return wrong(t, "%s: said twice", name);
		if (strcmp(name, "policy") != 0 && take_pair(t, name, value) < 0)
			return -EINVAL;
		assert(count < sizeof seen / sizeof seen[0]);
		seen[count++] = name;
	}
	return more;
}

static void common_out(const struct hd_elastic *e, double *value) {
	const struct hd_elastic_common *c = &e->common;

	value[KEY_N_MIN] = c->n_min;
	value[KEY_N_MAX] = c->n_max;
	value[KEY_BASE] = c->base;
	value[KEY_SCALE] = c->scale;
	value[KEY_SCALE_MAX] = c->scale_max;
	value[KEY_SCALE_EVERY] = c->scale_every;
	value[KEY_SCALE_FACTOR] = c->scale_factor;
	value[KEY_SCALE_TO] = c->scale_to;
	value[KEY_SYNC] = c->sync;
	value[KEY_TAU] = c->tau;
	value[KEY_NOTICE] = c->notice_s;
	value[KEY_INTERVAL] = c->interval_s;
}

static void common_in(struct hd_elastic *e, const double *value) {
	e->common = (struct hd_elastic_common){
		.n_min = (uint32_t)value[KEY_N_MIN],
		.n_max = (uint32_t)value[KEY_N_MAX],
		.base = value[KEY_BASE],
		.scale = (enum hd_elastic_rate_rule)value[KEY_SCALE],
		.scale_max = value[KEY_SCALE_MAX],
		.scale_every = (uint32_t)value[KEY_SCALE_EVERY],
		.scale_factor = value[KEY_SCALE_FACTOR],
		.scale_to = value[KEY_SCALE_TO],
		.sync = value[KEY_SYNC],
		.tau = value[KEY_TAU],
		.notice_s = value[KEY_NOTICE],
		.interval_s = value[KEY_INTERVAL],
	};
}

void hd_elastic_init(struct hd_elastic *e) {
	double value[KEY_COUNT];

	memset(e, 0, sizeof *e);
	for (size_t i = 0; i < KEY_COUNT; i++)
		value[i] = common_keys[i].fallback;
	common_in(e, value);
	e->changed_at = e->last = e->price = -1;
}

/* A text under construction, and its length, which may exceed the buffer. */
struct saying {
	char *words;
	size_t bytes, used;
};

static void put_word(struct saying *s, const char *name, const char *value) {
	const size_t at = s->used < s->bytes ? s->used : s->bytes - 1;
	const int more = snprintf(
		s->words + at, s->bytes - at, "%s%s=%s", s->used ? " " : "", name, value
	);

	s->used += more > 0 ? (size_t)more : 0;
}

static void put_value(struct saying *s, const char *name, double value) {
	char text[32];

	(void)snprintf(text, sizeof text, "%.10g", value);
	put_word(s, name, text);
}

size_t hd_elastic_words(const struct hd_elastic *e, char *words, size_t bytes) {
	struct saying said = {words, bytes, 0};
	double common[KEY_COUNT];

	words[0] = '\0';
	if (!e->policy)
		return 0;
	put_word(&said, "policy", e->policy->name);
	for (size_t i = 0; e->policy->keys[i].name; i++) {
		const struct hd_elastic_key *key = &e->policy->keys[i];

		if (!(e->given >> i & 1))
			continue;
		if (key->text)
			put_word(&said, key->name, e->text[i]);
		else
			put_value(&said, key->name, e->value[i]);
	}
	common_out(e, common);
	for (size_t i = 0; i < KEY_COUNT; i++) {
		if (!(e->common_given >> i & 1))
			continue;
		if (i == KEY_SCALE)
			put_word(&said, "scale", hd_elastic_scale_name(e->common.scale));
		else
			put_value(&said, common_keys[i].name, common[i]);
	}
	return said.used;
}

/* The words of all settings are what a later process reads: they must fit. */
static int check_length(struct taking *t) {
	const struct hd_elastic_common common = t->next.common;
	const uint32_t given = t->next.common_given;
	char words[HD_ELASTIC_WORDS_BYTES + 1];
	size_t bytes;

	/* The first decision sets base, which has at most this many digits. */
	if (!(common.base > 0)) {
		t->next.common.base = MOST;
		t->next.common_given |= UINT32_C(1) << KEY_BASE;
	}
	bytes = hd_elastic_words(&t->next, words, sizeof words);
	t->next.common = common;
	t->next.common_given = given;
	if (bytes > HD_ELASTIC_WORDS_BYTES)
		return wrong(
			t,
			"words: %zu bytes together with the earlier ones, more than %d "
			"(HD_ELASTIC_WORDS_BYTES)",
			bytes,
			HD_ELASTIC_WORDS_BYTES
		);
	return 0;
}

static int check_whole(struct taking *t) {
	struct hd_elastic *e = &t->next;
	const struct hd_elastic_key *keys = e->policy->keys;

	for (size_t i = 0; keys[i].name; i++)
		if (keys[i].required && !(e->given >> i & 1))
			return wrong(
				t,
				"%s: policy %s needs it: %s",
				keys[i].name,
				e->policy->name,
				keys[i].help
			);
	if (e->common.n_min > e->common.n_max)
		return wrong(t, "n_min: %u, above n_max, %u", e->common.n_min, e->common.n_max);
	return check_length(t);
}

int hd_elastic_set(
	struct hd_elastic *e,
	const char *words,
	double now,
	uint32_t workers,
	char *error,
	size_t error_bytes
) {
	struct taking t = {.next = *e, .error = error, .error_bytes = error_bytes};

	static_assert(POLICIES > 0, "a policy");
	if (strlen(words) > HD_ELASTIC_WORDS_BYTES)
		return wrong(&t, "more than %d bytes", HD_ELASTIC_WORDS_BYTES);
	if (!words[strspn(words, " \t")])
		return wrong(&t, "key=value is missing (policy=manual n=4, for one)");
	common_out(e, t.common);
	if (take_policy(&t, words) < 0 || take_pairs(&t, words) < 0)
		return -EINVAL;
	common_in(&t.next, t.common);
	if (check_whole(&t) < 0)
		return -EINVAL;
	hd_elastic_count(&t.next, now, workers);
	memset(t.next.state, 0, sizeof t.next.state);
	t.next.changed_at = -1; /* an operator's values apply at once */
	if (t.next.policy->init && t.next.policy->init(&t.next, error, error_bytes) < 0)
		return -EINVAL;
	*e = t.next;
	return 0;
}

/* --- values --- */

static size_t index_of(const struct hd_elastic *e, const char *key) {
	size_t i = key_find(e->policy->keys, key);

	assert(e->policy->keys[i].name);
	return i;
}

double hd_elastic_value(const struct hd_elastic *e, const char *key) {
	return e->value[index_of(e, key)];
}

const char *hd_elastic_text(const struct hd_elastic *e, const char *key) {
	return e->text[index_of(e, key)];
}

bool hd_elastic_given(const struct hd_elastic *e, const char *key) {
	return e->given >> index_of(e, key) & 1;
}

/* --- events --- */

void hd_elastic_explain(struct hd_elastic_decision *out, uint32_t target, const char *format, ...) {
	va_list args;

	out->target = target;
	va_start(args, format);
	(void)vsnprintf(out->reason, sizeof out->reason, format, args);
	va_end(args);
}

static uint32_t within(const struct hd_elastic *e, uint32_t target) {
	const struct hd_elastic_common *c = &e->common;

	target = target > c->n_max ? c->n_max : target;
	return target < c->n_min ? c->n_min : target;
}

uint32_t hd_elastic_decide(struct hd_elastic *e, double now, bool *changed) {
	struct hd_elastic_decision out = {.target = e->target};
	uint32_t before = e->target;

	*changed = false;
	if (!e->policy)
		return 0;
	e->policy->decide(e, now, &out);
	out.target = within(e, out.target);
	if (out.target != before && before != 0 && e->changed_at >= 0
	    && now < e->changed_at + e->common.interval_s)
		return before;
	memcpy(e->reason, out.reason, sizeof e->reason);
	e->reason[sizeof e->reason - 1] = '\0';
	/* A setting from now on, so that a later process gets the same value. */
	if (!(e->common.base > 0)) {
		e->common.base = out.target;
		e->common_given |= UINT32_C(1) << KEY_BASE;
	}
	if (out.target == before)
		return before;
	e->target = out.target;
	e->changed_at = now;
	*changed = true;
	return e->target;
}
