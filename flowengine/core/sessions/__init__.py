"""How functions tell the session of a trio program from that of a façade."""
