/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_kernels.h"
#include "hd_runs.h"
#include "replica_scene.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- what must always hold ------------------------------------------------------------------------- */

double distance(const float *a, const float *b) {
	double sum = 0;

	for (int i = 0; i < VALUES; i++)
		sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
	return sqrt(sum);
}

static void note_version(struct scene *s) {
	struct history *h = s->history;
	uint64_t values;
	const float *model = hd_server_model(s->net.server, s->worker->job, &values);
	hd_version version = hd_server_version(s->net.server, s->worker->job);

	if (!model || (h->count > 0 && h->version[h->count - 1] == version))
		return;
	assert_true(h->count < VERSIONS);
	h->version[h->count] = version;
	memcpy(h->model[h->count], model, sizeof h->model[0]);
	memcpy(h->momentum[h->count],
	       hd_server_momentum(s->net.server, s->worker->job),
	       sizeof h->momentum[0]);
	h->count++;
}

static void check_replica(struct scene *s) {
	const struct history *h = s->history;
	uint64_t values;
	const float *model = hd_server_model(s->replica, s->worker->job, &values);
	hd_version version = hd_server_version(s->replica, s->worker->job);
	size_t i = 0;

	if (!model || version == 0)
		return; /* nothing yet, or half applied */
	while (i < h->count && h->version[i] != version)
		i++;
	if (i == h->count)
		return; /* promoted: it has its own history now */
	assert_memory_equal(model, h->model[i], sizeof h->model[0]);
	assert_memory_equal(
		hd_server_momentum(s->replica, s->worker->job),
		h->momentum[i],
		sizeof h->momentum[0]
	);
	s->farthest = fmax(s->farthest, distance(model, h->model[h->count - 1]));
}

/* --- the controller's part ------------------------------------------------------------------------- */

static void carry(struct scene *s, const struct hd_msg_request *request) {
	static uint64_t token = 7000;
	struct hd_message message = {.kind = HD_MSG_DROP};
	struct hd_msg_expect expect = {
		.job = request->job,
		.worker = request->worker,
		.round = request->round,
		.direction = HD_COPY,
		.attempt = request->attempt,
		.epoch = 1,
		.token = (s->spec.unsealed ? 0 : HD_TOKEN_SEALED) | ++token,
		.bytes = request->bytes,
		.dtype = request->dtype,
		.weight = request->norm,
	};

	if (s->lost) {
		message.drop.job = request->job;
		message.drop.worker = request->worker;
		message.drop.round = request->round;
		message.drop.direction = HD_COPY;
		message.drop.attempt = request->attempt;
		message.drop.reason = HD_REASON_CANCELLED;
		fake_send(s->replica_minds, &message);
		return;
	}
	assert_true(request->round < ROUNDS && s->updates[request->round]);
	fake_expect(s->replica_minds, &expect);
	s->carrier->dtype = request->dtype;
	fake_push(
		s->carrier,
		expect.token,
		request->round,
		request->attempt,
		s->updates[request->round],
		s->sizes[request->round]
	);
}

/* Called before each step of the network. */
static bool pump(void *what) {
	struct scene *s = what;

	note_version(s);
	check_replica(s);
	while (!s->deaf && s->carried < s->replica_minds->inbox_count) {
		const struct hd_message *m = &s->replica_minds->inbox[s->carried++];

		if (m->kind == HD_MSG_REQUEST && m->request.direction == HD_COPY)
			carry(s, &m->request);
	}
	return false;
}

struct until {
	struct scene *scene;
	bool (*done)(struct scene *s, uint64_t number);
	uint64_t number;
};

static bool until_done(void *what) {
	struct until *u = what;

	pump(u->scene);
	return u->done(u->scene, u->number);
}

void run_until(struct scene *s, bool (*done)(struct scene *s, uint64_t number), uint64_t n) {
	struct until u = {s, done, n};

	net_run_until(&s->net, until_done, &u, 20 * HD_SECOND);
}

static bool passed(struct scene *s, uint64_t at) {
	return s->net.now >= at;
}

void run_for(struct scene *s, hd_ns span) {
	struct until u = {s, passed, s->net.now + span};

	/* Keepalives always come. */
	net_run_until(&s->net, until_done, &u, span + HD_SECOND);
}

static struct hd_message
order_of(const struct scene *s, uint8_t what, uint64_t generation, double div_max) {
	struct hd_message message = {.kind = HD_MSG_REPLICA};

	message.replica = (struct hd_msg_replica){
		.job = s->worker->job,
		.generation = generation,
		.epoch = 1,
		.order = what,
		.peer_ipv4 = REPLICA_IP,
		.peer_port = HD_PORT,
		.div_max = div_max,
	};
	return message;
}

void order(struct scene *s, struct fake *mind, uint8_t what, uint64_t generation, double div_max) {
	struct hd_message message = order_of(s, what, generation, div_max);

	fake_send(mind, &message);
}

void order_to(struct scene *s, uint32_t ipv4, uint64_t generation) {
	struct hd_message message = order_of(s, HD_REPLICA_KEEP, generation, -1);

	message.replica.peer_ipv4 = ipv4;
	fake_send(s->minds, &message);
}

/* --- setting up ------------------------------------------------------------------------------------ */

static bool minds_open(struct scene *s, uint64_t number) {
	(void)number;
	return fake_count(s->minds, HD_MSG_REGISTER) > 0
		&& fake_count(s->replica_minds, HD_MSG_REGISTER) > 0;
}

uint8_t scene_seed;

void replica_start(struct scene *s, uint64_t memory) {
	const char *step = getenv("HEDDLE_TEST_APPLY");
	struct hd_server_config *config = &s->replica_config;

	*config = (struct hd_server_config){
		.name = "replica",
		.host = "rp",
		.replica = true,
		.keys = &s->net.keys,
		.key_id = 7,
		.controller = {REPLICA_MIND_IP, HD_PORT},
		.data = {REPLICA_IP, HD_PORT},
		.memory_bytes = memory,
		.apply_values = step ? strtoull(step, NULL, 10) : 0,
	};
	memset(config->seed, 77 + (int)s->net.starts++ + scene_seed, sizeof config->seed);
	assert_int_equal(hd_server_create(config, &s->replica), 0);
	s->replica_node = (struct net_node){.node = {&hd_server_ops, s->replica}};
	net_add(&s->net, &s->replica_node, REPLICA_IP);
}

static struct scene *open_as(uint64_t replica_memory, bool unsealed) {
	struct scene *s = calloc(1, sizeof *s);

	s->history = calloc(1, sizeof *s->history);
	hd_random_init(&s->random, 3);
	net_open(&s->net);
	spec_make(&s->spec, s->tensors, VALUES);
	s->spec.unsealed = unsealed;
	s->minds = fake_controller(&s->net, 1);
	s->replica_minds = fake_controller_at(&s->net, 1, REPLICA_MIND_IP);
	s->config.controller = s->minds->node.addr;
	net_server(&s->net, &s->config);
	replica_start(s, replica_memory);
	s->worker = fake_worker(&s->net, 1);
	s->carrier = fake_worker_at(&s->net, 1, CARRIER_IP, (struct hd_addr){REPLICA_IP, HD_PORT});
	run_until(s, minds_open, 0);
	s->base = fake_joined(s->worker, &s->spec)->version;
	s->carrier->job = s->worker->job;
	return s;
}

struct scene *scene_open(uint64_t replica_memory) {
	return open_as(replica_memory, false);
}

struct scene *scene_open_unsealed(void) {
	return open_as(0, true);
}

void scene_close(struct scene *s) {
	fake_close(s->worker);
	fake_close(s->carrier);
	fake_close(s->minds);
	fake_close(s->replica_minds);
	hd_server_destroy(s->replica);
	net_close(&s->net);
	for (int i = 0; i < ROUNDS; i++)
		free(s->updates[i]);
	free(s->history);
	free(s);
}

/* --- pushing --------------------------------------------------------------------------------------- */

void make_update(struct scene *s, uint8_t dtype, double size) {
	float *values = calloc(VALUES, sizeof(float));
	uint32_t round = ++s->round;
	uint64_t count = VALUES;

	assert_true(round < ROUNDS);
	for (int i = 0; i < VALUES; i++)
		values[i] = (float)(size * (hd_random_unit(&s->random) - 0.2));
	s->updates[round] = values;
	if (hd_dtype_is_half(dtype)) {
		s->updates[round] = calloc(VALUES, sizeof(float));
		hd_half_from_f32(dtype, (void *)s->updates[round], values, VALUES, 1);
		free(values);
	} else if (dtype == HD_DTYPE_SPARSE32) {
		struct hd_run runs[2] = {{10, 300}, {700, 450}};

		s->updates[round] = calloc(VALUES, sizeof(float));
		count = hd_runs_bytes(runs, 2, HD_CHUNK_BYTES_DEFAULT) / 4;
		hd_runs_encode(
			runs, 2, values, 1, HD_CHUNK_BYTES_DEFAULT, (uint8_t *)s->updates[round]
		);
		free(values);
	}
	s->sizes[round] = count;
	s->worker->dtype = dtype;
}

void grant_push(struct scene *s) {
	size_t grants = fake_count(s->worker, HD_MSG_GRANT);
	const struct hd_msg_grant *grant;

	fake_request_push(
		s->worker,
		s->round,
		1,
		s->base,
		s->sizes[s->round] * hd_dtype_bytes(s->worker->dtype)
	);
	grant = &fake_wait(s->worker, HD_MSG_GRANT, grants)->grant;
	fake_push(s->worker, grant->token, s->round, 1, s->updates[s->round], s->sizes[s->round]);
}

bool has_outcome(struct scene *s, uint64_t round) {
	for (size_t i = 0; i < s->worker->inbox_count; i++)
		if (s->worker->inbox[i].kind == HD_MSG_OUTCOME
		    && s->worker->inbox[i].outcome.round == round)
			return true;
	return false;
}

void push(struct scene *s, uint8_t dtype, double size) {
	make_update(s, dtype, size);
	grant_push(s);
	run_until(s, has_outcome, s->round);
	assert_int_equal(fake_outcome(s->worker, s->round)->outcome, HD_OUTCOME_APPLIED);
	s->base = fake_outcome(s->worker, s->round)->version;
}

bool replica_at(struct scene *s, uint64_t version) {
	return hd_server_version(s->replica, s->worker->job) == version;
}

bool sent_durable(struct scene *s, uint64_t version) {
	for (size_t i = 0; i < s->worker->inbox_count; i++)
		if (s->worker->inbox[i].kind == HD_MSG_DURABLE
		    && s->worker->inbox[i].durable.version >= version)
			return true;
	return false;
}

const struct hd_msg_follow *last_follow(struct scene *s) {
	for (size_t i = s->minds->inbox_count; i-- > 0;)
		if (s->minds->inbox[i].kind == HD_MSG_FOLLOW)
			return &s->minds->inbox[i].follow;
	return NULL;
}

bool caught_up(struct scene *s, uint64_t number) {
	const struct hd_msg_follow *f = last_follow(s);

	(void)number;
	return f && f->state == HD_FOLLOW_CAUGHT_UP;
}

void follow(struct scene *s, double div_max) {
	order(s, s->minds, HD_REPLICA_KEEP, ++s->generation, div_max);
	run_until(s, caught_up, 0);
}
