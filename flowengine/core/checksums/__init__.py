"""Checksums and hashes: CRC-32C as files carry it, and the hashes that graphs ask for."""
