/* SPDX-License-Identifier: BSD-3-Clause */
#include "heddle_state_data.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(HD_HASH_BYTES == crypto_generichash_BYTES, "BLAKE2b-256");

static int check_item(const struct heddle_state_item *item, size_t index) {
	if (!item->name || !*item->name)
		return heddle_fail(-EINVAL, "items: the name of item %zu is empty", index);
	if (!item->data)
		return heddle_fail(
			-EINVAL, "items: data of item %zu (%s) is NULL", index, item->name
		);
	if (item->bytes == 0 || item->bytes > HD_MODEL_BYTES_MAX)
		return heddle_fail(
			-EINVAL,
			"items: item %zu (%s) has %llu bytes, not 1 to HD_MODEL_BYTES_MAX",
			index,
			item->name,
			(unsigned long long)item->bytes
		);
	return 0;
}

int heddle_state_data_init(
	struct heddle_state_data *data,
	const struct heddle_state_item *items,
	size_t count
) {
	memset(data, 0, sizeof *data);
	if (!items)
		return heddle_fail(-EINVAL, "items: NULL");
	if (count == 0 || count > HEDDLE_STATE_ITEMS_MAX)
		return heddle_fail(
			-EINVAL,
			"count: %zu is not 1 to %d (HEDDLE_STATE_ITEMS_MAX)",
			count,
			HEDDLE_STATE_ITEMS_MAX
		);
	for (size_t i = 0; i < count; i++) {
		const int rc = check_item(&items[i], i);

		if (rc < 0)
			return rc;
		data->bytes += items[i].bytes;
	}
	data->items = items;
	data->count = count;
	heddle_state_data_rewind(data);
	return 0;
}

uint64_t heddle_state_data_bytes(const struct heddle_state_data *data) {
	return data->bytes + HD_HASH_BYTES;
}

/* --- layouts -------------------------------------------------------------------------------- */

static void add_number(crypto_generichash_state *hash, uint64_t number) {
	uint8_t byte[8];

	for (int i = 0; i < 8; i++)
		byte[i] = (uint8_t)(number >> 8 * i);
	(void)crypto_generichash_update(hash, byte, sizeof byte);
}

static void add_item(crypto_generichash_state *hash, const struct heddle_state_item *item) {
	(void)crypto_generichash_update(hash, (const uint8_t *)item->name, strlen(item->name) + 1);
	add_number(hash, item->bytes);
}

void heddle_state_data_layout(
	const struct heddle_state_data *data,
	uint64_t part_bytes,
	uint8_t hash[HD_HASH_BYTES]
) {
	crypto_generichash_state state;

	(void)crypto_generichash_init(&state, NULL, 0, HD_HASH_BYTES);
	add_number(&state, part_bytes);
	for (size_t i = 0; i < data->count; i++)
		add_item(&state, &data->items[i]);
	(void)crypto_generichash_final(&state, hash, HD_HASH_BYTES);
}

static int64_t number_of(const struct heddle_state_item *item) {
	uint8_t hash[HD_HASH_BYTES];
	crypto_generichash_state state;
	int64_t number;

	(void)crypto_generichash_init(&state, NULL, 0, sizeof hash);
	add_item(&state, item);
	(void)crypto_generichash_final(&state, hash, sizeof hash);
	memcpy(&number, hash, sizeof number);
	return number;
}

/* The first place at which the greatest number is not the least. */
static size_t first_difference(const int64_t *maxima, size_t count) {
	size_t i = 0;

	while (i < count && maxima[i] == ~maxima[count + i])
		i++;
	return i;
}

static void name_difference(const struct heddle_state_data *data, size_t i, size_t most) {
	if (i == most)
		heddle_set_error("share_state: part_bytes is not alike at all workers");
	else if (i >= data->count)
		heddle_set_error(
			"share_state: %zu items here, and %zu at another worker", data->count, most
		);
	else
		heddle_set_error(
			"share_state: item %zu, which is \"%s\" of %llu bytes here, is not alike at all "
			"workers",
			i,
			data->items[i].name,
			(unsigned long long)data->items[i].bytes
		);
}

/* One maximum of the items' numbers and of their complements. */
void heddle_state_data_differ(
	struct heddle *fabric,
	const struct heddle_state_data *data,
	uint32_t most,
	const struct heddle_collective_options *options,
	int timeout_ms
) {
	const size_t count = most > data->count ? most : data->count;
	int64_t *maxima = calloc(2 * count, sizeof *maxima);

	for (size_t i = 0; maxima && i < count; i++) {
		maxima[i] = i < data->count ? number_of(&data->items[i]) : 0;
		maxima[count + i] = ~maxima[i];
	}
	if (maxima
	    && heddle_allreduce(fabric, maxima, maxima, 2 * count, options, timeout_ms, NULL) == 0)
		name_difference(data, first_difference(maxima, count), count);
	else
		heddle_set_error("share_state: the items are not alike at all workers");
	free(maxima);
}

/* --- contents ------------------------------------------------------------------------------- */

void heddle_state_data_rewind(struct heddle_state_data *data) {
	data->item = 0;
	data->at = 0;
	data->hashed = 0;
	(void)crypto_generichash_init(&data->hash, NULL, 0, HD_HASH_BYTES);
}

/* The next bytes in one piece, at most this many: of an item, or of a hash behind all items. */
static uint8_t *next(struct heddle_state_data *data, uint8_t *hash, uint64_t *bytes) {
	const bool is_item = data->item < data->count;
	const struct heddle_state_item *item = is_item ? &data->items[data->item] : NULL;
	const uint64_t left = is_item ? item->bytes - data->at : HD_HASH_BYTES - data->hashed;

	if (*bytes > left)
		*bytes = left;
	if (!is_item && data->hashed == 0)
		(void)crypto_generichash_final(&data->hash, data->own, HD_HASH_BYTES);
	return is_item ? (uint8_t *)item->data + data->at : hash + data->hashed;
}

/* These bytes are where they belong. */
static void pass(struct heddle_state_data *data, const uint8_t *from, uint64_t bytes) {
	if (data->item == data->count) {
		data->hashed += (uint32_t)bytes;
		return;
	}
	(void)crypto_generichash_update(&data->hash, from, bytes);
	data->at += bytes;
	if (data->at < data->items[data->item].bytes)
		return;
	data->item++;
	data->at = 0;
}

void heddle_state_data_read(struct heddle_state_data *data, uint8_t *part, uint64_t bytes) {
	while (bytes > 0) {
		uint64_t here = bytes;
		const uint8_t *from = next(data, data->own, &here);

		if (here == 0)
			return;
		memcpy(part, from, here);
		pass(data, part, here);
		part += here;
		bytes -= here;
	}
}

void heddle_state_data_write(struct heddle_state_data *data, const uint8_t *part, uint64_t bytes) {
	while (bytes > 0) {
		uint64_t here = bytes;
		uint8_t *to = next(data, data->theirs, &here);

		if (here == 0)
			return;
		memcpy(to, part, here);
		pass(data, to, here);
		part += here;
		bytes -= here;
	}
}

bool heddle_state_data_is_right(const struct heddle_state_data *data) {
	return data->hashed == HD_HASH_BYTES && memcmp(data->own, data->theirs, HD_HASH_BYTES) == 0;
}
