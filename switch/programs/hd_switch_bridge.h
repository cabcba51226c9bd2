/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A switch whose tables another program writes: a child process, which gets the agent's requests as lines of JSON
 * (bmv2, by testbed/lab/bmv2_bridge.py).
 *
 *   agent --{"do": "set", "lease": {..}}--> child --> the switch's own tools
 *         <-------------- {} --------------
 *
 *   do          with                    answer
 *   --          ----                    ------
 *   neighbour   ipv4                    port, mac; none of them: unknown
 *   set         lease                   -
 *   waits       id, waits               -
 *   end         id                      -
 *   counters    -                       counters, in the order of HD_SWITCH_COUNTERS
 *   ports       -                       ports: a list of {port, interface, counters by their names in HD_PORT_STATS}
 *   watch       -                       life: another number than before when the switch has lost its leases
 *
 * Any answer may be {"error": TEXT}. Tokens and bits of members are decimal text, as JSON's numbers have 53 bits;
 * addresses are text: "10.0.0.1", "02:00:00:00:00:01". The child sends {} once its switch forwards. It is started again
 * when it has ended or does not answer. An error as the answer to watch: there is no switch now.
 */
#ifndef HD_SWITCH_BRIDGE_H
#define HD_SWITCH_BRIDGE_H

#include "hd_switch_agent.h"

#define HD_SWITCH_BRIDGE_START_MS 60000 /* until the child's first line */
#define HD_SWITCH_BRIDGE_ANSWER_MS 5000 /* until its answer to one of ours */

struct hd_switch_bridge;

/* Starts `command` by the shell; the string must outlive the bridge. 0, or -errno with a text in error: -ETIMEDOUT,
 * -EPIPE (it ended), -EPROTO. */
int hd_switch_bridge_open(
	const char *command,
	struct hd_switch_bridge **bridge,
	char *error,
	size_t error_bytes
);
/* Closes its input, which ends it. Signals end a child that is still there a second later. */
void hd_switch_bridge_close(struct hd_switch_bridge *bridge);

/* Adds the counters of the switch's ports. */
void hd_switch_bridge_gather(struct hd_switch_bridge *bridge, struct hd_stats *stats);

/* The agent's functions except `gather`, with a bridge as owner. After -ETIMEDOUT, -EPIPE or -EPROTO the state of the
 * switch is unknown: all fail with -EPIPE until watch() has started another child. */
extern const struct hd_switch_agent_ops hd_switch_bridge_ops;

#endif
