"""Answers the uploads of all tasks for images: reads that of the current request and streams
the backend's answers.
"""

from __future__ import annotations

from dataclasses import dataclass

from catalog import Catalog
from gateway.errors import TaskNotServed, UnsupportedEncoding
from gateway.http.bodies import Incoming
from gateway.http.request import request
from gateway.metrics import Telemetry
from gateway.schemas import Schema, parse_parameters
from gateway.settings import Settings
from gateway.uploads.images import FrameAnswer, ImageUpload, Uploads


@dataclass(frozen=True)
class ImageService:
    """Takes the uploads of all tasks."""

    catalog: Catalog
    uploads: Uploads
    telemetry: Telemetry
    settings: Settings

    def answer(
        self, task: str, parameters: type[Schema] = Schema, *, is_single: bool = False
    ) -> list[FrameAnswer]:
        """One answer per row of the upload; the handler gets the URL's `parameters`. Raises a
        Problem, also where an upload that `is_single` has two images."""
        if request.headers.get("Content-Encoding", "") not in ("", "identity"):
            raise UnsupportedEncoding("Expected images as they are.", "identity")
        if task not in self.catalog.tasks:
            raise TaskNotServed(task)
        call = request.open_call(limit_s=self.settings.upload_timeout_s)
        upload = ImageUpload(
            Incoming(request.stream, request.content_length, call.client),
            request.content_type or "",
            call,
        )
        answers = self.uploads.answer(
            upload,
            self.catalog.tasks[task].name,
            parameters=parse_parameters(parameters, request.args),
            is_single=is_single,
        )
        frames = sum(answer.frames for answer in answers)
        self.telemetry.frames.labels(task).inc(frames)
        return answers
