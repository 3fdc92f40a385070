"""The models of a server: finds their versions, loads them beside what answers, and ends the older ones."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trio

from flowengine.core.config import Config
from flowengine.core.errors import (
    DataLossError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    ResourceExhaustedError,
    UnavailableError,
)
from flowengine.core.thread_switching import switching_quickly
from flowengine.serving.models.settings import ModelSettings, is_model, numbered
from flowengine.serving.models.sources import load_version
from flowengine.serving.models.versions import ServedVersion, VersionState, estimated_bytes, fingerprint
from flowengine.serving.models.warmup import warm_up

logger: Final = logging.getLogger("flowengine.serving")

#: Ended versions that stay in the status of a model.
_ENDED_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class LoadingOptions:
    """How versions are loaded.

    config        of each version's session: devices, limits, a sandbox
    target        of a cluster that runs the steps; "" for this process
    memory_bytes  most memory of all versions together, as estimated by the size of their files; None for any
    warms_up      whether the requests of `assets.extra/tf_serving_warmup_requests` run before it answers
    """

    config: Config | None = None
    target: str = ""
    memory_bytes: int | None = None
    warms_up: bool = True


class ServedModel:
    """A model of the server: its settings, and its versions by number."""

    def __init__(self, settings: ModelSettings) -> None:
        self.settings = settings
        #: Whether the configuration lists it; its versions end if it does not.
        self.is_listed = True
        self.versions: dict[int, ServedVersion] = {}
        #: What went wrong when its folder was read last.
        self.error: OpError | None = None
        #: The tasks that load versions, so that unloading can end them.
        self.loading: dict[int, trio.CancelScope] = {}
        #: Held while its folder is read and new versions are listed.
        self.looking = trio.Lock()
        #: Where tasks wait for a change of a version's state.
        self.changing = trio.lowlevel.ParkingLot()

    @property
    def available(self) -> list[ServedVersion]:
        """The versions that answer, by rising number."""
        # A copy: readiness is asked for from other threads.
        versions = list(self.versions.values())
        found = [each for each in versions if each.state is VersionState.AVAILABLE]
        return sorted(found, key=lambda each: each.number)

    def version(self, number: int | None = None, label: str | None = None) -> ServedVersion:
        """Return the version to ask, the latest by default; NotFoundError if it does not answer."""
        name = self.settings.name
        if label is not None:
            if label not in self.settings.labels:
                raise InvalidArgumentError(f"Unrecognized servable version label: {label}")
            number = self.settings.labels[label]
        available = self.available
        if number is None and available:
            return available[-1]
        for each in available:
            if each.number == number:
                return each
        asked = f"Latest({name})" if number is None else f"Specific({name}, {number})"
        raise NotFoundError(f"Servable not found for request: {asked}")


class ModelManager:
    """The models that a server answers for. One task runs it: `nursery.start(manager.run)`.

    models         how each is served
    options        how versions are loaded
    poll_seconds   how often folders are looked at; None to look once
    reread         returns the settings of all models anew, from a file that may have changed; None if they
                   stay as they are
    on_change      called with a model's name and a version whenever its state has changed
    explicit       whether models wait for `load`, instead of being loaded at once

    Loading fails for its version alone: the versions before it go on answering.
    """

    def __init__(
        self,
        models: Iterable[ModelSettings],
        options: LoadingOptions | None = None,
        *,
        poll_seconds: float | None = 1.0,
        reread: Callable[[], Sequence[ModelSettings]] | None = None,
        on_change: Callable[[str, ServedVersion], None] = lambda name, version: None,
        explicit: bool = False,
    ) -> None:
        self.models = {each.name: ServedModel(each) for each in models}
        self.options = LoadingOptions() if options is None else options
        self.is_draining = False
        #: The number of requests that run.
        self.requests = 0
        self._idle: trio.Event | None = None
        self.is_explicit = explicit
        self._poll_seconds = poll_seconds
        self._reread = reread
        self.on_change = on_change
        self._nursery: trio.Nursery | None = None
        #: In explicit mode, the models that were asked for.
        self._wanted: set[str] = set() if explicit else set(self.models)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Load the models and look after them until cancelled; then all versions are closed."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                await self.look()
                task_status.started()
                while self._poll_seconds is not None:
                    await trio.sleep(self._poll_seconds)
                    await self.look()
                await trio.sleep_forever()
        finally:
            self._nursery = None
            with trio.CancelScope(shield=True):
                for model in self.models.values():
                    for version in list(model.versions.values()):
                        version.requests = 0  # their tasks have ended, or are cancelled by closing
                        await version.close()

    @property
    def is_ready(self) -> bool:
        """Whether each wanted model has a version that answers, and the server is not draining."""
        models = [self.models[name] for name in list(self._wanted) if name in self.models]
        return not self.is_draining and all(model.available for model in models)

    def model(self, name: str) -> ServedModel:
        """Return a model by name; NotFoundError if there is none."""
        if name not in self.models:
            raise NotFoundError(f"Could not find any versions of model {name}")
        return self.models[name]

    @contextmanager
    def request(
        self, name: str, number: int | None = None, label: str | None = None
    ) -> Iterator[ServedVersion]:
        """Return a context for one request, with the version that answers it; NotFoundError if none does."""
        if name not in self.models:
            asked = f"Latest({name})" if number is None else f"Specific({name}, {number})"
            raise NotFoundError(f"Servable not found for request: {asked}")
        if self.is_draining:
            raise UnavailableError("the server is being shut down: ask another")
        version = self.models[name].version(number, label)
        self.requests += 1
        try:
            with version.request():
                yield version
        finally:
            self.requests -= 1
            if not self.requests and self._idle is not None:
                self._idle.set()

    async def load(self, name: str, settings: ModelSettings | None = None) -> None:
        """Load a model's versions as its policy chooses, and wait until they answer.

        settings   of a model that is not listed yet

        Raises NotFoundError if it is not listed and its settings do not list it either, and what loading its
        last version ended with. Cancelled, it goes on loading.
        """
        if settings is not None and name not in self.models:
            self.models[name] = ServedModel(settings)
        if name not in self.models and self._reread is not None:
            await self._follow_settings(self._reread)
        model = self.model(name)
        self._wanted.add(name)
        await self._in_background(self._load_model, model)

    async def _load_model(self, model: ServedModel) -> None:
        while any(each.state is VersionState.UNLOADING for each in model.versions.values()):
            await model.changing.park()
        await self._look_at(model, waits=True)
        while any(
            each.state in (VersionState.START, VersionState.LOADING) for each in model.versions.values()
        ):
            await model.changing.park()
        failed = [each.error for each in model.versions.values() if each.error is not None]
        if not model.available:
            raise (
                failed[-1]
                if failed
                else model.error
                or UnavailableError(f"model '{model.settings.name}' has no version that answers")
            )

    async def unload(self, name: str, *, waits: bool = True) -> None:
        """End all versions of a model once their requests have ended; NotFoundError if it is not listed.

        waits   whether for their end, or only until none of them takes a request
        """
        model = self.model(name)
        self._wanted.discard(name)
        if waits:
            await self._end(model, list(model.versions))
            return
        assert self._nursery is not None
        self._nursery.start_soon(self._end, model, list(model.versions))
        while model.available:
            await model.changing.park()

    async def _in_background(self, function: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Call a function in the task group of the models: it goes on when this is cancelled."""
        done, failures = trio.Event(), []  # type: trio.Event, list[OpError]

        async def call() -> None:
            try:
                await function(*args)
            except OpError as error:
                failures.append(error)
            finally:
                done.set()

        assert self._nursery is not None
        self._nursery.start_soon(call)
        await done.wait()
        if failures:
            raise failures[0]

    async def drain(self, seconds: float) -> None:
        """Take no more requests, and wait so long for those that run."""
        self.is_draining = True
        if self.requests:
            self._idle = trio.Event()
            with trio.move_on_after(seconds):
                await self._idle.wait()

    async def look(self) -> None:
        """Look at the settings and at all folders, and begin what has to be done."""
        if self._reread is not None:
            await self._follow_settings(self._reread)
        for name in list(self._wanted):
            if name in self.models:
                await self._look_at(self.models[name])

    async def _follow_settings(self, reread: Callable[[], Sequence[ModelSettings]]) -> None:
        try:
            found = {each.name: each for each in await trio.to_thread.run_sync(reread)}
        except OpError as error:
            logger.warning("the models' configuration stays as it was: %s", error.message)
            return
        assert self._nursery is not None
        for name, settings in found.items():
            model = self.models.get(name)
            if model is not None and model.is_listed:
                model.settings = settings
                continue
            if model is None:
                model = self.models[name] = ServedModel(settings)
            model.settings, model.is_listed = settings, True
            if not self.is_explicit:
                self._wanted.add(name)
        for name in [each for each in self.models if each not in found]:
            self.models[name].is_listed = False
            self._wanted.discard(name)
            self._nursery.start_soon(self._remove, self.models[name])

    async def _remove(self, model: ServedModel) -> None:
        await self._end(model, list(model.versions))
        is_gone = not (model.versions or model.is_listed)
        if is_gone and self.models.get(model.settings.name) is model:
            del self.models[model.settings.name]

    async def _look_at(self, model: ServedModel, *, waits: bool = False) -> None:
        """Begin to load a model's new versions; they are loaded when this returns if it `waits`."""
        assert self._nursery is not None
        async with model.looking:
            try:
                present = await trio.to_thread.run_sync(_present, model.settings.folder)
            except OSError as error:
                if model.error is None:
                    logger.warning("model '%s': its folder cannot be read: %s", model.settings.name, error)
                model.error = UnavailableError(f"the folder of model '{model.settings.name}' cannot be read")
                return
            model.error = None if present else _without_versions(model.settings)
            chosen = model.settings.policy.chosen(list(present))
            new = [number for number in chosen if await self._is_new(model, number, present[number])]
            if model.settings.name not in self._wanted:
                return  # it was unloaded while its folder was read
            for number in new:
                model.versions[number] = ServedVersion(number, present[number])
        if waits:
            await self._follow(model, new, chosen)
        elif new or any(number not in chosen for number in model.versions):
            self._nursery.start_soon(self._follow, model, new, chosen)

    async def _is_new(self, model: ServedModel, number: int, folder: Path) -> bool:
        """Whether a version is to be loaded: it never was, or failed and its files have changed since."""
        known = model.versions.get(number)
        if known is None:
            return True
        if known.state is not VersionState.END or known.error is None:
            return known.state is VersionState.END
        if isinstance(known.error, ResourceExhaustedError | UnavailableError):
            return True
        try:
            return bool(await trio.to_thread.run_sync(fingerprint, folder) != known.fingerprint)
        except OSError:
            return False

    async def _follow(self, model: ServedModel, new: Sequence[int], chosen: Sequence[int]) -> None:
        """Load new versions, then end those that are not chosen, if one of the chosen answers."""
        async with trio.open_nursery() as nursery:
            for number in new:
                nursery.start_soon(self._load, model, model.versions[number])
        answers = [each.number for each in model.available if each.number in chosen]
        if answers or not chosen:
            await self._end(model, [number for number in model.versions if number not in chosen])

    async def _load(self, model: ServedModel, version: ServedVersion) -> None:
        """Load, plan and warm up a version; whatever goes wrong is its error."""
        if version.state is VersionState.END:
            return  # it was ended before it began
        with trio.CancelScope() as model.loading[version.number]:
            try:
                self._set(model, version, VersionState.LOADING)
                await self._open(model, version)
            except OpError as error:
                version.error = error
            except Exception as error:
                logger.exception("model '%s', version %d", model.settings.name, version.number)
                version.error = InternalError(f"{type(error).__name__}: {error}")
            else:
                self._set(model, version, VersionState.AVAILABLE)
        del model.loading[version.number]
        if version.state is not VersionState.AVAILABLE:
            if version.error is None:
                version.error = FailedPreconditionError("it was unloaded while it was being loaded")
            logger.warning(
                "model '%s', version %d does not answer: %s",
                model.settings.name,
                version.number,
                version.error.message,
            )
            with trio.CancelScope(shield=True):
                await version.close()
            self._set(model, version, VersionState.END)

    async def _open(self, model: ServedModel, version: ServedVersion) -> None:
        try:
            version.fingerprint = await trio.to_thread.run_sync(fingerprint, version.folder)
        except OSError as error:
            raise NotFoundError(f"version {version.number} cannot be read: {error.strerror}") from None
        self._check_memory(version, estimated_bytes(version.fingerprint))
        options = self.options
        with switching_quickly():
            loaded = await load_version(version.folder, config=options.config, target=options.target)
            version.open(loaded, model.settings.batching)
            if options.warms_up:
                await warm_up(version)
        try:
            now = await trio.to_thread.run_sync(fingerprint, version.folder)
        except OSError:
            now = None
        if now != version.fingerprint:
            # The old fingerprint stays, so that the next look reads the files again, as they are then.
            raise DataLossError(
                f"the files of version {version.number} changed while they were read: it is read again once "
                "they stay as they are"
            )

    def _check_memory(self, version: ServedVersion, needed: int) -> None:
        most = self.options.memory_bytes
        used = sum(each.estimated_bytes for model in self.models.values() for each in model.versions.values())
        if most is not None and used + needed > most:
            raise ResourceExhaustedError(
                f"version {version.number} takes about {needed:,} bytes, and {max(most - used, 0):,} of "
                f"{most:,} are left for all models together"
            )
        version.estimated_bytes = needed

    async def _end(self, model: ServedModel, numbers: Iterable[int]) -> None:
        """End versions: those that are being loaded at once, others when their requests have ended."""
        async with trio.open_nursery() as nursery:
            for number in numbers:
                version = model.versions[number]
                if number in model.loading:
                    model.loading[number].cancel()
                elif version.state is VersionState.START:
                    self._set(model, version, VersionState.END)
                elif version.state is VersionState.AVAILABLE:
                    nursery.start_soon(self._close, model, version)
        ended = [number for number, each in model.versions.items() if each.state is VersionState.END]
        for number in sorted(ended)[:-_ENDED_MAX]:
            del model.versions[number]

    async def _close(self, model: ServedModel, version: ServedVersion) -> None:
        version.state = VersionState.UNLOADING
        model.changing.unpark_all()
        self.on_change(model.settings.name, version)
        await version.close()
        version.estimated_bytes = 0
        self._set(model, version, VersionState.END)

    def _set(self, model: ServedModel, version: ServedVersion, state: VersionState) -> None:
        version.state = state
        model.changing.unpark_all()
        if state is VersionState.END:
            version.estimated_bytes = 0
        logger.info("model '%s', version %d: %s", model.settings.name, version.number, state.name)
        self.on_change(model.settings.name, version)


def _present(folder: Path) -> Mapping[int, Path]:
    """Return {number: folder} of a model's versions: the folder itself is version 1 if it is a model."""
    return {1: folder} if is_model(folder) else numbered(folder)


def _without_versions(settings: ModelSettings) -> OpError:
    return NotFoundError(
        f"No versions of servable {settings.name} found under base path {str(settings.folder)!r}"
    )


__all__ = ["LoadingOptions", "ModelManager", "ServedModel"]
