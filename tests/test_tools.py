import os

import pytest

from tfapp import tools


@pytest.mark.parametrize(
    ("words", "message", "reason", "errno"),
    [
        (["/no/tool"], "/no/tool cannot be run: {}", "No such file or directory", 2),
        (["no-such-tool"], "no-such-tool cannot be run: {}", "it is not on PATH", 2),
        (["sleep", "60"], "sleep fails: {}", "no answer within 0.5 s", 0),
        (["sh", "-c", "echo a >&2; echo 'b ' >&2; echo c; exit 3"], "sh fails: {}", "b", 0),
        (["sh", "-c", "echo c; exit 3"], "sh fails: {}", "c", 0),
        (["sh", "-c", "exit 3"], "sh fails: {}", "exit code 3", 0),
        (["sh", "-c", "echo 'sh: no such key' >&2; exit 1"], "{}", "sh: no such key", 0),
    ],
)
def test_a_tool_that_does_not_work(words, message, reason, errno):
    with pytest.raises(tools.ToolError) as raised:
        tools.output(words, os.environ, 0.5)
    assert str(raised.value) == message.format(reason)
    assert (raised.value.reason, raised.value.errno) == (reason, errno)


def test_what_a_tool_is_given(tmp_path):
    words = ["sh", "-c", "pwd; cat; echo $X; printf '\\377' >&2; exit 3"]
    done = tools.run(words, {"PATH": os.environ["PATH"], "X": "y"}, 10.0, tmp_path, "asked\n")
    assert done == tools.Done(3, f"{tmp_path}\nasked\ny\n".encode(), "\ufffd")


def test_the_output_of_a_tool():
    assert tools.output(["sh", "-c", "printf 'a\\377'; echo warned >&2"], None, 10.0) == "a\ufffd"
