"""Put the claims of docs/reproduction/*.json into docs/reproduction.md, between its marks.

`dshapley reproduce all --out docs/reproduction`, then `python tools/reproduction.py`.
"""

import json
import re
from pathlib import Path

from dshapley.formatting import number

DOCS = Path(__file__).parents[1] / "docs"


def table(name: str) -> str:
    """The claims of an experiment as a table, and how long it took."""
    about = json.loads((DOCS / "reproduction" / f"{name}.json").read_text())
    lines = ["| claim | by | 95 % interval | |", "| --- | ---: | ---: | --- |"]
    for claim in about["claims"]:
        ends = [claim[key] for key in ("by", "low", "high") if claim[key] is not None]
        error = (max(ends) - min(ends)) / 4 if ends else 0.0
        by, low, high = (
            "..." if claim[key] is None else number(claim[key], error)[0]
            for key in ("by", "low", "high")
        )
        lines.append(f"| {claim['text']} | {by} | {low} to {high} | {claim['verdict']} |")
    minutes = f"{about['seconds'] / 60:.1f} minutes" if about["seconds"] else ""
    return "\n".join([*lines, "", f"`{about['command']}`: {minutes} on two cores."])


def page(text: str) -> str:
    """The page with every table as the files say."""
    return re.sub(
        r"(<!-- (\w+) -->\n).*?(<!-- end -->)",
        lambda match: f"{match[1]}\n{table(match[2])}\n\n{match[3]}",
        text,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    path = DOCS / "reproduction.md"
    path.write_text(page(path.read_text()))
