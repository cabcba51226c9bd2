/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An attacker who sees every chunk on the network of server_net.h, and who is faster than its sender: before each chunk
 * its receiver gets a forged one, of the same header, whose values are wrong.
 */
#ifndef FORGE_H
#define FORGE_H

#include "server_net.h"

#define STRANGER_IP 0x0a0000ee

enum forged_as {
	FORGED_BY_STRANGER, /* from an address that takes part in nothing */
	FORGED_BY_PORT, /* from the sender's host, but another port */
	FORGED_VALUES, /* from the sender's address, with the MAC of the true values */
	FORGED_HEADER, /* likewise, true values: one bit of the header changes, of each byte in turn */
	FORGED_PLAIN /* likewise, as a chunk that has no MAC */
};

/* For net->lose: forges all that goes to forge_to(), and loses nothing. */
bool forge(struct net *net, const struct net_packet *packet);
/* Starts again: forges chunks to this address, in this way. */
void forge_to(struct hd_addr to, enum forged_as as);
/* So far. */
uint64_t forge_count(void);

#endif
