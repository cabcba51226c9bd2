/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who asks to be let in, and when: HD_JOINS_BURST at once, then one each HD_JOIN_US, and further apart while the node
 * runs late. Whoever has to wait has a place of its own, is told when it is due (WAIT), and asks again then:
 *
 *   a lone one            --> in
 *   500 at one moment     --> 64 in, 436 told 1, 2, 3 ... ms;  each asks again when it is due --> in
 *
 * Virtual scheduling (the generic cell rate algorithm, ITU-T I.371): one number says when the next place is. Nothing is
 * kept of who waits but its own place; who does not come has left it empty.
 */
#ifndef HD_ADMISSION_H
#define HD_ADMISSION_H

#include "hd_limits.h"
#include "hd_types.h"

struct hd_admission {
	hd_ns next; /* the place after the last one that was given away, if nobody had to wait */
};

/* Asks for a place. `place`: the asker's own, 0 before it asks first, 0 again when it is in. `late`: by how much
 * patience with others is stretched, as the node runs late (hd_endpoint_stretch()). Returns how long it has to wait; 0:
 * it is in. */
hd_ns hd_admission_ask(struct hd_admission *admission, hd_ns *place, hd_ns late, hd_ns now);

#endif
