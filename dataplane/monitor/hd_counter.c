/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_counter.h"
#include "monitor.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TC_HANDLE 0x4844 /* "HD" */
#define TC_PRIORITY 0x4844

struct hd_counter {
	struct monitor_bpf *skeleton;
	int interface;
	bool owns_hook; /* clsact did not exist before */
	bool attached[HD_COUNTS_DIRECTIONS];
	int processors;
	size_t bytes; /* of the mapping */
	volatile uint64_t *values; /* [processors][HD_COUNTS_ALL]; writer: the BPF program */
};

static const enum bpf_tc_attach_point points[HD_COUNTS_DIRECTIONS] = {
	[HD_COUNTS_OUT] = BPF_TC_EGRESS,
	[HD_COUNTS_IN] = BPF_TC_INGRESS,
};

int hd_counter_program(const struct hd_counter *counter, int direction) {
	return bpf_program__fd(
		direction == HD_COUNTS_OUT ? counter->skeleton->progs.count_out :
					     counter->skeleton->progs.count_in
	);
}

static void detach(struct hd_counter *counter) {
	for (int direction = 0; direction < HD_COUNTS_DIRECTIONS; direction++) {
		LIBBPF_OPTS(
			bpf_tc_hook,
			hook,
			.ifindex = counter->interface,
			.attach_point = points[direction]
		);
		LIBBPF_OPTS(bpf_tc_opts, ours, .handle = TC_HANDLE, .priority = TC_PRIORITY);

		if (counter->attached[direction])
			(void)bpf_tc_detach(&hook, &ours);
		counter->attached[direction] = false;
	}
	if (counter->owns_hook) {
		LIBBPF_OPTS(
			bpf_tc_hook,
			both,
			.ifindex = counter->interface,
			.attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS
		);

		(void)bpf_tc_hook_destroy(&both);
	}
	counter->owns_hook = false;
}

static int attach(struct hd_counter *counter) {
	int status;

	for (int direction = 0; direction < HD_COUNTS_DIRECTIONS; direction++) {
		LIBBPF_OPTS(
			bpf_tc_hook,
			hook,
			.ifindex = counter->interface,
			.attach_point = points[direction]
		);
		LIBBPF_OPTS(
			bpf_tc_opts,
			ours,
			.handle = TC_HANDLE,
			.priority = TC_PRIORITY,
			.prog_fd = hd_counter_program(counter, direction),
			.flags = BPF_TC_F_REPLACE
		);

		status = bpf_tc_hook_create(&hook);
		if (status && status != -EEXIST)
			return status;
		counter->owns_hook = counter->owns_hook || status == 0;
		status = bpf_tc_attach(&hook, &ours);
		if (status)
			return status;
		counter->attached[direction] = true;
	}
	return 0;
}

static int quiet(enum libbpf_print_level level, const char *format, va_list args) {
	(void)level;
	(void)format;
	(void)args;
	return 0; /* the caller reports the error, once, with a text */
}

static int map_counts(struct hd_counter *counter) {
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const size_t bytes = (size_t)counter->processors * sizeof(uint64_t[HD_COUNTS_ALL]);
	void *at;

	counter->bytes = (bytes + page - 1) / page * page;
	at
		= mmap(NULL,
		       counter->bytes,
		       PROT_READ,
		       MAP_SHARED,
		       bpf_map__fd(counter->skeleton->maps.counts),
		       0);
	if (at == MAP_FAILED)
		return -errno;
	counter->values = at;
	return 0;
}

static int load(struct hd_counter *counter, uint16_t fabric_port) {
	int status;

	counter->processors = libbpf_num_possible_cpus();
	if (counter->processors <= 0)
		return -ENOTSUP;
	counter->skeleton = monitor_bpf__open();
	if (!counter->skeleton)
		return -errno;
	counter->skeleton->rodata->fabric_port = fabric_port;
	status = bpf_map__set_max_entries(
		counter->skeleton->maps.counts, (uint32_t)counter->processors * HD_COUNTS_ALL
	);
	if (!status)
		status = monitor_bpf__load(counter->skeleton);
	return status ? status : map_counts(counter);
}

int hd_counter_open(
	const char *interface,
	uint16_t fabric_port,
	struct hd_counter **counter,
	char *error,
	size_t error_bytes
) {
	struct hd_counter *c = calloc(1, sizeof *c);
	const char *step = "interface";
	int status = -ENODEV;

	if (!c)
		return -ENOMEM;
	(void)libbpf_set_print(quiet);
	c->interface = (int)if_nametoindex(interface);
	if (c->interface) {
		step = "loading the BPF program";
		status = load(c, fabric_port);
	}
	if (!status) {
		step = "attaching to tc";
		status = attach(c);
	}
	if (status) {
		(void
		)snprintf(error, error_bytes, "%s: %s: %s", interface, step, strerror(-status));
		hd_counter_close(c);
		return status;
	}
	*counter = c;
	return 0;
}

void hd_counter_close(struct hd_counter *counter) {
	if (!counter)
		return;
	detach(counter);
	monitor_bpf__destroy(counter->skeleton);
	if (counter->values)
		(void)munmap((void *)counter->values, counter->bytes);
	free(counter);
}

static uint64_t sum(const struct hd_counter *counter, size_t index) {
	uint64_t total = 0;

	for (int i = 0; i < counter->processors; i++)
		total += counter->values[(size_t)i * (size_t)HD_COUNTS_ALL + index];
	return total;
}

void hd_counter_read(
	const struct hd_counter *counter,
	struct hd_monitor_counts counts[HD_COUNTS_DIRECTIONS]
) {
	for (size_t direction = 0; direction < HD_COUNTS_DIRECTIONS; direction++) {
		counts[direction].ours = sum(counter, direction * HD_COUNTS_ROW);
		for (size_t i = 0; i < HD_COUNTS_FLOWS; i++)
			counts[direction].flows[i]
				= sum(counter, direction * HD_COUNTS_ROW + 1 + i);
	}
}
