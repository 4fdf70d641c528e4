"""Pages that are written from the code are as the code is now."""

from __future__ import annotations

from importlib import metadata

import pytest

from core.settings import PREFIX, Settings
from scripts import write_licences, write_settings
from tests.house.test_repository import locked


def test_the_settings_page_is_current() -> None:
    text = write_settings.PAGE.read_text("utf-8")
    assert text == write_settings.page(), "run: python -m scripts.write_settings"


def test_every_setting_has_a_row_with_a_meaning() -> None:
    rows = [line for line in write_settings.page().splitlines() if line.startswith(f"| `{PREFIX}")]
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    assert [row[0] for row in cells] == [
        f"`{PREFIX}{name.upper()}`" for name in Settings.model_fields
    ]
    assert all(len(row) == 4 and all(row) for row in cells)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("OFFLINE", "| `0` or `1` | `0` |"),
        ("HTTP_TIMEOUT_SECONDS", "| number > 0, ≤ 600 | `30.0` |"),
        ("LOG_FORMAT", "| one of `auto`, `console`, `json` | `auto` |"),
        ("SECRET_KEY", "| secret | – |"),
        ("DATABASE_URL", "| text | SQLite file `spotfloor.db` in the user's data folder |"),
        ("AZURE_REGIONS", "| list | `eastus,eastus2,"),
    ],
)
def test_a_row_tells_kind_limits_and_default(name: str, row: str) -> None:
    assert f"| `{PREFIX}{name}` {row}" in write_settings.page()


def test_no_path_of_the_machine_that_wrote_it_is_on_the_page() -> None:
    settings = Settings.model_validate({})
    for value in (settings.archive_dir, settings.secret_key_path):
        assert str(value) not in write_settings.page()


def test_every_entry_of_the_lock_has_a_licence() -> None:
    text = write_licences.PAGE.read_text("utf-8")
    listed = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    found = {(row[0].removeprefix("| "), row[1]): row[2] for row in listed}
    assert found.keys() == {(one.name, one.version) for one in write_licences.entries()}, (
        "run: python -m scripts.write_licences"
    )
    assert len(write_licences.entries()) == len(locked("requirements.lock"))
    assert all(licence.strip() for licence in found.values())


def test_the_licences_are_those_that_the_installed_packages_state() -> None:
    text = write_licences.PAGE.read_text("utf-8")
    for one in write_licences.entries():
        try:
            installed = metadata.version(one.name)
        except metadata.PackageNotFoundError:
            assert one.where, f"{one.name} is not installed here; run make install"
            continue
        if installed == one.version:
            row = f"| {one.name} | {one.version} | {write_licences.licence_of(one.name)} |"
            assert row in text, "run: python -m scripts.write_licences"


def test_nothing_asks_us_to_publish_under_its_own_licence() -> None:
    """The GPL would; the LGPL and MPL of a library that is used as it is do not."""
    for one in write_licences.entries():
        licence = write_licences.licence_of(one.name)
        assert "AGPL" not in licence
        assert "GPL" not in licence.replace("LGPL", ""), one
