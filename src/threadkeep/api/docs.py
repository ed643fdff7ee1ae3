"""The documentation pages: Swagger UI, served from here, with nothing fetched from elsewhere."""

from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from threadkeep.api.errors import json_response

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Threadkeep API</title>
<link rel="stylesheet" href="static/swagger-ui.css">
</head>
<body>
<div id="api"></div>
<script src="static/swagger-ui-bundle.js"></script>
<script>
SwaggerUIBundle({url: "../openapi.json", dom_id: "#api", deepLinking: true, persistAuthorization: true});
</script>
</body>
</html>
"""


def routes(prefix: str, document: dict[str, Any]) -> list[BaseRoute]:
    """`openapi.json` and the pages that show it."""

    async def openapi(request: Request) -> Response:
        return json_response(document)

    async def page(request: Request) -> Response:
        return HTMLResponse(_PAGE)

    return [
        Route(f"{prefix}/openapi.json", openapi),
        Route(f"{prefix}/docs/", page),
        Mount(f"{prefix}/docs/static", StaticFiles(directory=_static_folder())),
    ]


def _static_folder() -> Path:
    with as_file(files("swagger_ui") / "static") as folder:
        return Path(folder)
