"""`flowengine bench`: latency and throughput of a graph by batch size and concurrency."""
