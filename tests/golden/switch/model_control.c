/* SPDX-License-Identifier: BSD-3-Clause */
/* The model's control plane: what is set. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

static void *model_create(const struct golden_config *config) {
	struct model *model = calloc(1, sizeof *model);

	if (!model)
		abort();
	model->config = *config;
	return model;
}

static void model_destroy(void *self) {
	struct model *model = self;

	for (size_t i = 0; i < HD_SWITCH_LEASES_MAX; i++)
		free(model->leases[i].cells);
	free(model);
}

static int model_mac_set(void *self, const uint8_t mac[6], uint16_t port) {
	struct model *model = self;
	struct model_mac *entry = NULL;

	for (size_t i = 0; i < model->mac_count; i++)
		if (memcmp(model->macs[i].mac, mac, 6) == 0)
			entry = &model->macs[i];
	if (!entry && model->mac_count == MODEL_MACS_MAX)
		return -1;
	if (!entry)
		entry = &model->macs[model->mac_count++];
	memcpy(entry->mac, mac, 6);
	entry->port = port;
	return 0;
}

static int model_route_set(void *self, const struct golden_route *route) {
	struct model *model = self;
	struct golden_route *entry = NULL;

	for (size_t i = 0; i < model->route_count; i++)
		if (model->routes[i].prefix == route->prefix
		    && model->routes[i].bits == route->bits)
			entry = &model->routes[i];
	if (!entry && model->route_count == MODEL_ROUTES_MAX)
		return -1;
	if (!entry)
		entry = &model->routes[model->route_count++];
	*entry = *route;
	return 0;
}

/* A lease whose id is in use is refused; vectors have no other errors. */
static int model_lease_set(void *self, const struct hd_switch_lease *lease) {
	struct model *model = self;
	struct model_lease *made = &model->leases[lease->id];

	if (made->live)
		return -1;
	made->is = *lease;
	memcpy(made->members, lease->members, lease->member_count * sizeof *lease->members);
	for (uint32_t i = 0; i < lease->receiver_count; i++)
		made->receivers[i] = lease->receivers[i];
	made->is.members = NULL;
	made->is.receivers = NULL;
	made->cells = calloc((size_t)2 * lease->slot_count, sizeof *made->cells);
	if (!made->cells)
		abort();
	made->live = true;
	return 0;
}

static int model_lease_waits(void *self, uint16_t id, uint64_t waits) {
	struct model *model = self;
	struct model_lease *lease = &model->leases[id];

	if (!lease->live || waits == 0 || (waits & ~lease->is.waits) != 0)
		return -1;
	lease->is.waits = waits;
	return 0;
}

static int model_lease_end(void *self, uint16_t id) {
	struct model *model = self;

	if (!model->leases[id].live)
		return -1;
	model->leases[id].live = false;
	free(model->leases[id].cells);
	model->leases[id].cells = NULL;
	return 0;
}

static int model_simulate(void *self, uint32_t seed, uint32_t threshold) {
	struct model *model = self;

	model->lose_state = seed;
	model->lose_threshold = threshold;
	return 0;
}

static void model_counters(void *self, uint64_t counters[HD_SWITCH_COUNTER_COUNT]) {
	const struct model *model = self;

	memcpy(counters, model->counters, sizeof model->counters);
}

const struct golden_executor golden_model = {
	.name = "model",
	.create = model_create,
	.destroy = model_destroy,
	.mac_set = model_mac_set,
	.route_set = model_route_set,
	.lease_set = model_lease_set,
	.lease_waits = model_lease_waits,
	.lease_end = model_lease_end,
	.simulate = model_simulate,
	.frame = model_frame,
	.counters = model_counters,
};
