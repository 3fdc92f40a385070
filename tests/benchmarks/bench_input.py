"""Input pipelines beside tf.data with its autotuning: records a second.

    python -m tests.benchmarks.bench_input --tensorflow /path/to/python [--rounds 9] [--cores 1] [CASE...]

Files are made by this script: JPEG photographs, drawn by chance, in a TFRecord file of examples; and records
of 13 numbers and 26 categories, as CSV and as examples. Each case is written here with `fe.data` and there
with `tf.data`, in the way that its guide advises: as many calls and as much ahead as it finds best. The
engines take turns in one run, and are stopped meanwhile: tf.data fills its buffers for seconds after a round.

    images        parse an example, decode, crop, resize to 224 x 224, batches of 32
    csv           batches of 512 lines, parsed as a whole
    csv_map       each line parsed by itself, then batches of 512
    examples      batches of 512 examples, parsed as a whole
    examples_map  each example parsed by itself, then batches of 512

A task of the host ticks every 10 ms beside ours: how late the latest tick was is told. So is the time of
processors that a record takes, which says more than records a second where the machine has other work.

Expected: a JPEG is decoded by the same library in both, so the rest decides: resizing and the calls between.
Records of 39 fields take each engine 2 to 4 us of a core. Here most of that is spent under Python's lock, in
operations of NumPy over whole batches, so 0.5 is what one core can give beside two.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from flowengine.ir.proto import example_pb2
from flowengine.resources.event_files import framed
from tests.benchmarks.engines import Engine

#: {case: (batches of a round, ratio of records a second that is asked for)}
CASES: Final = {
    "images": (24, 1.0),
    "csv": (120, 0.5),
    "csv_map": (24, 0.5),
    "examples": (120, 0.5),
    "examples_map": (24, 0.5),
}
IMAGES: Final = 96
ROWS: Final = 20_000
NUMBERS: Final = 13
CATEGORIES: Final = 26


def drawn_photograph(chance: random.Random) -> bytes:
    """A JPEG of about 500 x 375 pixels and 40 KB, as photographs are."""
    from PIL import Image, ImageDraw

    width, height = chance.randint(420, 560), chance.randint(320, 420)
    noise = np.random.default_rng(chance.getrandbits(32))
    rough = noise.integers(0, 255, (height // 12, width // 12, 3), dtype=np.uint8)
    image = Image.fromarray(rough).resize((width, height), Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(image)
    for _ in range(40):
        left, top = chance.randint(0, width), chance.randint(0, height)
        colour = tuple(chance.randint(0, 255) for _ in range(3))
        box = (left, top, left + chance.randint(4, 90), top + chance.randint(4, 90))
        draw.ellipse(box, fill=colour, outline=tuple(255 - each for each in colour))
    grain = noise.normal(0, 6, (height, width, 3))
    pixels = np.clip(np.asarray(image) + grain, 0, 255).astype(np.uint8)
    out = BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=85)
    return out.getvalue()


def photographs() -> Iterator[bytes]:
    chance = random.Random(7)
    for number in range(IMAGES):
        example = example_pb2.Example()
        features = example.features.feature
        features["image/encoded"].bytes_list.value.append(drawn_photograph(chance))
        features["image/class/label"].int64_list.value.append(number % 1000)
        yield example.SerializeToString(deterministic=True)


def rows() -> Iterator[tuple[list[int], list[str]]]:
    """13 numbers and 26 categories of eight hexadecimal digits."""
    chance = random.Random(8)
    for _ in range(ROWS):
        numbers = [int(chance.expovariate(0.02)) for _ in range(NUMBERS)]
        yield numbers, [f"{chance.getrandbits(32):08x}" for _ in range(CATEGORIES)]


def row_example(numbers: Sequence[int], categories: Sequence[str]) -> bytes:
    example = example_pb2.Example()
    features = example.features.feature
    for place, number in enumerate(numbers):
        features[f"I{place}"].int64_list.value.append(number)
    for place, text in enumerate(categories):
        features[f"C{place}"].bytes_list.value.append(text.encode())
    return bytes(example.SerializeToString(deterministic=True))


def write_records(path: Path, records: Iterator[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines(map(framed, records))


def write_files(folder: Path, cases: Sequence[str]) -> None:
    if "images" in cases:
        write_records(folder / "images.tfrecord", photographs())
    if {"examples", "examples_map"} & set(cases):
        write_records(folder / "rows.tfrecord", (row_example(*each) for each in rows()))
    if {"csv", "csv_map"} & set(cases):
        lines = (",".join((*map(str, numbers), *texts)) + "\n" for numbers, texts in rows())
        (folder / "rows.csv").write_text("".join(lines))


def asked_alone(engine: Engine, **question: Any) -> Any:
    """The answer of an engine that is stopped before and after: it makes nothing ahead in others' time."""
    engine.resume()
    try:
        return engine.ask(**question)
    finally:
        engine.pause()


def compare(case: str, folder: str, engines: Sequence[Engine], rounds: int) -> dict[str, Any]:
    """Of each engine in each round: records a second, and microseconds of processors for a record.

    Beside these the latest ticks of ours.
    """
    batches, asked = CASES[case]
    digests = [asked_alone(engine, what="load", folder=folder, case=case) for engine in engines]
    rates: list[list[float]] = [[] for _ in engines]
    busy: list[list[float]] = [[] for _ in engines]
    late: list[float] = []
    for number in range(rounds + 1):
        for place, engine in enumerate(engines):
            found = asked_alone(engine, what="run", batches=batches)
            if number:  # the first is for warming up
                rates[place].append(found["records"] / found["seconds"])
                busy[place].append(1e6 * found["busy"] / found["records"])
                late += [found["late"]] if "late" in found else []
    for engine in engines:
        asked_alone(engine, what="stop")
    return {"case": case, "asked": asked, "digests": digests, "rates": rates, "busy": busy, "late": late}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help=" ".join(CASES))
    parser.add_argument(
        "--tensorflow", help="a Python that has TensorFlow 2; without it only this engine runs"
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cores", type=int)
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep what was found")
    asked = parser.parse_args()
    cases = asked.cases or list(CASES)
    scripts = [(sys.executable, "input_flowengine.py")]
    if asked.tensorflow:
        scripts.append((asked.tensorflow, "input_tensorflow.py"))
    found = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        write_files(Path(folder), cases)
        engines = [stack.enter_context(Engine(*each, asked.cores)) for each in scripts]
        print(f"{'records a second':<16}" + "".join(f"{each.name[:22]:>24}" for each in engines), end="")
        print(f"{'ratio':>8}{'asked':>8}{'by CPU time':>12}{'latest tick':>16}")
        for case in cases:
            found.append(compare(case, folder, engines, asked.rounds))
            print(line(found[-1]), flush=True)
    if asked.json is not None:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


def line(found: dict[str, Any]) -> str:
    """One row of the table."""
    rates = [median(each) for each in found["rates"]]
    spent = [median(each) for each in found["busy"]]
    text = f"{found['case']:<16}" + "".join(
        f"{rate:>11.0f} {f'({each:.1f} us)':>12}" for rate, each in zip(rates, spent, strict=True)
    )
    if len(rates) > 1:
        each = [here / there for here, there in zip(*found["rates"], strict=True)]
        text += f"{median(each):>8.2f}{found['asked']:>8.2f}{spent[1] / spent[0]:>12.2f}"
        ours, theirs = found["digests"]
        if not np.isclose(ours, theirs, rtol=2e-2):
            text += "   their values differ: " + ", ".join(f"{each:.6g}" for each in found["digests"])
    late = [f"{1e3 * part:.1f}" for part in (median(found["late"]), max(found["late"]))]
    return text + f"{' / '.join(late) + ' ms':>16}"


if __name__ == "__main__":
    main()
