/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs come and go: the limit is of those that live, and what has ended takes no memory. */
#include "controller_net.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define JOBS 10000
#define WARM 1000 /* more than HD_ENDED_MAX */

static const struct net_config first = {.epoch = 1, .initial_bps = 80e6, .theta = 3};
static const struct net_config forgets
	= {.epoch = 1, .initial_bps = 80e6, .theta = 3, .forgets = true};
static const struct net_config second = {.epoch = 2, .initial_bps = 80e6, .theta = 3};

static size_t held(void) {
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* Forgets the state of the harness, which is not the controller's. */
static void forget(struct net *net) {
	for (uint32_t i = 0; i < net->peer_count; i++)
		peer_forget(&net->peers[i]);
	net->event_count = 0;
}

static void name_job(struct peer *worker, uint32_t number) {
	(void)snprintf(worker->job, sizeof worker->job, "j%u", number);
}

static struct ctl_job *job_of(struct net *net, const struct peer *worker) {
	return ctl_job_find(net->controller, net_job(worker));
}

static void leave(struct peer *worker) {
	struct hd_message m = {.kind = HD_MSG_LEAVE};

	m.leave.job = net_job(worker);
	m.leave.worker = worker->worker;
	m.leave.reason = HD_REASON_LEFT;
	post(worker, m);
	net_run(worker->net, 1 * HD_MS);
}

static void server_leaves(struct peer *server, uint32_t job, enum hd_reason reason) {
	struct hd_message m = {.kind = HD_MSG_LEAVE};

	m.leave.job = job;
	m.leave.reason = (uint8_t)reason;
	post(server, m);
	net_run(server->net, HD_MS);
}

/* Registers; fails the test when it is refused. */
static void enter(struct peer *worker, uint32_t number) {
	name_job(worker, number);
	worker->refused[0] = '\0';
	post(worker, net_register_worker(worker, 8, 1));
	net_run(worker->net, HD_MS);
	if (worker->refused[0])
		fail_msg("job %u: %s", number, worker->refused);
	assert_non_null(job_of(worker->net, worker));
}

/* A worker registers, its update is applied, it leaves. */
static void one_job(struct peer *server, struct peer *worker, uint32_t number) {
	const struct hd_msg_grant *grant;

	enter(worker, number);
	post(worker, net_push(worker, 1, MB, 0));
	net_run(worker->net, 5 * HD_MS);
	grant = peer_grant(worker, worker->worker, 1);
	assert_non_null(grant);
	post(server, net_report(grant, 1, 80000000));
	net_run(worker->net, 2 * HD_MS);
	assert_int_equal(job_of(worker->net, worker)->applied, 1);
	leave(worker);
}

struct run {
	struct net net;
	struct peer *server, *worker;
	size_t before;
};

static void run_open(struct run *r, const struct net_config *config) {
	memset(r, 0, sizeof *r);
	net_open(&r->net, config);
	r->server = net_server(&r->net, "ps");
	r->worker = net_worker(&r->net, "team", "j0", 0, 8);
	net_run(&r->net, SETTLED);
	leave(r->worker);
}

static void run_measure(struct run *r, uint32_t number) {
	forget(&r->net);
	if (number == WARM)
		r->before = held();
	if (number == JOBS - 1 && held() > r->before + 100000)
		fail_msg("%zu bytes, after %u jobs %zu", held(), WARM, r->before);
}

/* The server keeps each model, as it may be joined again, and never says that a job has ended. */
static void test_in_a_row_kept(void **state) {
	const struct hd_message *order;
	struct run r;

	(void)state;
	run_open(&r, &forgets);
	for (uint32_t i = 0; i < JOBS; i++) {
		one_job(r.server, r.worker, i);
		if (i >= HD_JOBS_MAX) { /* the server is told which one gave way */
			uint32_t found = 0;

			for (uint32_t k = 0; k < r.server->count; k++) {
				order = &r.server->log[k];
				found += order->kind == HD_MSG_REPLICA
					&& order->replica.order == HD_REPLICA_END;
			}
			assert_int_equal(found, 1);
		}
		run_measure(&r, i);
	}
	assert_int_equal(r.net.controller->job_count, HD_JOBS_MAX);
	assert_int_equal(counters(&r.net)->jobs_ended, JOBS - HD_JOBS_MAX);
	assert_int_equal(r.net.controller->ended_count, HD_ENDED_MAX);
	assert_int_equal(counters(&r.net)->hostile_owner, 0);
	net_close(&r.net);
}

/* The server says of each that it is gone. */
static void test_in_a_row_ended(void **state) {
	struct run r;

	(void)state;
	run_open(&r, &forgets);
	for (uint32_t i = 0; i < JOBS; i++) {
		one_job(r.server, r.worker, i);
		server_leaves(r.server, net_job(r.worker), HD_REASON_LEFT);
		assert_null(job_of(&r.net, r.worker));
		run_measure(&r, i);
	}
	assert_int_equal(r.net.controller->job_count, 0);
	assert_int_equal(r.net.controller->tenant_count, 0);
	assert_int_equal(counters(&r.net)->jobs_ended, JOBS + (uint64_t)0);
	net_close(&r.net);
}

/* Jobs of all-reduces have no server. */
static void test_in_a_row_without_server(void **state) {
	struct hd_message m;
	struct run r;

	(void)state;
	run_open(&r, &forgets);
	for (uint32_t i = 0; i < 2 * HD_JOBS_MAX; i++) {
		name_job(r.worker, i);
		m = net_register_worker(r.worker, 8, 1);
		m.register_.model_bytes = 0;
		post(r.worker, m);
		net_run(&r.net, HD_MS);
		assert_non_null(job_of(&r.net, r.worker));
		leave(r.worker);
		forget(&r.net);
	}
	assert_string_equal(r.worker->refused, "");
	assert_int_equal(r.net.controller->job_count, HD_JOBS_MAX);
	net_close(&r.net);
}

/* The controller dies again and again, and reads what it kept: it knows no more of jobs than before. */
static void test_in_a_row_restarts(void **state) {
	char error[256];
	struct run r;

	(void)state;
	run_open(&r, &first);
	for (uint32_t i = 0; i < 1200; i++) {
		if (i % 300 == 299) {
			char *kept = r.net.kept;

			r.net.kept = NULL;
			assert_non_null(kept);
			net_restart(&r.net, &second);
			if (hd_controller_restore(r.net.controller, kept, error, sizeof error))
				fail_msg("%s", error);
			free(kept);
			net_run(&r.net, HD_SECOND);
			post(r.server, net_register_server(r.server));
			net_run(&r.net, SETTLED);
		}
		one_job(r.server, r.worker, i);
		forget(&r.net);
		assert_in_range(r.net.controller->job_count, 1, HD_JOBS_MAX);
		assert_in_range(r.net.controller->ended_count, 0, HD_ENDED_MAX);
	}
	net_close(&r.net);
}

/* As many as may be have workers: the next one hears so. When one has ended there is room, whatever its server says. */
static void test_limit_of_the_living(void **state) {
	struct peer *workers[HD_JOBS_MAX], *late, *server;
	char count[64];
	struct net net;

	(void)state;
	net_open(&net, &first);
	server = net_server(&net, "ps");
	(void)server;
	for (uint32_t i = 0; i < HD_JOBS_MAX; i++) {
		char name[16];

		(void)snprintf(name, sizeof name, "j%u", i);
		workers[i] = net_worker(&net, "team", name, 0, 8);
	}
	late = net_worker(&net, "team", "late", 0, 8);
	(void
	)snprintf(count, sizeof count, "jobs: %u of %u have workers", HD_JOBS_MAX, HD_JOBS_MAX);
	if (!strstr(late->refused, count) || !strstr(late->refused, "HD_JOBS_MAX 256"))
		fail_msg("%s", late->refused);
	assert_int_equal(net.controller->job_count, HD_JOBS_MAX);
	leave(workers[17]);
	late->refused[0] = '\0';
	post(late, net_register_worker(late, 8, 1));
	net_run(&net, HD_MS);
	assert_string_equal(late->refused, "");
	assert_non_null(job_of(&net, late));
	assert_null(job_of(&net, workers[17]));
	net_close(&net);
}

/* Lost workers may come back: a job that all workers left gives way first. */
static void test_which_job_makes_room(void **state) {
	struct peer *server, *lost, *left, *paused, *others[HD_JOBS_MAX - 3], *late;
	struct net net;

	(void)state;
	net_open(&net, &first);
	server = net_server(&net, "ps");
	lost = net_worker(&net, "team", "lost", 0, 8);
	left = net_worker(&net, "team", "left", 0, 8);
	paused = net_worker(&net, "team", "paused", 0, 8);
	job_of(&net, paused)->paused = true;
	for (uint32_t i = 0; i < HD_JOBS_MAX - 3; i++) {
		char name[16];

		(void)snprintf(name, sizeof name, "j%u", i);
		others[i] = net_worker(&net, "team", name, 0, 8);
	}
	leave(paused);
	lost->cut = true;
	net_run(&net, 2 * HD_SECOND);
	leave(left);
	late = net_worker(&net, "team", "late1", 0, 8);
	assert_null(job_of(&net, left));
	assert_non_null(job_of(&net, lost));
	net_run(&net, HD_JOB_AWAY_US * HD_US);
	net_worker(&net, "team", "late2", 0, 8);
	assert_null(job_of(&net, lost));
	assert_non_null(job_of(&net, paused));
	net_worker(&net, "team", "late3", 0, 8);
	assert_null(job_of(&net, paused));
	assert_non_null(job_of(&net, others[0]));
	assert_non_null(job_of(&net, late));
	assert_int_equal(server->refused[0], 0);
	net_close(&net);
}

/* All workers of a job were lost for a moment: before they had time to come back it gives way to no other job, as its
 * server may have no checkpoint of it. */
static void test_lost_may_be_back(void **state) {
	struct peer *server, *lost, *late;
	struct net net;

	(void)state;
	net_open(&net, &first);
	server = net_server(&net, "ps");
	lost = net_worker(&net, "team", "lost", 0, 8);
	for (uint32_t i = 0; i < HD_JOBS_MAX - 1; i++) {
		char name[16];

		(void)snprintf(name, sizeof name, "j%u", i);
		net_worker(&net, "team", name, 0, 8);
	}
	lost->cut = true;
	net_run(&net, 2 * HD_SECOND);
	late = net_worker(&net, "team", "late", 0, 8);
	assert_non_null(strstr(late->refused, "others lost theirs less than 60 s ago"));
	for (uint32_t k = 0; k < server->count; k++)
		assert_true(
			server->log[k].kind != HD_MSG_REPLICA
			|| server->log[k].replica.order != HD_REPLICA_END
		);
	lost->cut = false;
	net_run(&net, 2 * HD_SECOND);
	post(lost, net_register_worker(lost, 8, 1));
	net_run(&net, HD_MS);
	assert_non_null(peer_last(lost, HD_MSG_REGISTERED));
	assert_ptr_equal(job_of(&net, lost)->server, job_of(&net, &net.peers[2])->server);
	lost->cut = true;
	net_run(&net, HD_JOB_AWAY_US * HD_US + 2 * HD_SECOND);
	post(late, net_register_worker(late, 8, 1));
	net_run(&net, HD_MS);
	assert_null(job_of(&net, lost));
	assert_non_null(job_of(&net, late));
	net_close(&net);
}

/* Begins again under the name of an ended job: where its checkpoint is, or anywhere. */
static void test_ended_name_again(void **state) {
	for (int stays = 0; stays < 2; stays++) {
		enum hd_reason reason = stays ? HD_REASON_NONE : HD_REASON_LEFT;
		struct peer *big;
		struct run r;
		struct hd_message m;

		(void)state;
		run_open(&r, &forgets);
		one_job(r.server, r.worker, 7);
		assert_string_equal(job_of(&r.net, r.worker)->server_host, "ps");
		server_leaves(r.server, net_job(r.worker), reason);
		assert_null(job_of(&r.net, r.worker));
		big = net_peer(&r.net, HD_ROLE_SERVER, "big"); /* others would go there */
		m = net_register_server(big);
		m.register_.memory_bytes *= 16;
		post(big, m);
		net_run(&r.net, SETTLED);
		enter(r.worker, 8);
		assert_string_equal(job_of(&r.net, r.worker)->server_host, "big");
		leave(r.worker);
		enter(r.worker, 7);
		net_run(&r.net, SETTLED);
		assert_string_equal(job_of(&r.net, r.worker)->server_host, stays ? "ps" : "big");
		net_close(&r.net);
	}
}

/* The server's message that the job is gone and the next worker's registration cross: the job begins again. */
static void test_leave_crosses_a_worker(void **state) {
	struct run r;
	unsigned processes;

	(void)state;
	run_open(&r, &forgets);
	one_job(r.server, r.worker, 7);
	enter(r.worker, 7);
	processes = peer_count(r.worker, HD_MSG_REGISTERED);
	server_leaves(r.server, net_job(r.worker), HD_REASON_LEFT);
	net_run(&r.net, SETTLED);
	assert_int_equal(peer_last(r.server, HD_MSG_REPLICA)->replica.order, HD_REPLICA_SERVE);
	assert_true(peer_count(r.worker, HD_MSG_REGISTERED) > processes);
	assert_int_equal(job_of(&r.net, r.worker)->state, CTL_JOB_READY);
	assert_int_equal(job_of(&r.net, r.worker)->worker_count, 1);
	net_close(&r.net);
}

/* Counters over all jobs do not fall with one that ends; its own series are gone. */
static void test_counters_stay(void **state) {
	struct hd_stats *stats = hd_stats_create();
	struct hd_out out = {0};
	struct run r;

	(void)state;
	run_open(&r, &forgets);
	enter(r.worker, 7);
	job_of(&r.net, r.worker)->dropped_for[HD_REASON_BOUND] = 5;
	leave(r.worker);
	server_leaves(r.server, net_job(r.worker), HD_REASON_LEFT);
	assert_null(job_of(&r.net, r.worker));
	hd_controller_stats(r.net.controller, stats);
	hd_stats_openmetrics(stats, &out);
	hd_out_bytes(&out, "", 1);
	assert_non_null(strstr(out.data, "_updates_ended_total{reason=\"bound\"} 5"));
	assert_null(strstr(out.data, "job=\"j7\""));
	hd_out_fini(&out);
	hd_stats_destroy(stats);
	net_close(&r.net);
}

/* No worker joins any more. */
static void test_idle_for_too_long(void **state) {
	struct run r;

	(void)state;
	run_open(&r, &forgets);
	r.net.controller->config.job_idle_us = 10000000;
	one_job(r.server, r.worker, 7);
	net_run(&r.net, 9 * HD_SECOND);
	assert_non_null(job_of(&r.net, r.worker));
	net_run(&r.net, 2 * HD_SECOND);
	assert_null(job_of(&r.net, r.worker));
	assert_int_equal(peer_last(r.server, HD_MSG_REPLICA)->replica.order, HD_REPLICA_END);
	net_close(&r.net);
}

/* Without a topology each host's name is one of a star: names of hosts that are gone give way. */
static void test_hosts_in_a_row(void **state) {
	struct peer *stays;
	uint32_t links;
	struct run r;
	int host;

	(void)state;
	run_open(&r, &forgets);
	stays = net_worker(&r.net, "team", "stays", 0, 8);
	host = ctl_worker(job_of(&r.net, stays), 0)->host_index;
	for (uint32_t i = 0; i < 20000; i++) {
		(void)snprintf(r.worker->host, sizeof r.worker->host, "pod-%u", i);
		if (i % 1000 == 0) {
			one_job(r.server, r.worker, i);
		} else {
			enter(r.worker, 1);
			leave(r.worker);
		}
		forget(&r.net);
	}
	links = hd_topology_link_count(r.net.controller->config.topology);
	assert_in_range(links, 2 * CTL_HOSTS_GONE_MAX, 2 * CTL_HOSTS_GONE_MAX + 20);
	assert_true(counters(&r.net)->hosts_reused > 18000);
	/* A connected node keeps its place, and a node that comes back soon finds its old one. */
	assert_int_equal(hd_topology_host(r.net.controller->config.topology, stays->host), host);
	assert_string_equal(ctl_link_name(r.net.controller, (uint32_t)(2 * host - 1)), "h2>star");
	links = (uint32_t)counters(&r.net)->hosts_reused;
	(void)snprintf(r.worker->host, sizeof r.worker->host, "pod-%u", 19500);
	enter(r.worker, 1);
	assert_int_equal(counters(&r.net)->hosts_reused, links);
	net_close(&r.net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_a_row_kept),
		cmocka_unit_test(test_in_a_row_ended),
		cmocka_unit_test(test_in_a_row_without_server),
		cmocka_unit_test(test_in_a_row_restarts),
		cmocka_unit_test(test_limit_of_the_living),
		cmocka_unit_test(test_which_job_makes_room),
		cmocka_unit_test(test_lost_may_be_back),
		cmocka_unit_test(test_ended_name_again),
		cmocka_unit_test(test_leave_crosses_a_worker),
		cmocka_unit_test(test_counters_stay),
		cmocka_unit_test(test_idle_for_too_long),
		cmocka_unit_test(test_hosts_in_a_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
