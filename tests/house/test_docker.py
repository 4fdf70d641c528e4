"""The Dockerfile and compose.yaml, checked without a Docker engine."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from core.settings import PREFIX, Settings
from tests.house.checkout import ROOT, SCRIPTS, run_spotfloor, source_files

Service = dict[str, Any]


def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile as (instruction, arguments), continuation lines joined."""
    lines = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", "", text)
    pairs = (line.partition(" ") for line in joined.splitlines() if line.strip())
    return [(name.upper(), rest.strip()) for name, _, rest in pairs]


def last_stage() -> list[tuple[str, str]]:
    found = instructions()
    start = max(index for index, (name, _) in enumerate(found) if name == "FROM")
    return found[start:]


def only(name: str) -> str:
    """Return the arguments of an instruction that stands once in the last stage."""
    found = [rest for instruction, rest in last_stage() if instruction == name]
    assert len(found) == 1, f"{name}: {found}"
    return found[0]


def compose() -> dict[str, Any]:
    loaded = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def services() -> dict[str, Service]:
    found: dict[str, Service] = compose()["services"]
    return found


def ours() -> dict[str, Service]:
    return {name: service for name, service in services().items() if "build" in service}


def health_command() -> list[str]:
    found: list[str] = json.loads(only("HEALTHCHECK").partition("CMD ")[2])
    return found


def spotfloor_commands() -> Iterator[tuple[str, ...]]:
    """Yield every command line that the two files give to ``spotfloor``."""
    yield tuple(json.loads(only("CMD")))
    yield tuple(health_command()[1:])
    for service in ours().values():
        yield tuple(service["command"])
        if "test" in service.get("healthcheck", {}):
            yield tuple(service["healthcheck"]["test"][2:])


def image_environment() -> dict[str, str]:
    found = [rest for name, rest in last_stage() if name == "ENV"]
    return dict(word.split("=", 1) for rest in found for word in shlex.split(rest))


# ---- Dockerfile -----------------------------------------------------------------------------


def test_hadolint_finds_nothing() -> None:
    answer = subprocess.run(
        [SCRIPTS / "hadolint", "Dockerfile"], cwd=ROOT, capture_output=True, text=True
    )
    assert (answer.returncode, answer.stdout) == (0, ""), answer.stderr


def test_both_stages_have_the_same_pinned_base() -> None:
    bases = [rest.split()[0] for name, rest in instructions() if name == "FROM"]
    assert bases == ["python:3.11-slim-bookworm"] * 2


def test_dependencies_are_installed_by_hash_and_nothing_beside_them() -> None:
    installs = [rest for name, rest in instructions() if name == "RUN" and "pip install" in rest]
    assert len(installs) == 2
    assert "--require-hashes -r requirements.lock" in installs[0]
    assert "--no-deps ." in installs[1]


def test_the_image_runs_as_an_unprivileged_numeric_user() -> None:
    assert only("USER") == "10001:10001"
    names = [name for name, _ in last_stage()]
    assert "RUN" not in names[names.index("USER") :]


def test_data_goes_to_the_volume_that_the_user_owns() -> None:
    assert only("VOLUME") == "/data"
    assert image_environment()["SPOTFLOOR_DATABASE_URL"] == "sqlite:////data/spotfloor.db"
    assert "-o app -g app" in only("RUN")
    assert "/data" in only("RUN").partition("install -d")[2]


def test_the_image_starts_everything_and_listens_outside_the_container() -> None:
    assert json.loads(only("ENTRYPOINT")) == ["spotfloor"]
    assert json.loads(only("CMD")) == ["up", "--host", "0.0.0.0"]


def test_the_health_check_asks_the_port_that_is_exposed() -> None:
    page, api = only("EXPOSE").split()
    assert (page, api) == ("8501", "8502")
    assert health_command() == [
        "spotfloor", "doctor", "--ping", f"http://127.0.0.1:{page}/_stcore/health",
    ]  # fmt: skip
    assert services()["api"]["healthcheck"]["test"] == [
        "CMD", "spotfloor", "doctor", "--ping", f"http://127.0.0.1:{api}/healthz",
    ]  # fmt: skip


def test_nothing_that_the_build_needs_is_kept_out_of_its_context() -> None:
    """Docker's rules, for the plain patterns used here: the last match wins; ** is any depth."""
    rules = [
        line
        for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    assert not any(rule.startswith("!") for rule in rules)

    def ignored(name: Path) -> bool:
        for rule in rules:
            depth_free = rule.startswith("**/")
            pattern = rule.removeprefix("**/")
            for level in (name, *name.parents[:-1]):
                candidates = level.name if depth_free and "/" not in pattern else str(level)
                shaped = re.escape(pattern).replace(r"\*", "[^/]*")
                prefix = "(.*/)?" if depth_free else ""
                if re.fullmatch(prefix + shaped, candidates):
                    return True
        return False

    packages = compose_context_packages()
    needed = [name for name in source_files() if name.parts[0] in packages]
    needed += [Path(name) for name in ("pyproject.toml", "requirements.lock", "README.md")]
    needed += [Path("LICENSE"), Path("NOTICE"), Path("dashboard/.streamlit/config.toml")]
    assert [str(name) for name in needed if ignored(name)] == []
    for name in (".git/config", ".venv/bin/python", ".env", "tests/shared.py", "core/a/x.pyc"):
        assert ignored(Path(name)), name
    assert ignored(Path("spotfloor.db"))
    assert ignored(Path("dashboard/.streamlit/secrets.toml"))


def compose_context_packages() -> set[str]:
    """Return the packages that go into the image: those of the wheel."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    found = re.search(r"^packages = (\[.*\])$", text, re.MULTILINE)
    assert found is not None
    return set(json.loads(found[1]))


# ---- Commands and settings ------------------------------------------------------------------


@pytest.mark.parametrize("line", sorted(set(spotfloor_commands())), ids=" ".join)
def test_the_command_exists_with_its_options(line: tuple[str, ...], tmp_path: Path) -> None:
    words = [word for word in line if word.startswith("--") or not line_value(line, word)]
    subcommand = [word for word in words if not word.startswith("--")]
    answer = run_spotfloor(*subcommand, "--help", home=tmp_path)
    assert answer.returncode == 0, answer.stderr
    for option in (word for word in words if word.startswith("--")):
        assert re.search(rf"(?<!\S){option}\b", answer.stdout), f"{option} is not in the help"


def line_value(line: tuple[str, ...], word: str) -> bool:
    """Say whether a word is the value of the option before it."""
    index = line.index(word)
    return index > 0 and line[index - 1].startswith("--")


def test_a_command_that_does_not_exist_would_be_noticed(tmp_path: Path) -> None:
    answer = run_spotfloor("no-such-command", "--help", home=tmp_path)
    assert answer.returncode == 2
    assert "no-such-command" in answer.stderr


def test_every_setting_named_for_a_container_exists() -> None:
    named = set(image_environment()) | {
        name for service in ours().values() for name in service["environment"]
    }
    settings = {name for name in named if name.startswith(PREFIX)}
    assert settings
    assert settings <= {f"{PREFIX}{field.upper()}" for field in Settings.model_fields}


# ---- compose.yaml ---------------------------------------------------------------------------


def test_the_services_are_the_database_one_migration_the_web_the_api_and_the_worker() -> None:
    assert set(services()) == {"postgres", "migrate", "web", "api", "worker"}
    assert {name: service["command"] for name, service in ours().items()} == {
        "migrate": ["db", "upgrade"],
        "web": ["serve", "--host", "0.0.0.0", "--no-api"],
        "api": ["api", "--host", "0.0.0.0"],
        "worker": ["worker"],
    }
    assert services()["postgres"]["image"].startswith("postgres:16-")


@pytest.mark.parametrize("name", sorted(services()))
def test_a_service_is_hardened(name: str) -> None:
    service = services()[name]
    assert service["read_only"] is True
    assert any(mount.startswith("/tmp:") for mount in service["tmpfs"])
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert "privileged" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["user"] == ("999:999" if name == "postgres" else "10001:10001")


def test_what_runs_waits_for_a_healthy_database_and_a_finished_migration() -> None:
    assert services()["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    for name in ("web", "api", "worker"):
        assert services()[name]["depends_on"] == {
            "postgres": {"condition": "service_healthy"},
            "migrate": {"condition": "service_completed_successfully"},
        }
    assert "pg_isready" in services()["postgres"]["healthcheck"]["test"]
    assert services()["migrate"]["restart"] == "no"


def test_only_web_and_api_are_reachable_and_only_from_this_machine_by_default() -> None:
    published = {name: s["ports"] for name, s in services().items() if "ports" in s}
    assert published == {
        "web": ["${WEB_ADDRESS:-127.0.0.1}:${WEB_PORT:-8501}:8501"],
        "api": ["${API_ADDRESS:-127.0.0.1}:${API_PORT:-8502}:8502"],
    }
    # The image's health check asks port 8501: of all services only the web has it.
    assert "healthcheck" not in services()["web"]
    for name in ("migrate", "worker"):
        assert services()[name]["healthcheck"] == {"disable": True}


def test_the_password_comes_from_the_environment_or_the_start_fails_with_a_reason() -> None:
    text = (ROOT / "compose.yaml").read_text("utf-8")
    uses = re.findall(r"\$\{POSTGRES_PASSWORD([^}]*)\}", text)
    assert uses
    for use in uses:
        assert re.fullmatch(r":\?.{10,}", use), use
    assert services()["postgres"]["environment"]["POSTGRES_PASSWORD"].startswith("${")
    for service in ours().values():
        address = service["environment"]["SPOTFLOOR_DATABASE_URL"]
        assert re.fullmatch(r"postgresql://[a-z]+@postgres:5432/[a-z]+", address)


def test_the_database_files_and_raw_payloads_are_the_only_volumes_and_declared() -> None:
    assert set(compose()["volumes"]) == {"postgres", "payloads"}
    assert services()["postgres"]["volumes"] == ["postgres:/var/lib/postgresql/data"]
    kept = {name: service["volumes"] for name, service in ours().items() if "volumes" in service}
    assert kept == {"worker": ["payloads:/data"]}
    worker = services()["worker"]
    assert worker["environment"]["SPOTFLOOR_ARCHIVE_DIR"].startswith("/data/")
    assert worker["environment"]["TMPDIR"] == "/data", "large lists do not fit into memory"
    assert not any(mount.startswith("/data") for mount in worker["tmpfs"])
