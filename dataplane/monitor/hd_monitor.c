/* SPDX-License-Identifier: BSD-3-Clause */
#include "hd_endpoint.h"
#include "hd_limits.h"
#include "hd_monitor.h"
#include "hd_poll.h"
#include "hd_text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define READ_ACTIVE_NS (10 * HD_MS) /* between readings while our traffic flows */
#define READ_IDLE_NS (50 * HD_MS)
#define QUIET_LOADS 5 /* without news every fifth message is still sent, as a sign of life */
#define SLOTS_MAX 64 /* readings of one interval */
#define BUSY_SHARE 0.5 /* our traffic flows in a slot with this share of the fastest slot's rate */
#define ELASTIC_SHARE 0.25 /* of the fastest flow's rate */
#define PEAK_SPAN_NS (1 * HD_SECOND) /* a peak decays by a factor of e in this time */

struct slot {
	hd_ns span;
	uint64_t ours, others;
};

struct direction {
	struct hd_monitor_counts last;
	uint64_t flow_bytes[HD_COUNTS_FLOWS]; /* of this interval */
	double peak[HD_COUNTS_FLOWS]; /* bit/s */
	bool alive[HD_COUNTS_FLOWS]; /* had bytes in the previous interval */
	uint32_t slot_count;
	struct slot slot[SLOTS_MAX];
};

struct hd_monitor {
	struct hd_monitor_config config;
	char host[HD_NAME_BYTES_MAX + 1];
	struct hd_endpoint *endpoint;
	struct hd_session *session;
	bool seen;
	bool troubled; /* stats.refused was reported */
	hd_ns connect_at, register_at; /* next, or HD_NEVER */
	hd_ns retry;
	hd_ns read_at, load_at; /* next */
	hd_ns last_read, interval_began;
	uint32_t quiet; /* intervals without traffic */
	struct hd_monitor_counts counts[HD_COUNTS_DIRECTIONS];
	struct direction direction[HD_COUNTS_DIRECTIONS];
	struct hd_monitor_stats stats;
};

/* --- the session --- */

static void tell(struct hd_monitor *m, bool good, const char *text) {
	if (m->config.report_text)
		m->config.report_text(m->config.owner, good, text);
}

/* Reports a text once, and again when it changes. */
static void trouble(struct hd_monitor *m, const char *text) {
	if (m->troubled && strcmp(m->stats.refused, text) == 0)
		return;
	m->troubled = true;
	hd_text_copy(m->stats.refused, sizeof m->stats.refused, text);
	tell(m, false, m->stats.refused);
}

/* Returns when to try again. */
static hd_ns back_off(struct hd_monitor *m, hd_ns now) {
	hd_ns at = now + m->retry;

	m->retry = hd_ns_min(2 * m->retry, HD_MONITOR_RETRY_MAX_US * HD_US);
	return at;
}

static void send_register(struct hd_monitor *m, hd_ns now, struct hd_sink *sink) {
	struct hd_message message = {.kind = HD_MSG_REGISTER};

	m->register_at = HD_NEVER;
	message.register_.role = HD_ROLE_MONITOR;
	memcpy(message.register_.host, m->host, sizeof m->host);
	/* The queue cannot be full: there is one message at a time. */
	(void)hd_session_send(m->session, &message, now, sink);
	m->stats.asked++;
}

static void on_opened(void *owner, struct hd_session *session, hd_ns now, struct hd_sink *sink) {
	struct hd_monitor *m = owner;

	(void)session;
	m->stats.registered = false;
	send_register(m, now, sink);
}

static void gather(const void *node, struct hd_stats *stats) {
	const struct hd_monitor *m = node;

	hd_stats_add(stats, &hd_endpoint_group, NULL, hd_endpoint_stats(m->endpoint));
	if (m->config.gather)
		m->config.gather(m->config.owner, stats);
}

static void on_message(
	void *owner,
	struct hd_session *session,
	const struct hd_message *message,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_monitor *m = owner;

	if (message->kind == HD_MSG_REGISTERED) {
		m->stats.registered = true;
		m->register_at = HD_NEVER;
		m->retry = HD_MONITOR_RETRY_US * HD_US;
		if (m->troubled)
			tell(m, true, "the controller takes what is counted");
		m->troubled = false;
	} else if (message->kind == HD_MSG_REFUSE) {
		m->stats.registered = false;
		m->register_at = back_off(m, now);
		trouble(m, message->refuse.text);
	} else if (message->kind == HD_MSG_POLL) {
		hd_poll_answer(session, &message->poll, gather, m, now, sink);
	}
}

static void on_closed(
	void *owner,
	struct hd_session *session,
	enum hd_reason reason,
	const char *text,
	hd_ns now,
	struct hd_sink *sink
) {
	struct hd_monitor *m = owner;

	(void)session;
	(void)sink;
	m->stats.registered = false;
	m->register_at = HD_NEVER;
	/* The endpoint frees it when this returns; otherwise it sends HELLO again by itself. */
	if (reason == HD_REASON_REFUSED) {
		m->session = NULL;
		m->connect_at = back_off(m, now);
	}
	trouble(m, text && text[0] ? text : hd_reason_name(reason));
}

static const struct hd_endpoint_ops endpoint_ops = {
	.opened = on_opened,
	.message = on_message,
	.closed = on_closed,
};

int hd_monitor_create(const struct hd_monitor_config *config, struct hd_monitor **monitor) {
	struct hd_endpoint_config endpoint = {
		.name = config->name,
		.role = HD_ROLE_MONITOR,
		.key_id = config->key_id,
		.keys = config->keys,
		.ops = &endpoint_ops,
	};
	struct hd_monitor *m;
	int status;

	if (!config->name || !config->host || !config->host[0] || !config->keys || !config->source
	    || config->controller.ipv4 == 0 || strlen(config->host) > HD_NAME_BYTES_MAX)
		return -EINVAL;
	m = calloc(1, sizeof *m);
	if (!m)
		return -ENOMEM;
	m->config = *config;
	if (m->config.interval_us == 0)
		m->config.interval_us = HD_LOAD_INTERVAL_US;
	m->register_at = HD_NEVER;
	m->retry = HD_MONITOR_RETRY_US * HD_US;
	memcpy(m->host, config->host, strlen(config->host));
	memcpy(endpoint.seed, config->seed, sizeof endpoint.seed);
	endpoint.owner = m;
	status = hd_endpoint_create(&endpoint, &m->endpoint);
	if (status < 0) {
		free(m);
		return status;
	}
	*monitor = m;
	return 0;
}

void hd_monitor_destroy(struct hd_monitor *monitor) {
	if (!monitor)
		return;
	hd_endpoint_destroy(monitor->endpoint);
	free(monitor);
}

const struct hd_monitor_stats *hd_monitor_stats(const struct hd_monitor *monitor) {
	return &monitor->stats;
}

/* --- readings --- */

static uint64_t grown(uint64_t now, uint64_t before) {
	return now >= before ? now - before : 0;
}

static void
add_slot(struct direction *direction, const struct hd_monitor_counts *counts, hd_ns span) {
	struct slot slot = {.span = span, .ours = grown(counts->ours, direction->last.ours)};

	for (uint32_t i = 0; i < HD_COUNTS_FLOWS; i++) {
		uint64_t bytes = grown(counts->flows[i], direction->last.flows[i]);

		direction->flow_bytes[i] += bytes;
		slot.others += bytes;
	}
	direction->last = *counts;
	if (direction->slot_count < SLOTS_MAX) {
		direction->slot[direction->slot_count++] = slot;
		return;
	}
	direction->slot[SLOTS_MAX - 1].span += slot.span;
	direction->slot[SLOTS_MAX - 1].ours += slot.ours;
	direction->slot[SLOTS_MAX - 1].others += slot.others;
}

static void read_counts(struct hd_monitor *m, hd_ns now) {
	bool ours = false;

	m->stats.readings++;
	if (m->config.source->read(m->config.owner, m->counts) < 0) {
		m->stats.failures++;
		m->read_at = now + READ_IDLE_NS;
		return;
	}
	for (int w = 0; w < HD_COUNTS_DIRECTIONS; w++) {
		if (!m->seen)
			m->direction[w].last = m->counts[w];
		ours = ours || m->counts[w].ours != m->direction[w].last.ours;
		if (m->seen && now > m->last_read)
			add_slot(&m->direction[w], &m->counts[w], now - m->last_read);
	}
	if (!m->seen) {
		m->interval_began = now;
		m->load_at = now + m->config.interval_us * HD_US;
	}
	m->seen = true;
	m->last_read = now;
	m->read_at = now + (ours ? READ_ACTIVE_NS : READ_IDLE_NS);
}

/* --- one message --- */

struct report {
	uint64_t ours, others, busy_ns, busy_ours, busy_others, steady_bps, elastic_bps;
	uint16_t flows;
};

static double rate(const struct slot *slot) {
	return (double)slot->ours / (double)slot->span;
}

static void report_bytes(const struct direction *direction, struct report *report) {
	double fastest = 0;

	for (uint32_t i = 0; i < direction->slot_count; i++) {
		report->ours += direction->slot[i].ours;
		report->others += direction->slot[i].others;
		fastest = fmax(fastest, rate(&direction->slot[i]));
	}
	for (uint32_t i = 0; i < direction->slot_count && fastest > 0; i++)
		if (rate(&direction->slot[i]) >= BUSY_SHARE * fastest) {
			report->busy_ns += direction->slot[i].span;
			report->busy_ours += direction->slot[i].ours;
			report->busy_others += direction->slot[i].others;
		}
}

/* Two intervals without a byte end a flow; otherwise its peak decays. */
static double flow_peak(struct direction *direction, uint32_t flow, hd_ns span) {
	double now = (double)direction->flow_bytes[flow] * 8e9 / (double)span;
	bool alive = direction->flow_bytes[flow] > 0;
	double faded = direction->peak[flow] * exp(-(double)span / (double)PEAK_SPAN_NS);

	direction->peak[flow] = alive || direction->alive[flow] ? fmax(now, faded) : 0;
	direction->alive[flow] = alive;
	direction->flow_bytes[flow] = 0;
	return direction->peak[flow];
}

static void report_flows(struct direction *direction, hd_ns span, struct report *report) {
	double fastest = 0, steady = 0, elastic = 0;

	for (uint32_t i = 0; i < HD_COUNTS_FLOWS; i++)
		fastest = fmax(fastest, flow_peak(direction, i, span));
	for (uint32_t i = 0; i < HD_COUNTS_FLOWS && fastest > 0; i++) {
		if (direction->peak[i] < ELASTIC_SHARE * fastest) {
			steady += direction->peak[i];
			continue;
		}
		elastic += direction->peak[i];
		report->flows++;
	}
	report->steady_bps = (uint64_t)steady;
	report->elastic_bps = (uint64_t)elastic;
}

static void send_load(struct hd_monitor *m, hd_ns now, struct hd_sink *sink) {
	struct hd_message message = {.kind = HD_MSG_LOAD};
	struct report report[HD_COUNTS_DIRECTIONS] = {0};
	hd_ns span = m->last_read - m->interval_began;
	bool quiet = true;

	for (int w = 0; w < HD_COUNTS_DIRECTIONS; w++) {
		report_bytes(&m->direction[w], &report[w]);
		report_flows(&m->direction[w], span, &report[w]);
		quiet = quiet && report[w].ours + report[w].others == 0 && report[w].flows == 0;
		m->direction[w].slot_count = 0;
	}
	m->interval_began = m->last_read;
	m->quiet = quiet ? m->quiet + 1 : 0;
	if (!m->session || !m->stats.registered || m->quiet % QUIET_LOADS > 1)
		return;
	message.load = (struct hd_msg_load){
		.interval_ns = span,
		.out_ours = report[HD_COUNTS_OUT].ours,
		.out_others = report[HD_COUNTS_OUT].others,
		.out_busy_ns = report[HD_COUNTS_OUT].busy_ns,
		.out_busy_ours = report[HD_COUNTS_OUT].busy_ours,
		.out_busy_others = report[HD_COUNTS_OUT].busy_others,
		.out_steady_bps = report[HD_COUNTS_OUT].steady_bps,
		.out_elastic_bps = report[HD_COUNTS_OUT].elastic_bps,
		.out_flows = report[HD_COUNTS_OUT].flows,
		.in_ours = report[HD_COUNTS_IN].ours,
		.in_others = report[HD_COUNTS_IN].others,
		.in_busy_ns = report[HD_COUNTS_IN].busy_ns,
		.in_busy_ours = report[HD_COUNTS_IN].busy_ours,
		.in_busy_others = report[HD_COUNTS_IN].busy_others,
		.in_steady_bps = report[HD_COUNTS_IN].steady_bps,
		.in_elastic_bps = report[HD_COUNTS_IN].elastic_bps,
		.in_flows = report[HD_COUNTS_IN].flows,
	};
	if (hd_session_send_once(m->session, &message, now, sink) == 0)
		m->stats.loads++;
}

/* --- the core --- */

static void monitor_receive(
	void *core,
	hd_ns now,
	const struct hd_packet *packets,
	size_t count,
	struct hd_sink *sink
) {
	struct hd_monitor *m = core;

	for (size_t i = 0; i < count; i++)
		hd_endpoint_receive(m->endpoint, now, &packets[i], sink);
}

static void monitor_tick(void *core, hd_ns now, struct hd_sink *sink) {
	struct hd_monitor *m = core;

	if (now >= m->connect_at)
		m->connect_at
			= hd_endpoint_connect(m->endpoint, m->config.controller, now, &m->session)
				== 0 ?
			HD_NEVER :
			back_off(m, now);
	if (now >= m->register_at)
		send_register(m, now, sink);
	if (now >= m->read_at || (m->seen && now >= m->load_at))
		read_counts(m, now);
	if (m->seen && now >= m->load_at) {
		m->load_at = now + m->config.interval_us * HD_US;
		if (m->last_read > m->interval_began)
			send_load(m, now, sink);
	}
	hd_endpoint_tick(m->endpoint, now, sink);
}

static hd_ns monitor_deadline(const void *core) {
	const struct hd_monitor *m = core;
	hd_ns at = hd_ns_min(m->read_at, hd_endpoint_deadline(m->endpoint));

	at = hd_ns_min(at, hd_ns_min(m->connect_at, m->register_at));
	return m->seen ? hd_ns_min(at, m->load_at) : at;
}

const struct hd_core_ops hd_monitor_ops = {
	.receive = monitor_receive,
	.tick = monitor_tick,
	.deadline = monitor_deadline,
};
