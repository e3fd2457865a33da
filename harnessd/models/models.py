"""Who answers a request: the router over the lanes."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path

from harnessd.errors import KeyMissing, ModelUnavailable
from harnessd.models.assembler import Assembler, Reply
from harnessd.models.chunk import Chunk, FailureKind, ModelFailure
from harnessd.models.direct import DirectLane, Timeouts
from harnessd.models.encoded import EncodedHistories
from harnessd.models.ollama import find_ollama_model
from harnessd.models.prefixes import Route, find_route, is_offline, resolve_auto
from harnessd.models.prices import ModelLimits, Prices
from harnessd.models.request import ModelRequest
from harnessd.models.worker import WorkerLane, WorkerLimits
from harnessd.models.worker_env import worker_env


class Models:
    """Every model there is, behind one `stream`. One per process; all sessions share it.

    `env` holds keys and addresses under the names that the providers' own tools read; `cache_dir` may keep a
    small index of prices. Nothing is opened, imported or started before it is needed.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        cache_dir: Path | None = None,
        timeouts: Timeouts | None = None,
        worker_limits: WorkerLimits | None = None,
    ) -> None:
        self._env = env
        self._prices = Prices(cache_dir=cache_dir)
        self._routes: dict[tuple[str, str | None], Route] = {}
        timeouts = timeouts or Timeouts()
        histories = EncodedHistories()
        use_proxy = any(name.lower() in {"http_proxy", "https_proxy", "all_proxy"} for name in env)
        self._histories = histories
        self._direct = DirectLane(histories, timeouts=timeouts, use_proxy=use_proxy)
        self._worker = WorkerLane(
            histories,
            lambda: worker_env(env, self._prices.providers),
            timeouts=timeouts,
            limits=worker_limits or WorkerLimits(),
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """The chunks of one reply, as every lane yields them; close it (`aclosing`) to drop the request at once.

        It ends with `Finished` (a `UsageReport` may come before or after), with a `ModelFailure`, or, when it was cut,
        with neither. Nothing that a provider does raises, and nothing is tried again: what to do after a failure is
        `plan_retry`'s to say and the loop's to record.
        """
        route = self._route(request.model, request.api_base)
        if isinstance(route, ModelUnavailable):
            kind: FailureKind = "auth" if isinstance(route, KeyMissing) else "unknown_model"
            yield ModelFailure(kind, route.message, hint=route.hint or "")
            return
        match route.lane:
            case "offline":
                from harnessd.models.offline import OfflineModel  # its grammar is compiled only for those who use it

                stream = OfflineModel().stream(request)
            case "direct":
                stream = self._direct.stream(request, route)
            case "litellm":
                # Which variables the worker gets depends on the providers in the map; its start takes far longer.
                await self._prices.load()
                stream = self._worker.stream(request, route)
        async with aclosing(stream):
            async for chunk in stream:
                yield chunk
        if route.lane != "offline":
            # The request is done and nobody waits for the first byte any more: prices may be read now.
            await self._prices.load()

    async def answer(self, request: ModelRequest) -> Reply | ModelFailure:
        """The whole reply, for those who publish nothing while it grows; asked once, never raises for a failure."""
        assembler = self.assembler(request)
        async with aclosing(self.stream(request)) as stream:
            async for chunk in stream:
                assembler.feed(chunk)
        return assembler.finish()

    def assembler(self, request: ModelRequest) -> Assembler:
        """What the chunks of `stream(request)` are fed to; its usage carries the cost where it is known."""
        return Assembler(request, price=self._prices.cost)

    def check(self, model: str, api_base: str | None = None) -> ModelUnavailable | None:
        """Why that model cannot answer (unknown, or which variable lacks its key); None if it may."""
        route = self._route(model, api_base)
        return route if isinstance(route, ModelUnavailable) else None

    async def resolve(self, model: str, *, home: str | None = None, operator: str | None = None) -> str:
        """The name of the model that `model` means: itself, or what `auto` finds (see `resolve_auto`)."""
        if model and model != "auto":
            return model
        return await resolve_auto(self._env, find_ollama_model, home=home, operator=operator)

    async def limits(self, model: str) -> ModelLimits | None:
        """Windows and prices of a model, or None when nobody knows them."""
        if is_offline(model):
            return ModelLimits(200_000, 8_000, 0.0, 0.0, 0.0)
        await self._prices.load()
        return self._prices.limits(model)

    def limits_if_loaded(self, model: str) -> ModelLimits | None:
        """The same without waiting; None also when the table of prices is not loaded yet."""
        if is_offline(model):
            return ModelLimits(200_000, 8_000, 0.0, 0.0, 0.0)
        return self._prices.limits(model)

    @property
    def worker_pid(self) -> int | None:
        """The process id of the litellm worker, while there is one."""
        return self._worker.pid

    def forget(self, session_id: str) -> None:
        """Drop the encoded bytes kept for a session."""
        self._histories.forget(session_id)

    async def close(self) -> None:
        """Close connections and end the worker process."""
        await self._direct.close()
        await self._worker.close()

    def _route(self, model: str, api_base: str | None) -> Route | ModelUnavailable:
        known = self._routes.get((model, api_base))
        if known is None:
            found = find_route(model, self._env, api_base, self._prices.knows_provider)
            if isinstance(found, ModelUnavailable):
                return found
            known = self._routes[model, api_base] = found
        return known
