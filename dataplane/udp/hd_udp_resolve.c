/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses from text. Digits are parsed directly. A name needs the resolver, which may wait for servers without limit:
 * a thread of its own asks, and is abandoned if that takes too long.
 */
#include "hd_limits.h"
#include "hd_thread.h"
#include "hd_udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HOST_BYTES 256
#define DIGITS_OF(number) DIGITS(number)
#define DIGITS(number) #number

static atomic_uint asking; // threads, including abandoned ones

struct question {
	char host[HOST_BYTES];
	pthread_mutex_t lock; // guards the fields below
	pthread_cond_t answered;
	bool ended; // the resolver has answered
	bool left; // its caller has given up
	int code;
	uint32_t ipv4;
};

/* Digits only, 1..65535. */
static int parse_port(const char *text, uint16_t *port) {
	unsigned value = 0;

	if (*text == '\0')
		return -EINVAL;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -EINVAL;
		value = value * 10 + (unsigned)(*text - '0');
		if (value > UINT16_MAX)
			return -EINVAL;
	}
	if (value == 0)
		return -EINVAL;
	*port = (uint16_t)value;
	return 0;
}

static void question_free(struct question *q) {
	pthread_cond_destroy(&q->answered);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

static int look_up(const char *host, uint32_t *ipv4) {
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM};
	struct addrinfo *found = NULL;
	struct sockaddr_in name;
	int code = getaddrinfo(host, NULL, &hints, &found);

	if (code == EAI_AGAIN)
		return -ENETUNREACH;
	if (code == EAI_MEMORY)
		return -ENOMEM;
	if (code != 0 || !found)
		return -EHOSTUNREACH;
	memcpy(&name, found->ai_addr, sizeof name);
	freeaddrinfo(found);
	*ipv4 = ntohl(name.sin_addr.s_addr);
	return 0;
}

static void *ask(void *argument) {
	struct question *q = argument;
	uint32_t ipv4 = 0;
	int code = look_up(q->host, &ipv4);
	bool left;

	pthread_mutex_lock(&q->lock);
	q->code = code;
	q->ipv4 = ipv4;
	q->ended = true;
	left = q->left;
	pthread_cond_signal(&q->answered);
	pthread_mutex_unlock(&q->lock);
	if (left)
		question_free(q);
	atomic_fetch_sub(&asking, 1);
	return NULL;
}

/* Detached: it is not joined. */
static int start(struct question *q) {
	pthread_attr_t detached;
	pthread_t thread;
	int code;

	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	code = hd_thread_start(&thread, &detached, ask, q);
	pthread_attr_destroy(&detached);
	return code;
}

static struct question *question_create(const char *host) {
	struct question *q = calloc(1, sizeof *q);
	pthread_condattr_t monotonic;

	if (!q)
		return NULL;
	memcpy(q->host, host, strlen(host) + 1);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->answered, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return q;
}

/* Takes the answer and frees the question, or leaves it to its thread. */
static int wait_for(struct question *q, int timeout_ms, uint32_t *ipv4) {
	struct timespec until;
	bool ended;
	int code = -ETIMEDOUT;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += timeout_ms % 1000 * 1000000L;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_nsec -= 1000000000L;
		until.tv_sec++;
	}
	pthread_mutex_lock(&q->lock);
	while (!q->ended)
		if (pthread_cond_timedwait(&q->answered, &q->lock, &until) == ETIMEDOUT)
			break;
	ended = q->ended;
	q->left = true;
	if (ended)
		code = q->code;
	if (code == 0)
		*ipv4 = q->ipv4;
	pthread_mutex_unlock(&q->lock);
	if (ended)
		question_free(q);
	return code;
}

static int resolve_host(const char *host, int timeout_ms, uint32_t *ipv4) {
	struct in_addr digits;
	struct question *q;
	int code;

	if (inet_pton(AF_INET, host, &digits) == 1) {
		*ipv4 = ntohl(digits.s_addr);
		return 0;
	}
	if (atomic_fetch_add(&asking, 1) >= HD_RESOLVERS_MAX) {
		atomic_fetch_sub(&asking, 1);
		return -EAGAIN;
	}
	q = question_create(host);
	code = q ? start(q) : -ENOMEM;
	if (code == 0)
		return wait_for(q, timeout_ms, ipv4);
	atomic_fetch_sub(&asking, 1);
	if (q)
		question_free(q);
	return code;
}

int hd_udp_resolve_within(const char *text, int timeout_ms, struct hd_addr *addr) {
	const char *colon = strchr(text, ':');
	size_t host_bytes = colon ? (size_t)(colon - text) : strlen(text);
	char host[HOST_BYTES];
	uint16_t port = HD_PORT;
	uint32_t ipv4 = 0;
	int code;

	if (host_bytes == 0 || host_bytes >= sizeof host)
		return -EINVAL;
	if (colon && parse_port(colon + 1, &port) < 0)
		return -EINVAL;
	memcpy(host, text, host_bytes);
	host[host_bytes] = '\0';
	code = resolve_host(host, timeout_ms, &ipv4);
	if (code == 0)
		*addr = (struct hd_addr){.ipv4 = ipv4, .port = port};
	return code;
}

int hd_udp_resolve(const char *text, struct hd_addr *addr) {
	return hd_udp_resolve_within(text, HD_RESOLVE_MS, addr);
}

const char *hd_udp_resolve_error(int code) {
	switch (code) {
	case -EINVAL:
		return "not an IPv4 address or host name, with :PORT if wanted";
	case -EHOSTUNREACH:
		return "no address is known for this name";
	case -ENETUNREACH:
		return "no name server gave an answer; try again";
	case -ETIMEDOUT:
		return "the name server did not answer in " DIGITS_OF(HD_RESOLVE_MS) " ms";
	case -EAGAIN:
		return DIGITS_OF(HD_RESOLVERS_MAX
		) " names already wait for the name server, or no thread could be started";
	default:
		return code == -ENOMEM ? "no memory" : "unknown error";
	}
}
