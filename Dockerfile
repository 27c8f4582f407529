# A server of SuLQ: docker build -t sulq . ; docs/howto/deploy.md says how to run it.
#
# Two stages, so that what runs holds no source, no compiler and no cache.
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
LABEL org.opencontainers.image.title="SuLQ" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/sulq-*.whl)[server,postgres,oidc,fast]" \
    && rm -r /wheels \
    && useradd --system --uid 10001 sulq \
    && install -d -o sulq -m 0700 /srv/sulq
ENV PYTHONUNBUFFERED=1 \
    SULQ_HOME=/srv/sulq \
    SULQ_SERVER_SOURCES=/data
USER sulq
VOLUME /srv/sulq
EXPOSE 8707
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8707/v1/health', timeout=4)"]
STOPSIGNAL SIGTERM
CMD ["sulq", "serve", "/srv/sulq"]
