/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the members of a round call, and what makes a round impossible:
 *
 *   they call different things     MISMATCH
 *   it must have N members         MEMBERS: fewer are left, or have called in time, or more have called
 *   it must have N or more         MEMBERS: fewer are left
 *   it has a root                  ROOT: the root is lost, takes no part, or has not called in time
 *
 * All members are told the same. A member that was there, and is not any more, is known to be lost; one that has never
 * been there may still come, soon if the job has made rounds already.
 */
#include "ctl_base.h"
#include "ctl_reduces.h"
#include "hd_group.h"
#include "hd_text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Enough for the longest words of a call. */
#define CALL_WORDS 144

static bool has_root(uint8_t collective) {
	switch (collective) {
	case HD_COLLECTIVE_BROADCAST:
	case HD_COLLECTIVE_REDUCE:
	case HD_COLLECTIVE_GATHER:
	case HD_COLLECTIVE_SCATTER:
		return true;
	default:
		return false;
	}
}

bool ctl_call_has_root(const struct ctl_call *call) {
	return has_root(call->collective);
}

bool ctl_shard_gives(const struct ctl_reduce *r, const struct ctl_shard *shard, uint16_t worker) {
	switch (r->call.collective) {
	case HD_COLLECTIVE_BROADCAST:
	case HD_COLLECTIVE_SCATTER:
		return worker == r->call.root;
	case HD_COLLECTIVE_ALLGATHER:
	case HD_COLLECTIVE_GATHER:
		return worker == shard->owner;
	case HD_COLLECTIVE_ALLTOALL:
		return worker == shard->giver;
	default:
		return true;
	}
}

bool ctl_shard_takes(const struct ctl_reduce *r, const struct ctl_shard *shard, uint16_t worker) {
	switch (r->call.collective) {
	case HD_COLLECTIVE_BROADCAST:
		return worker != r->call.root && !r->has[worker];
	case HD_COLLECTIVE_REDUCE:
	case HD_COLLECTIVE_GATHER:
		return worker == r->call.root;
	case HD_COLLECTIVE_ALLGATHER:
		return worker != shard->owner;
	case HD_COLLECTIVE_REDUCE_SCATTER:
	case HD_COLLECTIVE_SCATTER:
	case HD_COLLECTIVE_ALLTOALL:
		return worker == shard->owner;
	default:
		return true;
	}
}

bool ctl_call_is_copy(const struct ctl_call *call) {
	switch (call->collective) {
	case HD_COLLECTIVE_BROADCAST:
	case HD_COLLECTIVE_ALLGATHER:
	case HD_COLLECTIVE_GATHER:
	case HD_COLLECTIVE_SCATTER:
	case HD_COLLECTIVE_ALLTOALL:
		return true;
	default:
		return false;
	}
}

bool ctl_call_lacks_root(const struct ctl_reduce *r) {
	return has_root(r->call.collective) && r->part[r->call.root] != CTL_PART_ASKED;
}

bool ctl_call_has_blocks(const struct ctl_call *call) {
	return call->collective == HD_COLLECTIVE_ALLGATHER
		|| call->collective == HD_COLLECTIVE_REDUCE_SCATTER
		|| call->collective == HD_COLLECTIVE_GATHER
		|| call->collective == HD_COLLECTIVE_SCATTER
		|| call->collective == HD_COLLECTIVE_ALLTOALL;
}

/* A roll call is an all-reduce; the values of a broadcast can be there already, but for the root's. */
static bool is_valid_state(const struct hd_msg_request *m) {
	switch (m->state) {
	case HD_REQUEST_PLAIN:
		return true;
	case HD_REQUEST_ROLL:
		return m->collective == HD_COLLECTIVE_ALLREDUCE;
	case HD_REQUEST_HAS:
		return m->collective == HD_COLLECTIVE_BROADCAST && m->worker != m->root;
	default:
		return false;
	}
}

bool ctl_call_is_valid(const struct hd_msg_request *m) {
	if (m->collective >= HD_COLLECTIVE_SEND || m->order > HD_GROUP_RANKED
	    || m->exact > HD_WORKERS_MAX || m->least > HD_WORKERS_MAX
	    || (m->least > 0 && m->exact > 0)
	    || m->root >= (has_root(m->collective) ? HD_WORKERS_MAX : 1))
		return false;
	if (!hd_dtype_is_element(m->dtype) || m->op >= HD_REDUCE_OP_COUNT || !is_valid_state(m))
		return false;
	if (m->collective == HD_COLLECTIVE_BARRIER)
		return m->bytes == 0;
	return m->bytes > 0 && m->bytes <= HD_MODEL_BYTES_MAX
		&& m->bytes % hd_dtype_bytes(m->dtype) == 0;
}

void ctl_call_take(const struct hd_msg_request *m, struct ctl_call *call) {
	*call = (struct ctl_call){
		.collective = m->collective,
		.dtype = m->dtype,
		.op = m->op,
		.order = m->order,
		.root = m->root,
		.exact = m->exact,
		.least = m->least,
		.wait_ms = m->wait_ms,
		.bytes = m->bytes,
		.roll = m->state == HD_REQUEST_ROLL,
	};
	hd_text_copy(call->tag, sizeof call->tag, m->tag);
}

static bool is_same(const struct ctl_call *a, const struct ctl_call *b) {
	return a->collective == b->collective && a->dtype == b->dtype && a->op == b->op
		&& a->order == b->order && a->root == b->root && a->exact == b->exact
		&& a->least == b->least && a->wait_ms == b->wait_ms && a->bytes == b->bytes
		&& a->roll == b->roll && strcmp(a->tag, b->tag) == 0;
}

/* As `all-reduce of 4096 bytes of fp32, exactly 4 members, tag "layer 3"`. */
static void describe(const struct ctl_call *call, char words[CALL_WORDS]) {
	static const char *const names[HD_COLLECTIVE_COUNT] = {
		[HD_COLLECTIVE_ALLREDUCE] = "all-reduce",
		[HD_COLLECTIVE_BARRIER] = "barrier",
		[HD_COLLECTIVE_BROADCAST] = "broadcast",
		[HD_COLLECTIVE_REDUCE] = "reduce",
		[HD_COLLECTIVE_ALLGATHER] = "all-gather",
		[HD_COLLECTIVE_REDUCE_SCATTER] = "reduce-scatter",
		[HD_COLLECTIVE_GATHER] = "gather",
		[HD_COLLECTIVE_SCATTER] = "scatter",
		[HD_COLLECTIVE_ALLTOALL] = "all-to-all",
	};
	static const char *const types[HD_DTYPE_COUNT] = {
		[HD_DTYPE_FP32] = "fp32",
		[HD_DTYPE_FP16] = "fp16",
		[HD_DTYPE_BF16] = "bf16",
		[HD_DTYPE_FP64] = "fp64",
		[HD_DTYPE_INT8] = "int8",
		[HD_DTYPE_UINT8] = "uint8",
		[HD_DTYPE_INT32] = "int32",
		[HD_DTYPE_INT64] = "int64",
	};
	static const char *const ops[HD_REDUCE_OP_COUNT] = {
		[HD_REDUCE_OP_SUM] = "",
		[HD_REDUCE_OP_AVERAGE] = " (average)",
		[HD_REDUCE_OP_MIN] = " (minimum)",
		[HD_REDUCE_OP_MAX] = " (maximum)",
		[HD_REDUCE_OP_PRODUCT] = " (product)",
	};
	char bytes[64] = "", root[16] = "", exact[32] = "", wait[24] = "";

	if (call->bytes > 0)
		(void)snprintf(
			bytes,
			sizeof bytes,
			" of %llu bytes of %s%s",
			(unsigned long long)call->bytes,
			types[call->dtype],
			call->order == HD_GROUP_RANKED ? " in the order of ranks" : ""
		);
	if (has_root(call->collective))
		(void)snprintf(root, sizeof root, ", root %u", call->root);
	if (call->exact > 0)
		(void)snprintf(exact, sizeof exact, ", exactly %u members", call->exact);
	if (call->least > 0)
		(void)snprintf(exact, sizeof exact, ", at least %u members", call->least);
	if (call->wait_ms == HD_REDUCE_WAIT_FOREVER)
		(void)snprintf(wait, sizeof wait, ", waits for all");
	else if (call->wait_ms > 0)
		(void)snprintf(wait, sizeof wait, ", waits %u ms", call->wait_ms);
	(void)snprintf(
		words,
		CALL_WORDS,
		"%s%s%s%s%s%s",
		names[call->collective],
		ops[call->op],
		bytes,
		root,
		exact,
		wait
	);
}

bool ctl_call_differs(struct ctl_reduce *r, const struct hd_msg_request *m) {
	char first[CALL_WORDS], second[CALL_WORDS];
	struct ctl_call call;

	ctl_call_take(m, &call);
	if (is_same(&r->call, &call))
		return false;
	describe(&r->call, first);
	describe(&call, second);
	r->wrong = HD_REASON_MISMATCH;
	(void)snprintf(
		r->words,
		sizeof r->words,
		"call %u: rank %u calls %s, tag \"%s\"; rank %u calls %s, tag \"%s\"",
		r->round,
		r->caller,
		first,
		r->call.tag,
		m->worker,
		second,
		call.tag
	);
	return true;
}

/* Bytes of the largest result. */
static uint64_t result_bytes(const struct ctl_reduce *r, uint32_t members) {
	const uint64_t value = hd_dtype_bytes(r->dtype);
	uint64_t block;

	assert(value > 0 && members > 0);
	block = (r->call.bytes / value + members - 1) / members * value;
	switch (r->call.collective) {
	case HD_COLLECTIVE_REDUCE_SCATTER:
	case HD_COLLECTIVE_SCATTER:
		return block;
	case HD_COLLECTIVE_ALLTOALL:
		return block * members;
	default:
		return r->bytes;
	}
}

/* Of an all-to-all: each of them gives a shard to each other one. */
static bool has_too_many(struct ctl_reduce *r) {
	const uint32_t members = r->count[CTL_PART_ASKED];

	if (r->call.collective != HD_COLLECTIVE_ALLTOALL || members <= HD_ALLTOALL_MEMBERS_MAX)
		return false;
	r->wrong = HD_REASON_REFUSED;
	(void)snprintf(
		r->words,
		sizeof r->words,
		"call %u: an all-to-all of %u members, more than %u (HD_ALLTOALL_MEMBERS_MAX)",
		r->round,
		members,
		HD_ALLTOALL_MEMBERS_MAX
	);
	return true;
}

bool ctl_call_size(struct ctl_reduce *r) {
	const uint32_t members = r->count[CTL_PART_ASKED];
	uint64_t room = HD_MODEL_BYTES_MAX;
	uint16_t least = r->caller;

	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (r->part[i] == CTL_PART_ASKED && r->room[i] > 0 && r->room[i] < room) {
			room = r->room[i];
			least = i;
		}
	r->bytes = r->call.bytes;
	if (r->call.collective == HD_COLLECTIVE_ALLGATHER
	    || r->call.collective == HD_COLLECTIVE_GATHER
	    || r->call.collective == HD_COLLECTIVE_ALLTOALL)
		r->bytes *= members;
	if (has_too_many(r))
		return false;
	if (r->bytes <= HD_MODEL_BYTES_MAX && result_bytes(r, members) <= room)
		return true;
	r->wrong = HD_REASON_REFUSED;
	(void)snprintf(
		r->words,
		sizeof r->words,
		"call %u: a result of %llu bytes of %u members, and rank %u has room for %llu",
		r->round,
		(unsigned long long)result_bytes(r, members),
		members,
		least,
		(unsigned long long)room
	);
	return false;
}

static bool all_have_it(const struct ctl_reduce *r) {
	if (r->call.collective != HD_COLLECTIVE_BROADCAST)
		return false;
	for (uint16_t i = 0; i < HD_WORKERS_MAX; i++)
		if (r->part[i] == CTL_PART_ASKED && i != r->call.root && !r->has[i])
			return false;
	return true;
}

bool ctl_reduce_stays(const struct ctl_reduce *r) {
	return all_have_it(r) || r->call.collective == HD_COLLECTIVE_BARRIER
		|| (ctl_call_is_copy(&r->call) && r->count[CTL_PART_ASKED] == 1);
}

/* That number of members was there, or does not come. Those of a job that begins are waited for. One round waits for
 * members that this process never saw: the next ones know, until the job has more workers. */
static bool
are_missed(struct hd_controller *c, struct ctl_job *job, struct ctl_reduce *r, bool all) {
	const uint32_t count = r->call.exact > 0 ? r->call.exact : r->call.least;
	hd_ns until;

	if (r->count[CTL_PART_OUT] > 0 || job->most_workers >= count || job->none_comes
	    || (job->goes_on && job->world >= count))
		return true;
	if (!all || (!job->goes_on && job->reduce_round == 0))
		return false;
	r->short_since = r->short_since ? r->short_since : c->now;
	until = hd_ns_add(r->short_since, CTL_REDUCE_MEMBERS_NS);
	job->none_comes = c->now >= until;
	if (!job->none_comes)
		ctl_check_by(c, until);
	return job->none_comes;
}

static bool
has_wrong_members(struct hd_controller *c, struct ctl_job *job, struct ctl_reduce *r, bool all) {
	const uint32_t exact = r->call.exact;
	const uint32_t needed = exact > 0 ? exact : r->call.least;
	const uint32_t have = r->count[CTL_PART_ASKED] + r->count[CTL_PART_DONE];
	uint32_t here = job->worker_count - r->count[CTL_PART_OUT];

	if (needed == 0)
		return false;
	for (uint16_t i = 0; r->count[CTL_PART_DONE] > 0 && i < HD_WORKERS_MAX; i++)
		here += r->part[i] == CTL_PART_DONE && !job->workers[i]; /* left with its result */
	if (here >= needed)
		r->short_since = 0;
	if (here < needed && are_missed(c, job, r, all))
		(void)snprintf(
			r->words,
			sizeof r->words,
			"call %u: %u of %u members are left",
			r->round,
			here,
			needed
		);
	else if (all && here >= exact && have < exact)
		(void)snprintf(
			r->words,
			sizeof r->words,
			"call %u: %u of %u members have called it within %u ms",
			r->round,
			have,
			exact,
			r->call.wait_ms
		);
	else if (all && exact > 0 && r->count[CTL_PART_ASKED] > exact)
		(void)snprintf(
			r->words,
			sizeof r->words,
			"call %u: %u members call it, not %u",
			r->round,
			r->count[CTL_PART_ASKED],
			exact
		);
	else
		return false;
	r->wrong = HD_REASON_MEMBERS;
	return true;
}

static bool has_no_root(const struct ctl_job *job, struct ctl_reduce *r, bool all) {
	const uint16_t root = r->call.root;
	const bool known = job->boot[root] != 0 || job->goes_on
		|| (all && job->world > 0 && job->worker_count >= job->world);

	if (!has_root(r->call.collective))
		return false;
	if (r->part[root] == CTL_PART_OUT && job->workers[root])
		(void)snprintf(
			r->words,
			sizeof r->words,
			"call %u: its root, rank %u, takes no part",
			r->round,
			root
		);
	else if (!job->workers[root] && known)
		(void)snprintf(
			r->words,
			sizeof r->words,
			"call %u: its root, rank %u, is lost",
			r->round,
			root
		);
	else if (all && job->workers[root] && r->part[root] == CTL_PART_NONE)
		(void)snprintf(
			r->words,
			sizeof r->words,
			"call %u: its root, rank %u, has not called it in time",
			r->round,
			root
		);
	else
		return false;
	r->wrong = HD_REASON_ROOT;
	return true;
}

bool ctl_call_is_wrong(
	struct hd_controller *c,
	struct ctl_job *job,
	struct ctl_reduce *r,
	bool all
) {
	return r->wrong || has_no_root(job, r, all) || has_wrong_members(c, job, r, all);
}
