/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The switch on the path for DPDK's SWX pipeline (PNA).
 *
 * The pipeline has no replication and knows no lengths: the C code around it replicates, and supplies the lengths. It
 * puts hd_port_t before each frame, and at least as many zeros behind it as the parser may read (226 bytes from
 * Ethernet's header on). Each frame comes out of port 0, with the verdict in hd_port_t.
 */
#include <core.p4>
#include <dpdk/pna.p4>

#define HD_TARGET_PNA 1
#define HD_REGISTER(type, cells, name) Register<type, bit<32>>(cells, 0) name;
#define HD_READ(name, into, cell) into = name.read((bit<32>)cell);
#define HD_WRITE(name, cell, value) name.write((bit<32>)cell, value);
/* In bytes, as p4c allows adding more than 1 only to such counters. */
#define HD_COUNTER_ARRAY(cells, name) Counter<bit<64>, bit<32>>(cells, PNA_CounterType_t.BYTES) name;
#define HD_COUNT(name, cell) name.count((bit<32>)cell, 1);
#define HD_ADD(name, cell, more) name.count((bit<32>)cell, (bit<32>)more);

#include "core/heddle.p4"

parser hd_parser(packet_in packet, out hd_headers_t hdr, inout hd_meta_t meta,
                 in pna_main_parser_input_metadata_t standard) {
	state start {
		packet.extract(hdr.port);
		transition ethernet;
	}
#include "core/parser.p4"
}

control hd_before(in hd_headers_t hdr, inout hd_meta_t meta, in pna_pre_input_metadata_t standard,
                  inout pna_pre_output_metadata_t out_standard) {
	apply {
	}
}

control hd_main(inout hd_headers_t hdr, inout hd_meta_t meta, in pna_main_input_metadata_t standard,
                inout pna_main_output_metadata_t out_standard) {
	hd_pipeline() pipeline;

	apply {
		meta.port = hdr.port.port;
		meta.bytes = hdr.port.bytes;
		meta.lease = 0;
		pipeline.apply(hdr, meta);
		if (meta.verdict == HD_VERDICT_COPY) {
			hdr.port.bytes = hdr.ipv4.length + HD_ETHERNET_BYTES;
		}
		hdr.port.port = meta.port;
		hdr.port.verdict = meta.verdict;
		hdr.port.copy = meta.copy;
		hdr.port.lease = meta.lease;
		send_to_port((PortId_t)0);
	}
}

control hd_deparser(packet_out packet, in hd_headers_t hdr, in hd_meta_t meta,
                    in pna_main_output_metadata_t out_standard) {
	apply {
		packet.emit(hdr.port);
		packet.emit(hdr.ethernet);
		packet.emit(hdr.ipv4);
		packet.emit(hdr.udp);
		packet.emit(hdr.prefix);
		packet.emit(hdr.chunk);
		packet.emit(hdr.lanes);
	}
}

PNA_NIC(hd_parser(), hd_before(), hd_main(), hd_deparser()) main;
