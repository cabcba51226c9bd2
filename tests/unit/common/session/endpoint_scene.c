/* SPDX-License-Identifier: BSD-3-Clause */
#include "endpoint_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct net_node_config server_config = {
	.name = "server",
	.role = HD_ROLE_SERVER,
	.accepts = true,
};
static const struct net_node_config other_config = {
	.name = "other",
	.role = HD_ROLE_SERVER,
	.accepts = true,
};
const struct net_node_config scene_client_config = {.name = "client", .role = HD_ROLE_WORKER};

struct scene scene;

void scene_see(struct net *net, const struct flight *flight) {
	struct flight copy = *flight;

	if (scene.count == SCENE_KEPT_MAX)
		return;
	copy.data = malloc(flight->bytes);
	assert_non_null(copy.data);
	memcpy(copy.data, flight->data, flight->bytes);
	scene.seen[scene.count++] = copy;
}

void scene_forget(void) {
	for (size_t i = 0; i < scene.count; i++)
		free(scene.seen[i].data);
	scene.count = 0;
}

int scene_begin(void **state) {
	(void)state;
	net_init(&scene.net, 77);
	scene.net.tap = scene_see;
	scene.server = net_add(&scene.net, &server_config);
	scene.other = net_add(&scene.net, &other_config);
	scene.client = net_add(&scene.net, &scene_client_config);
	return 0;
}

int scene_finish(void **state) {
	(void)state;
	scene_forget();
	net_fini(&scene.net);
	return 0;
}

void scene_pass(hd_ns time) {
	net_run(&scene.net, scene.net.now + time);
}

void scene_open(void) {
	assert_non_null(net_connect(scene.client, scene.server));
	scene_pass(100 * HD_MS);
	assert_string_equal(scene.client->order, "o");
	assert_string_equal(scene.server->order, "o");
}

bool scene_is(const struct flight *flight, uint8_t type, uint8_t kind) {
	return (flight->data[2] & 0x0f) == type && flight->data[28] == kind;
}

const struct flight *scene_newest(uint8_t kind, const struct node *from, const struct node *to) {
	for (size_t i = scene.count; i-- > 0;)
		if (scene_is(&scene.seen[i], HD_PACKET_HELLO, kind)
		    && hd_addr_equal(scene.seen[i].from, from->addr)
		    && (!to || hd_addr_equal(scene.seen[i].to, to->addr)))
			return &scene.seen[i];
	return NULL;
}

void scene_inject(struct hd_addr from, struct hd_addr to, const struct flight *flight) {
	net_inject(&scene.net, from, to, flight->data, flight->bytes);
}
