/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SRV_RANK_H
#define SRV_RANK_H

#include "srv_job.h"

/* Another host's live process has this rank: JOIN was refused, for now or for good. */
bool srv_rank_is_held(
	struct srv_turn *turn,
	struct srv_peer *peer,
	const struct srv_job *job,
	uint16_t rank
);

#endif
