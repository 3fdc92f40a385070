"""Tests and measurements on a GPU: `python -m tests.gpu --out FOLDER`."""
