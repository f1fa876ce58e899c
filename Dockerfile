# fgn with its simulator built, for x86-64 and arm64; on either, torch comes from PyTorch's CPU index, which
# PIP_EXTRA_INDEX_URL names as for the first `make` (without it torch brings gigabytes of CUDA libraries).
#
#     docker build --build-arg PIP_EXTRA_INDEX_URL=... --tag fgn .
#     docker run --rm --publish 8888:8888 fgn           # JupyterLab: open the address that it prints
#     docker run --rm fgn .venv/bin/python -m fgn doctor

# What a machine needs before the first `make`; the dev container stops here, and works in the clone itself.
FROM debian:bookworm-slim AS tools
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        binutils ca-certificates g++ gcc git libc6-dev make python3 python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --shell /bin/bash fgn \
    && install --directory --owner=fgn --group=fgn /home/fgn/fgn

FROM tools
ARG PIP_EXTRA_INDEX_URL=
USER fgn
WORKDIR /home/fgn/fgn
COPY --chown=fgn . .
# The simulator that counts and checks is built too: a container that was started need not wait for it.
RUN make counted
EXPOSE 8888
CMD [".venv/bin/python", "tools/lab.py", "--ip=0.0.0.0", "--no-browser"]
