/* SPDX-License-Identifier: BSD-3-Clause */
#include "allreduce_sends.h"
#include "allreduce_world.h"
#include "worker_channel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANNELS_MAX (2 * WORKERS_MAX)
#define DEPTH 3 /* calls that an end has open */
#define MESSAGE_MAX 40000 /* bytes */
#define CALLS_MAX 40000
#define NOTICED                                                                                    \
	(5 * HD_SECOND) /* the time in which the controller notices that a process is gone */

enum {
	FROM,
	TO,
	ENDS
};

/* A send or receive. */
struct pair_call {
	bool used;
	uint32_t number;
	uint64_t id;
	hd_ns asked;
	struct hd_ticket ticket;
	uint8_t *data;
	uint64_t bytes;
};

/* One end of a channel, in one process of its worker. */
struct pair_end {
	struct pair_call calls[DEPTH];
	uint32_t called; /* the number of its last call */
	uint32_t since; /* the process of the other end's process at number 1, */
	uint32_t bound; /* and of the one with which messages were exchanged; 0: none yet */
	hd_ns next;
};

struct pair_channel {
	uint16_t rank[ENDS];
	struct pair_end end[ENDS];
};

/* A send, and its end. */
struct pair_record {
	uint32_t number, process;
	uint16_t channel;
	bool delivered, withdrawn;
};

struct allreduce_sends {
	struct hd_random random;
	uint32_t channel_count;
	struct pair_channel channels[CHANNELS_MAX];
	uint32_t process[WORKERS_MAX]; /* processes of each rank so far */
	hd_ns crashed[WORKERS_MAX]; /* when the last one ended; 0: none has */
	struct pair_record records[CALLS_MAX];
	uint64_t record_count;
	struct allreduce_sends_totals totals;
};

const struct allreduce_sends_totals *allreduce_sends_totals(const struct allreduce_world *w) {
	return &w->sends->totals;
}

int allreduce_sends_create(struct allreduce_world *w) {
	struct allreduce_sends *s = calloc(1, sizeof *s);
	const uint32_t n = w->plan.workers;

	if (!s)
		return -ENOMEM;
	w->sends = s;
	hd_random_init(&s->random, w->plan.seed ^ 0x5e4d5);
	for (uint32_t i = 0; i < n; i++)
		s->process[i] = 1;
	for (uint32_t i = 0; n > 1 && i < 2 * n; i++) {
		struct pair_channel *channel = &s->channels[s->channel_count++];
		const uint32_t by = i < n ? 1 : 1 + (uint32_t)(w->plan.seed % (n - 1));

		channel->rank[FROM] = (uint16_t)(i % n);
		channel->rank[TO] = (uint16_t)((i + by) % n);
	}
	if (n > 1 && w->plan.seed % (n - 1) == 0) /* both are the same */
		s->channel_count = n;
	return 0;
}

void allreduce_sends_destroy(struct allreduce_world *w) {
	struct allreduce_sends *s = w->sends;

	for (uint32_t c = 0; s && c < s->channel_count; c++)
		for (int k = 0; k < ENDS * DEPTH; k++)
			free(s->channels[c].end[k % ENDS].calls[k / ENDS].data);
	free(s);
	w->sends = NULL;
}

/* --- the model ------------------------------------------------------------------------------ */

/* A number that both ends know: a function of the channel and the number of the pair. */
static uint64_t drawn(const struct allreduce_world *w, uint32_t channel, uint32_t number) {
	struct hd_random random;

	hd_random_init(&random, w->plan.seed * 1000003 + (uint64_t)channel * 65537 + number);
	return hd_random_u64(&random);
}

static uint64_t bytes_of(const struct allreduce_world *w, uint32_t channel, uint32_t number) {
	const uint64_t draw = drawn(w, channel, number);

	return sizeof(uint64_t)
		* (1 + (draw >> 8) % (draw % 4 ? 60 : MESSAGE_MAX / sizeof(uint64_t)));
}

/* In one of 16 pairs, one end has another tag. */
static bool is_odd(const struct allreduce_world *w, uint32_t channel, uint32_t number) {
	return (drawn(w, channel, number) >> 50) % 16 == 0;
}

static void fill(uint8_t *data, uint64_t bytes, uint64_t id) {
	struct hd_random random;

	hd_random_init(&random, id * 977);
	memcpy(data, &id, sizeof id);
	for (uint64_t i = sizeof id; i < bytes; i += sizeof id) {
		const uint64_t word = hd_random_u64(&random);

		memcpy(data + i, &word, sizeof word);
	}
}

static bool is_filled(const uint8_t *data, uint64_t bytes, uint64_t id) {
	struct hd_random random;

	hd_random_init(&random, id * 977);
	for (uint64_t i = sizeof id; i < bytes; i += sizeof id) {
		const uint64_t word = hd_random_u64(&random);

		if (memcmp(data + i, &word, sizeof word) != 0)
			return false;
	}
	return true;
}

static void
wrong(struct allreduce_world *w,
      const struct pair_channel *channel,
      const struct pair_call *call,
      const char *what) {
	allreduce_fail(
		w,
		"pair %u of ranks %u and %u: %s",
		call->number,
		channel->rank[FROM],
		channel->rank[TO],
		what
	);
}

/* The end is counted with this process of the other one, and with no other. */
static bool binds(struct pair_end *end, uint32_t process) {
	if (end->bound == 0)
		end->bound = process;
	return end->bound == process;
}

/* A receive has ended with a message. */
static void
received(struct allreduce_world *w, struct pair_channel *channel, const struct pair_call *call) {
	struct allreduce_sends *s = w->sends;
	struct pair_record *record;
	bool is_there; /* the sender's process still is */
	uint64_t id;

	memcpy(&id, call->data, sizeof id);
	if (id == 0 || id > s->record_count) {
		wrong(w, channel, call, "values that were not sent");
		return;
	}
	record = &s->records[id - 1];
	is_there = record->process == s->process[channel->rank[FROM]];
	s->totals.received++;
	if (record->channel != channel - s->channels)
		wrong(w, channel, call, "a message to another worker");
	else if (record->number != call->number)
		wrong(w, channel, call, "another message of the same worker");
	else if (record->delivered)
		wrong(w, channel, call, "a message that it had already");
	else if (record->withdrawn)
		wrong(w, channel, call, "a message that was withdrawn, or differs");
	else if (is_odd(w, record->channel, call->number))
		wrong(w, channel, call, "the ends have different tags");
	else if (!is_filled(call->data, call->bytes, id))
		wrong(w, channel, call, "a wrong value");
	else if (!binds(&channel->end[TO], record->process))
		wrong(w, channel, call, "a message of another process");
	else if (is_there && !binds(&channel->end[FROM], s->process[channel->rank[TO]]))
		wrong(w, channel, call, "a message to another process");
	record->delivered = true;
}

static void
ended(struct allreduce_world *w, struct pair_channel *channel, int e, struct pair_call *call) {
	struct allreduce_sends *s = w->sends;
	const bool applied = call->ticket.state == HD_TICKET_APPLIED;
	const enum hd_reason reason = call->ticket.reason;
	struct pair_record *record = e == FROM ? &s->records[call->id - 1] : NULL;

	s->totals.sent += applied && record;
	s->totals.mismatches += reason == HD_REASON_MISMATCH;
	s->totals.lost += reason == HD_REASON_PEER;
	s->totals.failed += !applied;
	if (record && applied && !record->delivered)
		wrong(w, channel, call, "it was sent, and did not arrive");
	if (record && (reason == HD_REASON_MISMATCH || reason == HD_REASON_CANCELLED)) {
		if (record->delivered)
			wrong(w, channel, call, "it arrived, and was withdrawn or differs");
		record->withdrawn = true;
	}
	if (record && !is_filled(call->data, call->bytes, call->id))
		wrong(w, channel, call, "the sender's values were changed");
	if (!record && applied)
		received(w, channel, call);
	if (reason == HD_REASON_MISMATCH
	    && !is_odd(w, (uint32_t)(channel - s->channels), call->number))
		wrong(w, channel, call, "a mismatch of equal calls");
}

/* --- calls ---------------------------------------------------------------------------------- */

static struct pair_channel *
channel_of(struct allreduce_world *w, const struct pair_call *call, int *e) {
	struct allreduce_sends *s = w->sends;

	for (uint32_t c = 0; c < s->channel_count; c++)
		for (*e = 0; *e < ENDS; ++*e)
			if (call >= s->channels[c].end[*e].calls
			    && call < s->channels[c].end[*e].calls + DEPTH)
				return &s->channels[c];
	abort();
}

void allreduce_sends_ticket(struct allreduce_worker *worker, const struct hd_ticket *ticket) {
	struct pair_call *call = ticket->user;

	(void)worker;
	call->ticket = *ticket;
}

void allreduce_sends_released(struct allreduce_worker *worker, void *user) {
	struct pair_call *call = user;
	int e;
	struct pair_channel *channel = channel_of(worker->world, call, &e);

	if (!call->used || call->ticket.state < HD_TICKET_APPLIED)
		wrong(worker->world, channel, call, "released in the middle");
	call->used = false;
	ended(worker->world, channel, e, call);
}

/* The core's number for the call: one more than the last one, or 1 again, when the other end is a new process. */
static void take_number(
	struct allreduce_world *w,
	struct pair_channel *channel,
	int e,
	const struct pair_call *call
) {
	struct allreduce_sends *s = w->sends;
	struct pair_end *end = &channel->end[e];
	const uint16_t other = channel->rank[1 - e];
	const uint32_t process = s->process[other];
	const bool may_be_last
		= s->crashed[other] > 0 && hd_sim_now(w->sim) < s->crashed[other] + NOTICED;

	if (call->number == 1) {
		s->totals.restarts += end->called > 0;
		if (end->called > 0 && end->since == process)
			wrong(w, channel, call, "it is number 1 again without a reason");
		end->since = process - may_be_last;
		end->bound = 0;
	} else if (call->number != end->called + 1) {
		wrong(w, channel, call, "a wrong number");
	}
	end->called = call->number;
	s->totals.called++;
	if (e == FROM)
		s->records[s->record_count++] = (struct pair_record){
			.number = call->number,
			.process = s->process[channel->rank[FROM]],
			.channel = (uint16_t)(channel - s->channels),
		};
}

/* The arguments of the next call, and its values. */
static struct hd_reduce_args
prepare(struct allreduce_world *w, const struct pair_channel *channel, int e, struct pair_call *call
) {
	const uint32_t which = (uint32_t)(channel - w->sends->channels);
	struct hd_reduce_args args = {
		.collective = HD_COLLECTIVE_SEND,
		.root = channel->rank[FROM],
		.channel = hd_channel(channel->rank[FROM], channel->rank[TO]),
		.type = HD_DTYPE_INT64,
		.dtype = HD_DTYPE_INT64,
		.user = call,
	};

	call->number = worker_channel_next(w->workers[channel->rank[e]].core, args.channel);
	call->bytes = bytes_of(w, which, call->number);
	call->id = w->sends->record_count + 1;
	call->asked = hd_sim_now(w->sim);
	args.values = call->bytes / sizeof(uint64_t);
	if (e == FROM) {
		fill(call->data, call->bytes, call->id);
		args.in = call->data;
	} else {
		memset(call->data, 0xff, MESSAGE_MAX);
		args.out = call->data;
	}
	(void)snprintf(
		args.tag,
		sizeof args.tag,
		"%s",
		e == FROM && is_odd(w, which, call->number) ? "odd" : "even"
	);
	return args;
}

static void begin(struct allreduce_worker *worker, struct pair_channel *channel, int e) {
	struct allreduce_world *w = worker->world;
	struct pair_end *end = &channel->end[e];
	struct pair_call *call = end->calls;
	struct hd_reduce_args args;
	uint32_t number = 0;

	while (call < end->calls + DEPTH && call->used)
		call++;
	if (call == end->calls + DEPTH || w->sends->record_count == CALLS_MAX)
		return;
	*call = (struct pair_call){.data = call->data ? call->data : malloc(MESSAGE_MAX)};
	if (!call->data) {
		allreduce_fail(w, "no memory");
		return;
	}
	args = prepare(w, channel, e, call);
	call->used = true;
	if (hd_worker_reduce(
		    worker->core,
		    hd_sim_node_now(w->sim, worker->node),
		    &args,
		    hd_sim_node_sink(w->sim, worker->node),
		    &number
	    )
	    < 0) {
		call->used = false;
		return;
	}
	if (number != call->number)
		wrong(w, channel, call, "the core has given another number");
	take_number(w, channel, e, call);
}

static bool withdraw(
	struct allreduce_worker *worker,
	const struct pair_channel *channel,
	const struct pair_call *call
) {
	struct allreduce_world *w = worker->world;

	return hd_worker_cancel_pair(
		       worker->core,
		       hd_sim_node_now(w->sim, worker->node),
		       hd_channel(channel->rank[FROM], channel->rank[TO]),
		       call->number,
		       hd_sim_node_sink(w->sim, worker->node)
	       ) == 0;
}

static bool
act(struct allreduce_worker *worker, struct pair_channel *channel, int e, bool stopping) {
	struct allreduce_world *w = worker->world;
	struct allreduce_sends *s = w->sends;
	struct pair_end *end = &channel->end[e];
	bool open = false;

	for (int k = 0; k < DEPTH; k++)
		if (end->calls[k].used && (stopping || hd_random_chance(&s->random, 0.0005)))
			s->totals.withdrawn += withdraw(worker, channel, &end->calls[k]);
	if (!stopping && hd_sim_now(w->sim) >= end->next) {
		begin(worker, channel, e);
		end->next = hd_sim_now(w->sim) + hd_random_below(&s->random, 80) * HD_MS;
	}
	for (int k = 0; k < DEPTH; k++)
		open = open || end->calls[k].used;
	return open;
}

bool allreduce_sends_act(struct allreduce_worker *worker, bool stopping) {
	struct allreduce_sends *s = worker->world->sends;
	bool open = false;

	for (uint32_t c = 0; c < s->channel_count; c++)
		for (int e = 0; e < ENDS; e++)
			if (s->channels[c].rank[e] == worker->rank)
				open = act(worker, &s->channels[c], e, stopping) || open;
	hd_sim_node_poke(worker->world->sim, worker->node);
	return open;
}

void allreduce_sends_crash(struct allreduce_worker *worker) {
	struct allreduce_sends *s = worker->world->sends;

	s->process[worker->rank]++;
	s->crashed[worker->rank] = hd_sim_now(worker->world->sim);
	for (uint32_t c = 0; c < s->channel_count; c++)
		for (int e = 0; e < ENDS; e++) {
			struct pair_end *end = &s->channels[c].end[e];

			if (s->channels[c].rank[e] != worker->rank)
				continue;
			end->called = end->bound = end->since = 0;
			for (int k = 0; k < DEPTH; k++)
				end->calls[k].used = false;
		}
}

void allreduce_sends_check(struct allreduce_world *w, hd_ns since) {
	const struct allreduce_sends *s = w->sends;

	for (uint32_t c = 0; c < s->channel_count; c++)
		for (int k = 0; k < ENDS * DEPTH; k++) {
			const struct pair_call *call
				= &s->channels[c].end[k % ENDS].calls[k / ENDS];

			if (call->used && call->asked <= since)
				wrong(w,
				      &s->channels[c],
				      call,
				      k % ENDS == FROM ? "the send is blocked" :
							 "the receive is blocked");
		}
}
