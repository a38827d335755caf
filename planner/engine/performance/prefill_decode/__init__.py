"""Seconds of generating text: prompt passes, decoding steps, and the requests that consist of them."""
