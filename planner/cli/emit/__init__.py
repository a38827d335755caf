"""Jobs for other machines, as files of the tools that run them: what measures GPUs there, and what a plan says to run."""
