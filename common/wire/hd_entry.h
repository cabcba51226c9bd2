/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Entries of a job's commit log, as sent by a server to its replica in LOG (docs/wire.md), oldest first. One entry is
 * one transfer: an update, or a sum of k that made k versions at once. A step of several transfers, in a synchronous
 * job, is as many entries, in the order in which they were added.
 *
 *      version:64 bytes:64 update:f64 weight:f32 dtype:8 members:16 more:16 scale:f32
 *      members:  base:64 position:64 round:32 delay:32 worker:16
 *
 * Decoders accept any bytes: the result is entries within the limits, or an error.
 */
#ifndef HD_ENTRY_H
#define HD_ENTRY_H

#include "hd_limits.h"
#include "hd_message.h"

#define HD_ENTRY_HEAD_BYTES 37
#define HD_ENTRY_MEMBER_BYTES 26

/* An update of an entry: member i made the version (entry's) - members + 1 + i. */
struct hd_entry_member {
	hd_version base;
	uint64_t position; /* 0: granted directly */
	uint32_t round;
	uint32_t delay;
	uint16_t worker;
};

struct hd_entry {
	hd_version version; /* after the commit */
	uint64_t bytes; /* on the wire, in this type: */
	/* Learning rate times the norm of what was applied, for a step in its last entry; < 0: unknown. */
	double update;
	float weight; /* by which it was multiplied; of a sum: the members' total */
	uint8_t dtype;
	uint16_t member_count; /* 1 .. HD_GROUP_MEMBERS_MAX */
	uint16_t more; /* members in the step's entries after this one */
	float scale; /* of the step: the factor on its mean, equal in all its entries */
	const uint8_t *records; /* of the members, as read; ignored by hd_entry_put() */
};

/* Writes one entry. Returns its bytes, or -EMSGSIZE (beyond capacity), -EINVAL (member_count). */
int hd_entry_put(
	const struct hd_entry *entry,
	const struct hd_entry_member *members,
	uint8_t *data,
	size_t capacity
);
/* Reads the entry at *at and advances *at. 1; 0: the end; -EBADMSG: incomplete, or no or too many members. */
int hd_entry_next(const struct hd_blob *entries, uint32_t *at, struct hd_entry *entry);
/* A member of an entry that was read; index < member_count. */
struct hd_entry_member hd_entry_member(const struct hd_entry *entry, uint16_t index);

#endif
