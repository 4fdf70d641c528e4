"""Tables of what people save: plans, alert rules, endpoints, deliveries, digests, tokens.

Secrets (addresses of webhooks, signing keys) are stored sealed, tokens as hashes: nothing here can
be used by somebody who reads a backup.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from sqlalchemy import ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from db.base import Base
from db.types import BigId, NanoUsd, UtcDateTime


class PlanRow(Base):
    """A saved plan: its document as it was answered, and whether it is watched."""

    __tablename__ = "plan"
    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    document: Mapped[str] = mapped_column(Text)
    usd_per_month: Mapped[Decimal] = mapped_column(NanoUsd)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    watched_since: Mapped[datetime | None] = mapped_column(UtcDateTime)


class RepricingRow(Base):
    """What a saved plan cost at a later look, and whether it was still the best."""

    __tablename__ = "plan_repricing"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    plan_id: Mapped[str] = mapped_column(ForeignKey("plan.id", ondelete="CASCADE"))
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    usd_per_month: Mapped[Decimal | None] = mapped_column(NanoUsd)
    best_usd_per_month: Mapped[Decimal | None] = mapped_column(NanoUsd)
    still_best: Mapped[bool]
    document: Mapped[str] = mapped_column(Text)
    __table_args__ = (Index(None, "plan_id", "at"),)


class EndpointRow(Base):
    """Where messages go. Address and secrets are sealed; ``shown`` is what people may see."""

    __tablename__ = "endpoint"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(100), unique=True)
    channel: Mapped[str] = mapped_column(String(16))
    sealed_target: Mapped[str] = mapped_column(Text)
    shown: Mapped[str] = mapped_column(String(300))
    sealed_secret: Mapped[str] = mapped_column(Text)
    sealed_old_secret: Mapped[str] = mapped_column(Text)
    old_secret_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    allow_private: Mapped[bool]
    state: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str] = mapped_column(String(300))
    not_before: Mapped[datetime | None] = mapped_column(UtcDateTime)
    busy_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    busy_with: Mapped[str] = mapped_column(String(100))
    dying_since: Mapped[datetime | None] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class DeliveryRow(Base):
    """A message on its way to one endpoint: the outbox, and its history.

    It is in flight while its endpoint's ``busy_with`` names it and ``busy_until`` is not over.
    """

    __tablename__ = "delivery"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    message_id: Mapped[str] = mapped_column(String(64))
    endpoint_id: Mapped[str] = mapped_column(ForeignKey("endpoint.id", ondelete="CASCADE"))
    kind: Mapped[str] = mapped_column(String(32))
    body: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(16))
    attempts: Mapped[int]
    due_at: Mapped[datetime] = mapped_column(UtcDateTime)
    tried_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    status: Mapped[int | None]
    latency_ms: Mapped[int | None]
    why: Mapped[str] = mapped_column(String(300))
    answer: Mapped[str] = mapped_column(String(600))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    __table_args__ = (
        UniqueConstraint("message_id", "endpoint_id"),
        Index(None, "endpoint_id", "state", "due_at"),
        Index(None, "created_at"),
    )


class AlertRuleRow(Base):
    """A rule: its document, the endpoints it speaks to, and how long it is silent."""

    __tablename__ = "alert_rule"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(100), unique=True)
    kind: Mapped[str] = mapped_column(String(32))
    document: Mapped[str] = mapped_column(Text)
    enabled: Mapped[bool]
    silenced_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    evaluated: Mapped[int | None] = mapped_column(BigId)
    evaluated_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class AlertStateRow(Base):
    """The state machine of one rule over one series, as its pure value in JSON."""

    __tablename__ = "alert_state"
    rule_id: Mapped[str] = mapped_column(
        ForeignKey("alert_rule.id", ondelete="CASCADE"), primary_key=True
    )
    series: Mapped[str] = mapped_column(String(300), primary_key=True)
    state: Mapped[str] = mapped_column(Text)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)


class AlertEventRow(Base):
    """Something that a rule said, once: it fired, or it recovered."""

    __tablename__ = "alert_event"
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    message_id: Mapped[str] = mapped_column(String(64), index=True)
    rule_id: Mapped[str] = mapped_column(ForeignKey("alert_rule.id", ondelete="CASCADE"))
    series: Mapped[str] = mapped_column(String(300))
    event: Mapped[str] = mapped_column(String(16))
    snapshot_id: Mapped[int] = mapped_column(BigId)
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    document: Mapped[str] = mapped_column(Text)
    __table_args__ = (UniqueConstraint("rule_id", "series", "event", "snapshot_id"),)


class BaselineRow(Base):
    """Prices that later ones are compared with, under a name; by offer, as JSON."""

    __tablename__ = "alert_baseline"
    rule_id: Mapped[str] = mapped_column(
        ForeignKey("alert_rule.id", ondelete="CASCADE"), primary_key=True
    )
    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    series: Mapped[str] = mapped_column(String(300), primary_key=True)
    value: Mapped[Decimal] = mapped_column(NanoUsd)
    offers: Mapped[int]
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    prices: Mapped[str] = mapped_column(Text)


class DigestRow(Base):
    """A week's digest: one a name and ISO week, provisional until the week has closed."""

    __tablename__ = "digest"
    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    week: Mapped[str] = mapped_column(String(8), primary_key=True)
    state: Mapped[str] = mapped_column(String(16))
    revision: Mapped[int]
    document: Mapped[str] = mapped_column(Text)
    markdown: Mapped[str] = mapped_column(Text)
    built_at: Mapped[datetime] = mapped_column(UtcDateTime)
    sent_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class TokenRow(Base):
    """A token of the HTTP API: its hash, what it may do, until when."""

    __tablename__ = "api_token"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(100), unique=True)
    hash: Mapped[str] = mapped_column(String(64), unique=True)
    scopes: Mapped[str] = mapped_column(String(300))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_used_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
