"""Seconds of generating text: prompt passes, decoding steps, and the requests made of them."""
