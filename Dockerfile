# The gateway as an image. The configuration is mounted, not built in:
#
#   docker build -t warmgate .
#   docker run --rm --read-only --tmpfs /tmp -p 8080:8080 -v "$PWD/warmgate.yaml:/etc/warmgate/warmgate.yaml:ro" warmgate
#
# The stage `demo` adds the simulator, so that the demo runs without a configuration:
#
#   docker build --target demo -t warmgate-demo .
#   docker run --rm -p 8080:8080 warmgate-demo demo
#
# A release names its base images by digest, which the registry tells at that time (.github/workflows/release.yml):
# --build-arg RUN_IMAGE=NAME@sha256:... --build-arg BUILD_IMAGE=... So does whoever mirrors them. The two hold the same
# Python 3.13, at the same path. tests/image/ builds and runs it.
ARG RUN_IMAGE=docker.io/library/python:3.13-slim-trixie
# The larger image, for its C compiler: the core is compiled (deploy/compile_core.py).
ARG BUILD_IMAGE=docker.io/library/python:3.13-trixie

FROM ${BUILD_IMAGE} AS build
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
# The package `simulator` is left out on purpose: a gateway serves no simulated workers. Only the stage `demo` has it.
# What does not change with our sources comes first. Every wheel has to have one of the digests that the locks list.
# The compiler checks types, and so needs to see what the sources import.
COPY deploy/requirements.lock deploy/requirements-build.lock deploy/
RUN python -m venv /opt/build \
    && /opt/build/bin/python -m pip install --only-binary=:all: --require-hashes \
        -r deploy/requirements-build.lock -r deploy/requirements.lock \
    && python -m venv --without-pip /opt/warmgate \
    && /opt/build/bin/python -m pip --python /opt/warmgate/bin/python install --only-binary=:all: --require-hashes \
        -r deploy/requirements.lock
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY deploy/compile_core.py deploy/
COPY cache_index cache_index
COPY engine_model engine_model
COPY routing routing
COPY replay replay
COPY gateway gateway
RUN WARMGATE_COMPILE=1 /opt/build/bin/python -m pip wheel --no-deps --no-build-isolation --no-index --wheel-dir /dist . \
    && /opt/build/bin/python -m pip --python /opt/warmgate/bin/python install --no-deps --no-index /dist/warmgate-*.whl
# The names of our packages are common words: fail here if another distribution installs one of them too. Then fail if
# the locks miss something that the wheel asks for, and leave out what a gateway never reads, or never does: tokenizers
# brings the client of a hub to download models with.
COPY deploy/slim.py deploy/
RUN /opt/warmgate/bin/python -P -c "import importlib.metadata as m; d = m.packages_distributions(); assert all(d[p] == ['warmgate'] for p in ('gateway', 'replay', 'routing', 'cache_index', 'engine_model')), d" \
    && /opt/build/bin/python -m pip --python /opt/warmgate/bin/python check \
    && /opt/build/bin/python -m pip --python /opt/warmgate/bin/python uninstall --yes huggingface-hub hf-xet \
    && /opt/warmgate/bin/python -P deploy/slim.py
# The packages of the image with versions and licenses, as a CycloneDX SBOM. Without times and random numbers in it.
RUN /opt/build/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
        --output-file /opt/warmgate/sbom.cdx.json /opt/warmgate/bin/python

FROM ${RUN_IMAGE} AS gateway
RUN groupadd --system --gid 10001 warmgate \
    && useradd --system --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin warmgate \
    && install --directory --owner=10001 --group=10001 --mode=0700 /var/lib/warmgate
COPY --from=build /opt/warmgate /opt/warmgate
# Inside a container, 127.0.0.1 can be reached by nobody else. The variable goes over what the file says.
# Nothing is written beside the code: the root may be read-only. /tmp and /var/lib/warmgate are what has to be writable.
ENV PATH=/opt/warmgate/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    WARMGATE_SERVER__HOST=0.0.0.0
# Where a relative store.url is; mount a volume there.
WORKDIR /var/lib/warmgate
USER 10001:10001
EXPOSE 8080
# For Docker; Kubernetes asks by itself, deploy/helm/. Whoever sets another port does so by the variable.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ.get('WARMGATE_SERVER__PORT', '8080') + '/livez', timeout=2)"]
ENTRYPOINT ["warmgate"]
CMD ["serve", "--config", "/etc/warmgate/warmgate.yaml"]

# The gateway with simulated workers, for trying it out. Never the default: the last stage is.
FROM gateway AS demo
COPY simulator /opt/warmgate/lib/python3.13/site-packages/simulator
CMD ["demo"]

FROM gateway
