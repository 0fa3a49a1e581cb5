"""`allow` and `deny`: whether a store that a checkout brings along may be read."""

from __future__ import annotations

import os

import click

from claudemem_daemon.api import open_pipeline
from claudemem_daemon.cli import screen
from claudemem_daemon.cli.options import folder, path_text
from claudemem_daemon.errors import StoreError
from claudemem_daemon.pipeline import Pipeline
from claudemem_daemon.stores.locate import checkout_stores


@click.command("allow")
@click.argument("path", required=False, type=click.Path())
def allow_command(path: str | None) -> None:
    """Allow reading a store inside a checkout, or one that the checkout's own files name.

    PATH is the store or the checkout, by default the current folder. The file is remembered as it is
    now: another one in its place has to be allowed again.
    """
    with open_pipeline(os.environ) as pipeline:
        for store in _stores(path, pipeline):
            pipeline.trust.allow(store)
            screen.headed("allowed:", screen.home(store))


@click.command("deny")
@click.argument("path", required=False, type=click.Path())
def deny_command(path: str | None) -> None:
    """Take `allow` back for a store, or for every store of a checkout.

    PATH is the store or the checkout, by default the current folder. Where nothing is allowed it
    says so and exits 0.
    """
    with open_pipeline(os.environ) as pipeline:
        given = folder(path)
        real = os.path.realpath(given)
        allowed = pipeline.trust.read().stores
        inside = [store for store in allowed if store == real or store.startswith(real + "/")]
        named = [] if os.path.isfile(given) else list(_named(given, pipeline))
        denied = [store for store in dict.fromkeys((*inside, *named)) if pipeline.trust.deny(store)]
        for store in denied:
            screen.headed("denied:", screen.home(store))
        if not denied:
            screen.say(
                f"nothing to take back: no store of {screen.home(given)} is allowed", "yellow"
            )


def _stores(path: str | None, pipeline: Pipeline) -> tuple[str, ...]:
    given = folder(path)
    if not os.path.isdir(given):
        return (given,)
    stores = _named(given, pipeline)
    if not stores:
        raise StoreError(
            f"{path_text(given)}: this checkout names no store that exists; name the file",
            path=given,
            reason="missing",
        )
    return stores


def _named(given: str, pipeline: Pipeline) -> tuple[str, ...]:
    repository = pipeline.repositories.resolve(given)
    return checkout_stores(repository.top or given, pipeline.trust)
