"""Asks a language model, for the kinds that do so when LLM_SERVER_URL is set."""

import msgspec


def ask_model(url: str, prompt: str) -> str:
    """One chat completion of a server that speaks the common /v1/chat/completions form."""
    from urllib.request import Request, urlopen

    body = msgspec.json.encode({"messages": [{"role": "user", "content": prompt}]})
    request = Request(f"{url.rstrip('/')}/v1/chat/completions", body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as reply:
        answer = msgspec.json.decode(reply.read(1_000_000))
    return str(answer["choices"][0]["message"]["content"])
