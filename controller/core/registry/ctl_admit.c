/* SPDX-License-Identifier: BSD-3-Clause */
/* Admission of workers: limits how many register at once. */
#include "ctl_base.h"
#include "ctl_registry.h"

/* Too many at once would delay messages of other nodes. No limit after a restart of the controller: these workers know
 * each other and wait for each other. */
bool ctl_admit_later(
	struct hd_controller *c,
	struct ctl_node *node,
	const struct hd_msg_register_ *m,
	struct hd_sink *sink
) {
	struct hd_message message
		= {.kind = HD_MSG_WAIT, .wait = {.job = m->job, .worker = m->worker}};
	hd_ns wait;

	if (c->config.epoch > 1 && c->now < hd_ns_add(c->started, c->config.detection_us * HD_US))
		return false;
	wait = hd_admission_ask(
		&c->admission, &node->place, hd_endpoint_stretch(c->endpoint, c->now), c->now
	);
	if (wait == 0)
		return false;
	message.wait.wait_us = (uint32_t)hd_ns_min(wait / HD_US + 1, HD_JOIN_WAIT_US);
	c->counters.joins_delayed++;
	ctl_send(c, node, &message, sink);
	return true;
}
