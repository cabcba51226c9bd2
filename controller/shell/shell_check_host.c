/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of this host: the kernel's network, memory, clock and privileges. */
#include "hd_limits.h"
#include "hd_wire.h"
#include "shell_check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <glob.h>
#include <ifaddrs.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define IP_UDP_BYTES 28
#define RECEIVE_BYTES_WANTED (8u << 20) /* the udp driver's request */
#define SEND_BYTES_WANTED (4u << 20)
#define MEMLOCK_WANTED (64u << 20)

/* The first line of a small file; "" when there is none. */
static const char *read_line(const char *path, char *text, size_t bytes) {
	FILE *file = fopen(path, "re");

	text[0] = '\0';
	if (!file)
		return text;
	if (!fgets(text, (int)bytes, file))
		text[0] = '\0';
	(void)fclose(file);
	text[strcspn(text, "\n")] = '\0';
	return text;
}

/* --- versions --- */

static void check_kernel(struct findings *all) {
	unsigned long major, minor;
	struct utsname name;
	struct finding *f;
	char *end;

	if (uname(&name))
		return;
	major = strtoul(name.release, &end, 10);
	minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
	f = finding_add(
		all,
		"kernel",
		major > 5 || (major == 5 && minor >= 11)          ? FINDING_OK :
			major == 5 || (major == 4 && minor >= 18) ? FINDING_WARN :
								    FINDING_FAIL
	);
	finding_explain(f, "Linux %.80s", name.release);
	if (f->status != FINDING_OK)
		finding_advise(
			f, "5.11 or newer: exact sleeps (epoll_pwait2); 4.18 at least: UDP GSO"
		);
}

void check_versions(struct findings *all) {
	struct finding *f = finding_add(all, "heddle", FINDING_OK);
	glob_t found;

	finding_explain(
		f,
		"%s, wire version %d, libsodium %s, jansson %s",
		HEDDLE_VERSION,
		HD_WIRE_VERSION,
		sodium_version_string(),
		jansson_version_str()
	);
	check_kernel(all);
	if (glob("/usr/lib/*/librte_eal.so.*", 0, NULL, &found) == 0) {
		const char *name = strrchr(found.gl_pathv[0], '/');

		finding_explain(finding_add(all, "dpdk", FINDING_OK), "%s", name + 1);
		globfree(&found);
		return;
	}
	f = finding_add(all, "dpdk", FINDING_WARN);
	finding_explain(f, "not installed");
	finding_advise(f, "the udp driver works without; apt install dpdk");
}

/* --- network --- */

static int mtu_of(int fd, const char *interface) {
	struct ifreq request = {0};

	(void)snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
	return ioctl(fd, SIOCGIFMTU, &request) ? -1 : request.ifr_mtu;
}

static void check_interface(struct findings *all, int fd, const char *name) {
	int mtu = mtu_of(fd, name), least = HD_PACKET_BYTES_DEFAULT + IP_UDP_BYTES;
	struct finding *f = finding_add(all, "mtu", mtu < least ? FINDING_WARN : FINDING_OK);

	finding_explain(f, "%s: %d%s", name, mtu, mtu >= 9000 ? " (jumbo frames)" : "");
	/* The kernel fragments our packets: slow, and a packet is lost with any of its fragments. */
	if (mtu < least)
		finding_advise(
			f,
			"packets of %d bytes leave in fragments, and not at all with dpdk: ip link set %s mtu %d",
			least,
			name,
			least
		);
}

void check_interfaces(struct findings *all) {
	struct ifaddrs *list, *at;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), count = 0;
	struct finding *f;

	if (fd < 0 || getifaddrs(&list)) {
		finding_explain(finding_add(all, "mtu", FINDING_SKIP), "%s", strerror(errno));
		if (fd >= 0)
			close(fd);
		return;
	}
	for (at = list; at; at = at->ifa_next)
		if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET && (at->ifa_flags & IFF_UP)
		    && !(at->ifa_flags & IFF_LOOPBACK) && count++ < 16)
			check_interface(all, fd, at->ifa_name);
	freeifaddrs(list);
	close(fd);
	if (count)
		return;
	f = finding_add(all, "mtu", FINDING_WARN);
	finding_explain(f, "no interface but the loopback has an IPv4 address and is up");
	finding_advise(f, "ip addr add ADDRESS dev INTERFACE; ip link set INTERFACE up");
}

void check_port(struct findings *all) {
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(HD_PORT)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct finding *f;

	if (fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof name) == 0) {
		finding_explain(finding_add(all, "port", FINDING_OK), "UDP %d is free", HD_PORT);
	} else if (errno == EADDRINUSE) {
		f = finding_add(all, "port", FINDING_WARN);
		finding_explain(f, "UDP %d is in use", HD_PORT);
		finding_advise(
			f, "fine if a node of heddle runs here; who: ss -ulpn sport = :%d", HD_PORT
		);
	} else {
		f = finding_add(all, "port", FINDING_FAIL);
		finding_explain(f, "UDP %d: %s", HD_PORT, strerror(errno));
	}
	if (fd >= 0)
		close(fd);
}

static void check_limit(struct findings *all, const char *name, unsigned long want) {
	char path[96], text[64];
	unsigned long have;
	struct finding *f;

	(void)snprintf(path, sizeof path, "/proc/sys/net/core/%s", name);
	have = strtoul(read_line(path, text, sizeof text), NULL, 10);
	/* Not visible in a network namespace other than the host's. */
	if (!text[0])
		return;
	f = finding_add(all, "buffers", have >= want ? FINDING_OK : FINDING_WARN);
	finding_explain(f, "net.core.%s is %lu", name, have);
	if (have < want)
		finding_advise(f, "bursts are lost: sysctl -w net.core.%s=%lu", name, want);
}

void check_sockets(struct findings *all) {
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), value = 0;
	socklen_t bytes = sizeof value;
	bool gso, gro;
	struct finding *f;

	check_limit(all, "rmem_max", RECEIVE_BYTES_WANTED);
	check_limit(all, "wmem_max", SEND_BYTES_WANTED);
	if (fd < 0)
		return;
	gso = getsockopt(fd, SOL_UDP, UDP_SEGMENT, &value, &bytes) == 0;
	value = 1;
	gro = setsockopt(fd, SOL_UDP, UDP_GRO, &value, sizeof value) == 0;
	close(fd);
	f = finding_add(all, "offload", gso && gro ? FINDING_OK : FINDING_WARN);
	finding_explain(f, "UDP GSO: %s, GRO: %s", gso ? "yes" : "no", gro ? "yes" : "no");
	if (!gso || !gro)
		finding_advise(f, "works, at a fraction of the speed: a newer kernel");
}

/* --- privileges and memory --- */

static bool has_capability(unsigned long long set, unsigned capability) {
	return set >> capability & 1;
}

void check_privileges(struct findings *all) {
	FILE *file = fopen("/proc/self/status", "re");
	unsigned long long set = 0;
	char line[256];
	bool raw, admin, bpf;
	struct finding *f;

	while (file && fgets(line, sizeof line, file))
		if (strncmp(line, "CapEff:", 7) == 0)
			set = strtoull(line + 7, NULL, 16);
	if (file)
		(void)fclose(file);
	raw = has_capability(set, CAP_NET_RAW);
	admin = has_capability(set, CAP_NET_ADMIN);
	bpf = has_capability(set, CAP_SYS_ADMIN) || has_capability(set, 39 /* CAP_BPF */);
	f = finding_add(all, "privileges", raw && admin && bpf ? FINDING_OK : FINDING_WARN);
	finding_explain(
		f,
		"NET_RAW: %s, NET_ADMIN: %s, BPF: %s",
		raw ? "yes" : "no",
		admin ? "yes" : "no",
		bpf ? "yes" : "no"
	);
	if (f->status != FINDING_OK)
		finding_advise(
			f,
			"the udp driver needs none; dpdk wants NET_RAW and NET_ADMIN, af_xdp and monitors BPF"
		);
}

void check_hugepages(struct findings *all) {
	FILE *file = fopen("/proc/meminfo", "re");
	unsigned long total = 0, kib = 0;
	struct rlimit memlock = {0};
	char line[256];
	struct finding *f;

	while (file && fgets(line, sizeof line, file)) {
		if (strncmp(line, "HugePages_Total:", 16) == 0)
			total = strtoul(line + 16, NULL, 10);
		if (strncmp(line, "Hugepagesize:", 13) == 0)
			kib = strtoul(line + 13, NULL, 10);
	}
	if (file)
		(void)fclose(file);
	f = finding_add(all, "hugepages", total ? FINDING_OK : FINDING_WARN);
	finding_explain(f, "%lu of %lu KiB", total, kib);
	if (!total)
		finding_advise(
			f,
			"dpdk works without (--no-huge), PCI devices do not: sysctl -w vm.nr_hugepages=64"
		);
	if (getrlimit(RLIMIT_MEMLOCK, &memlock))
		return;
	f = finding_add(
		all, "memlock", memlock.rlim_cur >= MEMLOCK_WANTED ? FINDING_OK : FINDING_WARN
	);
	if (memlock.rlim_cur == RLIM_INFINITY)
		finding_explain(f, "unlimited");
	else
		finding_explain(f, "%llu bytes", (unsigned long long)memlock.rlim_cur);
	if (f->status != FINDING_OK)
		finding_advise(
			f, "af_xdp pins its buffers: ulimit -l unlimited (LimitMEMLOCK=infinity)"
		);
}

/* --- clock --- */

void check_clock(struct findings *all) {
	struct timex state = {0};
	char source[64];
	struct finding *f;
	int sync;

	read_line(
		"/sys/devices/system/clocksource/clocksource0/current_clocksource",
		source,
		sizeof source
	);
	/* These are read without a system call. */
	f = finding_add(
		all,
		"clock",
		strcmp(source, "tsc") == 0 || strcmp(source, "kvm-clock") == 0
				|| strcmp(source, "arch_sys_counter") == 0
				|| strncmp(source, "hyperv", 6) == 0 ?
			FINDING_OK :
			FINDING_WARN
	);
	finding_explain(f, "clock source %s", source[0] ? source : "unknown");
	if (f->status == FINDING_WARN)
		finding_advise(
			f,
			"reading the time may cost a system call: clocksource=tsc on the kernel's command line"
		);
	sync = adjtimex(&state);
	f = finding_add(all, "time", sync >= 0 && sync != TIME_ERROR ? FINDING_OK : FINDING_WARN);
	finding_explain(f, sync >= 0 && sync != TIME_ERROR ? "synchronized" : "not synchronized");
	if (f->status == FINDING_WARN)
		finding_advise(
			f,
			"schedules do not need it, logs are easier to compare with it: chrony or systemd-timesyncd"
		);
}

/* --- BPF --- */

/* The minimum that our BPF programs need: a map. */
static int try_map(void) {
	union bpf_attr attr;
	long fd;

	memset(&attr, 0, sizeof attr);
	attr.map_type = BPF_MAP_TYPE_ARRAY;
	attr.key_size = 4;
	attr.value_size = 8;
	attr.max_entries = 1;
	fd = syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr);
	if (fd < 0)
		return -errno;
	close((int)fd);
	return 0;
}

void check_bpf(struct findings *all) {
	bool btf = access("/sys/kernel/btf/vmlinux", R_OK) == 0;
	int status = try_map();
	struct finding *f = finding_add(all, "bpf", status == 0 && btf ? FINDING_OK : FINDING_WARN);
	char jit[16];

	finding_explain(
		f,
		"maps: %s; type information: %s",
		status ? strerror(-status) : "yes",
		btf ? "yes" : "no"
	);
	if (status)
		finding_advise(
			f,
			"link monitors and af_xdp need it: run as root, or with CAP_BPF and CAP_NET_ADMIN"
		);
	else if (!btf)
		finding_advise(f, "a kernel with CONFIG_DEBUG_INFO_BTF");
	if (!read_line("/proc/sys/net/core/bpf_jit_enable", jit, sizeof jit)[0])
		return;
	f = finding_add(all, "bpf-jit", jit[0] == '0' ? FINDING_WARN : FINDING_OK);
	finding_explain(f, jit[0] == '0' ? "off" : "on");
	if (jit[0] == '0')
		finding_advise(f, "programs are interpreted: sysctl -w net.core.bpf_jit_enable=1");
}
