/* SPDX-License-Identifier: BSD-3-Clause */
/* Two servers, a client, and an attacker who sees every packet and sends from any address. */
#ifndef ENDPOINT_SCENE_H
#define ENDPOINT_SCENE_H

#include "endpoint_net.h"

#define SCENE_KEPT_MAX 8192

struct scene {
	struct net net;
	struct node *server, *other, *client;
	/* The packets that the attacker has seen. */
	struct flight seen[SCENE_KEPT_MAX];
	size_t count;
};

extern struct scene scene;
extern const struct net_node_config scene_client_config;

/* Setup and teardown of a cmocka test. */
int scene_begin(void **state);
int scene_finish(void **state);
void scene_pass(hd_ns time);
/* Opens the client's session with the server. */
void scene_open(void);
/* Keeps a copy of the packet: the network's tap. */
void scene_see(struct net *net, const struct flight *flight);
/* Frees all copies. */
void scene_forget(void);
/* The newest HELLO packet of this kind from one node to the other (to NULL: to any); NULL: none was seen. */
const struct flight *scene_newest(uint8_t kind, const struct node *from, const struct node *to);
bool scene_is(const struct flight *flight, uint8_t type, uint8_t kind);
void scene_inject(struct hd_addr from, struct hd_addr to, const struct flight *flight);

#endif
