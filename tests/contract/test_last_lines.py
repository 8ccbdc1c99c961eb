"""Why a program has ended, by its own last lines."""

import pytest

from tfapp.contract.last_lines import last_word, raised, tells_something

LAST_WORDS = {
    "": "",
    "\n \n": "",
    "one\ntwo.\n": "two",
    "ValueError: bad\nterminate called without an active exception": "ValueError: bad",
    "KeyError: 1\nThe above was the cause:\n  at\ntf.errors.UnavailableError: Socket closed\nbye": (
        "tf.errors.UnavailableError: Socket closed"
    ),
    "KeyboardInterrupt": "KeyboardInterrupt",
    "x" * 400: "x" * 297 + "...",
}


@pytest.mark.parametrize("lines", LAST_WORDS)
def test_the_line_that_says_why(lines):
    assert last_word(lines) == LAST_WORDS[lines]


ONE = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    g()\nKeyError: 1'
OTHER = 'Traceback (most recent call last):\n  File "a.py", line 5, in h\nvalue.BadError'
LED = "\n\nThe above exception was the direct cause of the following exception:\n\n"
DURING = "\n\nDuring handling of the above exception, another exception occurred:\n\n"


@pytest.mark.parametrize(
    ("lines", "name", "trace"),
    [
        (f"a\n{ONE}\nbye", "KeyError", f"{ONE}\nbye"),
        (f"a\n{ONE}{LED}{OTHER}", "value.BadError", f"{ONE}{LED}{OTHER}"),
        (f"{OTHER}{DURING}{OTHER}{LED}{ONE}", "KeyError", f"{OTHER}{DURING}{OTHER}{LED}{ONE}"),
        (f"{ONE}\nit goes on\n{OTHER}", "value.BadError", OTHER),
        (f"{OTHER[:40]}", "", OTHER[:40]),
    ],
)
def test_an_exception_with_those_that_led_to_it(lines, name, trace):
    assert raised(lines) == (name, trace)


def test_what_is_no_traceback():
    assert raised("ValueError: no") is None


START_UP = """\
WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
I0000 00:00:1795725079.557989   15002 cudart_stub.cc:31] Could not find cuda drivers on your machine
I0000 00:00:1795725079.814495   15002 port.cc:153] oneDNN custom operations are on. You may see
I0000 00:00:1795725079.814495   15002 cpu_feature_guard.cc:227] This TensorFlow binary is optimized
To enable the following instructions: AVX2 AVX512F FMA, in other operations, rebuild TensorFlow with
2024-03-01 10:00:00.123456: I tensorflow/core/util/port.cc:113] oneDNN custom operations are on.
2024-03-01 10:00:00.123456: E external/local_xla/xla/cuda/cuda_dnn.cc:9261] Unable to register cuDNN
E0000 00:00:1733.557989   15002 cuda_blas.cc:1418] Unable to register cuBLAS factory
W0000 00:00:1733.557989   15002 computation_placer.cc:177] computation placer already registered.
2024-03-01 10:00:00.123456: W tensorflow/compiler/tf2tensorrt/utils.cc:38] TF-TRT Warning: \
Could not find TensorRT
"""


@pytest.mark.parametrize("line", START_UP.splitlines())
def test_what_tensorflow_says_at_each_start(line):
    assert not tells_something(line)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "ValueError: see port.cc:153]",
        "E0000 00:00:1795725086.493887   15002 cuda_platform.cc:52] failed call to cuInit",
        "E0000 00:00:1795725086.493887   15002 cuda_dnn.cc:52] Could not create cudnn handle",
        '  File "port.py", line 3, in port',
    ],
)
def test_all_else_may_be_the_cause(line):
    assert tells_something(line)
