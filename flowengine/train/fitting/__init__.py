"""`fe.train.fit`: epochs over data, with validation and a history."""
