"""examples/support-agent, from `toolcrib apply` to an answer, with the commands of its README."""

import os
import shutil
import subprocess

from conftest import ROOT, Background, free_port, program


def test_the_support_agent(tmp_path, stopping):
    example = tmp_path / "support-agent"
    shutil.copytree(ROOT / "examples" / "support-agent", example, ignore=shutil.ignore_patterns("src"))
    shop, model = free_port(), free_port()
    for path in [*example.rglob("*.toml"), *example.rglob("*.json"), *example.rglob("*.yaml")]:
        path.write_text(path.read_text().replace("127.0.0.1:4010", f"127.0.0.1:{shop}").replace("127.0.0.1:4011", f"127.0.0.1:{model}"))
    command = [program("support-agent"), str(shop), str(model)]
    stopping.append(Background(command, tmp_path / "shop.log", f"http://127.0.0.1:{model}/requests"))

    def toolcrib(*arguments):
        env = {key: value for key, value in os.environ.items() if not key.startswith("TOOLCRIB_")}
        done = subprocess.run(
            [program("toolcrib"), *arguments], cwd=example, env=env, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    tried = toolcrib("apply", "--dry-run", "support")
    assert "tool refund_order: created" in tried and "nothing was written" in tried
    assert "skill refunds: created" in toolcrib("apply", "support")
    again = toolcrib("apply", "support")
    assert again.count("unchanged") == 5 and "created" not in again
    said = toolcrib("chat", "support", "Where is order 1002?")
    assert "[calls find_order" in said and "Your office chair is in transit." in said
    assert "nothing is wrong" in toolcrib("doctor")
