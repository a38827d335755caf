"""Number N of a GPU in 'cuda:N', from the environment CUDA would see.

CUDA numbers GPUs fastest first unless CUDA_DEVICE_ORDER=PCI_BUS_ID, and among equal ones in PCI order, as NVML does. With unequal
GPUs and no such setting the order cannot be known without CUDA, and nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def cuda_ordinals(devices: Sequence[tuple[str, str]], environment: Mapping[str, str]) -> dict[str, int]:
    """UUID -> N of 'cuda:N'; a GPU that is hidden, or whose number is not knowable, is absent.

    `devices` are (UUID, name) in NVML's order. As CUDA does, the list of CUDA_VISIBLE_DEVICES ends at its first invalid entry.
    """
    in_pci_order = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({name for _, name in devices}) <= 1
    uuids = [uuid for uuid, _ in devices]
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return {uuid: number for number, uuid in enumerate(uuids)} if in_pci_order else {}
    ordinals: dict[str, int] = {}
    number = 0
    for entry in (part.strip() for part in visible.split(",")):
        if entry.startswith("MIG-"):
            number += 1  # a slice takes a number, and is no whole GPU
            continue
        if entry.isdigit():
            if int(entry) >= len(uuids):
                break
            uuid = uuids[int(entry)] if in_pci_order else None
        else:
            matches = [candidate for candidate in uuids if entry and candidate.casefold().startswith(entry.casefold())]
            if len(matches) != 1:
                break
            uuid = matches[0]
        if uuid is not None:
            if uuid in ordinals:
                return {}  # CUDA refuses a list that names a GPU twice
            ordinals[uuid] = number
        number += 1
    return ordinals
