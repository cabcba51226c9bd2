/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads devargs, and adds keys that a node needs. */
#include "hd_dpdk_port.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define RING_BYTES (8u << 20) /* of frames, in each direction */
#define RING_FRAMES_MIN 1024u /* small packets use whole frames too */
#define BLOCK_BYTES 65536
#define FRAME_BYTES_MAX 32768u
#define PACKET_HEADER_BYTES 128 /* of a frame in the ring: tpacket2_hdr, address and alignment */
#define XDP_MTU_MAX 3400 /* a frame, an mbuf and the headroom of XDP share a page */
#define XDP_BUFFER_BYTES (3712 + RTE_PKTMBUF_HEADROOM)
#define XDP_BUFFERS                                                                                \
	12288 /* fill, receive, transmit and completion rings of 2,048, and packets held */
#define XDP_RING_FRAMES 2048
#define OTHER_BUFFERS 8192
#define OTHER_RING_FRAMES 1024

/* The value of a key, or NULL; *bytes is its length. */
static const char *find(const char *devargs, const char *key, size_t *bytes) {
	size_t key_bytes = strlen(key);

	for (const char *at = strchr(devargs, ','); at; at = strchr(at + 1, ',')) {
		if (strncmp(at + 1, key, key_bytes) != 0 || at[1 + key_bytes] != '=')
			continue;
		*bytes = strcspn(at + 2 + key_bytes, ",");
		return at + 2 + key_bytes;
	}
	return NULL;
}

static uint32_t number(const char *devargs, const char *key, uint32_t otherwise) {
	size_t bytes;
	const char *value = find(devargs, key, &bytes);
	unsigned long n = value ? strtoul(value, NULL, 10) : 0;

	return n > 0 && n < UINT32_MAX ? (uint32_t)n : otherwise;
}

int dpdk_complete_devargs(struct dpdk_port *port, const char *key, const char *text) {
	size_t used = strlen(port->devargs), bytes;
	int n;

	if (find(port->devargs, key, &bytes))
		return 0;
	n = snprintf(port->devargs + used, sizeof port->devargs - used, ",%s=%s", key, text);
	return n < (int)(sizeof port->devargs - used) ? 0 : -E2BIG;
}

bool dpdk_has_devarg(const struct dpdk_port *port, const char *key) {
	size_t bytes;

	return find(port->devargs, key, &bytes);
}

static int complete_number(struct dpdk_port *port, const char *key, uint32_t value) {
	char text[16];

	(void)snprintf(text, sizeof text, "%u", value);
	return dpdk_complete_devargs(port, key, text);
}

/* The MTU of the interface behind a virtual port. */
static int read_mtu(struct dpdk_port *port, char *error, size_t error_bytes) {
	struct ifreq request = {0};
	size_t bytes;
	const char *name = find(port->devargs, "iface", &bytes);
	int fd, code = 0;

	if (!name || bytes == 0 || bytes >= sizeof request.ifr_name) {
		(void)snprintf(error, error_bytes, "port: '%s': no iface=NAME", port->devargs);
		return -EINVAL;
	}
	memcpy(request.ifr_name, name, bytes);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCGIFMTU, &request) < 0) {
		code = -errno;
		(void
		)snprintf(error, error_bytes, "port: %s: %s", request.ifr_name, strerror(errno));
	}
	if (fd >= 0)
		close(fd);
	if (code == 0) {
		port->mtu = (uint32_t)request.ifr_mtu;
		port->interface = (int)if_nametoindex(request.ifr_name);
	}
	return code;
}

/* The PMD packs frames without gaps, so the block size must be a multiple of theirs. */
static int set_packet_ring(struct dpdk_port *port) {
	uint32_t frame = 2048, count;
	int code;

	while (frame < port->mtu + PACKET_HEADER_BYTES && frame < FRAME_BYTES_MAX)
		frame *= 2;
	frame = number(port->devargs, "framesz", frame);
	if (frame > FRAME_BYTES_MAX)
		return -E2BIG;
	count = number(port->devargs, "framecnt", RTE_MAX(RING_BYTES / frame, RING_FRAMES_MIN));
	code = complete_number(port, "framesz", frame);
	if (code == 0)
		code = complete_number(port, "framecnt", count);
	if (code == 0)
		code = complete_number(port, "blocksz", frame > BLOCK_BYTES ? frame : BLOCK_BYTES);
	/* Without it frames would bypass the interface's queue: no shaping, no fairness. */
	if (code == 0)
		code = dpdk_complete_devargs(port, "qdisc_bypass", "0");
	port->ring_frames = count;
	port->buffer_bytes = (uint16_t)(frame + RTE_PKTMBUF_HEADROOM);
	port->buffers
		= 2048; /* frames are copied out of the ring and into it: few are in use at once */
	return code;
}

static int set_xdp_ring(struct dpdk_port *port, char *error, size_t error_bytes) {
	if (port->mtu > XDP_MTU_MAX) {
		(void)snprintf(
			error,
			error_bytes,
			"port: the interface's MTU is %u (at most %u with af_xdp)",
			port->mtu,
			XDP_MTU_MAX
		);
		return -EINVAL;
	}
	port->ring_frames = XDP_RING_FRAMES;
	port->buffers = XDP_BUFFERS * number(port->devargs, "queue_count", 1);
	port->buffer_bytes = RTE_MBUF_DEFAULT_BUF_SIZE;
	if (port->mtu > 1500)
		port->buffer_bytes = XDP_BUFFER_BYTES;
	/* Busy polling delays or suppresses the socket's own wake-ups (veth has none to poll). */
	return dpdk_complete_devargs(port, "busy_budget", "0");
}

static bool begins(const char *text, const char *with) {
	return strncmp(text, with, strlen(with)) == 0;
}

bool dpdk_is_virtual(const struct dpdk_port *port) {
	return begins(port->devargs, "net_") || begins(port->devargs, "eth_");
}

int dpdk_read_devargs(
	const char *devargs,
	struct dpdk_port *port,
	char *error,
	size_t error_bytes
) {
	int code;

	if (!devargs || !*devargs) {
		(void)snprintf(error, error_bytes, "port: missing");
		return -EINVAL;
	}
	if (strlen(devargs) >= sizeof port->devargs - 128) {
		(void)snprintf(error, error_bytes, "port: too long");
		return -E2BIG;
	}
	(void)snprintf(port->devargs, sizeof port->devargs, "%s", devargs);
	port->mtu = 1500;
	port->ring_frames = OTHER_RING_FRAMES;
	port->buffers = OTHER_BUFFERS;
	port->buffer_bytes = RTE_MBUF_DEFAULT_BUF_SIZE;
	if (begins(devargs, "net_af_packet") || begins(devargs, "eth_af_packet"))
		port->kind = DPDK_AF_PACKET;
	else if (begins(devargs, "net_af_xdp"))
		port->kind = DPDK_AF_XDP;
	if (port->kind == DPDK_OTHER)
		return 0;
	code = read_mtu(port, error, error_bytes);
	if (code < 0)
		return code;
	code = port->kind == DPDK_AF_PACKET ? set_packet_ring(port) :
					      set_xdp_ring(port, error, error_bytes);
	if (code == -E2BIG)
		(void)snprintf(error, error_bytes, "port: too long, or framesz above 32768");
	return code;
}
