/* SPDX-License-Identifier: BSD-3-Clause */
/* HD_EACH_PAIR: HD_PAIR(0) .. HD_PAIR(HD_SWITCH_LANES / 2 - 1), with the current definition of HD_PAIR. */
#if HD_SWITCH_LANES != 32
#error "core/lanes.p4 lists 16 pairs of lanes"
#endif
#define HD_EACH_PAIR                                                                               \
	HD_PAIR(0) HD_PAIR(1) HD_PAIR(2) HD_PAIR(3) HD_PAIR(4) HD_PAIR(5) HD_PAIR(6) HD_PAIR(7)    \
	HD_PAIR(8) HD_PAIR(9) HD_PAIR(10) HD_PAIR(11) HD_PAIR(12) HD_PAIR(13) HD_PAIR(14) HD_PAIR(15)
