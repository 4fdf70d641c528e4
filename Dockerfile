# One image, every part of Spotfloor: `up` (all in one, the default), `serve`, `api`, `worker`,
# `db upgrade`.
# Both stages use the same base, because a virtual environment names its interpreter by path.
FROM python:3.11-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_INPUT=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
# Dependencies first: this layer is rebuilt only when the lock file changes.
COPY requirements.lock ./
RUN --mount=type=cache,target=/root/.cache/pip \
    python -m venv /venv \
    && /venv/bin/python -m pip install --require-hashes -r requirements.lock
COPY . .
RUN --mount=type=cache,target=/root/.cache/pip \
    /venv/bin/python -m pip install --no-deps .

FROM python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="Spotfloor" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --system --gid 10001 app \
    && useradd --system --uid 10001 --gid app --create-home --shell /usr/sbin/nologin app \
    && install -d -o app -g app -m 0750 /data
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    SPOTFLOOR_DATABASE_URL=sqlite:////data/spotfloor.db \
    SPOTFLOOR_ARCHIVE_DIR=/data/archive
# By number, so that an orchestrator can see that it is not root.
USER 10001:10001
WORKDIR /home/app
VOLUME /data
EXPOSE 8501 8502
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["spotfloor", "doctor", "--ping", "http://127.0.0.1:8501/_stcore/health"]
ENTRYPOINT ["spotfloor"]
CMD ["up", "--host", "0.0.0.0"]
