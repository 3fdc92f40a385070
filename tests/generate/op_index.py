"""The text of `flowengine/ops/index.py`: which module of the tree defines which ops.

    python -m tests.generate.op_index      # prints it

Read from the text of the modules, so that nothing is imported that the index itself is needed for. The
signature that `define` is called with must therefore stand in the call.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
OPS: Final = ROOT / "flowengine" / "ops"

HEAD: Final = '''\
"""Which module defines which ops. Written by `make generate`, from the tree."""

from __future__ import annotations

from typing import Final

#: {module: names of its ops}
OPS: Final[dict[str, str]] = {
'''


def defined_ops(text: str) -> list[str]:
    """The names of the ops that a module defines, in order of the alphabet."""
    calls = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "define"
    ]
    signatures = [str(ast.literal_eval(call.args[0])) for call in calls]
    return sorted(name for signature in signatures for name in signature.partition("(")[0].split(", "))


def op_modules(ops: Path = OPS) -> dict[str, list[str]]:
    """{module in a folder of `ops/`: names of its ops}, for modules that have any"""
    found = {
        ".".join(path.relative_to(ops).with_suffix("").parts): defined_ops(path.read_text(encoding="utf-8"))
        for path in sorted(ops.glob("*/**/*.py"))
    }
    return {module: names for module, names in found.items() if names}


def source() -> str:
    lines = []
    for module, names in op_modules().items():
        line = f'    "{module}": """'
        for op in names[:-1]:
            if len(line) + len(op) > 109:
                lines.append(line.rstrip())
                line = "        "
            line += op + " "
        if len(line) + len(names[-1]) > 106:
            lines.append(line.rstrip())
            line = "        "
        lines.append(f'{line}{names[-1]}""",')
    return HEAD + "\n".join([*lines, "}", ""])


if __name__ == "__main__":
    sys.stdout.write(source())
