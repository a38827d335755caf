"""GPUs as the NVIDIA driver reports them, through NVML."""
