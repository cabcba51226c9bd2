/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server among a controller, an aggregator and workers who say and send what the input says: sums and single
 * updates of the same few rounds, withdrawn, asked for again, sent whole or in part. Whatever comes: each round is
 * committed at most once, within its bound, and each sum whole.
 */
#include "fuzz.h"
#include "server_sums.h"

#include <string.h>

#define STEPS_MAX 40
#define ROUNDS 4
#define TAU_MAX 6

struct input {
	const uint8_t *data;
	size_t left;
};

static uint64_t take(struct input *input, size_t bytes) {
	uint64_t value = 0;

	while (bytes-- > 0) {
		uint8_t byte = 0;

		if (input->left > 0) {
			byte = *input->data++;
			input->left--;
		}
		value = value << 8 | byte;
	}
	return value;
}

/* A few positions, so that words and chunks meet. */
static uint64_t any_position(struct input *input) {
	return 1 + take(input, 1) % 12;
}

static uint64_t any_token(struct input *input) {
	uint64_t position = any_position(input);

	return (take(input, 1) % 2 ? SUM_TOKEN : PART_TOKEN) + position;
}

/* A version that was, or is not yet. */
static hd_version any_base(const struct sums *s, struct input *input) {
	return s->base + take(input, 1) % 8;
}

static void any_members(struct sums *s, struct input *input) {
	static const char *const lists[] = {"0", "01", "12", "012", "0123", "320", "11", "31"};
	const char *list = lists[take(input, 1) % 8];

	sums_make(s, list, any_position(input));
	for (size_t i = 0; list[i] != '\0'; i++) {
		s->list[i].round = 1 + (uint32_t)take(input, 1) % ROUNDS;
		s->list[i].attempt = 1 + (uint8_t)take(input, 1) % 3;
		s->list[i].base = any_base(s, input);
	}
	if (take(input, 1) % 4 == 0)
		s->message.after = any_token(input);
	if (take(input, 1) % 8 == 0)
		s->message.epoch = (uint16_t)(2 + take(input, 1) % 3);
	if (take(input, 1) % 8 == 0)
		s->message.peer_port++;
	fake_members(s->controller, &s->message, s->list, (uint32_t)strlen(list));
}

static void any_expect(struct sums *s, struct input *input) {
	struct hd_msg_expect expect = {
		.job = s->job,
		.worker = (uint16_t)take(input, 1) % SUM_WORKERS,
		.round = 1 + (uint32_t)take(input, 1) % ROUNDS,
		.attempt = 1 + (uint8_t)take(input, 1) % 3,
		.epoch = 3,
		.token = any_token(input),
		.position = any_position(input),
		.base = any_base(s, input),
		.bytes = SUM_BYTES,
		.weight = 1,
		.after = take(input, 1) % 4 == 0 ? any_token(input) : 0,
	};

	fake_expect(s->controller, &expect);
}

static struct fake *any_fake(struct sums *s, struct input *input) {
	uint64_t which = take(input, 1) % (SUM_WORKERS + 1);

	return which < SUM_WORKERS ? s->worker[which] : s->aggregator;
}

static bool has_room(const struct fake *fake) {
	size_t active = 0;

	for (size_t i = 0; i < FAKE_SENDS_MAX; i++) {
		active += fake->sends[i] && hd_send_stats(fake->sends[i])->state < HD_SEND_DONE ?
			1 :
			0;
	}
	return active + 1 < FAKE_SENDS_MAX;
}

static void any_push(struct sums *s, struct input *input) {
	struct fake *fake = any_fake(s, input);
	uint64_t token = any_token(input);
	uint32_t round = 1 + (uint32_t)take(input, 1) % ROUNDS;
	uint8_t attempt = 1 + (uint8_t)take(input, 1) % 3;

	fake->granted_bps = take(input, 1) % 2 ? 20000000 : 0;
	if (has_room(fake))
		fake_push(fake, token, round, attempt, s->g[0], SUM_VALUES);
}

static void any_word(struct sums *s, struct input *input) {
	struct hd_message message = {.kind = HD_MSG_VOID};
	struct fake *from = take(input, 1) % 2 ? s->controller : any_fake(s, input);
	uint8_t reason = (uint8_t)take(input, 1);
	uint16_t rank = (uint16_t)take(input, 1) % SUM_WORKERS;
	uint32_t round = 1 + (uint32_t)take(input, 1) % ROUNDS;

	switch (take(input, 1) % 3) {
	case 0:
		message.void_ = (struct hd_msg_void_){s->job, 0, any_token(input), reason};
		fake_send(from, &message);
		break;
	case 1:
		message.kind = HD_MSG_CANCEL;
		message.cancel.job = s->job;
		message.cancel.worker = rank;
		message.cancel.round = round;
		message.cancel.attempt = 3;
		fake_send(s->worker[rank], &message);
		break;
	default:
		fake_request_push(
			s->worker[rank],
			round,
			1 + (uint8_t)take(input, 1) % 4,
			any_base(s, input),
			SUM_BYTES
		);
		break;
	}
}

static void step(struct sums *s, struct input *input) {
	switch (take(input, 1) % 6) {
	case 0:
		net_run(&s->net, take(input, 1) * HD_MS);
		break;
	case 1:
	case 2:
		any_members(s, input);
		break;
	case 3:
		any_expect(s, input);
		break;
	case 4:
		any_push(s, input);
		break;
	default:
		any_word(s, input);
		break;
	}
	net_run(&s->net, HD_MS);
}

/* The commits, in their order. */
static void check(const struct sums *s) {
	bool committed[SUM_WORKERS][ROUNDS + 1] = {{false}};
	size_t count = net_events(&s->net, HD_EVENT_COMMITTED);
	uint16_t more = 0;

	for (size_t i = 0; i < count; i++) {
		const struct hd_event *event = net_event(&s->net, HD_EVENT_COMMITTED, i);

		CHECK(event->version == s->base + 1 + i);
		CHECK(event->aux == event->version - event->base && event->aux <= TAU_MAX);
		CHECK(event->worker < SUM_WORKERS && event->round <= ROUNDS);
		CHECK(!committed[event->worker][event->round]);
		committed[event->worker][event->round] = true;
		CHECK(more == 0 || event->more + 1 == more);
		more = event->more;
	}
	CHECK(more == 0);
	CHECK(hd_server_version(s->net.server, s->job) == s->base + count);
	CHECK(hd_server_stats(s->net.server)->committed == count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	const struct hd_server_config config = {.hold_us = 50000, .apply_values = 2500};
	struct input input = {data, bytes};
	struct sums *s = sums_open(TAU_MAX, &config);

	for (size_t i = 0; i < STEPS_MAX && input.left > 0; i++)
		step(s, &input);
	fake_close(s->aggregator); /* its unsent packets fail, and no peer waits for them */
	s->aggregator = NULL;
	net_run(&s->net, 3 * HD_SECOND);
	check(s);
	sums_close(s);
	return 0;
}
