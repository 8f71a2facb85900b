"""The manager's HTTP API as an OpenAPI 3.1 document; the messages' schemas are those of their records."""

import inspect
from typing import Any, Final

import msgspec

from specon_manager import __version__
from specon_manager.backends.kube.transport.resources import Object
from specon_manager.backends.local.jobs import LocalJob
from specon_manager.core.state import State
from specon_manager.model.expected_start import ExpectedStart
from specon_manager.runtime.requests import MoveTold, MoveWanted, PauseTold, PauseWanted
from specon_sidecar.wire import Acknowledgement, Instructions, Report, Resumable, Turns

_TEMPLATE: Final = "#/components/schemas/{name}"
_RECORDS: Final = (
    Report,
    Acknowledgement,
    Instructions,
    Resumable,
    Turns,
    LocalJob,
    MoveWanted,
    MoveTold,
    PauseWanted,
    PauseTold,
    State,
    ExpectedStart,
)
_PROBLEMS: Final = {
    400: "The message is wrong; the error names the field.",
    401: "No bearer token is shown.",
    403: "The token is not that of this incarnation, or not the owner's; or it may not be done here.",
    404: "There is no such request, or it is not done here.",
    408: "The body was not there in time; the connection is closed.",
    409: "There is an objection; the error names it.",
    410: "This incarnation is over: nothing more is to be sent for it.",
    413: "The body is too long.",
    422: "The request is wrong; the error names the field.",
    429: "Too many messages of this incarnation.",
    503: "Nobody can take it now: a standby, a full disk, or an incarnation that is not known yet.",
}
_COME_AGAIN: Final = frozenset({429, 503})


def document() -> Object:
    """Return the document; webhook and status page are not part of it."""
    _, schemas = msgspec.json.schema_components(_RECORDS, ref_template=_TEMPLATE)
    schemas["Problem"] = {
        "type": "object",
        "properties": {"error": {"type": "string", "description": "The mistake, in words."}},
        "required": ["error"],
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "specon manager",
            "version": __version__,
            "description": (
                "Sidecars report to it and fetch their instructions; owners read the state and ask for "
                "moves. Times in messages are ages in seconds. Unknown fields of messages are ignored."
            ),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        # The port of a local manager is in manager.json of its state directory.
        "servers": [{"url": "/"}],
        "paths": _paths(),
        "components": {
            "schemas": _portable(schemas),
            "responses": {str(status): _problem(status) for status in _PROBLEMS},
            "securitySchemes": {
                "sidecar": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": (
                        "The token of one incarnation of a replica: on Kubernetes the projected service "
                        "account token of its pod for the audience specon.io/manager."
                    ),
                },
                "owner": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": (
                        "The file `token` of a local manager's state directory; on Kubernetes any user who "
                        "may get the non-resource URL /v1/state."
                    ),
                },
            },
        },
    }


def _paths() -> Object:
    report = {
        "summary": "Say how a replica is doing",
        "requestBody": _body("Report"),
        "responses": {"204": {"description": "Taken in."}},
    }
    answer = {
        "summary": "Answer an instruction",
        "requestBody": _body("Acknowledgement"),
        "responses": {"204": {"description": "Taken in."}},
    }
    whose = [
        _query("replica", {"type": "string"}, "namespace/job/role/index", required=True),
        _query("incarnation", {"type": "string"}, "The pod's UID on Kubernetes.", required=True),
    ]
    resumable = {
        "summary": "Ask from which checkpoint an incarnation may go on",
        "description": "The newest that is known; that of the move in flight, where there is one.",
        "parameters": whose,
        "responses": {"200": _answer("Resumable", "It, or none for the first incarnation.")},
    }
    output = {
        "summary": "Read what the trainer prints",
        "description": (
            "The log of a container of the pod to which the token is bound, as the API server has it, with "
            "the time before each line, until it ends. 404 where it is off, and on a local manager."
        ),
        "parameters": [
            *whose,
            _query("container", {"type": "string"}, "Its name.", required=True),
            _query("since", {"type": "string"}, "From when on, such as 2026-11-23T07:00:00Z."),
        ],
        "responses": {
            "200": {
                "description": "Lines, as they are printed.",
                "content": {"application/octet-stream": {"schema": {"type": "string"}}},
            }
        },
    }
    patience = _query(
        "wait",
        {"type": "number", "minimum": 0, "maximum": 60, "default": 0},
        "How long an answer may take when there is nothing new, seconds.",
    )
    turns = {
        "summary": "Ask when the trainer runs, for a few seconds to come",
        "description": (
            "For sidecars of pods with specon.io/share: time. Answered at once when turns are not those of "
            "`known`, else after `wait` seconds. Nobody is stopped without a fresh answer."
        ),
        "parameters": [*whose, patience, _query("known", {"type": "string"}, "The id of the last answer.")],
        "responses": {"200": _answer("Turns", "Its turns; without any it is never stopped.")},
    }
    fetch = {
        "summary": "Fetch the instructions for a replica",
        "description": "Answered at once when one is not in `known`, else after `wait` seconds.",
        "parameters": [
            *whose,
            patience,
            _query("known", {"type": "string"}, "Identifiers of known instructions, between commas."),
        ],
        "responses": {"200": _answer("Instructions", "Orders for the sidecar, until it acknowledges them.")},
    }
    state = {
        "summary": "Read the whole state",
        "responses": {"200": _answer("State", "Nodes, jobs, replicas, moves and the last decisions.")},
    }
    starts = {
        "summary": "Read when jobs that wait are expected to start",
        "description": "By job, in seconds from now. Empty until somebody waits and it is worked out.",
        "responses": {
            "200": {
                "description": "The latest answer of the simulation beside the manager.",
                "content": _json(
                    {
                        "type": "object",
                        "additionalProperties": {"$ref": _TEMPLATE.format(name="ExpectedStart")},
                    }
                ),
            }
        },
    }
    submit = {
        "summary": "Submit a job",
        "description": "Local managers only; on Kubernetes, where jobs come by its own API, 422.",
        "requestBody": _body("LocalJob"),
        "responses": {
            "201": {
                "description": "Submitted, and on record: it survives the manager.",
                "content": _json(
                    {"type": "object", "properties": {"job": {"type": "string"}}, "required": ["job"]}
                ),
            }
        },
    }
    move = {
        "summary": "Ask for a move",
        "description": (
            "Either of a replica or of a whole job; one replica of a job that trains as one moves all of it. "
            "Under the same `id` the same request is answered with the same move, and another one refused "
            "(409). Local managers only: on Kubernetes create a Migration; this is 403 there."
        ),
        "requestBody": _body("MoveWanted"),
        "responses": {
            "201": _answer("MoveTold", "It has begun, and is on record."),
            "202": _answer("MoveTold", "It is queued until others have ended, and on record."),
        },
    }
    withdraw = {
        "summary": "Withdraw the request for a move that has not begun",
        "description": "Local managers only: on Kubernetes delete the Migration; this is 403 there.",
        "parameters": [
            {
                "name": "move",
                "in": "path",
                "required": True,
                "description": "The id that was answered.",
                "schema": {"type": "string"},
            }
        ],
        "responses": {"200": _answer("MoveTold", "It is withdrawn, and that is on record.")},
    }
    pause = {
        "summary": "Order nothing new from now on",
        "description": "Moves in flight come to their end. Local managers only.",
        "requestBody": _body("PauseWanted", required=False),
        "responses": {"200": _answer("PauseTold", "Nothing new is ordered.")},
    }
    resume = {
        "summary": "End the pause",
        "responses": {"200": _answer("PauseTold", "There is no pause.")},
    }
    probe = {"200": _text("Yes."), "503": _text("Not yet.")}
    metrics = {
        "summary": "Metrics in the format of Prometheus",
        "responses": {"200": _text("All of them.")},
    }
    sidecar: list[Object] = [{"sidecar": []}]
    owner: list[Object] = [{"owner": []}]
    messages, orders = (401, 403, 410, 429, 503), (401, 403, 503)
    bodies = (408, 413)
    return {
        "/healthz": {"get": {"summary": "Whether it lives", "responses": {"200": _text("Yes.")}}},
        "/readyz": {"get": {"summary": "Whether it may be asked", "responses": probe}},
        "/metrics": {"get": metrics},
        "/v1/reports": {"post": _operation(report, sidecar, 400, *bodies, *messages)},
        "/v1/instructions": {"get": _operation(fetch, sidecar, 400, *messages)},
        "/v1/acknowledgements": {"post": _operation(answer, sidecar, 400, *bodies, *messages)},
        "/v1/checkpoint": {"get": _operation(resumable, sidecar, *messages)},
        "/v1/turns": {"get": _operation(turns, sidecar, 400, *messages)},
        "/v1/output": {"get": _operation(output, sidecar, 400, 404, 409, *messages)},
        "/v1/state": {"get": _operation(state, owner, *orders)},
        "/v1/starts": {"get": _operation(starts, owner, *orders)},
        "/v1/jobs": {"post": _operation(submit, owner, 409, 422, *bodies, *orders)},
        "/v1/moves": {"post": _operation(move, owner, 409, 422, *bodies, *orders)},
        "/v1/moves/{move}": {"delete": _operation(withdraw, owner, 404, 409, *orders)},
        "/v1/pause": {
            "post": _operation(pause, owner, 422, *bodies, *orders),
            "delete": _operation(resume, owner, *orders),
        },
    }


def _operation(described: Object, security: list[Object], *problems: int) -> Object:
    responses = dict(described["responses"])
    for status in sorted(problems):
        responses[str(status)] = {"$ref": f"#/components/responses/{status}"}
    return described | {"security": security, "responses": responses}


def _body(name: str, *, required: bool = True) -> Object:
    return {"required": required, "content": _json({"$ref": _TEMPLATE.format(name=name)})}


def _answer(name: str, description: str) -> Object:
    return {"description": description, "content": _json({"$ref": _TEMPLATE.format(name=name)})}


def _problem(status: int) -> Object:
    described: Object = {
        "description": _PROBLEMS[status],
        "content": _json({"$ref": _TEMPLATE.format(name="Problem")}),
    }
    if status == 413:  # noqa: PLR2004  (Content Too Large: answered before anything of ours runs)
        described["content"] = {"text/plain": {"schema": {"type": "string"}}}
    if status in _COME_AGAIN:
        described["headers"] = {
            "Retry-After": {
                "description": "After how many seconds to come again.",
                "schema": {"type": "integer", "minimum": 1},
            }
        }
    return described


def _json(schema: Object) -> Object:
    return {"application/json": {"schema": schema}}


def _text(description: str) -> Object:
    return {"description": description, "content": {"text/plain": {"schema": {"type": "string"}}}}


def _query(name: str, schema: Object, description: str, *, required: bool = False) -> Object:
    return {
        "name": name,
        "in": "query",
        "required": required,
        "description": description,
        "schema": schema,
    }


def _portable(schema: Any) -> Any:
    """Return the schema with the end of a text as other languages know it, and docstrings without indents."""
    if isinstance(schema, dict):
        return {key: _reword(key, value) for key, value in schema.items()}
    return [_portable(one) for one in schema] if isinstance(schema, list | tuple) else schema


def _reword(key: str, value: Any) -> Any:
    if key == "pattern" and isinstance(value, str):
        return value.replace(r"\Z", "$")
    # msgspec before 0.23 leaves them in.
    return inspect.cleandoc(value) if key == "description" and isinstance(value, str) else _portable(value)
