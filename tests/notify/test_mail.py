from __future__ import annotations

import email
import email.policy
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

import pytest
import trustme

from core.errors import ConfigError
from notify.channels.email import render
from notify.channels.place import Place
from notify.mail import MailSender, read_server
from notify.message import Message
from notify.outgoing import Mail

AUTHORITY = trustme.CA()


def a_mail(target: str = "anna@example.com") -> Mail:
    message = Message(
        "msg_1", "price.alert.firing", datetime(2026, 12, 1, tzinfo=UTC), "Zürich €", "fell"
    )
    return render(message, Place(target, "ops", mail_from="alerts@spotfloor.example"))


class MailServer(socketserver.ThreadingTCPServer):
    """A little SMTP server that offers STARTTLS and a login, and can be told to refuse."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, replies: dict[str, str], *, starttls: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), Talk)
        self.replies = replies
        self.starttls = starttls
        self.said: list[str] = []
        self.mails: list[bytes] = []
        self.gone = threading.Event()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        AUTHORITY.issue_cert("localhost").configure_cert(self.context)

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that hang up are no trouble of ours."""


class Talk(socketserver.BaseRequestHandler):
    server: MailServer

    def handle(self) -> None:
        with ExitStack() as closing:
            self.talk(self.request, closing)

    def talk(self, wire: socket.socket, closing: ExitStack) -> None:
        wire.sendall(b"220 localhost ESMTP\r\n")
        lines, secure = closing.enter_context(wire.makefile("rb")), False
        while line := lines.readline().decode().strip():
            word = line.split(" ")[0].upper()
            self.server.said.append(f"{'tls ' if secure else ''}{word}")
            reply = self.server.replies.get(word)
            if reply == "silence":
                self.server.gone.wait(30)
                return
            if reply is not None:
                wire.sendall(f"{reply}\r\n".encode())
            elif word == "EHLO":
                offer = "AUTH PLAIN" if secure else "STARTTLS" if self.server.starttls else "HELP"
                wire.sendall(f"250-localhost\r\n250 {offer}\r\n".encode())
            elif word == "STARTTLS":
                wire.sendall(b"220 go on\r\n")
                wire = closing.enter_context(
                    self.server.context.wrap_socket(wire, server_side=True)
                )
                lines, secure = closing.enter_context(wire.makefile("rb")), True
            elif word == "AUTH":
                wire.sendall(b"235 welcome\r\n")
            elif word == "DATA":
                wire.sendall(b"354 go on\r\n")
                body = b""
                while (part := lines.readline()) != b".\r\n":
                    body += part
                self.server.mails.append(body)
                wire.sendall(b"250 taken\r\n")
            elif word == "QUIT":
                wire.sendall(b"221 bye\r\n")
                return
            else:
                wire.sendall(b"250 fine\r\n")


@contextmanager
def mail_server(
    replies: dict[str, str] | None = None, *, starttls: bool = True
) -> Iterator[MailServer]:
    server = MailServer(replies or {}, starttls=starttls)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.gone.set()
        server.shutdown()
        server.server_close()
        thread.join(10)


def sender(server: MailServer, total: float = 20) -> MailSender:
    port = server.server_address[1]
    trusted = ssl.create_default_context()
    AUTHORITY.configure_trust(trusted)
    url = f"smtp://alerts%40spotfloor.example:hu%2Fsh@localhost:{port}"
    return MailSender(read_server(url), time.monotonic, total, trusted)


def test_a_mail_is_handed_over_encrypted_and_after_the_login() -> None:
    with mail_server() as server:
        answer = sender(server).send(a_mail("anna@example.com, bo@example.org"))
    assert (answer.status, answer.reason) == (250, "")
    assert "AUTH" not in server.said
    assert server.said.count("tls AUTH") == 1
    assert server.said.count("tls RCPT") == 2
    (raw,) = server.mails
    read = email.message_from_bytes(raw, policy=email.policy.default)
    assert read["Subject"] == "Zürich €"
    assert read["Message-ID"] == "<msg_1@spotfloor.example>"
    assert read.get_content_type() == "multipart/alternative"


def test_without_starttls_nothing_is_sent_in_the_open() -> None:
    with mail_server(starttls=False) as server:
        answer = sender(server).send(a_mail())
    assert answer.reason == "mail"
    assert "STARTTLS" in answer.detail
    assert server.mails == []


def test_an_unknown_certificate_is_refused() -> None:
    with mail_server() as server:
        usual = sender(server)
        usual.verify = None
        assert usual.send(a_mail()).reason == "tls"
    assert server.mails == []


@pytest.mark.parametrize(
    ("replies", "permanent", "words"),
    [
        ({"RCPT": "550 no such person anna@example.com"}, True, "refused every receiver (550)"),
        ({"RCPT": "451 later, anna@example.com"}, False, "refused every receiver (451)"),
        ({"MAIL": "452 full"}, False, "refused"),
        ({"DATA": "554 spam"}, True, "answered 554"),
        ({"AUTH": "535 wrong"}, False, "user or password (535)"),
    ],
)
def test_what_a_server_refuses_is_told_by_code_and_without_addresses(
    replies: dict[str, str], permanent: bool, words: str
) -> None:
    with mail_server(replies) as server:
        answer = sender(server).send(a_mail())
    assert (answer.status, answer.permanent) == (None, permanent)
    assert words in answer.detail or (words == "refused" and "452" in answer.detail)
    assert "anna" not in answer.detail
    assert "hu/sh" not in answer.detail


def test_a_server_that_falls_silent_is_cut() -> None:
    with mail_server({"MAIL": "silence"}) as server:
        start = time.monotonic()
        answer = sender(server, total=0.5).send(a_mail())
        assert time.monotonic() - start < 10, "cut long before the default limit"
    assert answer.reason == "timeout"


def test_nobody_there_is_a_connection_to_be_tried_again() -> None:
    with mail_server() as server:
        gone = sender(server)
    answer = gone.send(a_mail())
    assert (answer.reason, answer.permanent) == ("connection", False)


@pytest.mark.parametrize(
    ("url", "port", "tls", "who"),
    [
        ("smtp://mail.example?from=a@b.example", 587, "starttls", "a@b.example"),
        ("smtps://a%40b.example:hush@mail.example", 465, "tls", "a@b.example"),
        ("smtp://localhost?tls=off&from=a@b.example", 25, "off", "a@b.example"),
        ("smtp://localhost:1025?tls=off&from=a@b.example", 1025, "off", "a@b.example"),
    ],
)
def test_the_address_of_a_server_is_read(url: str, port: int, tls: str, who: str) -> None:
    server = read_server(url)
    assert (server.port, server.tls, server.sender) == (port, tls, who)
    assert "hush" not in repr(server)


@pytest.mark.parametrize(
    "url",
    [
        "hush",
        "https://hush@mail.example",
        "smtp://mail.example/hush?from=a@b.example",
        "smtp://user:hush@mail.example",
        "smtp://user:hush@mail.example?from=hush",
        "smtp://a%40b.example:hush@mail.example?tls=off",
        "smtp://mail.example?from=a@b.example&tls=hush",
        "smtps://mail.example?from=a@b.example&tls=starttls",
        "smtp://mail.example?from=a@b.example&hush=1",
        "smtp://mail.example:hush?from=a@b.example",
        "smtp://mail.example?hush",
    ],
)
def test_a_malformed_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError, match="SPOTFLOOR_SMTP_URL: ") as caught:
        read_server(url)
    assert "hush" not in str(caught.value)
