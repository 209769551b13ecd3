# slo-gate for pipelines without Python: docker build -t slo-gate . && docker run --rm -v "$PWD:/data" slo-gate check ...
# To write reports into the mounted folder add --user "$(id -u):$(id -g)": the image's own user may only read it.
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY schemas schemas
COPY gate gate
RUN python -m venv /opt/slo-gate && /opt/slo-gate/bin/pip install --no-cache-dir .

FROM python:3.13-slim
COPY --from=build /opt/slo-gate /opt/slo-gate
ENV PATH=/opt/slo-gate/bin:$PATH PYTHONDONTWRITEBYTECODE=1
RUN useradd --uid 10001 --create-home slo-gate
USER 10001
WORKDIR /data
ENTRYPOINT ["slo-gate"]
CMD ["--help"]
