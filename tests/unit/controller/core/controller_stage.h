/* SPDX-License-Identifier: BSD-3-Clause */
/* A job's server and the replica that keeps it for another day: what they say to the controller, and what it told them
 * last. */
#ifndef CONTROLLER_STAGE_H
#define CONTROLLER_STAGE_H

#include "controller_net.h"

struct stage {
	struct net net;
	struct peer *server, *replica, *worker;
};

/* STATE of the worker's job: its first life is at this version. */
struct hd_message stage_state(const struct peer *worker, uint64_t version, uint64_t position);
const struct hd_msg_replica *stage_order(const struct peer *peer);
struct hd_message stage_register_replica(const struct stage *t);
/* FOLLOW of the server: its replica has this version, and is not caught up. */
struct hd_message stage_follow(const struct stage *t, uint64_t version);
/* The server is at version 30; the controller knows its replica. */
void stage_open(struct stage *t);

#endif
