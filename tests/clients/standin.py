"""A model's API on loopback that answers "ok" and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Messages:
    """Anthropic's Messages API, as far as one turn of a client needs it."""

    path = "/v1/messages"

    @staticmethod
    def stream(body: dict[str, Any]) -> bytes:
        return _stream(body)

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
                if "count_tokens" in self.path:
                    self.reply(b'{"input_tokens": 10}', "application/json")
                elif outer.path in self.path:
                    outer.asked.append(body)
                    self.reply(outer.stream(body), "text/event-stream")
                else:
                    self.reply(b"{}", "application/json")

            def do_GET(self) -> None:
                self.reply(b"{}", "application/json")

            def reply(self, body: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                """Nothing on standard error."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Chat(Messages):
    """OpenAI's chat completions."""

    path = "/chat/completions"

    @staticmethod
    def stream(body: dict[str, Any]) -> bytes:
        head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        said = {"index": 0, "delta": {"role": "assistant", "content": "ok"}, "finish_reason": None}
        end = {"index": 0, "delta": {}, "finish_reason": "stop"}
        chunks = [{**head, "choices": [said]}, {**head, "choices": [end], "usage": usage}]
        lines = [json.dumps(chunk) for chunk in chunks] + ["[DONE]"]
        return "".join(f"data: {line}\n\n" for line in lines).encode()


def _stream(body: dict[str, Any]) -> bytes:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "content": [],
        "model": body.get("model", "m"), "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "ok"},
        },
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 1},
        },
        {"type": "message_stop"},
    ]
    return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events).encode()
