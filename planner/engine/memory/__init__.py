"""Bytes on the fullest GPU of each candidate: what uses them, term by term, and what is left of the GPU.

`training` and `inference` list the terms, `stages` computes which part of the model one GPU holds, `activations` what backward
needs; `total` adds the terms up and compares them with the GPU.
"""

from planner.engine.memory.total import MemoryColumns, memory_of, sequences_that_fit, share_beside, terms_of, usable_of

__all__ = ["MemoryColumns", "memory_of", "sequences_that_fit", "share_beside", "terms_of", "usable_of"]
