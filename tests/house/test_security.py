"""Rules that hold for all of the code, and the threat model of docs/security.md as a promise."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.house.checkout import PACKAGES, ROOT

PAGE = ROOT / "docs" / "security.md"
SOURCES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))

CODE_FROM_TEXT = {"eval", "exec", "compile", "__import__"}
CODE_FROM_BYTES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
SHELLS = {"system", "popen", "getoutput", "getstatusoutput", "create_subprocess_shell"}
SQL = {"text", "exec_driver_sql"}
_MONTHS = {"_instant(begin)", "_instant(month)", "_instant(month + 1)"}
OWN_NAMES = {
    "db/stored.py": {"table", "', '.join(columns)", "', '.join([mark] * len(columns))"},
    "db/partitions.py": {
        "PARENT", "EARLY", "partition", "name", "bounds", "source", "month.name", "LOCK_TIMEOUT",
        "_NEWEST.format(name=name)",
    },
    "db/migrations/versions/0005_span_partitions.py": {
        "statement", "query", "_COPY", "name", "tables", "mode", *_MONTHS,
    },
}  # fmt: skip
"""What SQL texts are made of beside constants, by file: names of our own tables and columns,
months as we write them, and constants of the file; values are bound as everywhere."""


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Yield (last name of what is called, the call)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name):
                yield called.id, node
            elif isinstance(called, ast.Attribute):
                yield called.attr, node


def code_risks(tree: ast.AST) -> list[str]:
    """What in this code could run an input."""
    found = []
    for name, call in calls(tree):
        bare = isinstance(call.func, ast.Name)
        if (bare and name in CODE_FROM_TEXT) or name in SHELLS:
            found.append(f"{call.lineno}: {name}()")
        options = {option.arg for option in call.keywords}
        if "shell" in options or (name == "load" and "Loader" in options):
            found.append(f"{call.lineno}: {name}() with {options}")
    nodes = list(ast.walk(tree))
    named = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    named += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    found += [f"import {name}" for name in named if name.split(".")[0] in CODE_FROM_BYTES]
    return found


def sql_risks(tree: ast.AST) -> list[str]:
    """Texts of SQL that are more than one constant."""
    return [
        f"{call.lineno}: {name}({ast.unparse(call.args[0])})"
        for name, call in calls(tree)
        if name in SQL and call.args and not _constant(call.args[0])
    ]


def parts_of_sql(tree: ast.AST) -> set[str]:
    """What the texts of SQL are made of beside constants, as it stands in the code."""
    found = set()
    for name, call in calls(tree):
        if name not in SQL or not call.args or _constant(call.args[0]):
            continue
        text = call.args[0]
        parts = [node.value for node in ast.walk(text) if isinstance(node, ast.FormattedValue)]
        found |= {ast.unparse(part) for part in parts or [text]}
    return found


def _constant(node: ast.expr) -> bool:
    if isinstance(node, ast.IfExp):
        return _constant(node.body) and _constant(node.orelse)
    return isinstance(node, ast.Constant)


def test_no_input_becomes_code() -> None:
    assert len(SOURCES) > 200
    found = {str(path): code_risks(ast.parse(path.read_text("utf-8"))) for path in SOURCES}
    assert {path: risks for path, risks in found.items() if risks} == {}


def test_sql_is_never_put_together_from_text() -> None:
    """Only ``db`` speaks SQL (an import contract says so), by expressions or constant texts."""
    paths = [path for path in SOURCES if path.is_relative_to(ROOT / "db")]
    found = {
        str(path.relative_to(ROOT)): sql_risks(ast.parse(path.read_text("utf-8"))) for path in paths
    }
    risky = {path: risks for path, risks in found.items() if risks}
    assert risky.keys() == OWN_NAMES.keys(), risky
    for path in risky:
        assert parts_of_sql(ast.parse((ROOT / path).read_text("utf-8"))) == OWN_NAMES[path], path


def test_what_is_looked_for_would_be_found() -> None:
    bad = "import pickle\neval(x)\nrun(x, shell=True)\nos.system(x)\nyaml.load(x, Loader=y)"
    assert len(code_risks(ast.parse(bad))) == 5
    for text in ('text(f"SELECT {x}")', 'text("a" + x)', 'c.exec_driver_sql("%s" % x)'):
        assert len(sql_risks(ast.parse(text))) == 1
    assert sql_risks(ast.parse('text("SELECT :x")')) == []


def test_the_dashboard_keeps_its_guards() -> None:
    config = tomllib.loads((ROOT / "dashboard/.streamlit/config.toml").read_text("utf-8"))
    assert config["client"]["showErrorDetails"] == "none"
    assert (
        not {"enableXsrfProtection", "enableCORS", "corsAllowedOrigins"} & config["server"].keys()
    )
    for path in SOURCES:
        code = path.read_text("utf-8")
        assert "unsafe_allow_html" not in code, path
        assert "unsafe_allow_javascript" not in code, path
        assert not re.search(r"enableXsrf|enableCORS", code), path


def test_a_log_line_cannot_be_forged() -> None:
    code = (
        "from core.log import configure; import structlog; configure('info', 'json');"
        "structlog.get_logger().info('source.failed', detail='x\\n{\"event\": \"forged\"}\\x1b[2J')"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    (line,) = ended.stderr.splitlines()
    event = json.loads(line)
    assert (event["event"], event["level"]) == ("source.failed", "info")
    assert event["timestamp"].endswith("Z")
    assert "\x1b" not in line


def test_every_test_that_the_threat_model_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.read_text("utf-8"))
    assert len(named) > 30
    for file, test in named:
        path = Path(ROOT / file)
        assert path.is_file(), file
        assert re.search(rf"^(?:async )?def {test}\(", path.read_text("utf-8"), re.MULTILINE), test


def test_every_threat_has_a_protection_and_a_test() -> None:
    text = PAGE.read_text("utf-8").partition("## What protects")[2]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [line for line in lines if not line.startswith("| threat |")]
    assert len(rows) > 25
    for row in rows:
        threat, protection, tests = (cell.strip() for cell in row.strip("|").split(" | "))
        assert threat
        assert protection
        assert "::test_" in tests, row
