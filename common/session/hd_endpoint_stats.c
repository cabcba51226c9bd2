/* SPDX-License-Identifier: BSD-3-Clause */
/* What the counters of an endpoint mean. */
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
		STAT(resent, "of these, sent again"
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
	STAT(drop_malformed, "dropped: not decodable"
	) STAT(drop_tag, "dropped: wrong authentication tag") STAT(drop_replay, "dropped: replayed")
		STAT(drop_unknown_session, "dropped: no such session"
		) STAT(drop_unknown_key,
		       "dropped: no such key") STAT(drop_version, "dropped: other wire version")
			STAT(drop_candidates, "hellos that gave way to newer ones"
			) STAT(drop_out_of_window, "dropped: fragments beyond the window"
			) STAT(drop_role, "dropped: role not served")
				STAT(drop_address, "dropped: asked for, or from, another address")
					STAT(cookies, "hellos without a valid cookie")};

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
