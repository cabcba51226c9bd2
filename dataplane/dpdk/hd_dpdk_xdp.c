/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DPDK loads, attaches and removes the program (its devarg xdp_prog). This file provides it, sets the address to steer,
 * and removes it if a process was killed before DPDK could.
 */
#include "hd_dpdk_xdp.h"
#include "hd_steer.h"
#include "steer.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAPS_MAX 8

int dpdk_xdp_file(void) {
	size_t bytes, done = 0;
	const char *object = steer_bpf__elf_bytes(&bytes);
	int fd = memfd_create("heddle-steer", MFD_CLOEXEC);

	while (fd >= 0 && done < bytes) {
		ssize_t n = write(fd, object + done, bytes - done);

		if (n <= 0) {
			int code = n < 0 ? -errno : -EIO;

			close(fd);
			return code;
		}
		done += (size_t)n;
	}
	return fd < 0 ? -errno : fd;
}

/* When a process started, in ticks since boot; 0: there is none. */
static uint64_t started_at(uint32_t pid) {
	char path[32], line[1024] = "";
	unsigned long long ticks = 0;
	const char *at;
	FILE *file;

	(void)snprintf(path, sizeof path, "/proc/%u/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (!fgets(line, sizeof line, file))
		line[0] = '\0';
	(void)fclose(file);
	at = strrchr(line, ')'); /* the name may contain anything */
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at)
		ticks = strtoull(at + 1, NULL, 10);
	return ticks;
}

/* Finds the program on an interface: its descriptor and its description. -ENOENT: there is none. */
static int find_program_on(int interface, struct bpf_prog_info *info, uint32_t maps[MAPS_MAX]) {
	uint32_t id = 0, bytes = sizeof *info;
	int fd, code = bpf_xdp_query_id(interface, 0, &id);

	if (code < 0 || id == 0)
		return code < 0 ? code : -ENOENT;
	fd = bpf_prog_get_fd_by_id(id);
	if (fd < 0)
		return -errno;
	memset(info, 0, sizeof *info);
	info->nr_map_ids = MAPS_MAX;
	info->map_ids = (uint64_t)(uintptr_t)maps;
	if (bpf_obj_get_info_by_fd(fd, info, &bytes) < 0) {
		code = -errno;
		close(fd);
		return code;
	}
	return fd;
}

/* Finds a program's map of this name, or -ENOENT. */
static int find_map(const struct bpf_prog_info *info, const uint32_t *maps, const char *name) {
	for (uint32_t i = 0; i < info->nr_map_ids && i < MAPS_MAX; i++) {
		struct bpf_map_info map = {0};
		uint32_t bytes = sizeof map;
		int fd = bpf_map_get_fd_by_id(maps[i]);

		if (fd < 0)
			continue;
		if (bpf_obj_get_info_by_fd(fd, &map, &bytes) == 0 && strcmp(map.name, name) == 0)
			return fd;
		close(fd);
	}
	return -ENOENT;
}

/* The process that owns the sockets, 0 if it has ended. */
static uint32_t living_owner(const struct bpf_prog_info *info, const uint32_t *maps) {
	struct hd_steer node = {0};
	uint32_t first = 0;
	int fd = find_map(info, maps, HD_STEER_MAP);

	if (fd < 0)
		return 0;
	if (bpf_map_lookup_elem(fd, &first, &node) < 0)
		node.owner = 0;
	close(fd);
	if (node.owner == 0 || started_at(node.owner) != node.owner_started)
		return 0;
	return node.owner;
}

int dpdk_xdp_clear(int interface, char *who, size_t who_bytes) {
	struct bpf_prog_info info = {0};
	uint32_t maps[MAPS_MAX] = {0}, owner;
	int code = find_program_on(interface, &info, maps);

	if (code < 0)
		return code == -ENOENT ? 0 : code;
	close(code);
	if (strcmp(info.name, HD_STEER_PROGRAM) != 0) {
		(void)snprintf(who, who_bytes, "the XDP program '%.16s'", info.name);
		return -EBUSY;
	}
	owner = living_owner(&info, maps);
	if (owner != 0 && owner != (uint32_t)getpid()) {
		(void)snprintf(who, who_bytes, "process %u", owner);
		return -EBUSY;
	}
	return bpf_xdp_detach(interface, 0, NULL);
}

int dpdk_xdp_steer(int interface, uint32_t ipv4, uint16_t port) {
	const struct hd_steer node = {
		.ipv4 = htonl(ipv4),
		.port = htons(port),
		.owner = (uint32_t)getpid(),
		.owner_started = started_at((uint32_t)getpid()),
	};
	uint32_t maps[MAPS_MAX] = {0}, first = 0;
	struct bpf_prog_info info = {0};
	int fd = find_program_on(interface, &info, maps), map, code;

	if (fd < 0)
		return fd;
	close(fd);
	map = find_map(&info, maps, HD_STEER_MAP);
	if (map < 0)
		return map;
	code = bpf_map_update_elem(map, &first, &node, BPF_ANY) < 0 ? -errno : 0;
	close(map);
	return code;
}
