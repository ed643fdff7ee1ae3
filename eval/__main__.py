"""`make eval`: the figures of the model that THREADKEEP_LLM_BASE_URL names, or of a few rules where it names none."""

import asyncio
import os
import sys

from eval.labels import load
from eval.rules import answer
from eval.running import run
from eval.scoring import Figures
from threadkeep.memory.endpoints import Endpoints
from threadkeep.settings import Settings
from threadkeep.testing.openai_server import OpenAIServer


def main() -> None:
    """Print the figures; with `-v` also what was missed and what should not have been kept."""
    url = os.environ.get("THREADKEEP_LLM_BASE_URL")
    if url:
        model = os.environ.get("THREADKEEP_LLM_MODEL")
        print(f"Extraction by {model} at {url}\n")
        figures = asyncio.run(_figures(url, model, os.environ.get("THREADKEEP_LLM_API_KEY")))
    else:
        print("Extraction by a few rules; set THREADKEEP_LLM_BASE_URL and THREADKEEP_LLM_MODEL for a language model\n")
        with OpenAIServer([], always=answer) as server:
            figures = asyncio.run(_figures(server.url, "rules", None))
    if "-v" in sys.argv:
        print("\n".join(figures.remarks), end="\n\n")
    print(figures.table())


async def _figures(url: str, model: str | None, key: str | None) -> Figures:
    settings = Settings(llm_base_url=url, llm_model=model, llm_api_key=key, llm_attempts=4)
    return await run(load(), settings, Endpoints(settings))


if __name__ == "__main__":
    main()
