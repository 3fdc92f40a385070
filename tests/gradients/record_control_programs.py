"""Ask TensorFlow 1.15 for what the programs of `control_programs` compute, and write `control_programs.json`.

    python -m tests.gradients.record_control_programs PYTHON_WITH_TENSORFLOW

Programs are drawn from seed 0 on. The first 300 that have a gradient and that TensorFlow
builds with their scopes are kept. It aborts on some of them, and cannot build others; those are left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

_PROGRAM: Final = Path(__file__).with_name("tensorflow_programs.py")
_RECORDED: Final = Path(__file__).with_name("control_programs.json")
#: How many programs are kept, and how many a process of TensorFlow plays: it is slow to start.
_KEPT: Final = 300
_AT_ONCE: Final = 8


def kept(found: dict[str, Any]) -> dict[str, Any]:
    """Return the answers that are worth keeping, as short as their use allows."""
    return {
        seed: {key: shortened(value) for key, value in each.items()}
        for seed, each in found.items()
        if isinstance(each, dict) and any(g is not None for g in each["gradients"])
    }


def shortened(value: Any) -> Any:
    """Return numbers in structures of lists with ten digits."""
    if isinstance(value, list):
        return [shortened(each) for each in value]
    return None if value is None else float(f"{value:.10g}")


def main(python: str) -> None:
    """Play programs until enough are kept, then write them."""
    found: dict[str, Any] = {}
    first = 0
    with tempfile.TemporaryDirectory() as folder:
        answers = Path(folder) / "answers.json"
        while len(found) < _KEPT:
            seeds = map(str, range(first, first + _AT_ONCE))
            first += _AT_ONCE
            if not subprocess.run([python, str(_PROGRAM), str(answers), *seeds], check=False).returncode:
                found.update(kept(json.loads(answers.read_text(encoding="utf-8"))))
    lines = [f'"{seed}": {json.dumps(found[seed])}' for seed in sorted(found, key=int)[:_KEPT]]
    _RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
