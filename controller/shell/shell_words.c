/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The grammar: a command is one of the forms below, word by word. Literals may be abbreviated as long as they stay
 * unique, as in other shells of network equipment, except in commands that stop running work; a word in upper case
 * stands for any word. `[FILTER...]` stands for any number of them.
 */
#include "hd_settings.h"
#include "heddlectl.h"

#include <ctype.h>
#include <string.h>
#include <sysexits.h>

#define FORMS_MAX 96

#define SET_FORM(...) SET_FORM_OF(__VA_ARGS__)
#define SET_FORM_OF(name, unit, help) {"set " name " VALUE", help, shell_run_set},
#define SET_JOB_FORM(...) SET_JOB_FORM_OF(__VA_ARGS__)
#define SET_JOB_FORM_OF(name, unit, help) {"set " name " JOB VALUE", help, shell_run_set_job},

const struct shell_form shell_forms[] = {
	{"show nodes [FILTER...]",
	 "connected nodes: role, host, round-trip time, clock",
	 shell_run_show},
	{"show jobs [FILTER...]",
	 "jobs: versions, workers, updates granted, applied, dropped",
	 shell_run_show},
	{"show links [FILTER...]", "links: estimated capacity and reservations", shell_run_show},
	{"show estimates [FILTER...]", "link estimates: uncertainty and age", shell_run_show},
	{"show transfers [FILTER...]", "transfers that run or wait", shell_run_show},
	{"show plan why [FILTER...]",
	 "the latest plan, with the reason of each decision",
	 shell_run_why},
	{"show plan [FILTER...]",
	 "the latest plan, in order, with times and rates",
	 shell_run_show},
	{"show groups [FILTER...]",
	 "sums and relays in progress: aggregator, members, reason",
	 shell_run_show},
	{"show switches [FILTER...]",
	 "switches on the path: slots, and how many are leased",
	 shell_run_show},
	{"show leases [FILTER...]",
	 "slots of switches leased by each job, or why it has none",
	 shell_run_show},
	{"show slots [FILTER...]", "leases of a switch (--server)", shell_run_show},
	{"show switch [FILTER...]", "state and counters of a switch (--server)", shell_run_show},
	{"show drops [FILTER...]",
	 "the last 256 updates that were not applied, with the reason",
	 shell_run_show},
	{"show staleness [FILTER...]",
	 "delays of applied updates: mean, spread, bound",
	 shell_run_show},
	{"show models [FILTER...]",
	 "models of a server (--server): versions, durable commits",
	 shell_run_show},
	{"show rounds [FILTER...]",
	 "federated rounds of a server (--server): clients, weight, mu, gamma",
	 shell_run_show},
	{"show sums [FILTER...]",
	 "sums and relays of an aggregator (--server), with their progress",
	 shell_run_show},
	{"show ports [FILTER...]", "network ports: packets, bytes, errors", shell_run_show},
	{"show queues [FILTER...]", "queues of the ports: backlog, drops", shell_run_show},
	{"show cores [FILTER...]",
	 "processor time of the threads that move packets",
	 shell_run_show},
	{"show counters [FILTER...]", "all counters and gauges", shell_run_show},
	{"show histograms [FILTER...]",
	 "waiting times and delays of transfers: count, mean, quantiles",
	 shell_run_show},
	{"show dataplane by host [FILTER...]",
	 "packet counters, summed by host",
	 shell_run_show_by},
	{"show dataplane by job [FILTER...]",
	 "packet counters of workers, summed by job",
	 shell_run_show_by},
	{"show dataplane by link [FILTER...]",
	 "packet counters of the nodes at each host's link, with packets between them",
	 shell_run_show_by},
	{"show dataplane [FILTER...]",
	 "packet counters of every node: rates, drops, retransmissions, queues, processor",
	 shell_run_show},
	{"show elastic [FILTER...]",
	 "target number of workers of each job, its policy and reason",
	 shell_run_show},
	{"show settings [FILTER...]", "settings that `set` changes", shell_run_show},
	{"watch dataplane by host [FILTER...]",
	 "packet counters by host, every second, with the changes",
	 shell_run_watch_by},
	{"watch dataplane by job [FILTER...]",
	 "packet counters by job, every second, with the changes",
	 shell_run_watch_by},
	{"watch dataplane by link [FILTER...]",
	 "packet counters by link, every second, with the changes",
	 shell_run_watch_by},
	{"watch dataplane [FILTER...]",
	 "packet counters of every node, every second, with the changes",
	 shell_run_watch},
	{"watch TABLE [FILTER...]",
	 "the table repeatedly, with the changes (--interval-s, --count)",
	 shell_run_watch},
	{"clear dataplane",
	 "reset the tables of the dataplane to zero; metrics do not change",
	 shell_run_verb},
	HD_SETTINGS(SET_FORM) HD_JOB_SETTINGS(SET_JOB_FORM
	){"pause all", "stop granting; granted transfers continue", shell_run_verb},
	{"pause job JOB", "stop granting transfers of this job", shell_run_verb},
	{"resume all", "resume granting", shell_run_verb},
	{"resume job JOB", "resume granting transfers of this job", shell_run_verb},
	{"drain host HOST",
	 "no new grants to or from a host, no new jobs on its server",
	 shell_run_verb},
	{"undrain host HOST", "allow grants to and from a host again", shell_run_verb},
	{"evict job JOB", "tell all workers of a job to leave", shell_run_verb},
	{"evict worker JOB RANK", "tell one worker to leave", shell_run_verb},
	{"elastic plan [VALUE...]",
	 "workers, steps and bids for an error and a deadline (elastic --help)",
	 shell_run_elastic_plan},
	{"elastic fit FILE [VALUE...]",
	 "A, B, beta and R(n) from a loss log (elastic --help)",
	 shell_run_elastic_fit},
	{"elastic show [FILTER...]", "same as show elastic", shell_run_elastic_show},
	{"elastic set JOB [KEY=VALUE...]",
	 "set the policy for the number of workers of a job: policy=manual n=4, n=6, ...",
	 shell_run_elastic_set},
	{"elastic price JOB VALUE", "set the present price of a worker per hour", shell_run_verb},
	{"check", "check this host for problems", shell_run_check},
	{"help", "this list", shell_run_help},
	{"exit", "leave the shell", shell_run_exit},
	{"quit", "leave the shell", shell_run_exit},
};
const size_t shell_form_count = sizeof shell_forms / sizeof shell_forms[0];

/* Words, and their places, at which several commands branch. */
static const struct {
	int index;
	const char *word, *help;
} beginnings[] = {
	{0, "show", "prints a table"},
	{0, "set", "changes a setting, of the controller or of a job"},
	{0, "pause", "stops granting, to all jobs or to one"},
	{0, "resume", "resumes granting, to all jobs or to one"},
	{0, "drain", "no new grants to or from a host"},
	{0, "undrain", "allows grants to and from a host again"},
	{0, "evict", "tells one worker or all workers of a job to leave"},
	{0, "elastic", "number of workers of a job: plans, policies, prices"},
	{2, "by", "sums by host, by job or by link"},
};

/* The command stops work of others: its words must not be abbreviated. */
static bool wants_whole_words(const struct shell_form *form) {
	static const char *const verbs[] = {"pause ", "drain ", "evict "};

	for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
		if (strncmp(form->words, verbs[i], strlen(verbs[i])) == 0)
			return true;
	return false;
}

/* The form's word at `index`, its bytes in *bytes; NULL past the last. */
static const char *form_word(const struct shell_form *form, int index, size_t *bytes) {
	const char *at = form->words;

	for (;;) {
		*bytes = strcspn(at, " ");
		if (index-- == 0)
			return at;
		if (!at[*bytes])
			return NULL;
		at += *bytes + 1;
	}
}

static bool is_literal(const char *word) {
	return islower((unsigned char)word[0]);
}

static bool is_rest(const char *word) {
	return word[0] == '[';
}

/* 2 the word itself, 1 a prefix of it or any word, 0 no. */
static int match(const struct shell_form *form, int index, const char *typed) {
	size_t bytes, length = strlen(typed);
	const char *word = form_word(form, index, &bytes);

	if (!word)
		return 0;
	if (!is_literal(word))
		return 1;
	if (length == 0 || length > bytes || memcmp(word, typed, length) != 0)
		return 0;
	return length == bytes ? 2 : 1;
}

/* The forms that still match words[0..count): keep[]. An exact literal has priority over abbreviations, and a literal
 * over `[FILTER...]`. Returns their number. */
static size_t narrow(int count, char **words, bool *keep) {
	bool open[FORMS_MAX] = {false}; /* within [FILTER...]: takes everything */
	size_t left = 0;

	for (size_t f = 0; f < shell_form_count; f++)
		keep[f] = true;
	for (int i = 0; i < count; i++) {
		bool exact = false;
		size_t bytes;

		for (size_t f = 0; f < shell_form_count; f++) {
			const char *word = open[f] ? NULL : form_word(&shell_forms[f], i, &bytes);

			open[f] |= word && is_rest(word);
			keep[f] = keep[f] && (open[f] || match(&shell_forms[f], i, words[i]));
			exact |= keep[f] && !open[f] && match(&shell_forms[f], i, words[i]) == 2;
		}
		for (size_t f = 0; exact && f < shell_form_count; f++)
			keep[f] = keep[f] && !open[f] && match(&shell_forms[f], i, words[i]) == 2;
	}
	for (size_t f = 0; f < shell_form_count; f++)
		left += keep[f];
	return left;
}

/* The first literal at which the remaining forms differ: the ambiguity. */
static int print_ambiguous(int index, const char *typed, const bool *keep) {
	char list[256] = "";
	size_t used = 0;

	for (size_t f = 0; f < shell_form_count; f++) {
		size_t bytes;
		const char *word = keep[f] ? form_word(&shell_forms[f], index, &bytes) : NULL;
		char one[32];

		if (!word || !is_literal(word))
			continue;
		(void)snprintf(one, sizeof one, "%.*s", (int)bytes, word);
		if (strstr(list, one) || used + bytes + 3 >= sizeof list)
			continue;
		used += (size_t
		)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", one);
	}
	return shell_error(EX_USAGE, "'%s': ambiguous: %s", typed, list);
}

static bool same_literal(const bool *keep, int index) {
	const char *first = NULL;
	size_t first_bytes = 0;

	for (size_t f = 0; f < shell_form_count; f++) {
		size_t bytes;
		const char *word = keep[f] ? form_word(&shell_forms[f], index, &bytes) : NULL;

		if (!word || !is_literal(word))
			continue;
		if (first && (bytes != first_bytes || memcmp(first, word, bytes) != 0))
			return false;
		first = word;
		first_bytes = bytes;
	}
	return true;
}

/* Reports the error in the words: the first one that does not match, or the missing one. */
static int print_wrong(int count, char **words) {
	bool keep[FORMS_MAX];

	for (int i = 1; i <= count; i++)
		if (narrow(i, words, keep) == 0)
			return shell_error(
				EX_USAGE,
				i == 1 ? "'%s': no such command (help)" :
					 "'%s': not expected here (? or help)",
				words[i - 1]
			);
	return shell_error(EX_USAGE, "'%s': incomplete (? or help)", words[count - 1]);
}

static bool complete(const struct shell_form *form, int count) {
	size_t bytes;
	const char *word = form_word(form, count, &bytes);
	int words = 0;

	while (form_word(form, words, &bytes))
		words++;
	/* Longer than the form only within [FILTER...]. */
	return (!word && count == words) || (word && is_rest(word))
		|| (count >= words && is_rest(form_word(form, words - 1, &bytes)));
}

static void print_next(void *owner, const char *word, const char *help) {
	(void)owner;
	(void)printf("  %-20s %s\n", word, help);
}

/* `?` as a word: on the command line, or in a file of commands. */
static int list_next(int count, char **words) {
	bool keep[FORMS_MAX];

	if (narrow(count, words, keep) == 0)
		return print_wrong(count, words);
	shell_next(count, words, print_next, NULL);
	return fflush(stdout) ? shell_error(EX_IOERR, "stdout") : 0;
}

int shell_do(struct shell_context *context, int count, char **words) {
	const struct shell_form *found = NULL;
	char literal[SHELL_WORDS_MAX][24], *normal[SHELL_WORDS_MAX];
	bool keep[FORMS_MAX];

	if (count > 0 && count <= SHELL_WORDS_MAX && strcmp(words[count - 1], "?") == 0)
		return list_next(count - 1, words);
	/* `show nodes json`, as in other shells. */
	if (count > 1 && count <= SHELL_WORDS_MAX && strcmp(words[count - 1], "json") == 0) {
		context->json = true;
		count--;
	}
	_Static_assert(sizeof shell_forms / sizeof shell_forms[0] <= FORMS_MAX, "keep[]");
	if (count < 1 || count > SHELL_WORDS_MAX)
		return shell_error(EX_USAGE, "command: 1 to %d words (help)", SHELL_WORDS_MAX);
	for (int i = 1; i <= count; i++)
		if (narrow(i, words, keep) > 1 && !same_literal(keep, i - 1))
			return print_ambiguous(i - 1, words[i - 1], keep);
	if (narrow(count, words, keep) == 0)
		return print_wrong(count, words);
	for (size_t f = 0; f < shell_form_count && !found; f++)
		if (keep[f] && complete(&shell_forms[f], count))
			found = &shell_forms[f];
	if (!found)
		return print_wrong(count, words);
	for (int i = 0; i < count; i++) {
		size_t bytes;
		const char *word = form_word(found, i, &bytes);

		normal[i] = words[i];
		if (!word || !is_literal(word))
			continue;
		if (wants_whole_words(found) && strlen(words[i]) < bytes)
			return shell_error(
				EX_USAGE, "'%s': write '%.*s' in full", words[i], (int)bytes, word
			);
		(void)snprintf(literal[i], sizeof literal[i], "%.*s", (int)bytes, word);
		normal[i] = literal[i];
	}
	return found->run(context, count, normal);
}

static bool offered(char seen[][32], size_t *count, const char *word) {
	for (size_t i = 0; i < *count; i++)
		if (strcmp(seen[i], word) == 0)
			return true;
	(void)snprintf(seen[(*count)++], sizeof seen[0], "%s", word);
	return false;
}

/* The help for the word at `index`: of the form that ends with it, of all that continue it, or of the only one that
 * does. */
static const char *word_help(const bool *keep, int index, const char *word) {
	const char *only = NULL;
	int count = 0;

	for (size_t f = 0; f < shell_form_count; f++) {
		size_t bytes, after;
		const char *own = keep[f] ? form_word(&shell_forms[f], index, &bytes) : NULL;
		const char *next;

		if (!own || bytes != strlen(word) || memcmp(own, word, bytes) != 0)
			continue;
		next = form_word(&shell_forms[f], index + 1, &after);
		if (!next || !is_literal(next))
			return shell_forms[f].help;
		only = shell_forms[f].help;
		count++;
	}
	for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
		if (beginnings[i].index == index && strcmp(beginnings[i].word, word) == 0)
			return beginnings[i].help;
	return count == 1 ? only : "";
}

void shell_next(
	int count,
	char **words,
	void (*add)(void *owner, const char *word, const char *help),
	void *owner
) {
	char seen[FORMS_MAX][32];
	size_t seen_count = 0;
	bool keep[FORMS_MAX];

	narrow(count, words, keep);
	for (size_t f = 0; f < shell_form_count; f++) {
		size_t bytes;
		const char *word = keep[f] ? form_word(&shell_forms[f], count, &bytes) : NULL;
		char one[32];

		if (keep[f] && !word && complete(&shell_forms[f], count)) {
			if (!offered(seen, &seen_count, "<enter>"))
				add(owner, "<enter>", shell_forms[f].help);
			continue;
		}
		if (!word)
			continue;
		(void)snprintf(one, sizeof one, "%.*s", (int)bytes, word);
		if (!offered(seen, &seen_count, one))
			add(owner, one, word_help(keep, count, one));
	}
}

void shell_help(FILE *file) {
	for (size_t f = 0; f < shell_form_count; f++)
		(void)fprintf(file, "  %-28s %s\n", shell_forms[f].words, shell_forms[f].help);
}
