"""Devices that compute beside their host: their transfers, and the waits for them."""
