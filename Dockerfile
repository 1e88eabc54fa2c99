# The gateway as an image. The configuration is mounted, not built in:
#
#   docker build -t warmgate .
#   docker run --rm -p 8080:8080 -v "$PWD/warmgate.yaml:/etc/warmgate/warmgate.yaml:ro" warmgate

# The larger image, for its C compiler: the core is compiled (deploy/compile_core.py).
FROM python:3.11 AS build
WORKDIR /src
RUN python -m venv /opt/warmgate
COPY pyproject.toml README.md ./
COPY deploy/constraints.txt deploy/compile_core.py deploy/
COPY cache_index cache_index
COPY routing routing
COPY gateway gateway
RUN python -m venv /opt/build \
    && /opt/build/bin/python -m pip --disable-pip-version-check --no-cache-dir install -c deploy/constraints.txt hatchling mypy setuptools \
    && WARMGATE_COMPILE=1 /opt/build/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
    && /opt/warmgate/bin/python -m pip --disable-pip-version-check --no-cache-dir install -c deploy/constraints.txt "$(echo /dist/warmgate-*.whl)[bedrock,tokenizer]"
# The names of our packages are common words: fail here if another distribution installs one of them too.
WORKDIR /
RUN /opt/warmgate/bin/python -c "import importlib.metadata as m; d = m.packages_distributions(); assert all(d[p] == ['warmgate'] for p in ('gateway', 'routing', 'cache_index')), d"

FROM python:3.11-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin warmgate \
    && install --directory --owner=10001 --mode=0700 /var/lib/warmgate
COPY --from=build /opt/warmgate /opt/warmgate
# Inside a container, 127.0.0.1 can be reached by nobody else. The variable goes over what the file says.
ENV PATH=/opt/warmgate/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    WARMGATE_SERVER__HOST=0.0.0.0
# Where a relative store.url is; mount a volume there.
WORKDIR /var/lib/warmgate
USER 10001
EXPOSE 8080
ENTRYPOINT ["warmgate", "serve"]
CMD ["--config", "/etc/warmgate/warmgate.yaml"]
