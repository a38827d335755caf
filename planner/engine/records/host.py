"""Rates of a host's memory, which no catalogue states: assumptions, told with every answer that rests on them."""

from __future__ import annotations

HOST_LINK_BYTES_PER_S = 20e9
"""Between GPU and host memory over PCIe 4 x16: 26 GB/s with pinned memory (nvbandwidth), less for pageable copies."""
PCIE_BYTES_PER_S = 32e9
"""PCIe 4 x16 in one direction: where a part's own link is not known."""
PCIE_SHARE = 0.8
"""Share of PCIe's rate in one direction that copies from pinned memory reach: 26 of 32 GB/s (PCIe 4 x16, nvbandwidth)."""
HOST_READ_BYTES_PER_S = 60e9
"""Rate at which a processor reads the weights it multiplies with: two channels of DDR5-5600 (89.6 GB/s by JEDEC) at two thirds; servers with eight
and more channels are several times as fast."""
HOST_RATES = f"read at {HOST_READ_BYTES_PER_S / 1e9:.0f} GB/s, moved to the GPU at {HOST_LINK_BYTES_PER_S / 1e9:.0f} GB/s"
