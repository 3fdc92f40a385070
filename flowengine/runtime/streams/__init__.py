"""Devices that compute beside their host: what goes in and out there, and how it is awaited."""
