"""The text of `flowengine/gradients/index.py`: which module of the tree differentiates which ops.

    python -m tests.generate.gradient_index      # prints it

Read from the text of the modules, so that nothing is imported that the index itself is needed for. The names
that `gradient` is called with must therefore stand in the call.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Final

from tests.generate.kernel_index import table

ROOT: Final = Path(__file__).resolve().parents[2]
GRADIENTS: Final = ROOT / "flowengine" / "gradients"

HEAD: Final = '''\
"""Which module has the gradients of which ops. Written by `make generate`, from the tree."""

from __future__ import annotations

from typing import Final

#: {module: names of the ops}
'''


def differentiated_ops(text: str) -> list[str]:
    """The names of the ops whose gradient functions a module has."""
    return [
        str(ast.literal_eval(argument))
        for function in ast.parse(text).body
        if isinstance(function, ast.FunctionDef)
        for call in function.decorator_list
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "gradient"
        for argument in call.args
    ]


def gradient_modules(gradients: Path = GRADIENTS) -> dict[str, set[str]]:
    """{module in a folder of `gradients/`: names of the ops}, for modules that have any"""
    found: dict[str, set[str]] = {}
    homes: dict[str, str] = {}
    for path in sorted(gradients.glob("*/**/*.py")):
        module = ".".join(path.relative_to(gradients).with_suffix("").parts)
        ops = differentiated_ops(path.read_text(encoding="utf-8"))
        for op in ops:
            other = homes.setdefault(op, module)
            if other != module or ops.count(op) > 1:
                raise SystemExit(f"'{op}' has gradients in gradients.{other} and in gradients.{module}")
        if ops:
            found[module] = set(ops)
    return found


def source() -> str:
    return HEAD + "\n".join([*table("GRADIENTS", gradient_modules()), ""])


if __name__ == "__main__":
    sys.stdout.write(source())
