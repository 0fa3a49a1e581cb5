"""The settings in force: as the running daemon holds them, or as the files have them.

A daemon keeps the last good values of a settings.json that was damaged since; a process that reads
the file now cannot know them. So whoever tells of settings asks the daemon first.
"""

from __future__ import annotations

import os
from typing import Any

from claudemem_daemon.client import Client
from claudemem_daemon.pipeline import Pipeline
from claudemem_daemon.question import Question
from claudemem_daemon.shapes import settings_shape, warning_shapes

OF_SETTINGS = ("setting", "mode_", "observer_")
"""How the codes of warnings begin that are about settings and what lies beside them."""


def of_daemon(client: Client, question: Question) -> dict[str, Any]:
    """`settings_path`, `settings` and `warnings` for the caller of this question. Raises
    `Unreachable` where no daemon answers."""
    # A project that no store can have: only the settings are wanted.
    answer = client.post("/v1/explain", {"projects": ["/"], "env": dict(question.env)})
    folder = answer["settings"]["CLAUDE_MEM_DATA_DIR"]["value"]
    return {
        "settings_path": os.path.join(folder, "settings.json"),
        "settings": answer["settings"],
        "warnings": [one for one in answer["warnings"] if one["code"].startswith(OF_SETTINGS)],
    }


def of_files(pipeline: Pipeline, question: Question) -> dict[str, Any]:
    """The same, read here."""
    settings = pipeline.configuration.snapshot(question)
    return {
        "settings_path": settings.settings_path,
        "settings": settings_shape(settings),
        "warnings": warning_shapes(settings.warnings),
    }
