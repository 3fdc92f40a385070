"""Many processes: what a cluster is, its master and worker services, sessions that run at an address."""
