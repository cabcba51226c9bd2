/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segments of shared memory: files in /dev/shm, named by a random token that the controller gives to the members.
 *
 *   made      without a name; its pages are reserved (a full /dev/shm is an error here, not a signal later), its head
 *             is written; then it gets its name, unless another member was faster
 *   mapped    by each member; the last one removes the name
 *   killed    while the name exists: the next process of this user that shares memory removes it. A process that has
 *             a segment mapped holds a lock on it; one without a lock was left, unless it is very young
 */
#include "hd_kernels.h"
#include "heddle_segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define FOLDER "/dev/shm"
#define PREFIX "heddle-"
#define NAME_BYTES 64
#define TMPFS 0x01021994
#define SWEEP_AGE_S 10
#define FNV_BASIS UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

/* --- identity ------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, const void *data, size_t bytes) {
	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ ((const uint8_t *)data)[i]) * FNV_PRIME;
	return hash;
}

/* The running kernel; containers have a /dev/shm of their own, unless they are told to share it. */
uint64_t heddle_segment_identity(const char *host) {
	char boot[NAME_BYTES] = "";
	const char *kernels = hd_kernels_name(); /* which differ in the bits of a NaN */
	const uid_t user = geteuid();
	uint64_t hash = FNV_BASIS;
	struct statfs system;
	struct stat folder;
	ssize_t got;
	int fd;

	if (stat(FOLDER, &folder) < 0 || statfs(FOLDER, &system) < 0 || system.f_type != TMPFS
	    || access(FOLDER, R_OK | W_OK | X_OK) < 0)
		return 0;
	fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	got = read(fd, boot, sizeof boot);
	close(fd);
	if (got <= 0)
		return 0;
	hash = mix(hash, boot, (size_t)got);
	hash = mix(hash, &user, sizeof user);
	hash = mix(hash, &folder.st_dev, sizeof folder.st_dev);
	hash = mix(hash, &folder.st_ino, sizeof folder.st_ino); /* two folders of one file system */
	hash = mix(hash, host, strlen(host));
	hash = mix(hash, kernels, strlen(kernels));
	return hash != 0 ? hash : 1;
}

/* --- a segment ------------------------------------------------------------------------------ */

static void set_path(char path[NAME_BYTES], uint64_t token) {
	(void)snprintf(path, NAME_BYTES, FOLDER "/" PREFIX "%016" PRIx64, token);
}

/* Locks and maps what fd is of. */
static int map(struct heddle_segment *s, int fd) {
	s->fd = fd;
	s->memory = MAP_FAILED;
	if (flock(fd, LOCK_SH | LOCK_NB) < 0)
		return -errno;
	s->memory = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return s->memory == MAP_FAILED ? -errno : 0;
}

static void unmap(struct heddle_segment *s) {
	if (s->memory != MAP_FAILED)
		(void)munmap(s->memory, s->bytes);
	close(s->fd);
	*s = (struct heddle_segment){.fd = -1};
}

/* -EEXIST: another member was faster. */
static int make(struct heddle_segment *s, const char *path, uint64_t token, uint32_t members) {
	const uint32_t piece_bytes = hd_shared_piece_bytes(members);
	const int fd = open(FOLDER, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	char self[NAME_BYTES];
	int rc;

	if (fd < 0)
		return -errno;
	rc = -posix_fallocate(fd, 0, (off_t)s->bytes);
	if (rc < 0) {
		close(fd);
		return rc;
	}
	rc = map(s, fd);
	if (rc == 0) {
		hd_shared_init(s->memory, token, members, piece_bytes);
		(void)snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
		if (linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0)
			rc = -errno;
	}
	if (rc < 0)
		unmap(s);
	return rc;
}

/* -ENOENT: no member has made it yet. */
static int find(struct heddle_segment *s, const char *path) {
	const int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct stat file;
	int rc;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &file) < 0 || !S_ISREG(file.st_mode) || file.st_uid != geteuid()
	    || file.st_size != (off_t)s->bytes) {
		close(fd);
		return -EPROTO;
	}
	rc = map(s, fd);
	if (rc < 0)
		unmap(s);
	return rc;
}

int heddle_segment_open(struct heddle_segment *s, uint64_t token, uint32_t members) {
	const uint32_t piece_bytes = hd_shared_piece_bytes(members);
	const size_t bytes = hd_shared_bytes(members, piece_bytes);
	char path[NAME_BYTES];
	int rc;

	set_path(path, token);
	*s = (struct heddle_segment){.bytes = bytes, .fd = -1};
	rc = find(s, path);
	if (rc == -ENOENT) {
		s->bytes = bytes;
		rc = make(s, path, token, members);
	}
	if (rc == -EEXIST) {
		s->bytes = bytes;
		rc = find(s, path);
	}
	if (rc < 0)
		return rc;
	rc = hd_shared_attach(&s->map, s->memory, token, members, piece_bytes);
	if (rc < 0) {
		unmap(s);
		return rc;
	}
	s->token = token;
	if (atomic_fetch_add(&s->map.head->mapped, 1) + 1 >= members)
		(void)unlink(path);
	return 0;
}

void heddle_segment_close(struct heddle_segment *s) {
	char path[NAME_BYTES];

	if (s->token == 0)
		return;
	/* Its rounds are over: who has not mapped it does not need it. */
	if (atomic_load(&s->map.head->mapped) < s->map.members) {
		set_path(path, s->token);
		(void)unlink(path);
	}
	unmap(s);
}

/* --- what was left -------------------------------------------------------------------------- */

static void remove_if_left(int folder, const char *name) {
	/* Not to wait for another user's FIFO, or a file under a lease. */
	const int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat file;

	if (fd < 0)
		return;
	if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_uid == geteuid()
	    && file.st_ctime + SWEEP_AGE_S < time(NULL) && flock(fd, LOCK_EX | LOCK_NB) == 0)
		(void)unlinkat(folder, name, 0);
	close(fd);
}

/* Names that set_path() makes. */
static bool is_ours(const char *name) {
	const size_t prefix = strlen(PREFIX);

	return strncmp(name, PREFIX, prefix) == 0 && strlen(name) == prefix + 16
		&& strspn(name + prefix, "0123456789abcdef") == 16;
}

void heddle_segment_sweep(void) {
	DIR *folder = opendir(FOLDER);
	struct dirent *entry;

	if (!folder)
		return;
	while ((entry = readdir(folder)))
		if (is_ours(entry->d_name))
			remove_if_left(dirfd(folder), entry->d_name);
	closedir(folder);
}
