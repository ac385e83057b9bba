"""`toolcrib apply`: what a folder says is what the agent may do, and nothing is passed over in silence."""

import os
import subprocess

from conftest import program

TOOL = """
name = "{name}"
description = "Look at {name}"
[request]
url = "https://api.example.com/{name}"
"""


def toolcrib(folder, *arguments, shell=None):
    env = {key: value for key, value in os.environ.items() if not key.startswith("TOOLCRIB_")}
    command = [program("toolcrib"), *arguments]
    if shell:
        command = ["bash", "-c", shell, "bash", *command]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)


def agent_of(tmp_path, *tools):
    folder = tmp_path / "clerk"
    (folder / "tools").mkdir(parents=True, exist_ok=True)
    (folder / "agent.toml").write_text('description = "A clerk"\n')
    for name in tools:
        (folder / "tools" / f"{name}.toml").write_text(TOOL.format(name=name))
    return folder


def offered(tmp_path):
    return toolcrib(tmp_path, "agents", "tools", "clerk").stdout


def test_an_agent_never_gains_tools_by_losing_its_last(tmp_path):
    folder = agent_of(tmp_path, "orders", "parcels")
    assert toolcrib(tmp_path, "apply", "clerk").returncode == 0
    assert "orders" in offered(tmp_path) and "parcels" in offered(tmp_path)
    (folder / "tools" / "orders.toml").unlink()
    assert '-     "orders"' in toolcrib(tmp_path, "apply", "clerk").stdout
    (folder / "tools" / "parcels.toml").unlink()
    (folder / "tools").rmdir()
    assert toolcrib(tmp_path, "apply", "clerk").returncode == 0
    assert "orders" not in offered(tmp_path) and "parcels" not in offered(tmp_path)
    assert "nothing to change" in toolcrib(tmp_path, "apply", "clerk").stdout


def test_what_is_applied_is_written_also_when_nobody_reads(tmp_path):
    agent_of(tmp_path, "orders")
    for reader in ["true", "head -c 1"]:
        done = toolcrib(tmp_path, "apply", "clerk", shell=f'"$@" | {reader}; exit "${{PIPESTATUS[0]}}"')
        assert done.returncode == 0, done.stderr
        assert "orders" in offered(tmp_path)
        assert toolcrib(tmp_path, "agents", "rm", "clerk").returncode == 0


def test_all_that_is_wrong_is_said_with_its_file(tmp_path):
    folder = agent_of(tmp_path, "orders")
    (folder / "agent.toml").write_text('instrctions = "Help."\n')
    (folder / "tools" / "parcels.toml").write_text('name = "parcels"\n')
    (folder / "tools" / "notes.txt").write_text("not a tool")
    (folder / "skills" / "refunds").mkdir(parents=True)
    (folder / "skills" / "refunds" / "skill.md").write_text("---\ndescription: d\n---\ntext")
    (folder / "skills" / "tone").mkdir()
    (folder / "skills" / "tone" / "SKILL.md").write_text("---\nname: other\ndescription: d\n---\ntext")
    done = toolcrib(tmp_path, "apply", "clerk")
    assert done.returncode == 1
    for words in [
        'clerk/agent.toml: /instrctions: there is no key "instrctions" here; did you mean "instructions"?',
        "clerk/tools/parcels.toml: ",
        "warning: clerk/tools/notes.txt is no .toml",
        "clerk/skills/refunds holds no SKILL.md",
        "clerk/skills/tone/SKILL.md: ",
    ]:
        assert words in done.stderr, done.stderr
    assert "clerk" not in toolcrib(tmp_path, "migrate").stdout + toolcrib(tmp_path, "agents", "list").stdout


def test_a_turn_can_be_read_afterwards(tmp_path):
    folder = agent_of(tmp_path, "orders")
    (folder / "agent.toml").write_text('instructions = "Help."\nprovider = "nowhere"\nmodel = "m"\n')
    applied = toolcrib(tmp_path, "apply", "clerk")
    assert '[providers.nowhere]' in applied.stderr, "what doctor would say is said at once"
    said = toolcrib(tmp_path, "chat", "clerk", "hello", "--session", "s-1")
    assert said.returncode == 1 and "model.not_configured" in said.stderr
    turn = said.stderr.split("turn ")[1].split(";")[0]
    shown = toolcrib(tmp_path, "turns", "show", turn).stdout
    assert "session s-1: failed" in shown and "> hello" in shown and "[model.not_configured]" in shown
    assert "> hello" in toolcrib(tmp_path, "turns", "transcript", "clerk", "s-1").stdout
    doctor = toolcrib(tmp_path, "doctor")
    assert doctor.returncode == 1 and "agent.provider" in doctor.stdout, "an agent that can't answer is broken"


def test_what_is_there_and_is_no_folder_is_no_absence(tmp_path):
    folder = agent_of(tmp_path, "orders")
    assert toolcrib(tmp_path, "apply", "clerk").returncode == 0
    (folder / "tools").rename(folder / "Tools")
    warned = toolcrib(tmp_path, "apply", "--dry-run", "clerk")
    assert "warning: clerk/Tools is no part of an agent's folder" in warned.stderr
    for wrong in [lambda path: path.write_text("x"), lambda path: path.symlink_to("nowhere")]:
        for name in ["tools", "skills", "instructions.md"]:
            path = folder / name
            if name == "instructions.md" and wrong.__code__.co_names[0] == "write_text":
                continue
            wrong(path)
            done = toolcrib(tmp_path, "apply", "clerk")
            assert done.returncode == 1 and f"clerk/{name} is not a" in done.stderr, done.stderr + done.stdout
            path.unlink()
    assert "orders" in offered(tmp_path), "nothing was written"


def test_first_commands_at_once_make_one_database(tmp_path):
    env = {key: value for key, value in os.environ.items() if not key.startswith("TOOLCRIB_")}
    for round in range(5):
        command = [program("toolcrib"), "--db", f"new-{round}.db", "migrate"]
        pipe = subprocess.PIPE
        all_of_them = [subprocess.Popen(command, cwd=tmp_path, env=env, stdout=pipe, stderr=pipe) for _ in range(8)]
        said = [one.communicate(timeout=60) for one in all_of_them]
        assert [one.returncode for one in all_of_them] == [0] * 8, said
