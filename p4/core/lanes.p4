/* SPDX-License-Identifier: BSD-3-Clause */
/* HD_EACH_LANE: HD_LANE(0) .. HD_LANE(HD_SWITCH_LANES - 1), for whatever HD_LANE is at the time. */
#if HD_SWITCH_LANES != 32
#error "core/lanes.p4 lists 32 lanes"
#endif
#define HD_EACH_LANE                                                                               \
	HD_LANE(0) HD_LANE(1) HD_LANE(2) HD_LANE(3) HD_LANE(4) HD_LANE(5) HD_LANE(6) HD_LANE(7)    \
	HD_LANE(8) HD_LANE(9) HD_LANE(10) HD_LANE(11) HD_LANE(12) HD_LANE(13) HD_LANE(14)          \
	HD_LANE(15) HD_LANE(16) HD_LANE(17) HD_LANE(18) HD_LANE(19) HD_LANE(20) HD_LANE(21)        \
	HD_LANE(22) HD_LANE(23) HD_LANE(24) HD_LANE(25) HD_LANE(26) HD_LANE(27) HD_LANE(28)        \
	HD_LANE(29) HD_LANE(30) HD_LANE(31)
