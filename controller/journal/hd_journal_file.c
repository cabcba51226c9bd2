/* SPDX-License-Identifier: BSD-3-Clause */
/* The journal's file: schema, inserts, and the limit of its size. */
#include "hd_journal_private.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SCHEMA_VERSION 1
#define BUSY_TIMEOUT_MS 2000 /* for a reader's checkpoint */
#define JOBS_MAX 4096
#define CHECK_BYTES_MAX (UINT64_C(64) << 20) /* checking a larger file would delay the start */

static const char schema[]
	= "CREATE TABLE lives(life INTEGER PRIMARY KEY, epoch INTEGER, began REAL);"
	  "CREATE TABLE jobs(job INTEGER PRIMARY KEY, name TEXT, model_bytes INTEGER, tau_max INTEGER,"
	  " weight REAL, first_at REAL, last_at REAL);"
	  "CREATE TABLE plans(id INTEGER PRIMARY KEY, life INTEGER, at REAL, pending INTEGER,"
	  " granted INTEGER, dropped INTEGER, covers_ms REAL);"
	  "CREATE TABLE decisions(id INTEGER PRIMARY KEY, life INTEGER, at REAL, what TEXT, job INTEGER,"
	  " worker INTEGER, direction TEXT, round INTEGER, attempt INTEGER, bytes INTEGER,"
	  " position INTEGER, base INTEGER, reason TEXT, rule TEXT, start_ms REAL, finish_ms REAL,"
	  " runner_up_ms REAL, deadline INTEGER, slack REAL, rate_mbps REAL);"
	  "CREATE TABLE completions(id INTEGER PRIMARY KEY, life INTEGER, at REAL, outcome TEXT,"
	  " reason TEXT, job INTEGER, worker INTEGER, direction TEXT, round INTEGER, attempt INTEGER,"
	  " bytes INTEGER, position INTEGER, base INTEGER, version INTEGER, delay INTEGER,"
	  " duration_ms REAL, rate_mbps REAL);"
	  "CREATE TABLE nodes(id INTEGER PRIMARY KEY, life INTEGER, at REAL, what TEXT, role TEXT,"
	  " host TEXT, job INTEGER, worker INTEGER, reason TEXT);"
	  "CREATE TABLE commands(id INTEGER PRIMARY KEY, life INTEGER, at REAL, who TEXT, verb TEXT, words TEXT,"
	  " result TEXT, affected INTEGER, answer TEXT);"
	  /* Each transfer with its decision and its end, with names and calendar times. */
	  "CREATE VIEW transfers AS SELECT d.life, datetime(d.at, 'unixepoch', 'localtime') AS granted,"
	  " j.name AS job, d.worker, d.direction, d.round, d.attempt, d.bytes, d.position, d.rule,"
	  " d.finish_ms AS planned_ms, c.outcome, c.reason, c.delay, c.duration_ms,"
	  " d.rate_mbps AS granted_mbps, c.rate_mbps FROM decisions d LEFT JOIN jobs j ON j.job = d.job"
	  " LEFT JOIN completions c ON c.life = d.life AND c.job = d.job AND c.worker = d.worker"
	  " AND c.direction = d.direction AND c.round = d.round AND c.attempt = d.attempt"
	  " AND c.outcome != 'pending' WHERE d.what = 'granted';"
	  "PRAGMA user_version = 1;";

static const char *const inserts[HD_RECORD_KINDS] = {
	[HD_RECORD_JOB]
	= "INSERT INTO jobs VALUES(?1,?2,?3,?4,?5,?6,?6) ON CONFLICT(job) DO UPDATE SET"
	  " name=?2, model_bytes=?3, tau_max=?4, weight=?5, last_at=?6",
	[HD_RECORD_PLAN] = "INSERT INTO plans VALUES(NULL,?1,?2,?3,?4,?5,?6)",
	[HD_RECORD_DECISION]
	= "INSERT INTO decisions VALUES(NULL,?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,"
	  "?13,?14,?15,?16,?17,?18,?19)",
	[HD_RECORD_COMPLETION]
	= "INSERT INTO completions VALUES(NULL,?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,"
	  "?12,?13,?14,?15,?16)",
	[HD_RECORD_NODE] = "INSERT INTO nodes VALUES(NULL,?1,?2,?3,?4,?5,?6,?7,?8)",
	[HD_RECORD_COMMAND] = "INSERT INTO commands VALUES(NULL,?1,?2,?3,?4,?5,?6,?7,?8)",
};

static const char *const bounded[]
	= {"lives", "plans", "decisions", "completions", "nodes", "commands"};

/* --- binding: columns one after the other --- */

struct binder {
	sqlite3_stmt *statement;
	int column;
};

static void put_integer(struct binder *b, uint64_t value) {
	(void)sqlite3_bind_int64(b->statement, b->column++, (sqlite3_int64)value);
}

/* Not finite: NULL, as SQLite has no NaN. */
static void put_real(struct binder *b, double value) {
	if (isfinite(value))
		(void)sqlite3_bind_double(b->statement, b->column++, value);
	else
		(void)sqlite3_bind_null(b->statement, b->column++);
}

static void put_text(struct binder *b, const char *text) {
	(void)sqlite3_bind_text(b->statement, b->column++, text ? text : "", -1, SQLITE_STATIC);
}

static void put_worker(struct binder *b, const struct hd_record *r) {
	if (r->worker_known)
		put_integer(b, r->worker);
	else
		(void)sqlite3_bind_null(b->statement, b->column++);
}

static const char *const directions[] = {"push", "pull", "replicate", "reduce"};

static void put_which(struct binder *b, const struct hd_record *r) {
	put_integer(b, r->job);
	put_worker(b, r);
	put_text(b, r->direction < 4 ? directions[r->direction] : "");
	put_integer(b, r->round);
	put_integer(b, r->attempt);
	put_integer(b, r->bytes);
	put_integer(b, r->position);
	put_integer(b, hd_version_counter(r->base));
}

static void bind_decision(struct binder *b, const struct hd_record *r) {
	put_text(b, r->what);
	put_which(b, r);
	put_text(b, r->reason);
	put_text(b, r->rule);
	put_real(b, r->start_s * 1e3);
	put_real(b, r->finish_s * 1e3);
	put_real(b, r->runner_up_s > 0 ? r->runner_up_s * 1e3 : NAN);
	put_integer(b, r->deadline);
	put_real(b, r->slack);
	put_real(b, r->rate_bps / 1e6);
}

static void bind_completion(struct binder *b, const struct hd_record *r) {
	uint64_t version = hd_version_counter(r->version), base = hd_version_counter(r->base);

	put_text(b, r->what);
	put_text(b, r->reason);
	put_which(b, r);
	put_integer(b, version);
	if (!r->direction && strcmp(r->what, "applied") == 0 && version >= base)
		put_integer(b, version - base);
	else
		(void)sqlite3_bind_null(b->statement, b->column++);
	put_real(b, r->duration_s * 1e3);
	put_real(b, r->rate_bps / 1e6);
}

static void bind_job(struct binder *b, const struct hd_record *r, double at) {
	put_integer(b, r->job);
	put_text(b, r->text);
	put_integer(b, r->bytes);
	put_integer(b, r->deadline);
	put_real(b, r->slack);
	put_real(b, at);
}

static void bind_others(struct binder *b, const struct hd_record *r) {
	switch (r->kind) {
	case HD_RECORD_PLAN:
		put_integer(b, r->count);
		put_integer(b, r->granted);
		put_integer(b, r->dropped);
		put_real(b, r->finish_s * 1e3);
		break;
	case HD_RECORD_NODE:
		put_text(b, r->what);
		put_text(b, r->rule);
		put_text(b, r->text);
		put_integer(b, r->job);
		put_worker(b, r);
		put_text(b, r->reason);
		break;
	default:
		put_text(b, r->who);
		put_text(b, r->what);
		put_text(b, r->text);
		put_text(b, r->reason);
		put_integer(b, r->count);
		put_text(b, r->detail);
	}
}

static int write_record(struct journal_file *file, const struct hd_record *r, double offset_s) {
	struct binder b = {file->insert[r->kind], 1};
	double at = (double)r->at / 1e9 + offset_s;
	int code;

	if (r->kind == HD_RECORD_JOB) {
		bind_job(&b, r, at);
	} else {
		put_integer(&b, (uint64_t)file->run);
		put_real(&b, at);
		if (r->kind == HD_RECORD_DECISION)
			bind_decision(&b, r);
		else if (r->kind == HD_RECORD_COMPLETION)
			bind_completion(&b, r);
		else
			bind_others(&b, r);
	}
	code = sqlite3_step(b.statement);
	(void)sqlite3_reset(b.statement);
	return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* --- transactions --- */

static int execute(const struct journal_file *file, const char *sql) {
	return sqlite3_exec(file->db, sql, NULL, NULL, NULL);
}

static int write_all(
	struct journal_file *file,
	const struct hd_record *const *records,
	size_t count,
	double offset_s
) {
	int code = execute(file, "BEGIN IMMEDIATE");

	for (size_t i = 0; i < count && code == SQLITE_OK; i++)
		code = write_record(file, records[i], offset_s);
	if (code == SQLITE_OK)
		code = execute(file, "COMMIT");
	if (code != SQLITE_OK && !sqlite3_get_autocommit(file->db)) {
		int why = code;

		(void)execute(file, "ROLLBACK");
		return why;
	}
	return code;
}

/* Removes the oldest rows of a table beyond `keep`. */
static int prune_table(struct journal_file *file, const char *table, uint64_t keep) {
	char sql[256];
	int code;

	(void)snprintf(
		sql,
		sizeof sql,
		"DELETE FROM %s WHERE rowid <= (SELECT max(rowid) FROM %s) - %llu",
		table,
		table,
		(unsigned long long)keep
	);
	code = execute(file, sql);
	if (code == SQLITE_OK)
		file->pruned += (uint64_t)sqlite3_changes64(file->db);
	return code;
}

int journal_file_prune(struct journal_file *file) {
	char sql[160];
	int code = SQLITE_OK;

	for (size_t i = 0; i < sizeof bounded / sizeof bounded[0] && code == SQLITE_OK; i++)
		code = prune_table(file, bounded[i], file->rows_max);
	(void)snprintf(
		sql,
		sizeof sql,
		"DELETE FROM jobs WHERE job IN (SELECT job FROM jobs ORDER BY last_at DESC LIMIT -1 OFFSET %d)",
		JOBS_MAX
	);
	return code == SQLITE_OK ? execute(file, sql) : code;
}

static uint64_t row_span(const struct journal_file *file, const char *table) {
	sqlite3_stmt *statement;
	uint64_t span = 0;
	char sql[96];

	(void)snprintf(sql, sizeof sql, "SELECT max(rowid) - min(rowid) + 1 FROM %s", table);
	if (sqlite3_prepare_v2(file->db, sql, -1, &statement, NULL) != SQLITE_OK)
		return 0;
	if (sqlite3_step(statement) == SQLITE_ROW)
		span = (uint64_t)sqlite3_column_int64(statement, 0);
	(void)sqlite3_finalize(statement);
	return span;
}

/* The file has reached its limit: removes a quarter of each table. */
static int make_room(struct journal_file *file) {
	int code = SQLITE_OK;

	for (size_t i = 0; i < sizeof bounded / sizeof bounded[0] && code == SQLITE_OK; i++)
		code = prune_table(file, bounded[i], row_span(file, bounded[i]) * 3 / 4);
	return code;
}

int journal_file_write(
	struct journal_file *file,
	const struct hd_record *const *records,
	size_t count,
	double offset_s
) {
	int code = write_all(file, records, count, offset_s);

	/* At the limit of the file the oldest rows are removed, but not because the disk is full. */
	if (code == SQLITE_FULL && journal_file_bytes(file) >= file->bytes_max / 20 * 19
	    && make_room(file) == SQLITE_OK)
		code = write_all(file, records, count, offset_s);
	return code;
}

uint64_t journal_file_bytes(const struct journal_file *file) {
	sqlite3_stmt *statement;
	uint64_t bytes = 0;

	if (!file->db)
		return 0;
	if (sqlite3_prepare_v2(
		    file->db,
		    "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
		    -1,
		    &statement,
		    NULL
	    )
	    != SQLITE_OK)
		return 0;
	if (sqlite3_step(statement) == SQLITE_ROW)
		bytes = (uint64_t)sqlite3_column_int64(statement, 0);
	(void)sqlite3_finalize(statement);
	return bytes;
}

/* --- opening --- */

static int user_version(const struct journal_file *file, int *version) {
	sqlite3_stmt *statement;
	int code = sqlite3_prepare_v2(file->db, "PRAGMA user_version", -1, &statement, NULL);

	if (code != SQLITE_OK)
		return code;
	code = sqlite3_step(statement);
	*version = sqlite3_column_int(statement, 0);
	(void)sqlite3_finalize(statement);
	return code == SQLITE_ROW ? SQLITE_OK : code;
}

static int on_check(void *owner, int columns, char **values, char **names) {
	(void)names;
	*(bool *)owner = columns == 1 && values[0] && strcmp(values[0], "ok") == 0;
	return 0;
}

/* Reads every page, so that damage is found now, not by an operator's query. */
static int quick_check(const struct journal_file *file) {
	bool good = false;
	int code = sqlite3_exec(file->db, "PRAGMA quick_check(1)", on_check, &good, NULL);

	return code == SQLITE_OK && !good ? SQLITE_CORRUPT : code;
}

static int begin_run(struct journal_file *file, uint16_t epoch) {
	struct timespec now;
	char sql[128];
	int code;

	clock_gettime(CLOCK_REALTIME, &now);
	(void)snprintf(
		sql,
		sizeof sql,
		"INSERT INTO lives VALUES(NULL, %u, %lld.%03ld)",
		epoch,
		(long long)now.tv_sec,
		now.tv_nsec / 1000000
	);
	code = execute(file, sql);
	file->run = sqlite3_last_insert_rowid(file->db);
	return code;
}

/* A sqlite code; -1: made by a newer version. */
static int set_up(struct journal_file *file, uint16_t epoch) {
	char sql[128];
	int version = 0, code;

	(void)sqlite3_busy_timeout(file->db, BUSY_TIMEOUT_MS);
	code = execute(file, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;");
	(void)snprintf(
		sql,
		sizeof sql,
		"PRAGMA max_page_count = %llu; PRAGMA journal_size_limit = 4194304;",
		(unsigned long long)(file->bytes_max / 4096)
	);
	if (code == SQLITE_OK)
		code = execute(file, sql);
	if (code == SQLITE_OK)
		code = user_version(file, &version);
	if (code == SQLITE_OK && version > SCHEMA_VERSION)
		return -1;
	if (code == SQLITE_OK && version && journal_file_bytes(file) <= CHECK_BYTES_MAX)
		code = quick_check(file);
	if (code == SQLITE_OK && !version) {
		code = execute(file, "BEGIN");
		code = code == SQLITE_OK ? execute(file, schema) : code;
		code = code == SQLITE_OK ? execute(file, "COMMIT") : code;
	}
	for (int kind = 0; kind < HD_RECORD_KINDS && code == SQLITE_OK; kind++)
		code = sqlite3_prepare_v3(
			file->db,
			inserts[kind],
			-1,
			SQLITE_PREPARE_PERSISTENT,
			&file->insert[kind],
			NULL
		);
	return code == SQLITE_OK ? begin_run(file, epoch) : code;
}

static int try_open(struct journal_file *file, uint16_t epoch) {
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
	/* SQLite would make it readable for all users; its other files get the mode of this one. */
	int fd = open(file->path, O_RDWR | O_CREAT | O_CLOEXEC, 0640), code;

	if (fd >= 0)
		close(fd);
	code = sqlite3_open_v2(file->path, &file->db, flags, NULL);

	return code == SQLITE_OK ? set_up(file, epoch) : code;
}

/* With its WAL, so that it can still be recovered. */
static void move_aside(const struct journal_file *file, const struct hd_journal_config *config) {
	static const char *const ends[] = {"", "-wal", "-shm"};
	char from[4096], to[4096], text[1100];

	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
		(void)snprintf(from, sizeof from, "%s%s", file->path, ends[i]);
		(void)snprintf(
			to,
			sizeof to,
			"%s.damaged-%lld%s",
			file->path,
			(long long)time(NULL),
			ends[i]
		);
		if (rename(from, to) == 0 && i == 0) {
			(void
			)snprintf(text, sizeof text, "%.500s: damaged: moved to %.500s", from, to);
			config->report(config->owner, false, text);
		}
	}
}

static int to_errno(int code, int system) {
	if (code == -1)
		return -EPROTO;
	if (code == SQLITE_CANTOPEN || code == SQLITE_PERM || code == SQLITE_READONLY)
		return system ? -system : -EACCES;
	return code == SQLITE_FULL || system == ENOSPC || system == EDQUOT ? -ENOSPC : -EIO;
}

int journal_file_open(
	struct journal_file *file,
	const struct hd_journal_config *config,
	char *error,
	size_t error_bytes
) {
	int code;

	file->path = config->path;
	file->rows_max = config->rows_max ? config->rows_max : HD_JOURNAL_ROWS;
	file->bytes_max = config->bytes_max ? config->bytes_max : HD_JOURNAL_BYTES;
	if (file->bytes_max < HD_JOURNAL_BYTES_MIN)
		file->bytes_max = HD_JOURNAL_BYTES_MIN;
	code = try_open(file, config->epoch);
	if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) {
		journal_file_close(file);
		move_aside(file, config);
		code = try_open(file, config->epoch);
	}
	if (code == SQLITE_OK)
		return 0;
	if (code == -1)
		(void)snprintf(
			error, error_bytes, "made by a newer version of heddle (%d)", SCHEMA_VERSION
		);
	else
		(void)snprintf(error, error_bytes, "%s", sqlite3_errmsg(file->db));
	return to_errno(code, sqlite3_system_errno(file->db));
}

void journal_file_close(struct journal_file *file) {
	for (int kind = 0; kind < HD_RECORD_KINDS; kind++) {
		(void)sqlite3_finalize(file->insert[kind]);
		file->insert[kind] = NULL;
	}
	(void)sqlite3_close(file->db);
	file->db = NULL;
}
