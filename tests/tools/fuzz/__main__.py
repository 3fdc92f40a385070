"""`python -m tests.tools.fuzz`: play damaged inputs and write down what is not as it should be."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from functools import partial
from pathlib import Path

from tests.tools.fuzz.campaign import CampaignTally, finding_of, run
from tests.tools.fuzz.kinds import KINDS
from tests.tools.fuzz.minimise import minimised

_SHOWN = 20


def _show(tally: CampaignTally) -> None:
    outcomes = ", ".join(f"{count} {name}" for name, count in tally.outcomes.most_common())
    print(f"up to seed {tally.at}: {outcomes}; {len(tally.findings)} findings", flush=True)


def _show_groups(tally: CampaignTally) -> None:
    """How often each op was played, how often its arguments were accepted, and which ops have too little."""
    if not tally.groups:
        return
    played, accepted = (min(row[place] for row in tally.groups.values()) for place in range(2))
    print(f"{len(tally.groups)} ops, each played at least {played} times, {accepted} times past its checks")
    if seldom := tally.seldom():
        more = f" and {len(seldom) - _SHOWN} more" if len(seldom) > _SHOWN else ""
        print(
            f"{len(seldom)} ops below {tally.PLAYED} plays or {tally.ACCEPTED} past their checks "
            f"(played/accepted): {', '.join(seldom[:_SHOWN])}{more}"
        )


def _is_same(kind: str, wanted: str, folder: Path, data: bytes) -> bool:
    return finding_of(kind, data, folder) == wanted


def _make_smaller(folder: Path, tally: CampaignTally) -> None:
    """One of each sort of finding, in `small/`."""
    target = folder / "small"
    target.mkdir(exist_ok=True)
    seen: Counter[str] = Counter()
    for row in tally.findings:
        seen[row["finding"]] += 1
        name = f"{row['kind']}-{row['seed']}.bin"
        if seen[row["finding"]] > 1 or (target / name).exists():
            continue
        data = (folder / name).read_bytes()
        wanted = row["finding"]
        small = minimised(row["kind"], data, partial(_is_same, row["kind"], wanted, folder))
        (target / name).write_bytes(small)
        print(f"{name}: {wanted}: {len(data)} bytes, made smaller {len(small)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.fuzz", description=__doc__)
    parser.add_argument("--kind", choices=[*KINDS, "all"], default="all")
    parser.add_argument(
        "--seeds", default="0:1000", help="from:to; the same command goes on where it stopped"
    )
    parser.add_argument("--folder", type=Path, default=Path(".fuzz"))
    parser.add_argument("--bases", type=Path, help="a folder of good inputs, in place of the kind's own")
    given = parser.parse_args()
    first, last = map(int, given.seeds.split(":"))
    found = 0
    for kind in KINDS if given.kind == "all" else [given.kind]:
        print(f"== {kind}", flush=True)
        tally = run(kind, first, last, given.folder, bases=given.bases, progress=_show)
        _show(tally)
        for name, count in Counter(row["finding"] for row in tally.findings).most_common(_SHOWN):
            print(f"  {count} times: {name}")
        _show_groups(tally)
        _make_smaller(given.folder, tally)
        found += len(tally.findings)
        # In a campaign that is long enough it is a fault of its inputs.
        found += len(tally.seldom()) if tally.is_full else 0
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
