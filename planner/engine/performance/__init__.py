"""Time: operators of a pass, steps of training, requests of a service."""
