/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_driver.h"
#include "hd_metrics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 32 /* another one closes the oldest, those without an answer first */
#define CONNECTIONS_ENDING_MAX 32 /* besides: connections that are being closed */
#define CONNECTION_TIMEOUT_S 10 /* of silence */
#define CONNECTION_BYTES_MAX (32u << 10) /* of headers */
#define GATHER_TIMEOUT_MS 2000
#define BACKLOG 16

struct hd_metrics {
	struct hd_stats_query *query;
	const char *token;
	struct MHD_Daemon *daemon;
	struct hd_addr bound;
	// HTTP thread only: connections, oldest first; an answer makes one the newest
	struct {
		int fd;
		bool answered;
	} open[CONNECTIONS_MAX];
	unsigned open_count;
};

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned code, const char *text) {
	struct MHD_Response *response = MHD_create_response_from_buffer(
		strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY
	);
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	(void)MHD_add_response_header(response, "Content-Type", "text/plain; charset=utf-8");
	if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
		(void)MHD_add_response_header(response, "Allow", "GET, HEAD");
	if (code == MHD_HTTP_UNAUTHORIZED)
		(void)MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
	result = MHD_queue_response(connection, code, response);
	MHD_destroy_response(response);
	return result;
}

static void render(void *owner, const struct hd_stats *stats) {
	hd_stats_openmetrics(stats, owner);
}

static enum MHD_Result
answer_metrics(struct hd_metrics *metrics, struct MHD_Connection *connection) {
	struct MHD_Response *response;
	struct hd_out out = {0};
	enum MHD_Result result;

	if (hd_stats_query_read(metrics->query, GATHER_TIMEOUT_MS, render, &out))
		return reply(
			connection, MHD_HTTP_SERVICE_UNAVAILABLE, "the node does not answer\n"
		);
	if (out.failed) {
		hd_out_fini(&out);
		return reply(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "no memory\n");
	}
	response = MHD_create_response_from_buffer(out.bytes, out.data, MHD_RESPMEM_MUST_FREE);
	if (!response) {
		hd_out_fini(&out);
		return MHD_NO;
	}
	(void)MHD_add_response_header(
		response,
		"Content-Type",
		"application/openmetrics-text; version=1.0.0; charset=utf-8"
	);
	result = MHD_queue_response(connection, MHD_HTTP_OK, response);
	MHD_destroy_response(response);
	return result;
}

/* Takes the same time for any wrong token. */
static bool is_allowed(const struct hd_metrics *metrics, struct MHD_Connection *connection) {
	static const char scheme[] = "Bearer ";
	const char *given = MHD_lookup_connection_value(
		connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION
	);
	size_t bytes = strlen(metrics->token);

	if (bytes == 0)
		return true;
	return given && strncasecmp(given, scheme, sizeof scheme - 1) == 0
		&& strlen(given) == sizeof scheme - 1 + bytes
		&& sodium_memcmp(given + sizeof scheme - 1, metrics->token, bytes) == 0;
}

static void forget(struct hd_metrics *metrics, unsigned index) {
	memmove(metrics->open + index,
		metrics->open + index + 1,
		(--metrics->open_count - index) * sizeof metrics->open[0]);
}

/* Its index; open_count: it is not in the list. */
static unsigned find(const struct hd_metrics *metrics, struct MHD_Connection *connection, int *fd) {
	const union MHD_ConnectionInfo *info
		= MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	unsigned i = 0;

	*fd = info ? info->connect_fd : -1;
	while (i < metrics->open_count && metrics->open[i].fd != *fd)
		i++;
	return i;
}

/* A connection that is scraped regularly is never the oldest. */
static void note_answer(struct hd_metrics *metrics, struct MHD_Connection *connection) {
	int fd;
	unsigned i = find(metrics, connection, &fd);

	if (i == metrics->open_count)
		return;
	forget(metrics, i);
	metrics->open[metrics->open_count].fd = fd;
	metrics->open[metrics->open_count++].answered = true;
}

static void end_one(struct hd_metrics *metrics) {
	unsigned i = 0;

	while (i < metrics->open_count && metrics->open[i].answered)
		i++;
	i = i < metrics->open_count ? i : 0;
	(void)shutdown(metrics->open[i].fd, SHUT_RDWR);
	forget(metrics, i);
}

/* The library closes silent connections, but not those that send a byte now and then: these would keep all others
 * out. */
static void
notice(void *owner,
       struct MHD_Connection *connection,
       void **context,
       enum MHD_ConnectionNotificationCode code) {
	struct hd_metrics *metrics = owner;
	int fd;
	unsigned i = find(metrics, connection, &fd);

	(void)context;
	if (i < metrics->open_count)
		forget(metrics, i);
	if (code != MHD_CONNECTION_NOTIFY_STARTED || fd < 0)
		return;
	if (metrics->open_count == CONNECTIONS_MAX)
		end_one(metrics);
	metrics->open[metrics->open_count].fd = fd;
	metrics->open[metrics->open_count++].answered = false;
}

/* The library's signature. */
static enum MHD_Result /* NOLINTNEXTLINE(readability-function-size) */
answer(void *owner,
       struct MHD_Connection *connection,
       const char *url,
       const char *method,
       const char *version,
       const char *upload,
       size_t *upload_bytes,
       void **state) {
	static char seen;

	(void)version;
	(void)upload;
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
		*upload_bytes = 0;
		return reply(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET only\n");
	}
	/* First called with the headers only. */
	if (!*state) {
		*state = &seen;
		return MHD_YES;
	}
	if (!is_allowed(owner, connection))
		return reply(connection, MHD_HTTP_UNAUTHORIZED, "a bearer token is needed\n");
	note_answer(owner, connection);
	if (strcmp(url, "/metrics") == 0)
		return answer_metrics(owner, connection);
	if (strcmp(url, "/") == 0)
		return reply(connection, MHD_HTTP_OK, "heddle: see /metrics\n");
	return reply(connection, MHD_HTTP_NOT_FOUND, "see /metrics\n");
}

/* A socket of our own, as the library does not say what is wrong with an address. */
static int listen_at(struct hd_metrics *metrics, const char *text, const char **what) {
	struct hd_addr addr;
	struct sockaddr_in name = {.sin_family = AF_INET};
	socklen_t bytes = sizeof name;
	int fd, on = 1, code;
	char local[32];

	*what = "a port, or an address with one: [ADDR:]PORT";
	if (!strchr(text, ':')) {
		if (!text[0] || strlen(text) != strspn(text, "0123456789") || strlen(text) > 5)
			return -EINVAL;
		(void)snprintf(local, sizeof local, "127.0.0.1:%s", text);
		text = local;
	}
	code = hd_driver_resolve_own(text, &addr);
	if (code < 0) {
		*what = code == -EINVAL ? *what : hd_driver_resolve_error(code);
		return code;
	}
	name.sin_port = htons(addr.port);
	name.sin_addr.s_addr = htonl(addr.ipv4);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	*what = NULL;
	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(fd, (struct sockaddr *)&name, sizeof name) || listen(fd, BACKLOG)
	    || getsockname(fd, (struct sockaddr *)&name, &bytes)) {
		code = -errno;
		close(fd);
		return code;
	}
	metrics->bound = (struct hd_addr){ntohl(name.sin_addr.s_addr), ntohs(name.sin_port)};
	return fd;
}

int hd_metrics_open(
	const char *listen,
	const char *token,
	struct hd_stats_query *query,
	struct hd_metrics **metrics,
	char *error,
	size_t error_bytes
) {
	struct hd_metrics *m = calloc(1, sizeof *m);
	const char *what = "no memory";
	int fd = m ? listen_at(m, listen, &what) : -ENOMEM;

	if (fd < 0) {
		(void)snprintf(error, error_bytes, "%s", what ? what : strerror(-fd));
		free(m);
		return fd;
	}
	m->query = query;
	m->token = token;
	m->daemon = MHD_start_daemon(
		MHD_USE_EPOLL_INTERNAL_THREAD,
		0,
		NULL,
		NULL,
		answer,
		m,
		MHD_OPTION_LISTEN_SOCKET,
		fd,
		MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)(CONNECTIONS_MAX + CONNECTIONS_ENDING_MAX),
		MHD_OPTION_NOTIFY_CONNECTION,
		notice,
		m,
		MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned)CONNECTION_TIMEOUT_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)CONNECTION_BYTES_MAX,
		MHD_OPTION_END
	);
	if (!m->daemon) {
		(void)snprintf(error, error_bytes, "the HTTP thread does not start");
		close(fd);
		free(m);
		return -EAGAIN;
	}
	*metrics = m;
	return 0;
}

void hd_metrics_close(struct hd_metrics *metrics) {
	if (!metrics)
		return;
	MHD_stop_daemon(metrics->daemon); /* also closes the socket */
	free(metrics);
}

struct hd_addr hd_metrics_bound(const struct hd_metrics *metrics) {
	return metrics->bound;
}
