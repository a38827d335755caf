"""What the NVIDIA driver tells of its GPUs, through NVML."""
