"""What packages become on a cluster: golden/<case>/objects.yaml, and golden/<case>/problems.txt.
`pytest tests/compiler tests/engines/kubernetes --update-golden` writes them."""

import pytest

from tests.engines.kubernetes.golden import CASES, GOLDEN, compiled_case, without_hashes
from tfapp.engines.kubernetes.objects import rendered
from tfapp.engines.kubernetes.pods import check
from tfapp.problems import text_report


@pytest.mark.parametrize("case", CASES)
def test_golden(case, tmp_path, request):
    compiled, at = compiled_case(case, tmp_path)
    problems = sorted(check(compiled.plan, at))
    found = {
        "objects.yaml": without_hashes(rendered(compiled, at)),
        "problems.txt": text_report(problems).replace(f"{tmp_path}/", "") + "\n",
    }
    if request.config.getoption("--update-golden"):
        for name, text in found.items():
            (GOLDEN / case / name).write_text(text, encoding="utf-8")
    expected = {name: (GOLDEN / case / name).read_text(encoding="utf-8") for name in found}
    assert found == expected
