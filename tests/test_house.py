"""The rules of the house: which package may import which, and how fast the front door opens."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import dshapley

SOURCE = Path(dshapley.__file__).parent

ORDER = [
    ["errors", "formatting", "files", "documents", "sealed", "ownership", "identity", "notebooks"],
    ["data"],
    ["metrics"],
    ["learners"],
    ["potentials"],
    ["sampling"],
    ["inference"],
    ["running"],
    ["baselines", "theory"],
    ["api"],
    ["collecting"],
    ["market"],
    ["plots"],
    ["experiments"],
    ["reporting"],
    ["auditing"],
    ["cli"],
    ["__main__"],
]
"""The packages and top-level modules. Each imports only from its own row and the rows above."""

DOORS = {
    "notebooks": {"reporting.notebook"},  # `_repr_html_`: a notebook asks the result itself
    "inference.valuation": {"plots.values"},  # `Valuation.plot`
}
"""Late imports of packages below: what a person asks of a result that is made far above."""

PLACE = {name: row for row, names in enumerate(ORDER) for name in names}


def modules():
    """Each module's dotted name, without `dshapley`, and its file."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imported(path):
    """The modules of dshapley that a file imports anywhere, late ones too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names = [node.module or ""]
            if node.module == "dshapley":
                names = [f"dshapley.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (n.removeprefix("dshapley.") for n in names if n.startswith("dshapley."))


def test_every_package_has_its_place():
    assert {name.split(".")[0] for name in MODULES} - {""} == set(PLACE)


@pytest.mark.parametrize("name", sorted(set(MODULES) - {""}))
def test_a_module_imports_only_from_packages_above(name):
    below = {
        other
        for other in imported(MODULES[name])
        if not other.startswith("__version")
        and PLACE[other.split(".")[0]] > PLACE[name.split(".")[0]]
    }
    assert below == DOORS.get(name, set())


def test_doors_open_late():
    """At the top of a file they would be circles, and load pictures with every result."""
    for name, doors in DOORS.items():
        body = ast.parse(MODULES[name].read_text()).body
        at_the_top = {n.module for n in body if isinstance(n, ast.ImportFrom)}
        assert not at_the_top & {f"dshapley.{door}" for door in doors}


def test_modules_do_not_import_each_other_in_circles():
    """At the top of the file, that is: within a package too."""
    above = {}
    for name, path in MODULES.items():
        tree = ast.parse(path.read_text())
        tree.body = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
        above[name] = set()
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dshapley."):
                home = node.module.removeprefix("dshapley.")
                for alias in node.names:
                    inner = f"{home}.{alias.name}"
                    above[name].add(inner if inner in MODULES else home)
    done, path = set(), []

    def visit(name):
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name not in done:
            path.append(name)
            for other in above[name]:
                visit(other)
            path.pop()
            done.add(name)

    for name in above:
        visit(name)


def test_every_folder_says_what_is_in_it():
    for name, path in MODULES.items():
        if path.name == "__init__.py":
            assert ast.get_docstring(ast.parse(path.read_text())), name


def test_files_of_a_package_are_named_in_its_docstring_or_are_few():
    """So that a stranger need not open them all."""
    for name, path in MODULES.items():
        if path.name != "__init__.py" or name in ("", "learners", "experiments", "market"):
            continue
        said = ast.get_docstring(ast.parse(path.read_text()))
        files = {p.stem for p in path.parent.glob("*.py")} - {"__init__"}
        missing = {stem for stem in files if not re.search(rf"`{stem}`", said)}
        assert not missing or len(files) <= 5, (name, missing)


def test_the_core_imports_no_heavy_library():
    heavy = [
        "pandas",
        "numba",
        "sklearn",
        "scipy",
        "rich",
        "typer",
        "matplotlib",
        "dask",
        "pyarrow",
    ]
    code = f"import sys, dshapley; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_public_names_are_there():
    found = [getattr(dshapley, name) for name in dshapley.__all__]
    assert sum(not isinstance(part, ModuleType) for part in found) <= 28
    assert len(found) <= 41


def test_type_checkers_see_the_public_names():
    stub = ast.parse((SOURCE / "__init__.pyi").read_text())
    listed = next(
        n for n in stub.body if isinstance(n, ast.Assign) and n.targets[0].id == "__all__"
    )
    assert sorted(ast.literal_eval(listed.value)) == dshapley.__all__


def test_dataclasses_take_at_most_three_arguments_by_position():
    """A call with more is read by counting commas. `Precise` takes the fields of a `Setting`."""
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef) or node.name == "Precise":
                continue
            said = [ast.unparse(part) for part in node.decorator_list]
            if not any("dataclass" in part and "kw_only=True" not in part for part in said):
                continue
            if any(
                isinstance(part, ast.FunctionDef) and part.name == "__init__" for part in node.body
            ):
                continue
            fields = [
                part.target.id
                for part in node.body
                if isinstance(part, ast.AnnAssign)
                and not re.search("ClassVar|InitVar|init=False", ast.unparse(part))
            ]
            assert len([*fields, "_"][: [*fields, "_"].index("_")]) <= 3, (name, node.name)
