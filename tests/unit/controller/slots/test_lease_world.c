/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The controller and the agent of a switch, both real, with workers of two jobs that die, come back, ask again and
 * whose messages cross, a switch that is cut off and restarts, as its executor does, and a controller. Always: a worker
 * that is notified of slots finds the lease in force as notified, rounds follow one another in its stream, all workers
 * that ask are answered, and in the end nothing is left of any lease.
 */
#include "controller_net.h"
#include "hd_group.h"
#include "switch_executor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define JOBS 2
#define WORKERS 4 /* of each job */
#define BYTES (UINT64_C(256) * 1408)
#define COUNT 352
#define KNOWN_MAX 4096
#define PATIENCE                                                                                   \
	(30 * HD_SECOND) /* the longest that a request may wait: aggregators are waited for 10 s */

struct actor {
	struct peer *peer;
	uint32_t read; /* of its log */
	bool registered, asked, started, left;
	hd_ns away_until; /* it is dead until then; 0: it is not */
	hd_ns asked_at;
	uint32_t round, done;
	uint8_t attempt;
	uint64_t token; /* of the lease that it knows */
	uint32_t turn;
	uint64_t next; /* where its next round begins */
};

struct world {
	struct net net;
	struct hd_random random;
	struct hd_switch_agent *agent;
	struct executor executor;
	struct peer *at, *aggregator;
	struct actor actors[JOBS][WORKERS];
	hd_ns switch_away_until;
	uint16_t epoch;
	uint8_t processes; /* of the agent */
	uint32_t last[JOBS]; /* no worker asks for rounds after this one; 0: no limit */
	/* Tokens that were in force once. */
	uint64_t known[KNOWN_MAX];
	uint32_t known_count, through, void_count, lost;
};

/* --- the switch ------------------------------------------------------------------------------- */

static void start_agent(struct world *w, struct hd_addr data) {
	struct hd_switch_agent_config config = {
		.name = "s1",
		.host = "s1",
		.keys = &w->net.keys,
		.key_id = 1,
		.seed = {0x51, ++w->processes},
		.controller = w->net.addr,
		.data = data,
		.slots = 96, /* three jobs' least: two have 32 each */
		.count_min = 1,
		.count_max = 2224,
		.dtypes = 1 << HD_DTYPE_FIXED32 | 1 << HD_DTYPE_FP32,
		.ops = &executor_ops,
		.owner = &w->executor,
	};

	assert_int_equal(hd_switch_agent_create(&config, &w->agent), 0);
}

static void remember(struct world *w) {
	for (uint32_t id = 0; id < HD_SWITCH_LEASES_MAX; id++)
		for (uint32_t i = 0; w->executor.held[id] && i < w->executor.lease[id].member_count;
		     i++) {
			uint64_t token = w->executor.members[id][i].token;
			uint32_t k = 0;

			while (k < w->known_count && w->known[k] != token)
				k++;
			if (k < w->known_count)
				continue;
			assert_true(w->known_count < KNOWN_MAX);
			w->known[w->known_count++] = token;
		}
}

static bool is_known(const struct world *w, uint64_t token) {
	for (uint32_t k = 0; k < w->known_count; k++)
		if (w->known[k] == token)
			return true;
	return false;
}

/* The lease that has this token, and whose member; NULL: it is over. */
static const struct hd_switch_lease *
in_force(const struct world *w, uint64_t token, uint32_t *member) {
	for (uint32_t id = 0; id < HD_SWITCH_LEASES_MAX; id++)
		for (uint32_t i = 0; w->executor.held[id] && i < w->executor.lease[id].member_count;
		     i++)
			if (w->executor.members[id][i].token == token) {
				*member = i;
				return &w->executor.lease[id];
			}
	return NULL;
}

/* --- workers ---------------------------------------------------------------------------------- */

static void send_register(struct actor *a) {
	struct hd_message m = net_register_worker(a->peer, 8, 1);

	m.register_.model_bytes = 0;
	m.register_.count_max = COUNT;
	m.register_.dtypes = 1 << HD_DTYPE_FIXED32 | 1 << HD_DTYPE_FP32;
	m.register_.reduce_round = a->done;
	(void)peer_send(a->peer, &m);
}

static void send_ask(struct world *w, struct actor *a) {
	struct hd_message m = net_push(a->peer, a->round, BYTES, 0);

	m.request.direction = HD_REDUCE;
	m.request.attempt = ++a->attempt;
	m.request.have = a->round;
	m.request.peak = 1;
	m.request.order = a->peer->job[0] == 'j' ? HD_GROUP_ARRIVAL : HD_GROUP_RANKED;
	m.request.avoid = hd_random_below(&w->random, 200) == 0;
	a->started = false;
	a->asked = peer_send(a->peer, &m) == 0;
	a->asked_at = a->asked_at ? a->asked_at : w->net.now;
}

static void over(struct actor *a, uint32_t round) {
	a->asked = a->started = false;
	a->asked_at = 0;
	a->attempt = 0;
	a->round = round;
}

static void send_done(struct actor *a) {
	struct hd_message m = {.kind = HD_MSG_REPORT};

	m.report.job = net_job(a->peer);
	m.report.worker = a->peer->worker;
	m.report.round = a->round;
	m.report.direction = HD_REDUCE;
	m.report.attempt = a->attempt;
	m.report.outcome = HD_OUTCOME_APPLIED;
	(void)peer_send(a->peer, &m);
	a->done = a->round;
	over(a, a->round + 1);
}

static void hear_slots(struct world *w, struct actor *a, const struct hd_msg_reduce *m) {
	const struct hd_group_shard shard = hd_group_get_shard(&m->shards, 0);
	const struct hd_switch_lease *lease;
	uint32_t member = 0;

	/* Before any worker was notified it was in force. */
	remember(w);
	assert_true(is_known(w, shard.out_token));
	lease = in_force(w, shard.out_token, &member);
	if (lease) {
		assert_int_equal(member, m->member);
		assert_int_equal(lease->slot_count, m->slots);
		assert_int_equal(lease->count, m->count);
		assert_int_equal(lease->dtype, m->dtype);
		assert_int_equal(lease->epoch, m->epoch);
		assert_int_equal(lease->attempt, m->lease_attempt);
		assert_int_equal(lease->members[member].worker, a->peer->worker);
		assert_int_equal(lease->members[member].copy.token, shard.in_token);
		assert_int_equal(lease->members[member].copy.ipv4, a->peer->addr.ipv4);
	}
	if (a->token == shard.out_token) {
		assert_true(m->turn > a->turn);
		assert_int_equal(m->first, a->next);
	} else {
		assert_int_equal(m->first, 0);
	}
	a->token = shard.out_token;
	a->turn = m->turn;
	a->next = m->first + BYTES / 4 / m->count;
	w->through++;
}

static void hear(struct world *w, struct actor *a, const struct hd_message *m) {
	switch (m->kind) {
	case HD_MSG_REGISTERED:
		a->registered = true;
		if (m->registered.reduce_round >= a->round)
			over(a, m->registered.reduce_round + 1);
		break;
	case HD_MSG_REDUCE:
		if (m->reduce.slots)
			hear_slots(w, a, &m->reduce);
		if (!a->asked || m->reduce.round != a->round || m->reduce.attempt != a->attempt)
			break;
		a->started = true;
		a->asked_at = 0;
		break;
	case HD_MSG_VOID:
		w->void_count++;
		if (a->started) /* whichever of its tokens: it has one round at a time */
			send_ask(w, a);
		break;
	case HD_MSG_DROP:
		if (a->asked && m->drop.round == a->round)
			over(a, (m->drop.deadline > a->round ? m->drop.deadline : a->round) + 1);
		break;
	default:
		break;
	}
}

static void send_leave(struct actor *a) {
	struct hd_message m = {.kind = HD_MSG_LEAVE};

	m.leave.job = net_job(a->peer);
	m.leave.worker = a->peer->worker;
	a->left = peer_send(a->peer, &m) == 0;
}

static void die(struct world *w, struct actor *a) {
	a->peer->cut = true;
	a->registered = false;
	a->away_until = w->net.now + HD_MS * (100 + hd_random_below(&w->random, 3000));
}

static void come_back(struct actor *a) {
	a->away_until = 0;
	a->peer->cut = false;
	a->peer->open = false;
	a->token = 0;
	peer_restart(a->peer);
	over(a, a->done + 1);
}

static void act(struct world *w, struct actor *a, uint32_t last) {
	uint64_t dice = hd_random_below(&w->random, 10000);

	if (a->away_until) {
		if (w->net.now >= a->away_until)
			come_back(a);
		return;
	}
	for (; a->read < a->peer->count; a->read++) {
		const struct hd_message m = a->peer->log[a->read];

		hear(w, a, &m);
	}
	if (a->left)
		return;
	if (!a->peer->open || !a->registered) {
		a->asked = a->started = false;
		if (a->peer->open && a->peer->session && dice < 300)
			send_register(a);
		return;
	}
	if (a->asked_at)
		if (w->net.now >= a->asked_at + PATIENCE)
			fail_msg(
				"%s %u: round %u waits at %.3f s",
				a->peer->job,
				a->peer->worker,
				a->round,
				(double)w->net.now * 1e-9
			);
	if (last && a->round > last && !a->asked)
		send_leave(a);
	else if (!last && dice < 2)
		die(w, a);
	else if (a->started && dice >= 40 && dice < 2000)
		send_done(a);
	else if ((a->started && dice < 40) || (!a->asked && dice < 3000))
		send_ask(w, a); /* told: its chunks had not the same members */
}

/* --- the world -------------------------------------------------------------------------------- */

static struct world *world_open(uint64_t seed, bool aggregator) {
	struct world *w = calloc(1, sizeof *w);

	w->epoch = 1;
	net_open(&w->net, &net_plain);
	hd_random_init(&w->random, seed);
	w->at = net_core(&w->net, (struct hd_node){&hd_switch_agent_core, NULL});
	start_agent(w, w->at->addr);
	w->at->node.core = w->agent;
	if (aggregator)
		w->aggregator = net_aggregator(&w->net, "h1", 100 * MB);
	for (uint32_t j = 0; j < JOBS; j++)
		for (uint16_t i = 0; i < WORKERS; i++) {
			struct actor *a = &w->actors[j][i];
			char host[8];

			(void)snprintf(host, sizeof host, "h%u", i + 1);
			a->peer = net_peer(&w->net, HD_ROLE_WORKER, host);
			a->peer->worker = i;
			a->round = 1;
			(void)snprintf(a->peer->tenant, sizeof a->peer->tenant, "t");
			(void)snprintf(a->peer->job, sizeof a->peer->job, "%c", j ? 'k' : 'j');
		}
	return w;
}

static void world_close(struct world *w) {
	hd_switch_agent_destroy(w->agent);
	w->at->node = (struct hd_node){0};
	net_close(&w->net);
	free(w);
}

static void restart_agent(struct world *w) {
	hd_switch_agent_destroy(w->agent);
	memset(&w->executor, 0, sizeof w->executor);
	start_agent(w, w->at->addr);
	w->at->node.core = w->agent;
}

static void restart_controller(struct world *w) {
	struct net_config config = net_plain;

	config.epoch = ++w->epoch;
	net_restart(&w->net, &config);
	if (w->aggregator) {
		struct hd_message m = net_register_aggregator(w->aggregator, 100 * MB);

		for (int i = 0; i < 3000 && peer_send(w->aggregator, &m) < 0; i++)
			net_run(&w->net, HD_MS);
	}
}

static void disturb(struct world *w) {
	uint64_t dice = hd_random_below(&w->random, 40000);

	if (w->switch_away_until && w->net.now >= w->switch_away_until) {
		w->switch_away_until = 0;
		w->at->cut = false;
	} else if (dice < 4 && !w->switch_away_until) {
		w->at->cut = true;
		w->switch_away_until
			= w->net.now + HD_MS * (100 + hd_random_below(&w->random, 4000));
	} else if (dice < 6) {
		restart_agent(w);
	} else if (dice < 10) {
		w->executor.unknown = (uint32_t)hd_random_below(&w->random, 100);
	} else if (dice < 12) {
		w->executor.fail_set = -12; /* ENOMEM */
	} else if (dice < 20) {
		w->executor.fail_set = 0;
	} else if (dice < 38) {
		w->lost += executor_disturb(&w->executor, dice - 20);
	}
}

static void world_run(struct world *w, uint32_t ms) {
	while (ms-- > 0) {
		if (!w->last[0])
			disturb(w);
		net_run(&w->net, HD_MS);
		remember(w);
		for (uint32_t j = 0; j < JOBS; j++)
			for (uint32_t i = 0; i < WORKERS; i++)
				act(w, &w->actors[j][i], w->last[j]);
	}
}

static void forget_sessions(struct world *w) {
	for (uint32_t j = 0; j < JOBS; j++)
		for (uint32_t i = 0; i < WORKERS; i++)
			w->actors[j][i].registered = false;
}

/* Of all seeds. */
struct sums {
	uint64_t through, voids, leases, refused, lost;
};

static void run(uint64_t seed, bool restarts, struct sums *sums) {
	struct world *w = world_open(seed, seed % 2);
	struct ctl_counters before = {0};

	world_run(w, 15000);
	before = *counters(&w->net);
	if (restarts) {
		restart_controller(w);
		forget_sessions(w);
		world_run(w, 15000);
	}
	/* Everything is well again: what was asked for ends, and leases are given back. */
	for (uint32_t j = 0; j < JOBS; j++)
		for (uint32_t i = 0; i < WORKERS; i++)
			if (w->actors[j][i].round > w->last[j])
				w->last[j] = w->actors[j][i].round;
	w->at->cut = false;
	executor_recover(&w->executor);
	world_run(w, 60000);
	assert_true(TAILQ_EMPTY(&w->net.controller->leases));
	assert_int_equal(w->executor.count, 0);
	assert_int_equal(hd_switch_agent_stats(w->agent)->leases_now, 0);
	sums->through += w->through;
	sums->voids += w->void_count;
	sums->leases += before.leases;
	sums->refused += before.leases_refused;
	sums->lost += w->lost;
	world_close(w);
}

static uint64_t seeds = 4; /* of each test: the program's argument */

static void run_all(uint64_t first, bool restarts) {
	struct sums sums = {0};

	for (uint64_t seed = first; seed < first + seeds; seed++)
		run(seed, restarts, &sums);
	print_message(
		"%u seeds: %u REDUCE through slots, %u VOID, %u leases, %u lost\n",
		(unsigned)seeds,
		(unsigned)sums.through,
		(unsigned)sums.voids,
		(unsigned)sums.leases,
		(unsigned)sums.lost
	);
	assert_true(sums.through > 50 * seeds && sums.lost > 0);
	assert_true(sums.voids > seeds && sums.leases > 3 * seeds && sums.refused > 0);
}

static void test_faults(void **state) {
	(void)state;
	run_all(1, false);
}

static void test_controller_restarts(void **state) {
	(void)state;
	run_all(1001, true);
}

int main(int argc, char **argv) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_controller_restarts),
	};

	if (argc > 1)
		seeds = strtoull(argv[1], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
