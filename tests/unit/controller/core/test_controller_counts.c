/* SPDX-License-Identifier: BSD-3-Clause */
/* A job's counts: each transfer that this incarnation or an earlier one granted has ended in one way or is running. */
#include "controller_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct counts {
	uint64_t granted, applied, dropped, failed, voided, running, ungranted;
};

static void expect(const struct net *net, const struct counts *want) {
	const struct ctl_job *job = net->controller->jobs[0];
	char error[256] = "";

	if (!hd_controller_adds_up(net->controller, error, sizeof error))
		fail_msg("%s", error);
	assert_int_equal(job->granted, want->granted);
	assert_int_equal(job->applied, want->applied);
	assert_int_equal(job->dropped, want->dropped);
	assert_int_equal(job->failed, want->failed);
	assert_int_equal(job->voided, want->voided);
	assert_int_equal(ctl_job_running(job), want->running);
	assert_int_equal(job->ungranted, want->ungranted);
}

static void report(struct peer *server, const struct hd_msg_grant *grant, enum hd_outcome outcome) {
	struct hd_message m = net_report(grant, grant->position, 0);

	m.report.outcome = outcome;
	post(server, m);
}

static void test_kinds_of_ends(void **state) {
	struct peer *server, *worker;
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	server = net_server(&net, "ps");
	worker = net_worker(&net, "t", "j", 0, 8);
	net_run(&net, SETTLED);
	post(worker, net_push(worker, 1, 4 * MB, 0));
	post(worker, net_push(worker, 2, 4 * MB, 0));
	post(worker, net_pull(worker, 1));
	net_run(&net, 5 * HD_MS);
	expect(&net, &(struct counts){.granted = 2, .running = 2});
	report(server, peer_grant(worker, 0, 1), HD_OUTCOME_DROPPED);
	report(server, peer_grant(worker, 0, 2), HD_OUTCOME_FAILED);
	net_run(&net, 5 * HD_MS);
	expect(&net, &(struct counts){.granted = 2, .dropped = 1, .failed = 1});
	/* A push that never got a grant, and one that is taken back with its worker, like its pull. */
	post(server, net_report(peer_grant(worker, 0, 1), 30, 0));
	net_run(&net, HD_MS);
	post(worker, net_push(worker, 3, 4 * MB, 1));
	net_run(&net, 5 * HD_MS);
	expect(&net, &(struct counts){.granted = 2, .dropped = 1, .failed = 1, .ungranted = 1});
	post(worker, net_push(worker, 4, 4 * MB, 30));
	net_run(&net, 5 * HD_MS);
	worker->cut = true;
	net_run(&net, 3 * HD_SECOND);
	expect(&net,
	       &(struct counts
	       ){.granted = 3, .dropped = 1, .failed = 1, .voided = 1, .ungranted = 1});
	assert_int_equal(net.controller->jobs[0]->pulls_failed, 1);
	net_close(&net);
}

/* A server that is back, or its successor, reports the updates in flight: workers went on with it directly. */
static void test_server_lost(void **state) {
	struct hd_message had = {.kind = HD_MSG_STATE}, part = {.kind = HD_MSG_INFLIGHT};
	struct hd_msg_grant direct = {.round = 2, .attempt = 2, .token = 778, .position = 41};
	struct peer *server, *worker;
	struct net net;

	(void)state;
	net_open(&net, &net_plain);
	server = net_server(&net, "ps");
	worker = net_worker(&net, "t", "j", 0, 8);
	net_run(&net, SETTLED);
	post(worker, net_push(worker, 1, 4 * MB, 0));
	post(worker, net_push(worker, 2, 4 * MB, 0));
	net_run(&net, 5 * HD_MS);
	expect(&net, &(struct counts){.granted = 2, .running = 2});
	peer_restart(server);
	net_run(&net, 200 * HD_MS);
	expect(&net, &(struct counts){.granted = 2, .voided = 2});
	post(server, net_register_server(server));
	had.state.job = direct.job = part.inflight.job = net_job(worker);
	had.state.version = hd_version_make(1, 3);
	had.state.position = 40;
	had.state.tau_max = 8;
	had.state.model_bytes = NET_MODEL_BYTES;
	had.state.inflight = 2;
	post(server, had);
	part.inflight.round = direct.round;
	part.inflight.attempt = direct.attempt;
	part.inflight.token = direct.token;
	part.inflight.position = direct.position;
	part.inflight.bytes = 4 * MB;
	post(server, part);
	part.inflight.direction = HD_PULL;
	part.inflight.token++;
	post(server, part);
	net_run(&net, 5 * HD_MS);
	expect(&net, &(struct counts){.granted = 3, .voided = 2, .running = 1});
	assert_int_equal(net.controller->jobs[0]->pulls_granted, 1);
	assert_int_equal(net.controller->jobs[0]->open_pulls, 1);
	report(server, &direct, HD_OUTCOME_APPLIED);
	net_run(&net, 5 * HD_MS);
	expect(&net, &(struct counts){.granted = 3, .voided = 2, .applied = 1});
	net_close(&net);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds_of_ends),
		cmocka_unit_test(test_server_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
