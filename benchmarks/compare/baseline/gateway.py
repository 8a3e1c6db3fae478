"""The baseline's gateway: reads `tgt_lang` and forwards the request unchanged."""

import requests
from flask import Flask, Response, request

_TIMEOUT_S = 86_400


def create_app(predictions_url: str) -> Flask:
    """Return the application. The URL of a model is `predictions_url`, `/` and its language."""
    app = Flask(__name__)

    @app.post("/")
    def translate() -> Response:
        asked = request.get_json(force=True)
        answer = requests.post(
            f"{predictions_url}/{asked['tgt_lang']}", json=asked, timeout=_TIMEOUT_S
        )
        return Response(
            answer.content, answer.status_code, content_type="application/json"
        )

    return app
