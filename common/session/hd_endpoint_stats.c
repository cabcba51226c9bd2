/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of an endpoint and their descriptions. */
#include "hd_endpoint.h"

#include <assert.h>

#define STAT(name, help)                                                                           \
	{#name,                                                                                    \
	 "packets",                                                                                \
	 help,                                                                                     \
	 HD_STAT_COUNTER,                                                                          \
	 HD_STAT_U64,                                                                              \
	 offsetof(struct hd_endpoint_stats, name)},

static const struct hd_stat endpoint_stats[] = {
	STAT(received, "control packets accepted") STAT(sent, "control packets sent")
		STAT(resent, "control packets retransmitted"
		){"opened",
		  "sessions",
		  "sessions opened",
		  HD_STAT_COUNTER,
		  HD_STAT_U64,
		  offsetof(struct hd_endpoint_stats, opened)},
	{"closed",
	 "sessions",
	 "sessions closed",
	 HD_STAT_COUNTER,
	 HD_STAT_U64,
	 offsetof(struct hd_endpoint_stats, closed)},
	STAT(drop_malformed, "dropped: cannot be decoded"
	) STAT(drop_tag, "dropped: wrong authentication tag") STAT(drop_replay, "dropped: replayed")
		STAT(drop_unknown_session, "dropped: no such session"
		) STAT(drop_unknown_key,
		       "dropped: no such key") STAT(drop_version, "dropped: another wire version")
			STAT(drop_candidates, "HELLOs replaced by newer ones"
			) STAT(drop_out_of_window, "dropped: fragments beyond the window"
			) STAT(drop_role, "dropped: the node does not serve this role")
				STAT(drop_address, "dropped: sent to, or from, another address")
					STAT(cookies, "HELLOs without a valid cookie")};

static_assert(
	sizeof endpoint_stats / sizeof endpoint_stats[0] == sizeof(struct hd_endpoint_stats) / 8,
	"every counter of the struct is in the table"
);

const struct hd_stat_group hd_endpoint_group = {
	.name = "endpoint",
	.help = "sessions and control packets",
	.stats = endpoint_stats,
	.count = sizeof endpoint_stats / sizeof endpoint_stats[0],
};
