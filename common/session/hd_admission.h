/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Admission of many workers: HD_JOINS_BURST at once, then one each HD_JOIN_US, further apart while the node runs late.
 * A worker that must wait gets a place of its own, is told when it is due (WAIT), and asks again then:
 *
 *   a single one          --> in
 *   500 at one moment     --> 64 in, 436 told 1, 2, 3 ... ms;  each asks again when it is due --> in
 *
 * Virtual scheduling (the generic cell rate algorithm, ITU-T I.371): one number is the time of the next place. A
 * waiting worker's only state is its own place. A worker that does not come back leaves its place empty.
 */
#ifndef HD_ADMISSION_H
#define HD_ADMISSION_H

#include "hd_limits.h"
#include "hd_types.h"

struct hd_admission {
	hd_ns next; /* time of the next place, if all before were used at once */
};

/* Asks for a place. `place`: the worker's own, 0 before its first request, 0 again once it is in. `late`: by how much
 * timeouts are stretched, as the node runs late (hd_endpoint_stretch()). Returns how long it must wait; 0: it is in. */
hd_ns hd_admission_ask(struct hd_admission *admission, hd_ns *place, hd_ns late, hd_ns now);

#endif
