/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that wait for other nodes, which test_heddle_timeouts.c makes where those are silent. */
#ifndef TIMEOUTS_H
#define TIMEOUTS_H

#include "hd_controller.h"
#include "hd_program.h"
#include "hd_server.h"
#include "heddle.h"

#include <pthread.h>
#include <stdatomic.h>

#define VALUES 20000
#define TIMEOUT_MS 50

enum situation {
	NO_SERVER, /* a socket has the port, and answers nothing */
	CUT_OFF, /* the kernel takes no packet for the server: there is no way from the loopback interface */
	STOPPED, /* the server does nothing any more, since the worker has joined */
	INCOMPLETE, /* the job's step needs nine workers, and this is one */
	NO_CONTROLLER, /* nor a server: the controller would have said where one is */
	CONTROLLER_ALONE, /* it answers, and knows no server */
	SITUATIONS
};

struct scene {
	struct hd_keyring keys;
	struct hd_driver *driver;
	struct hd_server *server;
	struct hd_controller *controller;
	pthread_t thread;
	pthread_mutex_t gate; /* held: the server stalls */
	_Atomic bool stopping; /* so that the gate is left to who wants it */
	bool stopped;
	_Atomic bool ended; /* the thread is to end */
	int silent_fd;
	char key_path[64], address[32], silent[32];
	_Atomic enum situation situation;
	struct heddle *fabric;
	float update[VALUES], model[VALUES];
};

int call_wait_joined(struct scene *scene);
uint64_t base_of(struct scene *scene);
struct heddle_ticket *start_push(struct scene *scene, uint64_t base);
int call_ticket_wait(struct scene *scene);
int call_push(struct scene *scene);
int call_pull(struct scene *scene);
int call_push_sparse(struct scene *scene);
int call_allreduce(struct scene *scene);
int call_agree(struct scene *scene);
int call_share_state(struct scene *scene);
int call_barrier(struct scene *scene);
int call_broadcast(struct scene *scene);
int call_reduce(struct scene *scene);
int call_allreduce_list(struct scene *scene);
int call_broadcast_list(struct scene *scene);
int call_reduce_list(struct scene *scene);
int call_allgather(struct scene *scene);
int call_gather(struct scene *scene);
int call_reduce_scatter(struct scene *scene);
int call_alltoall(struct scene *scene);
int call_scatter(struct scene *scene);
int call_send(struct scene *scene);
int call_recv(struct scene *scene);
int call_progress(struct scene *scene);
int call_round_wait(struct scene *scene);
int call_close(struct scene *scene);
int call_leave(struct scene *scene);

#endif
