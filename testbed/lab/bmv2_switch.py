# SPDX-License-Identifier: BSD-3-Clause
"""bmv2 as one of Mininet's switches, in a network namespace of its own: its thrift port is on its loopback there."""
from mininet.node import Switch

from . import bmv2


class Bmv2Switch(Switch):
    """Forwards between the hosts whose interfaces are linked to it; leases are programmed through `bmv2`."""

    def __init__(self, name, service="0.0.0.0", mac="02:00:00:00:00:fe", log=None, **parameters):
        parameters["inNamespace"] = True
        super().__init__(name, **parameters)
        self.service = service
        self.mac = mac
        self.log = log
        self.bmv2 = None

    def ports_used(self):
        """{number: interface}, as Mininet numbers them."""
        return {number: str(interface) for number, interface in self.intfs.items() if str(interface) != "lo"}

    def neighbours(self):
        """{MAC: port} of the hosts at the other ends."""
        found = {}
        for number, interface in self.intfs.items():
            if interface.link is None:
                continue
            other = interface.link.intf2 if interface.link.intf1 is interface else interface.link.intf1
            if not isinstance(other.node, Switch):
                found[other.MAC()] = number
        return found

    def start(self, controllers):
        self.cmd("ip link set lo up")
        for interface in self.intfs.values():
            if interface.link is None:
                continue
            # A host's kernel leaves checksums and segmentation to its card, but a veth does neither: bmv2 would get
            # superframes without checksums.
            for end in (interface.link.intf1, interface.link.intf2):
                end.node.cmd(f"ip link set {end} up")
                end.node.cmd(f"ethtool -K {end} tx off tso off gso off gro off tx-udp-segmentation off")
        self.bmv2 = bmv2.Bmv2(self.ports_used(), enter=["mnexec", "-a", str(self.pid)], log=self.log)
        self.bmv2.identify(self.service, self.mac)
        for mac, number in self.neighbours().items():
            self.bmv2.set_mac(mac, number)

    def stop(self, deleteIntfs=True):
        if self.bmv2 is not None:
            self.bmv2.end()
            self.bmv2 = None
        super().stop(deleteIntfs)
