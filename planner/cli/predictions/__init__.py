"""`gpu-planner predictions`: what was predicted, and what was seen of it."""
