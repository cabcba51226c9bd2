/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Other tenants: endless flows under CUBIC (RFC 9438), packet by packet in the same queues.
 *
 * Lost segments are not retransmitted (an endless source always has more to send), so a flow only needs to know which
 * of its segments are in flight: the window ring of segments [oldest, next).
 */
#include "hd_sim_private.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#define SEGMENT_BYTES 1448
#define FRAME_BYTES 1514
#define ACK_FRAME_BYTES 66
#define WINDOW_MAX 8192 /* segments */
#define CWND_MAX (WINDOW_MAX / 2.0)
#define REORDER_SEGMENTS 3
#define INITIAL_WINDOW 10.0
#define MIN_RTO (200 * HD_MS)
#define CUBIC_C 0.4
#define CUBIC_BETA 0.7

struct sim_flow {
	int index;
	uint32_t from, to;
	bool runs;
	double window, slow_start; /* segments */
	double peak, k; /* CUBIC: window before the cut, time to reach it again */
	double friendly; /* Reno's estimate of the window */
	hd_ns epoch; /* of the current growth; 0: begins with the next acknowledgement */
	hd_ns srtt, rttvar;
	uint64_t next, oldest; /* segments */
	uint32_t flying;
	uint64_t recovery; /* one cut for all losses before this segment */
	hd_ns timeout_at; /* of the valid timeout event */
	hd_ns heard;
	uint32_t backoff;
	uint64_t delivered_bytes;
	uint64_t passed[2][2]; /* bytes of frames at cards: by way, then 1 for acknowledgements */
	uint8_t done[WINDOW_MAX]; /* by segment modulo: acknowledged or lost */
};

int hd_sim_flow(struct hd_sim *sim, int from_host, int to_host) {
	struct sim_flow *flow;

	assert((uint32_t)from_host < sim->host_count && (uint32_t)to_host < sim->host_count);
	if (sim->flow_count == HD_SIM_FLOWS_MAX)
		return -ENOSPC;
	flow = sim_allocate(sim, sizeof *flow);
	if (!flow)
		return -ENOMEM;
	memset(flow, 0, sizeof *flow);
	flow->index = (int)sim->flow_count;
	flow->from = (uint32_t)from_host;
	flow->to = (uint32_t)to_host;
	flow->timeout_at = HD_NEVER;
	sim->flows[sim->flow_count++] = flow;
	return flow->index;
}

uint64_t hd_sim_flow_delivered(const struct hd_sim *sim, int index) {
	return sim->flows[index]->delivered_bytes;
}

void sim_flow_count(
	struct hd_sim *sim,
	const struct sim_packet *packet,
	enum hd_sim_direction direction
) {
	sim->flows[packet->flow]->passed[direction][packet->ack] += packet->frame_bytes;
}

void hd_sim_card_counts(
	const struct hd_sim *sim,
	int host,
	enum hd_sim_direction direction,
	uint64_t *nodes,
	uint64_t *flows,
	uint32_t count
) {
	*nodes = sim->hosts[host].card[direction];
	memset(flows, 0, count * sizeof *flows);
	for (uint32_t i = 0; i < sim->flow_count; i++) {
		const struct sim_flow *flow = sim->flows[i];
		bool sends = flow->from == (uint32_t)host, receives = flow->to == (uint32_t)host;

		if (sends)
			flows[i % count] += flow->passed[direction][direction == HD_SIM_DOWN];
		if (receives)
			flows[i % count] += flow->passed[direction][direction == HD_SIM_UP];
	}
}

static hd_ns timeout(const struct sim_flow *flow) {
	hd_ns rto = flow->srtt ? flow->srtt + 4 * flow->rttvar : HD_SECOND;

	return hd_ns_max(rto, MIN_RTO) << (flow->backoff < 6 ? flow->backoff : 6);
}

static void arm_timeout(struct hd_sim *sim, struct sim_flow *flow) {
	if (flow->timeout_at != HD_NEVER || flow->flying == 0)
		return;
	flow->timeout_at = hd_ns_max(flow->heard + timeout(flow), sim->now + HD_US);
	sim_push(sim, flow->timeout_at, SIM_EVENT_FLOW, flow);
}

/* ack: the return path, with the time at which the segment was sent. */
static void
send_segment(struct hd_sim *sim, struct sim_flow *flow, bool ack, uint64_t number, hd_ns sent) {
	struct sim_packet *packet = sim_packet_get(sim, 0);

	if (!packet)
		return;
	packet->flow = flow->index;
	packet->from_host = ack ? flow->to : flow->from;
	packet->to_host = ack ? flow->from : flow->to;
	packet->bytes = 0;
	/* Every segment is acknowledged, but like delayed acknowledgements only every second one costs bytes. */
	packet->frame_bytes = !ack ? FRAME_BYTES : number % 2 ? ACK_FRAME_BYTES : 0;
	packet->number = number;
	packet->sent = sent;
	packet->ack = ack;
	sim_transmit(sim, packet);
}

static void fill_window(struct hd_sim *sim, struct sim_flow *flow) {
	while (flow->runs && flow->flying < (uint32_t)flow->window
	       && flow->next - flow->oldest < WINDOW_MAX) {
		flow->done[flow->next % WINDOW_MAX] = 0;
		flow->flying++;
		send_segment(sim, flow, false, flow->next++, sim->now);
	}
	arm_timeout(sim, flow);
}

void hd_sim_flow_start(struct hd_sim *sim, int index) {
	struct sim_flow *flow = sim->flows[index];

	flow->runs = true;
	flow->window = INITIAL_WINDOW;
	flow->slow_start = INFINITY;
	flow->peak = 0;
	flow->epoch = 0;
	flow->backoff = 0;
	flow->heard = sim->now;
	fill_window(sim, flow);
}

void hd_sim_flow_stop(struct hd_sim *sim, int index) {
	sim->flows[index]->runs = false;
}

static void measure(struct sim_flow *flow, hd_ns rtt) {
	hd_ns difference = rtt > flow->srtt ? rtt - flow->srtt : flow->srtt - rtt;

	if (flow->srtt == 0) {
		flow->srtt = rtt;
		flow->rttvar = rtt / 2;
		return;
	}
	flow->rttvar = (3 * flow->rttvar + difference) / 4;
	flow->srtt = (7 * flow->srtt + rtt) / 8;
}

/* RFC 9438 sections 4.2 and 4.3, for one acknowledged segment. */
static void grow(struct hd_sim *sim, struct sim_flow *flow) {
	double t, target;

	if (flow->window < flow->slow_start) {
		flow->window += 1;
		return;
	}
	if (flow->epoch == 0) {
		flow->epoch = sim->now;
		flow->friendly = flow->window;
		if (flow->peak < flow->window)
			flow->peak = flow->window;
		flow->k = cbrt((flow->peak - flow->window) / CUBIC_C);
	}
	t = (double)(sim->now - flow->epoch + flow->srtt) * 1e-9 - flow->k;
	target = flow->peak + CUBIC_C * t * t * t;
	if (target > 1.5 * flow->window)
		target = 1.5 * flow->window;
	flow->friendly += 3 * (1 - CUBIC_BETA) / (1 + CUBIC_BETA) / flow->window;
	if (target > flow->window)
		flow->window += (target - flow->window) / flow->window;
	if (flow->friendly > flow->window)
		flow->window = flow->friendly;
	if (flow->window > CWND_MAX)
		flow->window = CWND_MAX;
}

static void cut(struct sim_flow *flow) {
	/* Fast convergence. */
	flow->peak = flow->window < flow->peak ? flow->window * (1 + CUBIC_BETA) / 2 : flow->window;
	flow->window = fmax(flow->window * CUBIC_BETA, 2);
	flow->slow_start = flow->window;
	flow->epoch = 0;
	flow->recovery = flow->next;
}

static void finish_segment(struct sim_flow *flow, uint64_t number) {
	flow->done[number % WINDOW_MAX] = 1;
	flow->flying--;
	while (flow->oldest < flow->next && flow->done[flow->oldest % WINDOW_MAX])
		flow->oldest++;
}

/* Segments at least three before an acknowledged one are lost. */
static void find_losses(struct sim_flow *flow, uint64_t number) {
	while (flow->oldest + REORDER_SEGMENTS <= number) {
		if (flow->oldest >= flow->recovery)
			cut(flow);
		finish_segment(flow, flow->oldest);
	}
}

static void on_ack(struct hd_sim *sim, struct sim_flow *flow, const struct sim_packet *packet) {
	uint64_t number = packet->number;

	if (number < flow->oldest || number >= flow->next || flow->done[number % WINDOW_MAX])
		return;
	flow->heard = sim->now;
	flow->backoff = 0;
	measure(flow, sim->now - packet->sent);
	finish_segment(flow, number);
	if (flow->oldest >= flow->recovery)
		grow(sim, flow);
	find_losses(flow, number);
	fill_window(sim, flow);
}

void sim_flow_deliver(struct hd_sim *sim, const struct sim_packet *packet) {
	struct sim_flow *flow = sim->flows[packet->flow];

	if (packet->ack) {
		on_ack(sim, flow, packet);
		return;
	}
	flow->delivered_bytes += SEGMENT_BYTES;
	send_segment(sim, flow, true, packet->number, packet->sent);
}

void sim_flow_event(struct hd_sim *sim, struct sim_flow *flow) {
	if (flow->timeout_at != sim->now)
		return;
	flow->timeout_at = HD_NEVER;
	if (flow->flying == 0)
		return;
	if (flow->heard + timeout(flow) <= sim->now) {
		/* Gives up all segments in flight. */
		flow->slow_start = fmax(flow->window * CUBIC_BETA, 2);
		flow->window = 1;
		flow->epoch = 0;
		flow->oldest = flow->next;
		flow->recovery = flow->next;
		flow->flying = 0;
		flow->backoff++;
		flow->heard = sim->now;
		fill_window(sim, flow);
	}
	arm_timeout(sim, flow);
}
