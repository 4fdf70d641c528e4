"""Settings: defaults < TOML file < environment (``SPOTFLOOR_NAME``) < ``SPOTFLOOR_NAME_FILE``.

``load_settings`` is the only reader of the environment. An unknown ``SPOTFLOOR_*`` variable or
TOML key is an error with the nearest known name; secrets never appear in ``repr`` or logs.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from core.errors import ConfigError
from core.weekly import parse_weekly

PREFIX = "SPOTFLOOR_"
_CONFIG_VARIABLE = "SPOTFLOOR_CONFIG"


def default_database_url() -> str:
    """SQLite file in the user's data folder (``XDG_DATA_HOME`` is honoured)."""
    folder = Path(platformdirs.user_data_dir("spotfloor", appauthor=False))
    return f"sqlite:///{folder / 'spotfloor.db'}"


def default_archive_dir() -> Path:
    """Folder in the user's data folder (``XDG_DATA_HOME`` is honoured)."""
    return Path(platformdirs.user_data_dir("spotfloor", appauthor=False)) / "archive"


def default_secret_key_path() -> Path:
    """File in the user's data folder (``XDG_DATA_HOME`` is honoured)."""
    return Path(platformdirs.user_data_dir("spotfloor", appauthor=False)) / "secret.key"


def _names(value: object) -> object:
    """Accept ``a,b c`` for a list."""
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


def _titles(value: object) -> object:
    """Accept ``a, b c`` for a list of two names, of which one holds a blank."""
    if not isinstance(value, str):
        return value
    return tuple(name for part in value.split(",") if (name := part.strip()))


class Settings(BaseModel):
    """Every setting, with its default and meaning. ``spotfloor doctor`` prints the result."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    database_url: str = Field(
        default_factory=default_database_url,
        description="SQLite (sqlite:///path) or PostgreSQL (postgresql://user@host/name).",
    )
    providers: tuple[str, ...] = Field(
        (), description="Providers to collect, comma separated; empty = all that have their key."
    )
    offline: bool = Field(
        False, description="Never open a network connection; the worker only keeps house."
    )
    aws_regions: tuple[str, ...] = Field(
        ("us-east-1", "us-east-2", "us-west-2", "eu-west-1", "eu-central-1", "ap-northeast-1"),
        description="AWS regions whose price lists are read (hundreds of MB each).",
    )
    azure_regions: tuple[str, ...] = Field(
        ("eastus", "eastus2", "southcentralus", "westus3", "westeurope", "swedencentral"),
        description="Azure regions whose retail prices are read.",
    )
    gcp_project: str = Field(
        "", description="Google Cloud project whose zones' machine types are read (optional)."
    )
    aws_access_key_id: SecretStr | None = Field(
        None, description="AWS key id for zonal spot prices (DescribeSpotPriceHistory only)."
    )
    aws_secret_access_key: SecretStr | None = Field(None, description="Its secret.")
    aws_session_token: SecretStr | None = Field(None, description="Its session token, if any.")
    gcp_api_key: SecretStr | None = Field(
        None, description="Google API key for the Cloud Billing Catalog."
    )
    gcp_access_token: SecretStr | None = Field(
        None, description="OAuth access token for machine types (with gcp_project)."
    )
    runpod_api_key: SecretStr | None = Field(None, description="RunPod API key (optional).")
    vastai_api_key: SecretStr | None = Field(None, description="Vast.ai API key (optional).")
    lambda_api_key: SecretStr | None = Field(
        None, description="Lambda API key; without it the public price page is read."
    )
    hyperstack_api_key: SecretStr | None = Field(
        None, description="Hyperstack API key; without it the public price page is read."
    )
    jarvislabs_api_key: SecretStr | None = Field(None, description="Jarvislabs API key.")
    shadeform_api_key: SecretStr | None = Field(None, description="Shadeform API key.")
    verda_client_id: SecretStr | None = Field(
        None, description="Verda API client id; without it the public price page is read."
    )
    verda_client_secret: SecretStr | None = Field(None, description="Its secret.")
    crusoe_access_key_id: SecretStr | None = Field(None, description="Crusoe API access key id.")
    crusoe_secret_key: SecretStr | None = Field(None, description="Its secret.")
    crusoe_project_id: str = Field("", description="Crusoe project whose VM types are read.")
    digitalocean_api_key: SecretStr | None = Field(
        None, description="DigitalOcean API token with read access."
    )
    primeintellect_api_key: SecretStr | None = Field(None, description="Prime Intellect API key.")
    thundercompute_api_key: SecretStr | None = Field(None, description="Thunder Compute API key.")
    salad_api_key: SecretStr | None = Field(None, description="Salad API key.")
    salad_organization: str = Field("", description="Salad organization whose classes are read.")
    hyperbolic_api_key: SecretStr | None = Field(None, description="Hyperbolic API key.")
    fluidstack_api_key: SecretStr | None = Field(None, description="Fluidstack API key.")
    contact: str = Field(
        "https://github.com/spotfloor/spotfloor",
        description="Contact address in our User-Agent, for the people who run the sources.",
    )
    http_timeout_seconds: Annotated[float, Field(gt=0, le=600)] = Field(
        30.0, description="Longest silence of a source, in seconds."
    )
    http_budget_seconds: Annotated[float, Field(gt=0, le=7200)] = Field(
        900.0, description="Longest time for all requests of one provider's run, in seconds."
    )
    http_max_mib: Annotated[int, Field(gt=0, le=4096)] = Field(
        50, description="Largest body accepted, in MiB after decompression (AWS lists: 1,024)."
    )
    keep_days: Annotated[int, Field(ge=0, le=36_500)] = Field(
        0,
        description="How many days every price span is kept before the worker turns it into one"
        " row per offer and day; 0 = for ever.",
    )
    archive_days: Annotated[int, Field(ge=0, le=3650)] = Field(
        14, description="How many days raw payloads of runs are kept; 0 = not at all."
    )
    archive_dir: Path = Field(
        default_factory=default_archive_dir,
        description="Folder of the raw payloads (beside the data of the user by default).",
    )
    secret_key: SecretStr | None = Field(
        None,
        description="Fernet keys that seal webhook addresses and secrets, comma separated; the"
        " first seals. Without it a key file is made on first use.",
    )
    secret_key_path: Path = Field(
        default_factory=default_secret_key_path,
        description="The key file used without secret_key (beside the data of the user by"
        " default).",
    )
    allow_private_webhooks: bool = Field(
        False,
        description="Let endpoints that ask for it be in private networks and use http; for labs.",
    )
    smtp_url: SecretStr | None = Field(
        None,
        description="Mail server: smtp://user:password@host:587?from=alerts@example.com (STARTTLS;"
        " smtps:// for TLS from the start, &tls=off for a relay on this machine).",
    )
    digest_at: str = Field(
        "Mon 06:00 UTC",
        description="When the digest of the week before is built and sent: a day, a time and a"
        " zone, like Mon 08:00 Europe/Berlin.",
    )
    digest_to: tuple[str, ...] = Field(
        (),
        description="Names of the endpoints that get the weekly digest, comma separated; all ="
        " every endpoint; empty = none.",
    )
    api_url: str = Field(
        "",
        description="Address of the HTTP API that the dashboard shows to people, like"
        " https://prices.example.com; up and serve fill in their own.",
    )
    api_hosts: tuple[str, ...] = Field(
        (),
        description="Host names under which the HTTP API is reached, comma separated, beside"
        " localhost; * = any.",
    )
    api_open_reads: bool = Field(
        False,
        description="Let the HTTP API be read without a token even when it listens beyond this"
        " machine.",
    )
    api_per_minute: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        600, description="Requests a minute that one client's address may make; 0 = no limit."
    )
    api_solve_seconds: Annotated[float, Field(ge=1, le=600)] = Field(
        30.0, description="Longest time that the HTTP API solves one plan, in seconds."
    )
    api_solves_at_once: Annotated[int, Field(ge=1, le=64)] = Field(
        2, description="How many plans the HTTP API solves at the same time."
    )
    api_ready_hours: Annotated[float, Field(gt=0, le=8760)] = Field(
        24.0, description="Age of the newest live price, in hours, beyond which /readyz says no."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severe log event written."
    )
    log_format: Literal["auto", "console", "json"] = Field(
        "auto", description="auto = console on a terminal, JSON lines otherwise."
    )

    _lists = field_validator(
        "providers", "aws_regions", "azure_regions", "api_hosts", mode="before"
    )(_names)
    _endpoint_names = field_validator("digest_to", mode="before")(_titles)

    @field_validator("digest_at")
    @classmethod
    def _weekly_time(cls, value: str) -> str:
        parse_weekly(value)
        return value

    @field_validator("keep_days")
    @classmethod
    def _whole_days(cls, days: int) -> int:
        if days == 1:  # late runs may still tell of yesterday
            raise ValueError("must be 0 (for ever) or at least 2")
        return days

    @field_validator("database_url")
    @classmethod
    def _known_database(cls, value: str) -> str:
        scheme = value.partition(":")[0]
        if scheme not in {"sqlite", "postgresql", "postgresql+psycopg"}:
            raise ValueError("must start with sqlite:/// or postgresql://")
        return value

    @field_validator("api_url")
    @classmethod
    def _web_address(cls, value: str) -> str:
        if value and not re.fullmatch(r"https?://[\w.:\[\]-]+(/[\w./~-]*)?", value):
            raise ValueError("must be an address like https://prices.example.com")
        return value

    @property
    def database_url_masked(self) -> str:
        """The database address without its password."""
        parts = urlsplit(self.database_url)
        if parts.password is None:
            return self.database_url
        return self.database_url.replace(f":{parts.password}@", ":***@", 1)


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Read settings from the TOML file named by ``SPOTFLOOR_CONFIG`` and the environment.

    Args:
        environ: variables to read; the process's own when None.

    Raises:
        ConfigError: unknown name, unusable value, unreadable file.
    """
    variables = os.environ if environ is None else environ
    values: dict[str, object] = _from_file(variables.get(_CONFIG_VARIABLE))
    values |= _from_environment(variables)
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"setting {PREFIX}{name.upper()}: {first['msg']};"
            f" {Settings.model_fields[name.split('.')[0]].description}"
        ) from None


def _from_file(path: str | None) -> dict[str, object]:
    if not path:
        return {}
    try:
        values = tomllib.loads(Path(path).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{_CONFIG_VARIABLE}={path}: cannot read: {error}") from None
    for name in values:
        _check_known(name, f"key {name!r} in {path}", str)
    return values


def _from_environment(variables: Mapping[str, str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for variable, value in sorted(variables.items()):
        if not variable.startswith(PREFIX) or variable == _CONFIG_VARIABLE:
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name.endswith("_file") and name.removesuffix("_file") in Settings.model_fields:
            try:
                values[name.removesuffix("_file")] = Path(value).read_text("utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"{variable}={value}: cannot read: {error}") from None
            continue
        _check_known(name, f"variable {variable}", lambda known: f"{PREFIX}{known.upper()}")
        if value != "":
            values[name] = value
    return values


def _check_known(name: str, what: str, spell: object) -> None:
    if name in Settings.model_fields:
        return
    near = difflib.get_close_matches(name, Settings.model_fields, n=1)
    write = spell if callable(spell) else str
    hint = f"did you mean {write(near[0])}?" if near else "see 'spotfloor doctor --settings'"
    raise ConfigError(f"unknown setting: {what}; {hint}")
