"""Names that differ between two graphs: scopes and nodes of one under the names of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flowengine.core.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class NameMap:
    """The names of one side on the other.

    rules   (name or scope of one side, the same on the other), ...: the first that fits counts. "" is the
            scope of everything
    """

    rules: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, texts: Sequence[str]) -> NameMap:
        """Read "OLD=NEW" texts.

        Raises InvalidArgumentError for a text of another form.

        >>> from flowengine.tools.compare import NameMap
        >>> names = NameMap.parse(["tower=model/tower_0", "logits=out"])
        >>> names("tower/conv:0"), names("logits:0"), names("other:0")
        ('model/tower_0/conv:0', 'out:0', 'other:0')
        >>> NameMap.parse(["=model"])("conv:0"), NameMap.parse(["model="])("model/conv:0")
        ('model/conv:0', 'conv:0')
        """
        rules = []
        for text in texts:
            old, equals, new = text.partition("=")
            if not equals or "=" in new or not (old or new):
                raise InvalidArgumentError(
                    f"{text!r}: write OLD=NEW, such as tower=model/tower_0, or =model for everything"
                )
            rules.append((old.rstrip("/"), new.rstrip("/")))
        return cls(tuple(rules))

    def __call__(self, name: str) -> str:
        """Return the other side's name of a tensor or node of one side."""
        node, colon, slot = name.partition(":")
        for old, new in self.rules:
            if node == old and new:
                return f"{new}{colon}{slot}"
            if not old or node.startswith(f"{old}/"):
                rest = node if not old else node[len(old) + 1 :]
                return f"{new}/{rest}{colon}{slot}" if new else f"{rest}{colon}{slot}"
        return name

    def iteration(self, text: str) -> str:
        """Return the other side's name of an iteration: frames have names, too."""
        if not text or not self.rules:
            return text
        parts = (part.rpartition("=") for part in text.split(", "))
        return ", ".join(
            f"{self(frame) if frame != 'call' else frame}={number}" for frame, _, number in parts
        )


__all__ = ["NameMap"]
