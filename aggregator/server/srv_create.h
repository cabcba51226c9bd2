/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs: tables (srv_job.c) and creation (srv_create.c). */
#ifndef SRV_CREATE_H
#define SRV_CREATE_H

#include "srv_job.h"

/* The job without contents, in the list; takes *spec over only on success. NULL: no memory. */
struct srv_job *srv_job_allocate(struct hd_server *server, struct hd_jobspec *spec);
void srv_job_destroy(struct hd_server *server, struct srv_job *job);
/* From a checkpoint if there is one, else from the description's seed; takes *spec over only on success. NULL: text
 * says why. */
struct srv_job *srv_job_create(struct srv_turn *turn, struct hd_jobspec *spec, char *text);
/* A job without contents, to be a replica; takes *spec over only on success. NULL: text says why. */
struct srv_job *srv_job_create_replica(struct srv_turn *turn, struct hd_jobspec *spec, char *text);

#endif
