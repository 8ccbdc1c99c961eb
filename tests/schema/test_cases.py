import pytest

from tests.schema.cases import documents, expected, findings, report
from tfapp.problems import has_errors


def name(path):
    return f"{path.parent.name}/{path.name}"


@pytest.mark.parametrize("path", documents("valid"), ids=name)
def test_a_valid_document_has_no_errors(path):
    problems = findings(path)
    assert report(problems) == expected(path)
    assert not has_errors(problems)


@pytest.mark.parametrize("path", documents("invalid"), ids=name)
def test_an_invalid_document_has_the_findings_beside_it(path):
    problems = findings(path)
    assert report(problems) == expected(path)
    assert has_errors(problems)
