"""Names of classes are words of the glossary, or plain: no reader meets a noun that nothing explains."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.sources import module

ROOT: Final = Path(__file__).resolve().parent.parent
ROOMS: Final = (
    *("core", "ir", "graphs", "passes", "runtime", "resources", "devices", "cluster", "session.py"),
    "transport",
)
#: Each trait is defined in a sentence where it stands, and each message between tasks is named as its method.
EXPLAINED_BY_THEMSELVES: Final = frozenset(
    {
        "flowengine/ir/traits.py",
        "flowengine/ir/trait_checks/outward.py",
        "flowengine/cluster/messages.py",
        "flowengine/resources/forests/messages.py",
    }
)

#: Entries of the glossary; everything else has a name in the field.
ENTRIES_MAX: Final = 80

#: Words that mean here what they mean everywhere, and TensorFlow's own.
PLAIN: Final = frozenset(
    [
        # Ways to keep things together.
        *("array", "batch", "cache", "crowd", "data", "file", "hash", "list", "many", "map", "page"),
        *("pool", "record", "room", "row", "set"),
        *("lru", "slot"),
        # Who does something with the noun beside it.
        *("caller", "manager", "owner", "receiver", "scheduler", "sender", "sink", "waiter"),
        *("builder", "finder", "inliner", "partitioner", "writer"),
        # What is said of a noun.
        *("config", "context", "count", "counter", "def", "default", "key", "kind", "limit", "line", "mark"),
        *("metadata", "name", "option", "reason", "setting", "side", "size", "spec"),
        *("statistic", "time", "value"),
        # The record of a step.
        *("clock", "entry", "event", "guard", "offset", "path", "profile", "recorder", "trace", "track"),
        *("bound", "cancellable", "opened", "pending", "only", "read"),
        # What happens to a noun, as a noun.
        "measurement",
        *("allocation", "answer", "arrival", "cancellation", "close", "condition", "dequeue"),
        *("enqueue", "environment", "failure", "gain", "goodbye", "invoke", "membership"),
        *("overflow", "problem", "program", "reading", "reply", "round", "schedule", "search"),
        *("share", "statement", "sum", "take", "visit"),
        # Which one of several.
        *(
            "cluster",
            "dense",
            "even",
            "fifo",
            "held",
            "idle",
            "in",
            "incoming",
            "input",
            "known",
            "missing",
            "standard",
        ),
        *("large", "local", "memory", "mutable", "not", "one", "open", "out", "outgoing", "output"),
        *("outside", "priority", "random", "running", "shuffle", "small", "sparse"),
        *("static", "unwritten", "usual", "within", "zero"),
        # Of decision forests.
        *("split", "tree"),
        # Of computers: protocols, checksums, bytes, locks.
        *(
            "branch",
            "byte",
            "certificate",
            "cpu",
            "crc",
            "cuda",
            "inproc",
            "lock",
            "model",
            "socket",
            "tcp",
            "tls",
        ),
        *("unknown", "unreadable"),
        # What TensorFlow calls the ways in which a dataset is made of another.
        *("ahead", "and", "assert", "by", "cardinality", "choose", "component"),
        *(
            "concatenate",
            "counting",
            "csv",
            "directed",
            "error",
            "fastest",
            "filter",
            "first",
            "flat",
            "generator",
            "global",
            "index",
        ),
        *(
            "ignore",
            "ignoring",
            "interleave",
            "interleaving",
            "last",
            "matching",
            "multi",
            "optimize",
            "padded",
            "parallel",
        ),
        *("prefetch", "range", "rebatch", "reducer", "repeat", "replica", "same", "sampling", "scan", "seed"),
        *("shard", "shot", "shuffled", "signal", "skip", "sleep", "sliding", "to", "unbatch", "unique", "v"),
        *("weighted", "while", "window", "zip"),
        # TensorFlow's own: an attribute, an argument, a definition, element types, encoded variants.
        *(
            "arg",
            "argument",
            "attr",
            "constant",
            "d",
            "func",
            "gradient",
            "norm",
            "padding",
            "place",
            "placeholder",
            "scope",
        ),
        *("symbolic", "variant"),
        # Words of the field and of TensorFlow, which the glossary leaves out.
        *("access", "accumulator", "alias", "area", "authority", "barrier", "card", "collection"),
        *("completion", "connection", "console", "container", "control", "copy", "cost"),
        *("dataset", "device", "dimension", "driver", "edge", "element", "ensemble", "estimator"),
        *("event", "executor", "family", "feature", "fetch", "flow", "folder", "folding"),
        *("forest", "function", "graph", "handle", "handler", "handshake", "heartbeat"),
        *("identity", "initializer", "instantiation", "interrupt", "iteration", "iterator"),
        *("kernel", "lasting", "launch", "lease", "ledger", "library", "link", "listener"),
        *("loop", "master", "member", "message", "module", "mutex"),
        *("number", "op", "operation", "operator", "origin", "outcome", "ownership", "pass"),
        *("payload", "peer", "pipe", "placement", "placer", "planner", "port", "pull"),
        *("quantile", "queue", "rate", "reader", "ready", "receive", "reference", "refusal"),
        *("registry", "remote", "rendezvou", "request", "resource", "root", "runner", "sandbox"),
        *("saver", "scheme", "server", "service", "session", "shape", "signature", "snappy"),
        *("snapshot", "stack", "staging", "state", "stream", "subscript", "summary", "table"),
        *("target", "task", "template", "tensor", "thread", "traffic", "transfer", "unit"),
        *("variable", "view", "watch", "wire", "worker"),
    ]
)


def words(name: str) -> list[str]:
    """The words of a class name, each in the singular: "BatchShares" is of "batch" and "share"."""
    return [singular(word.lower()) for word in re.findall(r"[A-Z][a-z]+|[A-Z]+(?![a-z])", name)]


def singular(word: str) -> str:
    if word in {"alias", "process", "tls", "as"}:
        return word
    for plural, ending in (("ries", "ry"), ("aliases", "alias"), ("ss", "ss"), ("s", "")):
        if word.endswith(plural):
            return word[: -len(plural)] + ending
    return word


def terms() -> set[str]:
    """The words that the glossary explains: its headings, and what stands in italics within an entry."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    headings = re.findall(r"^\*\*(.+?)\.\*\*", text, re.MULTILINE)
    aside = re.findall(r"(?<!\*)\*([a-z ]+)\*(?!\*)", text)
    return {singular(word.lower()) for each in (*headings, *aside) for word in re.findall(r"[A-Za-z]+", each)}


def class_names() -> set[str]:
    found: set[str] = set()
    for room in ROOMS:
        start = ROOT / room if room == "transport" else ROOT / "flowengine" / room
        for path in [start] if start.suffix else sorted(start.rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if name in EXPLAINED_BY_THEMSELVES or "/proto/" in name:
                continue
            found.update(each.name for each in module(name).classes())
    return found


def is_plain(name: str, known: set[str]) -> bool:
    """Whether all its words are known; what ends in -ed may stand before one that is known."""
    if name.endswith("Error"):
        return True
    *before, last = words(name)
    return last in known and all(word in known or word.endswith("ed") for word in before)


def test_every_class_has_an_entry_or_a_name_of_plain_words() -> None:
    known = terms() | PLAIN
    assert {name for name in class_names() if not is_plain(name, known)} == set()


def test_no_word_is_called_plain_that_has_an_entry_or_that_no_class_needs() -> None:
    used = {word for name in class_names() for word in words(name)}
    assert not PLAIN & terms()
    assert used >= PLAIN


def test_the_glossary_has_only_words_that_the_field_lacks() -> None:
    """At most 80 entries: a reader who knows TensorFlow need not learn a language first."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^\*\*.+?\.\*\*", text, re.MULTILINE)) <= ENTRIES_MAX


def test_the_glossary_is_in_order() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    headings = [heading.lower() for heading in re.findall(r"^\*\*(.+?)\.\*\*", text, re.MULTILINE)]
    assert headings == sorted(set(headings))
