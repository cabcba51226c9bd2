/* SPDX-License-Identifier: BSD-3-Clause */
/* The controller's history: what is written, what stays after a restart, limits, a disk that fails, damage. */
#include "hd_journal.h"
#include "hd_limits.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

struct place {
	char folder[64], path[96];
	pthread_mutex_t lock;
	unsigned bad, good;
	char said[1024];
	struct hd_journal_config config;
};

static void on_report(void *owner, bool good, const char *text) {
	struct place *place = owner;

	pthread_mutex_lock(&place->lock);
	place->bad += !good;
	place->good += good;
	(void)snprintf(place->said, sizeof place->said, "%s", text);
	pthread_mutex_unlock(&place->lock);
}

static void place_open(struct place *place) {
	memset(place, 0, sizeof *place);
	pthread_mutex_init(&place->lock, NULL);
	(void)snprintf(place->folder, sizeof place->folder, "/tmp/heddle-journal-XXXXXX");
	assert_non_null(mkdtemp(place->folder));
	(void)snprintf(place->path, sizeof place->path, "%s/j.db", place->folder);
	place->config = (struct hd_journal_config){
		.path = place->path,
		.epoch = 4,
		.interval_ms = 10,
		.report = on_report,
		.owner = place,
	};
}

static void place_close(struct place *place) {
	char command[128];

	(void)snprintf(command, sizeof command, "rm -r '%s'", place->folder);
	assert_int_equal(system(command), 0);
}

static struct hd_journal *open_journal(struct place *place) {
	struct hd_journal *journal = NULL;
	char error[256] = "";

	if (hd_journal_open(&place->config, &journal, error, sizeof error))
		fail_msg("journal: %s", error);
	return journal;
}

/* The one number of a query. */
static long long ask(const struct place *place, const char *sql) {
	sqlite3_stmt *statement;
	long long value;
	sqlite3 *db;

	assert_int_equal(sqlite3_open(place->path, &db), SQLITE_OK);
	if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
	value = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	sqlite3_close(db);
	return value;
}

static struct hd_record decision(uint32_t round) {
	return (struct hd_record){
		.at = HD_SECOND,
		.kind = HD_RECORD_DECISION,
		.what = "granted",
		.reason = "none",
		.rule = "shortest",
		.job = 7,
		.worker = 3,
		.worker_known = true,
		.round = round,
		.attempt = 1,
		.bytes = 1000,
		.position = round,
		.base = hd_version_make(1, 5),
		.finish_s = 0.25,
		.deadline = 4,
		.slack = 2,
		.rate_bps = 8e6,
	};
}

static uint64_t stat_of(struct hd_journal *journal, const char *name) {
	struct hd_stats *stats = hd_stats_create();
	struct hd_stats_row row;
	uint64_t value = UINT64_MAX;

	hd_journal_gather(journal, stats);
	row = hd_stats_row(stats, 0);
	for (uint16_t i = 0; i < row.group->count; i++)
		if (strcmp(row.group->stats[i].name, name) == 0)
			value = row.value[i].u64;
	hd_stats_destroy(stats);
	return value;
}

static void wait_for(struct hd_journal *journal, const char *name, uint64_t least) {
	const struct timespec nap = {.tv_nsec = 2000000};

	for (int i = 0; i < 10000 && stat_of(journal, name) < least; i++)
		nanosleep(&nap, NULL);
	assert_true(stat_of(journal, name) >= least);
}

static void add_one_of_each(struct hd_journal *journal) {
	const struct hd_record others[] = {
		{.kind = HD_RECORD_JOB,
		 .text = "t/mnist",
		 .job = 7,
		 .bytes = 99,
		 .deadline = 8,
		 .slack = 1},
		{.kind = HD_RECORD_PLAN, .count = 9, .granted = 2, .dropped = 1, .finish_s = 0.5},
		{.kind = HD_RECORD_NODE,
		 .what = "up",
		 .rule = "worker",
		 .reason = "none",
		 .text = "h1"},
		{.kind = HD_RECORD_NODE, .what = "down"},
		{.kind = HD_RECORD_COMMAND,
		 .what = "pause",
		 .reason = "none",
		 .text = "pause all",
		 .detail = "it's done"},
	};
	struct hd_record end = decision(1), drop = decision(2);

	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
		hd_journal_add(journal, &others[i]);
	hd_journal_add(journal, &end);
	drop.what = "dropped";
	drop.reason = "bound";
	hd_journal_add(journal, &drop);
	end.kind = HD_RECORD_COMPLETION;
	end.what = "applied";
	end.version = hd_version_make(1, 9);
	end.duration_s = 0.125;
	hd_journal_add(journal, &end);
}

/* Every kind, and a second life that goes on where the first one ended. */
static void test_all_kinds(void **state) {
	struct hd_journal *journal;
	struct place place;

	(void)state;
	place_open(&place);
	journal = open_journal(&place);
	add_one_of_each(journal);
	assert_int_equal(hd_journal_close(journal), 0);
	assert_int_equal(
		ask(&place, "SELECT count(*) FROM plans WHERE granted=2 AND covers_ms=500"), 1
	);
	assert_int_equal(ask(&place, "SELECT count(*) FROM nodes"), 2);
	assert_int_equal(
		ask(&place,
		    "SELECT count(*) FROM decisions WHERE what='dropped' AND reason='bound'"),
		1
	);
	assert_int_equal(ask(&place, "SELECT count(*) FROM commands WHERE answer='it''s done'"), 1);
	assert_int_equal(ask(&place, "SELECT delay FROM completions"), 4);
	/* The view puts a decision beside its end, by name. */
	assert_int_equal(
		ask(&place,
		    "SELECT count(*) FROM transfers WHERE job='t/mnist' AND worker=3 AND outcome='applied'"
		    " AND planned_ms=250 AND duration_ms=125"),
		1
	);
	/* Times are the calendar's. */
	assert_int_equal(
		ask(&place, "SELECT abs(began - strftime('%s','now')) < 100 FROM lives"), 1
	);
	place.config.epoch = 5;
	journal = open_journal(&place);
	add_one_of_each(journal);
	assert_int_equal(hd_journal_close(journal), 0);
	assert_int_equal(ask(&place, "SELECT count(*) FROM lives"), 2);
	assert_int_equal(ask(&place, "SELECT count(*) FROM decisions"), 4);
	assert_int_equal(ask(&place, "SELECT count(*) FROM jobs"), 1);
	assert_int_equal(ask(&place, "SELECT count(*) FROM transfers WHERE outcome='applied'"), 2);
	assert_int_equal(place.bad, 0);
	place_close(&place);
}

static void test_rows_are_bounded(void **state) {
	struct hd_journal *journal;
	struct place place;

	(void)state;
	place_open(&place);
	place.config.rows_max = 500;
	journal = open_journal(&place);
	for (uint32_t i = 1; i <= 20000; i++) {
		struct hd_record record = decision(i);

		hd_journal_add(journal, &record);
		if (i % 500 == 0)
			wait_for(journal, "written", i);
	}
	assert_int_equal(hd_journal_close(journal), 0);
	assert_true(ask(&place, "SELECT count(*) FROM decisions") <= 500 + 16 * 500);
	assert_int_equal(ask(&place, "SELECT max(round) FROM decisions"), 20000);
	place_close(&place);
}

static void test_bytes_are_bounded(void **state) {
	struct hd_journal *journal;
	struct place place;
	struct stat info;

	(void)state;
	place_open(&place);
	place.config.bytes_max = HD_JOURNAL_BYTES_MIN;
	journal = open_journal(&place);
	for (uint32_t i = 1; i <= 40000; i++) {
		struct hd_record record = decision(i);

		hd_journal_add(journal, &record);
		if (i % 1000 == 0)
			wait_for(journal, "written", i);
	}
	assert_true(stat_of(journal, "pruned") > 0);
	assert_int_equal(stat_of(journal, "lost"), 0);
	assert_int_equal(hd_journal_close(journal), 0);
	assert_int_equal(stat(place.path, &info), 0);
	assert_true(info.st_size <= (off_t)HD_JOURNAL_BYTES_MIN);
	assert_int_equal(ask(&place, "SELECT max(round) FROM decisions"), 40000);
	assert_true(ask(&place, "SELECT count(*) FROM decisions") > 2000);
	assert_int_equal(place.bad, 0);
	place_close(&place);
}

/* Nothing can be written for a while: one message, the callers do not block, nothing is lost; then it goes on. */
static void test_disk_fails(void **state) {
	struct rlimit none = {.rlim_cur = 0}, before;
	struct hd_journal *journal;
	struct place place;
	struct hd_record record = decision(1);

	(void)state;
	(void)signal(SIGXFSZ, SIG_IGN);
	place_open(&place);
	journal = open_journal(&place);
	hd_journal_add(journal, &record);
	wait_for(journal, "written", 1);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	none.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	for (uint32_t i = 2; i <= 1000; i++) {
		record = decision(i);
		hd_journal_add(journal, &record);
	}
	wait_for(journal, "errors", 2);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(place.bad, 1);
	assert_non_null(strstr(place.said, "j.db"));
	wait_for(journal, "written", 1000);
	assert_int_equal(place.good, 1);
	assert_int_equal(stat_of(journal, "lost"), 0);
	assert_int_equal(hd_journal_close(journal), 0);
	assert_int_equal(ask(&place, "SELECT count(*) FROM decisions"), 1000);
	place_close(&place);
}

/* The disk stays full: the ring fills, what is new is lost and counted; the end is told. */
static void test_disk_stays_full(void **state) {
	struct rlimit none = {.rlim_cur = 0}, before;
	struct hd_journal *journal;
	struct place place;
	struct hd_record record = decision(1);

	(void)state;
	(void)signal(SIGXFSZ, SIG_IGN);
	place_open(&place);
	journal = open_journal(&place);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	none.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	for (uint32_t i = 0; i < HD_JOURNAL_RECORDS_MAX + 100; i++)
		hd_journal_add(journal, &record);
	wait_for(journal, "errors", 1);
	assert_int_equal(stat_of(journal, "lost"), 100);
	assert_int_equal(stat_of(journal, "waiting"), HD_JOURNAL_RECORDS_MAX);
	assert_int_equal(hd_journal_close(journal), -EIO);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	place_close(&place);
}

static void test_damage(void **state) {
	struct hd_record record = decision(1);
	struct hd_journal *journal;
	struct place place;
	char command[256], error[256];
	FILE *file;

	(void)state;
	place_open(&place);
	/* No database at all. */
	file = fopen(place.path, "w");
	for (int i = 0; i < 1000; i++)
		(void)fputs("this is not a database", file);
	(void)fclose(file);
	journal = open_journal(&place);
	hd_journal_add(journal, &record);
	assert_int_equal(hd_journal_close(journal), 0);
	assert_int_equal(place.bad, 1);
	assert_non_null(strstr(place.said, "moved to"));
	assert_int_equal(ask(&place, "SELECT count(*) FROM decisions"), 1);
	/* One that was damaged in the middle. */
	journal = open_journal(&place);
	for (uint32_t i = 0; i < 5000; i++)
		hd_journal_add(journal, &record);
	assert_int_equal(hd_journal_close(journal), 0);
	(void)snprintf(
		command,
		sizeof command,
		"dd if=/dev/urandom of='%s' bs=4096 seek=9 count=20 conv=notrunc 2>/dev/null",
		place.path
	);
	assert_int_equal(system(command), 0);
	(void)sleep(1); /* another name */
	journal = open_journal(&place);
	assert_int_equal(place.bad, 2);
	assert_int_equal(hd_journal_close(journal), 0);
	/* One of the future is left alone. */
	assert_int_equal(ask(&place, "SELECT count(*) FROM decisions"), 0);
	{
		sqlite3 *db;

		assert_int_equal(sqlite3_open(place.path, &db), SQLITE_OK);
		assert_int_equal(
			sqlite3_exec(db, "PRAGMA user_version = 2", NULL, NULL, NULL), SQLITE_OK
		);
		sqlite3_close(db);
	}
	assert_int_equal(hd_journal_open(&place.config, &journal, error, sizeof error), -EPROTO);
	assert_non_null(strstr(error, "newer version"));
	place.config.path = "/nowhere/j.db";
	assert_int_equal(hd_journal_open(&place.config, &journal, error, sizeof error), -ENOENT);
	place_close(&place);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_kinds),
		cmocka_unit_test(test_rows_are_bounded),
		cmocka_unit_test(test_bytes_are_bounded),
		cmocka_unit_test(test_disk_fails),
		cmocka_unit_test(test_disk_stays_full),
		cmocka_unit_test(test_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
