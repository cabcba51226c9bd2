/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The switch on the path for bmv2 (simple_switch).
 *
 * The target replicates: multicast group 2 * lease + 1 has the lease's members, + 2 its receivers, and HD_FLOOD_GROUP
 * all ports. A node's rid is lease * HD_SWITCH_COPIES_PER_LEASE + copy, and the table `copies` has the destination of
 * each rid. A flooded frame is not sent back to its port.
 */
#include <core.p4>
#include <v1model.p4>

#define HD_REGISTER(type, cells, name) register<type>(cells) name;
#define HD_READ(name, into, cell) name.read(into, (bit<32>)cell);
#define HD_WRITE(name, cell, value) name.write((bit<32>)cell, value);
#define HD_COUNTER_ARRAY(cells, name) counter(cells, CounterType.packets) name;
#define HD_COUNT(name, cell) name.count((bit<32>)cell);

#include "core/heddle.p4"

#define HD_FLOOD_GROUP 1024
#define HD_COPIES_MAX 32768

parser hd_parser(packet_in packet, out hd_headers_t hdr, inout hd_meta_t meta,
                 inout standard_metadata_t standard) {
	state start {
		transition ethernet;
	}
#include "core/parser.p4"
}

control hd_verify(inout hd_headers_t hdr, inout hd_meta_t meta) {
	apply {
	}
}

control hd_ingress(inout hd_headers_t hdr, inout hd_meta_t meta, inout standard_metadata_t standard) {
	hd_pipeline() pipeline;

	apply {
		meta.port = (bit<16>)standard.ingress_port;
		meta.bytes = (bit<16>)standard.packet_length;
		pipeline.apply(hdr, meta);
		if (meta.verdict == HD_VERDICT_FORWARD) {
			standard.egress_spec = (bit<9>)meta.port;
		} else if (meta.verdict == HD_VERDICT_FLOOD) {
			standard.mcast_grp = HD_FLOOD_GROUP;
		} else if (meta.verdict == HD_VERDICT_COPY) {
			if (meta.copy == HD_SWITCH_COPY_MEMBERS) {
				standard.mcast_grp = (meta.lease << 1) + 1;
			} else if (meta.copy == HD_SWITCH_COPY_RECEIVERS) {
				standard.mcast_grp = (meta.lease << 1) + 2;
			} else {
				standard.egress_spec = (bit<9>)meta.member_port;
			}
		} else {
			mark_to_drop(standard);
		}
	}
}

control hd_egress(inout hd_headers_t hdr, inout hd_meta_t meta, inout standard_metadata_t standard) {
	HD_COUNTER_ARRAY(1, copies_sent)
	bit<16> rid;

	action gone() {
		mark_to_drop(standard);
	}

	/* Like hd_switch_address() in C. */
	action address(bit<48> mac, bit<32> ipv4, bit<16> udp_port, bit<64> token) {
		hdr.ethernet.dst = mac;
		hdr.ethernet.src = meta.mac;
		hdr.ipv4.tos = 0;
		hdr.ipv4.id = 0;
		hdr.ipv4.fragment = 0x4000;
		hdr.ipv4.ttl = 64;
		hdr.ipv4.src = meta.service;
		hdr.ipv4.dst = ipv4;
		hdr.udp.src = HD_SWITCH_UDP_PORT;
		hdr.udp.dst = udp_port;
		hdr.udp.checksum = 0;
		hdr.chunk.token = token;
	}

	@name(".copies") table copies {
		key = {
			rid: exact;
		}
		actions = {
			address;
			gone;
		}
		default_action = gone();
		size = HD_COPIES_MAX;
	}

	apply {
		if (meta.verdict == HD_VERDICT_FLOOD) {
			if (standard.egress_port == standard.ingress_port) {
				mark_to_drop(standard);
			}
		} else if (meta.verdict == HD_VERDICT_COPY) {
			rid = standard.egress_rid;
			if (meta.copy < HD_SWITCH_COPY_MEMBERS) {
				rid = (meta.lease << 7) + (bit<16>)meta.copy;
			}
			copies.apply();
			HD_COUNT(copies_sent, 0)
			truncate((bit<32>)hdr.ipv4.length + HD_ETHERNET_BYTES);
		}
	}
}

control hd_checksum(inout hd_headers_t hdr, inout hd_meta_t meta) {
	apply {
		update_checksum(
			meta.verdict == HD_VERDICT_COPY,
			{ hdr.ipv4.version_words, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.fragment,
			  hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
			hdr.ipv4.checksum, HashAlgorithm.csum16);
	}
}

control hd_deparser(packet_out packet, in hd_headers_t hdr) {
	apply {
		packet.emit(hdr.ethernet);
		packet.emit(hdr.ipv4);
		packet.emit(hdr.udp);
		packet.emit(hdr.prefix);
		packet.emit(hdr.chunk);
		packet.emit(hdr.lanes);
	}
}

V1Switch(hd_parser(), hd_verify(), hd_ingress(), hd_egress(), hd_checksum(), hd_deparser()) main;
