/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters: HD_SWITCH_COUNTERS of switch/executor/hd_switch.h, in its order (a test compares). Each frame adds one to
 * exactly one of the first 18.
 */
#define HD_COUNTED_forwarded 0
#define HD_COUNTED_flooded 1
#define HD_COUNTED_routed 2
#define HD_COUNTED_absorbed 3
#define HD_COUNTED_completed 4
#define HD_COUNTED_repeated 5
#define HD_COUNTED_answered 6
#define HD_COUNTED_drop_duplicate 7
#define HD_COUNTED_drop_malformed 8
#define HD_COUNTED_drop_token 9
#define HD_COUNTED_drop_lease 10
#define HD_COUNTED_drop_member 11
#define HD_COUNTED_drop_slot 12
#define HD_COUNTED_drop_exponent 13
#define HD_COUNTED_drop_stale 14
#define HD_COUNTED_drop_ttl 15
#define HD_COUNTED_drop_no_route 16
#define HD_COUNTED_drop_simulated 17
#define HD_COUNTED_copies 18
#define HD_COUNTED_overtaken 19
#define HD_COUNTED_not_finite 20
#define HD_COUNTERS 21
#define HD_COUNTED_NONE 255
