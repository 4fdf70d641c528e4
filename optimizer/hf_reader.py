"""Typed reads from a Hugging Face config: one place that knows where keys hide and what is sane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core.errors import InputError

LARGEST = 10**9
"""No size in a config comes near this; a larger one is a slip."""

_LONGEST_SHOWN = 40
_TEXT_SECTIONS = ("text_config", "language_config", "llm_config")


def short(value: object) -> str:
    """Print a value of a config on one line, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


class ConfigReader:
    """Reads one config; keys of the text model's section go before those beside it.

    Args:
        config: a parsed ``config.json`` or one of its sections.

    Raises:
        InputError: not a JSON object, or empty.
    """

    def __init__(self, config: Mapping[str, object]) -> None:
        if not isinstance(config, Mapping) or not config:
            raise InputError("config: a JSON object with the model's sizes is needed")
        self._top = config
        section = next(
            (config[key] for key in _TEXT_SECTIONS if isinstance(config.get(key), Mapping)), {}
        )
        self._values: dict[str, object] = dict(config)
        if isinstance(section, Mapping):
            self._values |= {key: value for key, value in section.items() if value is not None}

    def find(self, *names: str) -> int | None:
        """Return the first whole number under one of ``names``; None where all are absent.

        Raises:
            InputError: the value is not a whole number of at least 1.
        """
        for name in names:
            value = self._values.get(name)
            if value is None:
                continue
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
                raise InputError(
                    f"config: {name} is {short(value)}; it must be a whole number from 1 to 1e9"
                )
            return value
        return None

    def need(self, *names: str) -> int:
        """Return ``find(*names)``.

        Raises:
            InputError: none of the names is there; the message has the first.
        """
        value = self.find(*names)
        if value is None:
            raise InputError(f"config: {names[0]} is missing; add it")
        return value

    def count(self, name: str) -> int:
        """Return a whole number that may be zero; zero where it is absent.

        Raises:
            InputError: negative or no whole number.
        """
        value = self._values.get(name)
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
            raise InputError(
                f"config: {name} is {short(value)}; it must be a whole number, 0 or more"
            )
        return value

    def signed(self, *names: str) -> int | None:
        """Return the first whole number of any sign; None where all are absent.

        Raises:
            InputError: no whole number.
        """
        for name in names:
            value = self._values.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise InputError(f"config: {name} is {short(value)}; it must be a whole number")
            return value
        return None

    def number(self, name: str) -> float | None:
        """Return a number above 0.

        Raises:
            InputError: no number, or not above 0.
        """
        value = self._values.get(name)
        if value is None:
            return None
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not 0 < value <= LARGEST
        ):
            raise InputError(f"config: {name} is {short(value)}; it must be a number above 0")
        return float(value)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a truth value.

        Raises:
            InputError: the value is neither true nor false.
        """
        value = self._values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise InputError(f"config: {name} is {short(value)}; it must be true or false")
        return value

    def has(self, name: str) -> bool:
        """Whether the key is there and not null."""
        return self._values.get(name) is not None

    def names(self) -> tuple[str, ...]:
        """The keys that are there."""
        return tuple(self._values)

    def text(self, *names: str) -> str:
        """Return the first text under one of ``names``, else an empty one."""
        return next((v for n in names if isinstance(v := self._values.get(n), str)), "")

    def items(self, name: str, *, or_text: bool = False) -> Sequence[object] | None:
        """Return a list; None where it is absent.

        Args:
            or_text: whether a text may stand for the list of its characters.

        Raises:
            InputError: the value is no list.
        """
        value = self._values.get(name)
        if value is None:
            return None
        if isinstance(value, (list, tuple)) or (or_text and isinstance(value, str)):
            return value
        raise InputError(f"config: {name} is {short(value)}; it must be a list")

    def section(self, name: str) -> ConfigReader | None:
        """Return a nested object, from the text model's section or beside it."""
        value = self._values.get(name) or self._top.get(name)
        return ConfigReader(value) if isinstance(value, Mapping) and value else None
