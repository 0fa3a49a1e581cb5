"""`config`: every setting, its value, and where it came from."""

from __future__ import annotations

import os

import click

from claudemem_daemon.api import open_corridor
from claudemem_daemon.cli.options import cwd_option, make_question, path_text, plain, table
from claudemem_daemon.server.shapes import as_json, settings_shape, warning_shapes


@click.command("config")
@cwd_option
@click.option("--json", "as_shape", is_flag=True, help="As JSON.")
def config_command(cwd: str | None, as_shape: bool) -> None:
    """Every setting as this shell's hooks get it: value and source.

    Strongest first: the environment, settings.json, the active mode, the built-in default.
    """
    with open_corridor(os.environ) as corridor:
        settings = corridor.configuration.snapshot(make_question(cwd=cwd))
    shape = settings_shape(settings)
    if as_shape:
        click.echo(
            as_json(
                {
                    "settings_path": settings.settings_path,
                    "settings": shape,
                    "warnings": warning_shapes(settings.warnings),
                }
            )
        )
        return
    click.echo(f"settings file: {path_text(settings.settings_path)}")
    rows = [["KEY", "VALUE", "FROM"]]
    for key, one in shape.items():
        value = one["value"]
        shown = ", ".join(value) if isinstance(value, tuple) else str(value)
        where = f": {path_text(one['detail'])}" if one["detail"] not in (None, key) else ""
        rows.append([key, plain(shown, 60) or "-", f"{_ORIGIN.get(one['origin'])}{where}"])
    for line in table(rows):
        click.echo(line)
    for warning in settings.warnings:
        click.echo(f"! {plain(warning.message, 400)}", err=True)


_ORIGIN = {
    "request": "this request",
    "caller": "environment",
    "daemon": "environment",
    "settings": "file",
    "mode": "mode",
    "default": "default",
}
