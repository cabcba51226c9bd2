/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers that stand in fields of REGISTER and of messages on replication. They are the wire: append only. */
#ifndef HD_MESSAGE_CODES_H
#define HD_MESSAGE_CODES_H

/* In REGISTER's flags: a worker's two, a server's; all other bits are refused. */
enum hd_register_flag {
	HD_REGISTER_OBSERVER = 1, /* it only pulls, and does not count among those that take part */
	HD_REGISTER_UNSEALED = 2, /* integrity off: its job's chunks between hosts carry no MAC */
	HD_REGISTER_KEEPS = 4 /* there are checkpoints where it restores jobs from */
};

/* What REPLICA tells a server to do with a job. */
enum hd_replica_order {
	HD_REPLICA_ALONE = 0, /* it has no replica (any more): durable means in a checkpoint */
	HD_REPLICA_KEEP = 1, /* `peer` keeps a copy from now on: seed it and tell it the log */
	HD_REPLICA_SERVE = 2, /* be the job's server, with the copy that you hold */
	HD_REPLICA_RETIRE = 3, /* another node is the job's server, or keeps its copy: forget it */
	HD_REPLICA_END
		= 4, /* nobody is in the job: write its last checkpoint, forget it, say LEAVE */
	HD_REPLICA_EVICT = 5, /* the same, whoever is in it */
	HD_REPLICA_ORDER_COUNT
};

/* How a replica follows. */
enum hd_follow_state {
	HD_FOLLOW_NONE = 0, /* it has no copy */
	HD_FOLLOW_SEEDING = 1, /* its first state is on the way */
	HD_FOLLOW_CAUGHT_UP = 2, /* it has a state and applies the log */
	HD_FOLLOW_HOLE = 3, /* as before, but an update will not come: it needs a newer state */
	HD_FOLLOW_FENCED = 4, /* it is the job's server itself: the sender is not any more */
	HD_FOLLOW_STATE_COUNT
};

/* What is in a LOG. */
enum hd_log_of {
	HD_LOG_COMMITS = 0,
	HD_LOG_ROUNDS = 1, /* that are in the state which the SEED before it announced */
	HD_LOG_ROUNDS_END
		= 2, /* as before, and the last of them: the state's chunks may be there sooner */
	HD_LOG_COUNT
};

#endif
