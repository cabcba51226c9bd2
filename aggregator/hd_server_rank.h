/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HD_SERVER_RANK_H
#define HD_SERVER_RANK_H

#include "hd_server_internal.h"

/* Another host's living process has this rank: JOIN was refused, for now or for good. */
bool hd_rank_is_held(
	struct hd_turn *turn,
	struct hd_peer *peer,
	const struct hd_job *job,
	uint16_t rank
);

#endif
