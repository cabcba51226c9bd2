/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_admission.h"

/* Scales a node's lateness to the interval of places. A node that is 50 ms late has no patience to spare, one that is 1
 * s late has 3.8 s: then places are 20 ms apart. */
#define LATE_PART 200

hd_ns hd_admission_ask(struct hd_admission *admission, hd_ns *place, hd_ns late, hd_ns now) {
	const hd_ns apart = HD_JOIN_US * HD_US + late / LATE_PART;
	const hd_ns burst = (HD_JOINS_BURST - 1) * HD_JOIN_US * HD_US;
	hd_ns at = *place;

	if (at == 0) {
		hd_ns due = hd_ns_max(admission->next, now);

		admission->next = hd_ns_add(due, apart);
		at = due > burst ? due - burst : 0;
	}
	*place = at > now ? at : 0;
	return at > now ? at - now : 0;
}
