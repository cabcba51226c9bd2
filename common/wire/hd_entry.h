/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Entries of a job's commit log, as a server tells them to its replica in LOG (docs/wire.md): one after the other,
 * oldest first. One entry is one commit: an update, or a sum of k that made k versions at once.
 *
 *      version:64 bytes:64 update:f64 weight:f32 dtype:8 members:16
 *      members:  base:64 position:64 round:32 delay:32 worker:16
 *
 * Decoders are total: any bytes are entries within the limits, or an error.
 */
#ifndef HD_ENTRY_H
#define HD_ENTRY_H

#include "hd_limits.h"
#include "hd_message.h"

#define HD_ENTRY_HEAD_BYTES 31
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
	hd_version version; /* after it */
	uint64_t bytes; /* that travelled, in this type: */
	double update; /* learning rate times the norm of what was applied; < 0: not known */
	float weight; /* that it was multiplied by; of a sum, its members' in all; of several transfers 0 */
	uint8_t dtype;
	uint16_t member_count; /* 1 .. HD_GROUP_MEMBERS_MAX */
	const uint8_t *records; /* of the members, as read; not looked at by hd_entry_put() */
};

/* Writes one entry. Returns its bytes, or -EMSGSIZE (beyond capacity), -EINVAL (member_count). */
int hd_entry_put(
	const struct hd_entry *entry,
	const struct hd_entry_member *members,
	uint8_t *data,
	size_t capacity
);
/* Reads the entry at *at and moves *at behind it. 1; 0: the end; -EBADMSG: part of one, no or too many members. */
int hd_entry_next(const struct hd_blob *entries, uint32_t *at, struct hd_entry *entry);
/* A member of an entry that was read; index < member_count. */
struct hd_entry_member hd_entry_member(const struct hd_entry *entry, uint16_t index);

#endif
