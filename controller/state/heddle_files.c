/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_epoch_file.h"
#include "hd_state_file.h"
#include "heddle_files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define TOPOLOGY_BYTES_MAX (16 << 20)
#define KEPT_BYTES_MAX (1 << 20)

static char *read_file(const char *path, size_t most, const char **what) {
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t bytes = 0;

	if (!file) {
		*what = strerror(errno);
		return NULL;
	}
	text = malloc(most + 1);
	if (text)
		bytes = fread(text, 1, most + 1, file);
	*what = !text        ? "no memory" :
		ferror(file) ? "cannot be read" :
		bytes > most ? "too long" :
			       NULL;
	(void)fclose(file);
	if (*what) {
		free(text);
		return NULL;
	}
	text[bytes] = '\0';
	return text;
}

int heddle_topology(struct hd_log *log, const char *path, struct hd_topology **topology) {
	char error[256];
	const char *what;
	char *text;
	int status;

	if (!path) {
		if (hd_topology_create_star(topology))
			return hd_log_fail(log, EX_OSERR, "no memory");
		return 0;
	}
	text = read_file(path, TOPOLOGY_BYTES_MAX, &what);
	if (!text)
		return hd_log_fail(log, EX_NOINPUT, "--topology: %s: %s", path, what);
	status = hd_topology_parse(text, topology, error, sizeof error);
	free(text);
	return status ? hd_log_fail(log, EX_DATAERR, "--topology: %s: %s", path, error) : 0;
}

static int exit_code(int status) {
	switch (status) {
	case -EBADMSG:
	case -ERANGE:
		return EX_DATAERR;
	case -ENAMETOOLONG:
		return EX_USAGE;
	case -EIO:
	case -ENOSPC:
		return EX_IOERR;
	default:
		return EX_CANTCREAT;
	}
}

int heddle_take_state(struct hd_log *log, const char *state_dir) {
	int fd = state_dir ? hd_state_take(state_dir) : 0;

	if (fd == -EBUSY)
		return hd_log_fail(
			log, EX_UNAVAILABLE, "--state-dir: %s: another controller has it", state_dir
		);
	return fd < 0 ?
		hd_log_fail(log, exit_code(fd), "--state-dir: %s: %s", state_dir, strerror(-fd)) :
		0;
}

int heddle_next_epoch(struct hd_log *log, const char *state_dir, uint16_t *epoch) {
	char error[512];
	int status;

	*epoch = 1;
	if (!state_dir) {
		hd_log_write(
			log,
			HD_LOG_WARNING,
			"state-dir",
			NULL,
			"no --state-dir: nodes cannot tell a restart from a first start"
		);
		return 0;
	}
	status = hd_epoch_file_next(state_dir, epoch, error, sizeof error);
	if (status == 0)
		return 0;
	return hd_log_fail(log, exit_code(status), "--state-dir: %s", error);
}

int heddle_read_kept(struct hd_log *log, const char *state_dir, char **text) {
	char path[PATH_MAX];
	const char *what;

	*text = NULL;
	if (!state_dir)
		return 0;
	if (snprintf(path, sizeof path, "%s/%s", state_dir, HEDDLE_KEPT_NAME) >= (int)sizeof path)
		return hd_log_fail(log, EX_USAGE, "--state-dir: too long (PATH_MAX)");
	if (access(path, F_OK) < 0 && errno == ENOENT)
		return 0;
	*text = read_file(path, KEPT_BYTES_MAX, &what);
	return *text ? 0 : hd_log_fail(log, EX_NOINPUT, "--state-dir: %s: %s", path, what);
}

int heddle_refuse_kept(struct hd_log *log, const char *state_dir, int status, const char *error) {
	return hd_log_fail(
		log,
		status == -ENOMEM ? EX_OSERR : EX_DATAERR,
		"--state-dir: %s/%s: %s; repair the file, or remove it to start without the operators' settings",
		state_dir,
		HEDDLE_KEPT_NAME,
		error
	);
}
