/* SPDX-License-Identifier: BSD-3-Clause */
/* Members that are taken out, receivers, leases side by side and after each other. */
#include "script.h"

static void taken_out(struct script *s) {
	script_case(
		s,
		"taken-out",
		"without a member that was never in it, a sum is complete: who repeats gets it, marked PARTIAL; its own "
		"chunks are dropped",
		3,
		0
	);
	script_sends(s, 0, 0, 1, COUNTER(absorbed), 0);
	script_sends(s, 1, 0, 2, COUNTER(absorbed), 0);
	script_sends(s, 0, 1, 5, COUNTER(absorbed), 0);
	record_lease_waits(s->recorder, s->lease.is.id, 3);
	script_sends(s, 2, 0, 4, COUNTER(drop_member), 0);
	script_sends(s, 0, 0, 1, COUNTER(repeated), 1);
	script_lanes(s, 3);
	script_flags(s, HD_SWITCH_FLAG_RESEND | HD_SWITCH_FLAG_PARTIAL);
	script_field(s, S_SEEN, 8, 3);
	script_sends(s, 1, 0, 2, COUNTER(repeated), 1);
	script_sends(s, 0, 1, 5, COUNTER(drop_duplicate), 0);
	script_sends(s, 1, 1, 6, COUNTER(completed), 3);
	script_lanes(s, 11);
	script_flags(s, HD_SWITCH_FLAG_PARTIAL);
	/* Complete, as no member of the sum is missing: taking the cell overtakes nothing. */
	script_sends(s, 0, 8, 1, COUNTER(absorbed), 0);
	script_end(s);

	script_case(
		s,
		"taken-out-late",
		"what a member gave before it was taken out stays in the sum, and the result says so",
		3,
		0
	);
	script_sends(s, 2, 0, 100, COUNTER(absorbed), 0);
	script_sends(s, 0, 0, 1, COUNTER(absorbed), 0);
	record_lease_waits(s->recorder, s->lease.is.id, 3);
	script_sends(s, 1, 0, 2, COUNTER(completed), 3);
	script_lanes(s, 103);
	script_flags(s, 0);
	script_field(s, S_SEEN, 8, 7);
	script_sends(s, 0, 1, 1, COUNTER(absorbed), 0);
	record_lease_waits(s->recorder, s->lease.is.id, 1);
	script_sends(s, 0, 1, 1, COUNTER(repeated), 1);
	script_field(s, S_SEEN, 8, 1);
	script_sends(s, 0, 2, 1, COUNTER(completed), 3);
	script_flags(s, HD_SWITCH_FLAG_PARTIAL);
	script_end(s);
}

/* An answer is the header of a receiver alone. */
static void make_answer(struct script *s, uint32_t receiver) {
	script_chunk(s, 0, 0, 0);
	s->bytes = 98;
	script_put(s, S_IP_BYTES, 2, 84);
	script_put(s, S_UDP_BYTES, 2, 64);
	script_put(s, S_TYPE, 1, 0x12);
	script_put(s, S_COUNT, 2, 0);
	script_put(s, S_TOKEN, 8, s->lease.receivers[receiver].token);
}

static void receivers(struct script *s) {
	script_case(
		s,
		"receivers",
		"sums go to server and replica, also when they are asked for again; what these answer goes to all members",
		3,
		2
	);
	script_sends(s, 0, 0, 1, COUNTER(absorbed), 0);
	script_sends(s, 1, 0, 1, COUNTER(absorbed), 0);
	script_sends(s, 2, 0, 1, COUNTER(completed), 2);
	script_lanes(s, 3);
	script_sends(s, 1, 0, 1, COUNTER(repeated), 2);
	script_flags(s, HD_SWITCH_FLAG_RESEND);
	make_answer(s, 0);
	script_put(s, S_WORKER, 2, 0x1234); /* not looked at, nor is the rest */
	script_put(s, S_SLOT, 2, 0x7777);
	script_put(s, S_ROUND, 4, 0);
	script_put(s, S_SEEN, 8, 0x123456789);
	script_send(s, COUNTER(answered), 3);
	script_field(s, S_WORKER, 2, 0x1234);
	script_field(s, S_SEEN, 8, 0x123456789);
	script_field(s, S_IP_BYTES, 2, 84);
	make_answer(s, 1);
	script_send(s, COUNTER(answered), 3);
	make_answer(s, 0);
	script_put(s, S_JOB, 4, s->lease.is.job ^ 1);
	script_send(s, COUNTER(drop_lease), 0);
	make_answer(s, 0);
	script_put(s, S_DTYPE, 1, 0);
	script_send(s, COUNTER(drop_lease), 0);
	make_answer(s, 0);
	script_put(s, S_TOKEN, 8, s->lease.members[0].token);
	script_send(s, COUNTER(drop_token), 0);
	script_chunk(s, 0, 1, 1);
	script_put(s, S_TOKEN, 8, s->lease.receivers[0].token);
	script_send(s, COUNTER(drop_token), 0);
	script_chunk(s, 0, 1, 1);
	script_put(s, S_TYPE, 1, 0x12); /* a result with values is not for us */
	script_put(s, S_TOKEN, 8, s->lease.receivers[0].token);
	script_send(s, COUNTER(drop_malformed), 0);
	script_end(s);
}

static void two_leases(struct script *s) {
	struct traffic_lease first;

	script_case(
		s,
		"two-leases",
		"leases of two tenants that use the same slots and chunks have nothing in common, and neither's token "
		"opens the other",
		2,
		0
	);
	first = s->lease;
	script_sends(s, 0, 0, 1, COUNTER(absorbed), 0);
	script_lease(s, 2, 0);
	record_lease_set(s->recorder, &s->lease.is);
	script_sends(s, 0, 0, 100, COUNTER(absorbed), 0);
	script_chunk(s, 1, 0, 7);
	script_put(s, S_TOKEN, 8, first.members[1].token);
	script_send(s, COUNTER(drop_lease), 0);
	script_chunk(s, 1, 0, 7);
	script_put(s, S_JOB, 4, first.is.job);
	script_put(s, S_EPOCH, 2, first.is.epoch);
	script_put(s, S_ATTEMPT, 1, first.is.attempt);
	script_put(s, S_SHARD, 2, first.is.shard);
	script_send(s, COUNTER(drop_lease), 0);
	script_sends(s, 1, 0, 200, COUNTER(completed), 2);
	script_lanes(s, 300);
	record_lease_end(s->recorder, s->lease.is.id);
	s->lease = first;
	s->lease.is.members = s->lease.members;
	script_sends(s, 1, 0, 2, COUNTER(completed), 2);
	script_lanes(s, 3);
	script_end(s);
}

static void ended(struct script *s) {
	struct traffic_lease first;

	script_case(
		s,
		"ended",
		"a lease that ended takes nothing; one that takes its id and slots finds empty cells, and overtakes "
		"nothing",
		2,
		0
	);
	first = s->lease;
	script_chunk(s, 0, 0, 1000);
	script_put(s, S_ROUND, 4, 9);
	script_put(s, S_NEXT, 2, 30);
	script_put(s, S_FLAGS, 1, HD_SWITCH_FLAG_NOT_FINITE);
	script_send(s, COUNTER(absorbed), 0);
	record_lease_end(s->recorder, s->lease.is.id);
	script_sends(s, 1, 0, 1, COUNTER(drop_token), 0);
	s->leases--;
	script_lease(s, 2, 0);
	record_lease_set(s->recorder, &s->lease.is);
	script_sends(s, 0, 0, 1, COUNTER(absorbed), 0);
	script_chunk(s, 0, 0, 1);
	script_put(s, S_TOKEN, 8, first.members[0].token);
	script_send(s, COUNTER(drop_token), 0);
	script_sends(s, 1, 0, 2, COUNTER(completed), 2);
	script_lanes(s, 3);
	script_flags(s, 0);
	script_field(s, S_NEXT, 2, (uint16_t)-20);
	script_end(s);
}

void cases_members(struct script *script) {
	taken_out(script);
	receivers(script);
	two_leases(script);
	ended(script);
}
