"""Sealing of addresses and secrets before they are stored, with Fernet (AES-CBC and HMAC).

The keys come from the setting ``secret_key`` (several, comma separated: the first seals, all
open), or else from a key file that is made on first use and that only its owner can read. Who has
a backup of the database has nothing without the key.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from core.errors import ConfigError
from core.settings import Settings

_ENV = "SPOTFLOOR_SECRET_KEY"


class Sealer:
    """Seals and opens texts.

    Args:
        keys: Fernet keys, comma separated, or nothing.
        path: the key file, used without ``keys``; made by the first ``seal``.
    """

    def __init__(self, keys: str, path: Path) -> None:
        self._keys = keys
        self._path = path
        self._box: MultiFernet | None = None

    def __repr__(self) -> str:
        return f"Sealer(keys={'given' if self._keys else 'none'}, path={str(self._path)!r})"

    def seal(self, text: str) -> str:
        """Seal a text; an empty one stays empty.

        Raises:
            ConfigError: the key is malformed, or its file can be neither read nor made.
        """
        if not text:
            return ""
        return self._open(make=True).encrypt(text.encode()).decode("ascii")

    def unseal(self, sealed: str, what: str) -> str:
        """Open a sealed text; an empty one stays empty.

        Args:
            what: what it belongs to, for the message, e.g. ``endpoint ops``.

        Raises:
            ConfigError: there is no key, or it is another than the one that sealed.
        """
        if not sealed:
            return ""
        try:
            return self._open(make=False).decrypt(sealed.encode()).decode()
        except InvalidToken:
            raise ConfigError(
                f"{what}: was sealed with another key; put the old key into {_ENV} (after the"
                f" new one and a comma), or back into {self._path}"
            ) from None

    def _open(self, *, make: bool) -> MultiFernet:
        if self._box is None:
            text, source = self._read(make=make)
            self._box = _box(text, source)
        return self._box

    def _read(self, *, make: bool) -> tuple[str, str]:
        if self._keys:
            return self._keys, _ENV
        if make and not self._path.exists():
            self._make()
        try:
            return self._path.read_text("ascii"), str(self._path)
        except FileNotFoundError:
            raise ConfigError(
                f"the key that sealed addresses and secrets is missing: put {self._path} back"
                f" from a backup, or set {_ENV}"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"key file {self._path}: cannot read: {error}; set {_ENV} instead"
            ) from None

    def _make(self) -> None:
        """Write a new key so that of several processes all end with the same, whole file."""
        part = self._path.with_name(f".{self._path.name}.{secrets.token_hex(6)}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(Fernet.generate_key() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another process was first: its key is ours too
                os.link(part, self._path)
        except OSError as error:
            raise ConfigError(
                f"key file {self._path}: cannot make it: {error.strerror};"
                f" set SPOTFLOOR_SECRET_KEY_PATH to a file that you may write, or {_ENV}"
            ) from None
        finally:
            with suppress(OSError):  # it may never have been there
                part.unlink()


def _box(text: str, source: str) -> MultiFernet:
    keys = [key.strip() for key in text.split(",") if key.strip()]
    try:
        if not keys:
            raise ValueError
        return MultiFernet([Fernet(key) for key in keys])
    except ValueError:
        raise ConfigError(
            f"{source}: holds no Fernet key (44 characters of url-safe base64); make one with"
            ' python -c "from cryptography.fernet import Fernet;'
            ' print(Fernet.generate_key().decode())"'
        ) from None


def sealer_of(settings: Settings) -> Sealer:
    """Return the sealer that the settings ask for; nothing is read yet."""
    given = settings.secret_key.get_secret_value() if settings.secret_key else ""
    return Sealer(given, settings.secret_key_path)
