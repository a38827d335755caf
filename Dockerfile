# The planner without torch, as any user: docker build -t gpu-planner . && docker run --rm -it gpu-planner
# With the driver's counters: docker run --rm -it --gpus all gpu-planner
FROM python:3.12-slim AS build
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel .

FROM python:3.12-slim
COPY --from=build /wheel /wheel
RUN pip install --no-cache-dir /wheel/*.whl && rm -r /wheel && useradd --create-home --uid 1000 planner
USER 1000
ENV TERM=xterm-256color
ENTRYPOINT ["gpu-planner"]
