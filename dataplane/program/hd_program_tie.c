/* SPDX-License-Identifier: BSD-3-Clause */
/* A process that ends with another one. */
#include "hd_program.h"
#include "hd_thread.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A descriptor of the process, not a pipe from it: children of that process inherit a pipe, and would keep it open. */
static void *await_end(void *argument) {
	struct pollfd other = {.fd = (int)(intptr_t)argument, .events = POLLIN};

	while (poll(&other, 1, -1) < 0 && errno == EINTR)
		;
	close(other.fd);
	/* Not by a signal: what ended the other process may have been sent to this one, too, and a second one kills. */
	if (!hd_program_stop(SIGTERM))
		(void)kill(getpid(), SIGTERM);
	return NULL;
}

int hd_program_end_with(pid_t pid) {
	int fd = (int)syscall(SYS_pidfd_open, pid, 0), code;
	pthread_attr_t attributes;
	pthread_t thread;

	if (fd < 0)
		return -errno;
	code = -pthread_attr_init(&attributes);
	if (code == 0) {
		(void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
		/* NOLINTNEXTLINE(performance-no-int-to-ptr): the thread's argument is a descriptor */
		code = hd_thread_start(&thread, &attributes, await_end, (void *)(intptr_t)fd);
		pthread_attr_destroy(&attributes);
	}
	if (code != 0)
		close(fd);
	return code;
}
