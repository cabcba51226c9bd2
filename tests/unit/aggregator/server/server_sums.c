/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_kernels.h"
#include "server_sums.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool is_registered(void *what) {
	return fake_count(what, HD_MSG_REGISTER) > 0;
}

struct sums *sums_open(uint32_t tau_max, const struct hd_server_config *config) {
	struct sums *s = calloc(1, sizeof *s);

	net_open(&s->net);
	spec_make(&s->spec, s->tensors, SUM_VALUES);
	s->spec.tau_max = tau_max;
	s->controller = fake_controller(&s->net, 3);
	s->config = *config;
	s->config.controller = s->controller->node.addr;
	net_server(&s->net, &s->config);
	net_run_until(&s->net, is_registered, s->controller, HD_SECOND);
	for (uint16_t i = 0; i < SUM_WORKERS; i++) {
		s->worker[i] = fake_worker(&s->net, i);
		s->base = fake_joined(s->worker[i], &s->spec)->version;
		for (size_t k = 0; k < SUM_VALUES; k++)
			s->g[i][k] = (float)(i + 1) * 0.25F + (float)(k % 17) * 0.125F;
	}
	s->job = s->worker[0]->job;
	s->aggregator = fake_aggregator(&s->net, 1);
	s->aggregator->job = s->job;
	return s;
}

void sums_close(struct sums *s) {
	for (uint16_t i = 0; i < SUM_WORKERS; i++)
		if (s->worker[i])
			fake_close(s->worker[i]);
	if (s->aggregator)
		fake_close(s->aggregator);
	fake_close(s->controller);
	net_close(&s->net);
	free(s);
}

void sums_make(struct sums *s, const char *workers, uint64_t position) {
	size_t count = strlen(workers);

	memset(s->list, 0, sizeof s->list);
	for (size_t i = 0; i < count; i++) {
		s->list[i] = (struct hd_group_member){
			.token = PART_TOKEN + position + i,
			.base = s->base,
			.worker = (uint16_t)(workers[i] - '0'),
			.round = 1,
			.attempt = 1,
			.weight = 1,
		};
	}
	s->message = (struct hd_msg_members){
		.job = s->job,
		.token = SUM_TOKEN + position,
		.epoch = 3,
		.position = position,
		.bytes = SUM_BYTES,
		.weight = (float)count,
		.peer_ipv4 = s->aggregator->node.addr.ipv4,
		.peer_port = s->aggregator->node.addr.port,
	};
}

void sums_send(struct sums *s, const char *list) {
	fake_members(s->controller, &s->message, s->list, (uint32_t)strlen(list));
	net_run(&s->net, 5 * HD_MS);
}

void sums_tell(struct sums *s, const char *workers, uint64_t position) {
	sums_make(s, workers, position);
	sums_send(s, workers);
}

static struct hd_send *sums_begin(struct sums *s, const char *workers, uint64_t position) {
	memset(s->sum, 0, sizeof s->sum);
	for (size_t i = 0; workers[i] != '\0'; i++)
		hd_add_f32(s->sum, s->g[workers[i] - '0'], SUM_VALUES);
	return fake_push(s->aggregator, SUM_TOKEN + position, 0, 0, s->sum, SUM_VALUES);
}

void sums_push(struct sums *s, const char *workers, uint64_t position) {
	(void)sums_begin(s, workers, position);
}

static bool is_sent(void *what) {
	return hd_send_stats(what)->state == HD_SEND_DONE;
}

void sums_push_whole(struct sums *s, const char *workers, uint64_t position) {
	struct hd_send *send = sums_begin(s, workers, position);

	net_run_until(&s->net, is_sent, send, HD_SECOND);
}

void sums_advance(struct sums *s, uint32_t commits) {
	for (uint32_t i = 0; i < commits; i++) {
		uint32_t round = 11 + s->advanced++;
		hd_version newest = hd_server_version(s->net.server, s->job);

		assert_int_equal(
			fake_push_direct(s->worker[3], round, newest, s->g[3], SUM_VALUES)->outcome,
			HD_OUTCOME_APPLIED
		);
	}
}

void sums_run_ms(struct sums *s, uint32_t ms) {
	net_run(&s->net, ms * HD_MS);
}

size_t sums_withdrawn(const struct sums *s, uint16_t worker, uint64_t position) {
	const struct fake *fake = s->worker[worker];
	size_t count = 0;

	for (size_t i = 0; i < fake->inbox_count; i++) {
		count += fake->inbox[i].kind == HD_MSG_VOID
				&& fake->inbox[i].void_.token == PART_TOKEN + position ?
			1 :
			0;
	}
	return count;
}

void sums_assert_order(const struct sums *s, const char *order) {
	char found[64] = "";

	for (size_t i = 0; i < net_events(&s->net, HD_EVENT_COMMITTED); i++)
		found[i] = (char)('0' + net_event(&s->net, HD_EVENT_COMMITTED, i)->worker);
	assert_string_equal(found, order);
}
