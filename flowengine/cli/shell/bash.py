"""Completion in bash, whose words end at `=` and `:`, and which adds a space after each completed word."""

from __future__ import annotations

from typing import Any, Final

from click.shell_completion import BashComplete, CompletionItem, add_completion_class

#: No space after `image=` and `dense/`, because the word goes on there.
_NO_SPACE: Final = """\
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=/] ]]; then
        compopt -o nospace
    fi

    return 0
"""
#: The line of click's function that `_NO_SPACE` replaces.
_RETURN: Final = "    return 0\n"
#: Characters at which bash ends a word (COMP_WORDBREAKS) and names go on.
_BREAKS: Final = ("=", ":")


class BashCompletion(BashComplete):
    """Click's completion for bash, of words such as `image=cat.png` too."""

    source_template = BashComplete.source_template.replace(_RETURN, _NO_SPACE, 1)

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the incomplete one, and that one, with the parts of bash put together."""
        args, incomplete = super().get_completion_args()
        words: list[str] = []
        for word in [*args, incomplete]:
            goes_on = bool(words) and not words[-1].startswith("-")
            if goes_on and (word.startswith(_BREAKS) or words[-1].endswith(_BREAKS)):
                words[-1] += word
            else:
                words.append(word)
        #: How much of the incomplete word bash keeps by itself.
        self._kept = len(words[-1]) - len(incomplete.lstrip("=:"))
        return words[:-1], words[-1]

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return the line for bash's function, without the part that bash keeps."""
        return f"{item.type},{item.value[self._kept :]}"


def register() -> None:
    """Make this the completion for bash."""
    add_completion_class(BashCompletion)


__all__ = ["BashCompletion", "register"]
