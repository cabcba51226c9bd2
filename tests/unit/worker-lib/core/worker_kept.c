/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker_peers.h"

#include <stdlib.h>
#include <string.h>

static struct hd_blob *blob_of(struct hd_message *m, size_t *field) {
	const struct hd_field_info *f;

	while ((f = hd_message_field(m->kind, (*field)++)))
		if (f->code == HD_FIELD_blob)
			return (struct hd_blob *)(void *)((uint8_t *)m + f->offset);
	return NULL;
}

struct hd_message peer_kept(const struct hd_message *message) {
	struct hd_message kept = *message;
	struct hd_blob *blob;
	size_t field = 0;

	while ((blob = blob_of(&kept, &field))) {
		uint8_t *data = NULL;

		if (blob->bytes > 0) {
			data = malloc(blob->bytes);
			if (!data)
				abort();
			memcpy(data, blob->data, blob->bytes);
		}
		blob->data = data;
	}
	return kept;
}

void peer_forget(struct peer *peer) {
	for (uint32_t i = 0; i < peer->seen_count; i++) {
		struct hd_blob *blob;
		size_t field = 0;

		while ((blob = blob_of(&peer->seen[i], &field)))
			free((void *)blob->data);
	}
	peer->seen_count = 0;
	free(peer->model);
}
