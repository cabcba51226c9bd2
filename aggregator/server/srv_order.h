/* SPDX-License-Identifier: BSD-3-Clause */
/* A node's part in a job: the controller's orders, and messages of the job's other node. */
#ifndef SRV_ORDER_H
#define SRV_ORDER_H

#include "srv_job.h"

void srv_order(struct srv_turn *turn, const struct hd_msg_replica *order);
/* A server offers a state of its job. */
void srv_order_seed(struct srv_turn *turn, struct srv_peer *peer, const struct hd_msg_seed *seed);
/* A replica reports its progress. */
void srv_order_follow(
	struct srv_turn *turn,
	struct srv_peer *peer,
	const struct hd_msg_follow *follow
);

#endif
