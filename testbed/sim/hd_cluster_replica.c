/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A cluster with a replica: two processes that may be the job's server, one of them at a time. The other one must hold
 * a version of the present one's history, bit for bit, and no further away than div_max; and durable updates must
 * survive the loss of either.
 */
#include "hd_cluster_private.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define DISTANCE_SLACK 1.0001 /* the models are fp32, the bound is not */
#define CALM_S 3.0 /* between two losses: the remaining one finds another replica */

struct server_process *as_server(struct process *process) {
	struct hd_cluster *cluster = process->cluster;

	if (process == &cluster->server.process)
		return &cluster->server;
	return process == &cluster->replica.process ? &cluster->replica : NULL;
}

bool cluster_is_present(const struct process *process) {
	return as_server((struct process *)process) == process->cluster->present;
}

static struct server_process *other_of(struct hd_cluster *cluster) {
	return cluster->present == &cluster->server ? &cluster->replica : &cluster->server;
}

/* --- one loss at a time ------------------------------------------------------------------------- */

static bool is_of_two(struct hd_place place) {
	return place.kind == HD_PLACE_SERVER || place.kind == HD_PLACE_REPLICA;
}

/* Whether this scenario kills at most one of the two at a time, without other faults for them: only then DURABLE must
 * hold. */
static bool one_at_a_time(const struct hd_scenario *scenario) {
	uint32_t killed = 0;

	if (scenario->partition_count > 0 || scenario->stop_count > 0)
		return false;
	for (uint32_t i = 0; i < scenario->node_event_count; i++) {
		const struct hd_scenario_node_event *event = &scenario->node_events[i];

		if (event->node.kind == HD_PLACE_CONTROLLER)
			return false;
		killed += is_of_two(event->node) && event->what == HD_DO_KILL;
	}
	if (killed > 1 || (killed == 1 && scenario->crash_count > 0))
		return false;
	for (uint32_t i = 0; i < scenario->crash_count; i++) {
		const struct hd_scenario_fault *a = &scenario->crashes[i];

		if (a->node.kind == HD_PLACE_CONTROLLER)
			return false;
		for (uint32_t j = 0; is_of_two(a->node) && j < scenario->crash_count; j++) {
			const struct hd_scenario_fault *b = &scenario->crashes[j];

			if (i != j && is_of_two(b->node) && b->at_s >= a->at_s
			    && b->at_s < a->at_s + a->for_s + CALM_S)
				return false;
		}
	}
	return true;
}

/* Without a replica durable means on the server's disk, which no fault takes away. */
static bool keeps_durable(const struct hd_scenario *scenario) {
	return !scenario->replica || one_at_a_time(scenario);
}

/* --- events ------------------------------------------------------------------------------------- */

bool cluster_may_begin(struct server_process *server) {
	struct hd_cluster *cluster = server->process.cluster;
	struct hd_addr own = hd_sim_node_address(cluster->sim, server->process.node);

	cluster_note_server(cluster);
	if (hd_addr_equal(cluster->named, own))
		cluster->present = server;
	return cluster_is_present(&server->process);
}

static bool holds_present(const struct hd_cluster *cluster, const struct server_process *server) {
	hd_version version = server->core ? hd_server_version(server->core, cluster->job) : 0;

	return version != 0 && hd_check_led_to(cluster->check, version);
}

bool cluster_revives(
	const struct hd_cluster *cluster,
	const struct server_process *former,
	hd_version version
) {
	if (hd_check_led_to(cluster->check, version))
		return false;
	return former != cluster->present
		|| !(holds_present(cluster, &cluster->server)
		     || holds_present(cluster, &cluster->replica));
}

void cluster_note_server(struct hd_cluster *cluster) {
	struct hd_addr named = {0};

	if (cluster->controller.core)
		named = hd_controller_server(cluster->controller.core, cluster->job);
	/* The controller waits for the next process of a lost server. */
	if (!hd_addr_is_none(named))
		cluster->named = named;
}

void cluster_restored(struct hd_cluster *cluster, const float *model, hd_version version) {
	hd_check_restore(cluster->check, model, version);
	filters_restored(cluster);
}

void cluster_promoted(struct server_process *server, const struct hd_event *event) {
	struct hd_cluster *cluster = server->process.cluster;
	uint64_t values;
	const float *model = hd_server_model(server->core, cluster->job, &values);

	if (cluster->durable > hd_version_counter(event->base) && keeps_durable(&cluster->scenario))
		hd_check_fail(
			cluster->check,
			"version %" PRIu64 " was durable, and the replica took over at %" PRIu64,
			cluster->durable,
			hd_version_counter(event->base)
		);
	if (server != cluster->present && cluster->present->core)
		hd_check_goes_on(cluster->check);
	cluster->present = server;
	cluster->promotions++;
	cluster->durable = hd_version_counter(event->base);
	cluster_restored(cluster, model, event->base);
}

void cluster_durable(struct server_process *server, hd_version version) {
	struct hd_cluster *cluster = server->process.cluster;

	if (!cluster_is_present(&server->process))
		hd_check_durable(cluster->check, version);
	else if (hd_version_counter(version) > cluster->durable)
		cluster->durable = hd_version_counter(version);
}

void cluster_stepped(struct hd_cluster *cluster, const struct hd_event *event) {
	if (hd_version_counter(event->version) <= cluster->durable
	    && keeps_durable(&cluster->scenario))
		hd_check_fail(
			cluster->check,
			"version %" PRIu64 " was durable, and %" PRIu64 " is made again",
			cluster->durable,
			hd_version_counter(event->version)
		);
	if (cluster->step_more == 0)
		cluster->stepped_from = hd_version_counter(event->version) - 1;
	cluster->step_more = event->more;
}

/* --- after each step ------------------------------------------------------------------------------ */

static double distance(const float *a, const float *b, uint64_t values) {
	double sum = 0;

	for (uint64_t i = 0; i < values; i++)
		sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
	return sqrt(sum);
}

/* theirs: at this version counter. */
static void check_distance(struct hd_cluster *cluster, const float *theirs, uint64_t counter) {
	double most = cluster->scenario.div_max, real;
	uint64_t values;
	const float *ours = hd_server_model(cluster->present->core, cluster->job, &values);

	if (!ours || !(most > 0) || !hd_server_replicated(cluster->present->core, cluster->job))
		return;
	real = distance(ours, theirs, values);
	if (real > cluster->farthest)
		cluster->farthest = real;
	/* One step starts where both are equal, whatever its size. */
	if (real > most * DISTANCE_SLACK && counter < cluster->stepped_from)
		hd_check_fail(
			cluster->check,
			"the replica is at %" PRIu64 " and %g away from the server, more than %g",
			counter,
			real,
			most
		);
}

/* At one version both hold the same bits, even if the checker does not know the expected ones. */
static void check_equal(struct hd_cluster *cluster, const float *theirs) {
	uint64_t values;
	const float *ours = hd_server_model(cluster->present->core, cluster->job, &values);

	if (!ours)
		return; /* an update is partly applied */
	cluster->equal++;
	if (memcmp(ours, theirs, values * sizeof(float)) != 0)
		hd_check_fail(cluster->check, "server and replica differ at one version");
}

void cluster_inspect_replica(struct hd_cluster *cluster) {
	struct server_process *other = other_of(cluster);
	hd_version version, present;
	const float *model;
	uint64_t values;

	if (!cluster->scenario.replica || !other->core || !cluster->present->core)
		return;
	version = hd_server_version(other->core, cluster->job);
	present = hd_server_version(cluster->present->core, cluster->job);
	if (version == cluster->seen[0] && present == cluster->seen[1])
		return;
	model = hd_server_model(other->core, cluster->job, &values);
	if (version == 0 || !model)
		return; /* nothing yet, or an update is partly applied */
	cluster->seen[0] = version;
	cluster->seen[1] = present;
	/* A retired server that does not know it yet. */
	if (hd_version_incarnation(version) != hd_version_incarnation(present))
		return;
	if (!hd_check_is(cluster->check, model, version)) {
		hd_check_fail(
			cluster->check,
			"the replica says version %u/%" PRIu64 ", and it is not that",
			hd_version_incarnation(version),
			hd_version_counter(version)
		);
		return;
	}
	cluster->followed++;
	if (version == present)
		check_equal(cluster, model);
	check_distance(cluster, model, hd_version_counter(version));
}
