"""An open session with the NVIDIA driver together with the GPUs it counts."""

from __future__ import annotations

from planner.observe.driver.device import NvmlDevice
from planner.observe.driver.nvml import NVML_DETAILS, Nvml


class DriverSession(Nvml):
    """NVML and its GPUs; a context manager. Made by `DriverSession.open()`."""

    ready = NVML_DETAILS["ready"]
    _devices: tuple[NvmlDevice, ...] | None = None

    @property
    def devices(self) -> tuple[NvmlDevice, ...]:
        """Every GPU the driver counts, in PCI order, listed once; one that does not answer is there with its state."""
        if self._devices is None:
            self._devices = tuple(NvmlDevice(self, index) for index in range(self.device_count))
        return self._devices

    def close(self) -> None:
        """Free the GPUs' buffers and end the session; closing twice is harmless."""
        for device in self._devices or ():
            device.close()
        super().close()
