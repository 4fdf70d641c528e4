from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from core.errors import ConfigError
from core.settings import load_settings
from notify.seal import Sealer, sealer_of

OLD, NEW = (Fernet.generate_key().decode() for _ in range(2))
TARGET = "https://hooks.example.com/hush"


def test_what_is_sealed_is_opened_again_and_never_readable(tmp_path: Path) -> None:
    sealer = Sealer(NEW, tmp_path / "secret.key")
    sealed = sealer.seal(TARGET)
    assert "hush" not in sealed
    assert "hooks" not in sealed
    assert sealer.unseal(sealed, "endpoint ops") == TARGET
    assert not list(tmp_path.iterdir()), "a given key needs no file"


def test_nothing_stays_nothing(tmp_path: Path) -> None:
    sealer = Sealer("", tmp_path / "secret.key")
    assert sealer.seal("") == ""
    assert sealer.unseal("", "x") == ""
    assert not list(tmp_path.iterdir())


def test_the_key_file_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "data" / "secret.key"
    sealed = Sealer("", path).seal(TARGET)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]
    assert Sealer("", path).unseal(sealed, "x") == TARGET


def test_of_many_first_users_all_get_the_same_key(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    gate, sealed = threading.Barrier(8), []

    def first() -> None:
        sealer = Sealer("", path)
        gate.wait(30)
        sealed.append(sealer.seal(TARGET))

    threads = [threading.Thread(target=first) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [Sealer("", path).unseal(text, "x") for text in sealed] == [TARGET] * 8


def test_keys_rotate_the_first_seals_and_all_open(tmp_path: Path) -> None:
    path = tmp_path / "k"
    old = Sealer(OLD, path).seal(TARGET)
    both = Sealer(f"{NEW}, {OLD}", path)
    assert both.unseal(old, "x") == TARGET
    assert Sealer(NEW, path).unseal(both.seal(TARGET), "x") == TARGET


def test_a_missing_key_is_not_replaced_when_something_is_to_be_opened(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    sealed = Sealer("", path).seal(TARGET)
    path.unlink()
    with pytest.raises(ConfigError, match=r"missing: put .*secret\.key back .*SECRET_KEY"):
        Sealer("", path).unseal(sealed, "endpoint ops")
    assert not path.exists()


def test_a_wrong_key_names_what_cannot_be_opened_and_the_mend(tmp_path: Path) -> None:
    sealed = Sealer(OLD, tmp_path / "k").seal(TARGET)
    with pytest.raises(ConfigError, match=r"endpoint ops: .*another key; put the old key") as told:
        Sealer(NEW, tmp_path / "k").unseal(sealed, "endpoint ops")
    assert NEW not in str(told.value)


@pytest.mark.parametrize("keys", ["hush", ",", "aHVzaA=="])
def test_a_malformed_key_is_refused_and_not_repeated(keys: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="SPOTFLOOR_SECRET_KEY: holds no Fernet key") as caught:
        Sealer(keys, tmp_path / "k").seal(TARGET)
    assert "hush" not in str(caught.value)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="SPOTFLOOR_SECRET_KEY_PATH"):
        Sealer("", tmp_path / "file" / "secret.key").seal(TARGET)


def test_the_settings_say_which_key_and_nothing_shows_it(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"{NEW},{OLD}\n")
    settings = load_settings({"SPOTFLOOR_SECRET_KEY_FILE": str(tmp_path / "keys")})
    sealer = sealer_of(settings)
    assert sealer.unseal(Sealer(OLD, tmp_path / "k").seal(TARGET), "x") == TARGET
    assert NEW not in repr(sealer)
    assert sealer_of(load_settings({})).seal(TARGET)
    assert load_settings({}).secret_key_path.exists(), "in the data folder of this test"
