"""The master service of a task: sessions of clients, their plans, and steps over all tasks."""
