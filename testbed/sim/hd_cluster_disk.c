/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's disk: a checkpoint becomes the file as a whole, `disk_ms` after its begin, or not at all (crash, error).
 * Checks that the server leaves its memory unchanged until then, as promised.
 */
#include "hd_cluster_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void free_copy(struct hd_checkpoint *copy) {
	free(copy->model);
	free(copy->momentum);
	free(copy->rounds);
	free(copy->prior);
}

static void free_file(struct disk *disk) {
	free_copy(&disk->file);
	free(disk->spec);
	disk->file = (struct hd_checkpoint){0};
	disk->spec = NULL;
	disk->present = false;
}

void disk_free(struct disk *disk) {
	free_file(disk);
}

static void *copy_of(const void *data, size_t count, size_t size) {
	void *copy = calloc(count ? count : 1, size);

	if (copy && count > 0)
		memcpy(copy, data, count * size);
	return copy;
}

/* A deep copy of everything but the spec. */
static bool copy_checkpoint(const struct hd_checkpoint *from, struct hd_checkpoint *to) {
	*to = *from;
	to->model = copy_of(from->model, from->values, sizeof(float));
	to->momentum = copy_of(from->momentum, from->values, sizeof(float));
	to->rounds = copy_of(from->rounds, from->round_count, sizeof *from->rounds);
	to->prior = copy_of(from->prior, from->prior_count, sizeof *from->prior);
	return to->model && to->momentum && to->rounds && to->prior;
}

static bool replace_file(struct disk *disk, const struct hd_checkpoint *checkpoint) {
	uint8_t *spec = malloc(HD_MESSAGE_BYTES_MAX);
	int bytes = spec ? hd_jobspec_encode(&checkpoint->spec, spec, HD_MESSAGE_BYTES_MAX) : -1;

	free_file(disk);
	disk->spec = spec;
	disk->spec_bytes = bytes;
	disk->present = copy_checkpoint(checkpoint, &disk->file);
	return disk->present && bytes >= 0;
}

static uint64_t hash_checkpoint(const struct hd_checkpoint *checkpoint) {
	uint64_t hash = hd_check_hash(checkpoint->model, checkpoint->values);

	hash = hash * 31 + hd_check_hash(checkpoint->momentum, checkpoint->values);
	for (uint32_t i = 0; i < checkpoint->round_count; i++) {
		const struct hd_last_round *last = &checkpoint->rounds[i];

		hash = hash * 31 + (((uint64_t)last->worker << 32) | last->round);
		hash = hash * 31 + last->version;
	}
	return hash * 31 + checkpoint->version;
}

static void finish_write(struct step *step, hd_ns now) {
	struct hd_cluster *cluster = step->cluster;
	struct server_process *server = as_server(step->process);
	struct disk *disk = &server->disk;
	int node = server->process.node;
	bool fails = hd_random_chance(&cluster->random, cluster->scenario.sim.disk_error);

	if (step->serial != disk->serial || !disk->writing)
		return;
	disk->writing = false;
	if (hash_checkpoint(disk->source) != disk->source_hash)
		hd_check_fail(cluster->check, "a checkpoint changed while it was written");
	if (!fails && !replace_file(disk, disk->source))
		hd_check_fail(cluster->check, "out of memory");
	server->checkpoints += !fails;
	hd_server_checkpoint_done(
		server->core,
		hd_sim_node_now(cluster->sim, node),
		cluster->job,
		fails ? -EIO : 0,
		hd_sim_node_sink(cluster->sim, node)
	);
	hd_sim_node_poke(cluster->sim, node);
}

static int on_checkpoint(void *owner, const struct hd_checkpoint *checkpoint) {
	struct server_process *server = owner;
	struct hd_cluster *cluster = server->process.cluster;
	struct disk *disk = &server->disk;

	if (disk->writing) {
		hd_check_fail(cluster->check, "a second checkpoint was begun during the first");
		return -EBUSY;
	}
	if (cluster_is_present(&server->process)) /* else a retired server that does not know it */
		hd_check_checkpoint(cluster->check, checkpoint->model, checkpoint->version);
	disk->writing = true;
	disk->source = checkpoint;
	disk->source_hash = hash_checkpoint(checkpoint);
	cluster_at(
		cluster,
		hd_sim_now(cluster->sim) + cluster_ns(cluster->scenario.sim.disk_ms * 1e-3),
		(struct step){
			.cluster = cluster,
			.process = &server->process,
			.serial = disk->serial,
			.own = true,
			.call = finish_write,
		}
	);
	return 0;
}

static int on_restore(void *owner, uint32_t job, struct hd_checkpoint *checkpoint) {
	struct server_process *server = owner;
	struct hd_cluster *cluster = server->process.cluster;
	struct disk *disk = &server->disk;
	struct hd_checkpoint copy;
	int code;

	const struct server_process *former = cluster->present;
	bool present = cluster_may_begin(server);

	if (!present)
		hd_check_former(cluster->check, disk->present ? disk->file.version : 0);
	if (!disk->present) {
		if (present)
			cluster_restored(cluster, NULL, 0);
		return -ENOENT;
	}
	if (!copy_checkpoint(&disk->file, &copy)) {
		free_copy(&copy);
		return -ENOMEM;
	}
	code = hd_jobspec_decode(disk->spec, (size_t)disk->spec_bytes, &copy.spec);
	if (code < 0) {
		hd_check_fail(cluster->check, "the checkpoint's job description is broken");
		free_copy(&copy);
		return code;
	}
	if (present) {
		cluster->revived = cluster_revives(cluster, former, copy.version);
		cluster_restored(cluster, copy.model, copy.version);
		cluster->revived = false;
	}
	*checkpoint = copy;
	return 0;
}

static bool on_keeps(void *owner) {
	const struct server_process *server = owner;

	return server->disk.present;
}

void disk_crash(struct server_process *server) {
	server->disk.writing = false;
	server->disk.serial++;
}

const struct hd_server_ops disk_ops = {
	.checkpoint = on_checkpoint,
	.restore = on_restore,
	.keeps = on_keeps,
};
