"""Print the lowest versions that pyproject.toml allows, as constraints for pip.

`python tools/lowest.py [EXTRA ...]`: one line `name==version` for each dependency with a lower
bound, also for those of the extras named. `make lowest` installs dshapley with them.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(?:\[(?P<extras>.*?)\])?(?P<bounds>[^;]*)(?P<marker>.*)"
)


def requirements(project: dict[str, Any], extras: list[str]) -> Iterator[re.Match[str]]:
    """The parsed requirements of a project and its extras; an extra may name further ones."""
    optional: dict[str, list[str]] = project.get("optional-dependencies", {})
    if unknown := sorted(set(extras) - set(optional)):
        sys.exit(f"no extra {unknown[0]!r} in pyproject.toml: it has {', '.join(optional)}")
    for text in [*project["dependencies"], *(line for extra in extras for line in optional[extra])]:
        found = REQUIREMENT.match(text)
        assert found is not None, text
        if found["name"] == project["name"]:
            yield from requirements({**project, "dependencies": []}, found["extras"].split(","))
        else:
            yield found


def constraints(project: dict[str, Any], extras: list[str]) -> list[str]:
    """The constraints that pin each requirement with a lower bound to it, each once."""
    pins = (
        f"{found['name']}=={bound[1]}{found['marker']}"
        for found in requirements(project, extras)
        if (bound := re.search(r">=\s*([\w.]+)", found["bounds"]))
    )
    return list(dict.fromkeys(pins))


if __name__ == "__main__":
    print(*constraints(tomllib.loads(PYPROJECT.read_text())["project"], sys.argv[1:]), sep="\n")
