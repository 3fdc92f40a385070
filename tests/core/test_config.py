"""Config: what it says of itself."""

from __future__ import annotations

import flowengine as fe


def test_a_config_shows_what_differs_from_the_defaults() -> None:
    assert repr(fe.Config()) == "Config()"
    config = fe.Config(file_access="none", fold_constants=False, device_count={"CPU": 2})
    assert repr(config) == "Config(file_access='none', fold_constants=False, device_count={'CPU': 2})"
