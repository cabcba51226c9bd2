/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses from text beside a resolver that does not answer: this program has its own getaddrinfo(). */
#include "hd_limits.h"
#include "hd_udp.h"

#include <errno.h>
#include <netdb.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static sem_t answer;
static atomic_uint asked, answered;
static atomic_bool takes_signals;

int getaddrinfo(
	const char *host,
	const char *service,
	const struct addrinfo *hints,
	struct addrinfo **found
) {
	struct sockaddr_in *name = calloc(1, sizeof *name);
	sigset_t mask;

	(void)service;
	(void)hints;
	atomic_fetch_add(&asked, 1);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	if (!sigismember(&mask, SIGTERM))
		atomic_store(&takes_signals, true);
	while (strcmp(host, "slow") == 0 && sem_wait(&answer) < 0)
		;
	if (strcmp(host, "no-host") == 0 || strcmp(host, "later") == 0) {
		free(name);
		return host[0] == 'n' ? EAI_NONAME : EAI_AGAIN;
	}
	*found = calloc(1, sizeof **found);
	if (!*found || !name)
		abort();
	name->sin_addr.s_addr = htonl(0x0a000007);
	(*found)->ai_addr = (struct sockaddr *)name;
	atomic_fetch_add(&answered, 1);
	return 0;
}

void freeaddrinfo(struct addrinfo *found) {
	free(found->ai_addr);
	free(found);
}

static void test_digits_need_no_resolver(void **state) {
	struct hd_addr addr;

	(void)state;
	assert_int_equal(hd_udp_resolve("10.1.2.3:4", &addr), 0);
	assert_int_equal(addr.ipv4, 0x0a010203);
	assert_int_equal(addr.port, 4);
	assert_int_equal(atomic_load(&asked), 0);
}

static void test_name(void **state) {
	struct hd_addr addr;

	(void)state;
	assert_int_equal(hd_udp_resolve("quick:9", &addr), 0);
	assert_int_equal(addr.ipv4, 0x0a000007);
	assert_int_equal(addr.port, 9);
	assert_false(atomic_load(&takes_signals));
}

/* The error tells whether the name does not exist, or no name server answered. */
static void test_no_address(void **state) {
	struct hd_addr addr = {1, 2};

	(void)state;
	assert_int_equal(hd_udp_resolve("no-host", &addr), -EHOSTUNREACH);
	assert_int_equal(hd_udp_resolve("later:9", &addr), -ENETUNREACH);
	assert_int_equal(addr.ipv4, 1);
}

static void test_silent_resolver(void **state) {
	struct hd_addr addr = {1, 2};
	unsigned before = atomic_load(&answered);
	hd_ns begin = hd_udp_now();

	(void)state;
	assert_int_equal(hd_udp_resolve_within("slow", 50, &addr), -ETIMEDOUT);
	assert_in_range(hd_udp_now() - begin, 50 * HD_MS, HD_SECOND);
	assert_int_equal(addr.ipv4, 1);
	assert_int_equal(addr.port, 2);
	/* A late answer does no harm. */
	sem_post(&answer);
	while (atomic_load(&answered) == before && hd_udp_now() < begin + 5 * HD_SECOND)
		usleep(1000);
	assert_int_equal(atomic_load(&answered), before + 1);
}

/* The messages for users: a silent name server is not a name that does not exist. */
static void test_words(void **state) {
	static const struct {
		int code;
		const char *words;
	} rows[] = {
		{-EINVAL, "not an IPv4 address or host name"},
		{-EHOSTUNREACH, "no address is known"},
		{-ENETUNREACH, "no name server gave an answer; try again"},
		{-ETIMEDOUT, "the name server did not answer in 5000 ms"},
		{-EAGAIN, "8 names already wait for the name server"},
		{-ENOMEM, "no memory"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_non_null(strstr(hd_udp_resolve_error(rows[i].code), rows[i].words));
}

/* Repeated questions do not pile up threads; when those have ended, the next question is accepted. */
static void test_threads_that_wait(void **state) {
	unsigned before = atomic_load(&answered);
	hd_ns until = hd_udp_now() + 5 * HD_SECOND;
	struct hd_addr addr = {0};
	int left = 0;

	(void)state;
	while (left < HD_RESOLVERS_MAX && hd_udp_now() < until)
		left += hd_udp_resolve_within("slow", 1, &addr) == -ETIMEDOUT;
	assert_int_equal(left, HD_RESOLVERS_MAX);
	assert_int_equal(hd_udp_resolve_within("quick", 1000, &addr), -EAGAIN);
	for (int i = 0; i < HD_RESOLVERS_MAX; i++)
		sem_post(&answer);
	while (atomic_load(&answered) < before + HD_RESOLVERS_MAX && hd_udp_now() < until)
		usleep(1000);
	while (hd_udp_resolve_within("quick", 1000, &addr) == -EAGAIN && hd_udp_now() < until)
		usleep(1000);
	assert_int_equal(addr.ipv4, 0x0a000007);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_digits_need_no_resolver),
		cmocka_unit_test(test_name),
		cmocka_unit_test(test_no_address),
		cmocka_unit_test(test_silent_resolver),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_threads_that_wait),
	};

	if (sem_init(&answer, 0, 0) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
