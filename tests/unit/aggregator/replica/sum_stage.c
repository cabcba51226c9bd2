/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_kernels.h"
#include "sum_stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fake *aggregator_at(struct scene *s, uint16_t index, uint32_t ipv4) {
	const struct hd_addr at = {ipv4, HD_PORT};
	struct fake *fake = fake_node_at(&s->net, HD_ROLE_AGGREGATOR, 0x0a000200U + index, at);

	fake->job = s->worker->job;
	return fake;
}

void stage_open(struct stage *t, uint64_t replica_memory) {
	*t = (struct stage){.scene = scene_open(replica_memory), .position = 1};
	t->other = fake_worker(&t->scene->net, 2);
	(void)fake_joined(t->other, &t->scene->spec);
	t->aggregator = aggregator_at(t->scene, 1, SERVER_IP);
	t->second = aggregator_at(t->scene, 2, REPLICA_IP);
	follow(t->scene, -1);
}

void stage_close(struct stage *t) {
	fake_close(t->other);
	fake_close(t->aggregator);
	if (t->second)
		fake_close(t->second);
	scene_close(t->scene);
	for (uint32_t i = 0; i < t->count; i++)
		free(t->made[i]);
}

const struct hd_server_stats *stats(const struct stage *t) {
	return hd_server_stats(t->scene->replica);
}

struct sum *sum_make(struct stage *t, uint8_t dtype) {
	struct scene *s = t->scene;
	struct sum *sum = calloc(1, sizeof *sum);
	float wide[VALUES];

	assert_true(t->count < MADE_MAX);
	t->made[t->count++] = sum;
	sum->token = 0x50000 + t->count;
	sum->copy = 0x60000 + t->count;
	s->round++;
	for (uint16_t i = 0; i < 2; i++)
		sum->list[i] = (struct hd_group_member){
			.token = 0x70000 + 2 * t->count + i,
			.base = s->base,
			.worker = 1 + i,
			.round = s->round,
			.attempt = 1,
			.weight = 1.0F / (float)(1 + i),
		};
	for (int i = 0; i < VALUES; i++)
		wide[i] = (float)(2 * hd_random_unit(&s->random) - 0.6);
	if (hd_dtype_is_half(dtype))
		hd_half_from_f32(dtype, (void *)sum->values, wide, VALUES, 1);
	else if (dtype == HD_DTYPE_FIXED32)
		(void)hd_fixed_from_f32((void *)sum->values, wide, VALUES, 1, -20);
	else
		memcpy(sum->values, wide, sizeof wide);
	sum->message = (struct hd_msg_members){
		.job = s->worker->job,
		.epoch = 1,
		.position = t->position,
		.bytes = VALUES * hd_dtype_bytes(dtype),
		.weight = 1.5F,
		.dtype = dtype,
		.peer_port = HD_PORT,
	};
	t->position += 2;
	return sum;
}

static void
tell(struct fake *mind, const struct sum *sum, uint64_t token, const struct fake *sender) {
	struct hd_msg_members message = sum->message;

	message.token = token;
	message.peer_ipv4 = fake_address(sender).ipv4;
	fake_members(mind, &message, sum->list, 2);
}

void tell_server(struct stage *t, const struct sum *sum) {
	tell(t->scene->minds, sum, sum->token, t->aggregator);
}

void tell_replica(struct stage *t, const struct sum *sum) {
	tell(t->scene->replica_minds, sum, sum->copy, t->second);
}

static void send_as(struct fake *aggregator, const struct sum *sum, uint64_t token) {
	aggregator->dtype = sum->message.dtype;
	aggregator->exponent = sum->message.dtype == HD_DTYPE_FIXED32 ? -20 : 0;
	fake_push(aggregator, token, 0, 0, sum->values, VALUES);
}

void send_to_server(struct stage *t, const struct sum *sum) {
	send_as(t->aggregator, sum, sum->token);
}

void send_to_replica(struct stage *t, const struct sum *sum) {
	send_as(t->second, sum, sum->copy);
}

void committed(struct stage *t, const struct sum *sum) {
	struct scene *s = t->scene;

	run_until(s, has_outcome, sum->list[0].round);
	assert_int_equal(fake_outcome(s->worker, sum->list[0].round)->outcome, HD_OUTCOME_APPLIED);
	s->base = fake_outcome(t->other, sum->list[0].round)->version;
}

const struct hd_msg_report *report_of(const struct stage *t, const struct sum *sum) {
	const struct fake *mind = t->scene->replica_minds;

	for (size_t i = mind->inbox_count; i-- > 0;)
		if (mind->inbox[i].kind == HD_MSG_REPORT
		    && mind->inbox[i].report.token == sum->copy)
			return &mind->inbox[i].report;
	return NULL;
}

size_t voided(const struct stage *t, const struct sum *sum, uint8_t *reason) {
	size_t count = 0;

	for (size_t i = 0; i < t->second->inbox_count; i++)
		if (t->second->inbox[i].kind == HD_MSG_VOID
		    && t->second->inbox[i].void_.token == sum->copy) {
			*reason = t->second->inbox[i].void_.reason;
			count++;
		}
	return count;
}

struct srv_job *job_of(const struct stage *t) {
	return srv_job_find(t->scene->replica, t->scene->worker->job);
}

void assert_nothing_held(const struct stage *t) {
	const struct srv_job *job = job_of(t);
	const struct srv_buffer *idle;
	uint32_t used = job->buffer_count;

	assert_int_equal(job->open_count, 0);
	assert_int_equal(job->replica->sum_count, 0);
	for (idle = job->pool; idle; idle = idle->next)
		used--;
	for (int i = 0; i < 2; i++)
		used -= job->spare[i] != NULL;
	assert_int_equal(used, 2);
}

void assert_forgotten(const struct stage *t, const struct sum *sum) {
	uint8_t reason;

	assert_non_null(report_of(t, sum));
	assert_int_equal(report_of(t, sum)->outcome, HD_OUTCOME_APPLIED);
	assert_int_equal(voided(t, sum, &reason), 0);
	assert_nothing_held(t);
}

void assert_ended(const struct stage *t, const struct sum *sum, enum hd_reason why) {
	const struct hd_msg_report *report = report_of(t, sum);
	uint8_t reason = HD_REASON_NONE;

	assert_int_equal(voided(t, sum, &reason), 1);
	assert_int_equal(reason, why);
	assert_non_null(report);
	assert_int_equal(report->outcome, HD_OUTCOME_FAILED);
	assert_int_equal(report->reason, why);
	assert_int_equal(report->direction, HD_COPY);
	assert_int_equal(report->worker, HD_GROUP_WORKER);
}

void sum_whole(struct stage *t) {
	struct sum *sum = sum_make(t, HD_DTYPE_FP32);

	tell_server(t, sum);
	tell_replica(t, sum);
	send_to_server(t, sum);
	send_to_replica(t, sum);
	committed(t, sum);
	run_until(t->scene, replica_at, t->scene->base);
}

void assert_goes_on(struct stage *t) {
	uint64_t states = stats(t)->states_taken;

	assert_nothing_held(t);
	for (int i = 0; i < 3; i++)
		sum_whole(t);
	assert_int_equal(stats(t)->states_taken, states);
	assert_nothing_held(t);
}

void send_void(struct stage *t, const struct sum *sum) {
	struct hd_message message = {.kind = HD_MSG_VOID};

	message.void_.job = sum->message.job;
	message.void_.token = sum->copy;
	message.void_.reason = HD_REASON_CLOSED;
	fake_send(t->second, &message);
}
