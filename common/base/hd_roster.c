/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_roster.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static uint8_t bit_of(uint16_t rank) {
	return (uint8_t)(1u << rank % 8);
}

bool hd_roster_has(const struct hd_roster *roster, uint16_t rank) {
	return rank < HD_WORKERS_MAX && (roster->ranks[rank / 8] & bit_of(rank)) != 0;
}

bool hd_roster_set(struct hd_roster *roster, uint16_t rank, bool present) {
	if (hd_roster_has(roster, rank) == present)
		return false;
	roster->ranks[rank / 8] ^= bit_of(rank);
	if (present)
		roster->count++;
	else
		roster->count--;
	return true;
}

size_t hd_roster_bytes(const struct hd_roster *roster) {
	size_t bytes = HD_ROSTER_BYTES;

	while (bytes > 0 && roster->ranks[bytes - 1] == 0)
		bytes--;
	return bytes;
}

int hd_roster_read(struct hd_roster *roster, uint16_t count, const uint8_t *data, size_t bytes) {
	unsigned found = 0;

	if (bytes > HD_ROSTER_BYTES || (bytes > 0 && data[bytes - 1] == 0))
		return -EBADMSG;
	roster->count = count;
	memset(roster->ranks, 0, sizeof roster->ranks);
	for (size_t i = 0; i < bytes; i++) {
		roster->ranks[i] = data[i];
		found += (unsigned)__builtin_popcount(data[i]);
	}
	return found == count ? 0 : -EBADMSG;
}

bool hd_roster_valid(const struct hd_roster *roster) {
	return roster->change != 0 && roster->target <= HD_WORKERS_MAX
		&& roster->sync_count <= HD_WORKERS_MAX && roster->tau_max <= HD_TAU_MAX_LIMIT
		&& roster->scale >= 0 && isfinite(roster->scale);
}

float hd_roster_scale(const struct hd_roster *roster, uint32_t base) {
	if (roster->scale > 0)
		return roster->scale;
	if (base == 0 || roster->count == 0)
		return 1;
	return fminf((float)roster->count / (float)base, HD_SCALE_MAX);
}

bool hd_roster_alike(const struct hd_roster *a, const struct hd_roster *b) {
	return a->target == b->target && a->sync_count == b->sync_count && a->tau_max == b->tau_max
		&& !(a->scale < b->scale) && !(a->scale > b->scale);
}

size_t hd_roster_list(const struct hd_roster *roster, uint16_t *ranks, size_t capacity) {
	size_t count = 0;

	for (uint16_t rank = 0; rank < HD_WORKERS_MAX; rank++) {
		if (!hd_roster_has(roster, rank))
			continue;
		if (count < capacity)
			ranks[count] = rank;
		count++;
	}
	return count;
}
