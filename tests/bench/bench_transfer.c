/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One sender and one receiver over a driver (udp, or with --driver dpdk): what the transfer
 * machinery makes of a real path. tests/netns/bench_transfer.py builds the paths and compares.
 *
 *   bench_transfer recv --listen ADDR --bytes N --count K
 *   bench_transfer send --peer ADDR  --bytes N --count K [--weight W] [--rate-mbps R] [--seconds S]
 *
 * Transfer i has token i + 1: integrity off. The next one waits for GO, which the receiver sends when the present one
 * has less than one window left, as a server does. Acknowledgements and GO are control packets with a
 * tag under a fixed key, so that they cost what they cost; there is no session.
 */
#include "hd_keys.h"
#include "hd_limits.h"
#include "hd_program.h"
#include "hd_random.h"
#include "hd_recv.h"
#include "hd_send.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sysexits.h>

#define AHEAD 2 /* transfers that exist at once */
#define GO_BYTES 131072

struct bench {
	/* options */
	struct hd_addr addr;
	uint64_t bytes;
	uint32_t count, chunk_bytes;
	double weight, rate_mbps, seconds;
	/* both */
	struct hd_driver_options options;
	struct hd_driver *driver;
	uint8_t *data[AHEAD];
	uint8_t key[HD_KEY_BYTES];
	uint64_t sequence;
	uint32_t done;
	hd_ns began, ended, stop_at;
	/* sender */
	struct hd_send *send[AHEAD];
	struct hd_path path;
	struct hd_send_stats sum;
	uint32_t created;
	uint64_t gone_to; /* the last transfer that was sent GO, which may come before it exists */
	/* receiver */
	struct hd_recv *recv[AHEAD];
	uint32_t gone; /* GO was sent up to this transfer */
	uint64_t acks, strays;
	hd_ns last_at, gaps;
};

static void send_control(
	struct bench *bench,
	struct hd_addr to,
	const struct hd_message *message,
	struct hd_sink *sink
) {
	struct hd_control_header header
		= {.type = HD_PACKET_CONTROL, .kind = message->kind, .sequence = ++bench->sequence};
	uint8_t data[HD_CONTROL_HEADER_BYTES + HD_FRAGMENT_BYTES_MAX + HD_TAG_BYTES];
	int body
		= hd_message_encode(message, data + HD_CONTROL_HEADER_BYTES, HD_FRAGMENT_BYTES_MAX);
	size_t signed_bytes;

	if (body < 0)
		return;
	hd_control_encode(&header, data);
	signed_bytes = HD_CONTROL_HEADER_BYTES + (size_t)body;
	hd_auth_sign(bench->key, data, signed_bytes, data + signed_bytes);
	sink->send(sink, to, data, signed_bytes + HD_TAG_BYTES, NULL, 0);
}

/* --- sender ----------------------------------------------------------------------------- */

static bool over(const struct bench *bench, hd_ns now) {
	return bench->created == bench->count || (bench->stop_at > 0 && now >= bench->stop_at);
}

static void create_send(struct bench *bench, hd_ns now) {
	const uint64_t rate_bps = (uint64_t)(bench->rate_mbps * 1e6);
	uint32_t index = bench->created;
	struct hd_send_config config = {
		.peer = bench->addr,
		.header = {.job = 1, .round = index + 1, .attempt = 1, .token = index + 1},
		.data = bench->data[index % AHEAD],
		.bytes = bench->bytes,
		.chunk_bytes = bench->chunk_bytes,
		.cc_weight = (float)bench->weight,
		.path = &bench->path,
		.wait_go = index > 0,
		.go_slack = 50 * HD_MS,
	};

	if (rate_bps > 0)
		config.segments = (struct hd_segs){1, {{now, rate_bps, bench->bytes}}};
	if (hd_send_create(&config, now, &bench->send[index % AHEAD]) < 0)
		abort();
	if (bench->gone_to == index + 1)
		hd_send_go(bench->send[index % AHEAD], now);
	bench->created++;
}

static void finish_send(struct bench *bench, struct hd_send **send, hd_ns now) {
	const struct hd_send_stats *stats = hd_send_stats(*send);

	bench->sum.packets_sent += stats->packets_sent;
	bench->sum.packets_resent += stats->packets_resent;
	bench->sum.packets_lost += stats->packets_lost;
	bench->sum.timeouts += stats->timeouts;
	bench->sum.bytes_acked += stats->bytes_acked;
	hd_send_destroy(*send);
	*send = NULL;
	bench->done++;
	bench->ended = now;
}

static void sender_tick(void *core, hd_ns now, struct hd_sink *sink) {
	struct bench *bench = core;
	bool alive = false;

	for (uint32_t i = 0; i < AHEAD; i++) {
		uint32_t slot = (bench->done + i) % AHEAD;

		if (!bench->send[slot] && !over(bench, now) && bench->created % AHEAD == slot)
			create_send(bench, now);
		if (!bench->send[slot])
			continue;
		alive = true;
		hd_send_poll(bench->send[slot], now, 256, sink);
	}
	if (!alive || (bench->stop_at > 0 && now >= bench->stop_at))
		hd_driver_stop(bench->driver);
}

static void sender_message(struct bench *bench, hd_ns now, const struct hd_message *message) {
	uint64_t token = message->kind == HD_MSG_SACK ? message->sack.token : message->go.token;
	struct hd_send **send = &bench->send[(token - 1) % AHEAD];

	if (message->kind == HD_MSG_GO)
		bench->gone_to = token;
	if (!*send || hd_send_token(*send) != token)
		return;
	if (message->kind == HD_MSG_SACK)
		hd_send_sack(*send, now, &message->sack);
	if (message->kind == HD_MSG_GO)
		hd_send_go(*send, now);
	if (hd_send_stats(*send)->state == HD_SEND_DONE)
		finish_send(bench, send, now);
}

static void sender_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	struct bench *bench = core;
	struct hd_control_header header;
	struct hd_message message;
	const uint8_t *body;
	size_t bytes;

	for (size_t i = 0; i < count; i++) {
		const struct hd_packet *packet = &packets[i];

		if (hd_control_decode(packet->data, packet->bytes, &header, &body, &bytes) < 0
		    || !hd_auth_verify(bench->key, packet->data, packet->bytes)
		    || hd_message_decode(header.kind, body, bytes, &message) < 0)
			continue;
		message.kind = header.kind;
		sender_message(bench, now, &message);
	}
	sender_tick(bench, now, sink);
}

static hd_ns sender_deadline(const void *core) {
	const struct bench *bench = core;
	hd_ns at = bench->stop_at ? bench->stop_at : HD_NEVER;

	for (size_t i = 0; i < AHEAD; i++)
		if (bench->send[i])
			at = hd_ns_min(at, hd_send_deadline(bench->send[i]));
	return bench->created == 0 ? 0 : at;
}

/* --- receiver --------------------------------------------------------------------------- */

static struct hd_recv *expect(struct bench *bench, uint64_t token) {
	struct hd_recv **recv = &bench->recv[(token - 1) % AHEAD];
	struct hd_recv_config config = {
		.token = token,
		.job = 1,
		.round = (uint32_t)token,
		.attempt = 1,
		.bytes = bench->bytes,
		.data = bench->data[(token - 1) % AHEAD],
	};

	if (*recv)
		return *recv;
	if (hd_recv_create(&config, recv) < 0)
		abort();
	return *recv;
}

static void receive_chunk(
	struct bench *bench,
	hd_ns now,
	const struct hd_packet *packet,
	struct hd_sink *sink
) {
	struct hd_chunk_header header;
	const uint8_t *payload;
	struct hd_recv *recv;
	size_t bytes;

	if (hd_chunk_decode(packet->data, packet->bytes, &header, &payload, &bytes) < 0
	    || header.token == 0 || header.token > bench->done + AHEAD) {
		bench->strays++;
		return;
	}
	bench->addr = packet->peer;
	if (header.token <= bench->done) {
		struct hd_message message = {.kind = HD_MSG_SACK};

		hd_recv_sack_done(
			header.token,
			&header,
			hd_driver_receive_window(bench->driver),
			&message.sack
		);
		send_control(bench, packet->peer, &message, sink);
		return;
	}
	recv = expect(bench, header.token);
	if (bench->began == 0)
		bench->began = now;
	if (header.token == bench->done + 1 && hd_recv_stats(recv)->packets == 0
	    && bench->last_at > 0)
		bench->gaps += now - bench->last_at;
	hd_recv_chunk(recv, now, &header, payload, bytes);
}

static void
acknowledge(struct bench *bench, struct hd_recv *recv, hd_ns now, struct hd_sink *sink) {
	struct hd_message message = {.kind = HD_MSG_SACK};

	if (!hd_recv_sack_due(recv, now))
		return;
	hd_recv_sack(recv, now, hd_driver_receive_window(bench->driver), &message.sack);
	send_control(bench, bench->addr, &message, sink);
	bench->acks++;
}

static void receiver_tick(void *core, hd_ns now, struct hd_sink *sink) {
	struct bench *bench = core;

	for (uint32_t i = 0; i < AHEAD; i++) {
		uint32_t slot = bench->done % AHEAD;
		struct hd_recv *recv = bench->recv[slot];

		if (bench->recv[(slot + 1) % AHEAD])
			acknowledge(bench, bench->recv[(slot + 1) % AHEAD], now, sink);
		if (!recv)
			break;
		acknowledge(bench, recv, now, sink);
		if (hd_recv_missing(recv) <= GO_BYTES && bench->gone < bench->done + 1) {
			struct hd_message go = {.kind = HD_MSG_GO};

			go.go.token = bench->done + 2;
			send_control(bench, bench->addr, &go, sink);
			bench->gone = bench->done + 1;
		}
		if (hd_recv_missing(recv) > 0)
			break;
		bench->last_at = hd_recv_stats(recv)->last;
		bench->ended = bench->last_at;
		hd_recv_destroy(recv);
		bench->recv[slot] = NULL;
		bench->done++;
	}
}

static void receiver_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	for (size_t i = 0; i < count; i++)
		receive_chunk(core, now, &packets[i], sink);
	receiver_tick(core, now, sink);
}

static hd_ns receiver_deadline(const void *core) {
	const struct bench *bench = core;
	hd_ns at = HD_NEVER;

	for (size_t i = 0; i < AHEAD; i++)
		if (bench->recv[i])
			at = hd_ns_min(at, hd_recv_deadline(bench->recv[i]));
	return at;
}

/* --- program ---------------------------------------------------------------------------- */

static double cpu_seconds(void) {
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
		+ (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* A counter of the driver's, by name; every driver counts what it knows of. */
static uint64_t counter(const struct bench *bench, const char *name) {
	struct hd_driver_counter counters[HD_DRIVER_COUNTERS_MAX];
	size_t count = hd_driver_counters(bench->driver, counters);

	for (size_t i = 0; i < count; i++)
		if (strcmp(counters[i].name, name) == 0)
			return counters[i].value;
	return 0;
}

static void print_counters(const struct bench *bench) {
	struct hd_driver_counter counters[HD_DRIVER_COUNTERS_MAX];
	size_t count = hd_driver_counters(bench->driver, counters);

	printf(", \"driver\": {");
	for (size_t i = 0; i < count; i++)
		printf("%s\"%s\": %lu", i ? ", " : "", counters[i].name, counters[i].value);
	printf("}");
}

static void report(const struct bench *bench, bool sender) {
	uint64_t partial = 0;
	hd_ns ended = bench->ended;
	double took;

	for (size_t i = 0; i < AHEAD; i++) {
		if (bench->send[i])
			partial += hd_send_stats(bench->send[i])->bytes_acked;
		if (bench->recv[i]) {
			partial += hd_recv_stats(bench->recv[i])->bytes_held;
			ended = hd_ns_max(ended, hd_recv_stats(bench->recv[i])->last);
		}
	}
	if (sender && partial > 0)
		ended = hd_driver_now();
	took = (double)(ended - bench->began) / 1e9;
	printf("{\"role\": \"%s\", \"done\": %u, \"seconds\": %.6f, \"goodput_mbps\": %.2f, "
	       "\"cpu_seconds\": %.4f",
	       sender ? "send" : "recv",
	       bench->done,
	       took,
	       ((double)bench->done * (double)bench->bytes + (double)partial) * 8 / took / 1e6,
	       cpu_seconds());
	if (sender)
		printf(", \"packets\": %lu, \"resent\": %lu, \"lost\": %lu, \"timeouts\": %lu, "
		       "\"window\": %.0f, \"srtt_us\": %lu, \"rtt_min_us\": %lu, \"loss\": %.5f",
		       bench->sum.packets_sent,
		       bench->sum.packets_resent,
		       bench->sum.packets_lost,
		       bench->sum.timeouts,
		       bench->path.window_bytes,
		       bench->path.srtt / HD_US,
		       bench->path.rtt_min / HD_US,
		       bench->path.loss_average);
	else
		printf(", \"acks\": %lu, \"gap_share\": %.5f, \"overflow\": %lu, \"strays\": %lu",
		       bench->acks,
		       (double)bench->gaps / 1e9 / took,
		       counter(bench, "receive_overflow"),
		       bench->strays);
	print_counters(bench);
	printf("}\n");
}

/* The same bytes on both sides; -1 when what arrived differs. */
static int check(const struct bench *bench, bool verify) {
	struct hd_random random;

	hd_random_init(&random, 1);
	for (uint64_t i = 0; i + 8 <= bench->bytes; i += 8) {
		uint64_t value = hd_random_u64(&random);

		for (size_t k = 0; k < AHEAD; k++)
			if (!verify)
				memcpy(bench->data[k] + i, &value, 8);
			else if (k < bench->done && memcmp(bench->data[k] + i, &value, 8) != 0)
				return -1;
	}
	return 0;
}

static int take_address(void *values, const char *text) {
	return hd_driver_resolve(text, &((struct bench *)values)->addr) < 0 ? EX_USAGE : 0;
}

static const struct hd_option option_table[] = {
	HD_OPTION_TAKE("listen", "ADDR[:PORT]", take_address, "receives here"),
	HD_OPTION_TAKE("peer", "ADDR[:PORT]", take_address, "sends there"),
	HD_OPTION_U64(
		"bytes",
		"N",
		struct bench,
		bytes,
		8,
		HD_MODEL_BYTES_MAX,
		"of a transfer (100000000)"
	),
	HD_OPTION_U32(
		"count",
		"K",
		struct bench,
		count,
		1,
		UINT32_MAX,
		"transfers, one after the other (1)"
	),
	HD_OPTION_REAL("weight", "W", struct bench, weight, 0, 1e6, "flows that it stands for (1)"),
	HD_OPTION_REAL("rate-mbps", "R", struct bench, rate_mbps, 0, 1e6, "granted (0: no grant)"),
	HD_OPTION_REAL("seconds", "S", struct bench, seconds, 0, 1e6, "how long (0: all)"),
	HD_OPTION_U32(
		"chunk",
		"BYTES",
		struct bench,
		chunk_bytes,
		8,
		HD_CHUNK_BYTES_MAX,
		"of a packet"
	),
	HD_OPTION_TABLE(hd_driver_option_table, struct bench, options),
	HD_OPTION_HELP,
	HD_OPTION_END,
};

static int parse(struct bench *bench, int argc, char **argv) {
	static const struct hd_option_program program = {
		.name = "bench_transfer",
		.usage
		= "usage: bench_transfer send|recv --peer|--listen ADDR[:PORT] [options]\n\n",
		.table = option_table,
		.arguments = true,
	};
	int status;

	*bench = (struct bench
	){.bytes = 100000000, .count = 1, .chunk_bytes = HD_CHUNK_BYTES_DEFAULT, .weight = 1};
	status = hd_options_read(&program, argc, argv, bench, NULL);
	bench->bytes = bench->bytes / 8 * 8;
	if (status == 0 && optind != argc - 1) {
		hd_options_print_help(&program);
		return EX_USAGE;
	}
	return status;
}

static int make_data(struct bench *bench, bool sender) {
	for (size_t i = 0; i < AHEAD; i++) {
		bench->data[i] = aligned_alloc(64, (bench->bytes + 63) / 64 * 64);
		if (!bench->data[i])
			return EX_OSERR;
		memset(bench->data[i], 0, bench->bytes);
	}
	if (sender)
		(void)check(bench, false);
	return 0;
}

static int run(struct bench *bench, bool sender) {
	static const struct hd_core_ops send_ops = {sender_receive, sender_tick, sender_deadline};
	static const struct hd_core_ops recv_ops
		= {receiver_receive, receiver_tick, receiver_deadline};
	int rc;

	if (hd_program_stop_on_signals(bench->driver) < 0 || make_data(bench, sender) != 0)
		return EX_OSERR;
	hd_path_init(&bench->path, bench->chunk_bytes + HD_CHUNK_OVERHEAD_BYTES);
	if (sender) {
		bench->began = hd_driver_now();
		if (bench->seconds > 0)
			bench->stop_at = bench->began + (hd_ns)(bench->seconds * 1e9);
	}
	(void)printf("ready\n");
	(void)fflush(stdout);
	rc = hd_driver_run(bench->driver, (struct hd_node){sender ? &send_ops : &recv_ops, bench});
	report(bench, sender);
	if (rc >= 0 && (sender || check(bench, true) == 0))
		return 0;
	(void)fprintf(stderr, "bench_transfer: %s\n", rc < 0 ? strerror(-rc) : "bytes differ");
	return EX_SOFTWARE;
}

/* Ends the transfers in flight, too, after a signal or --seconds. */
static void end(struct bench *bench) {
	for (size_t i = 0; i < AHEAD; i++) {
		hd_send_destroy(bench->send[i]);
		hd_recv_destroy(bench->recv[i]);
		free(bench->data[i]);
	}
	hd_driver_close(bench->driver);
}

int main(int argc, char **argv) {
	struct hd_driver_config config = {0};
	struct bench bench;
	char error[256];
	bool sender;
	int rc;

	rc = parse(&bench, argc, argv);
	if (rc != 0)
		return rc < 0 ? 0 : rc;
	sender = strcmp(argv[optind], "send") == 0;
	config.options = bench.options;
	if (!sender)
		config.bind = bench.addr;
	if (hd_driver_open(&config, &bench.driver, error, sizeof error) < 0) {
		(void)fprintf(stderr, "bench_transfer: %s\n", error);
		return EX_OSERR;
	}
	rc = run(&bench, sender);
	end(&bench);
	return rc;
}
