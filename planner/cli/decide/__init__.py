"""Commands that decide: what given GPUs run, which steps lead to a choice, and how several workloads share a stock."""
