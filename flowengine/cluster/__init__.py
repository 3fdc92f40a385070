"""Clusters of many processes: their description, master and worker services, and remote sessions."""
