/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the structs that the Python package declares, as JSON: {"struct": {"": bytes, "member": offset, ...}}. */
#include "heddle.h"

#include <stdio.h>

#define BEGIN(before, type) (void)printf(before "\"" #type "\": {\"\": %zu", sizeof(struct type))
#define AT(type, member) (void)printf(", \"" #member "\": %zu", offsetof(struct type, member))
#define END() (void)printf("}")

static void print_options(void) {
	BEGIN("{", heddle_options);
	AT(heddle_options, size);
	AT(heddle_options, controller);
	AT(heddle_options, server);
	AT(heddle_options, key_file);
	AT(heddle_options, host);
	AT(heddle_options, bind);
	AT(heddle_options, events);
	AT(heddle_options, rank);
	AT(heddle_options, manual);
	AT(heddle_options, keep_bytes);
	AT(heddle_options, chunk_bytes);
	AT(heddle_options, fallback_ms);
	AT(heddle_options, job_weight);
	AT(heddle_options, log);
	AT(heddle_options, log_arg);
	AT(heddle_options, observe);
	AT(heddle_options, aggregator_mb);
	AT(heddle_options, world_size);
	END();
}

static void print_operations(void) {
	BEGIN(",\n", heddle_push_options);
	AT(heddle_push_options, size);
	AT(heddle_push_options, memory);
	AT(heddle_push_options, stream);
	AT(heddle_push_options, borrow);
	AT(heddle_push_options, payload);
	AT(heddle_push_options, scale);
	END();
	BEGIN(",\n", heddle_pull_options);
	AT(heddle_pull_options, size);
	AT(heddle_pull_options, memory);
	AT(heddle_pull_options, stream);
	AT(heddle_pull_options, conditional);
	AT(heddle_pull_options, have);
	AT(heddle_pull_options, payload);
	END();
	BEGIN(",\n", heddle_collective_options);
	AT(heddle_collective_options, size);
	AT(heddle_collective_options, memory);
	AT(heddle_collective_options, stream);
	AT(heddle_collective_options, borrow);
	AT(heddle_collective_options, payload);
	AT(heddle_collective_options, reduce_op);
	AT(heddle_collective_options, ranked);
	AT(heddle_collective_options, type);
	AT(heddle_collective_options, exact);
	AT(heddle_collective_options, tag);
	AT(heddle_collective_options, out_count);
	AT(heddle_collective_options, ranks);
	AT(heddle_collective_options, rank_capacity);
	AT(heddle_collective_options, wait_ms);
	AT(heddle_collective_options, least);
	END();
}

static void print_lists(void) {
	BEGIN(",\n", heddle_part);
	AT(heddle_part, data);
	AT(heddle_part, count);
	END();
}

static void print_results(void) {
	BEGIN(",\n", heddle_status);
	AT(heddle_status, size);
	AT(heddle_status, state);
	AT(heddle_status, reason);
	AT(heddle_status, direction);
	AT(heddle_status, released);
	AT(heddle_status, granted);
	AT(heddle_status, round);
	AT(heddle_status, delay);
	AT(heddle_status, workers);
	AT(heddle_status, base);
	AT(heddle_status, version);
	AT(heddle_status, bytes);
	AT(heddle_status, started_ns);
	AT(heddle_status, ended_ns);
	AT(heddle_status, scale);
	AT(heddle_status, waiting);
	END();
	BEGIN(",\n", heddle_members);
	AT(heddle_members, size);
	AT(heddle_members, change);
	AT(heddle_members, count);
	AT(heddle_members, index);
	AT(heddle_members, target);
	AT(heddle_members, sync_count);
	AT(heddle_members, tau_max);
	AT(heddle_members, scale);
	AT(heddle_members, step_scale);
	END();
	BEGIN(",\n", heddle_stats);
	AT(heddle_stats, size);
	AT(heddle_stats, pushed);
	AT(heddle_stats, applied);
	AT(heddle_stats, dropped);
	AT(heddle_stats, failed);
	AT(heddle_stats, pulled);
	AT(heddle_stats, delivered);
	AT(heddle_stats, granted_bytes);
	AT(heddle_stats, direct_bytes);
	AT(heddle_stats, asked_again);
	AT(heddle_stats, fallbacks);
	AT(heddle_stats, joined);
	AT(heddle_stats, direct);
	AT(heddle_stats, push_round);
	AT(heddle_stats, aggregated_bytes);
	END();
	BEGIN(",\n", heddle_range);
	AT(heddle_range, first);
	AT(heddle_range, count);
	END();
	BEGIN(",\n", heddle_state_options);
	AT(heddle_state_options, size);
	AT(heddle_state_options, part_bytes);
	AT(heddle_state_options, exact);
	END();
	BEGIN(",\n", heddle_state_item);
	AT(heddle_state_item, name);
	AT(heddle_state_item, data);
	AT(heddle_state_item, bytes);
	END();
}

int main(void) {
	print_options();
	print_operations();
	print_lists();
	print_results();
	(void)printf("}\n");
	return 0;
}
